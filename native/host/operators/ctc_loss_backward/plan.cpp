// aclnnCtcLossBackward: its checks and its plan.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "computation.h"
#include "device/runtime.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

struct Tensors {
  explicit Tensors(const CtcLossBackwardArguments& given)
      : grad_out("gradOut", given.grad_out),
        log_probs("logProbs", given.log_probs),
        targets("targets", given.targets),
        input_lengths("inputLengths", given.input_lengths),
        target_lengths("targetLengths", given.target_lengths),
        losses("negLogLikelihood", given.neg_log_likelihood),
        log_alpha("logAlpha", given.log_alpha),
        out("out", given.out) {}

  Argument grad_out;
  Argument log_probs;
  Argument targets;
  IntArrayArgument input_lengths;
  IntArrayArgument target_lengths;
  Argument losses;
  Argument log_alpha;
  Argument out;
};

void CheckLengths(const IntArrayArgument& lengths, int64_t samples, int64_t most, const char* of) {
  CheckLength(lengths, {static_cast<size_t>(samples)});
  // Devices take negative ones.
  const auto fits = [&](int64_t length) { return 0 <= length && length <= most; };
  if (std::all_of(lengths.values.begin(), lengths.values.end(), fits)) return;
  FailInvalid(std::string(lengths.name) + ": expected from 0 to " + std::to_string(most) + ", " + of + ", got " +
              DimsText(lengths.values));
}

void CheckShapes(const Tensors& tensors, int64_t blank) {
  CheckRank(tensors.log_probs, {3});
  CheckNoNegativeDim(tensors.log_probs);
  const Dims& dims = tensors.log_probs.tensor.view_dims;
  const int64_t samples = dims[1];
  if (dims[0] == 0) FailShape(tensors.log_probs, "at least one step");
  for (const Argument& each : {tensors.grad_out, tensors.losses})
    CheckShape(each, "the samples of logProbs", {samples});
  CheckRank(tensors.log_alpha, {3});
  CheckRank(tensors.targets, {1, 2});
  CheckSameShape(tensors.out, tensors.log_probs);
  if (blank < 0 || blank >= dims[2]) {
    FailInvalid("blank: expected from 0 to " + std::to_string(dims[2] - 1) + ", got " + std::to_string(blank));
  }
  CheckNoNegativeDim(tensors.log_alpha);
  CheckDim(tensors.log_alpha, 0, "the samples of logProbs", samples);
  CheckDim(tensors.log_alpha, 1, "the steps of logProbs", dims[0]);
  CheckAddressable(tensors.log_alpha);
  CheckLengths(tensors.input_lengths, samples, dims[0], "the steps of logProbs");
  // Without places, a device reads one all the same.
  const int64_t places = tensors.log_alpha.tensor.view_dims[2];
  if (places == 0) FailShape(tensors.log_alpha, "at least one place");
  CheckLengths(tensors.target_lengths, samples, (places - 1) / 2, "the labels that logAlpha has places for");
  const Dims& lengths = tensors.target_lengths.values;
  const Dims& targets = tensors.targets.tensor.view_dims;
  if (targets.size() == 1) {
    CheckShape(tensors.targets, "the sum of targetLengths",
               {std::accumulate(lengths.begin(), lengths.end(), int64_t{0})});
    return;
  }
  CheckNoNegativeDim(tensors.targets);
  CheckDim(tensors.targets, 0, "the samples of logProbs", samples);
  if (samples > 0 && targets[1] < *std::max_element(lengths.begin(), lengths.end())) {
    FailShape(tensors.targets, "as many labels as targetLengths has, " + DimsText(lengths));
  }
}

void CheckTypes(const Tensors& tensors) {
  const Product product = CurrentProduct();
  const Argument& log_probs = tensors.log_probs;
  std::vector<aclDataType> types = {ACL_FLOAT, ACL_DOUBLE};
  if (HasBf16(product)) types.insert(types.end(), {ACL_FLOAT16, ACL_BF16});
  CheckDataType(log_probs, types);
  const bool is_half = log_probs.tensor.data_type == ACL_FLOAT16 || log_probs.tensor.data_type == ACL_BF16;
  if (is_half && product != Product::k950) {
    const Dims& dims = log_probs.tensor.view_dims;
    const int64_t labels = (tensors.log_alpha.tensor.view_dims[2] - 1) / 2;
    if (dims[1] > 8180 || dims[2] > 200000 || labels > 1000) {
      FailShape(log_probs, "at most 8180 samples, 200000 classes, and places for 1000 labels");
    }
  }
  for (const Argument& each : {tensors.grad_out, tensors.losses, tensors.log_alpha, tensors.out}) {
    CheckSameDataType(each, log_probs);
  }
  CheckDataType(tensors.targets, {ACL_INT32, ACL_INT64, ACL_BOOL, ACL_FLOAT, ACL_FLOAT16});
}

Ctc CtcOf(const Tensors& tensors, const CtcLossBackwardArguments& given) {
  const Dims& dims = tensors.log_probs.tensor.view_dims;
  const Dims& targets = tensors.targets.tensor.view_dims;
  Ctc ctc{};
  ctc.steps = dims[0];
  ctc.samples = dims[1];
  ctc.classes = dims[2];
  ctc.places = tensors.log_alpha.tensor.view_dims[2];
  ctc.input_lengths = tensors.input_lengths.values;
  ctc.target_lengths = tensors.target_lengths.values;
  ctc.blank = given.blank;
  ctc.zero_infinity = given.zero_infinity;
  ctc.type = tensors.log_probs.tensor.data_type;
  ctc.target_type = tensors.targets.tensor.data_type;
  int64_t first = 0;
  int64_t most_labels = 0;
  for (size_t sample = 0; sample < ctc.target_lengths.size(); ++sample) {
    ctc.first_labels.push_back(first);
    first += targets.size() == 2 ? targets[1] : ctc.target_lengths[sample];
    if (ctc.has_paths(sample)) most_labels = std::max(most_labels, ctc.target_lengths[sample]);
  }
  ctc.slots = std::min<int64_t>(ctc.samples, Runtime::Current()->config().threads);
  ctc.slot_bytes = static_cast<size_t>(most_labels + 1) * kCtcLabelBytes;
  return ctc;
}

}  // namespace

Plan PlanCtcLossBackward(const CtcLossBackwardArguments& given) {
  CheckProduct(kAllProducts);
  const Tensors tensors(given);
  CheckShapes(tensors, given.blank);
  CheckTypes(tensors);
  if (tensors.log_probs.tensor.empty()) return {};
  Plan plan =
      PlanOf({tensors.grad_out, tensors.log_probs, tensors.targets, tensors.losses, tensors.log_alpha}, {tensors.out});
  const Ctc ctc = CtcOf(tensors, given);
  plan.AddScratch(static_cast<uint64_t>(ctc.slots) * ctc.slot_bytes + alignof(double));
  // A place takes about as long as so many products.
  constexpr double kPlaceProducts = 64;
  plan.PromiseTimeOfProducts(kPlaceProducts * static_cast<double>(ElementCount(tensors.log_alpha.tensor.view_dims)));
  plan.SetKernel<CtcGradient>(ctc);
  return plan;
}

}  // namespace acl_host
