// The checks of attention and its gradients, in CANN's order and with CANN's codes: those of the interface, and those
// of what it runs, of which it says that a pointer is null, whatever is wrong. What only some releases of CANN refuse
// is refused here.
#pragma once

#include <cstdint>
#include <string>

#include "families/attention/computation.h"
#include "plan/checks.h"

namespace acl_host {

inline constexpr aclnnStatus kRefusedInside = ACLNN_ERR_PARAM_NULLPTR;

// The sizes of the axes, and the axes of tensors that have the layout.
struct AttentionLayout {
  std::string name;
  int64_t head_num;

  // Throws for a layout that there is not, or that is not computed here.
  AttentionLayout(const char* given, int64_t heads);

  [[nodiscard]] bool has_heads() const { return name.size() == 4; }
  [[nodiscard]] size_t axis(char of) const { return name.find(of); }
  [[nodiscard]] int64_t size(const aclTensor& tensor, char of) const { return tensor.view_dims[axis(of)]; }
  // Of a tensor whose heads have so many elements.
  [[nodiscard]] HeadStrides StridesOf(const Dims& strides, int64_t depth) const;
};

// The numbers of both passes that are not the computation's own.
struct AttentionNumbers {
  double keep_prob;
  int64_t sparse_mode;
  int64_t pse_type;
};

struct AttentionTensors {
  Argument query;
  Argument key;
  Argument value;
  OptionalArgument mask;
  OptionalArgument bias;
};

// One type of query, key and value.
void CheckTypes(const AttentionTensors& tensors);
// Ranks that fit the layout, and sizes that fit each other.
void CheckOperands(const AttentionTensors& tensors, const AttentionLayout& layout);

// The work, of operands that fit each other; without mask and bias.
[[nodiscard]] Attention AttentionOf(const AttentionTensors& tensors, const AttentionLayout& layout, double scale);

// The tensor as the computation reads it: elements of a row are side by side, or the plan copies it.
[[nodiscard]] aclTensor RowsSideBySide(const aclTensor& tensor);

// What the forward pass makes, shaped as the query, with heads of the value.
[[nodiscard]] Dims ResultDims(const Attention& attention, const AttentionTensors& tensors,
                              const AttentionLayout& layout);

// Of the forward pass, whose result is copied to the caller's tensor at the end.
void CheckResult(const Argument& result, const Attention& attention, const AttentionTensors& tensors,
                 const AttentionLayout& layout);

// Adds mask and bias to the work.
void AddOptional(Attention& attention, const AttentionTensors& tensors, const AttentionNumbers& numbers);

// Of the statistics of each row.
void CheckStatistic(const Argument& statistic, const Attention& attention);

}  // namespace acl_host
