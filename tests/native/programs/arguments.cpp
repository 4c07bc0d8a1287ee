// The arguments of phase 1: each output is another buffer, what is not there is null, and values have the parameters'
// types.
#include "arguments.h"

#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "program.h"

namespace programs {
namespace {

std::vector<bool> created_mask;
std::vector<std::pair<aclDataType, std::string>> created_scalars;
int alive = 0;

template <typename Object>
Object* Fake(uintptr_t address) {
  return reinterpret_cast<Object*>(address);  // NOLINT: never followed
}

template <typename Object>
aclnnStatus Forget(const Object*) {
  --alive;
  return 0;
}

aclBoolArray* CreateMask(const bool* value, uint64_t size) {
  created_mask.assign(value, value + size);
  ++alive;
  return Fake<aclBoolArray>(7);
}

aclScalar* CreateScalar(void* value, aclDataType type) {
  const std::size_t size = type == ACL_BOOL ? 1 : 8;
  created_scalars.emplace_back(type, std::string(static_cast<const char*>(value), size));
  ++alive;
  return Fake<aclScalar>(8);
}

aclgrad::AclFunctions Functions() {
  aclgrad::AclFunctions acl{};
  acl.aclCreateBoolArray = CreateMask;
  acl.aclDestroyBoolArray = Forget<aclBoolArray>;
  acl.aclCreateScalar = CreateScalar;
  acl.aclDestroyScalar = Forget<aclScalar>;
  return acl;
}

aclnnStatus Leave(const aclTensor*) { return 0; }

// An address of 0 is a tensor that is not there.
std::vector<aclgrad::TensorHandle> Tensors(const std::vector<uintptr_t>& addresses) {
  std::vector<aclgrad::TensorHandle> made;
  for (const uintptr_t address : addresses) {
    made.push_back({address == 0 ? nullptr : Fake<aclTensor>(address), aclgrad::Destroy<aclTensor>{Leave}});
  }
  return made;
}

struct Call {
  std::vector<aclgrad::TensorHandle> inputs;
  std::vector<aclgrad::TensorHandle> outputs;
  std::vector<bool> wanted;
  std::vector<aclgrad::Attribute> attributes;

  // The functions have to live as long as the reader.
  [[nodiscard]] aclgrad::ArgumentReader Reader(const aclgrad::AclFunctions& acl) const {
    return {acl, inputs, outputs, wanted, attributes};
  }
};

template <typename Read>
void ExpectRefusal(const Read& read, const std::string& message) {
  try {
    read();
  } catch (const std::invalid_argument&) {
    return;
  }
  Expect(false, message);
}

void ReadTwoOutputs() {
  const aclgrad::AclFunctions acl{};
  const Call call{Tensors({1}), Tensors({2, 3}), {true, true}, {}};
  aclgrad::ArgumentReader reader = call.Reader(acl);
  Expect(reader.Next<const aclTensor*>() == call.inputs[0].get(), "the input is not the given one");
  Expect(reader.Next<aclTensor*>() == call.outputs[0].get(), "the first output is not the given one");
  // As headers declare the outputs that CANN generates.
  Expect(reader.Next<const aclTensor*>() == call.outputs[1].get(), "the second output is not the given one");
  reader.ExpectEnd();
  ExpectRefusal([&] { static_cast<void>(reader.Next<aclTensor*>()); }, "a third output was given a buffer");
}

void ReadTooFew() {
  const aclgrad::AclFunctions acl{};
  const Call call{{}, Tensors({2, 3}), {true, true}, {}};
  aclgrad::ArgumentReader reader = call.Reader(acl);
  static_cast<void>(reader.Next<aclTensor*>());
  ExpectRefusal([&] { reader.ExpectEnd(); }, "an output that the operator does not take was accepted");
}

void ReadWhatIsNotThere() {
  const aclgrad::AclFunctions acl = Functions();
  const Call call{Tensors({1, 0}), Tensors({0, 3, 4}), {false, true, false}, {}};
  {
    aclgrad::ArgumentReader reader = call.Reader(acl);
    Expect(reader.Next<const aclTensor*>() == call.inputs[0].get(), "the input is not the given one");
    Expect(reader.Next<const aclTensor*>() == nullptr, "an absent input is not null");
    Expect(reader.Next<const aclBoolArray*>() == Fake<aclBoolArray>(7), "the mask is not the created one");
    Expect(created_mask == std::vector<bool>{false, true, false}, "the mask does not say what is wanted");
    Expect(reader.Next<aclTensor*>() == nullptr, "an output without a buffer is not null");
    Expect(reader.Next<aclTensor*>() == call.outputs[1].get(), "the second output is not the given one");
    Expect(reader.Next<aclTensor*>() == call.outputs[2].get(), "an output that has to be written got no buffer");
    reader.ExpectEnd();
    Expect(alive == 1, "the mask does not live as long as the reader");
  }
  Expect(alive == 0, "the mask was not destroyed");
}

template <typename Value>
std::string BytesOf(const Value& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

void ReadValues() {
  const aclgrad::AclFunctions acl = Functions();
  const Call call{{}, {}, {}, {std::string("tanh"), int64_t{-1}, 0.5, true, int64_t{3}, 0.25}};
  aclgrad::ArgumentReader reader = call.Reader(acl);
  Expect(std::strcmp(reader.Next<char*>(), "tanh") == 0, "the text is another one");
  Expect(reader.Next<uint64_t>() == UINT64_MAX, "-1 is not passed as CANN's callers pass it");
  for (int i = 0; i < 3; ++i) {
    Expect(reader.Next<const aclScalar*>() == Fake<aclScalar>(8), "the scalar is not the created one");
  }
  const std::vector<std::pair<aclDataType, std::string>> expected = {
      {ACL_DOUBLE, BytesOf(0.5)}, {ACL_BOOL, BytesOf(true)}, {ACL_INT64, BytesOf(int64_t{3})}};
  Expect(created_scalars == expected, "the scalars have other types or values");
  Expect(reader.Next<double>() == 0.25, "the number is another one");
  reader.ExpectEnd();
}

void RefuseOtherKinds() {
  const aclgrad::AclFunctions acl = Functions();
  const Call number{{}, {}, {}, {0.5}};
  const Call text{{}, {}, {}, {std::string("tanh")}};
  ExpectRefusal([&] { static_cast<void>(number.Reader(acl).Next<char*>()); }, "a number was passed as a text");
  ExpectRefusal([&] { static_cast<void>(number.Reader(acl).Next<uint64_t>()); }, "a number was passed as an integer");
  ExpectRefusal([&] { static_cast<void>(text.Reader(acl).Next<const aclScalar*>()); }, "a text was passed as a scalar");
}

}  // namespace

void Run(const Arguments&) {
  ReadTwoOutputs();
  ReadTooFew();
  ReadWhatIsNotThere();
  ReadValues();
  RefuseOtherKinds();
}

}  // namespace programs
