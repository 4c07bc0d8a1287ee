// The gradients of PReLU.
#pragma once

#include <algorithm>
#include <cstdint>

#include "acl/acl_base.h"
#include "families/rows/floats.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

// The elements of each channel of a sample lie together. With one weight for all, there is one sample of one channel.
struct Prelu {
  int64_t samples;
  int64_t channels;
  int64_t cells;  // of a channel
  aclDataType type;

  // Long runs of a channel are added up along themselves, in parts.
  static constexpr int64_t kLeastRun = 64;
  [[nodiscard]] bool has_runs() const { return cells >= kLeastRun; }
  [[nodiscard]] int64_t run_parts() const { return (cells - 1) / kRowPart + 1; }

  // Short runs are added up beside each other: rows have the channels of some samples, and are divided into blocks of
  // whole channels. Bands of rows have sums of their own, unless there are many columns.
  static constexpr int64_t kLeastColumns = 512;
  static constexpr int64_t kMostColumns = 4096;
  static constexpr int64_t kLeastBandRows = 256;
  static constexpr int64_t kMostSums = 1 << 16;
  [[nodiscard]] int64_t elements() const { return samples * channels * cells; }
  [[nodiscard]] int64_t samples_of_row() const {
    return std::min(samples, (kLeastColumns - 1) / (channels * cells) + 1);
  }
  [[nodiscard]] int64_t columns() const { return samples_of_row() * channels * cells; }
  [[nodiscard]] int64_t block() const { return std::min(columns(), kMostColumns / cells * cells); }
  [[nodiscard]] int64_t blocks() const { return (columns() - 1) / block() + 1; }
  [[nodiscard]] int64_t rows() const { return (elements() - 1) / columns() + 1; }
  [[nodiscard]] int64_t bands() const {
    return std::clamp<int64_t>(kMostSums / columns(), 1, (rows() - 1) / kLeastBandRows + 1);
  }
  [[nodiscard]] int64_t rows_of_band() const { return (rows() - 1) / bands() + 1; }
  // Whether the sum of a column is that of a channel's cell.
  [[nodiscard]] bool has_whole_sums() const { return samples_of_row() * bands() == 1; }

  // Of the sums that are added up at the end.
  [[nodiscard]] uint64_t sum_bytes() const {
    if (has_runs()) return static_cast<uint64_t>(samples * channels * run_parts()) * sizeof(float);
    return has_whole_sums() ? 0 : static_cast<uint64_t>(bands() * columns()) * sizeof(double);
  }
};

// gradOutput, self and weight -> the gradients of self and weight.
template <VectorLevel>
struct PreluGradient {
  static void Run(const Prelu& prelu, const KernelArguments& arguments);
};

}  // namespace acl_host
