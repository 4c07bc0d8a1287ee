#include <array>
#include <limits>
#include <type_traits>

#include "families/reductions/computation.h"
#include "families/reductions/walk.h"
#include "tensors/elements.h"

namespace acl_host {
namespace {

// Rows are compared with so many results at a time, which are put together in the end.
constexpr int64_t kAlong = 128;
constexpr int64_t kRowPart = 8192;

// Elements as integers in the same order, so that the largest has the same bits whatever is compared first: 0 is larger
// than -0, and NaN, of which there is one, than all numbers.
template <typename T>
struct Key {
  using Type = T;
  static Type Of(T element) { return element; }
  static T Element(Type key) { return key; }
};

template <>
struct Key<Bool> {
  using Type = uint8_t;
  static Type Of(Bool element) { return element.value != 0 ? 1 : 0; }
  static Bool Element(Type key) { return {key}; }
};

template <typename T, typename Bits, Bits kInfinity>
struct FloatKey {
  using Type = Bits;
  static constexpr Bits kAllButSign = std::numeric_limits<Bits>::max();

  static Type Ordered(Bits bits) { return static_cast<Bits>(bits < 0 ? bits ^ kAllButSign : bits); }
  static Type Of(T element) {
    const auto bits = BitCast<Bits>(element);
    return static_cast<Bits>(bits & kAllButSign) > kInfinity ? kAllButSign : Ordered(bits);
  }
  static T Element(Type key) { return BitCast<T>(Ordered(key)); }
};
template <>
struct Key<Float16> : FloatKey<Float16, int16_t, 0x7C00> {};
template <>
struct Key<BFloat16> : FloatKey<BFloat16, int16_t, 0x7F80> {};
template <>
struct Key<float> : FloatKey<float, int32_t, 0x7F800000> {};
template <>
struct Key<double> : FloatKey<double, int64_t, 0x7FF0000000000000> {};

template <typename T>
using KeyOf = typename Key<T>::Type;

template <typename T>
void RaiseTo(KeyOf<T>* __restrict keys, const std::byte* __restrict row, int64_t count, int64_t stride) {
  for (int64_t i = 0; i < count; ++i) keys[i] = std::max(keys[i], Key<T>::Of(LoadElement<T>(row, i * stride)));
}

template <typename T>
class Maxima {
 public:
  using K = KeyOf<T>;

  Maxima(const Walk& walk, const std::byte* elements) : walk_(walk), along_(walk), across_(walk), elements_(elements) {}

  [[nodiscard]] int64_t pieces() const { return walk_.reduces_row ? along_.count() : across_.count(); }

  void Make(int64_t from, int64_t columns, int64_t begin, int64_t end, K* keys) const {
    walk_.reduces_row ? MakeAlong(from, begin, end, keys) : MakeAcross(from, columns, begin, end, keys);
  }

 private:
  static constexpr K kLowest = std::numeric_limits<K>::lowest();

  void MakeAlong(int64_t from, int64_t begin, int64_t end, K* key) const {
    alignas(64) std::array<K, kAlong> keys;
    keys.fill(kLowest);
    for (int64_t index = begin; index < end; ++index) {
      const Piece piece = along_.At(index);
      const std::byte* const row = elements_ + (from + piece.first) * kBytes;
      int64_t i = 0;
      if (walk_.row.stride == 1) {
        for (; i + kAlong <= piece.count; i += kAlong) RaiseTo<T>(keys.data(), row + i * kBytes, kAlong, 1);
        RaiseTo<T>(keys.data(), row + i * kBytes, piece.count - i, 1);
      } else {
        for (; i < piece.count; i += kAlong) {
          RaiseTo<T>(keys.data(), row + i * walk_.row.stride * kBytes, std::min(kAlong, piece.count - i),
                     walk_.row.stride);
        }
      }
    }
    *key = *std::max_element(keys.begin(), keys.end());
  }

  void MakeAcross(int64_t from, int64_t columns, int64_t begin, int64_t end, K* keys) const {
    alignas(64) std::array<K, kSideBySide> joined;
    const int64_t most = across_.joined() * columns;
    std::fill_n(joined.begin(), most, kLowest);
    for (int64_t index = begin; index < end; ++index) {
      const Piece piece = across_.At(index, columns);
      RaiseTo<T>(joined.data(), elements_ + (from + piece.first) * kBytes, piece.count, 1);
    }
    std::copy_n(joined.begin(), columns, keys);
    for (int64_t i = columns; i < most; ++i) {
      keys[i % columns] = std::max(keys[i % columns], joined[static_cast<size_t>(i)]);
    }
  }

  static constexpr int64_t kBytes = sizeof(T);

  const Walk& walk_;
  const PiecesAlong<kRowPart> along_;
  const PiecesAcross across_;
  const std::byte* const elements_;
};

template <typename T>
void Reduce(const Reduction& reduction, const KernelArguments& arguments) {
  using K = KeyOf<T>;
  const Walk walk = WalkOf(reduction);
  const Maxima<T> maxima(walk, arguments.inputs[0]);
  ReduceInParts<K>(
      reduction, walk, arguments, maxima.pieces(),
      [&](int64_t from, int64_t columns, int64_t begin, int64_t end, K* keys) {
        maxima.Make(from, columns, begin, end, keys);
      },
      [](K* keys, const K* more, int64_t columns) {
        for (int64_t i = 0; i < columns; ++i) keys[i] = std::max(keys[i], more[i]);
      },
      [&](int64_t to, int64_t columns, const K* keys) {
        for (int64_t i = 0; i < columns; ++i) {
          StoreElement(arguments.outputs[0], to + i * walk.row.result_stride, Key<T>::Element(keys[i]));
        }
      });
}

}  // namespace

template <>
void ReduceMax<VECTOR_LEVEL>::Run(const Reduction& reduction, const KernelArguments& arguments) {
  VisitNumberType(reduction.from, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (!kIsComplex<T>) Reduce<T>(reduction, arguments);
  });
}

}  // namespace acl_host
