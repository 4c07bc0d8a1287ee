#include "strict/memory_ledger.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "strict/strict.h"

namespace acl_host {
namespace {

constexpr int kFreshPattern = 0xCB;
constexpr int kFreedPattern = 0xDB;
constexpr uint64_t kMostFreedBytes = uint64_t{256} << 20;
constexpr size_t kMostFreedBlocks = 65536;

}  // namespace

bool Overlap(const Access& first, const Access& second) {
  const auto begin = [](const Access& access) { return reinterpret_cast<uintptr_t>(access.address); };
  return begin(first) < begin(second) + second.size_bytes && begin(second) < begin(first) + first.size_bytes;
}

void MemoryLedger::Add(void* address, size_t size_bytes, const char* kind, uint64_t number) {
  std::memset(address, kFreshPattern, size_bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  blocks_.insert_or_assign(reinterpret_cast<uintptr_t>(address),
                           Block{size_bytes, kind, Origin::Here("allocation", number), std::nullopt, nullptr});
}

void MemoryLedger::CheckFree(const void* address) const {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto found = blocks_.find(reinterpret_cast<uintptr_t>(address));
  if (found == blocks_.end()) return;
  const Block& block = found->second;
  const Use* const use = FindUse({address, block.size_bytes, true});
  if (!block.freed && use == nullptr) return;
  const std::string text = Text(block) + (use == nullptr ? "" : "; in use by " + use->origin.Text()) +
                           (use == nullptr ? "; again in " : "; freed in ") + Origin::Here().Text();
  lock.unlock();
  Refuse(use == nullptr ? "double free" : "freed in use", text);
}

void MemoryLedger::CheckReachable(const Access& access) const {
  const auto address = reinterpret_cast<uintptr_t>(access.address);
  std::unique_lock<std::mutex> lock(mutex_);
  const auto found = Find(address);
  if (found == blocks_.end()) return;
  const auto& [base, block] = *found;
  const bool fits = access.size_bytes <= block.size_bytes - std::min<uint64_t>(address - base, block.size_bytes);
  if (!block.freed && fits) return;
  const char* const offence = block.freed ? "use after free" : "out of bounds";
  const std::string text = Text(block) + "; " + std::to_string(access.size_bytes) + " bytes at offset " +
                           std::to_string(address - base) + (access.writes ? " written in " : " read in ") +
                           Origin::Here().Text();
  lock.unlock();
  Refuse(offence, text);
}

void MemoryLedger::CheckUnused(const std::vector<Access>& accesses) const {
  std::unique_lock<std::mutex> lock(mutex_);
  for (const Access& access : accesses) {
    const Use* const use = FindUse(access);
    if (use == nullptr) continue;
    const auto found = Find(reinterpret_cast<uintptr_t>(access.address));
    const std::string text = (found == blocks_.end() ? std::string("host memory") : Text(found->second)) +
                             "; in use by " + use->origin.Text() + (access.writes ? "; written in " : "; read in ") +
                             Origin::Here().Text();
    lock.unlock();
    Refuse(access.writes ? "overwritten in use" : "unsynchronised read", text);
  }
}

void MemoryLedger::Retire(const void* address, std::shared_ptr<void> memory) {
  std::vector<std::shared_ptr<void>> evicted;  // released after the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(reinterpret_cast<uintptr_t>(address));
  if (found == blocks_.end()) return;
  Block& block = found->second;
  std::memset(memory.get(), kFreedPattern, block.size_bytes);
  block.freed = Origin::Here();
  block.kept = std::move(memory);
  freed_.push_back(found->first);
  freed_bytes_ += block.size_bytes;
  while (freed_bytes_ > kMostFreedBytes || freed_.size() > kMostFreedBlocks) {
    const auto oldest = blocks_.find(freed_.front());
    freed_.pop_front();
    freed_bytes_ -= oldest->second.size_bytes;
    evicted.push_back(std::move(oldest->second.kept));
    blocks_.erase(oldest);
  }
}

std::shared_ptr<const void> MemoryLedger::BeginUse(const std::vector<Access>& accesses, const char* what,
                                                   uint64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  uses_.push_front({accesses, Origin::Here(what, number)});
  return std::shared_ptr<const void>(&uses_.front(), [this, use = uses_.begin()](const void*) {
    const std::lock_guard<std::mutex> ending(mutex_);
    uses_.erase(use);
  });
}

std::vector<std::string> MemoryLedger::Live() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> texts;
  for (const auto& [base, block] : blocks_) {
    if (!block.freed) texts.push_back(Text(block));
  }
  return texts;
}

void MemoryLedger::Clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  blocks_.clear();
  freed_.clear();
  freed_bytes_ = 0;
}

MemoryLedger::Blocks::const_iterator MemoryLedger::Find(uintptr_t address) const {
  const auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return blocks_.end();
  const auto found = std::prev(next);
  return address - found->first < found->second.size_bytes ? found : blocks_.end();
}

const MemoryLedger::Use* MemoryLedger::FindUse(const Access& access) const {
  for (const Use& use : uses_) {
    for (const Access& other : use.accesses) {
      if ((access.writes || other.writes) && Overlap(access, other)) return &use;
    }
  }
  return nullptr;
}

std::string MemoryLedger::Text(const Block& block) {
  std::string text =
      std::string(block.kind) + " of " + std::to_string(block.size_bytes) + " bytes made in " + block.made.Text();
  return block.freed ? text + "; freed in " + block.freed->Text() : text;
}

}  // namespace acl_host
