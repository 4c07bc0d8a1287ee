// The sums over all paths from the places of a sample to its end.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "computation.h"

namespace acl_host {
namespace {

// mantissa * 2^exponent: a probability that may be far below the least double. A sum of them needs no logarithm.
struct Probability {
  double mantissa;
  int64_t exponent;
};

constexpr int64_t kExponentOfZero = -(int64_t{1} << 40);
constexpr Probability kImpossible = {0, kExponentOfZero};

// 2^exponent of an exponent up to 0; 0 below the normal numbers.
[[nodiscard]] inline double PowerOfTwo(int64_t exponent) {
  const uint64_t bits = exponent < -1022 ? 0 : static_cast<uint64_t>(exponent + 1023) << 52U;
  double power;
  std::memcpy(&power, &bits, sizeof(power));
  return power;
}

// The same number with a mantissa from 1 to 2.
[[nodiscard]] inline Probability Normal(Probability number) {
  if (number.mantissa == 0) return kImpossible;
  uint64_t bits;
  std::memcpy(&bits, &number.mantissa, sizeof(bits));
  const auto biased = static_cast<int64_t>(bits >> 52U);
  if (biased == 0 || biased >= 2047) return number;
  bits += static_cast<uint64_t>(1023 - biased) << 52U;
  std::memcpy(&number.mantissa, &bits, sizeof(bits));
  return {number.mantissa, number.exponent + biased - 1023};
}

[[nodiscard]] inline Probability operator+(Probability one, Probability other) {
  const int64_t exponent = std::max(one.exponent, other.exponent);
  return {one.mantissa * PowerOfTwo(one.exponent - exponent) + other.mantissa * PowerOfTwo(other.exponent - exponent),
          exponent};
}

[[nodiscard]] inline Probability operator*(Probability one, Probability other) {
  return Normal({one.mantissa * other.mantissa, one.exponent + other.exponent});
}

constexpr double kLn2 = 0.693147180559945309;

[[nodiscard]] inline Probability FromLogarithm(double logarithm) {
  constexpr double kMost = 1 << 30;
  if (logarithm < -kMost) return kImpossible;
  if (!(logarithm < kMost)) return {logarithm, 0};
  const double exponent = std::nearbyint(logarithm / kLn2);
  // ln(2) in two parts, of which the first times the exponent is exact.
  constexpr double kLn2High = 0.693147180369123816490;
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  return {std::exp((logarithm - exponent * kLn2High) - exponent * kLn2Low), static_cast<int64_t>(exponent)};
}

// Probability times the exponential of a logarithm; without the time for an exponential if that is 0.
[[nodiscard]] inline double TimesExponential(Probability number, double logarithm) {
  if (number.mantissa == 0) return 0;
  const double all = logarithm + static_cast<double>(number.exponent) * kLn2;
  return all < -746 ? 0 : number.mantissa * std::exp(all);
}

// A class of the sample, at one step.
struct LabelClass {
  int64_t number;
  Probability probability;
  double share;  // of the paths
};

static_assert(2 * sizeof(Probability) + sizeof(LabelClass) + 2 * sizeof(int64_t) <= kCtcLabelBytes);

// The classes of one sample, and the places of its labels and of the blanks around them. The first class is the blank.
class PathSums {
 public:
  // Memory for so many labels.
  PathSums(std::byte* memory, int64_t labels)
      : of_labels_(reinterpret_cast<Probability*>(memory)),
        of_blanks_(of_labels_ + labels + 1),
        classes_(reinterpret_cast<LabelClass*>(of_blanks_ + labels + 1)),
        order_(reinterpret_cast<int64_t*>(classes_ + labels + 1)),
        class_of_(order_ + labels),
        labels_(labels) {}

  // Reads the labels by `label_at`, and begins behind the last step.
  template <typename LabelAt>
  void Begin(int64_t blank, const LabelAt& label_at) {
    for (int64_t i = 0; i < labels_; ++i) order_[i] = i;
    std::sort(order_, order_ + labels_, [&](int64_t one, int64_t other) { return label_at(one) < label_at(other); });
    classes_[0].number = blank;
    count_ = 1;
    for (int64_t i = 0; i < labels_; ++i) {
      const int64_t label = label_at(order_[i]);
      const bool is_new = label != blank && (count_ == 1 || classes_[count_ - 1].number != label);
      if (is_new) classes_[count_++].number = label;
      class_of_[order_[i]] = label == blank ? 0 : count_ - 1;
    }
    std::fill_n(of_labels_, labels_ + 1, kImpossible);
    std::fill_n(of_blanks_, labels_ + 1, kImpossible);
    step_ = 0;
  }

  // Makes the classes of the step before, given the logarithms of the probabilities of a class, and those of what leads
  // to a place: logarithm(class), before(place), both as double.
  template <typename Logarithm, typename Before>
  void Step(const Logarithm& logarithm, const Before& before) {
    for (LabelClass* each = classes_; each != classes_ + count_; ++each) {
      each->probability = FromLogarithm(logarithm(each->number));
      each->share = 0;
    }
    // The places before these cannot reach the end.
    for (int64_t i = std::max(labels_ - 1 - step_, int64_t{0}); i <= labels_; ++i) {
      Probability blank = of_blanks_[i] + of_labels_[i];
      if (i < labels_) {
        Probability label = of_labels_[i] + of_blanks_[i + 1];
        if (i + 1 < labels_ && class_of_[i] != class_of_[i + 1]) label = label + of_labels_[i + 1];
        if (step_ == 0) label = i == labels_ - 1 ? Probability{1, 0} : kImpossible;
        LabelClass& own = classes_[class_of_[i]];
        own.share += TimesExponential(label, before(2 * i + 1));
        of_labels_[i] = label * own.probability;
      }
      if (step_ == 0) blank = i == labels_ ? Probability{1, 0} : kImpossible;
      classes_[0].share += TimesExponential(blank, before(2 * i));
      of_blanks_[i] = blank * classes_[0].probability;
    }
    ++step_;
  }

  [[nodiscard]] const LabelClass* begin() const { return classes_; }
  [[nodiscard]] const LabelClass* end() const { return classes_ + count_; }

 private:
  // From each label's place on, and from the blank's before it, or behind the last one.
  Probability* const of_labels_;
  Probability* const of_blanks_;
  LabelClass* const classes_;
  int64_t* const order_;
  int64_t* const class_of_;
  const int64_t labels_;
  int64_t count_ = 1;
  int64_t step_ = 0;
};

}  // namespace
}  // namespace acl_host
