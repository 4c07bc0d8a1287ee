// The division of attention among threads, and the scratch of each.
#include <algorithm>

#include "families/attention/computation.h"

namespace acl_host {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
// Of all threads together: so much, and a part of the tensors' bytes, up to a limit.
constexpr int64_t kLeastScratchBytes = int64_t{2} << 20;
constexpr int64_t kMostScratchBytes = int64_t{56} << 20;
constexpr double kPartOfTensors = 0.3;
// Sums of a whole head.
constexpr int64_t kMostHeadBytes = int64_t{8} << 20;
constexpr int64_t kDoubleFloats = sizeof(double) / sizeof(float);
// The most that a panel has beyond its columns, and a part of a slot beyond its elements.
constexpr int64_t kMostLanes = 16;
constexpr int64_t kParts = 20;

int64_t RowsOf(const Attention& attention) { return std::min(attention.rows, kBlockRows); }
int64_t KeysOf(const Attention& attention) { return std::min(attention.keys, kBlockKeys); }
int64_t TileFloats(const Attention& attention) { return RowsOf(attention) * (kBlockKeys + kMostLanes); }
int64_t DepthsOf(const Attention& attention) { return attention.depth + attention.value_depth; }

// Of query, key, value and result, and of the statistics once for each row.
double TensorBytes(const Attention& attention) {
  const double of_rows = static_cast<double>(attention.batches) * static_cast<double>(attention.heads) *
                         static_cast<double>(attention.rows);
  const double of_keys = static_cast<double>(attention.batches) * static_cast<double>(attention.key_heads) *
                         static_cast<double>(attention.keys);
  const int64_t item_bytes = attention.type == ACL_FLOAT ? 4 : 2;
  return (of_rows + of_keys) * static_cast<double>(DepthsOf(attention) * item_bytes) + 2 * kFloatBytes * of_rows;
}

AttentionBlocks Divided(int64_t floats, int64_t threads, int64_t tasks, bool is_by_head, double tensor_bytes) {
  const int64_t bytes = (floats * kFloatBytes / kAttentionAlignment + kParts) * kAttentionAlignment;
  const double most = std::min<double>(kMostScratchBytes, kLeastScratchBytes + kPartOfTensors * tensor_bytes);
  return {is_by_head, std::clamp<int64_t>(static_cast<int64_t>(most) / bytes, 1, std::min(threads, tasks)), bytes};
}

}  // namespace

AttentionBlocks BlocksOf(const Attention& attention, int64_t threads) {
  const int64_t rows = std::min(attention.rows, kBlockRows * kBlocksAtATime);
  const int64_t floats = rows * (DepthsOf(attention) + 4) + TileFloats(attention) + kBlockKeys +
                         KeysOf(attention) * DepthsOf(attention) + kMostLanes * DepthsOf(attention) +
                         KeysOf(attention) * kMostLanes;
  const int64_t tasks = attention.batches * attention.heads * BlockCount(attention.rows, kBlockRows * kBlocksAtATime);
  return Divided(floats, threads, tasks, false, TensorBytes(attention));
}

AttentionBlocks BlocksOf(const AttentionGradient& work, int64_t threads) {
  const Attention& attention = work.forward;
  const int64_t lines = 2 * RowsOf(attention) + 2 * KeysOf(attention);
  const int64_t floats = lines * (DepthsOf(attention) + 2 * kMostLanes) + 2 * TileFloats(attention) + kBlockKeys +
                         3 * RowsOf(attention) + 2 * kMostLanes * DepthsOf(attention) +
                         KeysOf(attention) * DepthsOf(attention) + RowsOf(attention) * attention.depth;
  const int64_t key_totals = HasKeyTotals(attention) ? kDoubleFloats * KeysOf(attention) * DepthsOf(attention) : 0;
  const int64_t of_sum = HasRowTotals(attention) ? kDoubleFloats : 0;
  const int64_t row_totals = of_sum * RowsOf(attention) * attention.depth;
  const int64_t heads = attention.batches * attention.key_heads;
  // Gradients have the shapes of what they are of.
  const double tensor_bytes = 2 * TensorBytes(attention);
  const int64_t tasks = std::max(heads * BlockCount(attention.keys, attention.block_keys()),
                                 attention.batches * attention.heads * BlockCount(attention.rows, kBlockRows));
  const AttentionBlocks by_block = Divided(floats + key_totals + row_totals, threads, tasks, false, tensor_bytes);
  const double head_floats = static_cast<double>(of_sum + (attention.type == ACL_FLOAT ? 0 : 1)) *
                             static_cast<double>(attention.group() * attention.rows * attention.depth);
  if (head_floats * kFloatBytes > kMostHeadBytes) return by_block;
  const AttentionBlocks by_head =
      Divided(floats + key_totals + static_cast<int64_t>(head_floats), threads, heads, true, tensor_bytes);
  // Tiles that are made twice take 7 products in the place of 5.
  const auto rounds = static_cast<double>(BlockCount(heads, by_head.slots) * by_block.slots);
  return rounds * 5 <= static_cast<double>(heads) * 7 ? by_head : by_block;
}

}  // namespace acl_host
