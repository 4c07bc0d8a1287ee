#include "call_sizes.h"

#include <stdexcept>
#include <type_traits>
#include <variant>

namespace aclgrad {
namespace {

template <typename T>
void Append(std::string& key, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  key.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendList(std::string& key, const std::vector<int64_t>& values) {
  Append(key, values.size());
  for (const int64_t value : values) Append(key, value);
}

}  // namespace

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

std::string CacheKey(const OperatorCall& call) {
  std::string key = call.symbol;
  for (const InputView& input : call.inputs) {
    Append(key, input.is_absent());
    Append(key, input.dtype);
    AppendList(key, input.shape);
  }
  for (const OutputView& output : call.outputs) {
    Append(key, output.use);
    Append(key, output.dtype);
    AppendList(key, output.shape);
  }
  for (const Attribute& attribute : call.attributes) {
    Append(key, attribute.index());
    std::visit(
        [&key](const auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::vector<int64_t>>) {
            AppendList(key, value);
          } else if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
            Append(key, value.size());
            key += value;
          } else {
            Append(key, value);
          }
        },
        attribute);
  }
  return key;
}

}  // namespace aclgrad
