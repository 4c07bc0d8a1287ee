// aclnnInplaceCopy: its checks, its plan and the conversion of elements of one type to those of another.
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

#include "operator_plans.h"
#include "plan/checks.h"
#include "tensors/elements.h"
#include "tensors/strided_copy.h"

namespace acl_host {
namespace {

// Elements at a time, which pass through the widest type of their kind: a loop for each pair of types would be four
// times the code.
constexpr int64_t kBlock = 512;

// The widest type of the same kind.
template <typename T>
using Widest =
    std::conditional_t<kIsComplex<T>, std::complex<double>,
                       std::conditional_t<std::is_integral_v<T> || std::is_same_v<T, Bool>, int64_t, double>>;

template <typename T>
Widest<T> Load(const std::byte* source, int64_t index) {
  if constexpr (std::is_same_v<T, Bool>) {
    return LoadElement<Bool>(source, index).value;
  } else if constexpr (kIsComplex<T>) {
    const T value = LoadElement<T>(source, index);
    return {value.real(), value.imag()};
  } else {
    return static_cast<Widest<T>>(LoadWide<T>(source, index));
  }
}

template <typename Integer>
Integer Saturated(double value) {
  using Limits = std::numeric_limits<Integer>;
  if (std::isnan(value)) return 0;
  // The largest int64 is no double, but the number after it is.
  if (value >= std::ldexp(1.0, Limits::digits)) return Limits::max();
  if (value < static_cast<double>(Limits::min())) return Limits::min();
  return static_cast<Integer>(value);
}

template <typename T, typename From>
void Store(std::byte* target, int64_t index, From value) {
  if constexpr (std::is_same_v<T, Bool>) {
    StoreElement(target, index, Bool{static_cast<uint8_t>(value != From{0})});
  } else if constexpr (kIsComplex<T>) {
    using Part = typename T::value_type;
    if constexpr (kIsComplex<From>) {
      StoreElement(target, index, T(static_cast<Part>(value.real()), static_cast<Part>(value.imag())));
    } else {
      StoreElement(target, index, T(static_cast<Part>(value)));
    }
  } else if constexpr (kIsComplex<From>) {
    Store<T>(target, index, value.real());
  } else if constexpr (std::is_integral_v<T> && std::is_same_v<From, double>) {
    StoreElement(target, index, Saturated<T>(value));
  } else if constexpr (std::is_integral_v<T>) {
    StoreElement(target, index, static_cast<T>(value));
  } else {
    StoreRounded<T>(target, index, static_cast<Wide<T>>(value));
  }
}

template <typename From>
void StoreBlock(aclDataType to, std::byte* target, int64_t first, const From* block, int64_t size) {
  VisitNumberType(to, [&](auto tag) {
    for (int64_t i = 0; i < size; ++i) Store<typename decltype(tag)::Type>(target, first + i, block[i]);
  });
}

// Converts count elements. Numbers beyond the range of an integer type become its nearest one and NaN 0; a number is
// true unless it is 0; of a complex number the real part is taken where the other type is real.
void Convert(ThreadPool& pool, int64_t count, aclDataType from, const std::byte* source, aclDataType to,
             std::byte* target) {
  VisitNumberType(from, [&](auto from_tag) {
    using From = typename decltype(from_tag)::Type;
    pool.ParallelFor(count, Grain(1), [&](int64_t begin, int64_t end) {
      std::array<Widest<From>, kBlock> block;
      for (int64_t first = begin; first < end; first += kBlock) {
        const int64_t size = std::min(kBlock, end - first);
        for (int64_t i = 0; i < size; ++i) block[static_cast<size_t>(i)] = Load<From>(source, first + i);
        StoreBlock(to, target, first, block.data(), size);
      }
    });
  });
}

}  // namespace

Plan PlanInplaceCopy(const InplaceCopyArguments& arguments) {
  CheckProduct(kAllProducts);
  const Argument self_ref{"selfRef", arguments.self_ref};
  const Argument src{"src", arguments.src};
  for (const Argument& each : {self_ref, src}) {
    CheckDataType(each, FloatTypes({ACL_DOUBLE, ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64, ACL_UINT8, ACL_BOOL,
                                    ACL_COMPLEX64, ACL_COMPLEX128}));
    CheckMostDims(each);
    CheckNotPrivateFormat(each);
  }
  const Dims& from = src.tensor.view_dims;
  const Dims& to = self_ref.tensor.view_dims;
  if (BroadcastDims(from, to) != to) {
    FailInvalid("src: expected a shape that is broadcast to that of selfRef, " + DimsText(to) + ", got " +
                DimsText(from));
  }
  aclTensor view = Broadcast(src.tensor, to);

  Plan plan;
  if (self_ref.tensor.empty()) return plan;
  CheckAddressable(self_ref);
  CheckAddressable(src);
  plan.AddStridedInput(view);
  view.offset = 0;
  plan.AddOutput(self_ref.tensor);
  plan.PromiseTimeOfBytes();
  if (src.tensor.data_type == self_ref.tensor.data_type) {
    plan.SetCompute([view](const KernelArguments& launch) {
      CopyFromView(launch.pool, view, launch.inputs[0], launch.outputs[0]);
    });
    return plan;
  }
  const uint64_t size_bytes = static_cast<uint64_t>(ElementCount(view.view_dims)) * aclDataTypeSize(view.data_type);
  plan.AddScratch(size_bytes);
  plan.SetCompute([view, to = self_ref.tensor.data_type](const KernelArguments& launch) {
    CopyFromView(launch.pool, view, launch.inputs[0], launch.scratch[0]);
    Convert(launch.pool, ElementCount(view.view_dims), view.data_type, launch.scratch[0], to, launch.outputs[0]);
  });
  return plan;
}

}  // namespace acl_host
