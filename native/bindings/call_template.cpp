#include <pybind11/stl.h>

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "held_call.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

using Shape = std::vector<int64_t>;

// The bytes of a constant.
struct KeptBytes {
  explicit KeptBytes(const py::bytes& given) : bytes(static_cast<std::string_view>(given).size()) {
    std::memcpy(bytes.data(), static_cast<std::string_view>(given).data(), bytes.size());
  }

  std::vector<std::byte> bytes;
};

// An input as Python gives it.
struct PlanInput {
  InputForm form;
  std::optional<ValueCheck> check;
  std::optional<Gathering> gathering;
  Constant constant;
};
// By the number of the input.
using InPlaceInputs = std::map<std::size_t, InPlace>;
using PlanOutput = std::tuple<Shape, int, std::size_t, std::string, OutputUse>;

PlanInput MakeInput(Shape shape, int dtype, bool is_prefix, std::optional<ValueCheck> check, std::optional<View> view,
                    bool is_copied, std::optional<Gathering> gathering, const std::shared_ptr<KeptBytes>& constant) {
  return {{std::move(shape), static_cast<aclDataType>(dtype), is_prefix, std::move(view), is_copied},
          std::move(check),
          std::move(gathering),
          constant == nullptr ? nullptr : Constant(constant, &constant->bytes)};
}

std::shared_ptr<CallTemplate> MakePlan(std::string symbol, const std::vector<std::optional<PlanInput>>& inputs,
                                       std::vector<Attribute> attributes, const std::vector<PlanOutput>& outputs,
                                       bool is_empty, bool is_spatial, bool is_planned_alone,
                                       const std::map<std::size_t, std::size_t>& untouched,
                                       const InPlaceInputs& in_place, bool joins) {
  auto plan = std::make_shared<CallTemplate>();
  std::vector<InputForm> input_forms;
  std::vector<OutputForm> output_forms;
  for (const std::optional<PlanInput>& input : inputs) {
    if (!input) {
      input_forms.push_back({{}, ACL_DT_UNDEFINED});
      plan->call.inputs.emplace_back(Absent{});
      plan->checks.emplace_back();
      plan->gatherings.emplace_back();
      continue;
    }
    input_forms.push_back(input->form);
    plan->call.inputs.push_back(input->constant == nullptr ? InputBytes(ShapeOnly{}) : InputBytes(input->constant));
    plan->checks.push_back(input->check);
    plan->gatherings.push_back(input->gathering);
  }
  for (const auto& [input, written] : in_place) {
    if (written.output >= outputs.size() || std::get<OutputUse>(outputs[written.output]) == OutputUse::kNull) {
      throw py::value_error("input " + std::to_string(input) + " would be written to output " +
                            std::to_string(written.output) + ", which has no memory");
    }
    input_forms.at(input).in_place = written;
  }
  for (const auto& [input, output] : untouched) {
    if (output >= outputs.size() || std::get<OutputUse>(outputs[output]) == OutputUse::kNull) {
      throw py::value_error("input " + std::to_string(input) + " would have the memory of output " +
                            std::to_string(output) + ", which has none");
    }
    plan->call.inputs.at(input) = ShapeOnly{output};
  }
  for (const auto& [shape, dtype, size_bytes, reply_prefix, use] : outputs) {
    output_forms.push_back({shape, static_cast<aclDataType>(dtype), use});
    plan->call.outputs.push_back({size_bytes});
    plan->reply_prefixes.push_back(reply_prefix);
  }
  plan->call.form = std::make_shared<CallForm>(std::move(symbol), std::move(input_forms), std::move(attributes),
                                               std::move(output_forms), is_spatial, is_planned_alone);
  plan->call.is_empty = is_empty;
  plan->call.is_joined = joins;
  return plan;
}

}  // namespace

void BindCallTemplate(py::module_& module) {
  py::enum_<OutputUse>(module, "OutputUse")
      .value("RETURNED", OutputUse::kReturned)
      .value("RETURNED_WHOLE", OutputUse::kReturnedWhole)
      .value("SCRATCH", OutputUse::kScratch)
      .value("NULL", OutputUse::kNull);
  py::class_<Bools>(module, "Bools").def(py::init<std::optional<std::vector<bool>>>(), py::arg("values"));
  py::class_<View>(module, "View")
      .def(py::init<int64_t, std::vector<int64_t>, int64_t>(), py::arg("offset"), py::arg("strides"), py::arg("count"));
  py::class_<Float>(module, "Float").def(py::init<float>(), py::arg("value"));
  py::class_<InPlace>(module, "InPlace")
      .def(py::init<std::size_t, Shape, std::optional<View>>(), py::arg("output"), py::arg("shape"),
           py::arg("view") = std::nullopt);
  py::class_<Gathering>(module, "Gathering")
      .def(py::init<Shape, std::size_t, View>(), py::arg("shape"), py::arg("item_bytes"), py::arg("view"));
  py::class_<KeptBytes, std::shared_ptr<KeptBytes>>(module, "Constant")
      .def(py::init<const py::bytes&>(), py::arg("data"));
  py::class_<PlanInput>(module, "Input")
      .def(py::init(&MakeInput), py::arg("shape"), py::arg("dtype"), py::kw_only(), py::arg("is_prefix") = false,
           py::arg("check") = std::nullopt, py::arg("view") = std::nullopt, py::arg("is_copied") = false,
           py::arg("gathering") = std::nullopt, py::arg("constant") = nullptr);
  py::class_<CallTemplate, std::shared_ptr<CallTemplate>>(module, "CallTemplate")
      .def(py::init(&MakePlan), py::arg("symbol"), py::arg("inputs"), py::arg("attributes"), py::arg("outputs"),
           py::arg("is_empty") = false, py::arg("is_spatial") = true, py::arg("is_planned_alone") = false,
           py::arg("untouched") = std::map<std::size_t, std::size_t>{}, py::arg("in_place") = InPlaceInputs{},
           py::arg("joins") = false)
      .def_property_readonly("key", [](const CallTemplate& plan) { return py::bytes(plan.call.form->key); })
      .def_property_readonly("is_short", [](const CallTemplate& plan) { return plan.is_short.load(); });
}

}  // namespace aclgrad
