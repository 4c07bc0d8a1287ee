// The innermost loop of a product: a few rows times a few vectors of columns, whose sums stay in registers.
//
// Sums are fused multiply-adds if the vector level has them. So the bits of products and convolutions are those of the
// kind of processor, unlike those of other operators.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tensors/lanes.h"

namespace acl_host {
namespace {

// As many sums as fit into the registers, beside a row of columns and an element.
#if defined(__AVX512F__)
constexpr size_t kTileRows = 12;
constexpr size_t kTileVectors = 2;
#elif defined(__AVX2__)
constexpr size_t kTileRows = 6;
constexpr size_t kTileVectors = 2;
#elif defined(__aarch64__)
constexpr size_t kTileRows = 8;
constexpr size_t kTileVectors = 3;
#else
constexpr size_t kTileRows = 4;
constexpr size_t kTileVectors = 2;
#endif
constexpr int64_t kTileColumns = int64_t{kTileVectors} * kFloatLanes;

inline FloatLanes MultiplyAdd(FloatLanes x, FloatLanes y, FloatLanes sum) {
#if defined(__AVX512F__)
  return BitCast<FloatLanes>(_mm512_fmadd_ps(BitCast<__m512>(x), BitCast<__m512>(y), BitCast<__m512>(sum)));
#elif defined(__FMA__)
  return BitCast<FloatLanes>(_mm256_fmadd_ps(BitCast<__m256>(x), BitCast<__m256>(y), BitCast<__m256>(sum)));
#elif defined(__aarch64__)
  return BitCast<FloatLanes>(vfmaq_f32(BitCast<float32x4_t>(sum), BitCast<float32x4_t>(x), BitCast<float32x4_t>(y)));
#else
  return sum + x * y;
#endif
}

// An element in every lane, also -0, which Filled makes 0.
inline FloatLanes Repeated(float element) {
#if defined(__AVX512F__)
  return BitCast<FloatLanes>(_mm512_set1_ps(element));
#elif defined(__AVX2__)
  return BitCast<FloatLanes>(_mm256_set1_ps(element));
#else
  return FloatLanes{element, element, element, element};
#endif
}

// Float32 sums in memory of any alignment. The first of the products that a sum consists of is stored, others added.
// `added` is null, or has a further term for each row.
struct SumTile {
  std::byte* first;
  int64_t row_bytes;
  int64_t columns;
  bool is_first;
  const float* added = nullptr;
};

// How the left matrix lies: as a panel, which has for each step along the depth one element of each of its rows; with
// its rows as they are, so many elements from one another; or with such columns.
enum class LeftForm { kPanel, kRows, kColumns };

// The right panel has for each step along the depth one element of each of its columns.
using RunTile = void (*)(int64_t depth, const float* left, int64_t left_pitch, const float* right, const SumTile& to);

template <LeftForm kForm, size_t kVectors, size_t... kRow>
inline void MultiplyPanels(std::index_sequence<kRow...> /*rows*/, int64_t depth, const float* left,
                           [[maybe_unused]] int64_t left_pitch, const float* right, const SumTile& to) {
  using Row = std::array<FloatLanes, kVectors>;
  constexpr size_t kRows = sizeof...(kRow);
  constexpr int64_t kColumns = int64_t{kVectors} * kFloatLanes;
  std::array<Row, kRows> sums{};
  const auto for_vectors = [](const auto& visit) {
    visit(std::integral_constant<size_t, 0>{});
    if constexpr (kVectors > 1) visit(std::integral_constant<size_t, 1>{});
    if constexpr (kVectors > 2) visit(std::integral_constant<size_t, 2>{});
  };
  // Rows are addressed by threes, because all their addresses would not fit into the registers.
  std::array<const float*, (kRows + 2) / 3> thirds;
  for (size_t i = 0; i < thirds.size(); ++i) thirds[i] = left + 3 * static_cast<int64_t>(i) * left_pitch;
  const auto left_element = [&](auto row) {
    if constexpr (kForm == LeftForm::kRows) {
      return thirds[row / 3][int64_t{row % 3} * left_pitch];
    } else {
      return left[row];
    }
  };
  for (int64_t k = 0; k < depth; ++k) {
    Row columns;
    for_vectors([&](auto vector) {
      columns[vector] =
          LoadLanes<float>(reinterpret_cast<const std::byte*>(right), int64_t{vector} * kFloatLanes, AllLanes{});
    });
    const auto add_row = [&](auto row) {
      const FloatLanes element = Repeated(left_element(row));
      for_vectors([&](auto vector) { sums[row][vector] = MultiplyAdd(element, columns[vector], sums[row][vector]); });
    };
    (add_row(std::integral_constant<size_t, kRow>{}), ...);
    if constexpr (kForm == LeftForm::kRows) {
      for (const float*& third : thirds) ++third;
    } else {
      left += kForm == LeftForm::kPanel ? int64_t{kRows} : left_pitch;
    }
    right += kColumns;
  }
  const auto store_row = [&](auto row) {
    std::byte* const place = to.first + int64_t{row} * to.row_bytes;
    for_vectors([&](auto vector) {
      const int64_t first = int64_t{vector} * kFloatLanes;
      const auto store = [&](auto lanes) {
        FloatLanes sum = sums[row][vector];
        if (!to.is_first) sum += LoadLanes<float>(place, first, lanes);
        if (to.added != nullptr) sum += Repeated(to.added[row]);
        StoreLanes<float>(sum, place, first, lanes);
      };
      if (first + kFloatLanes <= to.columns) {
        store(AllLanes{});
      } else if (first < to.columns) {
        store(to.columns - first);
      }
    });
  };
  (store_row(std::integral_constant<size_t, kRow>{}), ...);
}

template <LeftForm kForm, size_t kRows, size_t kVectors>
void RunTileOf(int64_t depth, const float* left, int64_t left_pitch, const float* right, const SumTile& to) {
  MultiplyPanels<kForm, kVectors>(std::make_index_sequence<kRows>{}, depth, left, left_pitch, right, to);
}

template <LeftForm kForm, size_t kVectors, size_t... kRow>
constexpr std::array<RunTile, sizeof...(kRow)> TilesOfRows(std::index_sequence<kRow...> /*rows*/) {
  return {&RunTileOf<kForm, kRow + 1, kVectors>...};
}

template <LeftForm kForm, size_t... kVector>
constexpr auto AllTiles(std::index_sequence<kVector...> /*vectors*/) {
  return std::array{TilesOfRows<kForm, kVector + 1>(std::make_index_sequence<kTileRows>{})...};
}

// By vectors and rows, from one on.
template <LeftForm kForm>
constexpr auto kTiles = AllTiles<kForm>(std::make_index_sequence<kTileVectors>{});

inline void MultiplyTile(int64_t rows, int64_t vectors, int64_t depth, const float* left, const float* right,
                         const SumTile& to) {
  kTiles<LeftForm::kPanel>[static_cast<size_t>(vectors - 1)][static_cast<size_t>(rows - 1)](depth, left, 0, right, to);
}

// The same of a left matrix as it is.
template <LeftForm kForm>
inline void MultiplyInPlace(int64_t rows, int64_t vectors, int64_t depth, const float* left, int64_t left_pitch,
                            const float* right, const SumTile& to) {
  kTiles<kForm>[static_cast<size_t>(vectors - 1)][static_cast<size_t>(rows - 1)](depth, left, left_pitch, right, to);
}

}  // namespace
}  // namespace acl_host
