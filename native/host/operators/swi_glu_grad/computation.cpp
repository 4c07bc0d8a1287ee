// With s = sigmoid(A), the gradient of A is yGrad * B * s * (1 + A * (1 - s)), and that of B is yGrad * A * s.
#include "computation.h"

#include <algorithm>
#include <cstddef>

#include "families/elementwise/maths.h"
#include "plan/scratch.h"
#include "plan/tiles.h"
#include "tensors/elements.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// The columns of a tile, which are converted together.
constexpr int64_t kTileColumns = 1024;

template <typename T>
class Rows {
 public:
  Rows(const SwiGlu& glu, const Launch& launch)
      : columns_(glu.columns),
        grads_(launch.inputs[0]),
        x_(launch.inputs[1]),
        gradient_(launch.outputs[0]),
        block_(5 * std::min(glu.columns, kTileColumns)) {}

  void SetTile(const Tile&) {}

  int64_t MakeRows(const Tile& tile, int64_t row, int64_t first_cell) {
    const int64_t count = tile.width();
    float* const grads = block_.data();
    float* const a = grads + count;
    float* const b = a + count;
    float* const of_a = b + count;
    float* const of_b = of_a + count;
    const int64_t half = 2 * row * columns_ + tile.left;
    WidenRow<T>(At(grads_, first_cell), grads, count);
    WidenRow<T>(At(x_, half), a, count);
    WidenRow<T>(At(x_, half + columns_), b, count);
    Differentiate(grads, a, b, of_a, of_b, count);
    RoundRow<T>(of_a, At(gradient_, half), count);
    RoundRow<T>(of_b, At(gradient_, half + columns_), count);
    return 1;
  }

 private:
  template <typename Byte>
  static Byte* At(Byte* elements, int64_t index) {
    return elements + index * int64_t{sizeof(T)};
  }

  static void Differentiate(const float* __restrict grads, const float* __restrict a, const float* __restrict b,
                            float* __restrict of_a, float* __restrict of_b, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const Sigmoid sigmoid(a[i]);
      const float scaled = grads[i] * sigmoid.value;
      of_a[i] = scaled * b[i] * (1.0F + a[i] * sigmoid.complement);
      of_b[i] = scaled * a[i];
    }
  }

  const int64_t columns_;
  const std::byte* const grads_;
  const std::byte* const x_;
  std::byte* const gradient_;
  const Scratch<float> block_;
};

}  // namespace

template <>
void SwiGluGradient<VECTOR_LEVEL>::Run(const SwiGlu& glu, const Launch& launch) {
  VisitFloatType(glu.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const Tiles tiles{1, glu.rows, glu.columns, kTileColumns};
    const TileWork work{5 * glu.rows * glu.columns, int64_t{sizeof(T)},
                        5 * std::min(glu.columns, kTileColumns) * int64_t{sizeof(float)}};
    ForTiles(launch.pool, tiles, work, [&] { return Rows<T>(glu, launch); });
  });
}

}  // namespace acl_host
