// What one operator call is made of, and the order in which a phase 1 function takes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "handles.h"

namespace aclgrad {

using Attribute = std::variant<bool, int64_t, double, std::vector<int64_t>>;

// Hands out inputs, attributes and outputs in aclnn order, each kind in the order it was given. Throws
// std::invalid_argument if the call does not fit the function's parameters.
class ArgumentReader {
 public:
  ArgumentReader(const AclFunctions& acl, const std::vector<TensorHandle>& inputs, const TensorHandle& output,
                 const std::vector<Attribute>& attributes)
      : acl_(acl), inputs_(inputs), output_(output), attributes_(attributes) {}

  template <typename Parameter>
  [[nodiscard]] Parameter Next() {
    if constexpr (std::is_same_v<Parameter, const aclTensor*>) {
      return NextInput();
    } else if constexpr (std::is_same_v<Parameter, aclTensor*>) {
      return NextOutput();
    } else if constexpr (std::is_same_v<Parameter, const aclIntArray*>) {
      return NextIntArray();
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

  // The arrays made for phase 1; they must outlive phase 2.
  [[nodiscard]] std::vector<IntArrayHandle> TakeArrays() { return std::move(arrays_); }

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

  [[nodiscard]] const aclTensor* NextInput();
  // There is one output, so an operator with two is refused: both would be written to the same buffer.
  [[nodiscard]] aclTensor* NextOutput();
  [[nodiscard]] const aclIntArray* NextIntArray();
  [[nodiscard]] const Attribute& AttributeAt(std::size_t index) const;
  [[noreturn]] void RefuseAttribute() const;

  const AclFunctions& acl_;
  const std::vector<TensorHandle>& inputs_;
  const TensorHandle& output_;
  const std::vector<Attribute>& attributes_;
  std::vector<IntArrayHandle> arrays_;
  std::size_t next_input_ = 0;
  bool has_output_ = false;
  std::size_t next_attribute_ = 0;
  uint64_t workspace_size_ = 0;
  aclOpExecutor* executor_ = nullptr;
};

}  // namespace aclgrad
