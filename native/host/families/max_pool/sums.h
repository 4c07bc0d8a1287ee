// The sums of a tile of the gradient, which are rounded and stored.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "families/max_pool/windows.h"
#include "plan/scratch_slots.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// Sums in memory that is leased.
template <typename T, typename AnySum>
class TileSums {
 public:
  using Sum = AnySum;

  TileSums(const MaxPool& pool, ScratchSlots& slots, std::byte* out)
      : pool_(pool), lease_(slots), sums_(reinterpret_cast<Sum*>(lease_.memory())), out_(out) {}

  // Returns the sums of these cells and one more, all 0.
  [[nodiscard]] Sum* Begin(int64_t, const Cells& cells) const {
    std::fill_n(sums_, cells.none() + 1, Sum{});
    return sums_;
  }

  void End(int64_t plane, const Cells& cells) const {
    const bool whole_rows = cells.width() == pool_.input.width;
    const int64_t rows = whole_rows ? 1 : cells.height();
    const int64_t count = whole_rows ? cells.none() : cells.width();
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t first = (plane * pool_.input.height + cells.top + row) * pool_.input.width + cells.left;
      RoundRow<T>(sums_ + row * count, out_ + static_cast<size_t>(first) * sizeof(T), count);
    }
  }

 private:
  const MaxPool& pool_;
  const ScratchSlots::Lease lease_;
  Sum* const sums_;
  std::byte* const out_;
};

// Planes of float32 need no rounding, so the sums are computed in the output. Only for whole planes, and the layout in
// which every added window has a cell.
class InPlace {
 public:
  using Sum = float;

  explicit InPlace(std::byte* out) : out_(reinterpret_cast<float*>(out)) {}

  // A larger plane would leave the cache between the filling with 0 and the additions.
  static bool Fits(const MaxPool& pool, const std::byte* out) {
    constexpr int64_t kMostCells = 65536;
    return pool.input.height <= kMostCells / pool.input.width && reinterpret_cast<uintptr_t>(out) % alignof(float) == 0;
  }

  [[nodiscard]] float* Begin(int64_t plane, const Cells& cells) const {
    float* const sums = out_ + plane * cells.none();
    std::fill_n(sums, cells.none(), 0.0F);
    return sums;
  }
  static void End(int64_t, const Cells&) {}

 private:
  float* const out_;
};

}  // namespace
}  // namespace acl_host
