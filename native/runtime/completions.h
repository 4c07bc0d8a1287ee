// Completed work, collected until it is drained.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <vector>

namespace aclgrad {

// A task for a thread of a WorkQueue, with its inputs and its result.
class Work {
 public:
  virtual ~Work() = default;

  // Does the work, or its next part; may throw anything.
  virtual void Run() = 0;

  // False if Run has to be called again. Other work that waits has its turn first.
  [[nodiscard]] virtual bool is_complete() const noexcept { return true; }

  // Whether Run is called even if the queue closes first, because the work releases something.
  [[nodiscard]] virtual bool runs_at_close() const noexcept { return false; }

  // The exception that Run threw, or null.
  std::exception_ptr error;
};

// Filled by many threads, emptied by one, which watches a file descriptor: it is readable while there is work.
class Completions {
 public:
  // Throws std::system_error if the system has no file descriptor left.
  Completions();
  ~Completions();
  Completions(const Completions&) = delete;
  Completions& operator=(const Completions&) = delete;

  // An eventfd. Its watcher calls Drain; nothing else reads it.
  [[nodiscard]] int file() const noexcept { return file_; }

  void Add(std::unique_ptr<Work> work);

  // All work completed since the last call, in order of completion.
  [[nodiscard]] std::vector<std::unique_ptr<Work>> Drain();

 private:
  const int file_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Work>> done_;
};

}  // namespace aclgrad
