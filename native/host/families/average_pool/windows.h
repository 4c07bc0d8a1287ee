// The windows of an average pooling along one axis.
#pragma once

#include <cstdint>

#include "tensors/axes.h"

namespace acl_host {

// One axis before and after pooling; neither size is 0. Without a kernel, pooling is adaptive.
struct PooledAxis {
  int64_t size;
  int64_t pooled;
  int64_t kernel = 0;
  int64_t stride = 0;
  int64_t padding = 0;
  bool counts_padding = false;
};

// An axis that is not pooled.
inline constexpr PooledAxis kNotPooled{1, 1};

// Finds the windows that cover each of some cells. They are a range, because windows begin and end in order.
void FindWindowsOver(const PooledAxis& axis, int64_t first_cell, int64_t cells, Range* windows);

// Finds the cells of each of some windows that are on the input.
void FindCells(const PooledAxis& axis, int64_t first_window, int64_t windows, Range* cells);

// Counts the cells of some windows, which may include padding.
void CountCells(const PooledAxis& axis, int64_t first_window, int64_t windows, int64_t* counts);

// The largest number of windows that cover one cell, or a bit more; and of cells that one window has.
[[nodiscard]] int64_t MostWindowsOver(const PooledAxis& axis);
[[nodiscard]] int64_t MostCellsIn(const PooledAxis& axis);

}  // namespace acl_host
