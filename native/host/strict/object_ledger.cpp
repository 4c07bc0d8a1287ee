#include "strict/object_ledger.h"

#include <cstring>
#include <utility>

#include "errors/exceptions.h"
#include "strict/strict.h"

namespace acl_host {
namespace {

constexpr size_t kMostEnded = 16384;

// Chosen by the ABI function that this thread is in.
const char* OffenceHere() {
  const char* const function = CurrentFunction();
  const bool destroys = function != nullptr && std::strstr(function, "Destroy") != nullptr;
  return destroys ? "double destroy" : "use of a destroyed object";
}

}  // namespace

void ObjectLedger::Add(const char* kind, const void* object) {
  const std::lock_guard<std::mutex> lock(mutex_);
  records_.insert_or_assign(object, Record{kind, Origin::Here(), std::nullopt, End::kDestroyed, nullptr});
}

bool ObjectLedger::Retire(const void* object, End end, Delete delete_object) {
  std::shared_ptr<const void> evicted;  // deleted after the lock
  std::unique_lock<std::mutex> lock(mutex_);
  const auto found = records_.find(object);
  if (found == records_.end()) return false;
  Record& record = found->second;
  if (record.ended) {
    const bool relaunched = end == End::kLaunched && record.end == End::kLaunched;
    const std::string text = EndedText(object, "again in ");
    lock.unlock();
    Refuse(relaunched ? "executor launched twice" : OffenceHere(), text);
  }
  record.ended = Origin::Here();
  record.end = end;
  if (delete_object != nullptr) record.kept = std::shared_ptr<const void>(object, delete_object);
  ended_.push_back(object);
  if (ended_.size() <= kMostEnded) return true;
  const auto oldest = records_.find(ended_.front());
  ended_.pop_front();
  evicted = std::move(oldest->second.kept);
  records_.erase(oldest);
  return true;
}

void ObjectLedger::CheckAlive(const void* object) const {
  std::unique_lock<std::mutex> lock(mutex_);
  const std::string text = EndedText(object, "used in ");
  lock.unlock();
  if (!text.empty()) Refuse(OffenceHere(), text);
}

void ObjectLedger::ReportIfEnded(const void* handle) const {
  std::unique_lock<std::mutex> lock(mutex_);
  const std::string text = EndedText(handle, "used in ");
  lock.unlock();
  if (!text.empty()) Report(OffenceHere(), text);
}

bool ObjectLedger::HasEnded(const void* object) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = records_.find(object);
  return found != records_.end() && found->second.ended;
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

std::string ObjectLedger::EndedText(const void* object, const char* again) const {
  const auto found = records_.find(object);
  if (found == records_.end() || !found->second.ended) return {};
  return Text(found->second) + "; " + again + Origin::Here().Text();
}

std::string ObjectLedger::Text(const Record& record) {
  std::string text = std::string(record.kind) + " made in " + record.made.Text();
  if (!record.ended) return text;
  return text + (record.end == End::kLaunched ? "; consumed in " : "; destroyed in ") + record.ended->Text();
}

}  // namespace acl_host
