// The shares of windows: gradOutput, divided by the divisors of the windows.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "families/average_pool/computation.h"
#include "families/average_pool/windows.h"
#include "plan/scratch.h"
#include "tensors/elements.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// A row of gradOutput, and the divisor of its windows without the factor of the columns.
template <typename Sum>
struct GradRow {
  const std::byte* grad;
  Sum divisor;
};

// Computes the shares of some windows of a row at a time, in the type of their sums.
template <typename T, typename Sum>
class Shares {
 public:
  // most: windows at a time.
  Shares(const AveragePool& pool, int64_t most)
      : columns_(pool.columns),
        has_divisor_(pool.divisor != 0),
        most_(most),
        divisors_(static_cast<size_t>(most)),
        memory_(most + 1),
        shares_(memory_.data()) {}

  [[nodiscard]] int64_t most() const { return most_; }

  // Returns the shares of windows that exist, and a share of 0 behind them.
  const Sum* Of(const GradRow<Sum>& row, const Range& windows) {
    Divide(row, windows, shares_);
    shares_[windows.size()] = Sum{};
    return shares_;
  }

  // Returns the shares of a range of windows; those that do not exist have a share of 0. For these windows alone.
  const Sum* OfAny(const GradRow<Sum>& row, const Range& range) {
    if (!(range == loaded_)) {
      loaded_ = range;
      windows_.begin = std::clamp<int64_t>(0, range.begin, range.end);
      windows_.end = std::clamp(columns_.pooled, windows_.begin, range.end);
      std::fill_n(shares_, range.size(), Sum{});
    }
    Divide(row, windows_, shares_ + (windows_.begin - range.begin));
    return shares_;
  }

  // Computes the shares of windows that exist.
  void Divide(const GradRow<Sum>& row, const Range& windows, Sum* __restrict shares) {
    if (!(windows == divided_)) FindDivisors(windows);
    const std::byte* __restrict const grad = row.grad + windows.begin * int64_t{sizeof(T)};
    const float* __restrict const divisors = divisors_.data();
    const Sum divisor = row.divisor;
    // The bits of a division by a power of two are those of the multiplication, which takes a fraction of the time.
    if (is_divisor_same_ && IsPowerOfTwo(divisor * divisors[0])) {
      const Sum factor = 1 / (divisor * divisors[0]);
      Compute(grad, windows.size(), shares, [=](Sum value, int64_t) { return value * factor; });
    } else {
      Compute(grad, windows.size(), shares, [=](Sum value, int64_t i) { return value / (divisor * divisors[i]); });
    }
  }

 private:
  // Of a number that is neither 0 nor infinite: whether its mantissa is nothing but the 1 that is not stored.
  static bool IsPowerOfTwo(Sum value) {
    using Bits = std::conditional_t<sizeof(Sum) == sizeof(uint32_t), uint32_t, uint64_t>;
    return BitCast<Bits>(value) << (sizeof(value) * 8 - (std::numeric_limits<Sum>::digits - 1)) == 0;
  }

  template <typename Share>
  static void Compute(const std::byte* __restrict grad, int64_t count, Sum* __restrict shares, const Share& share) {
    if constexpr (kConverts<T>) {
      WidenRow<T>(grad, shares, count);
      for (int64_t i = 0; i < count; ++i) shares[i] = share(shares[i], i);
    } else {
      for (int64_t i = 0; i < count; ++i) shares[i] = share(Sum{LoadWide<T>(grad, i)}, i);
    }
  }

  void FindDivisors(const Range& windows) {
    divided_ = windows;
    is_divisor_same_ = has_divisor_;
    if (has_divisor_) {
      std::fill_n(divisors_.data(), windows.size(), 1.0F);
      return;
    }
    constexpr int64_t kBlock = 256;
    int64_t counts[kBlock];
    for (int64_t begin = 0; begin < windows.size(); begin += kBlock) {
      const int64_t count = std::min(windows.size() - begin, kBlock);
      CountCells(columns_, windows.begin + begin, count, counts);
      std::transform(counts, counts + count, divisors_.data() + begin,
                     [](int64_t cells) { return static_cast<float>(cells); });
    }
    const auto end = divisors_.begin() + windows.size();
    is_divisor_same_ = std::all_of(divisors_.begin(), end, [&](float each) { return each == divisors_.front(); });
  }

  const PooledAxis& columns_;
  const bool has_divisor_;
  const int64_t most_;
  Range loaded_{0, 0};            // the range in shares_
  Range windows_{0, 0};           // the windows of it that exist
  std::vector<float> divisors_;   // the columns' factor
  bool is_divisor_same_ = false;  // for all of them
  Range divided_{0, 0};           // the windows that these belong to
  Scratch<Sum> memory_;
  Sum* const shares_;
};

}  // namespace
}  // namespace acl_host
