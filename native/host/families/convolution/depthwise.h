// Convolutions whose groups have one channel of the big tensor, and few of the small one.
//
// A plane of a channel is cut into boxes. For a box, the source is packed as float32 with its zeros around, one row
// after the other, so that a tap reads it at one distance from each result: results are made as one long row, some
// vectors at a time, and what lies between the rows is left out. Steps of more than one are turned into distances of
// one:
//
//   the source of sums of small, of which each stride-th position is read, is packed by residues
//   sums of big are made by phases: results that are a stride apart have the same taps
//
// Rows of small planes would fill few lanes, so there a vector has an element of each of several channels.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "families/convolution/computation.h"

namespace acl_host {

// Result t of a phase is at first + t * step, and reads the source from t * source_step + source_first on.
struct DepthwiseAxis {
  int64_t results;
  int64_t step;
  int64_t source;
  int64_t source_step;
  int64_t source_first;
  std::vector<int64_t> residues;  // that are read, modulo source_step
  int64_t more;                   // positions that are packed of a residue, beside one for each result
  int64_t box;                    // results of a phase
  int64_t boxes;

  [[nodiscard]] int64_t packed() const { return box + more; }
};

struct DepthwiseTap {
  int64_t weight;  // the offset of its weight from the first one of the channel
  int64_t offset;  // from a result's place to what the tap reads, in what is packed
};

// Results with the same taps. There is one for each remainder along each axis; those along the last axis come first.
struct DepthwisePhase {
  std::array<int64_t, kConvolvedAxes> first;
  std::vector<DepthwiseTap> taps;
};

struct Depthwise {
  std::array<DepthwiseAxis, kConvolvedAxes> axes;
  std::vector<DepthwisePhase> phases;
  int64_t sources;       // planes that are packed
  int64_t plane_floats;  // of what is packed: positions along the last two axes
  int64_t residue_floats;
  int64_t source_floats;
  // Planes are small, and those of so many channels are packed side by side, each number a vector of them.
  bool is_side_by_side;
  // Of each slot of scratch: what is packed, results, weights or sums of them, and a row.
  int64_t packed_floats;
  int64_t result_floats;
  int64_t number_floats;
  int64_t more_floats;
  int64_t slots;
  // The sums of the weight are made of so many parts, which are added in order.
  int64_t parts;
  int64_t taps;

  [[nodiscard]] int64_t row_floats() const { return axes[2].packed(); }
  [[nodiscard]] int64_t boxes() const { return axes[0].boxes * axes[1].boxes * axes[2].boxes; }
  [[nodiscard]] int64_t results() const { return axes[0].results * axes[1].results * axes[2].results; }
  [[nodiscard]] int64_t slot_floats() const { return packed_floats + result_floats + number_floats + more_floats; }
  // The sums of parts come first.
  [[nodiscard]] uint64_t scratch_bytes(int64_t channels) const;
};

inline constexpr int64_t kDepthwiseAlignment = 64;
// The most lanes of a vector, of every level.
inline constexpr int64_t kMostLanes = 16;

// Nothing for convolutions that are not made in this way.
[[nodiscard]] std::optional<Depthwise> DepthwiseOfBig(const Convolution& convolution, int64_t threads);
[[nodiscard]] std::optional<Depthwise> DepthwiseOfSmall(const Convolution& convolution, int64_t threads);
[[nodiscard]] std::optional<Depthwise> DepthwiseOfWeight(const Convolution& convolution, int64_t threads);

template <VectorLevel>
struct DepthwiseSumsOfBig {
  static void Run(const Convolution& convolution, const Depthwise& depthwise, const KernelArguments& arguments);
};
template <VectorLevel>
struct DepthwiseSumsOfSmall {
  static void Run(const Convolution& convolution, const Depthwise& depthwise, const KernelArguments& arguments);
};
template <VectorLevel>
struct DepthwiseSumsOfWeight {
  static void Run(const Convolution& convolution, const Depthwise& depthwise, const KernelArguments& arguments);
};

}  // namespace acl_host
