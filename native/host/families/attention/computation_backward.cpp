// The division of the gradients among threads.
#include "families/attention/computation.h"
#include "families/attention/gradient_blocks.h"
#include "plan/scratch.h"
#include "plan/scratch_slots.h"

namespace acl_host {
namespace {

template <typename T>
class Gradients {
 public:
  Gradients(const AttentionGradient& work, const AttentionBlocks& blocks, const KernelArguments& arguments)
      : work_(work),
        blocks_(blocks),
        arguments_(arguments),
        slots_(AlignedTo<std::byte>(arguments.scratch[0], kAttentionAlignment), blocks.slots,
               static_cast<size_t>(blocks.slot_bytes)) {}

  void Make() {
    const Attention& attention = work_.forward;
    if (blocks_.is_by_head) {
      return For(attention.key_heads, 1, [](GradientBlocks<T>& of, Head head, int64_t) { of.MakeHead(head); });
    }
    For(attention.key_heads, CeilOf(attention.keys, attention.block_keys()),
        [](GradientBlocks<T>& of, Head head, int64_t number) { of.MakeKeys(head, number); });
    For(attention.heads, CeilOf(attention.rows, kBlockRows),
        [](GradientBlocks<T>& of, Head head, int64_t number) { of.MakeRows(head, number); });
  }

 private:
  template <typename Body>
  void For(int64_t heads, int64_t of_head, const Body& body) {
    const Attention& attention = work_.forward;
    const int64_t work = attention.rows * attention.keys / of_head + 1;
    arguments_.pool.ParallelFor(attention.batches * heads * of_head, Grain(work), [&](int64_t begin, int64_t end) {
      const ScratchSlots::Lease slot(slots_);
      GradientBlocks<T> of(work_, arguments_, blocks_, slot.memory());
      for (int64_t i = begin; i < end; ++i) body(of, {i / of_head / heads, i / of_head % heads}, i % of_head);
    });
  }

  const AttentionGradient& work_;
  const AttentionBlocks& blocks_;
  const KernelArguments& arguments_;
  ScratchSlots slots_;
};

}  // namespace

template <>
void AttentionGradients<VECTOR_LEVEL>::Run(const AttentionGradient& work, const AttentionBlocks& blocks,
                                           const KernelArguments& arguments) {
  VisitFloatType(work.forward.type,
                 [&](auto tag) { Gradients<typename decltype(tag)::Type>(work, blocks, arguments).Make(); });
}

}  // namespace acl_host
