#include "families/gated_units/computation.h"

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "families/elementwise/maths.h"
#include "plan/tiles.h"
#include "tensors/elements.h"
#include "tensors/lanes.h"

namespace acl_host {
namespace {

// The columns of a tile: threads share long rows.
constexpr int64_t kTileColumns = 1024;

template <typename T>
struct Halves {
  T a;
  T b;
};

// With s = sigmoid(A), the gradient of A is grad * B * s * (1 + A * (1 - s)), and that of B is grad * A * s.
struct SwiGluGradient {
  Halves<FloatLanes> operator()(FloatLanes grad, FloatLanes a, FloatLanes b) const {
    const Sigmoid sigmoid(a);
    const FloatLanes scaled = grad * sigmoid.value;
    return {scaled * b * (1.0F + a * sigmoid.complement), scaled * a};
  }
};

// With s = sigmoid(B), the gradient of A is grad * s, and that of B is grad * A * s * (1 - s).
struct GluGradient {
  Halves<FloatLanes> operator()(FloatLanes grad, FloatLanes a, FloatLanes b) const {
    const Sigmoid sigmoid(b);
    const FloatLanes scaled = grad * sigmoid.value;
    return {scaled, scaled * (a * sigmoid.complement)};
  }

  Halves<double> operator()(double grad, double a, double b) const {
    const double tail = std::exp(-std::abs(b));
    const double larger = 1 / (1 + tail);
    const double smaller = tail * larger;
    const double scaled = grad * (b < 0 ? smaller : larger);
    return {scaled, scaled * (a * (b < 0 ? larger : smaller))};
  }
};

template <typename T, typename Gradient>
class GatedRows {
 public:
  GatedRows(const GatedUnit& unit, const KernelArguments& arguments)
      : columns_(unit.columns), grads_(arguments.inputs[0]), x_(arguments.inputs[1]), gradient_(arguments.outputs[0]) {}

  void SetTile(const Tile&) {}

  int64_t MakeRows(const Tile& tile, int64_t row, int64_t first_cell) {
    const int64_t half = 2 * row * columns_ + tile.left;
    const std::byte* const grads = At(grads_, first_cell);
    const std::byte* const a = At(x_, half);
    const std::byte* const b = At(x_, half + columns_);
    std::byte* const of_a = At(gradient_, half);
    std::byte* const of_b = At(gradient_, half + columns_);
    if constexpr (std::is_same_v<T, double>) {
      for (int64_t i = 0; i < tile.width(); ++i) {
        const Halves<T> made = Gradient()(LoadElement<T>(grads, i), LoadElement<T>(a, i), LoadElement<T>(b, i));
        StoreElement(of_a, i, made.a);
        StoreElement(of_b, i, made.b);
      }
    } else {
      ForLanes(tile.width(), [&](int64_t i, auto lanes) {
        const Halves<FloatLanes> made =
            Gradient()(LoadLanes<T>(grads, i, lanes), LoadLanes<T>(a, i, lanes), LoadLanes<T>(b, i, lanes));
        StoreLanes<T>(made.a, of_a, i, lanes);
        StoreLanes<T>(made.b, of_b, i, lanes);
      });
    }
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

template <typename T, typename Gradient>
void MakeAll(const GatedUnit& unit, const KernelArguments& arguments) {
  const Tiles tiles{1, unit.rows, unit.columns, kTileColumns};
  const TileWork work{5 * unit.rows * unit.columns, int64_t{sizeof(T)}, 0};
  ForTiles(arguments.pool, tiles, work, [&] { return GatedRows<T, Gradient>(unit, arguments); });
}

}  // namespace

template <>
void GatedUnitGradient<VECTOR_LEVEL>::Run(const GatedUnit& unit, const KernelArguments& arguments) {
  if (unit.type == ACL_DOUBLE) return MakeAll<double, GluGradient>(unit, arguments);
  VisitFloatType(unit.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    unit.gate == Gate::kGlu ? MakeAll<T, GluGradient>(unit, arguments) : MakeAll<T, SwiGluGradient>(unit, arguments);
  });
}

}  // namespace acl_host
