#include "families/max_unpool/computation.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <string>

#include "errors/exceptions.h"
#include "tensors/elements.h"

namespace acl_host {
namespace {

constexpr int64_t kCellsPerBlock = 256;

// The lowest position that any thread saw, so that the report does not depend on which came first.
class FirstPosition {
 public:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  void Lower(int64_t position) {
    int64_t known = value_.load();
    while (position < known && !value_.compare_exchange_weak(known, position)) continue;
  }
  [[nodiscard]] int64_t value() const { return value_.load(); }

 private:
  std::atomic<int64_t> value_{kNone};
};

// Gathers up to kCellsPerBlock cells of one plane, and returns whether all indices lie in the plane. For an invalid
// index it reads element 0. It reads each index once, so the checked index is the used one even if another thread
// writes to it.
template <typename Element, typename Index>
bool GatherBlock(const std::byte* __restrict grad_plane, uint64_t grad_elements, const std::byte* __restrict indices,
                 std::byte* __restrict out, int64_t cells) {
  uint64_t positions[kCellsPerBlock];
  uint64_t outside = 0;
  for (int64_t cell = 0; cell < cells; ++cell) {
    // A negative index becomes larger than any valid one.
    const auto index = static_cast<uint64_t>(int64_t{LoadElement<Index>(indices, cell)});
    const uint64_t inside = index < grad_elements ? ~uint64_t{0} : 0;
    positions[cell] = index & inside;
    outside |= ~inside;
  }
  for (int64_t cell = 0; cell < cells; ++cell) {
    StoreElement(out, cell, LoadElement<Element>(grad_plane, static_cast<int64_t>(positions[cell])));
  }
  return outside == 0;
}

template <typename Index>
int64_t FirstInvalid(uint64_t grad_elements, const std::byte* indices) {
  int64_t cell = 0;
  while (static_cast<uint64_t>(int64_t{LoadElement<Index>(indices, cell)}) < grad_elements) ++cell;
  return cell;
}

// Cells [begin, end), counted through all planes; returns the first whose index lies outside its plane.
template <typename Element, typename Index>
int64_t Gather(const MaxUnpool& unpool, const KernelArguments& arguments, int64_t begin, int64_t end) {
  const auto grad_elements = static_cast<uint64_t>(unpool.grad_elements);
  for (int64_t cell = begin; cell < end;) {
    const int64_t plane = cell / unpool.cells;
    const int64_t cells = std::min({end, (plane + 1) * unpool.cells, cell + kCellsPerBlock}) - cell;
    const std::byte* const grad_plane =
        arguments.inputs[0] + static_cast<size_t>(plane * unpool.grad_elements) * sizeof(Element);
    const std::byte* const indices = arguments.inputs[1] + static_cast<size_t>(cell) * sizeof(Index);
    std::byte* const out = arguments.outputs[0] + static_cast<size_t>(cell) * sizeof(Element);
    if (!GatherBlock<Element, Index>(grad_plane, grad_elements, indices, out, cells)) {
      return cell + FirstInvalid<Index>(grad_elements, indices);
    }
    cell += cells;
  }
  return FirstPosition::kNone;
}

template <typename Element, typename Index>
void Compute(const MaxUnpool& unpool, const KernelArguments& arguments) {
  FirstPosition invalid;
  arguments.pool.ParallelFor(unpool.planes * unpool.cells, Grain(1), [&](int64_t begin, int64_t end) {
    invalid.Lower(Gather<Element, Index>(unpool, arguments, begin, end));
  });
  if (invalid.value() == FirstPosition::kNone) return;
  // A device would read whatever lies there, or fault. Here it always faults.
  const auto index = LoadElement<Index>(arguments.inputs[1], invalid.value());
  throw Error(ACL_ERROR_RT_AICORE_EXCEPTION, std::string(unpool.operator_name) + ": indices: element " +
                                                 std::to_string(invalid.value()) + " is " + std::to_string(index) +
                                                 ", outside the " + std::to_string(unpool.grad_elements) +
                                                 " elements of a plane of gradOutput");
}

}  // namespace

template <>
void MaxUnpoolBackward<VECTOR_LEVEL>::Run(const MaxUnpool& unpool, aclDataType type, const KernelArguments& arguments) {
  VisitElementSize(type, [&](auto tag) {
    using Element = typename decltype(tag)::Type;
    unpool.index_type == ACL_INT32 ? Compute<Element, int32_t>(unpool, arguments)
                                   : Compute<Element, int64_t>(unpool, arguments);
  });
}

}  // namespace acl_host
