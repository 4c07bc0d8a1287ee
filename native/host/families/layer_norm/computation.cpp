// With normalised = (input - mean) * rstd and g = gradOut * weight, for each row
//
//   gradInput = rstd * (g - mean(g) - normalised * mean(g * normalised))
//
// and over all rows gradWeight = sum(gradOut * normalised), gradBias = sum(gradOut). Rows that were not centred (RMS
// norm) have neither mean nor mean(g).
//
// All is computed in float32 and rounded once, but for sums of sums, which are in float64. Sums along a row have a
// fixed number of lanes, and sums over rows are those of chunks of rows. Both orders depend on the shape alone, so the
// result depends neither on the vectors nor on the number of threads.
#include "families/layer_norm/computation.h"

#include <algorithm>
#include <vector>

#include "families/layer_norm/chunks.h"
#include "families/layer_norm/row_loops.h"
#include "families/rows/floats.h"
#include "plan/scratch.h"
#include "plan/tiles.h"
#include "tensors/elements.h"

namespace acl_host {
namespace {

// Where things are: the tile of a plane of one row is a part of it.
struct Layout {
  explicit Layout(const LayerNorm& norm)
      : parts(CountParts(norm)),
        width(std::min(norm.columns, kTileElements)),
        chunk_rows(RowsOfChunk(norm)),
        tile_rows(std::min(TileRows(norm), norm.rows)) {}

  // A multiple of kRowsTogether, unless it is less.
  static int64_t TileRows(const LayerNorm& norm) {
    const int64_t rows = std::max<int64_t>(kTileElements / norm.columns, 1);
    return rows < kRowsTogether ? rows : rows / kRowsTogether * kRowsTogether;
  }

  int64_t parts;
  int64_t width;
  int64_t chunk_rows;
  int64_t tile_rows;
};

// What both loops over the rows read, in one thread.
class Rows {
 public:
  Rows(const LayerNorm& norm, const KernelArguments& arguments)
      : norm_(norm),
        layout_(norm),
        grad_out_(arguments, norm.grad_out, layout_.tile_rows * layout_.width),
        input_(arguments, norm.input, layout_.tile_rows * layout_.width),
        mean_(arguments, norm.mean, layout_.tile_rows),
        rstd_(arguments, norm.rstd, layout_.tile_rows),
        weight_(arguments, norm.weight, layout_.width),
        rows_(static_cast<size_t>(layout_.tile_rows)) {}

  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] const std::byte* ReadWeight(const Tile& tile) const { return weight_.Read(tile.left, tile.width()); }

  // The tile's columns of some rows: all columns, or one row.
  [[nodiscard]] const std::vector<Row>& Read(const Tile& tile, int64_t first, int64_t count) {
    const int64_t begin = first * norm_.columns + tile.left;
    const std::byte* const grad_out = grad_out_.Read(begin, count * tile.width());
    const std::byte* const input = input_.Read(begin, count * tile.width());
    const std::byte* const mean = mean_.Read(first, count);
    const std::byte* const rstd = rstd_.Read(first, count);
    for (int64_t row = 0; row < count; ++row) {
      const int64_t offset = row * tile.width() * kFloatBytes;
      rows_[static_cast<size_t>(row)] = {grad_out + offset, input + offset, norm_.mean ? FloatAt(mean, row) : 0,
                                         FloatAt(rstd, row)};
    }
    return rows_;
  }

 private:
  const LayerNorm& norm_;
  const Layout layout_;
  const Floats grad_out_;
  const Floats input_;
  const Floats mean_;
  const Floats rstd_;
  const Floats weight_;
  std::vector<Row> rows_;
};

// The sums of long rows: each part's, then the rows' means in the place of the first part's.
class LongRowSums {
 public:
  LongRowSums(const LayerNorm& norm, const KernelArguments& arguments) : norm_(norm), parts_(CountParts(norm)) {
    if (NeedsRowSums(norm)) sums_ = arguments.scratch.front();
  }

  void Make(const KernelArguments& arguments, const TileWork& work) {
    const Tiles tiles{norm_.rows, 1, norm_.columns, kTileElements};
    ForTiles(arguments.pool, tiles, work, [&] { return Worker{*this, Rows(norm_, arguments)}; });
    for (int64_t row = 0; row < norm_.rows; ++row) {
      double g = 0;
      double g_normalised = 0;
      for (int64_t part = row * parts_; part < (row + 1) * parts_; ++part) {
        const auto sums = LoadElement<RowSums>(sums_, part);
        g += sums.g;
        g_normalised += sums.g_normalised;
      }
      const auto columns = static_cast<double>(norm_.columns);
      StoreElement<RowSums>(sums_, row * parts_,
                            {static_cast<float>(g / columns), static_cast<float>(g_normalised / columns)});
    }
  }

  [[nodiscard]] RowSums MeansOf(int64_t row) const { return LoadElement<RowSums>(sums_, row * parts_); }

 private:
  struct Worker {
    void SetTile(const Tile&) {}
    int64_t MakeRows(const Tile& tile, int64_t, int64_t) {
      const Row& row = rows.Read(tile, tile.plane, 1)[0];
      StoreElement(of.sums_, tile.plane * of.parts_ + tile.left / kTileElements,
                   SumRow(row, rows.ReadWeight(tile), tile.width()));
      return 1;
    }

    const LongRowSums& of;
    Rows rows;
  };

  const LayerNorm& norm_;
  const int64_t parts_;
  std::byte* sums_ = nullptr;
};

// Makes the gradients of some rows, and the sums of their columns; a plane of the tiles is a chunk of rows.
class Chunks {
 public:
  Chunks(const LayerNorm& norm, const KernelArguments& arguments, const LongRowSums& long_rows)
      : norm_(norm),
        arguments_(arguments),
        long_rows_(long_rows),
        rows_(norm, arguments),
        rounded_(norm.grad_input && norm.grad_input->type != ACL_FLOAT ? rows_.layout().width : 0),
        only_sums_(norm.sums_columns() && !NeedsColumnSums(norm) ? 2 * rows_.layout().width : 0) {}

  void SetTile(const Tile&) {}

  int64_t MakeRows(const Tile& tile, int64_t, int64_t) {
    const Layout& layout = rows_.layout();
    const std::byte* const weight = rows_.ReadWeight(tile);
    const int64_t end = std::min((tile.plane + 1) * layout.chunk_rows, norm_.rows);
    if (norm_.sums_columns()) ClearSums(tile);
    for (int64_t first = tile.plane * layout.chunk_rows; first < end; first += layout.tile_rows) {
      const int64_t count = std::min(layout.tile_rows, end - first);
      const std::vector<Row>& rows = rows_.Read(tile, first, count);
      if (norm_.grad_input) MakeGradInputs(tile, rows, first, count, weight);
      if (norm_.sums_columns()) AddToSums(tile, rows, count);
    }
    if (norm_.sums_columns() && !NeedsColumnSums(norm_)) RoundSums(tile);
    return 1;
  }

 private:
  void MakeGradInputs(const Tile& tile, const std::vector<Row>& rows, int64_t first, int64_t count,
                      const std::byte* weight) {
    const FloatOperand& output = *norm_.grad_input;
    const auto columns = static_cast<float>(norm_.columns);
    for (int64_t i = 0; i < count; ++i) {
      const Row& row = rows[static_cast<size_t>(i)];
      RowSums means{};
      if (rows_.layout().parts > 1) {
        means = long_rows_.MeansOf(first + i);
      } else {
        means = SumRow(row, weight, tile.width());
        means = {means.g / columns, means.g_normalised / columns};
      }
      if (!norm_.mean) means.g = 0;
      const int64_t begin = (first + i) * norm_.columns + tile.left;
      if (output.type == ACL_FLOAT) {
        MakeGradInput(row, weight, means, tile.width(), arguments_.outputs[output.index] + begin * kFloatBytes);
      } else {
        MakeGradInput(row, weight, means, tile.width(), reinterpret_cast<std::byte*>(rounded_.data()));
        Round(rounded_.data(), arguments_, output, begin, tile.width());
      }
    }
  }

  // Of the weight's gradient (0), or the bias's (1). The sums of a single chunk are already those of all rows.
  [[nodiscard]] std::byte* SumsOf(const Tile& tile, int64_t which) const {
    if (!NeedsColumnSums(norm_)) {
      return reinterpret_cast<std::byte*>(only_sums_.data() + which * rows_.layout().width);
    }
    return arguments_.scratch.back() + ((tile.plane * 2 + which) * norm_.columns + tile.left) * kFloatBytes;
  }

  void ClearSums(const Tile& tile) {
    for (const int64_t which : {0, 1}) std::fill_n(SumsOf(tile, which), tile.width() * kFloatBytes, std::byte{});
  }

  void AddToSums(const Tile& tile, const std::vector<Row>& rows, int64_t count) {
    std::byte* const weight_sums = SumsOf(tile, 0);
    std::byte* const bias_sums = SumsOf(tile, 1);
    int64_t i = 0;
    for (; i + kRowsTogether <= count; i += kRowsTogether)
      AddFourColumns(&rows[static_cast<size_t>(i)], tile.width(), weight_sums, bias_sums);
    for (; i < count; ++i) AddColumns(rows[static_cast<size_t>(i)], tile.width(), weight_sums, bias_sums);
  }

  void RoundSums(const Tile& tile) const {
    const float* const sums = only_sums_.data();
    const int64_t width = rows_.layout().width;
    if (norm_.grad_weight) Round(sums, arguments_, *norm_.grad_weight, tile.left, tile.width());
    if (norm_.grad_bias) Round(sums + width, arguments_, *norm_.grad_bias, tile.left, tile.width());
  }

  const LayerNorm& norm_;
  const KernelArguments& arguments_;
  const LongRowSums& long_rows_;
  Rows rows_;
  const Scratch<float> rounded_;
  const Scratch<float> only_sums_;
};

// Adds up the sums of all chunks.
class ColumnSums {
 public:
  ColumnSums(const LayerNorm& norm, const KernelArguments& arguments)
      : norm_(norm), arguments_(arguments), sums_(std::min(norm.columns, kTileElements)) {}

  void SetTile(const Tile&) {}

  int64_t MakeRows(const Tile& tile, int64_t, int64_t) {
    if (norm_.grad_weight) Make(tile, 0, *norm_.grad_weight);
    if (norm_.grad_bias) Make(tile, 1, *norm_.grad_bias);
    return 1;
  }

 private:
  void Make(const Tile& tile, int64_t which, const FloatOperand& output) {
    const auto sums_of = [&](int64_t chunk) {
      return arguments_.scratch.back() + ((chunk * 2 + which) * norm_.columns + tile.left) * kFloatBytes;
    };
    WidenRow<float>(sums_of(0), sums_.data(), tile.width());
    for (int64_t chunk = 1; chunk < CountChunks(norm_); ++chunk) {
      AddRow<float>(sums_of(chunk), tile.width(), sums_.data());
    }
    Round(sums_.data(), arguments_, output, tile.left, tile.width());
  }

  const LayerNorm& norm_;
  const KernelArguments& arguments_;
  Scratch<double> sums_;
};

}  // namespace

template <>
void LayerNormBackward<VECTOR_LEVEL>::Run(const LayerNorm& norm, const KernelArguments& arguments) {
  const int64_t elements = norm.rows * norm.columns;
  const int64_t most_elements = std::min(elements, kTileElements);
  const TileWork work{3 * elements, sizeof(uint16_t), 6 * most_elements * kFloatBytes};
  LongRowSums long_rows(norm, arguments);
  if (NeedsRowSums(norm)) long_rows.Make(arguments, work);
  const Tiles tiles{CountChunks(norm), 1, norm.columns, kTileElements};
  ForTiles(arguments.pool, tiles, work, [&] { return Chunks(norm, arguments, long_rows); });
  if (!NeedsColumnSums(norm)) return;
  const TileWork sums_work{2 * norm.columns * CountChunks(norm), kFloatBytes, most_elements * int64_t{sizeof(double)}};
  ForTiles(arguments.pool, {1, 1, norm.columns, kTileElements}, sums_work, [&] { return ColumnSums(norm, arguments); });
}

}  // namespace acl_host
