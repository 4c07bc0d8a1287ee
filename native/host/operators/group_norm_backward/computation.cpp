// With normalised = (input - mean) * rstd and g = gradOut * gamma, for each group of a sample
//
//   gradInput = rstd * (g - mean(g) - normalised * mean(g * normalised))
//
// and for each channel gradGamma = sum(gradOut * normalised), gradBeta = sum(gradOut).
//
// All follow from the two sums of each channel of a sample, which are those of its parts. Sums are float32 within a
// part and float64 beyond, in an order that depends on the shape alone.
#include "computation.h"

#include <algorithm>
#include <array>

namespace acl_host {
namespace {

struct Sums {
  float grad;
  float product;  // of gradOut and the normalised input
};

// What one thread does. A plane is a channel of a sample. T is the type of gradOut, the input and its gradient.
template <typename T>
class Worker {
 public:
  Worker(const GroupNorm& norm, const KernelArguments& arguments)
      : norm_(norm),
        grads_(arguments.inputs[norm.grad_out.index]),
        inputs_(arguments.inputs[norm.input.index]),
        means_(arguments, norm.mean, 1),
        rstds_(arguments, norm.rstd, 1),
        gammas_(arguments, norm.gamma, 1),
        gradients_(norm.grad_input ? arguments.outputs[norm.grad_input->index] : nullptr),
        sums_(norm.keeps_sums() ? arguments.scratch.front() : nullptr),
        group_means_(arguments.scratch.back()),
        group_sums_(norm.has_small_groups() ? norm.channels_of_group() : 0) {}

  // Makes a group of each sample of a chunk, and the sums of its channels over the chunk.
  void MakeGroups(int64_t chunk, int64_t group) const {
    const int64_t planes = norm_.channels_of_group();
    const int64_t end = std::min((chunk + 1) * norm_.chunk_samples(), norm_.samples);
    for (int64_t sample = chunk * norm_.chunk_samples(); sample < end; ++sample) {
      const int64_t first = (sample * norm_.groups + group) * planes;
      Totals totals;
      for (int64_t i = 0; i < planes; ++i) {
        group_sums_.data()[i] = SumOfPart(first + i, 0);
        totals.Add(GammaOf(first + i), group_sums_.data()[i].grad, group_sums_.data()[i].product);
      }
      const int64_t sums = chunk * norm_.channels + group * planes;
      const bool is_first = sample == chunk * norm_.chunk_samples();
      for (int64_t i = 0; i < planes; ++i) {
        const Sums before = is_first ? Sums{0, 0} : LoadElement<Sums>(sums_, sums + i);
        const Sums more = group_sums_.data()[i];
        StoreElement<Sums>(sums_, sums + i, {before.grad + more.grad, before.product + more.product});
      }
      if (!norm_.grad_input) continue;
      const Sums means = totals.Mean(planes * norm_.area);
      for (int64_t i = 0; i < planes; ++i) MakePart(first + i, 0, means);
    }
  }

  void SumPart(int64_t plane, int64_t part) const {
    StoreElement(sums_, plane * norm_.parts() + part, SumOfPart(plane, part));
  }

  // Of a channel of a sample, after FoldGroup.
  [[nodiscard]] Sums SumsOf(int64_t plane) const {
    return norm_.keeps_sums() ? LoadElement<Sums>(sums_, plane * norm_.parts()) : SumOfPart(plane, 0);
  }

  // Replaces the sums of the first part of each plane of a group by those of the plane, and finds the group's means.
  void FoldGroup(int64_t group) const {
    const int64_t planes = norm_.channels_of_group();
    Totals totals;
    for (int64_t plane = group * planes; plane < (group + 1) * planes; ++plane) {
      if (!norm_.keeps_sums()) {
        const Sums sums = SumOfPart(plane, 0);
        totals.Add(GammaOf(plane), sums.grad, sums.product);
        continue;
      }
      double grad = 0;
      double product = 0;
      for (int64_t part = plane * norm_.parts(); part < (plane + 1) * norm_.parts(); ++part) {
        const auto sums = LoadElement<Sums>(sums_, part);
        grad += static_cast<double>(sums.grad);
        product += static_cast<double>(sums.product);
      }
      StoreElement<Sums>(sums_, plane * norm_.parts(), {static_cast<float>(grad), static_cast<float>(product)});
      totals.Add(GammaOf(plane), grad, product);
    }
    StoreElement(group_means_, group, totals.Mean(planes * norm_.area));
  }

  void MakePart(int64_t plane, int64_t part) const {
    MakePart(plane, part, LoadElement<Sums>(group_means_, GroupOf(plane)));
  }

 private:
  struct Normal {
    float mean;
    float rstd;
  };

  // Over the channels of a group, each times its gamma.
  struct Totals {
    void Add(float gamma, double channel_grad, double channel_product) {
      grad += static_cast<double>(gamma) * channel_grad;
      product += static_cast<double>(gamma) * channel_product;
    }
    [[nodiscard]] Sums Mean(int64_t count) const {
      const auto elements = static_cast<double>(count);
      return {static_cast<float>(grad / elements), static_cast<float>(product / elements)};
    }

    double grad = 0;
    double product = 0;
  };

  [[nodiscard]] Sums SumOfPart(int64_t plane, int64_t part) const {
    const int64_t count = CountOf(part);
    const int64_t at = PlaceOf(plane, part);
    const Normal normal = NormalOf(plane);
    const auto [grad, product] = SumsAlong<2>(count, [&](int64_t i, auto lanes) {
      const FloatLanes grads = LoadLanes<T>(grads_ + at, i, lanes);
      return std::array{grads, grads * ((LoadLanes<T>(inputs_ + at, i, lanes) - normal.mean) * normal.rstd)};
    });
    return {grad, product};
  }

  void MakePart(int64_t plane, int64_t part, const Sums means) const {
    const int64_t at = PlaceOf(plane, part);
    const Normal normal = NormalOf(plane);
    const float gamma = GammaOf(plane);
    ForLanes(CountOf(part), [&](int64_t i, auto lanes) {
      const FloatLanes normalised = (LoadLanes<T>(inputs_ + at, i, lanes) - normal.mean) * normal.rstd;
      const FloatLanes grads = LoadLanes<T>(grads_ + at, i, lanes) * gamma;
      StoreLanes<T>(normal.rstd * (grads - means.grad - normalised * means.product), gradients_ + at, i, lanes);
    });
  }

  [[nodiscard]] int64_t PlaceOf(int64_t plane, int64_t part) const {
    return (plane * norm_.area + part * kRowPart) * int64_t{sizeof(T)};
  }
  [[nodiscard]] int64_t CountOf(int64_t part) const { return std::min(kRowPart, norm_.area - part * kRowPart); }
  [[nodiscard]] int64_t GroupOf(int64_t plane) const { return plane / norm_.channels_of_group(); }
  [[nodiscard]] float GammaOf(int64_t plane) const {
    return FloatAt(gammas_.Read(norm_.gamma ? plane % norm_.channels : 0, 1), 0);
  }
  [[nodiscard]] Normal NormalOf(int64_t plane) const {
    return {FloatAt(means_.Read(GroupOf(plane), 1), 0), FloatAt(rstds_.Read(GroupOf(plane), 1), 0)};
  }

  const GroupNorm& norm_;
  const std::byte* const grads_;
  const std::byte* const inputs_;
  const Floats means_;
  const Floats rstds_;
  const Floats gammas_;
  std::byte* const gradients_;
  std::byte* const sums_;
  std::byte* const group_means_;
  const Scratch<Sums> group_sums_;
};

// Calls act(worker, unit) for units of so many elements.
template <typename T, typename Act>
void ForUnits(const GroupNorm& norm, const KernelArguments& arguments, int64_t units, int64_t elements,
              const Act& act) {
  arguments.pool.ParallelFor(units, Grain(elements), [&](int64_t begin, int64_t end) {
    const Worker<T> worker(norm, arguments);
    for (int64_t unit = begin; unit < end; ++unit) act(worker, unit);
  });
}

template <typename T>
void MakeAll(const GroupNorm& norm, const KernelArguments& arguments) {
  if (norm.has_small_groups()) {
    const int64_t elements = norm.chunk_samples() * norm.channels_of_group() * norm.area;
    ForUnits<T>(norm, arguments, norm.chunks() * norm.groups, elements, [&](const Worker<T>& worker, int64_t unit) {
      worker.MakeGroups(unit / norm.groups, unit % norm.groups);
    });
    return;
  }
  const int64_t parts = norm.parts();
  const int64_t elements = std::min(norm.area, kRowPart);
  if (norm.keeps_sums()) {
    ForUnits<T>(norm, arguments, norm.planes() * parts, elements,
                [&](const Worker<T>& worker, int64_t unit) { worker.SumPart(unit / parts, unit % parts); });
  }
  ForUnits<T>(norm, arguments, norm.samples * norm.groups, norm.channels_of_group() * parts,
              [&](const Worker<T>& worker, int64_t unit) { worker.FoldGroup(unit); });
  if (!norm.grad_input) return;
  ForUnits<T>(norm, arguments, norm.planes() * parts, elements,
              [&](const Worker<T>& worker, int64_t unit) { worker.MakePart(unit / parts, unit % parts); });
}

// Adds up a sum of each channel over the chunks or the samples.
template <typename T>
void AddChannels(const GroupNorm& norm, const KernelArguments& arguments, const FloatOperand& output,
                 float Sums::* sum) {
  const int64_t count = norm.has_small_groups() ? norm.chunks() : norm.samples;
  ForUnits<T>(norm, arguments, norm.channels, count, [&](const Worker<T>& worker, int64_t channel) {
    double all = 0;
    for (int64_t i = 0; i < count; ++i) all += static_cast<double>(worker.SumsOf(i * norm.channels + channel).*sum);
    const auto rounded = static_cast<float>(all);
    Round(&rounded, arguments, output, channel, 1);
  });
}

}  // namespace

template <>
void GroupNormBackward<VECTOR_LEVEL>::Run(const GroupNorm& norm, const KernelArguments& arguments) {
  VisitFloatType(norm.grad_out.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    MakeAll<T>(norm, arguments);
    if (norm.grad_gamma) AddChannels<T>(norm, arguments, *norm.grad_gamma, &Sums::product);
    if (norm.grad_beta) AddChannels<T>(norm, arguments, *norm.grad_beta, &Sums::grad);
  });
}

}  // namespace acl_host
