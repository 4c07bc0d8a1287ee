// The mean and the variance of elements, and the normalised elements. In an unnamed namespace, because each vector
// level has its own.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "families/normalisation/runs.h"

namespace acl_host {
namespace {

// Of some elements: their mean, and the sum of the squares of their distances from it.
struct Moments {
  double mean;
  double squares;
};

// Of several runs of one length, of up to kRowPart elements in all: run(i) is the i-th one. The distances from a
// rounded mean are added up, too, so that its error does not count. Those that are not centred have the mean 0.
template <typename T, typename RunOf>
[[nodiscard]] Moments MomentsOf(const RunOf& run, int64_t runs, int64_t length, bool is_centred) {
  const double count = static_cast<double>(runs * length);
  float mean = 0;
  if (is_centred) {
    SumsOfRuns<1> sums;
    for (int64_t i = 0; i < runs; ++i) {
      sums.Add(length,
               [from = run(i)](int64_t cell, auto lanes) { return std::array{LoadLanes<T>(from, cell, lanes)}; });
    }
    mean = static_cast<float>(double{sums.Total()[0]} / count);
  }
  SumsOfRuns<2> sums;
  for (int64_t i = 0; i < runs; ++i) {
    sums.Add(length, [from = run(i), mean](int64_t cell, auto lanes) {
      const FloatLanes distance = LoadLanes<T>(from, cell, lanes) - mean;
      return std::array{distance, FloatLanes{distance * distance}};
    });
  }
  const auto [distances, squares] = sums.Total();
  if (!is_centred) return {0, double{squares}};
  const double rest = double{distances} / count;
  // Distances from an infinite mean are not numbers.
  return {std::isnan(rest) ? double{mean} : double{mean} + rest, double{squares} - rest * double{distances}};
}

// Adds up the moments of parts: each part is added twice, in the same order, because the distances of the means are
// those from the mean of all.
class MomentsOfParts {
 public:
  void AddMean(const Moments& part, double count) {
    sum_ += part.mean * count;
    count_ += count;
  }
  void AddSquares(const Moments& part, double count) {
    const double distance = part.mean - mean();
    squares_ += part.squares + distance * distance * count;
  }

  [[nodiscard]] double count() const { return count_; }
  [[nodiscard]] double mean() const { return sum_ / count_; }
  [[nodiscard]] double variance() const { return squares_ / count_; }

 private:
  double sum_ = 0;
  double squares_ = 0;
  double count_ = 0;
};

[[nodiscard]] inline double ReciprocalDeviation(double variance, float eps) {
  return 1 / std::sqrt(variance + double{eps});
}

// Writes a number of a group or a channel, if it is wanted.
inline void WriteValue(const KernelArguments& arguments, const std::optional<FloatOperand>& operand, int64_t index,
                       double value) {
  if (!operand) return;
  const auto rounded = static_cast<float>(value);
  VisitFloatType(operand->type, [&](auto tag) {
    RoundElement<typename decltype(tag)::Type>(arguments.outputs[operand->index], index, rounded);
  });
}

// Writes (element - mean) * scale + shift of a run that follows one another.
template <typename T, typename To, typename Mean, typename Scale, typename Shift>
void NormaliseRun(const std::byte* __restrict from, int64_t count, Mean mean, Scale scale, Shift shift,
                  std::byte* __restrict to) {
  const auto make = [&](int64_t i, auto lanes) {
    const FloatLanes centred = LoadLanes<T>(from, i, lanes) - NumberAt(mean, i, lanes);
    StoreLanes<To>(centred * NumberAt(scale, i, lanes) + NumberAt(shift, i, lanes), to, i, lanes);
  };
  if constexpr (std::is_same_v<Shift, FloatLanes>)
    make(0, count);
  else
    ForLanes(count, make);
}

}  // namespace
}  // namespace acl_host
