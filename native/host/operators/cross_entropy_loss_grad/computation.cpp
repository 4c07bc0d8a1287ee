// With p = exp(logProb), the gradient of a sample is p * (own + shared * sum(weights)) - own at its class - shared *
// weights: own is what the loss has of its class, and shared what it has of every class.
#include "computation.h"

#include <algorithm>
#include <cstring>

#include "families/elementwise/maths.h"
#include "plan/tiles.h"
#include "tensors/lanes.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// The columns of a tile: threads share long rows.
constexpr int64_t kTileColumns = 16384;

// What the samples have in common.
struct Factors {
  double of_class;
  double of_all;
  double all_weights;
};

template <typename T, typename Target>
class Samples {
 public:
  Samples(const CrossEntropy& loss, const KernelArguments& arguments)
      : loss_(loss),
        grads_(arguments.inputs[0]),
        logs_(arguments.inputs[1]),
        targets_(arguments.inputs[2]),
        weights_(loss.has_weights ? arguments.inputs[3] : nullptr),
        gradient_(arguments.outputs[0]) {}

  // The sum of the weights of the targets of some samples.
  [[nodiscard]] double SumOfWeights(int64_t begin, int64_t end) const {
    double sum = 0;
    for (int64_t sample = begin; sample < end; ++sample) {
      if (const int64_t found = ClassOf<Target>(loss_.targets, targets_, sample); found >= 0) sum += WeightOf(found);
    }
    return sum;
  }

  [[nodiscard]] Factors FactorsFor(double total_weight) const {
    const double classes = static_cast<double>(loss_.targets.classes);
    double sum = classes;
    if (weights_ != nullptr && loss_.smoothing != 0) {
      sum = 0;
      for (int64_t each = 0; each < loss_.targets.classes; ++each) sum += WeightOf(each);
    }
    return {(1 - loss_.smoothing) / total_weight, loss_.smoothing / classes / total_weight, sum};
  }

  void SetFactors(const Factors& factors) { factors_ = factors; }
  void SetTile(const Tile&) {}

  int64_t MakeRows(const Tile& tile, int64_t sample, int64_t first_cell) {
    const int64_t found = ClassOf<Target>(loss_.targets, targets_, sample);
    if (found < 0) {
      std::memset(gradient_ + first_cell * int64_t{sizeof(T)}, 0, static_cast<size_t>(tile.width()) * sizeof(T));
      return 1;
    }
    const auto grad = double{WidenElement<T>(grads_, loss_.is_reduced ? 0 : sample)};
    const double own = grad * factors_.of_class * WeightOf(found);
    const double shared = loss_.smoothing == 0 ? 0 : grad * factors_.of_all;
    const auto own_share = static_cast<float>(own);
    const auto whole = static_cast<float>(own + shared * factors_.all_weights);
    const auto of_weight = static_cast<float>(shared);
    const int64_t place = found - tile.left;
    const std::byte* const weights = weights_;
    const std::byte* const logs = logs_;
    std::byte* const gradient = gradient_;
    ForLanes(tile.width(), [&](int64_t at, auto lanes) {
      const FloatLanes log = LoadLanes<T>(logs, first_cell + at, lanes);
      FloatLanes made = ExpNear<T, /*kIsSubtracted=*/true>(ExpBounded(log)) * whole;
      if (of_weight != 0) {
        made -= of_weight * (weights == nullptr ? Filled(1) : LoadLanes<float>(weights, tile.left + at, lanes));
      }
      if (at <= place && place < at + kFloatLanes) made[place - at] -= own_share;
      StoreLanes<T>(made, gradient, first_cell + at, lanes);
    });
    return 1;
  }

 private:
  [[nodiscard]] double WeightOf(int64_t of_class) const {
    return weights_ == nullptr ? 1 : double{LoadElement<float>(weights_, of_class)};
  }

  const CrossEntropy& loss_;
  const std::byte* const grads_;
  const std::byte* const logs_;
  const std::byte* const targets_;
  const std::byte* const weights_;
  std::byte* const gradient_;
  Factors factors_{};
};

template <typename T, typename Target>
void MakeAll(const CrossEntropy& loss, const KernelArguments& arguments) {
  Samples<T, Target> samples(loss, arguments);
  double total_weight = 1;
  if (loss.is_mean) {
    std::byte* const sums = arguments.scratch[0];
    arguments.pool.ParallelFor(loss.parts(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        const int64_t first = part * CrossEntropy::kPart;
        const int64_t last = std::min(first + CrossEntropy::kPart, loss.samples);
        StoreElement(sums, part, samples.SumOfWeights(first, last));
      }
    });
    total_weight = 0;
    for (int64_t part = 0; part < loss.parts(); ++part) total_weight += LoadElement<double>(sums, part);
  }
  samples.SetFactors(samples.FactorsFor(total_weight));
  const int64_t classes = loss.targets.classes;
  const Tiles tiles{1, loss.samples, classes, kTileColumns};
  const TileWork work{2 * loss.samples * classes, int64_t{sizeof(T)}, 0};
  ForTiles(arguments.pool, tiles, work, [&] { return samples; });
}

}  // namespace

template <>
void CrossEntropyGradient<VECTOR_LEVEL>::Run(const CrossEntropy& loss, const KernelArguments& arguments) {
  VisitFloatType(loss.type, [&](auto tag) {
    VisitTargetType(loss.targets.type, [&](auto target_tag) {
      MakeAll<typename decltype(tag)::Type, typename decltype(target_tag)::Type>(loss, arguments);
    });
  });
}

}  // namespace acl_host
