#include <pybind11/stl.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "call.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

using Shape = std::vector<int64_t>;
using PlanInput = std::optional<std::tuple<Shape, int, bool, std::optional<ValueCheck>>>;
using PlanOutput = std::tuple<Shape, int, std::size_t, std::string, OutputUse>;

std::shared_ptr<CallPlan> MakePlan(std::string symbol, const std::vector<PlanInput>& inputs,
                                   std::vector<Attribute> attributes, const std::vector<PlanOutput>& outputs,
                                   bool is_empty, bool is_spatial, bool is_planned_alone,
                                   const std::map<std::size_t, std::size_t>& untouched) {
  auto plan = std::make_shared<CallPlan>();
  std::vector<InputForm> input_forms;
  std::vector<OutputForm> output_forms;
  for (const PlanInput& input : inputs) {
    if (!input) {
      input_forms.push_back({{}, ACL_DT_UNDEFINED});
      plan->call.inputs.emplace_back(Absent{});
      plan->checks.emplace_back();
      continue;
    }
    const auto& [shape, dtype, is_prefix, check] = *input;
    input_forms.push_back({shape, static_cast<aclDataType>(dtype), is_prefix});
    plan->call.inputs.emplace_back(ShapeOnly{});
    plan->checks.push_back(check);
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
    plan->call.outputs.push_back({nullptr, size_bytes});
    plan->reply_prefixes.push_back(reply_prefix);
  }
  plan->call.form = std::make_shared<CallForm>(std::move(symbol), std::move(input_forms), std::move(attributes),
                                               std::move(output_forms), is_spatial, is_planned_alone);
  plan->is_empty = is_empty;
  return plan;
}

}  // namespace

void BindCallPlan(py::module_& module) {
  py::enum_<OutputUse>(module, "OutputUse")
      .value("RETURNED", OutputUse::kReturned)
      .value("RETURNED_WHOLE", OutputUse::kReturnedWhole)
      .value("SCRATCH", OutputUse::kScratch)
      .value("NULL", OutputUse::kNull);
  py::class_<CallPlan, std::shared_ptr<CallPlan>>(module, "CallPlan")
      .def(py::init(&MakePlan), py::arg("symbol"), py::arg("inputs"), py::arg("attributes"), py::arg("outputs"),
           py::arg("is_empty") = false, py::arg("is_spatial") = true, py::arg("is_planned_alone") = false,
           py::arg("untouched") = std::map<std::size_t, std::size_t>{})
      .def_property_readonly("key", [](const CallPlan& plan) { return py::bytes(plan.call.form->key); })
      .def_property_readonly("is_short", [](const CallPlan& plan) { return plan.is_short.load(); });
}

}  // namespace aclgrad
