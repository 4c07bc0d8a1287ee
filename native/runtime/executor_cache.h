// Keeps executors, so that a call with the key of an earlier one skips phase 1.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "handles.h"

namespace aclgrad {

class AclLibrary;

// A planned call: the executor, and the tensors whose addresses it uses, which must outlive it.
struct KeptExecutor {
  std::vector<ValueHandle> values;
  std::vector<TensorHandle> inputs;
  std::vector<TensorHandle> outputs;
  ExecutorHandle executor;
  uint64_t workspace_bytes = 0;
  bool is_short = false;  // the library says that running it takes less time than waking a thread
};

struct ExecutorStatistics {
  std::size_t entry_count = 0;  // executors that are kept
  uint64_t hit_count = 0;
  uint64_t miss_count = 0;
};

// What the caches of a device's streams have together. Any thread may read it.
struct ExecutorCounters {
  std::atomic<std::size_t> entries{0};
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> misses{0};

  [[nodiscard]] ExecutorStatistics Statistics() const noexcept { return {entries, hits, misses}; }
};

// Belongs to one stream, whose calls run one after the other. The key stands for everything else that an executor
// depends on. Evicts the least recently used executor first.
//
// An executor has the addresses of one call, so it serves one call of a turn: what a lane queues before it waits.
class ExecutorCache {
 public:
  ExecutorCache(const AclLibrary& library, std::size_t limit, ExecutorCounters& counters)
      : library_(library), limit_(limit), counters_(counters) {}

  // Begins a turn, after the work of the turn before has ended.
  void BeginTurn() noexcept { ++turn_; }

  // Null if no such call was kept, or if an earlier call of this turn has it. What it returns lives until the next
  // turn.
  [[nodiscard]] KeptExecutor* Find(const std::string& key);

  // Keeps the call if its executor can be run again and there is room beside those of this turn, and returns its place
  // in the cache; otherwise returns null and leaves the call untouched.
  [[nodiscard]] KeptExecutor* Keep(const std::string& symbol, const std::string& key, KeptExecutor& call);

  // Removes the call and returns it: its executor is not to be run again.
  [[nodiscard]] KeptExecutor Take(const std::string& key);

  // Destroys all executors.
  void Clear() noexcept;

  [[nodiscard]] bool is_on() const noexcept { return limit_ != 0; }

 private:
  struct Entry {
    std::string key;
    KeptExecutor call;
    uint64_t turn;  // of the last call that had it
  };

  const AclLibrary& library_;
  const std::size_t limit_;
  ExecutorCounters& counters_;
  uint64_t turn_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key_;
  // Operators whose executors the library does not run twice (561000).
  std::unordered_set<std::string> not_repeatable_;
};

}  // namespace aclgrad
