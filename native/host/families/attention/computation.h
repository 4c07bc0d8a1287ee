// Attention and its gradients: of each head of the query, with the head of the key that it shares.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "plan/plan.h"
#include "tensors/tensor.h"

namespace acl_host {

// Where the rows of each head are, in elements. Those of a row are side by side. Of a mask or a bias, strides are 0
// along axes that are broadcast; statistics have rows of one element.
struct HeadStrides {
  int64_t batch;
  int64_t head;
  int64_t row;
};

// A block of rows and one of keys make a tile of scores. Multiples of the rows and columns of every vector level's
// products.
inline constexpr int64_t kBlockRows = 144;
inline constexpr int64_t kBlockKeys = 192;
[[nodiscard]] inline int64_t BlockCount(int64_t count, int64_t of_block) { return (count + of_block - 1) / of_block; }

struct Attention {
  aclDataType type;
  int64_t batches;
  int64_t heads;
  int64_t key_heads;
  int64_t rows;
  int64_t keys;
  int64_t depth;
  int64_t value_depth;
  float scale;
  HeadStrides query;
  HeadStrides key;
  HeadStrides value;
  HeadStrides output;
  std::optional<HeadStrides> mask;
  std::optional<HeadStrides> bias;
  bool is_bias_scaled = false;
  // Row i sees the first `first_keys` + i keys, if it is causal.
  bool is_causal = false;
  int64_t first_keys = 0;

  // Blocks are about equal: a last one of few keys would take nearly the time of a whole one.
  [[nodiscard]] int64_t block_keys() const {
    constexpr int64_t kStep = 16;
    return BlockCount(BlockCount(keys, BlockCount(keys, kBlockKeys)), kStep) * kStep;
  }
  [[nodiscard]] int64_t group() const { return heads / key_heads; }
  [[nodiscard]] int64_t keys_of(int64_t row) const {
    return is_causal ? std::clamp<int64_t>(first_keys + row, 0, keys) : keys;
  }
};

// What the gradients take besides.
struct AttentionGradient {
  Attention forward;
  HeadStrides gradient;
  HeadStrides largest;
  HeadStrides sum;
  HeadStrides grad_query;
  HeadStrides grad_key;
  HeadStrides grad_value;
};

// How work is divided among threads. Bits do not depend on it: the tiles of a block are added up in order.
struct AttentionBlocks {
  // A thread makes all gradients of a head of the key. Otherwise the tiles are made twice, by blocks of keys and by
  // blocks of rows.
  bool is_by_head;
  int64_t slots;
  int64_t slot_bytes;
};
// Tiles of gradients that are added up in float; sums of so many are added up in double.
inline constexpr int64_t kTilesOfSum = 16;
// Whether sums of rows, or of keys, have more tiles.
[[nodiscard]] inline bool HasRowTotals(const Attention& attention) {
  return BlockCount(attention.keys, attention.block_keys()) > kTilesOfSum;
}
[[nodiscard]] inline bool HasKeyTotals(const Attention& attention) {
  return attention.group() * BlockCount(attention.rows, kBlockRows) > kTilesOfSum;
}

[[nodiscard]] AttentionBlocks BlocksOf(const Attention& attention, int64_t threads);
[[nodiscard]] AttentionBlocks BlocksOf(const AttentionGradient& work, int64_t threads);

// Blocks of rows that a thread of the forward pass makes at a time, with the same keys.
inline constexpr int64_t kBlocksAtATime = 4;

// How often devices have the statistics of a row.
inline constexpr int64_t kStatisticLanes = 8;

// Slots begin where vectors do.
inline constexpr int64_t kAttentionAlignment = 64;

// Inputs are query, key, value, then mask and bias if there are any. Outputs are the largest scores and the sums of
// powers, row-major and each kStatisticLanes times, and the result.
template <VectorLevel>
struct AttentionValues {
  static void Run(const Attention& attention, const AttentionBlocks& blocks, const KernelArguments& arguments);
};

// Inputs are query, key, value, the result's gradient, the largest scores, the sums, the result, then mask and bias.
// Outputs are the gradients of query, key and value.
template <VectorLevel>
struct AttentionGradients {
  static void Run(const AttentionGradient& work, const AttentionBlocks& blocks, const KernelArguments& arguments);
};

}  // namespace acl_host
