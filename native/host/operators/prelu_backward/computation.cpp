// Sums are of parts that do not depend on the number of threads: short ones in float32, and sums of these in float64.
#include "computation.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "families/rows/floats.h"
#include "plan/scratch.h"
#include "tensors/lanes.h"
#include "tensors/rows.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

template <typename T>
class PreluRows {
 public:
  explicit PreluRows(const KernelArguments& arguments)
      : grads_(arguments.inputs[0]), x_(arguments.inputs[1]), gradient_(arguments.outputs[0]) {}

  // Writes the gradients of elements, and returns what they add to those of the weights.
  template <typename Count>
  [[nodiscard]] FloatLanes Make(int64_t at, FloatLanes weights, Count lanes) const {
    const FloatLanes grads = LoadLanes<T>(grads_, at, lanes);
    const FloatLanes x = LoadLanes<T>(x_, at, lanes);
    StoreLanes<T>(x > 0.0F ? grads : weights * grads, gradient_, at, lanes);
    return x > 0.0F ? FloatLanes{} : x * grads;
  }

 private:
  const std::byte* const grads_;
  const std::byte* const x_;
  std::byte* const gradient_;
};

// Runs of one channel: each part has a float32 in the scratch.
template <typename T>
void MakeRuns(const Prelu& prelu, const KernelArguments& arguments) {
  const PreluRows<T> rows(arguments);
  std::byte* const sums = arguments.scratch[0];
  const int64_t parts = prelu.run_parts();
  const int64_t runs = prelu.samples * prelu.channels;
  arguments.pool.ParallelFor(runs * parts, Grain(std::min(prelu.cells, kRowPart)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t run = i / parts;
      const int64_t first = i % parts * kRowPart;
      const FloatLanes weights = Filled(WidenElement<T>(arguments.inputs[2], run % prelu.channels));
      const auto term = [&](int64_t at, auto lanes) {
        return std::array{rows.Make(run * prelu.cells + first + at, weights, lanes)};
      };
      StoreElement(sums, i, SumsAlong<1>(std::min(kRowPart, prelu.cells - first), term)[0]);
    }
  });
  arguments.pool.ParallelFor(prelu.channels, Grain(prelu.samples * parts), [&](int64_t begin, int64_t end) {
    for (int64_t channel = begin; channel < end; ++channel) {
      double sum = 0;
      for (int64_t i = 0; i < prelu.samples * parts; ++i) {
        sum += double{FloatAt(sums, (i / parts * prelu.channels + channel) * parts + i % parts)};
      }
      RoundElement<T>(arguments.outputs[1], channel, static_cast<float>(sum));
    }
  });
}

// Some columns of rows.
template <typename T>
class Columns {
 public:
  Columns(const Prelu& prelu, const KernelArguments& arguments)
      : prelu_(prelu),
        arguments_(arguments),
        rows_(arguments),
        weights_(prelu.block()),
        sums_(prelu.block()),
        whole_sums_(prelu.has_whole_sums() ? prelu.block() : 0) {}

  // Makes a block, whose sums are those of its channels.
  void MakeWhole(int64_t block) const {
    const int64_t left = block * prelu_.block();
    Make(0, left, whole_sums_.data());
    const int64_t first = left / prelu_.cells;
    const int64_t count = std::min(prelu_.columns() - left, prelu_.block()) / prelu_.cells;
    for (int64_t i = 0; i < count; ++i) {
      const double* const cells = whole_sums_.data() + i * prelu_.cells;
      RoundElement<T>(arguments_.outputs[1], first + i,
                      static_cast<float>(std::accumulate(cells, cells + prelu_.cells, 0.0)));
    }
  }

  // Makes the columns of a band from this one on, and their sums.
  void Make(int64_t band, int64_t left, double* sums) const {
    const int64_t columns = prelu_.columns();
    const int64_t width = std::min(columns - left, prelu_.block());
    for (int64_t i = 0; i < width; ++i) {
      const int64_t channel = (left + i) / prelu_.cells % prelu_.channels;
      weights_.data()[i] = WidenElement<T>(arguments_.inputs[2], channel);
    }
    std::fill_n(sums, width, 0.0);
    const int64_t end = std::min((band + 1) * prelu_.rows_of_band(), prelu_.rows());
    for (int64_t row = band * prelu_.rows_of_band(); row < end; row += kMostFloatAdditions) {
      std::fill_n(sums_.data(), width, 0.0F);
      for (int64_t each = row; each < std::min(row + kMostFloatAdditions, end); ++each) {
        // The last row may be shorter.
        const int64_t first = each * columns + left;
        AddRow(first, std::min(width, prelu_.elements() - first));
      }
      for (int64_t i = 0; i < width; ++i) sums[i] += double{sums_.data()[i]};
    }
  }

 private:
  void AddRow(int64_t first, int64_t count) const {
    std::byte* const sums = sums_.bytes();
    ForLanes(count, [&](int64_t i, auto lanes) {
      const FloatLanes added = rows_.Make(first + i, LoadLanes<float>(weights_.bytes(), i, lanes), lanes);
      StoreLanes<float>(LoadLanes<float>(sums, i, lanes) + added, sums, i, lanes);
    });
  }

  const Prelu& prelu_;
  const KernelArguments& arguments_;
  const PreluRows<T> rows_;
  const Scratch<float> weights_;
  const Scratch<float> sums_;
  const Scratch<double> whole_sums_;
};

// Short runs: each column of a band has a float64 in the scratch.
template <typename T>
void MakeColumns(const Prelu& prelu, const KernelArguments& arguments) {
  const int64_t columns = prelu.columns();
  const int64_t grain = Grain(prelu.rows_of_band() * prelu.block());
  if (prelu.has_whole_sums()) {
    return arguments.pool.ParallelFor(prelu.blocks(), grain, [&](int64_t begin, int64_t end) {
      const Columns<T> made(prelu, arguments);
      for (int64_t block = begin; block < end; ++block) made.MakeWhole(block);
    });
  }
  auto* const sums = reinterpret_cast<double*>(arguments.scratch[0]);
  arguments.pool.ParallelFor(prelu.bands() * prelu.blocks(), grain, [&](int64_t begin, int64_t end) {
    const Columns<T> made(prelu, arguments);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t band = i / prelu.blocks();
      const int64_t left = i % prelu.blocks() * prelu.block();
      made.Make(band, left, sums + band * columns + left);
    }
  });
  const int64_t of_sample = prelu.channels * prelu.cells;
  const int64_t samples = prelu.bands() * prelu.samples_of_row();
  arguments.pool.ParallelFor(prelu.channels, Grain(samples * prelu.cells), [&](int64_t begin, int64_t end) {
    for (int64_t channel = begin; channel < end; ++channel) {
      double sum = 0;
      for (int64_t sample = 0; sample < samples; ++sample) {
        const double* const cells = sums + sample * of_sample + channel * prelu.cells;
        sum = std::accumulate(cells, cells + prelu.cells, sum);
      }
      RoundElement<T>(arguments.outputs[1], channel, static_cast<float>(sum));
    }
  });
}

}  // namespace

template <>
void PreluGradient<VECTOR_LEVEL>::Run(const Prelu& prelu, const KernelArguments& arguments) {
  VisitFloatType(prelu.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    prelu.has_runs() ? MakeRuns<T>(prelu, arguments) : MakeColumns<T>(prelu, arguments);
  });
}

}  // namespace acl_host
