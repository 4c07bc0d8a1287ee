// aclnnInplaceCopy: its checks and its plan.
#include "conversion.h"
#include "operator_plans.h"
#include "plan/checks.h"
#include "tensors/strided_copy.h"

namespace acl_host {
namespace {

// src over the shape of selfRef: the strides of axes that are repeated are 0. Fails if it cannot be broadcast.
aclTensor Broadcast(const Argument& src, const Argument& self_ref) {
  const Dims& from = src.tensor.view_dims;
  const Dims& to = self_ref.tensor.view_dims;
  aclTensor view = src.tensor;
  view.view_dims = to;
  view.strides.assign(to.size(), 0);
  bool fits = from.size() <= to.size();
  for (size_t i = 0; fits && i < from.size(); ++i) {
    const size_t axis = to.size() - from.size() + i;
    fits = from[i] == to[axis] || from[i] == 1;
    if (from[i] == to[axis]) view.strides[axis] = src.tensor.strides[i];
  }
  if (!fits) {
    FailInvalid("src: expected a shape that is broadcast to that of selfRef, " + DimsText(to) + ", got " +
                DimsText(from));
  }
  return view;
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
  aclTensor view = Broadcast(src, self_ref);

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
