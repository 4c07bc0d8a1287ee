// All is computed in float32 and rounded once. The sums of a row are those of its parts, which begin at the same
// elements whatever the processor and the number of threads. A row of one part is read from memory once.
#include "families/softmax/computation.h"

#include <algorithm>
#include <array>

#include "families/softmax/formulas.h"

namespace acl_host {
namespace {

// What a thread takes at least, so that waking it is worth while.
constexpr int64_t kGrain = 32768;
// The elements of a block of rows beside each other.
constexpr int64_t kBlock = 32768;

// Elements [first, first + count) of some rows that lie beside each other: from column `left` on, `width` of them.
struct Block {
  int64_t outer;
  int64_t first;
  int64_t count;
  int64_t left;
  int64_t width;
};

// What one thread does. The inputs are of the type In, the gradient is of the type Out.
template <typename Gradient, typename In, typename Out>
class Worker {
 public:
  Worker(const RowGradient& work, const Launch& launch, int64_t most)
      : work_(work),
        grads_(launch.inputs[work.grad_output.index]),
        outputs_(launch.inputs[work.output.index]),
        gradients_(launch.outputs[work.gradient.index]),
        sums_(most),
        run_sums_(most) {}

  // Rows one behind the other, each of one part.
  void MakeRows(int64_t row, int64_t rows) const {
    for (int64_t i = row; i < row + rows; ++i) {
      const int64_t at = i * work_.length;
      MakeRow(at, work_.length, SumRow(at, work_.length));
    }
  }

  // Rows beside each other, each of one part.
  void MakeColumns(const Block& block) const {
    std::byte* const sums = reinterpret_cast<std::byte*>(sums_.data());
    Sum(block, sums);
    Make(block, sums);
  }

  // Adds up the elements of each row.
  void Sum(const Block& block, std::byte* sums) const {
    if (work_.inner == 1) return StoreElement(sums, 0, SumRow(At(block, block.first), block.count));
    Block run = block;
    run.count = std::min(block.count, kMostFloatAdditions);
    SumRun(run, sums);
    std::byte* const run_sums = reinterpret_cast<std::byte*>(run_sums_.data());
    while ((run.first += run.count) < block.first + block.count) {
      run.count = std::min(block.first + block.count - run.first, kMostFloatAdditions);
      SumRun(run, run_sums);
      AddTo(sums, block.width, [&](int64_t column, auto lanes) { return LoadLanes<float>(run_sums, column, lanes); });
    }
  }

  void Make(const Block& block, const std::byte* sums) const {
    if (work_.inner == 1) return MakeRow(At(block, block.first), block.count, FloatAt(sums, 0));
    for (int64_t i = block.first; i < block.first + block.count; ++i) {
      const int64_t at = At(block, i);
      ForLanes(block.width, [&](int64_t column, auto lanes) {
        MakeLanes(at + column, LoadLanes<float>(sums, column, lanes), lanes);
      });
    }
  }

 private:
  void SumRun(const Block& run, std::byte* sums) const {
    for (int64_t i = 0; i < run.width; ++i) StoreElement(sums, i, 0.0F);
    for (int64_t i = run.first; i < run.first + run.count; ++i) {
      const int64_t at = At(run, i);
      AddTo(sums, run.width, [&](int64_t column, auto lanes) { return Term(at + column, lanes); });
    }
  }

  template <typename Added>
  static void AddTo(std::byte* sums, int64_t width, const Added& added) {
    ForLanes(width, [&](int64_t column, auto lanes) {
      const FloatLanes before = LoadLanes<float>(sums, column, lanes);
      StoreLanes<float>(before + added(column, lanes), sums, column, lanes);
    });
  }

  [[nodiscard]] int64_t At(const Block& block, int64_t element) const {
    return (block.outer * work_.length + element) * work_.inner + block.left;
  }

  [[nodiscard]] float SumRow(int64_t first, int64_t count) const {
    const auto term = [&](int64_t i, auto lanes) { return std::array{Term(first + i, lanes)}; };
    return SumsAlong<1>(count, term)[0];
  }

  void MakeRow(int64_t first, int64_t count, float sum) const {
    ForLanes(count, [&](int64_t i, auto lanes) { MakeLanes(first + i, Filled(sum), lanes); });
  }

  template <typename Count>
  [[nodiscard]] FloatLanes Term(int64_t first, Count lanes) const {
    return Gradient::Term(LoadLanes<In>(grads_, first, lanes), LoadLanes<In>(outputs_, first, lanes));
  }

  template <typename Count>
  void MakeLanes(int64_t first, FloatLanes sums, Count lanes) const {
    const FloatLanes grads = LoadLanes<In>(grads_, first, lanes);
    StoreLanes<Out>(Gradient::Cell(grads, LoadLanes<In>(outputs_, first, lanes), sums), gradients_, first, lanes);
  }

  const RowGradient& work_;
  const std::byte* const grads_;
  const std::byte* const outputs_;
  std::byte* const gradients_;
  const Scratch<float> sums_;
  const Scratch<float> run_sums_;
};

// So many columns that a block's elements stay in the cache between the sum and the gradients.
int64_t WidthOf(const RowGradient& work) {
  const int64_t length = std::min(work.length, work.part_length());
  return std::min(work.inner, std::clamp<int64_t>(kBlock / length, 64, 1024));
}

// Calls make(worker, block) for each part of the rows.
template <typename Worker, typename MakeBlock>
void ForBlocks(const RowGradient& work, const Launch& launch, const MakeBlock& make) {
  const int64_t width = WidthOf(work);
  const int64_t length = std::min(work.length, work.part_length());
  const int64_t across = (work.inner - 1) / width + 1;
  const int64_t grain = kGrain / (length * width) + 1;
  launch.pool.ParallelFor(work.outer * work.parts() * across, grain, [&](int64_t begin, int64_t end) {
    const Worker worker(work, launch, width);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t left = i % across * width;
      const int64_t part = i / across % work.parts();
      const int64_t first = part * length;
      make(worker, Block{i / across / work.parts(), first, std::min(length, work.length - first), left,
                         std::min(width, work.inner - left)});
    }
  });
}

// Replaces the sum of each row's first part by that of all parts.
void AddParts(const RowGradient& work, const Launch& launch) {
  std::byte* const sums = launch.scratch[0];
  launch.pool.ParallelFor(work.outer * work.inner, kGrain / work.parts() + 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = row / work.inner * work.parts() * work.inner + row % work.inner;
      double sum = 0;
      for (int64_t part = 0; part < work.parts(); ++part) {
        sum += static_cast<double>(FloatAt(sums, first + part * work.inner));
      }
      StoreElement(sums, first, static_cast<float>(sum));
    }
  });
}

template <typename Worker>
void MakeAll(const RowGradient& work, const Launch& launch) {
  if (work.parts() > 1) {
    const auto sums_of = [&](const Block& block, int64_t part) {
      return launch.scratch[0] + ((block.outer * work.parts() + part) * work.inner + block.left) * kFloatBytes;
    };
    ForBlocks<Worker>(work, launch, [&](const Worker& worker, const Block& block) {
      worker.Sum(block, sums_of(block, block.first / work.part_length()));
    });
    AddParts(work, launch);
    ForBlocks<Worker>(work, launch,
                      [&](const Worker& worker, const Block& block) { worker.Make(block, sums_of(block, 0)); });
  } else if (work.inner > 1) {
    ForBlocks<Worker>(work, launch, [](const Worker& worker, const Block& block) { worker.MakeColumns(block); });
  } else {
    launch.pool.ParallelFor(work.outer, kGrain / work.length + 1,
                            [&](int64_t begin, int64_t end) { Worker(work, launch, 0).MakeRows(begin, end - begin); });
  }
}

}  // namespace

template <>
void RowGradients<VECTOR_LEVEL>::Run(const RowGradient& work, const Launch& launch) {
  VisitGradient(work.function, [&](auto gradient) {
    VisitFloatType(work.output.type, [&](auto in) {
      VisitFloatType(work.gradient.type, [&](auto out) {
        using Gradient = decltype(gradient);
        MakeAll<Worker<Gradient, typename decltype(in)::Type, typename decltype(out)::Type>>(work, launch);
      });
    });
  });
}

}  // namespace acl_host
