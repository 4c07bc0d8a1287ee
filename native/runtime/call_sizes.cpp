#include "call_sizes.h"

#include <stdexcept>
#include <string>

namespace aclgrad {
std::size_t SizeBytes(const AclLibrary& library, const std::vector<int64_t>& shape, aclDataType dtype) {
  std::size_t size = library->aclDataTypeSize(dtype);
  if (size == 0) throw std::invalid_argument("the library has no data type " + std::to_string(dtype));
  for (const int64_t extent : shape) {
    if (extent < 0) throw std::invalid_argument("a dimension is negative");
    if (__builtin_mul_overflow(size, static_cast<std::size_t>(extent), &size)) {
      throw std::invalid_argument("the size of a tensor overflows");
    }
  }
  return size;
}

void ExpectSize(const char* tensor, std::size_t given_bytes, std::size_t needed_bytes) {
  if (given_bytes == needed_bytes) return;
  throw std::invalid_argument(std::string("the ") + tensor + " has " + std::to_string(given_bytes) +
                              " bytes; its shape takes " + std::to_string(needed_bytes));
}

}  // namespace aclgrad
