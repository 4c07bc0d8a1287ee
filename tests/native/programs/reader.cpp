// Attributes as the parameters of phase 1, of every kind that no operator has yet too, and what does not fit them.
#include <dlfcn.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "arguments.h"
#include "host_library.h"
#include "program.h"

namespace programs {
namespace {

using aclgrad::ArgumentReader;
using aclgrad::Attribute;
using aclgrad::Bools;

// By a function that the runtime does not need.
uint64_t SizeOf(const std::string& library, const aclBoolArray* array) {
  void* const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  Expect(opened != nullptr, "the library is not loaded");
  const auto size_of = reinterpret_cast<decltype(&aclGetBoolArraySize)>(dlsym(opened, "aclGetBoolArraySize"));
  uint64_t size = 0;
  Expect(size_of(array, &size) == OK, "no size of an array of bools");
  return size;
}

template <typename Parameter>
void ExpectRefused(const aclgrad::AclFunctions& acl, const Attribute& attribute) {
  std::vector<aclgrad::TensorHandle> no_tensors;
  try {
    (void)ArgumentReader(acl, no_tensors, {}, {}, {attribute}).Next<Parameter>();
  } catch (const std::invalid_argument&) {
    return;
  }
  throw std::runtime_error("attribute of kind " + std::to_string(attribute.index()) + " was taken");
}

void ReadAll(const std::string& library, const aclgrad::AclFunctions& acl) {
  const std::vector<Attribute> attributes{std::monostate(),
                                          std::vector<int64_t>{7},
                                          Bools{{{true, false, true}}},
                                          Bools{},
                                          int64_t{ACL_BF16},
                                          int64_t{-128},
                                          int64_t{12},
                                          std::monostate(),
                                          std::monostate(),
                                          std::string("mean"),
                                          aclgrad::Float{0.5F}};
  const std::vector<bool> wanted{true, false};
  std::vector<aclgrad::TensorHandle> no_tensors;
  ArgumentReader reader(acl, no_tensors, no_tensors, wanted, attributes);
  Expect(reader.Next<const aclIntArray*>() == nullptr, "an absent list is not null");
  Expect(reader.Next<const aclIntArray*>() != nullptr, "a list is null");
  ExpectEqual("the size of a list of bools", SizeOf(library, reader.Next<const aclBoolArray*>()), 3);
  Expect(reader.Next<const aclBoolArray*>() == nullptr, "an absent list of bools is not null");
  ExpectEqual("the size of a mask of outputs", SizeOf(library, reader.Next<const aclBoolArray*>()), 2);
  Expect(reader.Next<aclDataType>() == ACL_BF16, "the data type is another");
  Expect(reader.Next<int8_t>() == -128, "the int8 is another");
  Expect(reader.Next<int>() == 12, "the int is another");
  Expect(reader.Next<const aclScalar*>() == nullptr, "an absent scalar is not null");
  Expect(reader.Next<char*>() == nullptr, "an absent text is not null");
  Expect(std::string(reader.Next<const char*>()) == "mean", "the text is another");
  Expect(reader.Next<const aclScalar*>() != nullptr, "a number is null");
  reader.ExpectEnd();
}

}  // namespace

void Run(const Arguments& given) {
  const auto library = OpenHost(given.library, "{}");
  const aclgrad::AclFunctions& acl = library->functions();
  ReadAll(given.library, acl);
  ExpectRefused<int8_t>(acl, int64_t{128});
  ExpectRefused<int>(acl, int64_t{1} << 31);
  ExpectRefused<int>(acl, std::monostate());
  ExpectRefused<bool>(acl, std::monostate());
  ExpectRefused<double>(acl, std::monostate());
  ExpectRefused<aclDataType>(acl, std::string("float32"));
  ExpectRefused<const aclIntArray*>(acl, Bools{{{true}}});
}

}  // namespace programs
