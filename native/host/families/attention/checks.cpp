#include "families/attention/checks.h"

#include <array>
#include <cstring>

#include "errors/exceptions.h"

namespace acl_host {
namespace {

constexpr int64_t kMostDepth = 768;
// The triangle that stands for masks of any size.
constexpr int64_t kTriangle = 2048;

enum SparseMode : int64_t { kDefault = 0, kAllMask = 1, kLeftUpCausal = 2, kRightDownCausal = 3 };

[[noreturn]] void Fail(const std::string& message) { throw OperatorError(kRefusedInside, message); }

[[noreturn]] void FailShapeInside(const Argument& argument, const std::string& expected) {
  FailShape(argument, expected, kRefusedInside);
}

// The stride along an axis; 0 where the tensor is broadcast.
int64_t StrideOf(const aclTensor& tensor, size_t axis) {
  return tensor.view_dims[axis] == 1 ? 0 : tensor.strides[axis];
}

HeadStrides BroadcastStrides(const aclTensor& tensor) {
  if (tensor.rank() == 2) return {0, 0, StrideOf(tensor, 0)};
  return {StrideOf(tensor, 0), StrideOf(tensor, 1), StrideOf(tensor, 2)};
}

void AddMask(Attention& attention, const Argument& mask, int64_t sparse_mode) {
  const aclDataType type = mask.tensor.data_type;
  if (type != ACL_BOOL && type != ACL_UINT8) Fail(std::string(mask.name) + ": expected BOOL or UINT8");
  const Dims& dims = mask.tensor.view_dims;
  if (sparse_mode == kLeftUpCausal || sparse_mode == kRightDownCausal) {
    if (dims != Dims{kTriangle, kTriangle}) FailShapeInside(mask, "[2048, 2048] in sparseMode 2 and 3");
    attention.is_causal = true;
    attention.first_keys = 1 + (sparse_mode == kLeftUpCausal ? 0 : attention.keys - attention.rows);
    return;
  }
  const Dims last{attention.rows, attention.keys};
  bool fits = dims == last;
  for (const Dims& leading : {Dims{attention.batches, attention.heads}, Dims{attention.batches, 1}, Dims{1, 1}}) {
    fits = fits || dims == Dims{leading[0], leading[1], last[0], last[1]};
  }
  if (!fits) FailShapeInside(mask, "[B, N, S, T], [B, 1, S, T], [1, 1, S, T] or [S, T] with S, T of " + DimsText(last));
  attention.mask = BroadcastStrides(RowsSideBySide(mask.tensor));
}

void AddBias(Attention& attention, const Argument& bias, const Argument& query, int64_t pse_type) {
  if (bias.tensor.data_type != query.tensor.data_type) Fail(std::string(bias.name) + ": expected the type of query");
  const Dims& dims = bias.tensor.view_dims;
  const bool fits = dims.size() == 4 && (dims[0] == attention.batches || dims[0] == 1) && dims[1] == attention.heads &&
                    (dims[2] == attention.rows || dims[2] == 1) && dims[3] == attention.keys;
  if (!fits) FailShapeInside(bias, "[B, N, S, T], [1, N, S, T] or [B, N, 1, T]");
  attention.bias = BroadcastStrides(RowsSideBySide(bias.tensor));
  attention.is_bias_scaled = pse_type == 1;
}

}  // namespace

AttentionLayout::AttentionLayout(const char* given, int64_t heads)
    : name(&Required<OperatorError>(given, "inputLayout")), head_num(heads) {
  if (name == "TND") FailInvalid("inputLayout: TND is not computed by this library");
  const std::array<const char*, 4> known = {"BNSD", "BSND", "BSH", "SBH"};
  for (const char* each : known) {
    if (name == each) return;
  }
  FailInvalid("inputLayout: expected BNSD, BSND, BSH or SBH, got " + name);
}

HeadStrides AttentionLayout::StridesOf(const Dims& strides, int64_t depth) const {
  return {strides[axis('B')], has_heads() ? strides[axis('N')] : depth, strides[axis('S')]};
}

void CheckTypes(const AttentionTensors& tensors) {
  for (const Argument* each : {&tensors.query, &tensors.key, &tensors.value}) {
    CheckDataType(*each, FloatTypes());
    CheckSameDataType(*each, tensors.query);
  }
}

void CheckOperands(const AttentionTensors& tensors, const AttentionLayout& layout) {
  for (const Argument* each : {&tensors.query, &tensors.key, &tensors.value}) {
    CheckRank(*each, {static_cast<int64_t>(layout.name.size())});
    CheckNoNegativeDim(*each);
    CheckAddressable(*each);
  }
  for (const char axis : {'B', 'S', 'N'}) {
    if (layout.axis(axis) == std::string::npos) continue;
    CheckDim(tensors.value, layout.axis(axis), "that of key", layout.size(tensors.key.tensor, axis));
  }
  CheckDim(tensors.key, layout.axis('B'), "that of query", layout.size(tensors.query.tensor, 'B'));
}

Attention AttentionOf(const AttentionTensors& tensors, const AttentionLayout& layout, double scale) {
  const aclTensor& query = tensors.query.tensor;
  const aclTensor& key = tensors.key.tensor;
  const aclTensor& value = tensors.value.tensor;
  Attention attention{};
  attention.type = query.data_type;
  attention.batches = layout.size(query, 'B');
  attention.rows = layout.size(query, 'S');
  attention.keys = layout.size(key, 'S');
  attention.heads = layout.head_num;
  attention.scale = static_cast<float>(scale);
  const int64_t last = query.view_dims.back();
  if (layout.has_heads()) {
    CheckDim(tensors.query, layout.axis('N'), "headNum", layout.head_num);
    attention.key_heads = layout.size(key, 'N');
    attention.depth = last;
    CheckDim(tensors.key, 3, "the last dim of query", attention.depth);
    attention.value_depth = value.view_dims.back();
  } else {
    if (last % layout.head_num != 0) FailShape(tensors.query, "a last dim that headNum divides");
    attention.depth = last / layout.head_num;
    if (attention.depth == 0) return attention;
    if (key.view_dims.back() % attention.depth != 0) {
      FailShape(tensors.key, "a last dim of heads of " + std::to_string(attention.depth));
    }
    attention.key_heads = key.view_dims.back() / attention.depth;
    if (attention.key_heads != 0 && value.view_dims.back() % attention.key_heads != 0) {
      FailShape(tensors.value, "a last dim that the heads of key divide");
    }
    attention.value_depth = attention.key_heads == 0 ? 0 : value.view_dims.back() / attention.key_heads;
  }
  if (attention.value_depth > attention.depth) FailShape(tensors.value, "heads that are no larger than those of query");
  if (attention.depth > kMostDepth) FailShape(tensors.query, "heads of at most " + std::to_string(kMostDepth));
  attention.query = layout.StridesOf(RowsSideBySide(query).strides, attention.depth);
  attention.key = layout.StridesOf(RowsSideBySide(key).strides, attention.depth);
  attention.value = layout.StridesOf(RowsSideBySide(value).strides, attention.value_depth);
  return attention;
}

aclTensor RowsSideBySide(const aclTensor& tensor) {
  aclTensor read = tensor;
  if (tensor.view_dims.back() != 1 && tensor.strides.back() != 1) read.strides = ContiguousStrides(tensor.view_dims);
  return read;
}

Dims ResultDims(const Attention& attention, const AttentionTensors& tensors, const AttentionLayout& layout) {
  Dims dims = tensors.query.tensor.view_dims;
  dims.back() = layout.has_heads() ? attention.value_depth : attention.value_depth * attention.heads;
  return dims;
}

void CheckResult(const Argument& result, const Attention& attention, const AttentionTensors& tensors,
                 const AttentionLayout& layout) {
  if (result.tensor.data_type != attention.type) Fail(std::string(result.name) + ": expected the type of query");
  const Dims expected = ResultDims(attention, tensors, layout);
  if (result.tensor.view_dims != expected) FailShapeInside(result, DimsText(expected));
}

void AddOptional(Attention& attention, const AttentionTensors& tensors, const AttentionNumbers& numbers) {
  if (attention.key_heads == 0 || attention.heads % attention.key_heads != 0) {
    FailShapeInside(tensors.key, "heads that divide the " + std::to_string(attention.heads) + " of query");
  }
  if (numbers.keep_prob <= 0 || numbers.keep_prob > 1) Fail("keepProb: expected a number above 0, up to 1");
  if (numbers.keep_prob < 1) Fail("keepProb: expected 1, because this library computes no dropout");
  if (numbers.sparse_mode < kDefault || numbers.sparse_mode > kRightDownCausal) {
    Fail("sparseMode: expected 0, 1, 2 or 3, which this library computes, got " + std::to_string(numbers.sparse_mode));
  }
  if (numbers.pse_type != 0 && numbers.pse_type != 1) {
    Fail("pseType: expected 0 or 1, which this library computes, got " + std::to_string(numbers.pse_type));
  }
  if (tensors.bias) AddBias(attention, *tensors.bias, tensors.query, numbers.pse_type);
  if (tensors.mask) AddMask(attention, *tensors.mask, numbers.sparse_mode);
}

void CheckStatistic(const Argument& statistic, const Attention& attention) {
  if (statistic.tensor.data_type != ACL_FLOAT) Fail(std::string(statistic.name) + ": expected FLOAT");
  const Dims expected{attention.batches, attention.heads, attention.rows, kStatisticLanes};
  if (statistic.tensor.view_dims != expected) FailShapeInside(statistic, DimsText(expected));
}

}  // namespace acl_host
