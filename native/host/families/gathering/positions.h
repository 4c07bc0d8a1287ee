// The order in which indices are gone through: by the block of rows that they are in, some blocks at a time. The time
// does not grow with the number of indices times that of the blocks, and the order of all would take as much memory as
// they do. In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "families/gathering/row_blocks.h"
#include "tensors/elements.h"

namespace acl_host {
namespace {

// Blocks [first, last) that are made together, and the number of their indices.
struct Batch {
  int64_t first;
  int64_t last;
  int64_t count;
};

// index_at(position) is the row of an index. Within a block the indices keep their order.
template <typename IndexAt>
class Positions {
 public:
  // The memory has numbers() of 64 bits.
  Positions(const RowBlocks& blocks, const IndexAt& index_at, std::byte* memory)
      : blocks_(blocks), index_at_(index_at), sizes_(blocks.blocks() == 1 ? nullptr : memory) {
    if (blocks.blocks() == 1) return;
    for (int64_t block = 0; block < blocks.blocks(); ++block) StoreElement<int64_t>(sizes_, block, 0);
    for (int64_t i = 0; i < blocks.count; ++i) (void)Advance(BlockAt(i));
  }

  // Calls make(batch) for all blocks, as many at a time as there is room for the positions of, but at least one.
  template <typename Make>
  void ForBatches(const Make& make) {
    for (int64_t first = 0; first < blocks_.blocks(); first = batch_.last) {
      Order(From(first));
      make(batch_);
    }
  }

  // Calls visit(position) for the indices of a block of the batch.
  template <typename Visit>
  void ForBlock(int64_t block, const Visit& visit) const {
    if (LooksThroughAll()) return ForRows(block, block + 1, visit);
    const int64_t end = SizeOf(block);
    for (int64_t i = block == batch_.first ? 0 : SizeOf(block - 1); i < end; ++i) {
      visit(LoadElement<int64_t>(sizes_, blocks_.blocks() + i));
    }
  }

 private:
  [[nodiscard]] Batch From(int64_t first) const {
    Batch batch{first, first + 1, SizeOf(first)};
    while (batch.last < blocks_.blocks() && batch.count + SizeOf(batch.last) <= blocks_.most_positions()) {
      batch.count += SizeOf(batch.last++);
    }
    return batch;
  }

  void Order(const Batch& batch) {
    batch_ = batch;
    if (LooksThroughAll()) return;
    int64_t begin = 0;
    for (int64_t block = batch.first; block < batch.last; ++block) {
      const int64_t size = SizeOf(block);
      StoreElement<int64_t>(sizes_, block, begin);
      begin += size;
    }
    // Each beginning moves to the end of its block.
    ForRows(batch.first, batch.last, [&](int64_t position) {
      StoreElement<int64_t>(sizes_, blocks_.blocks() + Advance(BlockAt(position)), position);
    });
  }

  // Looks for the indices of blocks [first, last) among all.
  template <typename Visit>
  void ForRows(int64_t first, int64_t last, const Visit& visit) const {
    const int64_t begin = first * blocks_.block_rows();
    const int64_t end = last * blocks_.block_rows();
    for (int64_t i = 0; i < blocks_.count; ++i) {
      const int64_t index = index_at_(i);
      if (begin <= index && index < end) visit(i);
    }
  }
  [[nodiscard]] bool LooksThroughAll() const { return batch_.count > blocks_.most_positions(); }
  [[nodiscard]] int64_t BlockAt(int64_t position) const { return index_at_(position) / blocks_.block_rows(); }
  [[nodiscard]] int64_t SizeOf(int64_t block) const {
    return blocks_.blocks() == 1 ? blocks_.count : LoadElement<int64_t>(sizes_, block);
  }
  [[nodiscard]] int64_t Advance(int64_t block) const {
    const auto before = LoadElement<int64_t>(sizes_, block);
    StoreElement<int64_t>(sizes_, block, before + 1);
    return before;
  }

  const RowBlocks& blocks_;
  const IndexAt& index_at_;
  std::byte* const sizes_;  // of all blocks, and behind them positions
  Batch batch_{};
};

}  // namespace
}  // namespace acl_host
