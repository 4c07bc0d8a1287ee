#include "free_list.h"

namespace aclgrad {

Block* FreeList::BestFit(std::size_t size) const {
  Block least;
  least.size = size;
  const auto found = blocks_.lower_bound(&least);
  return found == blocks_.end() ? nullptr : *found;
}

}  // namespace aclgrad
