// The values of phase 1 have the parameters' types, and those that do not fit are refused.
#include "arguments.h"

#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "program.h"

namespace programs {
namespace {

using Attributes = std::vector<aclgrad::Attribute>;

std::vector<std::pair<aclDataType, std::string>> created_scalars;
int alive = 0;

aclScalar* CreateScalar(void* value, aclDataType type) {
  const std::size_t size = type == ACL_BOOL ? 1 : 8;
  created_scalars.emplace_back(type, std::string(static_cast<const char*>(value), size));
  ++alive;
  return reinterpret_cast<aclScalar*>(8);  // NOLINT: never followed
}

aclnnStatus Forget(const aclScalar*) {
  --alive;
  return 0;
}

// Reads attributes of a call without tensors.
template <typename Read>
void WithReader(const Attributes& attributes, const Read& read) {
  aclgrad::AclFunctions acl{};
  acl.aclCreateScalar = CreateScalar;
  acl.aclDestroyScalar = Forget;
  const std::vector<aclgrad::TensorHandle> nothing;
  const std::vector<bool> wanted;
  aclgrad::ArgumentReader reader(acl, nothing, nothing, wanted, attributes);
  read(reader);
}

template <typename Value>
std::string BytesOf(const Value& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

void ReadValues() {
  WithReader({std::string("tanh"), int64_t{-1}, 0.5, true, int64_t{3}, 0.25}, [](aclgrad::ArgumentReader& reader) {
    Expect(std::strcmp(reader.Next<char*>(), "tanh") == 0, "the text is another one");
    Expect(reader.Next<uint64_t>() == UINT64_MAX, "-1 is not passed as CANN's callers pass it");
    for (int i = 0; i < 3; ++i) Expect(reader.Next<const aclScalar*>() != nullptr, "a scalar is null");
    const std::vector<std::pair<aclDataType, std::string>> expected = {
        {ACL_DOUBLE, BytesOf(0.5)}, {ACL_BOOL, BytesOf(true)}, {ACL_INT64, BytesOf(int64_t{3})}};
    Expect(created_scalars == expected, "the scalars have other types or values");
    Expect(reader.Next<double>() == 0.25, "the number is another one");
    reader.ExpectEnd();
    Expect(alive == 3, "scalars do not live as long as the reader");
  });
  Expect(alive == 0, "a scalar was not destroyed");
}

template <typename Parameter>
void ExpectRefusal(const Attributes& attributes, const std::string& message) {
  WithReader(attributes, [&](aclgrad::ArgumentReader& reader) {
    try {
      static_cast<void>(reader.Next<Parameter>());
    } catch (const std::invalid_argument&) {
      return;
    }
    Expect(false, message);
  });
}

}  // namespace

void Run(const Arguments&) {
  ReadValues();
  ExpectRefusal<char*>({0.5}, "a number was passed as a text");
  ExpectRefusal<uint64_t>({0.5}, "a number was passed as an integer");
  ExpectRefusal<const aclScalar*>({std::string("tanh")}, "a text was passed as a scalar");
}

}  // namespace programs
