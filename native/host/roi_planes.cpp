#include "roi_planes.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "elements.h"

namespace acl_host {
namespace {

// Half of a usual second-level cache.
constexpr int64_t kBandBytes = int64_t{512} << 10;

// Bands for threads to share, while a band is no lower than this: each costs the boxes across it another spread.
constexpr int64_t kBandsPerThread = 4;
constexpr int64_t kLowestBand = 16;

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// One number for each channel of a group.
template <int kLanes>
struct alignas(kLanes * sizeof(float)) Lanes {
  float values[kLanes];
};

template <int kLanes>
void AddScaled(Lanes<kLanes>& to, const Lanes<kLanes>& values, float weight) {
  Lanes<kLanes> sum = to;
  for (int lane = 0; lane < kLanes; ++lane) sum.values[lane] += weight * values.values[lane];
  to = sum;
}

template <int kLanes>
class BandSum {
 public:
  BandSum(const RoiPlanes& planes, const RoiBand& band, std::byte* sums, bool fresh)
      : roi_(planes.roi),
        planes_(planes),
        band_(band),
        fresh_(fresh),
        sums_(reinterpret_cast<Lanes<kLanes>*>(sums)),
        touched_(static_cast<size_t>(band.rows)) {}

  // Per row of bins, the bins are first spread along the columns, and that then along the rows.
  void Add(const RoiWeighted& box) {
    const int64_t last_row = band_.first_row + band_.rows;
    if (box.rows.cells_begin() >= last_row || box.rows.cells_end() <= band_.first_row) return;
    for (int64_t bin_row = 0; bin_row < roi_.pooled_height; ++bin_row) {
      bool spread = false;
      for (const RoiWeights::Share& share : box.rows.OfBin(bin_row)) {
        const int64_t cell = box.rows.cells()[static_cast<size_t>(share.slot)];
        if (cell < band_.first_row || cell >= last_row) continue;
        if (!spread) SpreadColumns(box, bin_row);
        spread = true;
        AddRow(cell - band_.first_row, box.columns.cells(), static_cast<float>(share.weight));
      }
    }
  }

  void Write() const {
    for (int64_t row = 0; row < band_.rows; ++row) {
      if (touched_[static_cast<size_t>(row)] == 0 && !fresh_) continue;
      for (int lane = 0; lane < band_.channels; ++lane) {
        std::byte* const out = RowOf(row, lane);
        if (touched_[static_cast<size_t>(row)] == 0) {
          std::memset(out, 0, static_cast<size_t>(roi_.width) * sizeof(float));
        } else {
          const Lanes<kLanes>* const sums = sums_ + row * roi_.width;
          for (int64_t x = 0; x < roi_.width; ++x) StoreElement(out, x, sums[x].values[lane]);
        }
      }
    }
  }

 private:
  void SpreadColumns(const RoiWeighted& box, int64_t bin_row) {
    spread_.assign(box.columns.cells().size(), {});
    for (int64_t bin = 0; bin < roi_.pooled_width; ++bin) {
      const RoiWeights::Shares shares = box.columns.OfBin(bin);
      if (shares.empty()) continue;
      const Lanes<kLanes> grad = LoadBin(box, bin_row, bin);
      for (const RoiWeights::Share& share : shares) {
        AddScaled(spread_[static_cast<size_t>(share.slot)], grad, static_cast<float>(share.weight));
      }
    }
  }

  // Each channel's gradient of a bin, for one sample.
  Lanes<kLanes> LoadBin(const RoiWeighted& box, int64_t bin_row, int64_t bin) const {
    const int64_t bins = roi_.pooled_height * roi_.pooled_width;
    const int64_t first = (box.index * roi_.channels + band_.first_channel) * bins + bin_row * roi_.pooled_width + bin;
    Lanes<kLanes> grad = {};
    if (band_.channels == kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) {
        grad.values[lane] = LoadElement<float>(planes_.grad_output, first + lane * bins);
      }
    } else {
      for (int lane = 0; lane < band_.channels; ++lane) {
        grad.values[lane] = LoadElement<float>(planes_.grad_output, first + lane * bins);
      }
    }
    for (float& value : grad.values) value /= box.divisor;
    return grad;
  }

  void AddRow(int64_t row, const std::vector<int64_t>& cells, float weight) {
    Lanes<kLanes>* const sums = sums_ + row * roi_.width;
    if (touched_[static_cast<size_t>(row)] == 0) {
      touched_[static_cast<size_t>(row)] = 1;
      BeginRow(row, sums);
    }
    for (size_t slot = 0; slot < cells.size(); ++slot) AddScaled(sums[cells[slot]], spread_[slot], weight);
  }

  void BeginRow(int64_t row, Lanes<kLanes>* sums) const {
    std::memset(static_cast<void*>(sums), 0, static_cast<size_t>(roi_.width) * sizeof(*sums));
    if (fresh_) return;
    for (int lane = 0; lane < band_.channels; ++lane) {
      const std::byte* const out = RowOf(row, lane);
      for (int64_t x = 0; x < roi_.width; ++x) sums[x].values[lane] = LoadElement<float>(out, x);
    }
  }

  [[nodiscard]] std::byte* RowOf(int64_t row, int lane) const {
    const int64_t plane = band_.image * roi_.channels + band_.first_channel + lane;
    return planes_.grad_input +
           static_cast<size_t>((plane * roi_.height + band_.first_row + row) * roi_.width) * sizeof(float);
  }

  const RoiAlign& roi_;
  const RoiPlanes& planes_;
  const RoiBand& band_;
  const bool fresh_;
  Lanes<kLanes>* const sums_;
  std::vector<uint8_t> touched_;       // rows of the band that have sums
  std::vector<Lanes<kLanes>> spread_;  // a row of bins, by slot of the box's columns
};

template <int kLanes>
void Add(const RoiPlanes& planes, const RoiBand& band, std::byte* sums, const RoiWeighted* boxes,
         const RoiWeighted* boxes_end, bool fresh) {
  BandSum<kLanes> sum(planes, band, sums, fresh);
  for (; boxes != boxes_end; ++boxes) sum.Add(*boxes);
  sum.Write();
}

}  // namespace

RoiBands DivideIntoBands(const RoiAlign& roi, int64_t threads) {
  const auto fits = [&](int64_t lanes) {
    return roi.width <= kBandBytes / (lanes * static_cast<int64_t>(sizeof(float)));
  };
  // A row that is too wide for the cache in many channels is as wide as many channels: then few do, and less memory.
  int64_t lanes = 1;
  if (roi.channels > 1 && fits(4)) lanes = 4;
  if (roi.channels > 4 && fits(16)) lanes = 16;
  RoiBands bands{lanes, DivideUp(roi.channels, lanes), 0, 0};
  const int64_t row_bytes = roi.width * lanes * static_cast<int64_t>(sizeof(float));
  const int64_t wanted = DivideUp(threads * kBandsPerThread, roi.images * bands.groups);
  const int64_t fair_rows = std::max(DivideUp(roi.height, wanted), kLowestBand);
  bands.rows = std::max<int64_t>(std::min({kBandBytes / row_bytes, fair_rows, roi.height}), 1);
  bands.bands = DivideUp(roi.height, bands.rows);
  return bands;
}

uint64_t RoiSumBytes(const RoiAlign& roi, const RoiBands& bands) {
  const auto bytes = static_cast<uint64_t>(bands.rows * roi.width * bands.lanes) * sizeof(float);
  return (bytes + kRoiSumAlignment - 1) / kRoiSumAlignment * kRoiSumAlignment;
}

RoiBand BandAt(const RoiAlign& roi, const RoiBands& bands, int64_t image, int64_t number) {
  const int64_t first_channel = number / bands.bands * bands.lanes;
  const int64_t first_row = number % bands.bands * bands.rows;
  return {image, first_channel, std::min(bands.lanes, roi.channels - first_channel), first_row,
          std::min(bands.rows, roi.height - first_row)};
}

void AddToBand(const RoiPlanes& planes, const RoiBand& band, int64_t lanes, std::byte* sums, const RoiWeighted* boxes,
               const RoiWeighted* boxes_end, bool fresh) {
  if (lanes == 16) return Add<16>(planes, band, sums, boxes, boxes_end, fresh);
  if (lanes == 4) return Add<4>(planes, band, sums, boxes, boxes_end, fresh);
  Add<1>(planes, band, sums, boxes, boxes_end, fresh);
}

}  // namespace acl_host
