// Work that was done, collected until somebody asks for it.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <vector>

namespace aclgrad {

// Something that a thread of a WorkQueue does, with whatever it needs and whatever comes of it.
class Work {
 public:
  virtual ~Work() = default;

  // Does the work; may throw anything.
  virtual void Run() = 0;

  // Whether Run is called even if the queue closes first: the work ends something that must not be left open.
  [[nodiscard]] virtual bool runs_at_close() const noexcept { return false; }

  // What Run threw, or null.
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

  // An eventfd. Whoever watches it calls Drain; nobody else reads it.
  [[nodiscard]] int file() const noexcept { return file_; }

  void Add(std::unique_ptr<Work> work);

  // All work that was done since the last call, in the order in which it was done.
  [[nodiscard]] std::vector<std::unique_ptr<Work>> Drain();

 private:
  const int file_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Work>> done_;
};

}  // namespace aclgrad
