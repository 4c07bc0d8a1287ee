// Products of matrices: their checks, in CANN's order and with CANN's codes, and their plans.
#include <cmath>
#include <optional>
#include <string>

#include "device/runtime.h"
#include "families/gemm/computation.h"
#include "families/gemm/layout.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

void CheckPrecision(const Argument& left, const Argument& right, int8_t cube_math_type) {
  const bool is_single = left.tensor.data_type == ACL_FLOAT || right.tensor.data_type == ACL_FLOAT;
  CheckCubeMathType(cube_math_type, is_single);
}

void CheckDepth(const Argument& right, size_t axis, int64_t depth) {
  CheckDim(right, axis, "the last dim of the matrices before it", depth);
}

// Devices do not check these all, convert mixed types, and do not follow private formats.
void CheckOperands(const Argument& left, const Argument& right, const Argument& out) {
  for (const Argument& each : {left, right, out}) {
    CheckNoNegativeDim(each);
    CheckNotPrivateFormat(each);
  }
  CheckSameDataType(right, left);
  if (out.tensor.data_type != ACL_FLOAT) CheckSameDataType(out, left);
}

// The dims of a product of two tensors of up to 6 axes: without the axes that vectors lack.
Dims DimsOfProduct(const Argument& left, const Argument& right) {
  const Dims& left_dims = left.tensor.view_dims;
  const Dims& right_dims = right.tensor.view_dims;
  const auto batches = [](const Dims& dims) { return Dims(dims.begin(), dims.end() - (dims.size() < 2 ? 1 : 2)); };
  std::optional<Dims> dims = BroadcastDims(batches(left_dims), batches(right_dims));
  if (!dims) {
    FailShape(right,
              "batch dims that can be broadcast with those of " + std::string(left.name) + ", " + DimsText(left_dims));
  }
  if (left_dims.size() > 1) dims->push_back(left_dims[left_dims.size() - 2]);
  if (right_dims.size() > 1) dims->push_back(right_dims.back());
  return *dims;
}

Plan MakePlan(MatrixProduct product, const Argument& left, const Argument& right, const Argument& out,
              const std::optional<Argument>& added = {}) {
  Plan plan;
  if (out.tensor.empty()) return plan;
  for (const Argument& each : {left, right, out}) CheckAddressable(each);
  if (product.alpha == 0) product.depth = 0;
  if (product.depth == 0) product.alpha = 0;
  if (product.depth == 0 && !added) {
    plan.AddOutput(out.tensor);
    plan.SetZeros();
    return plan;
  }
  // One column is one row of the transposed product, and in memory the same.
  const bool is_column = product.columns == 1 && product.rows != 1;
  if (is_column) product = Transposed(product);
  plan.AddStridedInput(is_column ? right.tensor : left.tensor);
  plan.AddStridedInput(is_column ? left.tensor : right.tensor);
  if (added) {
    CheckAddressable(*added);
    plan.AddStridedInput(added->tensor);
  }
  plan.AddOutput(out.tensor);
  const ProductBlocks blocks = BlocksOf(product, Runtime::Current()->config().threads);
  plan.AddScratch(static_cast<uint64_t>(blocks.slots * blocks.slot_bytes() + kSlotAlignment));
  if (product.parts() > 1) {
    const int64_t sums = product.parts() * blocks.part_matrices * blocks.part_rows * product.columns;
    plan.AddScratch(static_cast<uint64_t>(sums) * sizeof(float));
  }
  plan.PromiseTimeOfProducts(static_cast<double>(ElementCount(out.tensor.view_dims)) *
                             static_cast<double>(product.depth));
  plan.SetKernel<Gemm>(product, blocks);
  return plan;
}

// A device takes so small a factor for 0.
float FactorOf(const aclScalar* scalar, const char* name) {
  constexpr float kNothing = 1.19e-7F;
  const auto factor = static_cast<float>(NumberOf(scalar, name));
  return std::fabs(factor) <= kNothing ? 0 : factor;
}

}  // namespace

Plan PlanMm(const MmArguments& arguments) {
  CheckProduct(kAllProducts);
  const Argument out{"out", arguments.out};
  const Argument self{"self", arguments.self};
  const Argument mat2{"mat2", arguments.mat2};
  for (const Argument& each : {self, mat2, out}) CheckDataType(each, FloatTypes());
  CheckPrecision(self, mat2, arguments.cube_math_type);
  for (const Argument& each : {self, mat2}) CheckRank(each, {2});
  CheckDepth(mat2, 0, self.tensor.view_dims[1]);
  CheckShape(out, "the rows of self and the columns of mat2", DimsOfProduct(self, mat2));
  CheckOperands(self, mat2, out);
  return MakePlan(ProductOf(self.tensor, mat2.tensor, out.tensor), self, mat2, out);
}

Plan PlanMatmul(const MatmulArguments& arguments) {
  CheckProduct(kAllProducts);
  const Argument self{"self", arguments.self};
  const Argument mat2{"mat2", arguments.mat2};
  const Argument out{"out", arguments.out};
  for (const Argument& each : {self, mat2, out}) CheckDataType(each, FloatTypes());
  CheckPrecision(self, mat2, arguments.cube_math_type);
  for (const Argument& each : {self, mat2}) CheckRank(each, {1, 2, 3, 4, 5, 6});
  const size_t axes = mat2.tensor.view_dims.size();
  CheckDepth(mat2, axes < 2 ? 0 : axes - 2, self.tensor.view_dims.back());
  const Dims dims = DimsOfProduct(self, mat2);
  for (const Argument& each : {self, out}) CheckNotPrivateFormat(each);
  // A device compares the number of elements alone.
  CheckShape(out, "the shape of the product", dims);
  CheckOperands(self, mat2, out);
  const aclTensor left = self.tensor.rank() == 1 ? AsRow(self.tensor) : self.tensor;
  const aclTensor right = axes == 1 ? AsColumn(mat2.tensor) : mat2.tensor;
  return MakePlan(ProductOf(left, right, out.tensor), self, mat2, out);
}

Plan PlanBatchMatMul(const BatchMatMulArguments& arguments) {
  CheckProduct(kAllProducts);
  const Argument self{"self", arguments.self};
  const Argument mat2{"mat2", arguments.mat2};
  const Argument out{"out", arguments.out};
  for (const Argument& each : {self, mat2, out}) CheckDataType(each, FloatTypes());
  CheckPrecision(self, mat2, arguments.cube_math_type);
  for (const Argument& each : {self, mat2}) CheckRank(each, {3});
  CheckDepth(mat2, 1, self.tensor.view_dims[2]);
  CheckShape(out, "the shape of the product", DimsOfProduct(self, mat2));
  for (const Argument& each : {self, mat2, out}) CheckNotPrivateFormat(each);
  CheckOperands(self, mat2, out);
  return MakePlan(ProductOf(self.tensor, mat2.tensor, out.tensor), self, mat2, out);
}

Plan PlanAddmm(const AddmmArguments& arguments) {
  CheckProduct(kAllProducts);
  const Argument self{"self", arguments.self};
  const Argument mat1{"mat1", arguments.mat1};
  const Argument mat2{"mat2", arguments.mat2};
  const float beta = FactorOf(arguments.beta, "beta");
  const float alpha = FactorOf(arguments.alpha, "alpha");
  const Argument out{"out", arguments.out};
  for (const Argument& each : {self, mat1, mat2, out}) CheckDataType(each, FloatTypes());
  CheckPrecision(mat1, mat2, arguments.cube_math_type);
  for (const Argument& each : {mat1, mat2}) CheckRank(each, {2});
  CheckDepth(mat2, 0, mat1.tensor.view_dims[1]);
  CheckNotPrivateFormat(self);
  CheckRank(self, {1, 2});
  const Dims dims = DimsOfProduct(mat1, mat2);
  if (BroadcastDims(self.tensor.view_dims, dims) != dims) {
    FailShape(self, "a shape that is broadcast to " + DimsText(dims));
  }
  const bool is_empty = dims[0] == 0 || dims[1] == 0;
  if (!is_empty || !out.tensor.empty()) CheckShape(out, "the rows of mat1 and the columns of mat2", dims);
  CheckOperands(mat1, mat2, out);
  CheckNoNegativeDim(self);
  CheckSameDataType(self, mat1);

  MatrixProduct product = ProductOf(mat1.tensor, mat2.tensor, out.tensor);
  product.alpha = alpha;
  product.beta = beta;
  if (beta == 0) return MakePlan(product, mat1, mat2, out);
  product.added = AddedTo(product, self.tensor);
  return MakePlan(product, mat1, mat2, out, self);
}

}  // namespace acl_host
