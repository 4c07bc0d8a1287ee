// Gradients are computed in float32 and rounded once. A row of one part is read from memory once, unless those beside
// it fill the cache.
#include "families/softmax/computation.h"

#include <array>

#include "families/softmax/blocks.h"
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

// What one thread does. The inputs are of the type In, the gradient is of the type Out.
template <typename Gradient, typename In, typename Out>
class GradientRows {
 public:
  GradientRows(const RowGradient& work, const KernelArguments& arguments, int64_t most)
      : rows_(work.rows),
        grads_(arguments.inputs[work.grad_output.index]),
        outputs_(arguments.inputs[work.output.index]),
        gradients_(arguments.outputs[work.gradient.index]),
        sums_(most),
        column_sums_(most) {}

  // Rows one behind the other, each of one part.
  void MakeRows(int64_t row, int64_t rows) const {
    for (int64_t i = row; i < row + rows; ++i) {
      const int64_t at = i * rows_.length;
      MakeRow(at, rows_.length, SumRow(at, rows_.length));
    }
  }

  // Rows beside each other, each of one part.
  void MakeColumns(const Block& block) const {
    Sum(block, sums_.bytes());
    Make(block, sums_.bytes());
  }

  // Adds up the elements of each row.
  void Sum(const Block& block, std::byte* sums) const {
    if (rows_.inner == 1) return StoreElement(sums, 0, SumRow(block.At(rows_, 0), block.count));
    const auto term = [&](int64_t element, int64_t column, auto lanes) {
      return Term(block.At(rows_, element) + column, lanes);
    };
    column_sums_.Add(block, term, sums);
  }

  void Make(const Block& block, const std::byte* sums) const {
    if (rows_.inner == 1) return MakeRow(block.At(rows_, 0), block.count, FloatAt(sums, 0));
    for (int64_t i = 0; i < block.count; ++i) {
      const int64_t at = block.At(rows_, i);
      ForLanes(block.width, [&](int64_t column, auto lanes) {
        MakeLanes(at + column, LoadLanes<float>(sums, column, lanes), lanes);
      });
    }
  }

 private:
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

  const AxisRows& rows_;
  const std::byte* const grads_;
  const std::byte* const outputs_;
  std::byte* const gradients_;
  const Scratch<float> sums_;
  const ColumnSums column_sums_;
};

// Replaces the sum of each row's first part by that of all parts.
void AddParts(const AxisRows& rows, const KernelArguments& arguments) {
  std::byte* const sums = arguments.scratch[0];
  ForRowsOfParts(rows, arguments.pool, [&](int64_t first) {
    double sum = 0;
    for (int64_t part = 0; part < rows.parts(); ++part) {
      sum += static_cast<double>(FloatAt(sums, first + part * rows.inner));
    }
    StoreElement(sums, first, static_cast<float>(sum));
  });
}

template <typename Worker>
void MakeAll(const RowGradient& work, const KernelArguments& arguments) {
  const AxisRows& rows = work.rows;
  const auto worker = [&](int64_t most) { return Worker(work, arguments, most); };
  if (rows.parts() > 1) {
    const auto sums_of = [&](const Block& block, int64_t part) {
      return NumbersOf(rows, arguments.scratch[0], block, part);
    };
    ForBlocks(rows, arguments.pool, worker, [&](const Worker& of, const Block& block) {
      of.Sum(block, sums_of(block, block.first / rows.part_length()));
    });
    AddParts(rows, arguments);
    ForBlocks(rows, arguments.pool, worker,
              [&](const Worker& of, const Block& block) { of.Make(block, sums_of(block, 0)); });
  } else if (rows.inner > 1) {
    ForBlocks(rows, arguments.pool, worker, [](const Worker& of, const Block& block) { of.MakeColumns(block); });
  } else {
    arguments.pool.ParallelFor(rows.outer, Grain(rows.length),
                               [&](int64_t begin, int64_t end) { worker(0).MakeRows(begin, end - begin); });
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
