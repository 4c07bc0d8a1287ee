#include "families/average_pool/windows.h"

#include <algorithm>

namespace acl_host {
namespace {

// Calls visit(number, {floor(i * size / count), ceil((i + 1) * size / count)}) for i from first on: the cells of the
// windows that divide size cells among count. With both exchanged, these are the windows that cover each cell.
template <typename Visit>
void Divide(int64_t size, int64_t count, int64_t first, int64_t number, const Visit& visit) {
  // 128 bits for the product; the remainders are carried on.
  const __int128 product = static_cast<__int128>(first) * size;
  const bool is_short = product <= INT64_MAX;
  int64_t begin = is_short ? static_cast<int64_t>(product) / count : static_cast<int64_t>(product / count);
  int64_t remainder = static_cast<int64_t>(product - static_cast<__int128>(begin) * count);
  const int64_t quotient = size / count;
  const int64_t rest = size % count;
  for (int64_t i = 0; i < number; ++i) {
    int64_t next = begin + quotient;
    remainder += rest;
    if (remainder >= count) {
      ++next;
      remainder -= count;
    }
    visit(i, Range{begin, next + (remainder > 0 ? 1 : 0)});
    begin = next;
  }
}

}  // namespace

void FindWindowsOver(const PooledAxis& axis, int64_t first_cell, int64_t cells, Range* windows) {
  if (axis.kernel == 0) {
    return Divide(axis.pooled, axis.size, first_cell, cells, [=](int64_t i, const Range& each) { windows[i] = each; });
  }
  for (int64_t i = 0; i < cells; ++i) {
    const int64_t cell = first_cell + i;
    windows[i] = WindowsOver({cell, cell + 1}, axis.kernel, axis.stride, axis.padding, axis.pooled);
  }
}

void FindCells(const PooledAxis& axis, int64_t first_window, int64_t windows, Range* cells) {
  if (axis.kernel == 0) {
    return Divide(axis.size, axis.pooled, first_window, windows,
                  [=](int64_t i, const Range& each) { cells[i] = each; });
  }
  for (int64_t i = 0; i < windows; ++i) {
    const int64_t begin = (first_window + i) * axis.stride - axis.padding;
    cells[i] = {std::max<int64_t>(begin, 0), std::min(begin + axis.kernel, axis.size)};
  }
}

void CountCells(const PooledAxis& axis, int64_t first_window, int64_t windows, int64_t* counts) {
  if (axis.kernel == 0) {
    return Divide(axis.size, axis.pooled, first_window, windows,
                  [=](int64_t i, const Range& each) { counts[i] = each.size(); });
  }
  for (int64_t i = 0; i < windows; ++i) {
    const int64_t begin = (first_window + i) * axis.stride - axis.padding;
    // 128 bits, because padding may be huge.
    const __int128 room = static_cast<__int128>(axis.size) + axis.padding - begin;
    const int64_t end = begin + static_cast<int64_t>(std::min<__int128>(axis.kernel, room));
    counts[i] = axis.counts_padding ? end - begin : std::min(end, axis.size) - std::max<int64_t>(begin, 0);
  }
}

int64_t MostWindowsOver(const PooledAxis& axis) {
  if (axis.kernel > 0) return std::min((axis.kernel - 1) / axis.stride + 1, axis.pooled);
  const int64_t rest = axis.pooled % axis.size;
  if (rest == 0) return axis.pooled / axis.size;
  return axis.pooled / axis.size + (axis.size % rest == 0 ? 1 : 2);
}

int64_t MostCellsIn(const PooledAxis& axis) {
  if (axis.kernel > 0) return std::min(axis.kernel, axis.size);
  return std::min(axis.size / axis.pooled + (axis.size % axis.pooled == 0 ? 0 : 2), axis.size);
}

}  // namespace acl_host
