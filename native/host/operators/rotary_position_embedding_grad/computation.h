// The gradients of the rotary position embedding.
#pragma once

#include <algorithm>
#include <cstdint>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"
#include "tensors/sums.h"

namespace acl_host {

// Where rows lie that some of the axes of dy count, up to two after those that lie one behind the other are joined.
struct RowSteps {
  int64_t count = 1;
  int64_t inner = 1;
  int64_t outer_stride = 0;  // in rows
  int64_t inner_stride = 0;

  [[nodiscard]] int64_t At(int64_t i) const { return i / inner * outer_stride + i % inner * inner_stride; }
};

// A row has the last axis. Rows of dy share one of cos and sin if only their places in `shared` differ.
struct RotaryEmbedding {
  RowSteps shared;
  RowSteps own;  // as the rows of cos and sin follow one another
  int64_t columns;
  aclDataType type;
  bool is_interleaved;
  bool has_x;

  // A task has a block of rows of cos and sin, and a part of the rows of dy that share each of them. Parts and blocks
  // do not depend on the number of threads.
  static constexpr int64_t kTaskElements = 1 << 17;
  static constexpr int64_t kLeastBlock = 512;
  static constexpr int64_t kMostBlock = 2048;
  [[nodiscard]] int64_t parts() const { return (shared.count - 1) / kMostFloatAdditions + 1; }
  [[nodiscard]] int64_t block_rows() const {
    const int64_t elements =
        std::clamp(kTaskElements / std::min(shared.count, kMostFloatAdditions), kLeastBlock, kMostBlock);
    return std::clamp<int64_t>(elements / columns, 1, own.count);
  }
  [[nodiscard]] int64_t blocks() const { return (own.count - 1) / block_rows() + 1; }
  [[nodiscard]] int64_t elements_of_cos() const { return own.count * columns; }

  // Of the sums of parts, if there are several.
  [[nodiscard]] uint64_t sum_bytes() const {
    return has_x && parts() > 1 ? static_cast<uint64_t>(2 * parts() * elements_of_cos()) * sizeof(float) : 0;
  }
};

// dy, cos, sin and, if it is given, x -> the gradients of x and, with x, of cos and sin.
template <VectorLevel>
struct RotaryEmbeddingGradient {
  static void Run(const RotaryEmbedding& rotary, const KernelArguments& arguments);
};

}  // namespace acl_host
