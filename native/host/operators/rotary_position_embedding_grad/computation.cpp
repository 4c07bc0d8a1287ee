// Gradients of cos and sin are sums of up to 256 rows in float32, and sums of these in float64.
#include "computation.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "families/rows/floats.h"
#include "plan/scratch.h"
#include "tensors/elements.h"
#include "tensors/lanes.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// Rows of float32, of a block of cos and sin, and of the sums of their gradients.
struct Rows {
  const std::byte* cos;
  const std::byte* sin;
  std::byte* dcos;
  std::byte* dsin;
};

// The first half of a row rotates with the second. All is read before anything is written, because a load waits for a
// store to an address with the same last 12 bits, and tensors begin at such.
template <typename T, bool kHasX>
void MakeHalves(const std::byte* dy, const std::byte* x, std::byte* dx, const Rows& rows, int64_t columns) {
  const int64_t half = columns / 2;
  ForLanes(half, [&](int64_t i, auto lanes) {
    const auto load = [&](const std::byte* row, int64_t at) { return LoadLanes<float>(row, at, lanes); };
    const FloatLanes first = LoadLanes<T>(dy, i, lanes);
    const FloatLanes second = LoadLanes<T>(dy, half + i, lanes);
    const FloatLanes first_dx = load(rows.cos, i) * first + load(rows.sin, half + i) * second;
    const FloatLanes second_dx = load(rows.cos, half + i) * second - load(rows.sin, i) * first;
    if constexpr (kHasX) {
      const FloatLanes first_x = LoadLanes<T>(x, i, lanes);
      const FloatLanes second_x = LoadLanes<T>(x, half + i, lanes);
      const FloatLanes first_dcos = load(rows.dcos, i) + first * first_x;
      const FloatLanes second_dcos = load(rows.dcos, half + i) + second * second_x;
      const FloatLanes first_dsin = load(rows.dsin, i) - first * second_x;
      const FloatLanes second_dsin = load(rows.dsin, half + i) + second * first_x;
      StoreLanes<float>(first_dcos, rows.dcos, i, lanes);
      StoreLanes<float>(second_dcos, rows.dcos, half + i, lanes);
      StoreLanes<float>(first_dsin, rows.dsin, i, lanes);
      StoreLanes<float>(second_dsin, rows.dsin, half + i, lanes);
    }
    StoreLanes<T>(first_dx, dx, i, lanes);
    StoreLanes<T>(second_dx, dx, half + i, lanes);
  });
}

using Lanes = std::make_integer_sequence<int, static_cast<int>(kFloatLanes)>;

// Each even lane and the next one change places.
template <int... kLane>
inline FloatLanes Swapped(std::integer_sequence<int, kLane...> /*lanes*/, FloatLanes x) {
  return __builtin_shufflevector(x, x, (kLane ^ 1)...);
}

// 1 in even lanes, and -1 in odd ones.
template <int... kLane>
inline FloatLanes Signs(std::integer_sequence<int, kLane...> /*lanes*/) {
  return FloatLanes{(kLane % 2 == 0 ? 1.0F : -1.0F)...};
}

// Each even element of a row rotates with the next one: a vector has both.
template <typename T, bool kHasX>
void MakePairs(const std::byte* dy, const std::byte* x, std::byte* dx, const Rows& rows, int64_t columns) {
  ForLanes(columns, [&](int64_t i, auto lanes) {
    const auto load = [&](const std::byte* row) { return LoadLanes<float>(row, i, lanes); };
    const FloatLanes grads = LoadLanes<T>(dy, i, lanes);
    const FloatLanes turned = Swapped(Lanes{}, load(rows.sin) * grads);
    const FloatLanes made = load(rows.cos) * grads + turned * Signs(Lanes{});
    if constexpr (kHasX) {
      const FloatLanes elements = LoadLanes<T>(x, i, lanes);
      const FloatLanes dcos = load(rows.dcos) + grads * elements;
      const FloatLanes dsin = load(rows.dsin) - grads * Swapped(Lanes{}, elements) * Signs(Lanes{});
      StoreLanes<float>(dcos, rows.dcos, i, lanes);
      StoreLanes<float>(dsin, rows.dsin, i, lanes);
    }
    StoreLanes<T>(made, dx, i, lanes);
  });
}

template <typename T, bool kIsInterleaved, bool kHasX>
class Tasks {
 public:
  Tasks(const RotaryEmbedding& rotary, const KernelArguments& arguments)
      : rotary_(rotary),
        arguments_(arguments),
        cos_(arguments, FloatOperand{1, rotary.type}, most()),
        sin_(arguments, FloatOperand{2, rotary.type}, most()),
        dcos_(kHasX ? most() : 0),
        dsin_(kHasX ? most() : 0) {}

  // Makes the rows of dx of a block and a part, and what they add to the gradients of cos and sin.
  void Make(int64_t block, int64_t part) const {
    const int64_t first = block * rotary_.block_rows();
    const int64_t count = std::min(rotary_.block_rows(), rotary_.own.count - first);
    const int64_t elements = count * rotary_.columns;
    const Rows rows{cos_.Read(first * rotary_.columns, elements), sin_.Read(first * rotary_.columns, elements),
                    dcos_.bytes(), dsin_.bytes()};
    const int64_t begin = part * kMostFloatAdditions;
    const int64_t end = std::min(begin + kMostFloatAdditions, rotary_.shared.count);
    if constexpr (kHasX) {
      std::fill_n(dcos_.data(), elements, 0.0F);
      std::fill_n(dsin_.data(), elements, 0.0F);
    }
    // As rows lie in memory. The order of each sum is the same.
    if (rotary_.shared.inner_stride == 1) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = rotary_.own.At(first + i);
        for (int64_t each = begin; each < end; ++each) MakeRow(row + rotary_.shared.At(each), i, rows);
      }
    } else {
      for (int64_t each = begin; each < end; ++each) {
        const int64_t row = rotary_.shared.At(each);
        for (int64_t i = 0; i < count; ++i) MakeRow(row + rotary_.own.At(first + i), i, rows);
      }
    }
    if constexpr (kHasX) {
      Write(dcos_.data(), 0, part, first * rotary_.columns, elements);
      Write(dsin_.data(), 1, part, first * rotary_.columns, elements);
    }
  }

 private:
  [[nodiscard]] int64_t most() const { return rotary_.block_rows() * rotary_.columns; }

  // A row of dy and x, and row i of the block.
  void MakeRow(int64_t row, int64_t i, const Rows& block) const {
    const int64_t at = row * rotary_.columns * int64_t{sizeof(T)};
    const int64_t skipped = i * rotary_.columns * kFloatBytes;
    Rows rows{block.cos + skipped, block.sin + skipped, nullptr, nullptr};
    const std::byte* x = nullptr;
    if constexpr (kHasX) {
      rows.dcos = block.dcos + skipped;
      rows.dsin = block.dsin + skipped;
      x = arguments_.inputs[3] + at;
    }
    constexpr auto kMake = kIsInterleaved ? MakePairs<T, kHasX> : MakeHalves<T, kHasX>;
    kMake(arguments_.inputs[0] + at, x, arguments_.outputs[0] + at, rows, rotary_.columns);
  }

  // The gradient of cos, 0, or sin, 1, from this element on: the result, or what a part adds to it.
  void Write(const float* sums, int64_t which, int64_t part, int64_t first, int64_t count) const {
    if (rotary_.parts() == 1) {
      std::byte* const result = arguments_.outputs[static_cast<size_t>(1 + which)];
      return RoundRow<T>(sums, result + first * int64_t{sizeof(T)}, count);
    }
    const int64_t place = (2 * part + which) * rotary_.elements_of_cos() + first;
    std::memcpy(arguments_.scratch[0] + place * kFloatBytes, sums, static_cast<size_t>(count * kFloatBytes));
  }

  const RotaryEmbedding& rotary_;
  const KernelArguments& arguments_;
  const Floats cos_;
  const Floats sin_;
  const Scratch<float> dcos_;
  const Scratch<float> dsin_;
};

// Adds up the sums of the parts, in their order.
template <typename T>
void AddParts(const RotaryEmbedding& rotary, const KernelArguments& arguments) {
  constexpr int64_t kStretch = 512;
  const int64_t elements = rotary.elements_of_cos();
  const int64_t stretches = (elements - 1) / kStretch + 1;
  arguments.pool.ParallelFor(2 * stretches, Grain(kStretch * rotary.parts()), [&](int64_t begin, int64_t end) {
    const Scratch<double> sums(kStretch);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t which = i / stretches;
      const int64_t first = i % stretches * kStretch;
      const int64_t count = std::min(kStretch, elements - first);
      std::fill_n(sums.data(), count, 0.0);
      for (int64_t part = 0; part < rotary.parts(); ++part) {
        const std::byte* const terms = arguments.scratch[0] + ((2 * part + which) * elements + first) * kFloatBytes;
        for (int64_t each = 0; each < count; ++each) sums.data()[each] += double{FloatAt(terms, each)};
      }
      std::byte* const result = arguments.outputs[static_cast<size_t>(1 + which)];
      RoundRow<T>(sums.data(), result + first * int64_t{sizeof(T)}, count);
    }
  });
}

template <typename T, bool kIsInterleaved, bool kHasX>
void MakeGradients(const RotaryEmbedding& rotary, const KernelArguments& arguments) {
  const int64_t of_task = rotary.block_rows() * rotary.columns * std::min(rotary.shared.count, kMostFloatAdditions);
  arguments.pool.ParallelFor(rotary.blocks() * rotary.parts(), Grain(of_task), [&](int64_t begin, int64_t end) {
    const Tasks<T, kIsInterleaved, kHasX> tasks(rotary, arguments);
    for (int64_t i = begin; i < end; ++i) tasks.Make(i / rotary.parts(), i % rotary.parts());
  });
  if (rotary.sum_bytes() > 0) AddParts<T>(rotary, arguments);
}

}  // namespace

template <>
void RotaryEmbeddingGradient<VECTOR_LEVEL>::Run(const RotaryEmbedding& rotary, const KernelArguments& arguments) {
  VisitFloatType(rotary.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if (rotary.is_interleaved) {
      rotary.has_x ? MakeGradients<T, true, true>(rotary, arguments) : MakeGradients<T, true, false>(rotary, arguments);
    } else {
      rotary.has_x ? MakeGradients<T, false, true>(rotary, arguments)
                   : MakeGradients<T, false, false>(rotary, arguments);
    }
  });
}

}  // namespace acl_host
