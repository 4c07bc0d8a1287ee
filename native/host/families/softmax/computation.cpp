// All is computed in float32 and rounded once. The sums of a row are those of its parts, which begin at the same
// elements whatever the processor and the number of threads. A row of one part is read from memory once.
#include "families/softmax/computation.h"

#include <algorithm>

#include "families/softmax/formulas.h"

namespace acl_host {
namespace {

// What a thread takes at least, so that waking it is worth while.
constexpr int64_t kGrain = 32768;
// The elements of a block of whole rows that follow one another.
constexpr int64_t kBlock = 8192;

// Elements [first, first + count) of some rows that lie beside each other: from column `left` on, `width` of them.
struct Block {
  int64_t outer;
  int64_t first;
  int64_t count;
  int64_t left;
  int64_t width;
};

// What one thread does.
template <typename Gradient>
class Worker {
 public:
  Worker(const RowGradient& work, const Launch& launch, int64_t most)
      : work_(work),
        grads_(launch, work.grad_output, most),
        outputs_(launch, work.output, most),
        gradients_(launch, work.gradient, most),
        sums_(most) {}

  // Rows one behind the other, each of one part.
  void MakeRows(int64_t row, int64_t rows) {
    const int64_t length = work_.length;
    const std::byte* const grads = grads_.Read(row * length, rows * length);
    const std::byte* const outputs = outputs_.Read(row * length, rows * length);
    gradients_.Write(row * length, rows * length, [&](std::byte* to) {
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t offset = i * length * kFloatBytes;
        const float sum = SumRow(grads + offset, outputs + offset, length);
        MakeRow(grads + offset, outputs + offset, sum, length, to + offset);
      }
    });
  }

  // Rows beside each other, each of one part.
  void MakeColumns(const Block& block) {
    Sum(block, reinterpret_cast<std::byte*>(sums_.data()));
    Make(block, reinterpret_cast<const std::byte*>(sums_.data()));
  }

  // Adds up the elements of each row.
  void Sum(const Block& block, std::byte* sums) const {
    if (work_.inner == 1) {
      const int64_t at = At(block, block.first);
      StoreElement(sums, 0, SumRow(grads_.Read(at, block.count), outputs_.Read(at, block.count), block.count));
      return;
    }
    for (int64_t i = 0; i < block.width; ++i) StoreElement(sums, i, 0.0F);
    for (int64_t i = block.first; i < block.first + block.count; ++i) {
      const int64_t at = At(block, i);
      AddColumns(grads_.Read(at, block.width), outputs_.Read(at, block.width), block.width, sums);
    }
  }

  void Make(const Block& block, const std::byte* sums) const {
    if (work_.inner == 1) {
      const int64_t at = At(block, block.first);
      const std::byte* const grads = grads_.Read(at, block.count);
      const std::byte* const outputs = outputs_.Read(at, block.count);
      const float sum = FloatAt(sums, 0);
      gradients_.Write(at, block.count, [&](std::byte* to) { MakeRow(grads, outputs, sum, block.count, to); });
      return;
    }
    for (int64_t i = block.first; i < block.first + block.count; ++i) {
      const int64_t at = At(block, i);
      const std::byte* const grads = grads_.Read(at, block.width);
      const std::byte* const outputs = outputs_.Read(at, block.width);
      gradients_.Write(at, block.width, [&](std::byte* to) { MakeColumn(grads, outputs, sums, block.width, to); });
    }
  }

 private:
  [[nodiscard]] int64_t At(const Block& block, int64_t element) const {
    return (block.outer * work_.length + element) * work_.inner + block.left;
  }

  static float SumRow(const std::byte* grads, const std::byte* outputs, int64_t count) {
    return SumAlong(count, [&](int64_t i) { return Gradient::Term(FloatAt(grads, i), FloatAt(outputs, i)); });
  }

  static void MakeRow(const std::byte* __restrict grads, const std::byte* __restrict outputs, float sum, int64_t count,
                      std::byte* __restrict to) {
    for (int64_t i = 0; i < count; ++i) {
      StoreElement(to, i, Gradient::Cell(FloatAt(grads, i), FloatAt(outputs, i), sum));
    }
  }

  static void AddColumns(const std::byte* __restrict grads, const std::byte* __restrict outputs, int64_t count,
                         std::byte* __restrict sums) {
    for (int64_t i = 0; i < count; ++i) {
      StoreElement(sums, i, FloatAt(sums, i) + Gradient::Term(FloatAt(grads, i), FloatAt(outputs, i)));
    }
  }

  static void MakeColumn(const std::byte* __restrict grads, const std::byte* __restrict outputs,
                         const std::byte* __restrict sums, int64_t count, std::byte* __restrict to) {
    for (int64_t i = 0; i < count; ++i) {
      StoreElement(to, i, Gradient::Cell(FloatAt(grads, i), FloatAt(outputs, i), FloatAt(sums, i)));
    }
  }

  const RowGradient& work_;
  const Floats grads_;
  const Floats outputs_;
  const RoundedFloats gradients_;
  const Scratch<float> sums_;
};

// So many columns that a block's elements stay in the cache between the sum and the gradients.
int64_t WidthOf(const RowGradient& work) {
  const int64_t length = std::min(work.length, work.part_length());
  return std::min(work.inner, std::clamp<int64_t>(4 * kBlock / length, 64, 1024));
}

// Calls make(worker, block) for each part of the rows.
template <typename Gradient, typename MakeBlock>
void ForBlocks(const RowGradient& work, const Launch& launch, const MakeBlock& make) {
  const int64_t width = WidthOf(work);
  const int64_t length = std::min(work.length, work.part_length());
  const int64_t across = (work.inner - 1) / width + 1;
  const int64_t most = work.inner == 1 ? length : width;
  const int64_t grain = kGrain / (length * width) + 1;
  launch.pool.ParallelFor(work.outer * work.parts() * across, grain, [&](int64_t begin, int64_t end) {
    Worker<Gradient> worker(work, launch, most);
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

template <typename Gradient>
void MakeAll(const RowGradient& work, const Launch& launch) {
  if (work.parts() > 1) {
    const auto sums_of = [&](const Block& block, int64_t part) {
      return launch.scratch[0] + ((block.outer * work.parts() + part) * work.inner + block.left) * kFloatBytes;
    };
    ForBlocks<Gradient>(work, launch, [&](const Worker<Gradient>& worker, const Block& block) {
      worker.Sum(block, sums_of(block, block.first / work.part_length()));
    });
    AddParts(work, launch);
    ForBlocks<Gradient>(work, launch, [&](const Worker<Gradient>& worker, const Block& block) {
      worker.Make(block, sums_of(block, 0));
    });
  } else if (work.inner > 1) {
    ForBlocks<Gradient>(work, launch, [&](Worker<Gradient>& worker, const Block& block) { worker.MakeColumns(block); });
  } else {
    const int64_t rows = std::clamp<int64_t>(kBlock / work.length, 1, work.outer);
    launch.pool.ParallelFor((work.outer - 1) / rows + 1, kGrain / (rows * work.length) + 1,
                            [&](int64_t begin, int64_t end) {
                              Worker<Gradient> worker(work, launch, rows * work.length);
                              for (int64_t i = begin; i < end; ++i) {
                                worker.MakeRows(i * rows, std::min(rows, work.outer - i * rows));
                              }
                            });
  }
}

}  // namespace

template <>
void RowGradients<VECTOR_LEVEL>::Run(const RowGradient& work, const Launch& launch) {
  VisitGradient(work.function, [&](auto gradient) { MakeAll<decltype(gradient)>(work, launch); });
}

}  // namespace acl_host
