// Keeps executors, so that a call with the key of an earlier one skips phase 1.
#pragma once

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
struct PlannedCall {
  std::vector<IntArrayHandle> arrays;
  std::vector<TensorHandle> inputs;
  TensorHandle output;
  ExecutorHandle executor;
  uint64_t workspace_bytes = 0;
};

// Belongs to one stream, whose calls run one after the other. The key stands for everything else that an executor
// depends on. Evicts the least recently used executor first.
class ExecutorCache {
 public:
  ExecutorCache(const AclLibrary& library, std::size_t limit) : library_(library), limit_(limit) {}

  // Null if no such call was kept.
  [[nodiscard]] PlannedCall* Find(const std::string& key);

  // Keeps the call if its executor can be run again, and returns its place in the cache; otherwise returns null and
  // leaves the call untouched.
  [[nodiscard]] PlannedCall* Keep(const std::string& symbol, const std::string& key, PlannedCall& call);

  [[nodiscard]] bool is_on() const noexcept { return limit_ != 0; }

 private:
  struct Entry {
    std::string key;
    PlannedCall call;
  };

  const AclLibrary& library_;
  const std::size_t limit_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key_;
  // Operators whose executors the library does not run twice (561000).
  std::unordered_set<std::string> not_repeatable_;
};

}  // namespace aclgrad
