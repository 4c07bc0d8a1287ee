// The rows of the weight are divided into tiles whose sums stay in the cache. For each, all indices are looked through:
// there are few beside the elements of their rows, and sorting them would take memory.
#include "computation.h"

#include <algorithm>
#include <string>
#include <vector>

#include "plan/tiles.h"

namespace acl_host {
namespace {

constexpr int64_t kTileElements = 131072;

template <typename Index>
[[nodiscard]] int64_t IndexAt(const std::byte* indices, int64_t position) {
  return static_cast<int64_t>(WidenElement<Index>(indices, position));
}

// Calls visit with the TypeTag of the type of the indices.
template <typename Visitor>
void VisitIndexType(aclDataType type, const Visitor& visit) {
  switch (type) {
    case ACL_INT64:
      return visit(TypeTag<int64_t>{});
    case ACL_INT32:
      return visit(TypeTag<int32_t>{});
    case ACL_INT16:
      return visit(TypeTag<int16_t>{});
    case ACL_INT8:
      return visit(TypeTag<int8_t>{});
    case ACL_UINT8:
    case ACL_BOOL:
      return visit(TypeTag<uint8_t>{});
    case ACL_DOUBLE:
      return visit(TypeTag<double>{});
    default:
      return VisitFloatType(type, visit);
  }
}

// A device would write out of bounds. Here it always faults.
template <typename Index>
void CheckIndices(const Embedding& embedding, const std::byte* indices) {
  for (int64_t i = 0; i < embedding.count; ++i) {
    const int64_t index = IndexAt<Index>(indices, i);
    if (0 <= index && index < embedding.weights) continue;
    throw Error(ACL_ERROR_RT_AICORE_EXCEPTION, "aclnnEmbeddingDenseBackward: indices: element " + std::to_string(i) +
                                                   " is " + std::to_string(index) + ", and there are " +
                                                   std::to_string(embedding.weights) + " rows");
  }
}

void AddTo(float* __restrict sums, const std::byte* __restrict row, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sums[i] += FloatAt(row, i);
}

struct Division {
  explicit Division(const Embedding& embedding)
      : width(std::min(embedding.columns, kTileElements)),
        rows(std::min(kTileElements / width, embedding.weights)),
        across((embedding.columns - 1) / width + 1),
        down((embedding.weights - 1) / rows + 1) {}

  int64_t width;  // of a tile
  int64_t rows;
  int64_t across;  // tiles
  int64_t down;
};

// Makes tiles of out, in one thread.
template <typename Index>
class Worker {
 public:
  Worker(const Embedding& embedding, const Launch& launch, const Division& division)
      : embedding_(embedding),
        launch_(launch),
        division_(division),
        grads_(launch, embedding.grad, division.width),
        sums_(division.rows * division.width),
        counts_(static_cast<size_t>(embedding.scales ? division.rows : 0)) {}

  void Make(int64_t tile) {
    const int64_t first = tile / division_.across * division_.rows;
    const int64_t rows = std::min(division_.rows, embedding_.weights - first);
    const int64_t left = tile % division_.across * division_.width;
    const int64_t width = std::min(division_.width, embedding_.columns - left);
    std::fill_n(sums_.data(), rows * width, 0.0F);
    std::fill(counts_.begin(), counts_.end(), 0);
    for (int64_t i = 0; i < embedding_.count; ++i) {
      const int64_t index = IndexAt<Index>(launch_.inputs[1], i);
      if (index < first || index >= first + rows || index == embedding_.padding) continue;
      AddTo(sums_.data() + (index - first) * width, grads_.Read(i * embedding_.columns + left, width), width);
      if (embedding_.scales) ++counts_[static_cast<size_t>(index - first)];
    }
    for (int64_t row = 0; row < rows; ++row) {
      float* const sums = sums_.data() + row * width;
      if (embedding_.scales) Divide(sums, width, counts_[static_cast<size_t>(row)]);
      Round(sums, launch_, embedding_.out, (first + row) * embedding_.columns + left, width);
    }
  }

 private:
  static void Divide(float* sums, int64_t width, int64_t count) {
    const auto divisor = static_cast<float>(std::max<int64_t>(count, 1));
    for (int64_t i = 0; i < width; ++i) sums[i] /= divisor;
  }

  const Embedding& embedding_;
  const Launch& launch_;
  const Division& division_;
  const Floats grads_;
  const Scratch<float> sums_;
  std::vector<int64_t> counts_;
};

template <typename Index>
void MakeAll(const Embedding& embedding, const Launch& launch) {
  CheckIndices<Index>(embedding, launch.inputs[1]);
  const Division division(embedding);
  const int64_t elements = embedding.count * embedding.columns + embedding.weights * embedding.columns;
  const int64_t scratch_bytes = division.rows * (division.width * kFloatBytes + int64_t{sizeof(int64_t)});
  const Tiles tiles{1, division.across * division.down, 1, 1};
  launch.pool.ParallelFor(tiles.count(), GrainOf(tiles, {elements, sizeof(uint16_t), scratch_bytes}),
                          [&](int64_t begin, int64_t end) {
                            Worker<Index> worker(embedding, launch, division);
                            for (int64_t tile = begin; tile < end; ++tile) worker.Make(tile);
                          });
}

}  // namespace

template <>
void EmbeddingDenseBackward<VECTOR_LEVEL>::Run(const Embedding& embedding, const Launch& launch) {
  VisitIndexType(embedding.index_type, [&](auto tag) { MakeAll<typename decltype(tag)::Type>(embedding, launch); });
}

}  // namespace acl_host
