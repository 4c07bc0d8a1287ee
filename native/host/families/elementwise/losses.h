// The gradient of the loss of each element, from the gradient of the loss, or of the sum or the mean of all, the input
// and the target, and weights. The factor is one over the number of losses that a mean is of.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include "families/elementwise/maths.h"

namespace acl_host {
namespace {

struct MseLossGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x, FloatLanes target) const {
    return (2.0F * factor) * (x - target) * grad;
  }

  float factor;
};

// At the kink it is 0, and for NaN, as that of PyTorch.
struct L1LossGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x, FloatLanes target) const {
    const FloatLanes sign = x > target ? Filled(1.0F) : FloatLanes{};
    return (x < target ? Filled(-1.0F) : sign) * (factor * grad);
  }

  float factor;
};

struct SmoothL1LossGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x, FloatLanes target) const {
    const FloatLanes distance = x - target;
    const FloatLanes change = factor * grad;
    const FloatLanes above = distance >= beta ? change : distance / beta * change;
    return distance <= -beta ? -change : above;
  }

  float factor;
  float beta;
};

// Of probabilities: next to 0 and 1 the divisor is bounded.
struct BinaryCrossEntropyGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x, FloatLanes target, FloatLanes weight) const {
    const FloatLanes divisor = AtLeast((1.0F - x) * x, 1e-12F);
    return factor * weight * grad * (x - target) / divisor;
  }

  float factor;
};

// Of logits, without cancellation for targets of 0 and 1.
template <typename T>
struct BinaryCrossEntropyWithLogitsGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x, FloatLanes target) const {
    const Sigmoid<T, true> sigmoid(x);
    return ((1.0F - target) * sigmoid.value - target * sigmoid.complement) * (factor * grad);
  }

  float factor;
};

// The same with weights, of all and of positive targets.
template <typename T>
struct WeightedBinaryCrossEntropyWithLogitsGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x, FloatLanes target, FloatLanes weight,
                        FloatLanes positive_weight) const {
    const Sigmoid<T, true> sigmoid(x);
    const FloatLanes change = (1.0F - target) * sigmoid.value - positive_weight * target * sigmoid.complement;
    return change * (factor * grad) * weight;
  }

  float factor;
};

// Of the logarithms of probabilities; it does not depend on these.
struct KlDivGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes, FloatLanes target) const { return -target * (factor * grad); }

  float factor;
};

template <typename T>
struct KlDivOfLogTargetGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes, FloatLanes target) const {
    return -ExpOf<T>(target) * (factor * grad);
  }

  float factor;
};

}  // namespace
}  // namespace acl_host
