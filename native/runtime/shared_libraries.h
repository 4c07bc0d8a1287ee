// Opens shared libraries, finds symbols in them, and records every missing symbol.
#pragma once

#include <string>
#include <utility>
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
    BindOptional(symbol, pointer);
    if (pointer == nullptr) missing_.emplace_back(symbol);
  }

  // Sets both pointers from the first library that has both, because halves of different releases do not fit together.
  // If no library has both, both are null.
  template <typename First, typename Second>
  void BindBoth(const std::string& first, First*& first_pointer, const std::string& second,
                Second*& second_pointer) const {
    const auto [first_address, second_address] = SearchBoth(first.c_str(), second.c_str());
    first_pointer = reinterpret_cast<First*>(first_address);
    second_pointer = reinterpret_cast<Second*>(second_address);
  }

  // Sets the pointer to the symbol, or to null.
  template <typename Function>
  void BindOptional(const char* symbol, Function*& pointer) const {
    pointer = reinterpret_cast<Function*>(Search(symbol));
  }

  // Throws LibraryError with the names of all missing symbols, if there are any.
  void RequireAll() const;

  // The paths of the opened libraries, as the loader found them.
  [[nodiscard]] std::vector<std::string> Files() const;

 private:
  [[nodiscard]] void* Search(const char* symbol) const;
  [[nodiscard]] std::pair<void*, void*> SearchBoth(const char* first, const char* second) const;

  std::vector<void*> handles_;
  std::vector<std::string> opened_;
  std::vector<std::string> not_opened_;
  std::vector<std::string> missing_;
};

}  // namespace aclgrad
