// Free blocks of device memory, by size.
#pragma once

#include <cstddef>
#include <memory>
#include <set>

namespace aclgrad {

struct Block;

// Among equal sizes the lowest address comes first, so that blocks in use stay together.
struct BySize {
  bool operator()(const Block* left, const Block* right) const noexcept;
};

using BlockSet = std::set<Block*, BySize>;

// A piece of a segment. The pieces of a segment are linked in the order of their addresses.
struct Block {
  std::byte* address = nullptr;
  std::size_t size = 0;
  Block* before = nullptr;
  Block* behind = nullptr;
  bool is_free = false;
  // Whether the segment is one for small blocks.
  bool is_small = false;
  // The block's node of the list, kept here while the block is in use, so that freeing a block never allocates.
  BlockSet::node_type node;

  [[nodiscard]] bool is_segment() const noexcept { return before == nullptr && behind == nullptr; }
};

[[nodiscard]] std::unique_ptr<Block> MakeBlock();

// Does not own the blocks.
class FreeList {
 public:
  void Insert(Block* block) noexcept { blocks_.insert(std::move(block->node)); }
  void Remove(Block* block) noexcept { block->node = blocks_.extract(block); }

  // The smallest block of at least this size, or null.
  [[nodiscard]] Block* BestFit(std::size_t size) const;

  [[nodiscard]] const BlockSet& blocks() const noexcept { return blocks_; }
  [[nodiscard]] std::size_t largest() const noexcept { return blocks_.empty() ? 0 : (*blocks_.rbegin())->size; }

 private:
  BlockSet blocks_;
};

}  // namespace aclgrad
