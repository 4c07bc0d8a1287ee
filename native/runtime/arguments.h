// What one operator call is made of, and the order in which a phase 1 function takes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "handles.h"

namespace aclgrad {

// A list of bools, which Python's lists do not tell from one of integers, or null: an absent attribute alone would not
// say that it is one, and not what stands behind a mask of outputs.
struct Bools {
  std::optional<std::vector<bool>> values;
};

// A scalar of type FLOAT: a number alone is a DOUBLE, in which some operators compute then.
struct Float {
  float value;
};

// Absent is null for the operator. A data type is its number.
using Attribute = std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<int64_t>, Bools, Float>;

// Hands out inputs, attributes and outputs in aclnn order, each kind in the order it was given. A list of tensors takes
// all inputs that are left, and owns them. An array of bools that is no attribute is made of `wanted`, which says of
// each output whether its caller wants it. Throws std::invalid_argument if the call does not fit the function's
// parameters.
class ArgumentReader {
 public:
  ArgumentReader(const AclFunctions& acl, std::vector<TensorHandle>& inputs, const std::vector<TensorHandle>& outputs,
                 const std::vector<bool>& wanted, const std::vector<Attribute>& attributes)
      : acl_(acl), inputs_(inputs), outputs_(outputs), wanted_(wanted), attributes_(attributes) {}

  template <typename Parameter>
  [[nodiscard]] Parameter Next() {
    if constexpr (std::is_same_v<std::remove_const_t<std::remove_pointer_t<Parameter>>, aclTensor>) {
      return NextTensor();
    } else if constexpr (std::is_same_v<Parameter, const aclTensorList*>) {
      return NextTensorList();
    } else if constexpr (std::is_same_v<Parameter, const aclIntArray*>) {
      return NextIntArray();
    } else if constexpr (std::is_same_v<Parameter, const aclBoolArray*>) {
      return NextBoolArray();
    } else if constexpr (std::is_same_v<Parameter, const aclScalar*>) {
      return NextScalar();
    } else if constexpr (std::is_same_v<Parameter, char*> || std::is_same_v<Parameter, const char*>) {
      // CANN declares some of the texts that it only reads without const.
      return SkipAbsent() ? nullptr : const_cast<char*>(NextAttribute<std::string>().c_str());
    } else if constexpr (std::is_same_v<Parameter, aclDataType>) {
      return static_cast<aclDataType>(NextInteger<int32_t>());
    } else if constexpr (std::is_same_v<Parameter, uint64_t>) {
      // As CANN's callers pass negative numbers, which some of these parameters take.
      return static_cast<uint64_t>(NextAttribute<int64_t>());
    } else if constexpr (std::is_same_v<Parameter, uint64_t*>) {
      return &workspace_size_;
    } else if constexpr (std::is_same_v<Parameter, aclOpExecutor**>) {
      return &executor_;
    } else if constexpr (std::is_same_v<Parameter, bool>) {
      return NextAttribute<bool>();
    } else if constexpr (std::is_floating_point_v<Parameter>) {
      return static_cast<Parameter>(NextAttribute<double>());
    } else {
      static_assert(std::is_integral_v<Parameter> && std::is_signed_v<Parameter>,
                    "no attribute can be passed as a parameter of this type: add it to ArgumentReader::Next");
      return NextInteger<Parameter>();
    }
  }

  void ExpectEnd() const;

  // The arrays, lists and scalars made for phase 1; they must outlive phase 2.
  [[nodiscard]] std::vector<ValueHandle> TakeValues() { return std::move(values_); }

  // The workspace size that phase 1 returned.
  [[nodiscard]] uint64_t workspace_size() const noexcept { return workspace_size_; }
  [[nodiscard]] aclOpExecutor* executor() const noexcept { return executor_; }

 private:
  template <typename Value>
  [[nodiscard]] const Value& NextAttribute() {
    const Value* value = std::get_if<Value>(&AttributeAt(next_attribute_++));
    if (value == nullptr) RefuseAttribute();
    return *value;
  }

  template <typename Integer>
  [[nodiscard]] Integer NextInteger() {
    const int64_t value = NextAttribute<int64_t>();
    if (value != static_cast<Integer>(value)) RefuseAttribute();
    return static_cast<Integer>(value);
  }

  // An input, and after the last one an output: headers declare some inputs without const, and some outputs with it.
  [[nodiscard]] aclTensor* NextTensor();
  [[nodiscard]] const aclTensorList* NextTensorList();
  [[nodiscard]] const aclIntArray* NextIntArray();
  [[nodiscard]] const aclBoolArray* NextBoolArray();
  // Of the data type that op-plugin gives a scalar, BOOL, INT64 or DOUBLE, or FLOAT.
  [[nodiscard]] const aclScalar* NextScalar();
  template <typename Value>
  [[nodiscard]] const Value* Keep(const Value* value, aclnnStatus (*destroy)(const Value*)) {
    values_.push_back(Own(value, destroy));
    return value;
  }
  // Whether the next attribute is absent, which is then passed over.
  [[nodiscard]] bool SkipAbsent();
  [[nodiscard]] const Attribute& AttributeAt(std::size_t index) const;
  [[noreturn]] void RefuseAttribute() const;

  const AclFunctions& acl_;
  std::vector<TensorHandle>& inputs_;
  const std::vector<TensorHandle>& outputs_;
  const std::vector<bool>& wanted_;
  const std::vector<Attribute>& attributes_;
  std::vector<ValueHandle> values_;
  std::size_t next_input_ = 0;
  std::size_t next_output_ = 0;
  std::size_t next_attribute_ = 0;
  uint64_t workspace_size_ = 0;
  aclOpExecutor* executor_ = nullptr;
};

}  // namespace aclgrad
