// An aclnn program over all operators that the headers declare: runs the calls of a file and writes their outputs one
// after the other. Usage: run_calls CALLS OUTPUTS [OFFSET]. OFFSET is a number of bytes that shifts every operand.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "call_file.h"
#include "operator_table.h"

namespace {

void Check(int code, const std::string& what) {
  if (code == 0) return;
  const char* const message = aclGetRecentErrMsg();
  std::fprintf(stderr, "%s: %d %s\n", what.c_str(), code, message != nullptr ? message : "");
  std::exit(1);
}

class DeviceMemory {
 public:
  DeviceMemory(std::size_t size_bytes, std::size_t offset) : offset_(offset) {
    Check(aclrtMalloc(&memory_, size_bytes + offset + 1, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
  }
  ~DeviceMemory() { aclrtFree(memory_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  [[nodiscard]] void* address() const { return static_cast<char*>(memory_) + offset_; }

 private:
  void* memory_ = nullptr;
  std::size_t offset_;
};

aclFormat SpatialFormat(std::size_t rank) {
  switch (rank) {
    case 3:
      return ACL_FORMAT_NCL;
    case 4:
      return ACL_FORMAT_NCHW;
    case 5:
      return ACL_FORMAT_NCDHW;
    default:
      return ACL_FORMAT_ND;
  }
}

class DeviceTensor {
 public:
  DeviceTensor(const call_file::Tensor& tensor, bool is_spatial, std::size_t offset)
      : memory_(tensor.size_bytes, offset), size_bytes_(tensor.size_bytes) {
    if (tensor.dtype == call_file::kAbsent) return;
    const auto& shape = tensor.shape;
    const std::string& data = tensor.data;
    const aclFormat format = is_spatial ? SpatialFormat(shape.size()) : ACL_FORMAT_ND;
    if (!data.empty()) {
      Check(aclrtMemcpy(memory_.address(), data.size(), data.data(), data.size(), ACL_MEMCPY_HOST_TO_DEVICE), "copy");
    } else if (size_bytes_ > 0) {
      // NaN, which shows an element that the operator reads and should not, or does not write.
      Check(aclrtMemset(memory_.address(), size_bytes_, 0xFF, size_bytes_), "fill");
    }
    handle_ = aclCreateTensor(shape.data(), shape.size(), static_cast<aclDataType>(tensor.dtype), nullptr, 0, format,
                              shape.data(), shape.size(), memory_.address());
    Check(handle_ == nullptr ? 1 : 0, "aclCreateTensor");
  }
  ~DeviceTensor() { aclDestroyTensor(handle_); }
  DeviceTensor(const DeviceTensor&) = delete;
  DeviceTensor& operator=(const DeviceTensor&) = delete;
  [[nodiscard]] aclTensor* handle() const { return handle_; }
  // To be destroyed by whom it is given to.
  [[nodiscard]] aclTensor* Release() { return std::exchange(handle_, nullptr); }

  [[nodiscard]] std::string Read() const {
    std::string data(size_bytes_, '\0');
    if (data.empty()) return data;
    Check(aclrtMemcpy(data.data(), data.size(), memory_.address(), data.size(), ACL_MEMCPY_DEVICE_TO_HOST), "copy");
    return data;
  }

 private:
  DeviceMemory memory_;
  std::size_t size_bytes_;
  aclTensor* handle_ = nullptr;
};

// Returns the arguments of phase 1, by the types of its parameters.
class Arguments {
 public:
  Arguments(const call_file::Call& call, std::size_t offset) : call_(call) {
    for (const call_file::Tensor& input : call.inputs) inputs_.emplace_back(input, call.is_spatial, offset);
    for (const call_file::Tensor& output : call.outputs) outputs_.emplace_back(output, call.is_spatial, offset);
  }
  ~Arguments() {
    for (const aclIntArray* const array : arrays_) aclDestroyIntArray(array);
    for (const aclScalar* const scalar : scalars_) aclDestroyScalar(scalar);
    aclDestroyTensorList(list_);
    aclDestroyBoolArray(mask_);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  template <typename Parameter>
  [[nodiscard]] Parameter Next() {
    if constexpr (std::is_same_v<Parameter, const aclTensor*> || std::is_same_v<Parameter, aclTensor*>) {
      // Headers declare some outputs const, and one of them an input without it.
      const bool is_input = next_input_ < inputs_.size();
      return is_input ? inputs_[next_input_++].handle() : outputs_.at(next_output_++).handle();
    } else if constexpr (std::is_same_v<Parameter, const aclTensorList*>) {
      // No operator has another input behind its list.
      std::vector<const aclTensor*> tensors;
      while (next_input_ < inputs_.size()) tensors.push_back(inputs_[next_input_++].Release());
      return list_ = aclCreateTensorList(tensors.data(), tensors.size());
    } else if constexpr (std::is_same_v<Parameter, const aclBoolArray*>) {
      const auto all = std::make_unique<bool[]>(outputs_.size());
      std::fill_n(all.get(), outputs_.size(), true);
      return mask_ = aclCreateBoolArray(all.get(), outputs_.size());
    } else if constexpr (std::is_same_v<Parameter, const aclIntArray*>) {
      const call_file::Attribute& attribute = call_.attributes.at(next_attribute_++);
      if (std::holds_alternative<std::monostate>(attribute)) return nullptr;
      const auto& values = std::get<std::vector<int64_t>>(attribute);
      arrays_.push_back(aclCreateIntArray(values.data(), values.size()));
      return arrays_.back();
    } else if constexpr (std::is_same_v<Parameter, const aclScalar*>) {
      return NextScalar();
    } else if constexpr (std::is_same_v<Parameter, char*>) {
      return const_cast<char*>(std::get<std::string>(call_.attributes.at(next_attribute_++)).c_str());
    } else if constexpr (std::is_same_v<Parameter, uint64_t*>) {
      return &workspace_bytes;
    } else if constexpr (std::is_same_v<Parameter, aclOpExecutor**>) {
      return &executor;
    } else {
      using Wide = std::conditional_t<std::is_same_v<Parameter, bool>, bool,
                                      std::conditional_t<std::is_floating_point_v<Parameter>, double, int64_t>>;
      return static_cast<Parameter>(std::get<Wide>(call_.attributes.at(next_attribute_++)));
    }
  }

  [[nodiscard]] std::string ReadOutputs() const {
    std::string data;
    for (const DeviceTensor& output : outputs_) data += output.Read();
    return data;
  }

  uint64_t workspace_bytes = 0;
  aclOpExecutor* executor = nullptr;

 private:
  // Of the kind that the attribute is of; null without one.
  [[nodiscard]] const aclScalar* NextScalar() {
    const call_file::Attribute& attribute = call_.attributes.at(next_attribute_++);
    if (std::holds_alternative<std::monostate>(attribute)) return nullptr;
    const auto create = [](auto value, aclDataType type) { return aclCreateScalar(&value, type); };
    if (const bool* const flag = std::get_if<bool>(&attribute)) {
      scalars_.push_back(create(*flag, ACL_BOOL));
    } else if (const int64_t* const integer = std::get_if<int64_t>(&attribute)) {
      scalars_.push_back(create(*integer, ACL_INT64));
    } else {
      scalars_.push_back(create(std::get<double>(attribute), ACL_DOUBLE));
    }
    return scalars_.back();
  }

  const call_file::Call& call_;
  std::deque<DeviceTensor> inputs_;
  std::deque<DeviceTensor> outputs_;
  std::vector<const aclIntArray*> arrays_;
  std::vector<const aclScalar*> scalars_;
  const aclTensorList* list_ = nullptr;
  const aclBoolArray* mask_ = nullptr;
  std::size_t next_input_ = 0;
  std::size_t next_output_ = 0;
  std::size_t next_attribute_ = 0;
};

using Launch = aclnnStatus (*)(void*, uint64_t, aclOpExecutor*, aclrtStream);
using Phase1 = std::function<aclnnStatus(Arguments&)>;

template <typename... Parameters>
Phase1 Phase1Of(aclnnStatus (*phase1)(Parameters...)) {
  return [phase1](Arguments& arguments) {
    // Braces fix the order of evaluation.
    return std::apply(phase1, std::tuple<Parameters...>{arguments.Next<Parameters>()...});
  };
}

#define ROW(symbol) {#symbol, {Phase1Of(symbol##GetWorkspaceSize), symbol}},
const std::map<std::string, std::pair<Phase1, Launch>> kOperators = {ACLNN_OPERATORS(ROW)};
#undef ROW

std::string Run(const call_file::Call& call, std::size_t offset, aclrtStream stream) {
  const auto& [phase1, launch] = kOperators.at(call.symbol);
  Arguments arguments(call, offset);
  Check(phase1(arguments), call.symbol);
  const DeviceMemory workspace(arguments.workspace_bytes, offset);
  Check(launch(arguments.workspace_bytes == 0 ? nullptr : workspace.address(), arguments.workspace_bytes,
               arguments.executor, stream),
        call.symbol);
  Check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
  return arguments.ReadOutputs();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::size_t offset = argc > 3 ? std::stoul(argv[3]) : 0;
  std::ofstream outputs(argv[2], std::ios::binary);
  aclrtStream stream = nullptr;
  Check(aclInit(nullptr), "aclInit");
  Check(aclrtSetDevice(0), "aclrtSetDevice");
  Check(aclrtCreateStream(&stream), "aclrtCreateStream");
  for (const call_file::Call& call : call_file::Reader(argv[1]).ReadAll()) outputs << Run(call, offset, stream);
  Check(aclrtDestroyStream(stream), "aclrtDestroyStream");
  Check(aclrtResetDevice(0), "aclrtResetDevice");
  Check(aclFinalize(), "aclFinalize");
  return outputs.good() ? 0 : 1;
}
