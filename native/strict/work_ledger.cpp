#include "work_ledger.h"

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "real.h"
#include "report.h"
#include "session.h"

namespace acl_strict {

bool Overlap(const Access& first, const Access& second) {
  const auto begin = [](const Access& access) { return reinterpret_cast<uintptr_t>(access.address); };
  return begin(first) < begin(second) + second.size_bytes && begin(second) < begin(first) + first.size_bytes;
}

Snapshot TakeSnapshot(const void* address, uint64_t size_bytes) {
  const std::string_view bytes(static_cast<const char*>(address), size_bytes);
  return {address, size_bytes, std::hash<std::string_view>{}(bytes)};
}

bool IsBusy(const StreamName& name) {
  const RealLibrary& real = Real();
  aclrtContext current = nullptr;
  // Only the context of a stream may ask for it.
  if (real.aclrtGetCurrentContext(&current) != ACL_SUCCESS ||
      (current != name.context && real.aclrtSetCurrentContext(name.context) != ACL_SUCCESS)) {
    DropMessage();
    return false;
  }
  aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
  if (real.aclrtStreamQuery(name.stream, &status) != ACL_SUCCESS) DropMessage();
  if (current != name.context) (void)real.aclrtSetCurrentContext(current);
  return status == ACL_STREAM_STATUS_NOT_READY;
}

void WorkLedger::Begin(const StreamName& name, std::vector<Access> accesses, const char* what, uint64_t number,
                       Snapshot snapshot) {
  const std::lock_guard<std::mutex> lock(mutex_);
  works_.push_back({name, ++begun_, std::move(accesses), Origin::Here(what, number), snapshot});
}

void WorkLedger::CheckSources(const Access& access) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Work& work : works_) {
    if (!Overlap(access, {work.source.address, work.source.size_bytes, false})) continue;
    CheckSource(work);
    work.source = {};
  }
}

void WorkLedger::BeginWait(const StreamName& name, const Mark& awaited) {
  const std::lock_guard<std::mutex> lock(mutex_);
  works_.push_back({name, ++begun_, {}, Origin::Here("wait", 0), {}, awaited});
}

uint64_t WorkLedger::begun() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return begun_;
}

void WorkLedger::End(const StreamName& name, uint64_t number) {
  EndIf([&](const StreamName& other) { return other == name; }, number);
}

void WorkLedger::CheckSource(const Work& work) {
  const Snapshot& source = work.source;
  if (source.address == nullptr) return;
  const MemoryLedger& memory = TheSession().memory;
  const auto block = memory.Find(source.address);
  if (!block || block->is_freed || TakeSnapshot(source.address, source.size_bytes).digest == source.digest) return;
  Report("pinned source changed", memory.TextOf(source.address) + "; read by " + work.origin.Text() +
                                      "; which has ended in " + Origin::Here().Text());
}

void WorkLedger::Remove(const std::function<bool(const Work&)>& has_ended) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Mark> awaited;
  const auto remove = [&](const std::function<bool(const Work&)>& condition) {
    works_.remove_if([&](const Work& work) {
      if (!condition(work)) return false;
      CheckSource(work);
      if (work.awaited.number > 0) awaited.push_back(work.awaited);
      return true;
    });
  };
  remove(has_ended);
  while (!awaited.empty()) {
    const Mark mark = awaited.back();
    awaited.pop_back();
    remove([&](const Work& work) { return work.number <= mark.number && work.name == mark.name; });
  }
}

std::optional<Origin> WorkLedger::FindUser(const Access& access, const StreamName* own) {
  for (;;) {
    std::unique_lock<std::mutex> lock(mutex_);
    const Work* const work = Find(access, own);
    if (work == nullptr) return std::nullopt;
    const StreamName name = work->name;
    const Origin origin = work->origin;
    const uint64_t begun = begun_;
    lock.unlock();
    if (IsBusy(name)) return origin;
    End(name, begun);
  }
}

const WorkLedger::Work* WorkLedger::Find(const Access& access, const StreamName* own) const {
  for (const Work& work : works_) {
    if (own != nullptr && work.name == *own) continue;
    for (const Access& other : work.accesses) {
      if ((access.writes || other.writes) && Overlap(access, other)) return &work;
    }
  }
  return nullptr;
}

}  // namespace acl_strict
