// The maxima of rows of windows, one window in each lane. For that, rows of the input are packed as float32: cells that
// a stride apart from one another are read are side by side, and minus infinity is around them.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "families/max_pool/forward.h"
#include "families/rows/pairs.h"
#include "plan/scratch.h"
#include "tensors/axes.h"
#include "tensors/lanes.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// How a row of windows is packed: some windows, and some cells of each at a time.
class PackedWindows {
 public:
  explicit PackedWindows(const Maxima& maxima)
      : stride_(maxima.pool.stride.width),
        cells_(std::min(maxima.cells.width, (kFloats - 1) / maxima.dilation.width + 1)),
        windows_(std::min({maxima.pool.output.width, kMostWindows, kFloats / stride_ + 1})) {
    const int64_t dilation = maxima.dilation.width;
    length_ = (windows_ - 1) * stride_ + (cells_ - 1) * dilation + 1;
    pitch_ = windows_ + ((cells_ - 1) * dilation) / stride_ + 1;
    if (stride_ == 2) pitch_ = (pitch_ + kFloatLanes - 1) / kFloatLanes * kFloatLanes;
    const int64_t period = stride_ / std::gcd(stride_, dilation);
    for (int64_t cell = 0; cell < std::min(cells_, period); ++cell) residues_.push_back(cell * dilation % stride_);
    for (int64_t cell = 0; cell < cells_; ++cell) {
      offsets_.push_back(cell % period * pitch_ + cell * dilation / stride_);
    }
  }

  [[nodiscard]] int64_t windows() const { return windows_; }
  [[nodiscard]] int64_t cells() const { return cells_; }
  // Elements of the input, from the first one that is read.
  [[nodiscard]] int64_t length() const { return length_; }
  // Where a cell of the first window is; those of the other windows follow.
  [[nodiscard]] int64_t OffsetOf(int64_t cell) const { return offsets_[static_cast<size_t>(cell)]; }
  // With what whole vectors write and read behind.
  [[nodiscard]] int64_t floats() const {
    return std::max(static_cast<int64_t>(residues_.size()) * pitch_, length_) + 4 * kFloatLanes;
  }

  // Takes `whole` apart, of as many elements.
  void Pack(const float* whole, float* to) const {
    if (stride_ == 2 && residues_.size() == 2) return Split(whole, pitch_, to, to + pitch_);
    for (size_t i = 0; i < residues_.size(); ++i) {
      const float* const from = whole + residues_[i];
      float* const row = to + static_cast<int64_t>(i) * pitch_;
      const int64_t count = std::min(pitch_, (length_ - residues_[i] - 1) / stride_ + 1);
      for (int64_t j = 0; j < count; ++j) row[j] = from[j * stride_];
    }
  }

  // Whether an input's row is packed as it is.
  [[nodiscard]] bool is_plain() const { return stride_ == 1; }

 private:
  static constexpr int64_t kFloats = 2048;
  static constexpr int64_t kMostWindows = 512;

  const int64_t stride_;
  const int64_t cells_;
  const int64_t windows_;
  int64_t length_;
  int64_t pitch_;
  std::vector<int64_t> residues_;
  std::vector<int64_t> offsets_;
};

template <typename T>
class MaximaRows {
 public:
  MaximaRows(const Maxima& maxima, const std::byte* self)
      : maxima_(maxima),
        self_(self),
        slots_(SlotsOf(maxima, packing_)),
        whole_(packing_.floats()),
        packed_(slots_ * packing_.floats()),
        held_(static_cast<size_t>(slots_), -1),
        best_(kRowsAtATime * packing_.windows() + kFloatLanes),
        positions_(kRowsAtATime * packing_.windows() + kFloatLanes),
        firsts_(packing_.windows() + kFloatLanes) {}

  // Windows of a row at a time.
  [[nodiscard]] static int64_t Windows(const Maxima& maxima) { return PackedWindows(maxima).windows(); }
  [[nodiscard]] static int64_t ScratchBytes(const Maxima& maxima) {
    const PackedWindows packing(maxima);
    return ((SlotsOf(maxima, packing) + 1) * packing.floats() + (2 * kRowsAtATime + 1) * packing.windows()) *
           int64_t{sizeof(float)};
  }

  // Other planes have the same columns.
  void SetColumns(int64_t left, int64_t right) {
    if (left == column_) return;
    column_ = left;
    left_ = left * maxima_.pool.stride.width - maxima_.pool.padding.width;
    count_ = right - left;
    std::fill(held_.begin(), held_.end(), -1);
    // The cells that are on the input in some window.
    const int64_t last = left_ + (count_ - 1) * maxima_.pool.stride.width;
    const int64_t dilation = maxima_.dilation.width;
    const int64_t before = last < 0 ? (-last + dilation - 1) / dilation : 0;
    cells_ = {before, std::min(maxima_.cells.width, (maxima_.pool.input.width - 1 - left_) / dilation + 1)};
    // The first cell of each window that is on the input.
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t x = left_ + i * maxima_.pool.stride.width;
      firsts_.data()[i] = static_cast<uint32_t>(FirstOn(x, dilation, maxima_.pool.input.width));
    }
  }

  // Rows whose results are in memory at a time, one behind the other.
  static constexpr int64_t kRowsAtATime = 8;

  // Finds the maxima of some windows of a row, and their positions, for one of these places.
  void Make(int64_t plane, int64_t row, int64_t place) {
    at_ = place * count_;
    const MaxPool& pool = maxima_.pool;
    const int64_t dilation = maxima_.dilation.height;
    const int64_t top = row * pool.stride.height - pool.padding.height;
    const int64_t begin = FirstOn(top, dilation, pool.input.height);
    const int64_t bottom = std::min(top + pool.kernel.height, pool.input.height);
    const auto first = static_cast<uint32_t>(begin * pool.input.width);
    std::fill_n(best_.data() + at_, count_, -std::numeric_limits<float>::infinity());
    for (int64_t i = 0; i < count_; ++i) positions_.data()[at_ + i] = first + firsts_.data()[i];
    for (int64_t cell = cells_.begin; cell < cells_.end; cell += packing_.cells()) {
      const int64_t cells = std::min(packing_.cells(), cells_.end - cell);
      for (int64_t y = begin; y < bottom; y += slots_ * dilation) {
        const int64_t rows = std::min(slots_, (bottom - y - 1) / dilation + 1);
        for (int64_t i = 0; i < rows; ++i) Hold(plane, y + i * dilation, cell, SlotOf(y, i));
        Take(y, rows, cell, cells);
      }
    }
  }

  [[nodiscard]] int64_t count() const { return count_; }
  [[nodiscard]] const float* best() const { return best_.data(); }
  [[nodiscard]] const uint32_t* positions() const { return positions_.data(); }

 private:
  static constexpr int64_t kHeldFloats = 16384;

  // Rows that are packed at a time.
  [[nodiscard]] static int64_t SlotsOf(const Maxima& maxima, const PackedWindows& packing) {
    return std::clamp<int64_t>(kHeldFloats / packing.floats(), 1, maxima.cells.height);
  }

  // Of places a dilation apart the first one that is on an axis; the last one of the axis if none is.
  [[nodiscard]] static int64_t FirstOn(int64_t place, int64_t dilation, int64_t size) {
    return std::min(place < 0 ? place + (-place + dilation - 1) / dilation * dilation : place, size - 1);
  }

  // Rows that follow one another have slots of their own, which the next windows find again.
  [[nodiscard]] int64_t SlotOf(int64_t y, int64_t i) const {
    return maxima_.dilation.height == 1 ? (y + i) % slots_ : i;
  }

  void Hold(int64_t plane, int64_t y, int64_t cell, int64_t slot) {
    const MaxPool& pool = maxima_.pool;
    const int64_t row = plane * pool.input.height + y;
    int64_t& held = held_[static_cast<size_t>(slot)];
    if (held == row && cells_.size() <= packing_.cells()) return;
    held = row;
    float* const packed = packed_.data() + slot * packing_.floats();
    float* const whole = packing_.is_plain() ? packed : whole_.data();
    const int64_t first = left_ + cell * maxima_.dilation.width;
    const int64_t length = packing_.length();
    const int64_t begin = std::clamp<int64_t>(-first, 0, length);
    const int64_t end = std::clamp(pool.input.width - first, begin, length);
    constexpr float kNothing = -std::numeric_limits<float>::infinity();
    std::fill_n(whole, begin, kNothing);
    WidenRow<T>(self_ + (row * pool.input.width + first + begin) * int64_t{sizeof(T)}, whole + begin, end - begin);
    std::fill(whole + end, whole + length, kNothing);
    if (!packing_.is_plain()) packing_.Pack(whole, packed);
  }

  // Compares with some cells of some rows.
  void Take(int64_t y, int64_t rows, int64_t cell, int64_t cells) {
    const auto width = static_cast<uint32_t>(maxima_.pool.input.width);
    const auto dilation = static_cast<uint32_t>(maxima_.dilation.width);
    const auto stride = static_cast<uint32_t>(maxima_.pool.stride.width);
    const uint32_t row_step = static_cast<uint32_t>(maxima_.dilation.height) * width;
    uint32_t first =
        static_cast<uint32_t>(y) * width + static_cast<uint32_t>(left_) + static_cast<uint32_t>(cell) * dilation;
    for (int64_t i = 0; i < count_; i += kFloatLanes) {
      FloatLanes best = LoadFloats(best_.data() + at_ + i);
      WordLanes positions = LoadWords(positions_.data() + at_ + i);
      for (int64_t row = 0; row < rows; ++row) {
        const float* const packed = packed_.data() + SlotOf(y, row) * packing_.floats() + i;
        WordLanes at = Steps(stride) + (first + static_cast<uint32_t>(row) * row_step);
        for (int64_t j = 0; j < cells; ++j) {
          const FloatLanes value = LoadFloats(packed + packing_.OffsetOf(j));
          const auto is_better = (value > best) | (value != value);
          best = is_better ? value : best;
          positions = is_better ? at : positions;
          at += dilation;
        }
      }
      StoreFloats(best, best_.data() + at_ + i);
      StoreSome(positions, reinterpret_cast<std::byte*>(positions_.data() + at_ + i), AllLanes{});
      first += static_cast<uint32_t>(kFloatLanes) * stride;
    }
  }

  [[nodiscard]] static WordLanes LoadWords(const uint32_t* from) {
    return LoadSome<WordLanes>(reinterpret_cast<const std::byte*>(from), AllLanes{});
  }
  [[nodiscard]] static WordLanes Steps(uint32_t stride) {
    WordLanes steps;
    for (int64_t i = 0; i < kFloatLanes; ++i) steps[i] = static_cast<uint32_t>(i) * stride;
    return steps;
  }

  const Maxima& maxima_;
  const std::byte* const self_;
  const PackedWindows packing_{maxima_};
  const int64_t slots_;
  const Scratch<float> whole_;
  const Scratch<float> packed_;
  std::vector<int64_t> held_;
  const Scratch<float> best_;
  const Scratch<uint32_t> positions_;
  const Scratch<uint32_t> firsts_;
  int64_t column_ = -1;  // the first window's
  int64_t left_ = 0;
  int64_t count_ = 0;
  int64_t at_ = 0;
  Range cells_{0, 0};
};

}  // namespace
}  // namespace acl_host
