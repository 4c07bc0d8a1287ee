#include "families/gathering/computation.h"

#include <algorithm>

#include "families/gathering/indices.h"
#include "tensors/streams.h"

namespace acl_host {
namespace {

// Indices at a time, which are checked before the elements are taken.
constexpr int64_t kBlock = 1024;

// Shorter slices are copied element by element.
constexpr int64_t kLeastBytes = 32;
// Longer ones are copied in parts.
constexpr int64_t kPartBytes = 1 << 18;
constexpr int64_t kWordBytes = 4;

template <typename Index>
void CopySlices(const Slices& slices, const KernelArguments& arguments) {
  const auto bytes = static_cast<int64_t>(aclDataTypeSize(slices.type)) * slices.inner;
  const int64_t parts = (bytes - 1) / kPartBytes + 1;
  const int64_t all = slices.outer * slices.count;
  const StreamedCopy copy(all * bytes);
  arguments.pool.ParallelFor(
      all * parts, Grain(std::min(bytes, kPartBytes) / kWordBytes), [&](int64_t begin, int64_t end) {
        for (int64_t unit = begin; unit < end; ++unit) {
          const int64_t slice = unit / parts;
          const int64_t outer = slice / slices.count;
          const auto position = IndexAt<Index>(arguments.inputs[1], slice - outer * slices.count);
          if (!IsIn(position, slices.positions)) FailIndex(slices.name, position, slices.positions);
          const int64_t first = unit % parts * kPartBytes;
          copy.Copy(arguments.inputs[0] + (outer * slices.positions + position) * bytes + first,
                    arguments.outputs[0] + slice * bytes + first, std::min(kPartBytes, bytes - first));
        }
        copy.End();
      });
}

template <typename T, typename Index>
void TakeShort(const Slices& slices, const KernelArguments& arguments) {
  const std::byte* const index = arguments.inputs[1];
  const int64_t parts = (slices.count - 1) / kBlock + 1;
  const int64_t inner = slices.inner;
  constexpr int64_t kBytes = sizeof(T);
  arguments.pool.ParallelFor(slices.outer * parts, Grain(kBlock * inner), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t outer = unit / parts;
      const int64_t first = unit % parts * kBlock;
      const int64_t count = std::min(kBlock, slices.count - first);
      const std::byte* const from = arguments.inputs[0] + outer * slices.positions * inner * kBytes;
      std::byte* const to = arguments.outputs[0] + (outer * slices.count + first) * inner * kBytes;
      CheckIndices<Index>(slices.name, index + first * int64_t{sizeof(Index)}, count, 1, slices.positions);
      if (inner == 1) {
        for (int64_t i = 0; i < count; ++i) {
          StoreElement(to, i, LoadElement<T>(from, IndexAt<Index>(index, first + i)));
        }
        continue;
      }
      for (int64_t i = 0; i < count; ++i) {
        const int64_t slice = IndexAt<Index>(index, first + i) * inner;
        for (int64_t j = 0; j < inner; ++j) StoreElement(to, i * inner + j, LoadElement<T>(from, slice + j));
      }
    }
  });
}

template <typename T, typename Index>
void TakeRow(const TakenElements& taken, const std::byte* self, const std::byte* index, std::byte* out, int64_t count) {
  const auto [self_step, index_step, out_step] = taken.walk.row().steps;
  const int64_t step = taken.position_step;
  if (index_step == 1 && out_step == 1 && self_step == 0 && step == 1) {
    for (int64_t i = 0; i < count; ++i) StoreElement(out, i, LoadElement<T>(self, IndexAt<Index>(index, i)));
  } else if (index_step == 1 && out_step == 1 && self_step == 1) {
    for (int64_t i = 0; i < count; ++i) StoreElement(out, i, LoadElement<T>(self, IndexAt<Index>(index, i) * step + i));
  } else {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t from = IndexAt<Index>(index, i * index_step) * step + i * self_step;
      StoreElement(out, i * out_step, LoadElement<T>(self, from));
    }
  }
}

}  // namespace

template <>
void TakeSlices<VECTOR_LEVEL>::Run(const Slices& slices, const KernelArguments& arguments) {
  const auto bytes = static_cast<int64_t>(aclDataTypeSize(slices.type)) * slices.inner;
  VisitIndexType(slices.index_type, [&](auto index) {
    using Index = typename decltype(index)::Type;
    if (bytes >= kLeastBytes) return CopySlices<Index>(slices, arguments);
    VisitElementSize(slices.type, [&](auto tag) { TakeShort<typename decltype(tag)::Type, Index>(slices, arguments); });
  });
}

template <>
void TakeElements<VECTOR_LEVEL>::Run(const TakenElements& taken, const KernelArguments& arguments) {
  VisitIndexType(taken.index_type, [&](auto index_tag) {
    VisitElementSize(taken.type, [&](auto tag) {
      using Index = typename decltype(index_tag)::Type;
      using T = typename decltype(tag)::Type;
      const auto run = [&](int64_t begin, int64_t end) {
        taken.walk.ForUnits(begin, end, [&](const auto& places, int64_t count) {
          const auto& steps = taken.walk.row().steps;
          for (int64_t first = 0; first < count; first += kBlock) {
            const int64_t size = std::min(kBlock, count - first);
            const std::byte* const index =
                arguments.inputs[1] + (places[1] + first * steps[1]) * int64_t{sizeof(Index)};
            CheckIndices<Index>(taken.name, index, size, steps[1], taken.positions);
            TakeRow<T, Index>(taken, arguments.inputs[0] + (places[0] + first * steps[0]) * int64_t{sizeof(T)}, index,
                              arguments.outputs[0] + (places[2] + first * steps[2]) * int64_t{sizeof(T)}, size);
          }
        });
      };
      arguments.pool.ParallelFor(taken.walk.units(), Grain(taken.walk.unit_elements()), run);
    });
  });
}

}  // namespace acl_host
