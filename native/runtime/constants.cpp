#include "constants.h"

#include "error.h"

namespace aclgrad {

Constants::~Constants() {
  for (const auto& [constant, address] : copies_) library_.Ignore(source_.release(address));
}

void* Constants::At(const Constant& constant) {
  // Operators only read their inputs.
  if (library_.host_pointers()) return const_cast<std::byte*>(constant->data());
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = copies_.try_emplace(constant, nullptr);
  void*& address = place->second;
  if (!is_new) return address;
  try {
    const std::size_t size = constant->size();
    library_.Check(source_.allocate(&address, size), source_.call);
    library_.Check(library_->aclrtMemcpy(address, size, constant->data(), size, ACL_MEMCPY_HOST_TO_DEVICE),
                   "aclrtMemcpy");
  } catch (...) {
    if (address != nullptr) library_.Ignore(source_.release(address));
    copies_.erase(place);
    throw;
  }
  return address;
}

}  // namespace aclgrad
