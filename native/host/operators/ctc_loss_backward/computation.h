// The gradient of connectionist temporal classification.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

struct Ctc {
  int64_t steps;
  int64_t samples;
  int64_t classes;
  int64_t places;  // of a step in logAlpha
  std::vector<int64_t> input_lengths;
  std::vector<int64_t> target_lengths;
  std::vector<int64_t> first_labels;  // of each sample
  int64_t blank;
  bool zero_infinity;
  aclDataType type;
  aclDataType target_type;
  int64_t slots;      // samples that are computed at a time
  size_t slot_bytes;  // of the scratch for each

  // Otherwise no path has all labels, and their places have no share of the gradient.
  [[nodiscard]] bool has_paths(size_t sample) const {
    return input_lengths[sample] > 0 && input_lengths[sample] >= target_lengths[sample];
  }
};

// The scratch of a sample is for each of its labels, and one more: 11 numbers of 8 bytes, see PathSums.
inline constexpr size_t kCtcLabelBytes = 88;

// gradOut, logProbs, targets, negLogLikelihood and logAlpha -> the gradient of logProbs.
template <VectorLevel>
struct CtcGradient {
  static void Run(const Ctc& ctc, const KernelArguments& arguments);
};

}  // namespace acl_host
