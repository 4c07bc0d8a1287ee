// The forward pass. A block of rows sees the keys block by block, with the largest scores so far: what was added up
// before shrinks when a larger one comes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "families/attention/computation.h"
#include "families/attention/tiles.h"
#include "plan/scratch.h"
#include "plan/scratch_slots.h"
#include "tensors/exp.h"

namespace acl_host {
namespace {

// The sum of a row of which every score is masked out, as devices have it, so that its shares are 0.
constexpr float kSumOfNothing = std::numeric_limits<float>::max();

// What one thread does, in a slot.
template <typename T>
class ValueBlocks {
 public:
  ValueBlocks(const Attention& attention, const KernelArguments& arguments, std::byte* memory)
      : attention_(attention),
        arguments_(arguments),
        parts_(memory),
        most_rows_(std::min(attention.rows, kBlockRows * kBlocksAtATime)),
        queries_(parts_.Floats(most_rows_ * attention.depth)),
        results_(parts_.Floats(most_rows_ * attention.value_depth)),
        largest_(parts_.Floats(most_rows_)),
        sums_(parts_.Doubles(most_rows_)),
        tile_(parts_.Floats(std::min(attention.rows, kBlockRows) * kTilePitch)),
        keys_(parts_.Floats(WidthOf(std::min(attention.keys, kBlockKeys)) * attention.depth)),
        values_(parts_.Floats(std::min(attention.keys, kBlockKeys) * WidthOf(attention.value_depth))),
        scores_(attention, arguments, 3, parts_.Floats(kBlockKeys)) {}

  // Makes some blocks of rows of a head of the query.
  void Make(Head head, Block rows) {
    CopyRows<T>(RowAt<T>(arguments_.inputs[0], attention_.query, head, rows.first), attention_.query.row, rows.count,
                attention_.depth, queries_);
    std::fill_n(largest_, rows.count, kMasked);
    std::fill_n(sums_, rows.count, 0.0);
    std::fill_n(results_, rows.count * attention_.value_depth, 0.0F);
    const Head key_head{head.batch, head.head / attention_.group()};
    for (int64_t number = 0; number * attention_.block_keys() < attention_.keys; ++number) {
      const Block keys = BlockAt(number, attention_.block_keys(), attention_.keys);
      // Of rows without any key the largest score is a masked one, and that is all that counts.
      if (scores_.AreMasked(rows, keys)) break;
      PackColumns<T>(RowAt<T>(arguments_.inputs[1], attention_.key, key_head, keys.first), attention_.key.row,
                     keys.count, attention_.depth, keys_);
      PackRows<T>(RowAt<T>(arguments_.inputs[2], attention_.value, key_head, keys.first), attention_.value.row,
                  keys.count, attention_.value_depth, values_);
      for (int64_t block = 0; block * kBlockRows < rows.count; ++block) {
        const Block some = BlockAt(block, kBlockRows, rows.count);
        if (!scores_.AreMasked({rows.first + some.first, some.count}, keys)) AddTile(head, rows.first, some, keys);
      }
    }
    for (int64_t row = 0; row < rows.count; ++row) Finish(head, rows.first + row, row);
  }

 private:
  // The rows are counted from `first` on.
  void AddTile(Head head, int64_t first, Block rows, Block keys) {
    AddProducts<LeftForm::kRows>(rows.count, keys.count, attention_.depth, queries_ + rows.first * attention_.depth,
                                 attention_.depth, keys_, {BytesOf(tile_), kTilePitch * kFloatBytes, true});
    for (int64_t row = 0; row < rows.count; ++row) {
      MakePowers(head, first + rows.first + row, rows.first + row, keys, tile_ + row * kTilePitch);
    }
    AddProducts<LeftForm::kRows>(
        rows.count, attention_.value_depth, keys.count, tile_, kTilePitch, values_,
        {BytesOf(results_ + rows.first * attention_.value_depth), attention_.value_depth * kFloatBytes, false});
  }

  void MakePowers(Head head, int64_t row, int64_t place, Block keys, float* scores) {
    FloatLanes lanes_largest = Filled(largest_[place]);
    scores_.ForKeys(head, row, keys, scores, [&](int64_t i, auto lanes, FloatLanes score) {
      StoreLanes<float>(score, BytesOf(scores), i, lanes);
      // Lanes that are left are products of zeros, and no scores.
      const FloatLanes some = LoadOr(score, lanes);
      lanes_largest = some > lanes_largest ? some : lanes_largest;
    });
    float largest = kMasked;
    for (int64_t i = 0; i < kFloatLanes; ++i) largest = lanes_largest[i] > largest ? lanes_largest[i] : largest;
    FloatLanes sum{};
    ForLanes(keys.count, [&](int64_t i, auto lanes) {
      const FloatLanes power = Exp(LoadLanes<float>(BytesOf(scores), i, lanes) - largest);
      StoreLanes<float>(power, BytesOf(scores), i, lanes);
      sum += FirstLanes(power, lanes);
    });
    if (largest != largest_[place]) {
      const FloatLanes shrunk = Exp(Filled(largest_[place]) - largest);
      std::byte* const results = BytesOf(results_ + place * attention_.value_depth);
      ForLanes(attention_.value_depth, [&](int64_t i, auto lanes) {
        StoreLanes<float>(LoadLanes<float>(results, i, lanes) * shrunk, results, i, lanes);
      });
      sums_[place] *= double{shrunk[0]};
      largest_[place] = largest;
    }
    sums_[place] += double{SumOfLanes(sum)};
  }

  static FloatLanes LoadOr(FloatLanes score, AllLanes) { return score; }
  static FloatLanes LoadOr(FloatLanes score, int64_t lanes) {
    for (int64_t i = lanes; i < kFloatLanes; ++i) score[i] = kMasked;
    return score;
  }

  void Finish(Head head, int64_t row, int64_t place) {
    // A row of NaNs has no score above the masked ones either, but its sum says so.
    const bool is_nothing = largest_[place] <= kMasked && !std::isnan(sums_[place]);
    const float sum = is_nothing ? kSumOfNothing : static_cast<float>(sums_[place]);
    const int64_t statistic = ((head.batch * attention_.heads + head.head) * attention_.rows + row) * kStatisticLanes;
    for (int64_t i = statistic; i < statistic + kStatisticLanes; ++i) {
      StoreElement(arguments_.outputs[0], i, largest_[place]);
      StoreElement(arguments_.outputs[1], i, sum);
    }
    const auto factor = is_nothing ? 0.0F : static_cast<float>(1 / sums_[place]);
    std::byte* const results = BytesOf(results_ + place * attention_.value_depth);
    std::byte* const to = RowAt<T>(arguments_.outputs[2], attention_.output, head, row);
    ForLanes(attention_.value_depth, [&](int64_t i, auto lanes) {
      StoreLanes<T>(is_nothing ? FloatLanes{} : LoadLanes<float>(results, i, lanes) * factor, to, i, lanes);
    });
  }

  const Attention& attention_;
  const KernelArguments& arguments_;
  SlotParts parts_;
  const int64_t most_rows_;
  float* const queries_;
  float* const results_;
  float* const largest_;
  double* const sums_;
  float* const tile_;
  float* const keys_;
  float* const values_;
  ScoreRows<T> scores_;
};

}  // namespace

template <>
void AttentionValues<VECTOR_LEVEL>::Run(const Attention& attention, const AttentionBlocks& blocks,
                                        const KernelArguments& arguments) {
  ScratchSlots slots(AlignedTo<std::byte>(arguments.scratch[0], kAttentionAlignment), blocks.slots,
                     static_cast<size_t>(blocks.slot_bytes));
  constexpr int64_t kRowsAtATime = kBlockRows * kBlocksAtATime;
  const int64_t of_head = CeilOf(attention.rows, kRowsAtATime);
  const int64_t work = std::min(attention.rows, kRowsAtATime) * attention.keys;
  VisitFloatType(attention.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    arguments.pool.ParallelFor(attention.batches * attention.heads * of_head, Grain(work),
                               [&](int64_t begin, int64_t end) {
                                 const ScratchSlots::Lease slot(slots);
                                 ValueBlocks<T> values(attention, arguments, slot.memory());
                                 for (int64_t i = begin; i < end; ++i) {
                                   const Head head{i / of_head / attention.heads, i / of_head % attention.heads};
                                   values.Make(head, BlockAt(i % of_head, kRowsAtATime, attention.rows));
                                 }
                               });
  });
}

}  // namespace acl_host
