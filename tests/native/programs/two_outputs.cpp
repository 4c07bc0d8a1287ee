// An operator with two outputs is refused: there is a buffer for one.
#include <stdexcept>
#include <vector>

#include "arguments.h"
#include "expect.h"

namespace programs {
namespace {

void ReadTwoOutputs() {
  const aclgrad::AclFunctions acl{};
  const std::vector<aclgrad::TensorHandle> inputs;
  const aclgrad::TensorHandle output;
  const std::vector<aclgrad::Attribute> attributes;
  aclgrad::ArgumentReader reader(acl, inputs, output, attributes);
  Expect(reader.Next<aclTensor*>() == output.get(), "the first output is not the given one");
  try {
    static_cast<void>(reader.Next<aclTensor*>());
  } catch (const std::invalid_argument&) {
    return;
  }
  Expect(false, "a second output was given the buffer of the first");
}

}  // namespace
}  // namespace programs

int main(int argc, char** argv) {
  return programs::RunProgram(argc, argv, [](const std::string&, int) { programs::ReadTwoOutputs(); });
}
