// The loss of each element, from the input and the target, and weights.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include "tensors/exp.h"
#include "tensors/lanes.h"

namespace acl_host {
namespace {

// log(1 + x) for x from 0 to 1, by the series of the inverse hyperbolic tangent of x / (2 + x). The coefficients have
// the smallest relative errors, of a few units in the last place.
inline FloatLanes LogOfOnePlus(FloatLanes x) {
  const FloatLanes s = x / (2.0F + x);
  const FloatLanes square = s * s;
  const FloatLanes upper = (0.280244738F * square + 0.279991388F) * (square * square);
  return (upper + (0.400216997F * square + 0.666664124F)) * (s * square) + 2.0F * s;
}

struct MseLoss {
  FloatLanes operator()(FloatLanes x, FloatLanes target) const {
    const FloatLanes distance = x - target;
    return distance * distance;
  }
};

struct SmoothL1Loss {
  FloatLanes operator()(FloatLanes x, FloatLanes target) const {
    const FloatLanes distance = Size(x - target);
    return distance < beta ? 0.5F * distance * distance / beta : distance - 0.5F * beta;
  }

  float beta;
};

// -target log(sigmoid(x)) - (1 - target) log(sigmoid(-x)), without cancellation.
struct CrossEntropyOfLogits {
  FloatLanes operator()(FloatLanes x, FloatLanes target) const {
    const FloatLanes tail = LogOfOnePlus(ExpWithin(AtLeast(-Size(x), -104.0F)));
    return (1.0F - target) * AtLeast(x, 0) + target * AtLeast(-x, 0) + tail;
  }
};

// The same with weights, of all and of positive targets.
struct WeightedCrossEntropyOfLogits {
  FloatLanes operator()(FloatLanes x, FloatLanes target, FloatLanes weight, FloatLanes positive_weight) const {
    const FloatLanes positive = positive_weight * target;
    const FloatLanes negative = 1.0F - target;
    const FloatLanes tail = LogOfOnePlus(ExpWithin(AtLeast(-Size(x), -104.0F)));
    return weight * (negative * AtLeast(x, 0) + positive * AtLeast(-x, 0) + (negative + positive) * tail);
  }
};

}  // namespace
}  // namespace acl_host
