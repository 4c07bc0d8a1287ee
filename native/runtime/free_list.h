// Free blocks of device memory, by size.
#pragma once

#include <cstddef>
#include <set>

#include "acl_functions.h"

namespace aclgrad {

// A piece of a segment. The pieces of a segment are linked in the order of their addresses.
struct Block {
  std::byte* address = nullptr;
  std::size_t size = 0;
  Block* before = nullptr;
  Block* behind = nullptr;
  // The stream that may still work on a free block; null if none does.
  aclrtStream stream = nullptr;
  bool is_free = false;
  // Of a segment for small blocks.
  bool is_small = false;

  [[nodiscard]] bool is_segment() const noexcept { return before == nullptr && behind == nullptr; }
  // Whether the neighbour can be made one with this block, which is free.
  [[nodiscard]] bool joins(const Block* neighbour) const noexcept {
    return neighbour != nullptr && neighbour->is_free && neighbour->stream == stream;
  }
};

// Blocks do not belong to the list.
class FreeList {
 public:
  void Insert(Block* block) { blocks_.insert(block); }
  void Remove(Block* block) { blocks_.erase(block); }

  // The smallest block of at least this size, or null.
  [[nodiscard]] Block* BestFit(std::size_t size) const;

  [[nodiscard]] const auto& blocks() const noexcept { return blocks_; }
  [[nodiscard]] std::size_t largest() const noexcept { return blocks_.empty() ? 0 : (*blocks_.rbegin())->size; }

 private:
  // Of equal sizes the lowest address: what is used first stays together.
  struct BySize {
    bool operator()(const Block* left, const Block* right) const noexcept {
      return left->size != right->size ? left->size < right->size : left->address < right->address;
    }
  };

  std::set<Block*, BySize> blocks_;
};

}  // namespace aclgrad
