// aclnnMaxUnpool3dBackward: every cell of the gradient is the element of gradOutput that its index names, within its
// plane, which is the last three axes as one. Elements are moved, never computed with.
#include <algorithm>
#include <atomic>
#include <limits>

#include "aclnnop/aclnn_max_unpool3d_backward.h"
#include "checks.h"
#include "elements.h"
#include "executor.h"
#include "int_arrays.h"

namespace acl_host {
namespace {

constexpr int64_t kElementsPerPiece = 16384;

struct Geometry {
  int64_t planes;
  int64_t cells;          // of one plane of the gradient
  int64_t grad_elements;  // of one plane of gradOutput
};

// The lowest position that any thread saw, so that the report does not depend on which came first.
class FirstPosition {
 public:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  void Lower(int64_t position) {
    int64_t known = value_.load();
    while (position < known && !value_.compare_exchange_weak(known, position)) continue;
  }
  [[nodiscard]] int64_t value() const { return value_.load(); }

 private:
  std::atomic<int64_t> value_{kNone};
};

// Cells [begin, end), counted through all planes; returns the first whose index is none of its plane's. Such a cell
// becomes 0.
template <typename Element>
int64_t Gather(const Geometry& geometry, const Launch& launch, int64_t begin, int64_t end) {
  const std::byte* const indices = launch.inputs[1];
  std::byte* const out = launch.outputs[0];
  int64_t first_invalid = FirstPosition::kNone;
  for (int64_t cell = begin; cell < end;) {
    const int64_t plane = cell / geometry.cells;
    const auto plane_offset = static_cast<size_t>(plane * geometry.grad_elements) * sizeof(Element);
    const std::byte* const grad_plane = launch.inputs[0] + plane_offset;
    const int64_t plane_end = std::min(end, (plane + 1) * geometry.cells);
    for (; cell < plane_end; ++cell) {
      const auto index = LoadElement<int64_t>(indices, cell);
      const bool valid = 0 <= index && index < geometry.grad_elements;
      if (!valid) first_invalid = std::min(first_invalid, cell);
      StoreElement(out, cell, valid ? LoadElement<Element>(grad_plane, index) : Element{0});
    }
  }
  return first_invalid;
}

template <typename Element>
void Compute(const Geometry& geometry, const Launch& launch) {
  FirstPosition invalid;
  launch.pool.ParallelFor(geometry.planes * geometry.cells, kElementsPerPiece, [&](int64_t begin, int64_t end) {
    invalid.Lower(Gather<Element>(geometry, launch, begin, end));
  });
  if (invalid.value() == FirstPosition::kNone) return;
  // A device would read whatever lies there, or fault. Here it is always the fault.
  const auto index = LoadElement<int64_t>(launch.inputs[1], invalid.value());
  throw Error(ACL_ERROR_RT_AICORE_EXCEPTION, "aclnnMaxUnpool3dBackward: indices: element " +
                                                 std::to_string(invalid.value()) + " is " + std::to_string(index) +
                                                 ", outside the " + std::to_string(geometry.grad_elements) +
                                                 " elements of a plane of gradOutput");
}

struct Arguments {
  const aclTensor* grad_output;
  const aclTensor* self;
  const aclTensor* indices;
  const aclIntArray* output_size;
  const aclIntArray* stride;
  const aclIntArray* padding;
  const aclTensor* out;
};

void CheckTensors(const Argument& grad_output, const Argument& self, const Argument& indices, const Argument& out) {
  if (!out.tensor.contiguous()) FailInvalid("out: expected contiguous strides, got " + DimsText(out.tensor.strides));

  const std::vector<aclDataType> types = {ACL_FLOAT, ACL_FLOAT16, ACL_INT8,  ACL_UINT8,
                                          ACL_INT16, ACL_INT32,   ACL_INT64, ACL_DOUBLE};
  for (const Argument& argument : {grad_output, self, out}) CheckDataType(argument, types);
  CheckSameDataType(grad_output, self);
  CheckSameDataType(out, self);
  CheckDataType(indices, {ACL_INT64});

  CheckRank(self, {4, 5});
  CheckSameRank(indices, self);
  CheckSameRank(out, self);
  CheckSameShape(indices, self);
  CheckSameShape(out, self);

  const Dims& dims = self.tensor.view_dims;
  if (std::any_of(dims.begin() + 1, dims.end(), [](int64_t dim) { return dim <= 0; })) {
    FailInvalid("self: expected no empty dim but the first, got shape " + DimsText(dims));
  }
}

void CheckSizes(const Argument& self, const Argument& grad_output, const IntArrayArgument& output_size,
                const IntArrayArgument& stride, const IntArrayArgument& padding) {
  for (const IntArrayArgument& array : {output_size, stride, padding}) CheckLength(array, {3});
  CheckEachPositive(stride);
  CheckEachPositive(output_size);
  const Dims cells(self.tensor.view_dims.end() - 3, self.tensor.view_dims.end());
  if (ElementCount(output_size.values) < ElementCount(cells)) {
    FailInvalid("outputSize: expected room for the " + DimsText(cells) + " cells of self, got " +
                DimsText(output_size.values));
  }

  CheckSameRank(grad_output, self);
  CheckSameLeadingDims(grad_output, self, self.tensor.rank() - 3);
  const Dims& grad_dims = grad_output.tensor.view_dims;
  if (!std::equal(output_size.values.begin(), output_size.values.end(), grad_dims.end() - 3)) {
    FailInvalid("gradOutput: expected the last three dims to be outputSize, " + DimsText(output_size.values) +
                ", got shape " + DimsText(grad_dims));
  }
}

void Check(const Arguments& arguments) {
  CheckProduct(CurrentProduct(), {"910A", "910B", "910_93", "950"});
  CheckNotNull("gradOutput", arguments.grad_output);
  CheckNotNull("self", arguments.self);
  CheckNotNull("indices", arguments.indices);
  CheckNotNull("outputSize", arguments.output_size);
  CheckNotNull("stride", arguments.stride);
  CheckNotNull("padding", arguments.padding);
  CheckNotNull("out", arguments.out);
  const Argument grad_output{"gradOutput", *arguments.grad_output};
  const Argument self{"self", *arguments.self};
  const Argument indices{"indices", *arguments.indices};
  const Argument out{"out", *arguments.out};
  CheckTensors(grad_output, self, indices, out);
  // Neither the formats nor the values of padding are checked, as on a device.
  CheckSizes(self, grad_output, {"outputSize", arguments.output_size->values}, {"stride", arguments.stride->values},
             {"padding", arguments.padding->values});
  CheckNoNegativeDim(self);
  for (const Argument& argument : {grad_output, indices, out}) CheckAddressable(argument);
}

Plan MakePlan(const Arguments& arguments) {
  Check(arguments);
  Plan plan;
  if (arguments.grad_output->empty()) return plan;

  const Dims& dims = arguments.self->view_dims;
  const Dims planes(dims.begin(), dims.end() - 3);
  const Geometry geometry{ElementCount(planes), ElementCount(Dims(dims.end() - 3, dims.end())),
                          ElementCount(arguments.output_size->values)};
  (void)ElementCount(arguments.grad_output->view_dims);
  plan.AddInput(*arguments.grad_output);
  plan.AddInput(*arguments.indices);
  plan.AddOutput(*arguments.out);
  plan.SetCompute([geometry, type = arguments.self->data_type](const Launch& launch) {
    VisitElementSize(type, [&](auto tag) { Compute<typename decltype(tag)::Type>(geometry, launch); });
  });
  return plan;
}

}  // namespace
}  // namespace acl_host

aclnnStatus aclnnMaxUnpool3dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                     const aclTensor* indices, const aclIntArray* outputSize,
                                                     const aclIntArray* stride, const aclIntArray* padding,
                                                     aclTensor* out, uint64_t* workspaceSize,
                                                     aclOpExecutor** executor) {
  return acl_host::PlanOperator(__func__, workspaceSize, executor, [&] {
    return acl_host::MakePlan({gradOutput, self, indices, outputSize, stride, padding, out});
  });
}

aclnnStatus aclnnMaxUnpool3dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                     aclrtStream stream) {
  return acl_host::RunOperator(__func__, workspace, workspaceSize, executor, stream);
}
