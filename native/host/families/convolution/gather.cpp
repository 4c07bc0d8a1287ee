#include "families/convolution/gather.h"

#include <algorithm>
#include <numeric>
#include <utility>

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

// The one position of an axis is read by each tap in another place, so each is a phase of its own: with a stride that
// is coprime to the dilation, and leads out of both tensors.
void SeparateTaps(ConvolvedAxis& axis) {
  if (axis.small > 1 || axis.kernel == 1) return;
  const int64_t way = axis.big + axis.padding + axis.dilation * (axis.kernel - 1);
  axis.stride = (way / axis.dilation + 1) * axis.dilation + 1;
}

int64_t FloorOf(int64_t count, int64_t of) { return count >= 0 ? count / of : -((-count - 1) / of + 1); }

// The taps that read the source for some positions, or the first one if none does.
Range TapsAlong(const GatherAxis& axis, Range positions) {
  const int64_t low = positions.begin * axis.step + axis.first;
  const int64_t high = (positions.end - 1) * axis.step + axis.first;
  const int64_t last = axis.source - 1;
  Range taps = axis.spacing > 0 ? Range{-FloorOf(high, axis.spacing), FloorOf(last - low, axis.spacing) + 1}
                                : Range{-FloorOf(last - low, -axis.spacing), FloorOf(high, -axis.spacing) + 1};
  taps = {std::max<int64_t>(taps.begin, 0), std::min(taps.end, axis.taps)};
  return taps.size() == 0 ? Range{0, 1} : taps;
}

// Taps that follow one another in a phase of the big tensor, and phases with taps.
int64_t TapStep(const ConvolvedAxis& axis) { return axis.stride / std::gcd(axis.stride, axis.dilation); }
int64_t PhasesWithTaps(const ConvolvedAxis& axis) { return std::min(TapStep(axis), axis.kernel); }

int64_t Modulo(int64_t value, int64_t of) { return (value % of + of) % of; }

// What times the value leaves 1, by Euclid's algorithm.
int64_t Inverse(int64_t value, int64_t of) {
  int64_t rest = of, next = Modulo(value, of), inverse = 0, next_inverse = 1;
  while (next != 0) {
    const int64_t times = rest / next;
    rest = std::exchange(next, rest - times * next);
    inverse = std::exchange(next_inverse, inverse - times * next_inverse);
  }
  return Modulo(inverse, of);
}

}  // namespace

std::array<Range, kConvolvedAxes> Gather::TapsOf(int64_t first_column, int64_t columns) const {
  std::array<Range, kConvolvedAxes> taps;
  // Along the axes before the first one of which there are several positions, there is one.
  int64_t rest = positions();
  bool is_one = first_column / rest == (first_column + columns - 1) / rest;
  for (size_t i = 0; i < kConvolvedAxes; ++i) {
    Range some{0, axes[i].positions};
    if (is_one) {
      const int64_t begin = first_column % rest;
      const int64_t end = (first_column + columns - 1) % rest;
      rest /= axes[i].positions;
      some = {begin / rest, end / rest + 1};
      is_one = some.size() == 1;
    }
    taps[i] = TapsAlong(axes[i], some);
  }
  return taps;
}

Gather Gather::WithTaps(const std::array<Range, kConvolvedAxes>& taps) const {
  Gather gather = *this;
  for (size_t i = 0; i < kConvolvedAxes; ++i) {
    GatherAxis& axis = gather.axes[i];
    axis.first += taps[i].begin * axis.spacing;
    axis.taps = taps[i].size();
    gather.weight.first += taps[i].begin * axis.weight_stride;
  }
  return gather;
}

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
    SeparateTaps(convolution_.axes[i]);
    const int64_t with_taps = PhasesWithTaps(convolution_.axes[i]);
    counts_[i] = std::min(with_taps, convolution_.axes[i].big);
    if (with_taps < convolution_.axes[i].stride) are_all_ = false;
  }
}

Gather PhasesOfBig::At(int64_t index) const {
  Taps first;
  for (size_t i = kConvolvedAxes; i-- > 0;) {
    first[i] = FirstTap(i, index % counts_[i]);
    index /= counts_[i];
  }
  Gather gather = WithFirstTaps(first);
  JoinAxes(gather);
  return gather;
}

Gather PhasesOfBig::Largest() const {
  Gather gather = WithFirstTaps({});
  for (size_t i = 0; i < kConvolvedAxes; ++i) {
    gather.axes[i].positions = (convolution_.axes[i].big - 1) / convolution_.axes[i].stride + 1;
  }
  return gather;
}

// The first tap of a phase, from the kernel's size on if it has none. Phases are counted by their first taps, or if
// there are fewer positions than that, by their first positions.
int64_t PhasesOfBig::FirstTap(size_t i, int64_t index) const {
  const ConvolvedAxis& axis = convolution_.axes[i];
  if (counts_[i] == PhasesWithTaps(axis)) return index;
  const int64_t place = index + axis.padding;
  if (axis.small == 1) return place % axis.dilation == 0 ? place / axis.dilation : axis.kernel;
  const int64_t common = std::gcd(axis.stride, axis.dilation);
  if (place % common != 0) return axis.kernel;
  // Factors below 2^31.
  const int64_t step = axis.stride / common;
  return place / common % step * Inverse(axis.dilation / common, step) % step;
}

Gather PhasesOfBig::WithFirstTaps(const Taps& first) const {
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
  for (size_t i = 0; i < kConvolvedAxes; ++i) {
    const ConvolvedAxis& axis = convolution_.axes[i];
    // The last tap of the phase reads first, in order of position.
    const int64_t tap_step = TapStep(axis);
    const int64_t phase = Modulo(first[i] * axis.dilation - axis.padding, axis.stride);
    const bool is_empty = phase >= axis.big || first[i] >= axis.kernel;
    gather.axes[i] = {is_empty ? 0 : (axis.big - 1 - phase) / axis.stride + 1,
                      axis.small,
                      1,
                      (phase + axis.padding - first[i] * axis.dilation) / axis.stride,
                      -(tap_step * axis.dilation / axis.stride),
                      (axis.kernel - 1 - first[i]) / tap_step + 1,
                      convolution_.small.axes[i],
                      convolution_.weight.axes[i] * tap_step,
                      convolution_.big.axes[i] * axis.stride};
    gather.weight.first += first[i] * convolution_.weight.axes[i];
    gather.result.first += phase * convolution_.big.axes[i];
  }
  return gather;
}

}  // namespace acl_host
