#include "object_ledger.h"

#include <string_view>
#include <utility>

#include "acl/acl_base.h"
#include "report.h"

namespace acl_strict {
namespace {

constexpr size_t kMostEnded = 16384;

bool Destroys(std::string_view function) { return function.find("Destroy") != std::string_view::npos; }
bool Launches(std::string_view function) { return function.substr(0, 5) == "aclnn"; }

}  // namespace

void ObjectLedger::Add(const char* kind, const void* object, std::shared_ptr<void> facts) {
  const std::lock_guard<std::mutex> lock(mutex_);
  records_.insert_or_assign(object, Record{kind, Origin::Here(), std::move(facts), ++added_});
}

void ObjectLedger::CheckHandle(const void* handle) const { Check(handle, ACL_ERROR_RT_INVALID_HANDLE); }

bool ObjectLedger::HasEnded(const void* object) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = records_.find(object);
  return found != records_.end() && found->second.ended;
}

bool ObjectLedger::Retire(const void* object, End end, Destroy destroy) {
  std::vector<Destroy> forgotten;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = records_.find(object);
    if (found == records_.end()) return false;
    if (found->second.ended) return true;  // by another thread, a moment ago
    EndRecord(object, found->second, end, std::move(destroy));
    forgotten = Forget(kMostEnded);
  }
  for (const Destroy& each : forgotten) each();
  return true;
}

void ObjectLedger::Revive(const void* object) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = records_.find(object);
  if (found == records_.end()) return;
  found->second.ended = std::nullopt;
  found->second.number = ++added_;
}

void ObjectLedger::RetireIf(const char* kind, const std::function<bool(const void*)>& is_meant) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [object, record] : records_) {
    if (record.kind == kind && !record.ended && is_meant(record.facts.get())) {
      EndRecord(object, record, End::kDestroyed, nullptr);
    }
  }
}

bool ObjectLedger::HasLive(const char* kind, const std::function<bool(const void*)>& is_meant) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [object, record] : records_) {
    if (record.kind == kind && !record.ended && is_meant(record.facts.get())) return true;
  }
  return false;
}

void ObjectLedger::DestroyKept() {
  std::vector<Destroy> forgotten;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    forgotten = Forget(0);
  }
  for (const Destroy& each : forgotten) each();
}

std::vector<std::string> ObjectLedger::Live() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> texts;
  for (const auto& [object, record] : records_) {
    if (!record.ended) texts.push_back(Text(record));
  }
  return texts;
}

void ObjectLedger::Clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  records_.clear();
  ended_.clear();
}

void ObjectLedger::Check(const void* object, int code) const {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto found = records_.find(object);
  if (found == records_.end() || !found->second.ended) return;
  const std::string_view function = CurrentFunction();
  const bool launched = found->second.end == End::kLaunched && Launches(function);
  const std::string text =
      Text(found->second) + (launched || Destroys(function) ? "; again in " : "; used in ") + Origin::Here().Text();
  if (Destroys(function) && found->second.kind == kExecutor) is_executor_destroyed_twice_ = true;
  lock.unlock();
  Refuse(launched             ? "executor launched twice"
         : Destroys(function) ? "double destroy"
                              : "use of a destroyed object",
         text, code);
}

std::shared_ptr<void> ObjectLedger::FindFacts(const void* object) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = records_.find(object);
  return found == records_.end() ? nullptr : found->second.facts;
}

std::string ObjectLedger::Text(const Record& record) {
  const std::string text = std::string(record.kind) + " made in " + record.made.Text();
  if (!record.ended) return text;
  return text + (record.end == End::kLaunched ? "; consumed in " : "; destroyed in ") + record.ended->Text();
}

void ObjectLedger::EndRecord(const void* object, Record& record, End end, Destroy destroy) {
  record.ended = Origin::Here();
  record.end = end;
  record.destroy = std::move(destroy);
  ended_.push_back({object, record.number});
}

std::vector<ObjectLedger::Destroy> ObjectLedger::Forget(size_t most) {
  std::vector<Destroy> forgotten;
  while (ended_.size() > most) {
    const Ended oldest = ended_.front();
    ended_.pop_front();
    const auto found = records_.find(oldest.object);
    if (found == records_.end() || found->second.number != oldest.number || !found->second.ended) continue;
    if (found->second.destroy) forgotten.push_back(std::move(found->second.destroy));
    records_.erase(found);
  }
  return forgotten;
}

}  // namespace acl_strict
