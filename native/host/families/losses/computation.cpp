// Losses are computed in float32. A sum is that of parts, whose totals are added up in float64: so it depends neither
// on the vectors nor on the number of threads.
#include "families/losses/computation.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "families/elementwise/source.h"
#include "families/losses/formulas.h"
#include "families/rows/floats.h"
#include "plan/scratch.h"
#include "tensors/elements.h"
#include "tensors/made_rows.h"

namespace acl_host {
namespace {

// Calls visit with the formula of the function.
template <typename Visitor>
void VisitFormula(const Loss& loss, const Visitor& visit) {
  switch (loss.function) {
    case LossFunction::kMse:
      return visit(MseLoss{});
    case LossFunction::kSmoothL1:
      return visit(SmoothL1Loss{loss.beta});
    case LossFunction::kCrossEntropyOfLogits:
      return visit(CrossEntropyOfLogits{});
    case LossFunction::kWeightedCrossEntropyOfLogits:
      return visit(WeightedCrossEntropyOfLogits{});
  }
}

// The rows of inputs of T that some losses come from, kBlock elements at a time unless all are read in place.
template <typename T, size_t kInputs>
class LossRows {
 public:
  LossRows(const Loss& loss, const KernelArguments& arguments, aclDataType type, int64_t most)
      : LossRows(loss, AddressesOf(loss, arguments), type, most, std::make_index_sequence<kInputs>()) {}

  // Calls act(first, rows, count) for the losses [first, end) of the rows.
  template <typename Act>
  void For(int64_t first, int64_t end, const Act& act) {
    for (; first < end; first += step_) {
      const int64_t count = std::min(step_, end - first);
      Rows<kInputs> rows;
      for (size_t i = 0; i < kInputs; ++i) rows[i] = sources_[i].Read(first, count);
      act(first, rows, count);
    }
  }

 private:
  template <size_t... kInput>
  LossRows(const Loss& loss, const Rows<kInputs>& addresses, aclDataType type, int64_t most,
           std::index_sequence<kInput...>)
      : sources_{Source<T>(loss.inputs[kInput], addresses[kInput], type, most)...},
        step_((Source<T>::IsInPlace(loss.inputs[kInput], type) && ...) ? kRowPart : kBlock) {}

  // Inputs that are not given have none.
  static Rows<kInputs> AddressesOf(const Loss& loss, const KernelArguments& arguments) {
    Rows<kInputs> addresses{};
    auto next = arguments.inputs.begin();
    for (size_t i = 0; i < kInputs; ++i) {
      if (loss.inputs[i].is_given) addresses[i] = *next++;
    }
    return addresses;
  }

  std::array<Source<T>, kInputs> sources_;
  const int64_t step_;
};

// The formula of elements of T, which have this data type.
template <typename T, typename Formula, size_t... kInput>
class Losses {
 public:
  Losses(const Loss& loss, const KernelArguments& arguments, aclDataType type, const Formula& formula)
      : loss_(loss), arguments_(arguments), type_(type), formula_(formula) {}

  template <typename To>
  void Write() const {
    std::byte* const out = arguments_.outputs[0];
    arguments_.pool.ParallelFor(loss_.count, Grain(1), [&](int64_t begin, int64_t end) {
      RowsOfT(loss_, arguments_, type_, end - begin)
          .For(begin, end, [&](int64_t first, const auto& rows, int64_t count) {
            WriteRow<To>(formula_, rows, out + first * int64_t{sizeof(To)}, count);
          });
    });
  }

  // The sum of all.
  [[nodiscard]] double Sum() const {
    auto* const totals = AlignedTo<double>(arguments_.scratch[0]);
    arguments_.pool.ParallelFor(loss_.parts(), 1, [&](int64_t begin, int64_t end) {
      RowsOfT rows_of(loss_, arguments_, type_, Loss::kPart);
      for (int64_t part = begin; part < end; ++part) {
        double total = 0;
        rows_of.For(part * Loss::kPart, std::min(loss_.count, (part + 1) * Loss::kPart),
                    [&](int64_t, const auto& rows, int64_t count) { total += double{SumRow(formula_, rows, count)}; });
        totals[part] = total;
      }
    });
    double sum = 0;
    for (int64_t part = 0; part < loss_.parts(); ++part) sum += totals[part];
    return sum;
  }

 private:
  using RowsOfT = LossRows<T, sizeof...(kInput)>;

  // The formula and the rows by value: their references could be in memory that is written.
  template <typename To>
  static void WriteRow(Formula formula, Rows<sizeof...(kInput)> rows, std::byte* __restrict to, int64_t count) {
    if constexpr (std::is_same_v<To, T>) {
      MapRows<T>(rows, MadeRows<1>{to}, count,
                 [&](const auto& load) { return MadeLanes<1>{formula(load(kInput)...)}; });
    } else {
      ForLanes(count, [&](int64_t i, auto lanes) {
        StoreLanes<To>(formula(LoadLanes<T>(rows[kInput], i, lanes)...), to, i, lanes);
      });
    }
  }

  static float SumRow(Formula formula, Rows<sizeof...(kInput)> rows, int64_t count) {
    const auto term = [=](int64_t i, auto lanes) {
      return std::array{formula(LoadLanes<T>(rows[kInput], i, lanes)...)};
    };
    return SumsAlong<1>(count, term)[0];
  }

  const Loss& loss_;
  const KernelArguments& arguments_;
  const aclDataType type_;
  const Formula& formula_;
};

template <typename T, typename Formula, size_t... kInput>
void Make(const Loss& loss, const KernelArguments& arguments, aclDataType type, const Formula& formula,
          std::index_sequence<kInput...>) {
  const Losses<T, Formula, kInput...> losses(loss, arguments, type, formula);
  if (loss.reduction == LossReduction::kNone) {
    if (loss.is_alike) return losses.template Write<T>();
    return VisitFloatType(loss.out, [&](auto tag) { losses.template Write<typename decltype(tag)::Type>(); });
  }
  const double divisor = loss.reduction == LossReduction::kMean ? static_cast<double>(loss.count) : 1;
  const auto reduced = static_cast<float>(losses.Sum() / divisor);
  VisitFloatType(loss.out,
                 [&](auto tag) { RoundElement<typename decltype(tag)::Type>(arguments.outputs[0], 0, reduced); });
}

}  // namespace

template <>
void LossValues<VECTOR_LEVEL>::Run(const Loss& loss, const KernelArguments& arguments) {
  VisitFormula(loss, [&](const auto& formula) {
    using Formula = std::decay_t<decltype(formula)>;
    constexpr size_t kInputs = std::is_invocable_v<Formula, FloatLanes, FloatLanes> ? 2 : 4;
    const auto make = [&](auto tag, aclDataType type) {
      Make<typename decltype(tag)::Type>(loss, arguments, type, formula, std::make_index_sequence<kInputs>());
    };
    if (!loss.is_alike) return make(TypeTag<float>{}, ACL_FLOAT);
    VisitFloatType(loss.inputs[0].type, [&](auto tag) { make(tag, loss.inputs[0].type); });
  });
}

}  // namespace acl_host
