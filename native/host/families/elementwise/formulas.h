// The gradients by their functions.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include "families/elementwise/activations.h"
#include "families/elementwise/computation.h"
#include "families/elementwise/losses.h"

namespace acl_host {
namespace {

// Calls visit with the gradient of the function, as precise as elements of type T.
template <typename T, typename Visitor>
void VisitGradient(Function function, const Parameters& parameters, const Visitor& visit) {
  const auto& [first, second, third] = parameters;
  switch (function) {
    case Function::kSilu:
      return visit(SiluGradient<T>{});
    case Function::kSigmoid:
      return visit(SigmoidGradient{});
    case Function::kTanh:
      return visit(TanhGradient{});
    case Function::kLeakyRelu:
      return visit(LeakyReluGradient{first});
    case Function::kHardswish:
      return visit(HardswishGradient{});
    case Function::kThreshold:
      return visit(ThresholdGradient{first});
    case Function::kGelu:
      return visit(GeluGradient<T>{});
    case Function::kGeluTanh:
      return visit(GeluTanhGradient<T>{});
    case Function::kElu:
      return visit(EluGradient<T>{first, second, third});
    case Function::kEluOfResult:
      return visit(EluOfResultGradient{first, second, third});
    case Function::kSoftplus:
      return visit(SoftplusGradient<T>{first, second});
    case Function::kHardtanh:
      return visit(HardtanhGradient{first, second});
    case Function::kHardsigmoid:
      return visit(HardsigmoidGradient{});
    case Function::kMish:
      return visit(MishGradient<T>{});
    case Function::kLogSigmoid:
      return visit(LogSigmoidGradient<T>{});
    case Function::kShrink:
      return visit(ShrinkGradient{first});
    case Function::kMseLoss:
      return visit(MseLossGradient{first});
    case Function::kL1Loss:
      return visit(L1LossGradient{first});
    case Function::kSmoothL1Loss:
      return visit(SmoothL1LossGradient{first, second});
    case Function::kBinaryCrossEntropy:
      return visit(BinaryCrossEntropyGradient{first});
    case Function::kBinaryCrossEntropyWithLogits:
      return visit(BinaryCrossEntropyWithLogitsGradient<T>{first});
    case Function::kWeightedBinaryCrossEntropyWithLogits:
      return visit(WeightedBinaryCrossEntropyWithLogitsGradient<T>{first});
    case Function::kKlDiv:
      return visit(KlDivGradient{first});
    case Function::kKlDivOfLogTarget:
      return visit(KlDivOfLogTargetGradient<T>{first});
  }
}

}  // namespace
}  // namespace acl_host
