#include <algorithm>
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
// So many rows are compared with each other first.
constexpr size_t kRows = 4;

// Elements as integers in the same order, so that the largest has the same bits whatever is compared first: 0 is larger
// than -0, and NaN, of which there is one, than all numbers.
template <typename T>
struct Key {
  using Type = T;
  static constexpr bool kHasNan = false;
  static Type Of(T element) { return element; }
  static T Element(Type key) { return key; }
};

template <>
struct Key<Bool> {
  using Type = uint8_t;
  static constexpr bool kHasNan = false;
  static Type Of(Bool element) { return element.value != 0 ? 1 : 0; }
  static Bool Element(Type key) { return {key}; }
};

// NaN lies behind infinity, and below negative infinity if its sign is negative.
template <typename T, typename Bits, Bits kInfinity>
struct FloatKey {
  using Type = Bits;
  static constexpr bool kHasNan = true;
  static constexpr Bits kNan = std::numeric_limits<Bits>::max();

  static Bits Ordered(Bits bits) {
    using Unsigned = std::make_unsigned_t<Bits>;
    return static_cast<Bits>(bits ^ static_cast<Bits>(static_cast<Unsigned>(bits >> (sizeof(Bits) * 8 - 1)) >> 1U));
  }
  static Type Of(T element) { return Ordered(BitCast<Bits>(element)); }
  static Type Largest(Type most, Type least) { return most > kInfinity || least < ~kInfinity ? kNan : most; }
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

// The largest keys of some elements side by side, and the least ones, which show NaN.
template <typename T, int64_t kMost>
class Extremes {
 public:
  using K = KeyOf<T>;

  explicit Extremes(int64_t count) {
    std::fill_n(most_.begin(), count, std::numeric_limits<K>::lowest());
    if constexpr (Key<T>::kHasNan) std::fill_n(least_.begin(), count, std::numeric_limits<K>::max());
  }

  template <size_t kCount>
  void Add(const std::array<const std::byte*, kCount>& rows, int64_t count, int64_t stride = 1) {
    K* const __restrict most = most_.data();
    K* const __restrict least = least_.data();
    for (int64_t i = 0; i < count; ++i) {
      K largest = most[i];
      K smallest{};
      if constexpr (Key<T>::kHasNan) smallest = least[i];
      for (const std::byte* const row : rows) {
        const K key = Key<T>::Of(LoadElement<T>(row, i * stride));
        largest = std::max(largest, key);
        if constexpr (Key<T>::kHasNan) smallest = std::min(smallest, key);
      }
      most[i] = largest;
      if constexpr (Key<T>::kHasNan) least[i] = smallest;
    }
  }

  [[nodiscard]] K At(int64_t index) const {
    const auto i = static_cast<size_t>(index);
    if constexpr (Key<T>::kHasNan) return Key<T>::Largest(most_[i], least_[i]);
    return most_[i];
  }

 private:
  alignas(64) std::array<K, kMost> most_;
  alignas(64) std::array<K, Key<T>::kHasNan ? kMost : 1> least_;
};

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
  static constexpr int64_t kBytes = sizeof(T);

  void MakeAlong(int64_t from, int64_t begin, int64_t end, K* key) const {
    const int64_t stride = walk_.row.stride;
    Extremes<T, kAlong> keys(kAlong);
    for (int64_t index = begin; index < end; ++index) {
      const Piece piece = along_.At(index);
      const std::byte* const row = elements_ + (from + piece.first) * kBytes;
      const auto part = [&](int64_t first) { return row + first * stride * kBytes; };
      int64_t i = 0;
      if (stride == 1) {
        constexpr int64_t kTogether = kAlong * int64_t{kRows};
        for (; i + kTogether <= piece.count; i += kTogether) {
          keys.Add(std::array{part(i), part(i + kAlong), part(i + 2 * kAlong), part(i + 3 * kAlong)}, kAlong);
        }
        for (; i < piece.count; i += kAlong) keys.Add(std::array{part(i)}, std::min(kAlong, piece.count - i));
      } else {
        for (; i < piece.count; i += kAlong) keys.Add(std::array{part(i)}, std::min(kAlong, piece.count - i), stride);
      }
    }
    *key = keys.At(0);
    for (int64_t i = 1; i < kAlong; ++i) *key = std::max(*key, keys.At(i));
  }

  void MakeAcross(int64_t from, int64_t columns, int64_t begin, int64_t end, K* keys) const {
    const int64_t most = across_.joined() * columns;
    Extremes<T, kSideBySide> joined(most);
    const auto row = [&](int64_t first) { return elements_ + (from + first) * kBytes; };
    for (int64_t index = begin; index < end;) {
      const Piece piece = across_.At(index, columns);
      std::array<const std::byte*, kRows> rows{row(piece.first)};
      size_t equal = 1;
      for (; equal < kRows && index + static_cast<int64_t>(equal) < end; ++equal) {
        const Piece next = across_.At(index + static_cast<int64_t>(equal), columns);
        if (next.count != piece.count) break;
        rows[equal] = row(next.first);
      }
      if (equal == kRows) {
        joined.Add(rows, piece.count);
        index += int64_t{kRows};
      } else {
        joined.Add(std::array{rows[0]}, piece.count);
        ++index;
      }
    }
    for (int64_t i = 0; i < columns; ++i) keys[i] = joined.At(i);
    for (int64_t i = columns; i < most; ++i) keys[i % columns] = std::max(keys[i % columns], joined.At(i));
  }

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
