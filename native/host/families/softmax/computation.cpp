// All is computed in float32 and rounded once. The sums of a row are those of its parts, which begin at the same
// elements whatever the processor and the number of threads, and are added in the order of SumsAlong also if the rows
// lie beside each other: so a row has the same bits alone. A row of one part is read from memory once, unless those
// beside it fill the cache.
#include "families/softmax/computation.h"

#include <algorithm>
#include <array>

#include "tensors/exp.h"
#include "tensors/lanes.h"

namespace acl_host {
namespace {

// For each function: what is added up along a row, and the gradient of an element given that sum.
struct SoftmaxGradient {
  static FloatLanes Term(FloatLanes grad, FloatLanes output) { return grad * output; }
  static FloatLanes Cell(FloatLanes grad, FloatLanes output, FloatLanes sum) { return output * (grad - sum); }
};

struct LogSoftmaxGradient {
  static FloatLanes Term(FloatLanes grad, FloatLanes) { return grad; }
  static FloatLanes Cell(FloatLanes grad, FloatLanes output, FloatLanes sum) { return grad - Exp(output) * sum; }
};

// Calls visit with the gradient of the function.
template <typename Visitor>
void VisitGradient(RowFunction function, const Visitor& visit) {
  switch (function) {
    case RowFunction::kSoftmax:
      return visit(SoftmaxGradient{});
    case RowFunction::kLogSoftmax:
      return visit(LogSoftmaxGradient{});
  }
}

// The elements of a block of rows beside each other.
constexpr int64_t kBlock = 32768;
// So many columns are added up at a time that their sums stay near the processor.
constexpr int64_t kStrip = 64;

// Elements [first, first + count) of some rows that lie beside each other: from column `left` on, `width` of them.
struct Block {
  int64_t outer;
  int64_t first;
  int64_t count;
  int64_t left;
  int64_t width;
};

// What one thread does. The inputs are of the type In, the gradient is of the type Out.
template <typename Gradient, typename In, typename Out>
class GradientRows {
 public:
  GradientRows(const RowGradient& work, const KernelArguments& arguments, int64_t most)
      : work_(work),
        grads_(arguments.inputs[work.grad_output.index]),
        outputs_(arguments.inputs[work.output.index]),
        gradients_(arguments.outputs[work.gradient.index]),
        sums_(most),
        strip_sums_(most == 0 ? 0 : kSumsAlong * kStrip) {}

  // Rows one behind the other, each of one part.
  void MakeRows(int64_t row, int64_t rows) const {
    for (int64_t i = row; i < row + rows; ++i) {
      const int64_t at = i * work_.length;
      MakeRow(at, work_.length, SumRow(at, work_.length));
    }
  }

  // Rows beside each other, each of one part.
  void MakeColumns(const Block& block) const {
    std::byte* const sums = reinterpret_cast<std::byte*>(sums_.data());
    Sum(block, sums);
    Make(block, sums);
  }

  // Adds up the elements of each row.
  void Sum(const Block& block, std::byte* sums) const {
    if (work_.inner == 1) return StoreElement(sums, 0, SumRow(At(block, block.first), block.count));
    if (block.count <= kSumsAlong) return SumShort(block, sums);
    for (int64_t column = 0; column < block.width; column += kStrip) {
      Block strip = block;
      strip.left += column;
      strip.width = std::min(block.width - column, kStrip);
      SumStrip(strip, sums + column * kFloatBytes);
    }
  }

  void Make(const Block& block, const std::byte* sums) const {
    if (work_.inner == 1) return MakeRow(At(block, block.first), block.count, FloatAt(sums, 0));
    for (int64_t i = block.first; i < block.first + block.count; ++i) {
      const int64_t at = At(block, i);
      ForLanes(block.width, [&](int64_t column, auto lanes) {
        MakeLanes(at + column, LoadLanes<float>(sums, column, lanes), lanes);
      });
    }
  }

 private:
  // Adds up as SumsAlong does: as many sums side by side, and then these by halves. Rows of fewer elements have one
  // element in each.
  void SumShort(const Block& block, std::byte* sums) const {
    ForLanes(block.width, [&](int64_t column, auto lanes) {
      const auto term = [&](int64_t i) { return Filled(0) + Term(At(block, block.first + i) + column, lanes); };
      StoreLanes<float>(Folded<1>(term, block.count, 0), sums, column, lanes);
    });
  }

  void SumStrip(const Block& strip, std::byte* sums) const {
    std::byte* const side_by_side = reinterpret_cast<std::byte*>(strip_sums_.data());
    const auto sum = [&](int64_t place) { return side_by_side + place * kStrip * kFloatBytes; };
    std::fill_n(strip_sums_.data(), kSumsAlong * kStrip, 0.0F);
    for (int64_t i = 0; i < strip.count; ++i) {
      const int64_t at = At(strip, strip.first + i);
      std::byte* const to = sum(i % kSumsAlong);
      ForLanes(strip.width, [&](int64_t column, auto lanes) {
        const FloatLanes before = LoadLanes<float>(to, column, lanes);
        StoreLanes<float>(before + Term(at + column, lanes), to, column, lanes);
      });
    }
    ForLanes(strip.width, [&](int64_t column, auto lanes) {
      const auto each = [&](int64_t place) { return LoadLanes<float>(sum(place), column, lanes); };
      StoreLanes<float>(Folded<1>(each, kSumsAlong, 0), sums, column, lanes);
    });
  }

  // The sum of element(place), element(place + step), ... below count, by halves.
  template <int64_t kStep, typename Element>
  [[nodiscard]] static FloatLanes Folded(const Element& element, int64_t count, int64_t place) {
    if constexpr (kStep == kSumsAlong) {
      return element(place);
    } else {
      const FloatLanes first = Folded<2 * kStep>(element, count, place);
      if (place + kStep >= count) return first;
      return first + Folded<2 * kStep>(element, count, place + kStep);
    }
  }

  [[nodiscard]] int64_t At(const Block& block, int64_t element) const {
    return (block.outer * work_.length + element) * work_.inner + block.left;
  }

  [[nodiscard]] float SumRow(int64_t first, int64_t count) const {
    const auto term = [&](int64_t i, auto lanes) { return std::array{Term(first + i, lanes)}; };
    return SumsAlong<1>(count, term)[0];
  }

  void MakeRow(int64_t first, int64_t count, float sum) const {
    ForLanes(count, [&](int64_t i, auto lanes) { MakeLanes(first + i, Filled(sum), lanes); });
  }

  template <typename Count>
  [[nodiscard]] FloatLanes Term(int64_t first, Count lanes) const {
    return Gradient::Term(LoadLanes<In>(grads_, first, lanes), LoadLanes<In>(outputs_, first, lanes));
  }

  template <typename Count>
  void MakeLanes(int64_t first, FloatLanes sums, Count lanes) const {
    const FloatLanes grads = LoadLanes<In>(grads_, first, lanes);
    StoreLanes<Out>(Gradient::Cell(grads, LoadLanes<In>(outputs_, first, lanes), sums), gradients_, first, lanes);
  }

  const RowGradient& work_;
  const std::byte* const grads_;
  const std::byte* const outputs_;
  std::byte* const gradients_;
  const Scratch<float> sums_;
  const Scratch<float> strip_sums_;
};

// So many columns that a block's elements stay in the cache between the sum and the gradients.
int64_t WidthOf(const RowGradient& work) {
  const int64_t length = std::min(work.length, work.part_length());
  return std::min(work.inner, std::clamp<int64_t>(kBlock / length, 64, 1024));
}

// Calls make(rows, block) for each part of the rows.
template <typename Rows, typename MakeBlock>
void ForBlocks(const RowGradient& work, const KernelArguments& arguments, const MakeBlock& make) {
  const int64_t width = WidthOf(work);
  const int64_t length = std::min(work.length, work.part_length());
  const int64_t across = (work.inner - 1) / width + 1;
  const int64_t grain = Grain(length * width);
  arguments.pool.ParallelFor(work.outer * work.parts() * across, grain, [&](int64_t begin, int64_t end) {
    const Rows rows(work, arguments, width);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t left = i % across * width;
      const int64_t part = i / across % work.parts();
      const int64_t first = part * length;
      make(rows, Block{i / across / work.parts(), first, std::min(length, work.length - first), left,
                       std::min(width, work.inner - left)});
    }
  });
}

// Replaces the sum of each row's first part by that of all parts.
void AddParts(const RowGradient& work, const KernelArguments& arguments) {
  std::byte* const sums = arguments.scratch[0];
  arguments.pool.ParallelFor(work.outer * work.inner, Grain(work.parts()), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = row / work.inner * work.parts() * work.inner + row % work.inner;
      double sum = 0;
      for (int64_t part = 0; part < work.parts(); ++part) {
        sum += static_cast<double>(FloatAt(sums, first + part * work.inner));
      }
      StoreElement(sums, first, static_cast<float>(sum));
    }
  });
}

template <typename Rows>
void MakeAll(const RowGradient& work, const KernelArguments& arguments) {
  if (work.parts() > 1) {
    const auto sums_of = [&](const Block& block, int64_t part) {
      return arguments.scratch[0] + ((block.outer * work.parts() + part) * work.inner + block.left) * kFloatBytes;
    };
    ForBlocks<Rows>(work, arguments, [&](const Rows& rows, const Block& block) {
      rows.Sum(block, sums_of(block, block.first / work.part_length()));
    });
    AddParts(work, arguments);
    ForBlocks<Rows>(work, arguments,
                    [&](const Rows& rows, const Block& block) { rows.Make(block, sums_of(block, 0)); });
  } else if (work.inner > 1) {
    ForBlocks<Rows>(work, arguments, [](const Rows& rows, const Block& block) { rows.MakeColumns(block); });
  } else {
    arguments.pool.ParallelFor(work.outer, Grain(work.length), [&](int64_t begin, int64_t end) {
      Rows(work, arguments, 0).MakeRows(begin, end - begin);
    });
  }
}

}  // namespace

template <>
void RowGradients<VECTOR_LEVEL>::Run(const RowGradient& work, const KernelArguments& arguments) {
  VisitGradient(work.function, [&](auto gradient) {
    VisitFloatType(work.output.type, [&](auto in) {
      VisitFloatType(work.gradient.type, [&](auto out) {
        using Gradient = decltype(gradient);
        MakeAll<GradientRows<Gradient, typename decltype(in)::Type, typename decltype(out)::Type>>(work, arguments);
      });
    });
  });
}

}  // namespace acl_host
