// Strict mode: reports and refuses every detectable misuse of the ABI, with the place that it came from.
#pragma once

#include <memory>
#include <string>

#include "strict/memory_ledger.h"
#include "strict/object_ledger.h"

namespace acl_host {

class Strict {
 public:
  // Null unless the configuration asks for it; reading it is the only cost when the mode is off.
  [[nodiscard]] static Strict* Active();

  // An empty report_path means stderr. Throws if the file cannot be written.
  static void Start(const std::string& report_path);

  // Refuses calls of a forked child process.
  static void CheckNotForked();

  // Reports everything that was never released, and clears the records. Does nothing if the mode is off.
  static void ReportLeaks();
  static void Stop();

  MemoryLedger memory;
  ObjectLedger objects;
};

// Deletes an object of the ABI, or in strict mode records its end.
template <typename T>
void Discard(const T* object, ObjectLedger::End end = ObjectLedger::End::kDestroyed) {
  if (object == nullptr) return;
  const auto delete_object = [](const void* gone) { std::default_delete<const T>()(static_cast<const T*>(gone)); };
  Strict* const strict = Strict::Active();
  if (strict == nullptr || !strict->objects.Retire(object, end, delete_object)) delete_object(object);
}

// Checks an argument before it is read.
inline void CheckAlive(const void* object) {
  if (const Strict* const strict = Strict::Active()) strict->objects.CheckAlive(object);
}

// For handles, which have nothing to delete.
inline void NoteMade(const char* kind, const void* handle) {
  if (Strict* const strict = Strict::Active()) strict->objects.Add(kind, handle);
}
inline void NoteEnded(const void* handle) {
  Strict* const strict = Strict::Active();
  if (strict != nullptr) (void)strict->objects.Retire(handle, ObjectLedger::End::kDestroyed, nullptr);
}

// Writes one line. offence is one of a fixed set of phrases.
void Report(const char* offence, const std::string& text);

// Reports, and throws an Offence: ACL_ERROR_RT_PARAM_INVALID, or ACLNN_ERR_PARAM_INVALID in an operator.
[[noreturn]] void Refuse(const char* offence, const std::string& text);

}  // namespace acl_host
