#include "computation.h"

#include <algorithm>
#include <cstring>

#include "tensors/lanes.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// A piece begins with a byte of the mask.
constexpr int64_t kUnit = 128;

// Ones in the lanes of the elements from `first` on, a multiple of the lanes, which are kept.
[[nodiscard]] inline WordLanes KeptLanes(const std::byte* mask, int64_t first) {
  std::conditional_t<kFloatLanes == 16, uint16_t, uint8_t> bits;
  std::memcpy(&bits, mask + first / 8, sizeof(bits));
  WordLanes places;
  for (int64_t i = 0; i < kFloatLanes; ++i) places[i] = 1U << i;
  const WordLanes kept = places & (WordLanes{} + (uint32_t{bits} >> (kFloatLanes < 8 ? first % 8 : 0)));
  return BitCast<WordLanes>(kept != 0U);
}

template <typename T>
void DropElements(const std::byte* from, const std::byte* mask, float scale, std::byte* to, int64_t count) {
  ForLanes(count, [&](int64_t i, auto lanes) {
    const FloatLanes scaled = LoadLanes<T>(from, i, lanes) * scale;
    StoreLanes<T>(BitCast<FloatLanes>(WordLanes{BitCast<WordLanes>(scaled) & KeptLanes(mask, i)}), to, i, lanes);
  });
}

}  // namespace

template <>
void DropoutMask<VECTOR_LEVEL>::Run(const Dropout& dropout, const KernelArguments& arguments) {
  VisitFloatType(dropout.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    std::byte keep[sizeof(T)];
    RoundElement<T>(keep, 0, dropout.keep);
    const float scale = 1.0F / WidenElement<T>(keep, 0);
    const int64_t units = (dropout.count - 1) / kUnit + 1;
    arguments.pool.ParallelFor(units, Grain(kUnit), [&](int64_t begin, int64_t end) {
      const int64_t first = begin * kUnit;
      const int64_t count = std::min(end * kUnit, dropout.count) - first;
      const int64_t offset = first * int64_t{sizeof(T)};
      const std::byte* const from = arguments.inputs[0] + offset;
      std::byte* const to = arguments.outputs[0] + offset;
      if (dropout.keeps_all) {
        std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
      } else {
        DropElements<T>(from, arguments.inputs[1] + first / 8, scale, to, count);
      }
    });
  });
}

}  // namespace acl_host
