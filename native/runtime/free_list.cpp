#include "free_list.h"

namespace aclgrad {

bool BySize::operator()(const Block* left, const Block* right) const noexcept {
  return left->size != right->size ? left->size < right->size : left->address < right->address;
}

std::unique_ptr<Block> MakeBlock() {
  auto block = std::make_unique<Block>();
  BlockSet set;
  set.insert(block.get());
  block->node = set.extract(set.begin());
  return block;
}

Block* FreeList::BestFit(std::size_t size) const {
  Block least;
  least.size = size;
  const auto found = blocks_.lower_bound(&least);
  return found == blocks_.end() ? nullptr : *found;
}

}  // namespace aclgrad
