// What results of a depthwise convolution read, packed as float32 with zeros around.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "families/convolution/depthwise.h"
#include "families/convolution/depthwise_rows.h"
#include "tensors/axes.h"

namespace acl_host {
namespace {

// Some results of a plane, of each phase.
struct Box {
  std::array<int64_t, kConvolvedAxes> first;
  std::array<int64_t, kConvolvedAxes> count;  // of the phase that has most
};

Box BoxAt(const Depthwise& depthwise, int64_t index) {
  Box box{};
  for (size_t i = kConvolvedAxes; i-- > 0;) {
    const DepthwiseAxis& axis = depthwise.axes[i];
    box.first[i] = index % axis.boxes * axis.box;
    box.count[i] = std::min(axis.box, (axis.results + axis.step - 1) / axis.step - box.first[i]);
    index /= axis.boxes;
  }
  return box;
}

template <typename T>
class BoxPacking {
 public:
  explicit BoxPacking(const Depthwise& depthwise) : depthwise_(depthwise) {}

  // Packs what a box reads of a plane, with memory for a row. Behind each plane there is a vector of zeros.
  void Pack(const std::byte* from, const ConvolvedStrides& strides, const Box& box, float* row_memory,
            float* to) const {
    const auto& axes = depthwise_.axes;
    const int64_t pitch = depthwise_.row_floats();
    const auto x_residues = static_cast<int64_t>(axes[2].residues.size());
    const int64_t rows = box.count[1] + axes[1].more;
    // All residues of a row at a time.
    const DepthwiseAxis& along = axes[2];
    const int64_t first = box.first[2] * along.source_step + along.source_first;
    const int64_t positions = (box.count[2] + along.more) * along.source_step;
    const int64_t begin = std::clamp<int64_t>(-first, 0, positions);
    const Part x{begin, std::clamp(along.source - first, begin, positions), first + begin};
    for (const int64_t z_residue : axes[0].residues) {
      const Part of_z = PartOf(axes[0], box.first[0], box.count[0], z_residue);
      for (const int64_t y_residue : axes[1].residues) {
        const Part of_y = PartOf(axes[1], box.first[1], box.count[1], y_residue);
        for (int64_t z = 0; z < box.count[0] + axes[0].more; ++z) {
          float* const plane = to + z * depthwise_.plane_floats;
          const bool is_inside = of_z.begin <= z && z < of_z.end;
          const Range inside = is_inside ? Range{of_y.begin, of_y.end} : Range{rows, rows};
          PackZeroRows(plane, x_residues, inside.begin * pitch);
          const std::byte* row = from + ((of_z.place + (z - of_z.begin) * axes[0].source_step) * strides.axes[0] +
                                         of_y.place * strides.axes[1] + x.place * strides.axes[2]) *
                                            kBytes;
          for (int64_t y = inside.begin; y < inside.end; ++y) {
            PackRow(row, strides.axes[2], x, row_memory, plane + y * pitch);
            row += axes[1].source_step * strides.axes[1] * kBytes;
          }
          PackZeroRows(plane + inside.end * pitch, x_residues, (rows - inside.end) * pitch);
          PackZeroRows(plane + rows * pitch, x_residues, kFloatLanes);
        }
        to += depthwise_.residue_floats * x_residues;
      }
    }
  }

 private:
  static constexpr int64_t kBytes = sizeof(T);

  // Of what is packed along an axis, what lies inside of the source; from there on in steps of source_step.
  struct Part {
    int64_t begin;
    int64_t end;
    int64_t place;  // of the first one in the source
  };

  [[nodiscard]] static Part PartOf(const DepthwiseAxis& axis, int64_t result, int64_t count, int64_t residue) {
    const int64_t first = result * axis.source_step + residue + axis.source_first;
    const int64_t packed = count + axis.more;
    const int64_t begin = first < 0 ? std::min(packed, (axis.source_step - 1 - first) / axis.source_step) : 0;
    const int64_t end = std::clamp((axis.source - first + axis.source_step - 1) / axis.source_step, begin, packed);
    return {begin, end, first + begin * axis.source_step};
  }

  void PackZeroRows(float* to, int64_t x_residues, int64_t count) const {
    for (int64_t i = 0; i < x_residues; ++i) PackZeros(count, to + i * depthwise_.residue_floats);
  }

  // Each residue of a row.
  void PackRow(const std::byte* from, int64_t stride, const Part& part, float* row, float* to) const {
    const DepthwiseAxis& axis = depthwise_.axes[2];
    const int64_t packed = axis.packed() * axis.source_step;
    float* const whole = axis.source_step == 1 ? to : row;
    PackZeros(part.begin, whole);
    PackElements<T>(from, stride, part.end - part.begin, whole + part.begin);
    PackZeros(packed - part.end, whole + part.end);
    if (axis.source_step == 1) return;
    if (axis.source_step == 2 && axis.residues.size() == 2) {
      return Split(row, axis.packed(), to, to + depthwise_.residue_floats);
    }
    for (const int64_t residue : axis.residues) {
      for (int64_t i = 0; i < axis.packed(); ++i) to[i] = row[i * axis.source_step + residue];
      to += depthwise_.residue_floats;
    }
  }

  const Depthwise& depthwise_;
};

}  // namespace
}  // namespace acl_host
