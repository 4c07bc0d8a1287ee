// What one thread does for the gradients. A tile of scores has the shares of its keys in its rows, P, by the statistics
// as they are given, and their gradients, dS. The gradients of a block of keys are sums over all rows, in order, and
// those of a block of rows sums over all keys, in order: kTilesOfSum tiles in float, and the sums of such in double.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cmath>

#include "families/attention/computation.h"
#include "families/attention/sums.h"
#include "families/attention/tiles.h"
#include "tensors/exp.h"

namespace acl_host {
namespace {

// Below this, a largest score may be one that is masked out.
constexpr float kLeastScore = -1e38F;

// What one thread does, in a slot.
template <typename T>
class GradientBlocks {
 public:
  GradientBlocks(const AttentionGradient& work, const KernelArguments& arguments, const AttentionBlocks& blocks,
                 std::byte* memory)
      : work_(work),
        attention_(work.forward),
        arguments_(arguments),
        parts_(memory),
        most_rows_(std::min(attention_.rows, kBlockRows)),
        most_keys_(std::min(attention_.keys, kBlockKeys)),
        queries_(parts_.Floats(most_rows_ * attention_.depth)),
        gradients_(parts_.Floats(most_rows_ * attention_.value_depth)),
        query_panels_(parts_.Floats(most_rows_ * WidthOf(attention_.depth))),
        gradient_panels_(parts_.Floats(most_rows_ * WidthOf(attention_.value_depth))),
        key_columns_(parts_.Floats(WidthOf(most_keys_) * attention_.depth)),
        value_columns_(parts_.Floats(WidthOf(most_keys_) * attention_.value_depth)),
        key_panels_(parts_.Floats(most_keys_ * WidthOf(attention_.depth))),
        shares_(parts_.Floats(most_rows_ * kTilePitch)),
        share_gradients_(parts_.Floats(most_rows_ * kTilePitch)),
        largest_(parts_.Floats(most_rows_)),
        factors_(parts_.Floats(most_rows_)),
        products_(parts_.Floats(most_rows_)),
        scores_(attention_, arguments, 7, parts_.Floats(kBlockKeys)),
        key_sums_(parts_.Floats(most_keys_ * attention_.depth)),
        value_sums_(parts_.Floats(most_keys_ * attention_.value_depth)),
        query_sums_(parts_.Floats(kHasSums ? OwnRows(blocks) * attention_.depth : 0)),
        query_totals_(parts_.Doubles(HasRowTotals(attention_) ? OwnRows(blocks) * attention_.depth : 0)),
        key_totals_(parts_.Doubles(HasKeyTotals(attention_) ? most_keys_ * attention_.depth : 0)),
        value_totals_(parts_.Doubles(HasKeyTotals(attention_) ? most_keys_ * attention_.value_depth : 0)) {}

  // All gradients of a head of the key and the heads of the query that share it.
  void MakeHead(Head key_head) {
    for (int64_t number = 0; number < CeilOf(attention_.keys, attention_.block_keys()); ++number) {
      MakeKeys(key_head, number, [&](Head head, Block rows, Block keys) {
        const int64_t own_row = head.head % attention_.group() * attention_.rows + rows.first;
        AddToRows(rows, keys, number, RowSums(head, rows.first, own_row));
      });
    }
    for (int64_t i = 0; i < attention_.group(); ++i) {
      const Head head{key_head.batch, key_head.head * attention_.group() + i};
      FinishRows(head, {0, attention_.rows}, RowSums(head, 0, i * attention_.rows));
    }
  }

  // The gradients of a block of keys.
  void MakeKeys(Head key_head, int64_t number) {
    MakeKeys(key_head, number, [](Head, Block, Block) {});
  }

  // The gradient of a block of rows.
  void MakeRows(Head head, int64_t number) {
    const Block rows = BlockAt(number, kBlockRows, attention_.rows);
    const Head key_head{head.batch, head.head / attention_.group()};
    SetRows(head, rows);
    const LongSums sums = RowSums(head, rows.first, 0);
    for (int64_t i = 0; i < CeilOf(attention_.keys, attention_.block_keys()); ++i) {
      const Block keys = BlockAt(i, attention_.block_keys(), attention_.keys);
      if (IsNothing(rows, keys)) {
        if (i == 0) AddToRows(rows, {0, 0}, i, sums);
        continue;
      }
      SetKeys(key_head, keys);
      MakeTile(head, rows, keys);
      AddToRows(rows, keys, i, sums);
    }
    FinishRows(head, rows, sums);
  }

 private:
  // Sums of 16 bits are rounded at their end; others are added up where the result is.
  static constexpr bool kHasSums = !std::is_same_v<T, float>;

  template <typename Then>
  void MakeKeys(Head key_head, int64_t number, const Then& then) {
    const Block keys = BlockAt(number, attention_.block_keys(), attention_.keys);
    SetKeys(key_head, keys);
    const LongSums key_sums = KeySums(key_sums_, key_totals_, work_.grad_key, key_head, keys, attention_.depth, 1);
    const LongSums value_sums =
        KeySums(value_sums_, value_totals_, work_.grad_value, key_head, keys, attention_.value_depth, 2);
    key_sums.Begin();
    value_sums.Begin();
    int64_t tiles = 0;
    for (int64_t i = 0; i < attention_.group(); ++i) {
      const Head head{key_head.batch, key_head.head * attention_.group() + i};
      for (int64_t block = 0; block < CeilOf(attention_.rows, kBlockRows); ++block) {
        const Block rows = BlockAt(block, kBlockRows, attention_.rows);
        SetRows(head, rows);
        if (IsNothing(rows, keys)) {
          if (number == 0) then(head, rows, Block{0, 0});
          continue;
        }
        MakeTile(head, rows, keys);
        AddToKeys(rows, shares_, gradient_panels_, value_sums, tiles);
        AddToKeys(rows, share_gradients_, query_panels_, key_sums, tiles);
        ++tiles;
        then(head, rows, keys);
      }
    }
    if (tiles == 0) {
      value_sums.SetZeros();
      key_sums.SetZeros();
    }
    value_sums.Finish();
    key_sums.Finish();
    if constexpr (kHasSums) {
      RoundRows(key_sums_, work_.grad_key, key_head, keys, attention_.depth, 1);
      RoundRows(value_sums_, work_.grad_value, key_head, keys, attention_.value_depth, 2);
    }
  }

  void SetKeys(Head head, Block keys) {
    const std::byte* const key = RowAt<T>(arguments_.inputs[1], attention_.key, head, keys.first);
    PackColumns<T>(key, attention_.key.row, keys.count, attention_.depth, key_columns_);
    PackRows<T>(key, attention_.key.row, keys.count, attention_.depth, key_panels_);
    PackColumns<T>(RowAt<T>(arguments_.inputs[2], attention_.value, head, keys.first), attention_.value.row, keys.count,
                   attention_.value_depth, value_columns_);
  }

  void SetRows(Head head, Block rows) {
    const int64_t depth = attention_.depth, value_depth = attention_.value_depth;
    CopyRows<T>(RowAt<T>(arguments_.inputs[0], attention_.query, head, rows.first), attention_.query.row, rows.count,
                depth, queries_);
    CopyRows<T>(RowAt<T>(arguments_.inputs[3], work_.gradient, head, rows.first), work_.gradient.row, rows.count,
                value_depth, gradients_);
    PackRows<float>(BytesOf(queries_), depth, rows.count, depth, query_panels_);
    PackRows<float>(BytesOf(gradients_), value_depth, rows.count, value_depth, gradient_panels_);
    are_ordinary_ = true;
    for (int64_t i = 0; i < rows.count; ++i) {
      const int64_t row = rows.first + i;
      largest_[i] = LoadElement<float>(RowAt<float>(arguments_.inputs[4], work_.largest, head, row), 0);
      factors_[i] = 1 / LoadElement<float>(RowAt<float>(arguments_.inputs[5], work_.sum, head, row), 0);
      are_ordinary_ = are_ordinary_ && largest_[i] > kLeastScore && std::isfinite(factors_[i]);
      const std::byte* const result = RowAt<T>(arguments_.inputs[6], attention_.output, head, row);
      FloatLanes sum{};
      ForLanes(value_depth, [&](int64_t k, auto lanes) {
        sum += LoadLanes<float>(BytesOf(gradients_ + i * value_depth), k, lanes) * LoadLanes<T>(result, k, lanes);
      });
      products_[i] = SumOfLanes(sum);
    }
  }

  // Whether all shares of a tile are 0.
  [[nodiscard]] bool IsNothing(Block rows, Block keys) const { return are_ordinary_ && scores_.AreMasked(rows, keys); }

  void MakeTile(Head head, Block rows, Block keys) {
    constexpr int64_t kRowBytes = kTilePitch * kFloatBytes;
    AddProducts<LeftForm::kRows>(rows.count, keys.count, attention_.depth, queries_, attention_.depth, key_columns_,
                                 {BytesOf(shares_), kRowBytes, true});
    AddProducts<LeftForm::kRows>(rows.count, keys.count, attention_.value_depth, gradients_, attention_.value_depth,
                                 value_columns_, {BytesOf(share_gradients_), kRowBytes, true});
    for (int64_t i = 0; i < rows.count; ++i) {
      float* const shares = shares_ + i * kTilePitch;
      std::byte* const gradients = BytesOf(share_gradients_ + i * kTilePitch);
      const float largest = largest_[i], factor = factors_[i], product = products_[i];
      scores_.ForKeys(head, rows.first + i, keys, shares, [&](int64_t k, auto lanes, FloatLanes score) {
        const FloatLanes share = Exp(score - largest) * factor;
        StoreLanes<float>(share, BytesOf(shares), k, lanes);
        const FloatLanes gradient = LoadLanes<float>(gradients, k, lanes);
        StoreLanes<float>(share * (gradient - product) * attention_.scale, gradients, k, lanes);
      });
    }
  }

  static void AddToKeys(Block rows, const float* tile, const float* panels, const LongSums& sums, int64_t number) {
    AddProducts<LeftForm::kColumns>(sums.rows, sums.depth, rows.count, tile, kTilePitch, panels,
                                    {sums.first, sums.row_bytes, number == 0});
    sums.Added(number);
  }

  // Without keys, zeros.
  void AddToRows(Block rows, Block keys, int64_t number, LongSums sums) {
    sums.rows = rows.count;
    if (number == 0) sums.Begin();
    if (keys.count == 0) return sums.SetZeros();
    AddProducts<LeftForm::kRows>(rows.count, attention_.depth, keys.count, share_gradients_, kTilePitch, key_panels_,
                                 {sums.first, sums.row_bytes, number == 0});
    sums.Added(number);
  }

  void FinishRows(Head head, Block rows, LongSums sums) {
    sums.rows = rows.count;
    sums.Finish();
    if constexpr (kHasSums) {
      RoundRows(reinterpret_cast<const float*>(sums.first), work_.grad_query, head, rows, attention_.depth, 0);
    }
  }

  [[nodiscard]] int64_t OwnRows(const AttentionBlocks& blocks) const {
    return blocks.is_by_head ? attention_.group() * attention_.rows : most_rows_;
  }

  // Where the gradients of rows from this one on are added up; in memory of the thread's own from `own_row` on.
  [[nodiscard]] LongSums RowSums(Head head, int64_t row, int64_t own_row) const {
    double* const totals = HasRowTotals(attention_) ? query_totals_ + own_row * attention_.depth : nullptr;
    if constexpr (kHasSums) {
      std::byte* const own = BytesOf(query_sums_ + own_row * attention_.depth);
      return {own, attention_.depth * kFloatBytes, 0, attention_.depth, totals};
    } else {
      return {RowAt<T>(arguments_.outputs[0], work_.grad_query, head, row), work_.grad_query.row * kFloatBytes, 0,
              attention_.depth, totals};
    }
  }

  [[nodiscard]] LongSums KeySums(float* own, double* own_totals, const HeadStrides& strides, Head head, Block keys,
                                 int64_t depth, size_t output) const {
    double* const totals = HasKeyTotals(attention_) ? own_totals : nullptr;
    if constexpr (kHasSums) {
      return {BytesOf(own), depth * kFloatBytes, keys.count, depth, totals};
    } else {
      return {RowAt<T>(arguments_.outputs[output], strides, head, keys.first), strides.row * kFloatBytes, keys.count,
              depth, totals};
    }
  }

  void RoundRows(const float* sums, const HeadStrides& strides, Head head, Block rows, int64_t depth,
                 size_t output) const {
    for (int64_t i = 0; i < rows.count; ++i) {
      RoundRow<T>(sums + i * depth, RowAt<T>(arguments_.outputs[output], strides, head, rows.first + i), depth);
    }
  }

  const AttentionGradient& work_;
  const Attention& attention_;
  const KernelArguments& arguments_;
  SlotParts parts_;
  const int64_t most_rows_;
  const int64_t most_keys_;
  float* const queries_;
  float* const gradients_;
  float* const query_panels_;
  float* const gradient_panels_;
  float* const key_columns_;
  float* const value_columns_;
  float* const key_panels_;
  float* const shares_;
  float* const share_gradients_;
  float* const largest_;
  float* const factors_;
  float* const products_;
  ScoreRows<T> scores_;
  float* const key_sums_;
  float* const value_sums_;
  float* const query_sums_;
  double* const query_totals_;
  double* const key_totals_;
  double* const value_totals_;
  bool are_ordinary_ = true;
};

}  // namespace
}  // namespace acl_host
