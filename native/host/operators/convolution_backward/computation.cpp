#include "operators/convolution_backward/computation.h"

#include "tensors/axes.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

using Place = std::array<int64_t, kConvolvedAxes>;

constexpr int64_t ConvolvedAxis::* kSmall = &ConvolvedAxis::small;
constexpr int64_t ConvolvedAxis::* kBig = &ConvolvedAxis::big;
constexpr int64_t ConvolvedAxis::* kKernel = &ConvolvedAxis::kernel;

int64_t PlacesOf(const Convolution& convolution, int64_t ConvolvedAxis::* size) {
  int64_t places = 1;
  for (const ConvolvedAxis& axis : convolution.axes) places *= axis.*size;
  return places;
}

Place PlaceAt(const Convolution& convolution, int64_t ConvolvedAxis::* size, int64_t index) {
  Place place{};
  for (size_t axis = kConvolvedAxes; axis-- > 0;) {
    place[axis] = index % (convolution.axes[axis].*size);
    index /= convolution.axes[axis].*size;
  }
  return place;
}

int64_t OffsetOf(const ConvolvedStrides& strides, int64_t outer, int64_t channel, const Place& place) {
  int64_t offset = outer * strides.outer + channel * strides.channel;
  for (size_t axis = 0; axis < kConvolvedAxes; ++axis) offset += place[axis] * strides.axes[axis];
  return offset;
}

// The position of the big tensor that a position of the small one touches with a tap, unless it is outside.
bool FindBig(const Convolution& convolution, const Place& small, const Place& tap, Place& big) {
  for (size_t i = 0; i < kConvolvedAxes; ++i) {
    const ConvolvedAxis& axis = convolution.axes[i];
    big[i] = small[i] * axis.stride - axis.padding + tap[i] * axis.dilation;
    if (big[i] < 0 || big[i] >= axis.big) return false;
  }
  return true;
}

// The position of the small tensor that touches a position of the big one with a tap, if there is any.
bool FindSmall(const Convolution& convolution, const Place& big, const Place& tap, Place& small) {
  for (size_t i = 0; i < kConvolvedAxes; ++i) {
    const ConvolvedAxis& axis = convolution.axes[i];
    const int64_t from_first = big[i] + axis.padding - tap[i] * axis.dilation;
    small[i] = from_first / axis.stride;
    if (from_first < 0 || from_first % axis.stride != 0 || small[i] >= axis.small) return false;
  }
  return true;
}

// Calls sum(outer, channel, place) for each element of a row-major output.
template <typename Sum>
void ForResults(const Convolution& convolution, const KernelArguments& arguments, int64_t outer, int64_t channels,
                int64_t ConvolvedAxis::* size, const Sum& sum) {
  const int64_t places = PlacesOf(convolution, size);
  VisitFloatType(convolution.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    arguments.pool.ParallelFor(outer * channels * places, 64, [&](int64_t begin, int64_t end) {
      for (int64_t index = begin; index < end; ++index) {
        const int64_t channel = index / places;
        const double result =
            sum(tag, channel / channels, channel % channels, PlaceAt(convolution, size, index % places));
        RoundElement<T>(arguments.outputs[0], index, static_cast<float>(result));
      }
    });
  });
}

template <typename T>
double Multiply(const std::byte* one, int64_t at, const std::byte* other, int64_t other_at) {
  return double{WidenElement<T>(one, at)} * double{WidenElement<T>(other, other_at)};
}

}  // namespace

template <>
void GradientOfBig<VECTOR_LEVEL>::Run(const Convolution& convolution, const KernelArguments& arguments) {
  const int64_t taps = PlacesOf(convolution, kKernel);
  const auto sum = [&](auto tag, int64_t image, int64_t channel, const Place& place) {
    const int64_t group = channel / convolution.big_channels;
    double total = 0;
    for (int64_t k = 0; k < taps; ++k) {
      const Place tap = PlaceAt(convolution, kKernel, k);
      Place small{};
      if (!FindSmall(convolution, place, tap, small)) continue;
      for (int64_t i = 0; i < convolution.small_channels; ++i) {
        const int64_t other = group * convolution.small_channels + i;
        total += Multiply<typename decltype(tag)::Type>(
            arguments.inputs[0], OffsetOf(convolution.small, image, other, small), arguments.inputs[1],
            OffsetOf(convolution.weight, other, channel % convolution.big_channels, tap));
      }
    }
    return total;
  };
  ForResults(convolution, arguments, convolution.images, convolution.groups * convolution.big_channels, kBig, sum);
}

template <>
void GradientOfSmall<VECTOR_LEVEL>::Run(const Convolution& convolution, const KernelArguments& arguments) {
  const int64_t taps = PlacesOf(convolution, kKernel);
  const auto sum = [&](auto tag, int64_t image, int64_t channel, const Place& place) {
    const int64_t group = channel / convolution.small_channels;
    double total = 0;
    for (int64_t k = 0; k < taps; ++k) {
      const Place tap = PlaceAt(convolution, kKernel, k);
      Place big{};
      if (!FindBig(convolution, place, tap, big)) continue;
      for (int64_t i = 0; i < convolution.big_channels; ++i) {
        const int64_t other = group * convolution.big_channels + i;
        total +=
            Multiply<typename decltype(tag)::Type>(arguments.inputs[0], OffsetOf(convolution.big, image, other, big),
                                                   arguments.inputs[1], OffsetOf(convolution.weight, channel, i, tap));
      }
    }
    return total;
  };
  ForResults(convolution, arguments, convolution.images, convolution.groups * convolution.small_channels, kSmall, sum);
}

template <>
void GradientOfWeight<VECTOR_LEVEL>::Run(const Convolution& convolution, const KernelArguments& arguments) {
  const int64_t places = PlacesOf(convolution, kSmall);
  const auto sum = [&](auto tag, int64_t channel, int64_t other, const Place& tap) {
    const int64_t group = channel / convolution.small_channels;
    double total = 0;
    for (int64_t q = 0; q < places; ++q) {
      const Place small = PlaceAt(convolution, kSmall, q);
      Place big{};
      if (!FindBig(convolution, small, tap, big)) continue;
      for (int64_t image = 0; image < convolution.images; ++image) {
        total += Multiply<typename decltype(tag)::Type>(
            arguments.inputs[0], OffsetOf(convolution.small, image, channel, small), arguments.inputs[1],
            OffsetOf(convolution.big, image, group * convolution.big_channels + other, big));
      }
    }
    return total;
  };
  ForResults(convolution, arguments, convolution.groups * convolution.small_channels, convolution.big_channels, kKernel,
             sum);
}

}  // namespace acl_host
