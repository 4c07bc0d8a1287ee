#include <pybind11/stl.h>

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
                                   bool is_empty, bool is_spatial, bool is_planned_alone) {
  auto plan = std::make_shared<CallPlan>();
  plan->form.symbol = std::move(symbol);
  for (const PlanInput& input : inputs) {
    if (!input) {
      plan->form.inputs.push_back({{}, ACL_DT_UNDEFINED, false, Absent{}});
      plan->checks.emplace_back();
      continue;
    }
    const auto& [shape, dtype, is_prefix, check] = *input;
    plan->form.inputs.push_back({shape, static_cast<aclDataType>(dtype), is_prefix});
    plan->checks.push_back(check);
  }
  plan->form.attributes = std::move(attributes);
  for (const auto& [shape, dtype, size_bytes, reply_prefix, use] : outputs) {
    plan->form.outputs.push_back({shape, static_cast<aclDataType>(dtype), nullptr, size_bytes, false, use});
    plan->reply_prefixes.push_back(reply_prefix);
  }
  plan->form.is_spatial = is_spatial;
  plan->form.is_planned_alone = is_planned_alone;
  plan->is_empty = is_empty;
  return plan;
}

}  // namespace

void BindCallPlan(py::module_& module) {
  py::enum_<OutputUse>(module, "OutputUse")
      .value("RETURNED", OutputUse::kReturned)
      .value("SCRATCH", OutputUse::kScratch)
      .value("NULL", OutputUse::kNull);
  py::class_<CallPlan, std::shared_ptr<CallPlan>>(module, "CallPlan")
      .def(py::init(&MakePlan), py::arg("symbol"), py::arg("inputs"), py::arg("attributes"), py::arg("outputs"),
           py::arg("is_empty") = false, py::arg("is_spatial") = true, py::arg("is_planned_alone") = false);
}

}  // namespace aclgrad
