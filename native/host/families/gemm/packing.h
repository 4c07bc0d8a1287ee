// Panels: the elements of some lines as float32, in the order in which the innermost loop reads them. Lines are the
// rows of the left matrix, or the columns of the right one.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "tensors/elements.h"
#include "tensors/lanes.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// Lines of a matrix of any strides. Other operators have lines of their own, with the same member.
template <typename T>
class MatrixLines {
 public:
  // Strides are in elements: from one line to the next, and along a line.
  MatrixLines(const std::byte* first, int64_t line_stride, int64_t depth_stride)
      : first_(first), line_stride_(line_stride), depth_stride_(depth_stride) {}

  // Writes the elements [begin, end) of some lines, and zeros for those that the panel lacks.
  void Pack(int64_t line, int64_t lines, int64_t begin, int64_t end, int64_t panel_lines, float* to) const {
    PackLines(line, lines, begin, end, panel_lines, to);
    if (lines == panel_lines) return;
    for (int64_t k = 0; k < end - begin; ++k) std::fill_n(to + k * panel_lines + lines, panel_lines - lines, 0.0F);
  }

  // The same, and leaves those that the panel lacks.
  void PackLines(int64_t line, int64_t lines, int64_t begin, int64_t end, int64_t panel_lines, float* to) const {
    const std::byte* const from = first_ + (line * line_stride_ + begin * depth_stride_) * kBytes;
    if (line_stride_ == 1) {
      PackSideBySide(from, lines, end - begin, panel_lines, to);
    } else if (depth_stride_ == 1) {
      PackTransposed(from, lines, end - begin, panel_lines, to);
    } else if (line_stride_ == 2) {
      PackEverySecond(from, lines, end - begin, panel_lines, to);
    } else {
      for (int64_t k = 0; k < end - begin; ++k) {
        for (int64_t i = 0; i < lines; ++i) {
          to[k * panel_lines + i] = WidenElement<T>(from, i * line_stride_ + k * depth_stride_);
        }
      }
    }
  }

 private:
  static constexpr int64_t kBytes = sizeof(T);

  void PackSideBySide(const std::byte* from, int64_t lines, int64_t depth, int64_t panel_lines, float* to) const {
    const int64_t bytes = depth_stride_ * kBytes;
    auto* const floats = reinterpret_cast<std::byte*>(to);
    const auto copy = [&](int64_t k, int64_t i, auto lanes) {
      StoreLanes<float>(LoadLanes<T>(from + k * bytes, i, lanes), floats + k * panel_lines * int64_t{sizeof(float)}, i,
                        lanes);
    };
    if (lines == 2 * kFloatLanes) {
      for (int64_t k = 0; k < depth; ++k) {
        copy(k, 0, AllLanes{});
        copy(k, kFloatLanes, AllLanes{});
      }
    } else if (lines < 2 * kFloatLanes) {
      // The number of lanes is one for the whole loop.
      ForLanes(lines, [&](int64_t i, auto lanes) {
        for (int64_t k = 0; k < depth; ++k) copy(k, i, lanes);
      });
    } else {
      for (int64_t k = 0; k < depth; ++k) ForLanes(lines, [&](int64_t i, auto lanes) { copy(k, i, lanes); });
    }
  }

  void PackEverySecond(const std::byte* from, int64_t lines, int64_t depth, int64_t panel_lines, float* to) const {
    ForLanes(lines, [&](int64_t i, auto lanes) {
      for (int64_t k = 0; k < depth; ++k) {
        StoreLanes<float>(LoadEverySecond(from + (k * depth_stride_ + 2 * i) * kBytes, lanes),
                          reinterpret_cast<std::byte*>(to + k * panel_lines), i, lanes);
      }
    });
  }

  // Reads nothing behind the last of them.
  template <typename Count>
  static FloatLanes LoadEverySecond(const std::byte* from, Count lanes) {
    const int64_t last = 2 * int64_t{lanes} - 1;
    if (last <= kFloatLanes) return EverySecond(LoadLanes<T>(from, 0, last), FloatLanes{}, kEveryLaneIndex);
    return EverySecond(LoadLanes<T>(from, 0, AllLanes{}), LoadLanes<T>(from, kFloatLanes, last - kFloatLanes),
                       kEveryLaneIndex);
  }

  template <int... kLane>
  static FloatLanes EverySecond(FloatLanes low, FloatLanes high, std::integer_sequence<int, kLane...> /*lanes*/) {
    return __builtin_shufflevector(low, high, 2 * kLane...);
  }

  static constexpr std::make_integer_sequence<int, static_cast<int>(kFloatLanes)> kEveryLaneIndex{};

  // Four lines at a time, of each four elements.
  void PackTransposed(const std::byte* from, int64_t lines, int64_t depth, int64_t panel_lines, float* to) const {
    constexpr int64_t kStretch = 64;
    std::array<std::array<float, kStretch>, 4> widened;
    int64_t line = 0;
    for (; line + 4 <= lines; line += 4) {
      for (int64_t begin = 0; begin < depth; begin += kStretch) {
        const int64_t count = std::min(kStretch, depth - begin);
        std::array<const std::byte*, 4> rows;
        for (size_t i = 0; i < 4; ++i) {
          rows[i] = from + ((line + static_cast<int64_t>(i)) * line_stride_ + begin) * kBytes;
          if constexpr (!std::is_same_v<T, float>) {
            WidenRow<T>(rows[i], widened[i].data(), count);
            rows[i] = reinterpret_cast<const std::byte*>(widened[i].data());
          }
        }
        Transpose(rows, count, panel_lines, to + begin * panel_lines + line);
      }
    }
    for (; line < lines; ++line) {
      for (int64_t k = 0; k < depth; ++k) to[k * panel_lines + line] = WidenElement<T>(from, line * line_stride_ + k);
    }
  }

  typedef float Four __attribute__((vector_size(16)));

  static void Transpose(const std::array<const std::byte*, 4>& rows, int64_t count, int64_t panel_lines, float* to) {
    int64_t k = 0;
    for (; k + 4 <= count; k += 4) {
      const auto a = LoadElement<Four>(rows[0] + k * 4, 0), b = LoadElement<Four>(rows[1] + k * 4, 0);
      const auto c = LoadElement<Four>(rows[2] + k * 4, 0), d = LoadElement<Four>(rows[3] + k * 4, 0);
      const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5),
                 ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5),
                 cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      const auto store = [&](int64_t at, Four four) { std::memcpy(to + (k + at) * panel_lines, &four, sizeof(four)); };
      store(0, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
      store(1, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
      store(2, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
      store(3, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
    }
    for (; k < count; ++k) {
      for (size_t i = 0; i < 4; ++i) to[k * panel_lines + static_cast<int64_t>(i)] = LoadElement<float>(rows[i], k);
    }
  }

  const std::byte* const first_;
  const int64_t line_stride_;
  const int64_t depth_stride_;
};

}  // namespace
}  // namespace acl_host
