#include "executor_cache.h"

#include <utility>

#include "acl_library.h"
#include "aclnn/aclnn_status.h"

namespace aclgrad {

KeptExecutor* ExecutorCache::Find(const std::string& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end() || found->second->turn == turn_) {
    ++counters_.misses;
    return nullptr;
  }
  ++counters_.hits;
  found->second->turn = turn_;
  entries_.splice(entries_.begin(), entries_, found->second);
  return &found->second->call;
}

KeptExecutor* ExecutorCache::Keep(const std::string& symbol, const std::string& key, KeptExecutor& call) {
  if (!is_on() || not_repeatable_.count(symbol) != 0 || by_key_.count(key) != 0) return nullptr;
  // Those of this turn come first in the list, so if the last one is of this turn, all are.
  if (entries_.size() == limit_ && entries_.back().turn == turn_) return nullptr;
  const aclnnStatus status = library_->aclSetAclOpExecutorRepeatable(call.executor.get());
  if (status == ACLNN_ERR_INNER) {
    library_.Ignore(status);
    not_repeatable_.insert(symbol);
    return nullptr;
  }
  library_.Check(status, "aclSetAclOpExecutorRepeatable");
  // The place first: if there is no memory for it, the call stays untouched.
  std::list<Entry> place;
  place.push_front({key, {}, turn_});
  by_key_.emplace(place.front().key, place.begin());
  place.front().call = std::move(call);
  if (entries_.size() == limit_) {
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
    --counters_.entries;
  }
  entries_.splice(entries_.begin(), place);
  ++counters_.entries;
  return &entries_.front().call;
}

KeptExecutor ExecutorCache::Take(const std::string& key) {
  const auto found = by_key_.find(key);
  const std::list<Entry>::iterator entry = found->second;
  by_key_.erase(found);
  KeptExecutor call = std::move(entry->call);
  entries_.erase(entry);
  --counters_.entries;
  return call;
}

void ExecutorCache::Clear() noexcept {
  counters_.entries -= entries_.size();
  by_key_.clear();
  entries_.clear();
}

}  // namespace aclgrad
