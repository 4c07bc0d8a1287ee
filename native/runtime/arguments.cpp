#include "arguments.h"

#include <stdexcept>
#include <string>

namespace aclgrad {

void ArgumentReader::ExpectEnd() const {
  if (next_input_ == inputs_.size() && next_attribute_ == attributes_.size()) return;
  throw std::invalid_argument("the operator takes " + std::to_string(next_input_) + " inputs and " +
                              std::to_string(next_attribute_) + " attributes; given were " +
                              std::to_string(inputs_.size()) + " and " + std::to_string(attributes_.size()));
}

const aclTensor* ArgumentReader::NextInput() {
  if (next_input_ == inputs_.size()) {
    throw std::invalid_argument("the operator takes more than the " + std::to_string(inputs_.size()) +
                                " inputs that were given");
  }
  return inputs_[next_input_++].get();
}

aclTensor* ArgumentReader::NextOutput() {
  if (std::exchange(has_output_, true)) {
    throw std::invalid_argument("the operator has more than one output and the runtime has a buffer for one");
  }
  return output_.get();
}

const aclIntArray* ArgumentReader::NextIntArray() {
  arrays_.push_back(MakeIntArray(acl_, NextAttribute<std::vector<int64_t>>()));
  return arrays_.back().get();
}

const Attribute& ArgumentReader::AttributeAt(std::size_t index) const {
  if (index < attributes_.size()) return attributes_[index];
  throw std::invalid_argument("the operator takes more than the " + std::to_string(attributes_.size()) +
                              " attributes that were given");
}

void ArgumentReader::RefuseAttribute() const {
  throw std::invalid_argument("attribute " + std::to_string(next_attribute_ - 1) + " is of another kind or size");
}

}  // namespace aclgrad
