// Sums up the gradient of a plane, and rounds and stores it.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "families/max_pool/windows.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// The sums of the rows from base on, for one plane after the other. Sums start at 0.
template <typename T>
class Band {
 public:
  Band(const MaxPool& pool, std::byte* memory, std::byte* out)
      : width_(pool.input.width), rows_(BandRows(pool)), sums_(reinterpret_cast<float*>(memory)), out_(out) {
    std::memset(memory, 0, BandBytes(pool));
  }

  [[nodiscard]] float* sums() { return sums_; }
  [[nodiscard]] int64_t base() const { return base_; }
  // The number of the sum that belongs to no cell.
  [[nodiscard]] int64_t none() const { return rows_ * width_; }
  [[nodiscard]] bool Holds(const WindowRow& windows) const { return windows.end <= base_ + rows_; }

  // Begins a plane; out_row counts rows through all planes.
  void Begin(int64_t out_row) {
    base_ = 0;
    out_row_ = out_row;
  }

  // Rounds and stores the rows before row.
  void AdvanceTo(int64_t row) {
    while (base_ < row) {
      const int64_t rows = std::min(row - base_, rows_);
      const int64_t cells = rows * width_;
      RoundRow<T>(sums_, out_ + static_cast<size_t>((out_row_ + base_) * width_) * sizeof(T), cells);
      std::copy(sums_ + cells, sums_ + none(), sums_);
      std::fill(sums_ + none() - cells, sums_ + none(), 0.0F);
      base_ += rows;
    }
  }

 private:
  const int64_t width_;
  const int64_t rows_;
  float* const sums_;
  std::byte* const out_;
  int64_t base_ = 0;
  int64_t out_row_ = 0;
};

// Planes of float32 need no rounding, so the sums are computed in the output. Only for the layout in which every added
// window has a cell.
class InPlace {
 public:
  InPlace(const MaxPool& pool, std::byte* out)
      : width_(pool.input.width), cells_(pool.input.height * pool.input.width), out_(reinterpret_cast<float*>(out)) {}

  // A larger plane would leave the cache between the filling with 0 and the additions.
  static bool Fits(const MaxPool& pool, const std::byte* out) {
    constexpr int64_t kMostCells = 65536;
    return pool.input.height <= kMostCells / pool.input.width && reinterpret_cast<uintptr_t>(out) % alignof(float) == 0;
  }

  [[nodiscard]] float* sums() { return sums_; }
  [[nodiscard]] static int64_t base() { return 0; }
  [[nodiscard]] static int64_t none() { return -1; }
  [[nodiscard]] static bool Holds(const WindowRow&) { return true; }

  void Begin(int64_t out_row) {
    sums_ = out_ + out_row * width_;
    std::fill_n(sums_, cells_, 0.0F);
  }
  static void AdvanceTo(int64_t) {}

 private:
  const int64_t width_;
  const int64_t cells_;
  float* const out_;
  float* sums_ = nullptr;
};

}  // namespace
}  // namespace acl_host
