#include "operator_call.h"

#include <stdexcept>
#include <type_traits>
#include <utility>

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

void AppendView(std::string& key, const std::optional<View>& view) {
  Append(key, view.has_value());
  if (!view) return;
  AppendList(key, view->strides);
  Append(key, view->offset);
  Append(key, view->count);
}

void AppendAttribute(std::string& key, const Attribute& attribute) {
  Append(key, attribute.index());
  std::visit(
      [&key](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::vector<int64_t>>) {
          AppendList(key, value);
        } else if constexpr (std::is_same_v<std::decay_t<decltype(value)>, Bools>) {
          Append(key, value.values.has_value());
          if (value.values) AppendList(key, {value.values->begin(), value.values->end()});
        } else if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
          Append(key, value.size());
          key += value;
        } else if constexpr (!std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
          Append(key, value);
        }
      },
      attribute);
}

std::string KeyOf(const CallForm& form) {
  std::string key = form.symbol;
  for (const InputForm& input : form.inputs) {
    Append(key, input.dtype);
    AppendList(key, input.shape);
    AppendView(key, input.is_strided() ? input.view : std::nullopt);
    Append(key, input.in_place.has_value());
    if (!input.in_place) continue;
    Append(key, input.in_place->output);
    AppendList(key, input.in_place->shape);
    AppendView(key, input.in_place->view);
  }
  for (const OutputForm& output : form.outputs) {
    Append(key, output.use);
    Append(key, output.dtype);
    AppendList(key, output.shape);
  }
  for (const Attribute& attribute : form.attributes) AppendAttribute(key, attribute);
  return key;
}

// An executor has no tensor for an absent input, and may depend on memory that an input shares with an output.
char KindOf(const InputBytes& input) {
  if (std::holds_alternative<Absent>(input)) return 'a';
  const auto* shape_only = std::get_if<ShapeOnly>(&input);
  return shape_only != nullptr && shape_only->output ? 'o' : 'b';
}

}  // namespace

CallForm::CallForm(std::string given_symbol, std::vector<InputForm> given_inputs,
                   std::vector<Attribute> given_attributes, std::vector<OutputForm> given_outputs,
                   bool given_is_spatial, bool given_is_planned_alone)
    : symbol(std::move(given_symbol)),
      inputs(std::move(given_inputs)),
      attributes(std::move(given_attributes)),
      outputs(std::move(given_outputs)),
      is_spatial(given_is_spatial),
      is_planned_alone(given_is_planned_alone),
      key(KeyOf(*this)) {}

std::string ExecutorKey(const OperatorCall& call) {
  std::string key;
  key.reserve(call.inputs.size() + call.form->key.size());
  for (const InputBytes& input : call.inputs) key += KindOf(input);
  key += call.form->key;
  return key;
}

bool HasJoinedInputs(const OperatorCall& call) {
  if (!call.is_joined) return false;
  const auto* const whole = std::get_if<Place>(&call.outputs.at(0).target);
  if (whole == nullptr) return false;
  std::size_t end = whole->offset;
  for (const InputBytes& input : call.inputs) {
    const auto* const part = std::get_if<Place>(&input);
    if (part == nullptr || part->offset != end) return false;
    end += part->size_bytes;
  }
  return end == whole->offset + whole->size_bytes;
}

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
