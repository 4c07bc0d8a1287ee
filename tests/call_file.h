// Calls of the operator table, from a file that call_file.py writes: 64-bit words, and byte strings behind their
// length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace call_file {

using Attribute = std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<int64_t>>;

// What stands in place of the data type of an input that was left out, or of an output that is null in every call.
constexpr int64_t kAbsent = -1;

struct Tensor {
  int64_t dtype;  // aclDataType, or kAbsent
  std::vector<int64_t> shape;
  std::size_t size_bytes;
  std::string data;  // the first bytes of the values, or nothing if the values do not matter
};

struct Call {
  std::string symbol;  // of phase 2
  bool is_spatial;
  std::vector<Tensor> inputs;
  std::vector<Attribute> attributes;
  std::vector<Tensor> outputs;
};

class Reader {
 public:
  explicit Reader(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot read " + path);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }

  [[nodiscard]] std::vector<Call> ReadAll() {
    std::vector<Call> calls;
    while (next_ < bytes_.size()) {
      Call call;
      call.symbol = Text();
      call.is_spatial = Next<int64_t>() != 0;
      call.inputs.resize(Count());
      for (Tensor& input : call.inputs) input = ReadTensor();
      call.attributes.resize(Count());
      for (Attribute& attribute : call.attributes) attribute = ReadAttribute();
      call.outputs.resize(Count());
      for (Tensor& output : call.outputs) output = ReadTensor();
      calls.push_back(std::move(call));
    }
    return calls;
  }

 private:
  template <typename Value>
  [[nodiscard]] Value Next() {
    Value value{};
    std::memcpy(&value, Take(sizeof(Value)), sizeof(Value));
    return value;
  }

  [[nodiscard]] const char* Take(std::size_t count) {
    if (bytes_.size() - next_ < count) throw std::runtime_error("the file of calls is cut off");
    next_ += count;
    return bytes_.data() + next_ - count;
  }

  [[nodiscard]] std::size_t Count() { return static_cast<std::size_t>(Next<int64_t>()); }

  [[nodiscard]] std::string Text() {
    const std::size_t count = Count();
    return {Take(count), count};
  }

  [[nodiscard]] std::vector<int64_t> Integers() {
    std::vector<int64_t> values(Count());
    for (int64_t& value : values) value = Next<int64_t>();
    return values;
  }

  [[nodiscard]] Tensor ReadTensor() {
    Tensor tensor{};
    tensor.dtype = Next<int64_t>();
    if (tensor.dtype == kAbsent) return tensor;
    tensor.shape = Integers();
    tensor.size_bytes = Count();
    tensor.data = Text();
    return tensor;
  }

  [[nodiscard]] Attribute ReadAttribute() {
    switch (Next<int64_t>()) {
      case 0:
        return Next<int64_t>() != 0;
      case 1:
        return Next<int64_t>();
      case 2:
        return Next<double>();
      case 3:
        return Text();
      case 4:
        return Integers();
      default:
        return std::monostate{};
    }
  }

  std::string bytes_;
  std::size_t next_ = 0;
};

}  // namespace call_file
