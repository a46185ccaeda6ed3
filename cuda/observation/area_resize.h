// SPDX-License-Identifier: Apache-2.0
// Image resize with the rounding of OpenCV's INTER_AREA for 8-bit images, the one that ale-py applies to every picture.
//
// Bit-exactness needs OpenCV's case distinction and its order of float operations, not only its mathematics:
//   both sizes equal                   copy
//   both factors 2                     (sum + 2) >> 2
//   both factors integer               round(sum * float(1 / area))
//   both factors >= 1                  weights = covered share of each cell (float32); a row is summed from left to
//                                      right, then the rows from top to bottom; round to nearest, ties to even
//   otherwise (one side grows)         two taps an axis in 11-bit fixed point
//
// A plan holds the weights of one size pair. It owns no memory: the caller keeps the arrays (host or device).
//
//   std::vector<AreaTap> taps(area_axis_capacity(210, 84)); std::vector<int32_t> first(84 + 1);
//   area_axis_build(210, 84, taps.data(), first.data());
//   out = area_resize_pixel(plan, PictureSource{pixels, 160, 1}, y, x, 0);
//
// Sources: OpenCV documentation of cv::resize; confirmed against ale-py 0.12.1 pixel by pixel (tests/envs).
#pragma once

#include <cmath>
#include <cstdint>

#include "portability.h"

namespace seed {

enum class ResizeRule : uint8_t { kCopy, kHalve, kIntegerFactors, kCoverage, kTwoTaps };

// One source cell and the share of the target cell that it covers.
struct AreaTap {
  int32_t source;
  float weight;
};

struct ResizePlan {
  ResizeRule rule;
  int32_t source_height, source_width;
  int32_t height, width;
  int32_t channels;            // interleaved
  const AreaTap* column_taps;  // of target column x: column_taps[column_first[x] .. column_first[x + 1])
  const int32_t* column_first;
  const AreaTap* row_taps;
  const int32_t* row_first;
};

// Cells thinner than this share of a source cell are dropped, as OpenCV does.
constexpr double kThinnestCell = 1e-3;
// Two-tap weights are multiples of 1 / 2048.
constexpr float kTwoTapScale = 2048.0f;

inline ResizeRule resize_rule(int source_height, int source_width, int height, int width) {
  if (height == source_height && width == source_width) return ResizeRule::kCopy;
  if (height > source_height || width > source_width) return ResizeRule::kTwoTaps;
  if (source_height == 2 * height && source_width == 2 * width) return ResizeRule::kHalve;
  if (source_height % height == 0 && source_width % width == 0) return ResizeRule::kIntegerFactors;
  return ResizeRule::kCoverage;
}

// Upper bound of an axis's number of taps.
inline int64_t area_axis_capacity(int source, int target) { return int64_t{source} + 2 * int64_t{target}; }

// Coverage weights of one axis.
inline void coverage_axis_build(int source, int target, AreaTap* taps, int32_t* first) {
  const double scale = double(source) / target;
  int32_t count = 0;
  for (int d = 0; d < target; ++d) {
    first[d] = count;
    const double begin = d * scale, end = begin + scale;
    const double cell = std::fmin(scale, source - begin);
    int whole_begin = int(std::ceil(begin));
    int whole_end = int(std::floor(end));
    if (whole_end > source - 1) whole_end = source - 1;
    if (whole_begin > whole_end) whole_begin = whole_end;
    if (whole_begin - begin > kThinnestCell) taps[count++] = {whole_begin - 1, float((whole_begin - begin) / cell)};
    for (int s = whole_begin; s < whole_end; ++s) taps[count++] = {s, float(1.0 / cell)};
    if (end - whole_end > kThinnestCell)
      taps[count++] = {whole_end, float(std::fmin(std::fmin(end - whole_end, 1.0), cell) / cell)};
  }
  first[target] = count;
}

// Two taps per target cell; weights are integers (multiples of 1 / 2048) stored as float.
inline void two_tap_axis_build(int source, int target, AreaTap* taps, int32_t* first) {
  const double inverse_scale = double(target) / source, scale = 1.0 / inverse_scale;
  for (int d = 0; d < target; ++d) {
    first[d] = 2 * d;
    int s = int(std::floor(d * scale));
    float share = float((d + 1) - (s + 1) * inverse_scale);
    share = share <= 0 ? 0.0f : share - std::floor(share);
    if (s >= source - 1) s = source - 1, share = 0;
    taps[2 * d] = {s, std::nearbyint((1.0f - share) * kTwoTapScale)};
    taps[2 * d + 1] = {s + 1 < source ? s + 1 : s, std::nearbyint(share * kTwoTapScale)};
  }
  first[target] = 2 * target;
}

// Builds the taps of one axis; `taps` has room for area_axis_capacity(), `first` for target + 1.
inline void area_axis_build(ResizeRule rule, int source, int target, AreaTap* taps, int32_t* first) {
  if (rule == ResizeRule::kTwoTaps) {
    two_tap_axis_build(source, target, taps, first);
  } else {
    coverage_axis_build(source, target, taps, first);
  }
}

SEED_HD inline uint8_t round_to_byte(float value) {
#if defined(__CUDA_ARCH__)
  const int rounded = __float2int_rn(value);
#else
  const int rounded = int(std::nearbyint(value));  // ties to even
#endif
  return uint8_t(rounded < 0 ? 0 : rounded > 255 ? 255 : rounded);
}

// a * b + c rounded twice: a fused operation would change the last bit.
SEED_HD inline float multiply_then_add(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(__fmul_rn(a, b), c);
#else
  return a * b + c;  // the CPU build has -ffp-contract=off
#endif
}

namespace resize_detail {

template <class Source>
SEED_HD inline int block_sum(const ResizePlan& plan, const Source& source, int y, int x, int channel) {
  const int rows = plan.source_height / plan.height, columns = plan.source_width / plan.width;
  int sum = 0;
  for (int j = 0; j < rows; ++j)
    for (int i = 0; i < columns; ++i) sum += source(y * rows + j, x * columns + i, channel);
  return sum;
}

template <class Source>
SEED_HD inline uint8_t coverage_pixel(const ResizePlan& plan, const Source& source, int y, int x, int channel) {
  float sum = 0;
  for (int j = plan.row_first[y]; j < plan.row_first[y + 1]; ++j) {
    const AreaTap row = plan.row_taps[j];
    float row_sum = 0;
    for (int i = plan.column_first[x]; i < plan.column_first[x + 1]; ++i) {
      const AreaTap column = plan.column_taps[i];
      row_sum = multiply_then_add(source(row.source, column.source, channel), column.weight, row_sum);
    }
    sum = multiply_then_add(row.weight, row_sum, sum);
  }
  return round_to_byte(sum);
}

template <class Source>
SEED_HD inline uint8_t two_tap_pixel(const ResizePlan& plan, const Source& source, int y, int x, int channel) {
  const AreaTap* column = plan.column_taps + 2 * x;
  const AreaTap* row = plan.row_taps + 2 * y;
  int sum = 2;
  for (int j = 0; j < 2; ++j) {
    const int row_sum = source(row[j].source, column[0].source, channel) * int(column[0].weight) +
                        source(row[j].source, column[1].source, channel) * int(column[1].weight);
    sum += (int(row[j].weight) * (row_sum >> 4)) >> 16;
  }
  return uint8_t(sum >> 2);
}

}  // namespace resize_detail

// One picture as a source.
struct PictureSource {
  const uint8_t* pixels;  // source_height x source_width x channels
  int32_t width, channels;

  SEED_HD uint8_t operator()(int y, int x, int channel) const {
    return pixels[(int64_t(y) * width + x) * channels + channel];
  }
};

// The maximum of two pictures as a source.
struct MaximumSource {
  PictureSource first, second;

  SEED_HD uint8_t operator()(int y, int x, int channel) const {
    const uint8_t a = first(y, x, channel), b = second(y, x, channel);
    return a > b ? a : b;
  }
};

// One byte of the target image. `source(y, x, channel)` is a byte of the source image.
template <class Source>
SEED_HD inline uint8_t area_resize_pixel(const ResizePlan& plan, const Source& source, int y, int x, int channel) {
  using namespace resize_detail;
  switch (plan.rule) {
    case ResizeRule::kCopy:
      return source(y, x, channel);
    case ResizeRule::kHalve:
      return uint8_t((block_sum(plan, source, y, x, channel) + 2) >> 2);
    case ResizeRule::kIntegerFactors: {
      const int area = (plan.source_height / plan.height) * (plan.source_width / plan.width);
      return round_to_byte(block_sum(plan, source, y, x, channel) * (1.0f / area));
    }
    case ResizeRule::kCoverage:
      return coverage_pixel(plan, source, y, x, channel);
    case ResizeRule::kTwoTaps:
      return two_tap_pixel(plan, source, y, x, channel);
  }
  return 0;
}

}  // namespace seed
