// Values are computed in float32 and rounded once: with the largest element of a row subtracted, no exponential
// overflows.
#include <array>
#include <cmath>
#include <limits>

#include "families/softmax/blocks.h"
#include "families/softmax/computation.h"
#include "tensors/exp.h"
#include "tensors/lanes.h"

namespace acl_host {
namespace {

// Of an element less the largest one, or not a number.
inline FloatLanes Power(FloatLanes below) { return ExpWithin(AtLeast(below, -104.0F)); }

// For each function: a number of a row that depends on its sum of powers, and the value of an element given that.
struct Softmax {
  static constexpr bool kTakesPowers = true;
  static float Factor(double sum) { return static_cast<float>(1 / sum); }
  static FloatLanes Cell(FloatLanes power, FloatLanes factor) { return power * factor; }
};

struct LogSoftmax {
  static constexpr bool kTakesPowers = false;
  static float Factor(double sum) { return static_cast<float>(std::log(sum)); }
  static FloatLanes Cell(FloatLanes below, FloatLanes factor) { return below - factor; }
};

// Calls visit with the function.
template <typename Visitor>
void VisitFunction(RowFunction function, const Visitor& visit) {
  switch (function) {
    case RowFunction::kSoftmax:
      return visit(Softmax{});
    case RowFunction::kLogSoftmax:
      return visit(LogSoftmax{});
  }
}

// Of an element that is not a number nothing remains here, because the sum of the powers will not be one either.
inline FloatLanes Larger(FloatLanes x, FloatLanes y) { return y > x ? y : x; }

// Elements of negative infinity alone have no largest one: their powers are 0 with this.
constexpr float kLeast = std::numeric_limits<float>::lowest();

// What one thread does. Elements are of the type In, values of the type Out.
template <typename Function, typename In, typename Out>
class ValueRows {
 public:
  ValueRows(const RowValue& work, const KernelArguments& arguments, int64_t most)
      : rows_(work.rows),
        elements_(arguments.inputs[work.self.index]),
        values_(arguments.outputs[work.out.index]),
        powers_(work.rows.inner == 1 && work.rows.parts() == 1 && Function::kTakesPowers ? work.rows.length : 0),
        largest_(most),
        sums_(most),
        column_sums_(most) {}

  // Rows one behind the other, each of one part.
  void MakeRows(int64_t row, int64_t rows) const {
    for (int64_t i = row; i < row + rows; ++i) {
      const int64_t at = i * rows_.length;
      const float largest = LargestOf(at, rows_.length);
      if constexpr (Function::kTakesPowers) {
        const FloatLanes factor = Filled(Function::Factor(double{KeepPowers(at, largest)}));
        ForLanes(rows_.length, [&, powers = powers_.bytes(), values = values_](int64_t cell, auto lanes) {
          StoreLanes<Out>(Function::Cell(LoadLanes<float>(powers, cell, lanes), factor), values, at + cell, lanes);
        });
      } else {
        MakeRow(at, rows_.length, largest, Function::Factor(double{SumRow(at, rows_.length, largest)}));
      }
    }
  }

  // Rows beside each other, each of one part.
  void MakeColumns(const Block& block) const {
    Sum(block, largest_.bytes(), sums_.bytes());
    for (int64_t i = 0; i < block.width; ++i) sums_.data()[i] = Function::Factor(double{sums_.data()[i]});
    Make(block, largest_.bytes(), sums_.bytes());
  }

  // The largest element and the sum of the powers of each row.
  void Sum(const Block& block, std::byte* largest, std::byte* sums) const {
    if (rows_.inner == 1) {
      const float found = LargestOf(block.At(rows_, 0), block.count);
      StoreElement(largest, 0, found);
      return StoreElement(sums, 0, SumRow(block.At(rows_, 0), block.count, found));
    }
    FindLargest(block, largest);
    const auto term = [&](int64_t element, int64_t column, auto lanes) {
      return Power(Load(block.At(rows_, element) + column, lanes) - LoadLanes<float>(largest, column, lanes));
    };
    column_sums_.Add(block, term, sums);
  }

  void Make(const Block& block, const std::byte* largest, const std::byte* factors) const {
    if (rows_.inner == 1) return MakeRow(block.At(rows_, 0), block.count, FloatAt(largest, 0), FloatAt(factors, 0));
    for (int64_t i = 0; i < block.count; ++i) {
      const int64_t at = block.At(rows_, i);
      ForLanes(block.width, [&](int64_t column, auto lanes) {
        MakeLanes(at + column, LoadLanes<float>(largest, column, lanes), LoadLanes<float>(factors, column, lanes),
                  lanes);
      });
    }
  }

 private:
  template <typename Count>
  [[nodiscard]] FloatLanes Load(int64_t first, Count lanes) const {
    return LoadLanes<In>(elements_, first, lanes);
  }

  [[nodiscard]] float LargestOf(int64_t first, int64_t count) const {
    float largest = kLeast;
    if (count < kFloatLanes) {
      for (int64_t i = 0; i < count; ++i) {
        const float element = WidenElement<In>(elements_, first + i);
        largest = element > largest ? element : largest;
      }
      return largest;
    }
    // The last ones overlap those before, which changes nothing.
    FloatLanes found = Larger(Filled(kLeast), Load(first + count - kFloatLanes, AllLanes{}));
    for (int64_t i = 0; i + kFloatLanes <= count; i += kFloatLanes) {
      found = Larger(found, Load(first + i, AllLanes{}));
    }
    for (int64_t i = 0; i < kFloatLanes; ++i) largest = found[i] > largest ? found[i] : largest;
    return largest;
  }

  void FindLargest(const Block& block, std::byte* largest) const {
    ForLanes(block.width,
             [&](int64_t column, auto lanes) { StoreLanes<float>(Filled(kLeast), largest, column, lanes); });
    for (int64_t i = 0; i < block.count; ++i) {
      const int64_t at = block.At(rows_, i);
      ForLanes(block.width, [&](int64_t column, auto lanes) {
        const FloatLanes before = LoadLanes<float>(largest, column, lanes);
        StoreLanes<float>(Larger(before, Load(at + column, lanes)), largest, column, lanes);
      });
    }
  }

  [[nodiscard]] float SumRow(int64_t first, int64_t count, float largest) const {
    const auto term = [&](int64_t i, auto lanes) { return std::array{Power(Load(first + i, lanes) - largest)}; };
    return SumsAlong<1>(count, term)[0];
  }

  // The same of a whole row, whose powers are kept.
  [[nodiscard]] float KeepPowers(int64_t first, float largest) const {
    std::byte* const powers = powers_.bytes();
    const auto term = [&](int64_t i, auto lanes) {
      const FloatLanes power = Power(Load(first + i, lanes) - largest);
      StoreLanes<float>(power, powers, i, lanes);
      return std::array{power};
    };
    return SumsAlong<1>(rows_.length, term)[0];
  }

  void MakeRow(int64_t first, int64_t count, float largest, float factor) const {
    ForLanes(count, [&](int64_t i, auto lanes) { MakeLanes(first + i, Filled(largest), Filled(factor), lanes); });
  }

  template <typename Count>
  void MakeLanes(int64_t first, FloatLanes largest, FloatLanes factors, Count lanes) const {
    FloatLanes element = Load(first, lanes) - largest;
    if constexpr (Function::kTakesPowers) element = Power(element);
    StoreLanes<Out>(Function::Cell(element, factors), values_, first, lanes);
  }

  const AxisRows& rows_;
  const std::byte* const elements_;
  std::byte* const values_;
  const Scratch<float> powers_;
  const Scratch<float> largest_;
  const Scratch<float> sums_;
  const ColumnSums column_sums_;
};

// Replaces the numbers of each row's first part by the largest element of all parts and the row's factor.
template <typename Function>
void AddParts(const AxisRows& rows, const KernelArguments& arguments) {
  std::byte* const largest = arguments.scratch[0];
  std::byte* const sums = arguments.scratch[1];
  ForRowsOfParts(rows, arguments.pool, [&](int64_t first) {
    float of_all = kLeast;
    for (int64_t part = 0; part < rows.parts(); ++part) {
      of_all = std::max(of_all, FloatAt(largest, first + part * rows.inner));
    }
    double sum = 0;
    for (int64_t part = 0; part < rows.parts(); ++part) {
      const int64_t place = first + part * rows.inner;
      sum += double{FloatAt(sums, place)} * std::exp(double{FloatAt(largest, place)} - double{of_all});
    }
    StoreElement(largest, first, of_all);
    StoreElement(sums, first, Function::Factor(sum));
  });
}

template <typename Worker, typename Function>
void MakeAll(const RowValue& work, const KernelArguments& arguments) {
  const AxisRows& rows = work.rows;
  const auto worker = [&](int64_t most) { return Worker(work, arguments, most); };
  if (rows.parts() > 1) {
    const auto act = [&](bool is_sum) {
      return [&, is_sum](const Worker& of, const Block& block) {
        const int64_t part = is_sum ? block.first / rows.part_length() : 0;
        std::byte* const largest = NumbersOf(rows, arguments.scratch[0], block, part);
        std::byte* const sums = NumbersOf(rows, arguments.scratch[1], block, part);
        is_sum ? of.Sum(block, largest, sums) : of.Make(block, largest, sums);
      };
    };
    ForBlocks(rows, arguments.pool, worker, act(true));
    AddParts<Function>(rows, arguments);
    ForBlocks(rows, arguments.pool, worker, act(false));
  } else if (rows.inner > 1) {
    ForBlocks(rows, arguments.pool, worker, [](const Worker& of, const Block& block) { of.MakeColumns(block); });
  } else {
    arguments.pool.ParallelFor(rows.outer, Grain(rows.length),
                               [&](int64_t begin, int64_t end) { worker(0).MakeRows(begin, end - begin); });
  }
}

}  // namespace

template <>
void RowValues<VECTOR_LEVEL>::Run(const RowValue& work, const KernelArguments& arguments) {
  VisitFunction(work.function, [&](auto function) {
    VisitFloatType(work.self.type, [&](auto in) {
      VisitFloatType(work.out.type, [&](auto out) {
        using Function = decltype(function);
        using In = typename decltype(in)::Type;
        MakeAll<ValueRows<Function, In, typename decltype(out)::Type>, Function>(work, arguments);
      });
    });
  });
}

}  // namespace acl_host
