#include "operators/convolution_backward/gather.h"

#include <algorithm>
#include <numeric>

namespace acl_host {
namespace {

GatherStrides StridesFor(const ConvolvedStrides& strides, int64_t group_channels) {
  return {0, group_channels * strides.channel, strides.outer, strides.channel};
}

// Axes of one tap that read all positions in order, and are side by side in memory, are one.
void JoinAxes(Gather& gather) {
  // Results are side by side along a last axis of one position, from which there is no step.
  if (gather.axes[kConvolvedAxes - 1].positions == 1) gather.axes[kConvolvedAxes - 1].result_stride = 1;
  const auto is_whole = [](const GatherAxis& axis) {
    return axis.taps == 1 && axis.step == 1 && axis.first == 0 && axis.positions == axis.source;
  };
  for (size_t i = kConvolvedAxes - 1; i > 0; --i) {
    GatherAxis& axis = gather.axes[i - 1];
    GatherAxis& last = gather.axes[kConvolvedAxes - 1];
    if (!is_whole(axis) || !is_whole(last)) return;
    const bool follows = axis.positions == 1 || (axis.source_stride == last.source_stride * last.positions &&
                                                 axis.result_stride == last.result_stride * last.positions);
    if (!follows) return;
    last.positions *= axis.positions;
    last.source = last.positions;
    axis.positions = 1;
    axis.source = 1;
    axis.result_stride = last.result_stride * last.positions;
  }
}

// Taps that follow one another in a phase of the big tensor, and phases with taps.
int64_t TapStep(const ConvolvedAxis& axis) { return axis.stride / std::gcd(axis.stride, axis.dilation); }
int64_t PhasesWithTaps(const ConvolvedAxis& axis) { return std::min(TapStep(axis), axis.kernel); }

}  // namespace

Gather GatherOfSmall(const Convolution& convolution) {
  Gather gather{
      convolution.type,
      convolution.images,
      convolution.groups,
      convolution.big_channels,
      convolution.small_channels,
      {},
      StridesFor(convolution.big, convolution.big_channels),
      {0, convolution.small_channels * convolution.weight.outer, convolution.weight.outer, convolution.weight.channel},
      StridesFor(convolution.small, convolution.small_channels)};
  for (size_t i = 0; i < kConvolvedAxes; ++i) {
    const ConvolvedAxis& axis = convolution.axes[i];
    gather.axes[i] = {axis.small,
                      axis.big,
                      axis.stride,
                      -axis.padding,
                      axis.dilation,
                      axis.kernel,
                      convolution.big.axes[i],
                      convolution.weight.axes[i],
                      convolution.small.axes[i]};
  }
  JoinAxes(gather);
  return gather;
}

PhasesOfBig::PhasesOfBig(const Convolution& convolution) : convolution_(convolution) {
  for (size_t i = 0; i < kConvolvedAxes; ++i) {
    counts_[i] = PhasesWithTaps(convolution.axes[i]);
    if (counts_[i] < convolution.axes[i].stride) are_all_ = false;
  }
}

Gather PhasesOfBig::At(int64_t index) const {
  Gather gather = WithAllAxes(index);
  JoinAxes(gather);
  return gather;
}

Gather PhasesOfBig::Largest() const {
  Gather gather = WithAllAxes(0);
  for (size_t i = 0; i < kConvolvedAxes; ++i) {
    gather.axes[i].positions = (convolution_.axes[i].big - 1) / convolution_.axes[i].stride + 1;
  }
  return gather;
}

Gather PhasesOfBig::WithAllAxes(int64_t index) const {
  Gather gather{convolution_.type,
                convolution_.images,
                convolution_.groups,
                convolution_.small_channels,
                convolution_.big_channels,
                {},
                StridesFor(convolution_.small, convolution_.small_channels),
                {0, convolution_.small_channels * convolution_.weight.outer, convolution_.weight.channel,
                 convolution_.weight.outer},
                StridesFor(convolution_.big, convolution_.big_channels)};
  for (size_t i = kConvolvedAxes; i-- > 0;) {
    const ConvolvedAxis& axis = convolution_.axes[i];
    const int64_t tap = index % counts_[i];
    index /= counts_[i];
    // The last tap of the phase reads first, in order of position.
    const int64_t tap_step = TapStep(axis);
    const int64_t phase = ((tap * axis.dilation - axis.padding) % axis.stride + axis.stride) % axis.stride;
    gather.axes[i] = {phase < axis.big ? (axis.big - 1 - phase) / axis.stride + 1 : 0,
                      axis.small,
                      1,
                      (phase + axis.padding - tap * axis.dilation) / axis.stride,
                      -(tap_step * axis.dilation / axis.stride),
                      (axis.kernel - 1 - tap) / tap_step + 1,
                      convolution_.small.axes[i],
                      convolution_.weight.axes[i] * tap_step,
                      convolution_.big.axes[i] * axis.stride};
    gather.weight.first += tap * convolution_.weight.axes[i];
    gather.result.first += phase * convolution_.big.axes[i];
  }
  return gather;
}

}  // namespace acl_host
