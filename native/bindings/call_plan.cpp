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
using PlanInput = std::tuple<Shape, int, bool, std::optional<ValueCheck>>;

std::shared_ptr<CallPlan> MakePlan(std::string symbol, const std::vector<PlanInput>& inputs,
                                   std::vector<Attribute> attributes, Shape shape, int dtype, std::size_t output_bytes,
                                   const py::bytes& reply_prefix, bool is_empty) {
  auto plan = std::make_shared<CallPlan>();
  plan->form.symbol = std::move(symbol);
  for (const auto& [input_shape, input_dtype, is_prefix, check] : inputs) {
    plan->form.inputs.push_back({input_shape, static_cast<aclDataType>(input_dtype), is_prefix});
    plan->checks.push_back(check);
  }
  plan->form.attributes = std::move(attributes);
  plan->form.output = {std::move(shape), static_cast<aclDataType>(dtype), nullptr, output_bytes};
  plan->reply_prefix = std::string(reply_prefix);
  plan->is_empty = is_empty;
  return plan;
}

}  // namespace

void BindCallPlan(py::module_& module) {
  py::class_<CallPlan, std::shared_ptr<CallPlan>>(module, "CallPlan")
      .def(py::init(&MakePlan), py::arg("symbol"), py::arg("inputs"), py::arg("attributes"), py::arg("shape"),
           py::arg("dtype"), py::arg("output_bytes"), py::arg("reply_prefix") = py::bytes(),
           py::arg("is_empty") = false);
}

}  // namespace aclgrad
