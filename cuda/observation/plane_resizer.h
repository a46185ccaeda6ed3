// SPDX-License-Identifier: Apache-2.0
// Resizes whole one-channel pictures on the CPU, bit for bit as area_resize_pixel() does, with SIMD where it pays.
//
// A plain reference loop serves every size. For the coverage rule there is an AVX2 path, chosen at run time:
//   1. Coverage weights of an axis are integers in units of 1 / q, where source : target = p : q in lowest terms, so
//   the
//      exact result is sum / T with T = p_x * p_y, and the sum needs no floating point.
//   2. Rows: 16-byte windows, a byte shuffle per pair of taps, multiply-add into 16-bit sums.
//   3. Columns: 16-bit products while 255 T fits, else 32-bit ones; then divide by T.
//   4. OpenCV's float32 sum differs from sum / T by a few parts in 10^7, so both round to the same byte unless sum / T
//      lies on a tie or within that error of one (0.2 % of the pixels of real pictures): those take the reference code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "observation/area_resize.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define SEED_HAVE_AVX2_PATH 1
#define SEED_AVX2 __attribute__((target("avx2")))
#else
#define SEED_HAVE_AVX2_PATH 0
#endif

namespace seed {

// Bytes behind the last row of a source that the SIMD path may read (and ignores).
constexpr int kResizePadding = 32;

enum class SimdLevel : uint8_t { kScalar, kAvx2 };

// The best level this processor has.
inline SimdLevel detect_simd() {
#if SEED_HAVE_AVX2_PATH
  return __builtin_cpu_supports("avx2") ? SimdLevel::kAvx2 : SimdLevel::kScalar;
#else
  return SimdLevel::kScalar;
#endif
}

// Working memory of one thread.
struct ResizeScratch {
  std::vector<uint16_t> row_sums;  // a ring of horizontally summed rows
};

class PlaneResizer {
 public:
  PlaneResizer(int source_height, int source_width, int height, int width, SimdLevel simd);

  ResizeScratch make_scratch() const { return {std::vector<uint16_t>(size_t(kRingRows) * ring_stride_ + 16)}; }

  // `source`: source_height x source_width bytes and kResizePadding more; `target`: height x width bytes.
  void run(const uint8_t* source, uint8_t* target, ResizeScratch& scratch) const;

  const ResizePlan& plan() const { return plan_; }
  bool uses_simd() const { return use_avx2_; }

 private:
  static constexpr int kRingRows = 8;  // >= source rows that one target row and its neighbour share, plus one
  static constexpr int kMaxRowTaps = 6;
  static constexpr int kMaxTapPairs = 4;
  static constexpr int kGroupWidth = 8;  // target columns that one 16-byte window yields at most

  // Two groups of up to eight neighbouring target columns, each with its source cells within 16 bytes; the first group
  // is the lower half of the vectors.
  struct alignas(32) GroupPair {
    int8_t shuffle[kMaxTapPairs][2][16];
    int8_t weights[kMaxTapPairs][2][16];
    size_t source_begin[2], target_begin[2];
  };

  bool build_avx2();
  bool build_groups(int p, int q);
  int fill_group(GroupPair& pair, int half, int begin_x, int p, int q) const;
  static void copy_group(GroupPair& pair);
  bool build_division(int total);
#if SEED_HAVE_AVX2_PATH
  SEED_AVX2 void run_avx2(const uint8_t* source, uint8_t* target, ResizeScratch& scratch) const;
  template <int kTapPairs>
  SEED_AVX2 void sum_columns(const uint8_t* row, uint16_t* sums) const;
  template <int kRows>
  SEED_AVX2 void sum_rows_16(const uint16_t* const* rows, const int16_t* weights, const uint8_t* source, int y,
                             uint8_t* target) const;
  SEED_AVX2 void sum_rows_32(const uint16_t* const* rows, const int16_t* weights, int num_rows, const uint8_t* source,
                             int y, uint8_t* target) const;
#endif

  ResizePlan plan_{};
  std::vector<AreaTap> column_taps_, row_taps_;
  std::vector<int32_t> column_first_, row_first_;

  bool use_avx2_ = false;
  int num_tap_pairs_ = 0;
  int ring_stride_ = 0;
  std::vector<GroupPair> groups_;
  std::vector<int16_t> row_weights_;  // integer weight of each row tap
  int total_ = 0;                     // T
  int tie_margin_ = 0;                // |2 sum - (odd) T| up to which float32 may round the other way
  bool fits_16_bits_ = false;
  int pre_shift_ = 0, post_shift_ = 0, multiplier_ = 0;  // n / T = ((n >> pre) * multiplier >> 16) >> post
};

// ---- Construction ------------------------------------------------------------------------------------------------

inline PlaneResizer::PlaneResizer(int source_height, int source_width, int height, int width, SimdLevel simd)
    : column_taps_(area_axis_capacity(source_width, width)),
      row_taps_(area_axis_capacity(source_height, height)),
      column_first_(width + 1),
      row_first_(height + 1) {
  const ResizeRule rule = resize_rule(source_height, source_width, height, width);
  area_axis_build(rule, source_width, width, column_taps_.data(), column_first_.data());
  area_axis_build(rule, source_height, height, row_taps_.data(), row_first_.data());
  plan_ = ResizePlan{rule, source_height,       source_width,         height,           width,
                     1,    column_taps_.data(), column_first_.data(), row_taps_.data(), row_first_.data()};
  use_avx2_ = simd == SimdLevel::kAvx2 && build_avx2();
}

namespace resize_detail {

// The part of target cell `d` that source cell `s` covers, in units of 1 / q; the cell is p units wide.
inline int overlap_units(int d, int s, int p, int q) {
  return std::max(0, std::min((d + 1) * p, (s + 1) * q) - std::max(d * p, s * q));
}

}  // namespace resize_detail

inline bool PlaneResizer::build_avx2() {
  if (plan_.rule != ResizeRule::kCoverage) return false;
  const int gx = std::gcd(plan_.source_width, plan_.width), gy = std::gcd(plan_.source_height, plan_.height);
  const int px = plan_.source_width / gx, qx = plan_.width / gx;
  const int py = plan_.source_height / gy, qy = plan_.height / gy;
  // 16-bit horizontal sums; tap lists without dropped cells; sums that float32 holds exactly.
  if (px > 127 || qx >= 1000 || qy >= 1000 || int64_t{px} * py > 1 << 15) return false;
  total_ = px * py;
  if (!build_groups(px, qx)) return false;
  row_weights_.resize(plan_.row_first[plan_.height]);
  for (int y = 0; y < plan_.height; ++y) {
    if (plan_.row_first[y + 1] - plan_.row_first[y] > kMaxRowTaps) return false;
    for (int j = plan_.row_first[y]; j < plan_.row_first[y + 1]; ++j)
      row_weights_[j] = int16_t(resize_detail::overlap_units(y, plan_.row_taps[j].source, py, qy));
  }
  // A weight is rounded once, a product once, and there is an addition per tap: each by at most 2^-24 of the value.
  const double float_error = 255.0 * (4 + 2 * num_tap_pairs_ + kMaxRowTaps) / (1 << 24);
  tie_margin_ = int(std::ceil(2 * total_ * float_error));
  ring_stride_ = (plan_.width + 15) / 16 * 16;
  fits_16_bits_ = 255 * total_ + total_ / 2 <= 65535 && 2 * total_ * float_error < 1 && build_division(total_);
  return true;
}

// Cuts the target columns into groups and lays out shuffles and weights; false when a cell is too wide.
inline bool PlaneResizer::build_groups(int p, int q) {
  int most_taps = 0;
  for (int x = 0; x < plan_.width; ++x)
    most_taps = std::max(most_taps, plan_.column_first[x + 1] - plan_.column_first[x]);
  num_tap_pairs_ = (most_taps + 1) / 2;
  if (num_tap_pairs_ > kMaxTapPairs) return false;
  int half = 0;
  for (int x = 0; x < plan_.width; half ^= 1) {
    if (half == 0) groups_.emplace_back();
    const int num_columns = fill_group(groups_.back(), half, x, p, q);
    if (num_columns == 0) return false;
    x += num_columns;
  }
  if (half == 1) copy_group(groups_.back());
  return true;
}

// Lays out the group that begins at target column `begin_x`; returns its number of columns.
inline int PlaneResizer::fill_group(GroupPair& pair, int half, int begin_x, int p, int q) const {
  pair.target_begin[half] = size_t(begin_x);
  const int first_source = plan_.column_taps[plan_.column_first[begin_x]].source;
  pair.source_begin[half] = size_t(first_source);
  for (int i = 0; i < kMaxTapPairs; ++i) std::memset(pair.shuffle[i][half], -1, 16);  // -1 selects a zero
  int n = 0;
  for (; n < kGroupWidth && begin_x + n < plan_.width; ++n) {
    const int begin = plan_.column_first[begin_x + n], end = plan_.column_first[begin_x + n + 1];
    if (plan_.column_taps[end - 1].source - first_source >= 16) break;
    for (int i = begin; i < end; ++i) {
      const int source = plan_.column_taps[i].source, tap = i - begin, byte = 2 * n + tap % 2;
      pair.shuffle[tap / 2][half][byte] = int8_t(source - first_source);
      pair.weights[tap / 2][half][byte] = int8_t(resize_detail::overlap_units(begin_x + n, source, p, q));
    }
  }
  return n;
}

// An odd last group is done twice.
inline void PlaneResizer::copy_group(GroupPair& pair) {
  pair.source_begin[1] = pair.source_begin[0];
  pair.target_begin[1] = pair.target_begin[0];
  for (int i = 0; i < kMaxTapPairs; ++i) {
    std::memcpy(pair.shuffle[i][1], pair.shuffle[i][0], 16);
    std::memcpy(pair.weights[i][1], pair.weights[i][0], 16);
  }
}

// Finds a multiply-and-shift that divides every 16-bit number by `total`.
inline bool PlaneResizer::build_division(int total) {
  for (pre_shift_ = 0; pre_shift_ < 8 && total % (1 << pre_shift_) == 0; ++pre_shift_) {
    for (post_shift_ = 0; post_shift_ < 12; ++post_shift_) {
      multiplier_ = int(((int64_t{1} << (16 + post_shift_ + pre_shift_)) + total - 1) / total);
      if (multiplier_ > 65535) break;
      bool exact = true;
      for (uint32_t n = 0; n < 65536 && exact; ++n)
        exact = (((n >> pre_shift_) * uint32_t(multiplier_)) >> 16) >> post_shift_ == n / uint32_t(total);
      if (exact) return true;
    }
  }
  return false;
}

// ---- Running -----------------------------------------------------------------------------------------------------

inline void PlaneResizer::run(const uint8_t* source, uint8_t* target, ResizeScratch& scratch) const {
#if SEED_HAVE_AVX2_PATH
  if (use_avx2_) {
    run_avx2(source, target, scratch);
    return;
  }
#endif
  (void)scratch;
  if (plan_.rule == ResizeRule::kCopy) {
    std::memcpy(target, source, size_t(plan_.height) * plan_.width);
    return;
  }
  for (int y = 0; y < plan_.height; ++y)
    for (int x = 0; x < plan_.width; ++x) *target++ = area_resize_pixel(plan_, source, y, x, 0);
}

#if SEED_HAVE_AVX2_PATH

SEED_AVX2 inline void PlaneResizer::run_avx2(const uint8_t* source, uint8_t* target, ResizeScratch& scratch) const {
  int next_row = 0;  // source rows below are summed
  for (int y = 0; y < plan_.height; ++y, target += plan_.width) {
    const int begin = plan_.row_first[y], num_rows = plan_.row_first[y + 1] - begin;
    const uint16_t* rows[kMaxRowTaps];
    for (int j = 0; j < num_rows; ++j) {
      const int row = plan_.row_taps[begin + j].source;
      uint16_t* sums = scratch.row_sums.data() + size_t(row % kRingRows) * ring_stride_;
      if (row >= next_row) {
        const uint8_t* pixels = source + size_t(row) * plan_.source_width;
        num_tap_pairs_ <= 2 ? sum_columns<2>(pixels, sums) : sum_columns<kMaxTapPairs>(pixels, sums);
        next_row = row + 1;
      }
      rows[j] = sums;
    }
    const int16_t* weights = &row_weights_[begin];
    if (fits_16_bits_ && num_rows == 3) {
      sum_rows_16<3>(rows, weights, source, y, target);
    } else if (fits_16_bits_ && num_rows == 2) {
      sum_rows_16<2>(rows, weights, source, y, target);
    } else {
      sum_rows_32(rows, weights, num_rows, source, y, target);
    }
  }
}

// Horizontal sums of one source row. Each store writes eight sums; those beyond a group's own are overwritten by the
// next group (or lie in the ring's slack), because groups ascend.
template <int kTapPairs>
SEED_AVX2 inline void PlaneResizer::sum_columns(const uint8_t* row, uint16_t* sums) const {
  const GroupPair* const end = groups_.data() + groups_.size();  // local: the stores below may alias the members
  for (const GroupPair* group = groups_.data(); group != end; ++group) {
    const GroupPair& pair = *group;
    const __m256i window = _mm256_loadu2_m128i(reinterpret_cast<const __m128i*>(row + pair.source_begin[1]),
                                               reinterpret_cast<const __m128i*>(row + pair.source_begin[0]));
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < kTapPairs; ++i) {
      const __m256i shuffle = _mm256_load_si256(reinterpret_cast<const __m256i*>(pair.shuffle[i]));
      const __m256i weights = _mm256_load_si256(reinterpret_cast<const __m256i*>(pair.weights[i]));
      sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(_mm256_shuffle_epi8(window, shuffle), weights));
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(sums + pair.target_begin[0]), _mm256_castsi256_si128(sum));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(sums + pair.target_begin[1]), _mm256_extracti128_si256(sum, 1));
  }
}

// Sixteen target pixels at a time; needs 255 T + T / 2 < 65536, where only exact ties are near ties.
template <int kRows>
SEED_AVX2 inline void PlaneResizer::sum_rows_16(const uint16_t* const* rows, const int16_t* weights,
                                                const uint8_t* source, int y, uint8_t* target) const {
  // Locals, because the byte stores below may alias the members.
  const int width = plan_.width;
  const __m256i half = _mm256_set1_epi16(int16_t(total_ / 2)), total = _mm256_set1_epi16(int16_t(total_));
  const __m256i multiplier = _mm256_set1_epi16(int16_t(multiplier_));
  const __m128i pre_shift = _mm_cvtsi32_si128(pre_shift_), post_shift = _mm_cvtsi32_si128(post_shift_);
  const uint32_t tie_mask = total_ % 2 == 0 ? 0x55555555u : 0;    // an odd T has no ties
  const bool may_overrun = (plan_.height - 1 - y) * width >= 15;  // into later rows, which are written again
  __m256i weight[kRows];
  for (int j = 0; j < kRows; ++j) weight[j] = _mm256_set1_epi16(weights[j]);
  for (int x = 0; x < width; x += 16) {
    __m256i sum = half;
    for (int j = 0; j < kRows; ++j) {
      const __m256i row = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[j] + x));
      sum = _mm256_add_epi16(sum, _mm256_mullo_epi16(row, weight[j]));
    }
    const __m256i quotient =
        _mm256_srl_epi16(_mm256_mulhi_epu16(_mm256_srl_epi16(sum, pre_shift), multiplier), post_shift);
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(quotient), _mm256_extracti128_si256(quotient, 1));
    const __m256i tie = _mm256_cmpeq_epi16(sum, _mm256_mullo_epi16(quotient, total));
    uint32_t ties = uint32_t(_mm256_movemask_epi8(tie)) & tie_mask;
    const int valid = width - x;
    if (valid >= 16 || may_overrun) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(target + x), bytes);
    } else {
      alignas(16) uint8_t tail[16];
      _mm_store_si128(reinterpret_cast<__m128i*>(tail), bytes);
      std::memcpy(target + x, tail, size_t(valid));
    }
    if (ties == 0) continue;
    if (valid < 16) ties &= (1u << (2 * valid)) - 1;
    for (; ties != 0; ties &= ties - 1) {
      const int column = x + __builtin_ctz(ties) / 2;
      target[column] = area_resize_pixel(plan_, source, y, column, 0);
    }
  }
}

// Eight target pixels at a time.
SEED_AVX2 inline void PlaneResizer::sum_rows_32(const uint16_t* const* rows, const int16_t* weights, int num_rows,
                                                const uint8_t* source, int y, uint8_t* target) const {
  const __m256 inverse = _mm256_set1_ps(1.0f / float(total_));
  const __m256i total = _mm256_set1_epi32(total_), tie_threshold = _mm256_set1_epi32(total_ - tie_margin_ - 1);
  for (int x = 0; x < plan_.width; x += 8) {
    __m256i sum = _mm256_setzero_si256();
    for (int j = 0; j < num_rows; j += 2) {
      const bool paired = j + 1 < num_rows;
      const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[j] + x));
      const __m128i second =
          paired ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[j + 1] + x)) : _mm_setzero_si128();
      const __m256i both = _mm256_set_m128i(_mm_unpackhi_epi16(first, second), _mm_unpacklo_epi16(first, second));
      const int second_weight = paired ? weights[j + 1] : 0;
      const __m256i pair = _mm256_set1_epi32((second_weight << 16) | uint16_t(weights[j]));
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(both, pair));
    }
    const __m256i quotient = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(sum), inverse));
    const __m256i packed16 = _mm256_packus_epi32(quotient, quotient);
    const __m128i packed16_low =
        _mm_unpacklo_epi64(_mm256_castsi256_si128(packed16), _mm256_extracti128_si256(packed16, 1));
    alignas(16) uint8_t bytes[16];
    _mm_store_si128(reinterpret_cast<__m128i*>(bytes), _mm_packus_epi16(packed16_low, packed16_low));
    const int valid = std::min(8, plan_.width - x);
    std::memcpy(target + x, bytes, valid);
    // Near a tie |sum - quotient * T| is about T / 2, whichever way it was rounded.
    const __m256i rest = _mm256_abs_epi32(_mm256_sub_epi32(sum, _mm256_mullo_epi32(quotient, total)));
    const __m256i tie = _mm256_cmpgt_epi32(_mm256_slli_epi32(rest, 1), tie_threshold);
    uint32_t ties = uint32_t(_mm256_movemask_ps(_mm256_castsi256_ps(tie))) & ((1u << valid) - 1);
    for (; ties != 0; ties &= ties - 1) {
      const int column = x + __builtin_ctz(ties);
      target[column] = area_resize_pixel(plan_, source, y, column, 0);
    }
  }
}

#endif  // SEED_HAVE_AVX2_PATH

}  // namespace seed
