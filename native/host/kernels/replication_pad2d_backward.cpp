// aclnnReplicationPad2dBackward: padding by replication copied every cell to one or more cells of its output; the
// gradient of a cell is the sum of gradOutput over those copies. Negative padding crops: what was cropped gets 0.
//
// Sums are made in the data type itself, in float32 for the 16-bit types, rows before columns and both in ascending
// order. Each output row is made by one thread, so the result does not depend on the number of threads.
#include <algorithm>
#include <cstring>
#include <vector>

#include "aclnnop/aclnn_pad2d_backward.h"
#include "checks.h"
#include "elements.h"
#include "executor.h"
#include "int_arrays.h"

namespace acl_host {
namespace {

constexpr int64_t kElementsPerPiece = 32768;

// One axis before and after padding.
struct Axis {
  int64_t size;
  int64_t before;  // cells put in front; negative: taken away
  int64_t padded;

  // The padded cells [begin, end) that are copies of a cell. Inner cells have one copy, or none if it was cropped; the
  // two border cells also have all that was added beside them.
  struct Copies {
    int64_t begin;
    int64_t end;
  };

  [[nodiscard]] Copies CopiesOf(int64_t cell) const {
    const int64_t begin = cell == 0 ? 0 : cell + before;
    const int64_t end = cell == size - 1 ? padded : cell + before + 1;
    return {std::clamp<int64_t>(begin, 0, padded), std::clamp<int64_t>(end, 0, padded)};
  }
};

struct Geometry {
  int64_t planes;
  Axis rows;
  Axis columns;
};

// Adds the rows of gradOutput that are copies of one row.
template <typename T>
void SumRows(const std::byte* grad_plane, const Axis::Copies& rows, std::vector<Wide<T>>& sums) {
  const auto columns = static_cast<int64_t>(sums.size());
  std::fill(sums.begin(), sums.end(), Wide<T>{});
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t first = row * columns;
    for (int64_t column = 0; column < columns; ++column) {
      sums[static_cast<size_t>(column)] += LoadWide<T>(grad_plane, first + column);
    }
  }
}

// Adds up the columns that are copies of one column, for all columns of an output row.
template <typename T>
void FoldColumns(const std::vector<Wide<T>>& sums, const Axis& columns, std::byte* out_row) {
  std::memset(out_row, 0, static_cast<size_t>(columns.size) * sizeof(T));
  const int64_t inner_begin = std::max<int64_t>(1, -columns.before);
  const int64_t inner_end = std::min(columns.size - 1, columns.padded - columns.before);
  const Wide<T>* const inner = sums.data();
  for (int64_t column = inner_begin; column < inner_end; ++column) {
    StoreRounded<T>(out_row, column, inner[column + columns.before]);
  }
  for (const int64_t border : {int64_t{0}, columns.size - 1}) {
    const Axis::Copies copies = columns.CopiesOf(border);
    Wide<T> sum{};
    for (int64_t column = copies.begin; column < copies.end; ++column) sum += sums[static_cast<size_t>(column)];
    StoreRounded<T>(out_row, border, sum);
  }
}

template <typename T>
void Compute(const Geometry& geometry, const Launch& launch) {
  const Axis& rows = geometry.rows;
  const Axis& columns = geometry.columns;
  const int64_t elements_per_row = (columns.size + columns.padded) * (rows.padded / rows.size + 1);
  const auto compute_rows = [&](int64_t begin, int64_t end) {
    std::vector<Wide<T>> sums(static_cast<size_t>(columns.padded));
    for (int64_t row = begin; row < end; ++row) {
      const auto grad_offset = static_cast<size_t>(row / rows.size * rows.padded * columns.padded) * sizeof(T);
      SumRows<T>(launch.inputs[0] + grad_offset, rows.CopiesOf(row % rows.size), sums);
      FoldColumns<T>(sums, columns, launch.outputs[0] + static_cast<size_t>(row * columns.size) * sizeof(T));
    }
  };
  launch.pool.ParallelFor(geometry.planes * rows.size, kElementsPerPiece / elements_per_row + 1, compute_rows);
}

// Throws unless gradOutput's dim is what padding makes of self's.
Axis PaddedAxis(const Argument& grad_output, const Argument& self, const Dims& padding, size_t from_end) {
  const size_t axis = self.tensor.view_dims.size() - from_end;
  const int64_t before = padding[2 * from_end - 2];
  const int64_t after = padding[2 * from_end - 1];
  const int64_t size = self.tensor.view_dims[axis];
  const int64_t padded = grad_output.tensor.view_dims[axis];
  int64_t expected = 0;
  if (__builtin_add_overflow(size, before, &expected) || __builtin_add_overflow(expected, after, &expected) ||
      padded != expected) {
    FailInvalid("gradOutput: expected dim " + std::to_string(axis) + " to be " + std::to_string(size) + " padded by " +
                std::to_string(before) + " and " + std::to_string(after) + ", got shape " +
                DimsText(grad_output.tensor.view_dims));
  }
  // Taking away more than there is makes no difference, and could not be negated.
  return {size, std::max(before, -size), padded};
}

// A device sums BF16 in a kernel that has these limits and has no other kernel for it.
void CheckPaddingOfBFloat16(const Dims& padding) {
  const bool negative = std::any_of(padding.begin(), padding.end(), [](int64_t value) { return value < 0; });
  const bool small = std::all_of(padding.begin(), padding.end(), [](int64_t value) { return value <= 7; });
  if (!negative && (small || (padding[2] == 0 && padding[3] == 0))) return;
  FailInvalid("padding: expected values from 0 to 7 for BF16, or from 0 with none at top and bottom, got " +
              DimsText(padding));
}

// What CANN does about empty tensors; the caller has found one.
void CheckEmpty(const Argument& self) {
  const Dims& dims = self.tensor.view_dims;
  if (dims.size() == 4 && std::find(dims.begin() + 1, dims.end(), 0) == dims.end()) return;
  FailInvalid("self: expected no empty tensor but for a batch of 0, got shape " + DimsText(dims));
}

Plan MakePlan(const aclTensor* grad_output_pointer, const aclTensor* self_pointer, const aclIntArray* padding_pointer,
              const aclTensor* grad_input_pointer) {
  CheckProduct(CurrentProduct(), {"910A", "910B", "910_93", "310P", "950"});
  CheckNotNull("gradOutput", grad_output_pointer);
  CheckNotNull("self", self_pointer);
  CheckNotNull("padding", padding_pointer);
  CheckNotNull("gradInput", grad_input_pointer);
  const Argument grad_output{"gradOutput", *grad_output_pointer};
  const Argument self{"self", *self_pointer};
  const Argument grad_input{"gradInput", *grad_input_pointer};
  const Dims& padding = padding_pointer->values;

  const std::vector<aclDataType> types = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE, ACL_COMPLEX64, ACL_COMPLEX128};
  for (const Argument& argument : {grad_output, self, grad_input}) CheckDataType(argument, types);
  CheckSameDataType(grad_output, self);
  CheckSameDataType(grad_input, self);

  for (const Argument& argument : {grad_output, self, grad_input}) CheckNotPrivateFormat(argument);
  CheckSameFormat(grad_output, self);
  CheckSameFormat(grad_input, self);

  CheckSameShape(grad_input, self);
  CheckRank(self, {3, 4});
  CheckSameRank(grad_output, self);

  CheckLength({"padding", padding}, {4});
  if (self.tensor.data_type == ACL_BF16) CheckPaddingOfBFloat16(padding);
  const Axis rows = PaddedAxis(grad_output, self, padding, 2);
  const Axis columns = PaddedAxis(grad_output, self, padding, 1);
  // A device does not compare the other dims and writes out of bounds; here they are errors.
  CheckSameLeadingDims(grad_output, self, self.tensor.rank() - 2);
  CheckNoNegativeDim(grad_output);
  CheckNoNegativeDim(self);

  Plan plan;
  if (grad_output.tensor.empty() || self.tensor.empty()) {
    CheckEmpty(self);
    return plan;
  }
  CheckAddressable(grad_output);
  CheckAddressable(grad_input);
  (void)ElementCount(grad_output.tensor.view_dims);
  const int64_t planes = ElementCount(self.tensor.view_dims) / rows.size / columns.size;
  plan.AddInput(grad_output.tensor);
  plan.AddOutput(grad_input.tensor);
  plan.SetCompute([geometry = Geometry{planes, rows, columns}, type = self.tensor.data_type](const Launch& launch) {
    VisitFloatOrComplexType(type, [&](auto tag) { Compute<typename decltype(tag)::Type>(geometry, launch); });
  });
  return plan;
}

}  // namespace
}  // namespace acl_host

aclnnStatus aclnnReplicationPad2dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                          const aclIntArray* padding, aclTensor* gradInput,
                                                          uint64_t* workspaceSize, aclOpExecutor** executor) {
  return acl_host::PlanOperator(__func__, workspaceSize, executor,
                                [&] { return acl_host::MakePlan(gradOutput, self, padding, gradInput); });
}

aclnnStatus aclnnReplicationPad2dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                          const aclrtStream stream) {
  return acl_host::RunOperator(__func__, workspace, workspaceSize, executor, stream);
}
