// The runtime's exceptions. Every failed ACL or aclnn call becomes one of them.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "fault_class.h"

namespace aclgrad {

// A library could not be opened, or lacks symbols; the message names all of them.
class LibraryError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An ACL or aclnn call returned a code other than 0.
class AclError : public std::runtime_error {
 public:
  // detail is the text of aclGetRecentErrMsg: for logs, never for clients.
  AclError(int code, const std::string& call, std::string detail)
      : AclError(code, ClassifyFault(code), call, std::move(detail)) {}
  // With a class other than the code's own: the second unknown code of a device means that it is lost.
  AclError(int code, FaultClass fault, std::string call, std::string detail);

  [[nodiscard]] int code() const noexcept { return code_; }
  [[nodiscard]] FaultClass fault() const noexcept { return fault_; }
  [[nodiscard]] const std::string& call() const noexcept { return call_; }
  [[nodiscard]] const std::string& detail() const noexcept { return detail_; }

 private:
  int code_;
  FaultClass fault_;
  std::string call_;
  std::string detail_;
};

// The work was not begun, because its deadline passed first or its client has gone. Nothing of it is under way.
class NotBegun : public AclError {
 public:
  NotBegun(std::string call, std::string why);
};

// Neither the pool nor the device has the memory, even after the pool released its cached blocks.
class OutOfMemory : public AclError {
 public:
  OutOfMemory(std::size_t size_bytes, std::size_t allocated_bytes, std::size_t limit_bytes, std::string detail);

  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }
  [[nodiscard]] std::size_t allocated_bytes() const noexcept { return allocated_bytes_; }
  [[nodiscard]] std::size_t limit_bytes() const noexcept { return limit_bytes_; }

 private:
  std::size_t size_bytes_;
  std::size_t allocated_bytes_;
  std::size_t limit_bytes_;
};

// The operator needs a larger workspace than its call may have. Nothing of the call is under way.
class WorkspaceTooLarge : public std::runtime_error {
 public:
  explicit WorkspaceTooLarge(std::size_t size);
  const std::size_t size_bytes;
};

// A step that this one needs has failed. Nothing of this one is under way.
class InputFailed : public std::runtime_error {
 public:
  explicit InputFailed(std::size_t cause);
  const std::size_t step;  // that failed first
};

}  // namespace aclgrad
