// The library that the calls are forwarded to, and the functions that check calls on their way to it.
#pragma once

#include "abi_functions.h"

namespace acl_strict {

// Types come from the headers, addresses from the libraries; null for a function that they lack.
struct RealLibrary {
#define MEMBER(name, folder, checked) decltype(&::name) name;
  ABI_FUNCTIONS(MEMBER)
  ABI_VARIADIC_FUNCTIONS(MEMBER)
#undef MEMBER
};

// Opens the files that ACL_STRICT_LIBRARIES names, in the form of PATH, or libacl_host.so beside this library. The
// first that has a function is asked, as in the runtime.
[[nodiscard]] const RealLibrary& Real();

// False while the program is being linked, when no library can be opened.
[[nodiscard]] bool IsOpen() noexcept;

// Drops the message of a call that this library made for itself and that failed.
void DropMessage();

// Those that exist are defined in this folder; operator_table.py finds them.
namespace checked {
#define DECLARATION(name, folder, checked) decltype(::name) name;
ABI_FUNCTIONS(DECLARATION)
#undef DECLARATION
}  // namespace checked

}  // namespace acl_strict
