// Sums and means of integers, of 64 bits and more, and those that are of another kind than their terms.
#include <complex>
#include <limits>
#include <type_traits>

#include "families/reductions/computation.h"
#include "tensors/elements.h"

namespace acl_host {
namespace {

template <typename T>
using Total = std::conditional_t<kIsComplex<T>, std::complex<double>,
                                 std::conditional_t<std::is_integral_v<T>, uint64_t, double>>;

// Integers wrap around.
template <typename Sum, typename T>
Sum Term(const std::byte* terms, int64_t offset) {
  if constexpr (std::is_same_v<T, Bool>) {
    return static_cast<Sum>(LoadElement<Bool>(terms, offset).value != 0 ? 1 : 0);
  } else if constexpr (kIsComplex<T>) {
    const T term = LoadElement<T>(terms, offset);
    return Sum(term.real(), term.imag());
  } else {
    return static_cast<Sum>(LoadWide<T>(terms, offset));
  }
}

template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T> || std::is_same_v<T, Bool>;

// A quotient of integers is truncated.
template <typename Sum>
Sum Divided(Sum sum, double divisor) {
  if constexpr (std::is_same_v<Sum, uint64_t>) {
    return divisor == 1 ? sum : static_cast<uint64_t>(static_cast<int64_t>(sum) / static_cast<int64_t>(divisor));
  } else {
    return sum / divisor;
  }
}

template <typename From, typename To>
void Sum(const Reduction& reduction, const KernelArguments& arguments) {
  const auto sum_at = [&](int64_t first) {
    Total<To> sum{};
    for (int64_t term = 0; term < reduction.terms; ++term) {
      sum +=
          Term<Total<To>, From>(arguments.inputs[0], first + OffsetIn(reduction.reduced, term, &ReducedAxis::stride));
    }
    return Divided(sum, reduction.divisor);
  };
  arguments.pool.ParallelFor(reduction.results, Grain(reduction.terms), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Total<To> sum = sum_at(OffsetIn(reduction.kept, i, &ReducedAxis::stride));
      const int64_t to = OffsetIn(reduction.kept, i, &ReducedAxis::result_stride);
      if constexpr (kIsComplex<To>) {
        using Part = typename To::value_type;
        StoreElement(arguments.outputs[0], to, To(static_cast<Part>(sum.real()), static_cast<Part>(sum.imag())));
      } else {
        StoreRounded<To>(arguments.outputs[0], to, static_cast<Wide<To>>(sum));
      }
    }
  });
}

}  // namespace

void SumNumbers(const Reduction& reduction, const KernelArguments& arguments) {
  VisitNumberType(reduction.from, [&](auto from) {
    VisitNumberType(reduction.to, [&](auto to) {
      using From = typename decltype(from)::Type;
      using To = typename decltype(to)::Type;
      constexpr bool kHolds = kIsComplex<To> || (!kIsComplex<From> && (!kIsInteger<To> || kIsInteger<From>));
      if constexpr (kHolds && !std::is_same_v<To, Bool> && (!kIsComplex<To> || kIsComplex<From>)) {
        Sum<From, To>(reduction, arguments);
      }
    });
  });
}

void FillNan(aclDataType type, int64_t count, const KernelArguments& arguments) {
  VisitNumberType(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (kIsInteger<T>) {
        StoreElement(arguments.outputs[0], i, T{});
      } else if constexpr (!kIsComplex<T>) {
        StoreRounded<T>(arguments.outputs[0], i, std::numeric_limits<Wide<T>>::quiet_NaN());
      }
    }
  });
}

}  // namespace acl_host
