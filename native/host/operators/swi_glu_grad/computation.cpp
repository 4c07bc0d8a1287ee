// With s = sigmoid(A), the gradient of A is yGrad * B * s * (1 + A * (1 - s)), and that of B is yGrad * A * s.
#include "computation.h"

#include <cstddef>

#include "families/elementwise/maths.h"
#include "plan/tiles.h"
#include "tensors/elements.h"
#include "tensors/lanes.h"

namespace acl_host {
namespace {

// The columns of a tile: threads share long rows.
constexpr int64_t kTileColumns = 1024;

template <typename T>
class GatedRows {
 public:
  GatedRows(const SwiGlu& glu, const KernelArguments& arguments)
      : columns_(glu.columns), grads_(arguments.inputs[0]), x_(arguments.inputs[1]), gradient_(arguments.outputs[0]) {}

  void SetTile(const Tile&) {}

  int64_t MakeRows(const Tile& tile, int64_t row, int64_t first_cell) {
    const int64_t half = 2 * row * columns_ + tile.left;
    const std::byte* const grads = At(grads_, first_cell);
    const std::byte* const a = At(x_, half);
    const std::byte* const b = At(x_, half + columns_);
    std::byte* const of_a = At(gradient_, half);
    std::byte* const of_b = At(gradient_, half + columns_);
    ForLanes(tile.width(), [&](int64_t i, auto lanes) {
      const FloatLanes input = LoadLanes<T>(a, i, lanes);
      const Sigmoid sigmoid(input);
      const FloatLanes scaled = LoadLanes<T>(grads, i, lanes) * sigmoid.value;
      StoreLanes<T>(scaled * LoadLanes<T>(b, i, lanes) * (1.0F + input * sigmoid.complement), of_a, i, lanes);
      StoreLanes<T>(scaled * input, of_b, i, lanes);
    });
    return 1;
  }

 private:
  template <typename Byte>
  static Byte* At(Byte* elements, int64_t index) {
    return elements + index * int64_t{sizeof(T)};
  }

  const int64_t columns_;
  const std::byte* const grads_;
  const std::byte* const x_;
  std::byte* const gradient_;
};

}  // namespace

template <>
void SwiGluGradient<VECTOR_LEVEL>::Run(const SwiGlu& glu, const KernelArguments& arguments) {
  VisitFloatType(glu.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const Tiles tiles{1, glu.rows, glu.columns, kTileColumns};
    const TileWork work{5 * glu.rows * glu.columns, int64_t{sizeof(T)}, 0};
    ForTiles(arguments.pool, tiles, work, [&] { return GatedRows<T>(glu, arguments); });
  });
}

}  // namespace acl_host
