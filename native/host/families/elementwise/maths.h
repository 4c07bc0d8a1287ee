// Functions of float32, with the same bits at every vector level. Their relative errors are a few units in the last
// place.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include "tensors/exp.h"
#include "tensors/lanes.h"

namespace acl_host {
namespace {

// x within the bounds; NaN remains.
inline FloatLanes Bounded(FloatLanes x, float bound) { return AtMost(AtLeast(x, -bound), bound); }

// (1 - Phi(x)) / exp(-x^2 / 2) for x from 0 to 20, where Phi is the distribution function of normal numbers.
inline FloatLanes MillsRatio(FloatLanes x) {
  constexpr float kCentre = 3.0F;
  const FloatLanes scale = 1.0F / (x + kCentre);
  const FloatLanes t = (x - kCentre) * scale;
  // A least squares fit of (x + 3) times the ratio for x up to 14. The exponential is 0 from 14.5 on.
  FloatLanes fit = -0.000284571841F * t - 0.000923850865F;
  fit = fit * t + 0.00108944974F;
  fit = fit * t + 0.00694084913F;
  fit = fit * t - 0.0104834381F;
  fit = fit * t - 0.0472601168F;
  fit = fit * t + 0.230019748F;
  fit = fit * t - 0.509332061F;
  fit = fit * t + 0.729083657F;
  return fit * scale;
}

// 1 / (1 + exp(-x)), and one minus that, without cancellation.
struct Sigmoid {
  explicit Sigmoid(FloatLanes x) {
    const FloatLanes tail = Exp(-Size(x));
    const FloatLanes larger = 1.0F / (1.0F + tail);
    const FloatLanes smaller = tail * larger;
    value = x < 0.0F ? smaller : larger;
    complement = x < 0.0F ? larger : smaller;
  }

  FloatLanes value;
  FloatLanes complement;
};

}  // namespace
}  // namespace acl_host
