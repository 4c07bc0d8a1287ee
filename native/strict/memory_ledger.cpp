#include "memory_ledger.h"

#include <algorithm>

#include "report.h"

namespace acl_strict {
namespace {

constexpr uint64_t kMostKeptBytes = uint64_t{256} << 20;
constexpr size_t kMostKeptBlocks = 65536;

}  // namespace

void MemoryLedger::Add(void* address, size_t size_bytes, size_t charged_bytes, int32_t device, uint64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  blocks_.insert_or_assign(reinterpret_cast<uintptr_t>(address),
                           Block{size_bytes, charged_bytes, device, Origin::Here("allocation", number), std::nullopt});
}

std::optional<MemoryLedger::Found> MemoryLedger::Find(const void* address) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = BlockOf(address);
  if (found == blocks_.end()) return std::nullopt;
  const auto& [base, block] = *found;
  return Found{base, block.size_bytes, block.charged_bytes, block.device, block.freed.has_value()};
}

void MemoryLedger::CheckFree(const void* address, WorkLedger& work) const {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto found = blocks_.find(reinterpret_cast<uintptr_t>(address));
  if (found == blocks_.end()) return;
  const Access whole{address, found->second.size_bytes, true};
  const bool is_freed = found->second.freed.has_value();
  const std::string text = Text(found->second);
  lock.unlock();
  if (is_freed) Refuse("double free", text + "; again in " + Origin::Here().Text());
  if (const auto user = work.FindUser(whole)) {
    Refuse("freed in use", text + "; in use by " + user->Text() + "; freed in " + Origin::Here().Text());
  }
}

void MemoryLedger::CheckReachable(const Access& access) const {
  const auto address = reinterpret_cast<uintptr_t>(access.address);
  std::unique_lock<std::mutex> lock(mutex_);
  const auto found = BlockOf(access.address);
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

std::string MemoryLedger::TextOf(const void* address) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = BlockOf(address);
  return found == blocks_.end() ? "host memory" : Text(found->second);
}

std::vector<MemoryLedger::Kept> MemoryLedger::Retire(const void* address) {
  std::vector<Kept> taken;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(reinterpret_cast<uintptr_t>(address));
  if (found == blocks_.end() || found->second.freed) return taken;
  found->second.freed = Origin::Here();
  kept_.push_back(found->first);
  kept_bytes_ += found->second.charged_bytes;
  kept_bytes_of_[found->second.device] += found->second.charged_bytes;
  while (kept_bytes_ > kMostKeptBytes || kept_.size() > kMostKeptBlocks) TakeOldest(taken);
  return taken;
}

std::vector<MemoryLedger::Kept> MemoryLedger::TakeKept() {
  std::vector<Kept> taken;
  const std::lock_guard<std::mutex> lock(mutex_);
  while (!kept_.empty()) TakeOldest(taken);
  return taken;
}

uint64_t MemoryLedger::kept_bytes(int32_t device) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = kept_bytes_of_.find(device);
  return found == kept_bytes_of_.end() ? 0 : found->second;
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
  kept_.clear();
  kept_bytes_ = 0;
  kept_bytes_of_.clear();
}

void MemoryLedger::TakeOldest(std::vector<Kept>& taken) {
  const auto oldest = blocks_.find(kept_.front());
  kept_.pop_front();
  kept_bytes_ -= oldest->second.charged_bytes;
  kept_bytes_of_[oldest->second.device] -= oldest->second.charged_bytes;
  taken.push_back({reinterpret_cast<void*>(oldest->first), oldest->second.device == kPinned});
  blocks_.erase(oldest);
}

MemoryLedger::Blocks::const_iterator MemoryLedger::BlockOf(const void* pointer) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return blocks_.end();
  const auto found = std::prev(next);
  return address - found->first < found->second.size_bytes ? found : blocks_.end();
}

std::string MemoryLedger::Text(const Block& block) {
  const std::string text = std::string(block.device == kPinned ? "pinned memory" : "device memory") + " of " +
                           std::to_string(block.size_bytes) + " bytes made in " + block.made.Text();
  return block.freed ? text + "; freed in " + block.freed->Text() : text;
}

}  // namespace acl_strict
