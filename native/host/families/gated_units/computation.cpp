#include "families/gated_units/computation.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include "families/elementwise/maths.h"
#include "plan/tiles.h"
#include "tensors/elements.h"
#include "tensors/made_rows.h"

namespace acl_host {
namespace {

// The columns of a tile: threads share long rows, and short ones are read and written as they lie.
constexpr int64_t kTileColumns = 16384;

// With s = sigmoid(A), the gradient of A is grad * B * s * (1 + A * (1 - s)), and that of B is grad * A * s.
template <typename T>
struct SwiGluGradient {
  MadeLanes<2> operator()(FloatLanes grad, FloatLanes a, FloatLanes b) const {
    const Sigmoid<T> sigmoid(a);
    const FloatLanes scaled = grad * sigmoid.value;
    return {scaled * b * (1.0F + a * sigmoid.complement), scaled * a};
  }
};

// With s = sigmoid(B), the gradient of A is grad * s, and that of B is grad * A * s * (1 - s).
template <typename T>
struct GluGradient {
  MadeLanes<2> operator()(FloatLanes grad, FloatLanes a, FloatLanes b) const {
    const Sigmoid<T> sigmoid(b);
    const FloatLanes scaled = grad * sigmoid.value;
    return {scaled, scaled * (a * sigmoid.complement)};
  }

  std::array<double, 2> operator()(double grad, double a, double b) const {
    const double tail = std::exp(-std::abs(b));
    const double larger = 1 / (1 + tail);
    const double smaller = tail * larger;
    const double scaled = grad * (b < 0 ? smaller : larger);
    return {scaled, scaled * (a * (b < 0 ? larger : smaller))};
  }
};

template <typename T>
struct SwiGlu {
  MadeLanes<1> operator()(FloatLanes a, FloatLanes b) const { return {a * Sigmoid<T>(a).value * b}; }
};

// The place of an element.
template <typename T, typename Byte>
Byte* At(Byte* elements, int64_t index) {
  return elements + index * int64_t{sizeof(T)};
}

template <typename Value, typename T>
class ValueRows {
 public:
  ValueRows(const GatedUnit& unit, const KernelArguments& arguments)
      : columns_(unit.columns), x_(arguments.inputs[0]), values_(arguments.outputs[0]) {}

  void SetTile(const Tile&) {}

  int64_t MakeRows(const Tile& tile, int64_t row, int64_t first_cell) {
    const int64_t half = 2 * row * columns_ + tile.left;
    MapRows<T>(Rows<2>{At<T>(x_, half), At<T>(x_, half + columns_)}, MadeRows<1>{At<T>(values_, first_cell)},
               tile.width(), [](const auto& load) { return Value()(load(0), load(1)); });
    return 1;
  }

 private:
  const int64_t columns_;
  const std::byte* const x_;
  std::byte* const values_;
};

template <typename Gradient, typename T>
class GradientRows {
 public:
  GradientRows(const GatedUnit& unit, const KernelArguments& arguments)
      : columns_(unit.columns), grads_(arguments.inputs[0]), x_(arguments.inputs[1]), gradient_(arguments.outputs[0]) {}

  void SetTile(const Tile&) {}

  int64_t MakeRows(const Tile& tile, int64_t row, int64_t first_cell) {
    const int64_t half = 2 * row * columns_ + tile.left;
    const Rows<3> rows{At<T>(grads_, first_cell), At<T>(x_, half), At<T>(x_, half + columns_)};
    const MadeRows<2> to{At<T>(gradient_, half), At<T>(gradient_, half + columns_)};
    if constexpr (std::is_same_v<T, double>) {
      for (int64_t i = 0; i < tile.width(); ++i) {
        const auto load = [&](size_t input) { return LoadElement<T>(rows[input], i); };
        const std::array<double, 2> made = Gradient()(load(0), load(1), load(2));
        for (size_t each = 0; each < 2; ++each) StoreElement(to[each], i, made[each]);
      }
    } else {
      MapRows<T>(rows, to, tile.width(), [](const auto& load) { return Gradient()(load(0), load(1), load(2)); });
    }
    return 1;
  }

 private:
  const int64_t columns_;
  const std::byte* const grads_;
  const std::byte* const x_;
  std::byte* const gradient_;
};

// Of so many tensors with the elements of the result.
template <typename Worker, typename T>
void MakeAll(const GatedUnit& unit, const KernelArguments& arguments, int64_t tensors) {
  const Tiles tiles{1, unit.rows, unit.columns, kTileColumns};
  const TileWork work{tensors * unit.rows * unit.columns, int64_t{sizeof(T)}, 0};
  ForTiles(arguments.pool, tiles, work, [&] { return Worker(unit, arguments); });
}

template <template <typename> typename Gradient, typename T>
void MakeGradients(const GatedUnit& unit, const KernelArguments& arguments) {
  MakeAll<GradientRows<Gradient<T>, T>, T>(unit, arguments, 5);
}

}  // namespace

template <>
void GatedUnitValue<VECTOR_LEVEL>::Run(const GatedUnit& unit, const KernelArguments& arguments) {
  VisitFloatType(unit.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    MakeAll<ValueRows<SwiGlu<T>, T>, T>(unit, arguments, 3);
  });
}

template <>
void GatedUnitGradient<VECTOR_LEVEL>::Run(const GatedUnit& unit, const KernelArguments& arguments) {
  if (unit.type == ACL_DOUBLE) return MakeGradients<GluGradient, double>(unit, arguments);
  VisitFloatType(unit.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    unit.gate == Gate::kGlu ? MakeGradients<GluGradient, T>(unit, arguments)
                            : MakeGradients<SwiGluGradient, T>(unit, arguments);
  });
}

}  // namespace acl_host
