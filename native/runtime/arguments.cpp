#include "arguments.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

namespace aclgrad {
namespace {

std::string Counted(std::size_t inputs, std::size_t attributes, std::size_t outputs) {
  return std::to_string(inputs) + " inputs, " + std::to_string(attributes) + " attributes and " +
         std::to_string(outputs) + " outputs";
}

}  // namespace

void ArgumentReader::ExpectEnd() const {
  const bool is_all = next_input_ == inputs_.size() && next_attribute_ == attributes_.size();
  if (is_all && next_output_ == outputs_.size()) return;
  throw std::invalid_argument("the operator takes " + Counted(next_input_, next_attribute_, next_output_) +
                              "; given were " + Counted(inputs_.size(), attributes_.size(), outputs_.size()));
}

aclTensor* ArgumentReader::NextTensor() {
  if (next_input_ < inputs_.size()) return inputs_[next_input_++].get();
  if (next_output_ == outputs_.size()) {
    throw std::invalid_argument("the operator takes more tensors than the " + std::to_string(inputs_.size()) +
                                " inputs and " + std::to_string(outputs_.size()) + " outputs that were given");
  }
  return outputs_[next_output_++].get();
}

const aclTensorList* ArgumentReader::NextTensorList() {
  std::vector<const aclTensor*> tensors;
  for (std::size_t i = next_input_; i < inputs_.size(); ++i) tensors.push_back(inputs_[i].get());
  const aclTensorList* list =
      Keep<aclTensorList>(acl_.aclCreateTensorList(tensors.data(), tensors.size()), acl_.aclDestroyTensorList);
  // Destroying the list destroys them.
  while (next_input_ < inputs_.size()) static_cast<void>(inputs_[next_input_++].release());
  return list;
}

const aclIntArray* ArgumentReader::NextIntArray() {
  if (SkipAbsent()) return nullptr;
  const auto& values = NextAttribute<std::vector<int64_t>>();
  return Keep<aclIntArray>(acl_.aclCreateIntArray(values.data(), values.size()), acl_.aclDestroyIntArray);
}

const aclBoolArray* ArgumentReader::NextBoolArray() {
  const bool is_attribute =
      next_attribute_ < attributes_.size() && std::holds_alternative<Bools>(attributes_[next_attribute_]);
  const std::optional<std::vector<bool>>& given = is_attribute ? NextAttribute<Bools>().values : wanted_;
  if (!given) return nullptr;
  const std::vector<bool>& values = *given;
  const auto copy = std::make_unique<bool[]>(values.size());
  std::copy(values.begin(), values.end(), copy.get());
  return Keep<aclBoolArray>(acl_.aclCreateBoolArray(copy.get(), values.size()), acl_.aclDestroyBoolArray);
}

const aclScalar* ArgumentReader::NextScalar() {
  if (SkipAbsent()) return nullptr;
  const Attribute& attribute = AttributeAt(next_attribute_++);
  const auto create = [&](auto value, aclDataType type) {
    return Keep<aclScalar>(acl_.aclCreateScalar(&value, type), acl_.aclDestroyScalar);
  };
  if (const bool* flag = std::get_if<bool>(&attribute)) return create(*flag, ACL_BOOL);
  if (const auto* integer = std::get_if<int64_t>(&attribute)) return create(*integer, ACL_INT64);
  if (const auto* number = std::get_if<double>(&attribute)) return create(*number, ACL_DOUBLE);
  if (const auto* number = std::get_if<Float>(&attribute)) return create(number->value, ACL_FLOAT);
  RefuseAttribute();
}

bool ArgumentReader::SkipAbsent() {
  if (!std::holds_alternative<std::monostate>(AttributeAt(next_attribute_))) return false;
  ++next_attribute_;
  return true;
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
