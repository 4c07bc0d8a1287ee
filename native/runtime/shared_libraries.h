// Opens shared libraries and finds symbols in them, remembering every one that none of them has.
#pragma once

#include <string>
#include <vector>

namespace aclgrad {

// A library to open; one that is not required may be absent.
struct LibraryFile {
  std::string path;
  bool required = true;
};

class SharedLibraries {
 public:
  // Throws LibraryError if a required file cannot be opened. Nothing is ever closed: device runtimes leave threads
  // behind, and unloading their code would crash the process.
  explicit SharedLibraries(const std::vector<LibraryFile>& files);

  // Sets the pointer to the symbol in the first library that has it, or notes the symbol as missing.
  template <typename Function>
  void Bind(const char* symbol, Function*& pointer) {
    pointer = reinterpret_cast<Function*>(Find(symbol));
  }

  // Sets the pointer to the symbol, or to null.
  template <typename Function>
  void BindOptional(const char* symbol, Function*& pointer) {
    pointer = reinterpret_cast<Function*>(Search(symbol));
  }

  // Throws LibraryError with the names of all missing symbols, if there are any.
  void RequireAll() const;

 private:
  [[nodiscard]] void* Find(const char* symbol);
  [[nodiscard]] void* Search(const char* symbol) const;

  std::vector<void*> handles_;
  std::vector<std::string> opened_;
  std::vector<std::string> not_opened_;
  std::vector<std::string> missing_;
};

}  // namespace aclgrad
