// Max pooling: its checks, in CANN's order and with CANN's codes, and its plans.
#include <algorithm>
#include <string>
#include <vector>

#include "families/max_pool/checks.h"
#include "families/max_pool/forward.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kWithMask = {Product::k910A, Product::k910B, Product::k910_93, Product::k310P};

// The operators have the same arguments.
using MaxPoolArguments = MaxPool2dWithIndicesArguments;

// Checks all but the shape of indices.
Maxima CheckMaxima(const MaxPoolArguments& arguments, const std::vector<aclDataType>& types,
                   const std::vector<aclDataType>& index_types) {
  const Argument self{"self", arguments.self};
  const IntArrayArgument kernel_size{"kernelSize", arguments.kernel_size};
  const IntArrayArgument stride{"stride", arguments.stride};
  const IntArrayArgument padding{"padding", arguments.padding};
  const IntArrayArgument dilation{"dilation", arguments.dilation};
  const Argument out{"out", arguments.out};
  const Argument indices{"indices", arguments.indices};
  CheckDataType(self, types);
  CheckSameDataType(out, self);
  CheckDataType(indices, index_types);
  CheckSameFormat(out, self);
  CheckNotPrivateFormat(self);
  CheckRank(self, {3, 4});
  const bool takes_dilation = CurrentProduct() == Product::k950;
  Maxima maxima{CheckPooling(kernel_size, stride, padding, dilation, takes_dilation), ReadPair(kernel_size.values),
                ReadPair(dilation.values), self.tensor.data_type};
  CheckShape(out, "one element for each window", CheckSizes(self, arguments.ceil_mode, maxima.pool));
  // The axes of another format have another order, which is not followed here.
  if (self.tensor.format == ACL_FORMAT_NHWC) CheckFormat(self, ACL_FORMAT_NCHW);
  CheckNoNegativeDim(indices);
  maxima.pool.index_type = indices.tensor.data_type;
  if (maxima.pool.input.height > INT32_MAX / maxima.pool.input.width) {
    FailShape(self, "planes of less than 2^31 cells");
  }
  return maxima;
}

// indices is the tensor that the kernel writes.
Plan MakePlan(const Maxima& maxima, const MaxPoolArguments& arguments, const aclTensor& indices) {
  Plan plan = PlanOf({{"self", arguments.self}}, {{"out", arguments.out}, {"indices", &indices}});
  constexpr int64_t kFewCells = 64;
  if (maxima.cells.height <= kFewCells / maxima.cells.width) plan.PromiseTimeOfBytes();
  plan.SetKernel<MaxPoolForward>(maxima);
  return plan;
}

}  // namespace

Plan PlanMaxPool2dWithIndices(const MaxPoolArguments& arguments) {
  CheckProduct(kWithIndices);
  const Maxima maxima = CheckMaxima(arguments, FloatTypes(), {ACL_INT32, ACL_INT64});
  CheckSameShape({"indices", arguments.indices}, {"out", arguments.out});
  if (maxima.pool.batches == 0) return {};
  return MakePlan(maxima, arguments, *arguments.indices);
}

Plan PlanMaxPool2dWithMask(const MaxPoolArguments& arguments) {
  const Product product = CurrentProduct();
  if (product == Product::k950) {
    FailInvalid("the product 950 does not support this operator; use aclnnMaxPool2dWithIndices");
  }
  CheckProduct(kWithMask);
  const IntArrayArgument kernel_size{"kernelSize", arguments.kernel_size};
  const Argument self{"self", arguments.self};
  const Argument out{"out", arguments.out};
  CheckLength(kernel_size, {1, 2});
  const bool has_float_alone = product == Product::k310P;
  Maxima maxima = CheckMaxima(arguments, has_float_alone ? std::vector{ACL_FLOAT} : FloatTypes(), {ACL_INT8});
  const Argument indices{"indices", arguments.indices};
  Dims dims = self.tensor.view_dims;
  dims.back() = SaturatedProduct({MaskWordsPerCell(maxima.pool), int64_t{sizeof(uint16_t)}});
  dims[dims.size() - 2] = SaturatedProduct({maxima.cells.height, maxima.cells.width});
  CheckShape(indices, "that of a mask", dims);
  if (maxima.pool.batches == 0) return {};
  const bool has_positions = HasPositions(product, maxima.pool);
  maxima.pool.index_type = has_positions ? ACL_INT32 : ACL_UINT16;
  // What a device does not write of a mask is left here, too.
  const int64_t bytes = has_positions ? PositionBytes(maxima.pool) : WordBytes(maxima.pool);
  const aclTensor written = BytesOf(indices.tensor, bytes);
  return MakePlan(maxima, arguments, written);
}

}  // namespace acl_host
