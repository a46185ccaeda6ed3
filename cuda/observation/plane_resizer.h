// SPDX-License-Identifier: Apache-2.0
// Resizes whole one-channel pictures, or the maximum of two, on the CPU: bit for bit as area_resize_pixel() does, with
// SIMD where it pays.
//
// A plain reference loop serves every size. For the coverage rule there is an AVX2 path, chosen at run time:
//   1. Coverage weights of an axis are integers in units of 1 / q, where source : target = p : q in lowest terms, so
//      the exact result is sum / T with T = p_x * p_y, and the sum needs no floating point.
//   2. Columns first: weighted sums of the source rows of one target row, in 16 bits. When these source rows are
//      as they were in the picture before, which a thread's next lane often shows as well, the target row is, too.
//   3. Rows: windows of eight such sums, a byte shuffle per pair of taps, multiply-add into 32-bit sums.
//   4. Division by T: by a multiplication in 16 bits while 255 T fits, else in float32.
//   5. OpenCV's float32 sum differs from sum / T by a few parts in 10^7, so both round to the same byte unless sum / T
//      lies on a tie or within that error of one (0.2 % of the pixels of real pictures): those take the reference code.
#pragma once

#include <algorithm>
#include <cstddef>
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
  std::vector<uint16_t> column_sums;  // of one target row, a sum per source column
  std::vector<int32_t> sums;          // of one target row
  // Of the picture before; empty where rows are not compared.
  std::vector<uint8_t> source_rows;  // those of each target row, kMaxRowTaps of them
  std::vector<uint8_t> target_rows;
  bool has_rows = false;

  size_t memory_bytes() const {
    return column_sums.size() * 2 + sums.size() * 4 + source_rows.size() + target_rows.size();
  }
};

// Target rows whose source rows have not changed are copied; -DSEED_KEEP_EQUAL_ROWS=0 resizes them again.
#if !defined(SEED_KEEP_EQUAL_ROWS)
#define SEED_KEEP_EQUAL_ROWS 1
#endif

class PlaneResizer {
 public:
  PlaneResizer(int source_height, int source_width, int height, int width, SimdLevel simd);
  PlaneResizer(const PlaneResizer&) = delete;  // the plan points into the object
  PlaneResizer& operator=(const PlaneResizer&) = delete;

  ResizeScratch make_scratch() const {
    ResizeScratch scratch;
    scratch.column_sums.resize(size_t(plan_.source_width) + 32);
    scratch.sums.resize(size_t(plan_.width) + 32);
    if (!use_avx2_) return scratch;
    scratch.source_rows.resize(source_rows_bytes() * size_t(plan_.height));
    scratch.target_rows.resize(size_t(plan_.height) * size_t(plan_.width));
    return scratch;
  }

  // Resizes the maximum of the pictures `first` and `second`, or `first` alone when `second` is null: source_height x
  // source_width bytes each, and kResizePadding more that are read and ignored. `target`: height x width bytes.
  void run(const uint8_t* first, const uint8_t* second, uint8_t* target, ResizeScratch& scratch) const;

  const ResizePlan& plan() const { return plan_; }
  bool uses_simd() const { return use_avx2_; }

 private:
  static constexpr int kMaxRowTaps = 6;
  static constexpr int kMaxTapPairs = 3;
  static constexpr int kWindow = 8;      // column sums in 16 bytes
  static constexpr int kGroupWidth = 4;  // target columns that one window yields at most

  // Two groups of up to four neighbouring target columns, each with its source columns within a window; the first group
  // is the lower half of the vectors.
  struct alignas(32) GroupPair {
    int8_t shuffle[kMaxTapPairs][2][16];
    int16_t weights[kMaxTapPairs][2][8];
    size_t source_begin[2], target_begin[2];
  };

  // Of the source rows of one target row, rounded up to whole vectors.
  size_t row_stride() const { return (size_t(plan_.source_width) + 31) / 32 * 32; }
  size_t source_rows_bytes() const { return kMaxRowTaps * row_stride(); }

  bool build_avx2();
  bool build_groups(int p, int q);
  int fill_group(GroupPair& pair, int half, int begin_x, int p, int q) const;
  static void copy_group(GroupPair& pair);
  bool build_division(int total);
  template <class Source>
  void run_plain(const Source& source, uint8_t* target) const;
#if SEED_HAVE_AVX2_PATH
  template <class Source>
  SEED_AVX2 void run_avx2(const uint8_t* first, const uint8_t* second, const Source& source, uint8_t* target,
                          ResizeScratch& scratch) const;
  SEED_AVX2 bool gather_rows(const uint8_t* first, const uint8_t* second, int y, uint8_t* rows) const;
  template <int kRows>
  SEED_AVX2 void sum_rows(const uint8_t* rows, int y, uint16_t* column_sums) const;
  template <int kTapPairs>
  SEED_AVX2 void sum_columns(const uint16_t* column_sums, int32_t* sums) const;
  template <class Source>
  SEED_AVX2 void store_pixels(__m128i bytes, uint32_t ties, int x, bool may_overrun, const Source& source, int y,
                              uint8_t* target) const;
  template <class Source>
  SEED_AVX2 void divide_16_bits(const int32_t* sums, bool may_overrun, const Source& source, int y,
                                uint8_t* target) const;
  template <class Source>
  SEED_AVX2 void divide_32_bits(const int32_t* sums, bool may_overrun, const Source& source, int y,
                                uint8_t* target) const;
#endif

  ResizePlan plan_{};
  std::vector<AreaTap> column_taps_, row_taps_;
  std::vector<int32_t> column_first_, row_first_;

  bool use_avx2_ = false;
  std::vector<GroupPair> groups_;
  int num_tap_pairs_ = 0;             // of the widest cell
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
  // Tap lists without dropped cells; column sums in signed 16 bits; sums that float32 holds exactly.
  if (qx >= 1000 || qy >= 1000 || 255 * py > 32767 || int64_t{px} * py > 1 << 15) return false;
  total_ = px * py;
  if (!build_groups(px, qx)) return false;
  row_weights_.resize(plan_.row_first[plan_.height]);
  for (int y = 0; y < plan_.height; ++y) {
    if (plan_.row_first[y + 1] - plan_.row_first[y] > kMaxRowTaps) return false;
    for (int j = plan_.row_first[y]; j < plan_.row_first[y + 1]; ++j)
      row_weights_[j] = int16_t(resize_detail::overlap_units(y, plan_.row_taps[j].source, py, qy));
  }
  // A weight is rounded once, a product once, and there is an addition per tap: each by at most 2^-24 of the value.
  const double float_error = 255.0 * (4 + 2 * kMaxTapPairs + kMaxRowTaps) / (1 << 24);
  tie_margin_ = int(std::ceil(2 * total_ * float_error));
  fits_16_bits_ = 255 * total_ + total_ / 2 <= 65535 && 2 * total_ * float_error < 1 && build_division(total_);
  return true;
}

// Cuts the target columns into groups and lays out shuffles and weights; false when a cell is too wide.
inline bool PlaneResizer::build_groups(int p, int q) {
  int most_taps = 1;
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
  const int first_source = plan_.column_taps[plan_.column_first[begin_x]].source;
  pair.source_begin[half] = size_t(first_source);
  pair.target_begin[half] = size_t(begin_x);
  for (int i = 0; i < kMaxTapPairs; ++i) std::memset(pair.shuffle[i][half], -1, 16);  // -1 selects a zero
  int n = 0;
  for (; n < kGroupWidth && begin_x + n < plan_.width; ++n) {
    const int begin = plan_.column_first[begin_x + n], end = plan_.column_first[begin_x + n + 1];
    if (plan_.column_taps[end - 1].source - first_source >= kWindow) break;
    for (int i = begin; i < end; ++i) {
      const int source = plan_.column_taps[i].source, tap = i - begin, lane = 2 * n + tap % 2;
      pair.shuffle[tap / 2][half][2 * lane] = int8_t(2 * (source - first_source));
      pair.shuffle[tap / 2][half][2 * lane + 1] = int8_t(2 * (source - first_source) + 1);
      pair.weights[tap / 2][half][lane] = int16_t(resize_detail::overlap_units(begin_x + n, source, p, q));
    }
  }
  return n;
}

// An odd last group is done twice.
inline void PlaneResizer::copy_group(GroupPair& pair) {
  pair.source_begin[1] = pair.source_begin[0];
  pair.target_begin[1] = pair.target_begin[0];
  for (int i = 0; i < kMaxTapPairs; ++i) {
    std::memcpy(pair.shuffle[i][1], pair.shuffle[i][0], sizeof pair.shuffle[i][0]);
    std::memcpy(pair.weights[i][1], pair.weights[i][0], sizeof pair.weights[i][0]);
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

template <class Source>
inline void PlaneResizer::run_plain(const Source& source, uint8_t* target) const {
  for (int y = 0; y < plan_.height; ++y)
    for (int x = 0; x < plan_.width; ++x) *target++ = area_resize_pixel(plan_, source, y, x, 0);
}

inline void PlaneResizer::run(const uint8_t* first, const uint8_t* second, uint8_t* target,
                              ResizeScratch& scratch) const {
  const PictureSource one{first, plan_.source_width, 1};
  const MaximumSource both{one, {second, plan_.source_width, 1}};
#if SEED_HAVE_AVX2_PATH
  if (use_avx2_) {
    return second == nullptr ? run_avx2(first, first, one, target, scratch)
                             : run_avx2(first, second, both, target, scratch);
  }
#endif
  (void)scratch;
  if (second != nullptr) return run_plain(both, target);
  if (plan_.rule != ResizeRule::kCopy) return run_plain(one, target);
  std::memcpy(target, first, size_t(plan_.height) * plan_.width);
}

#if SEED_HAVE_AVX2_PATH

template <class Source>
SEED_AVX2 inline void PlaneResizer::run_avx2(const uint8_t* first, const uint8_t* second, const Source& source,
                                             uint8_t* target, ResizeScratch& scratch) const {
  uint16_t* const column_sums = scratch.column_sums.data();
  int32_t* const sums = scratch.sums.data();
  uint8_t* source_rows = scratch.source_rows.data();
  uint8_t* kept = scratch.target_rows.data();
  const int height = plan_.height, width = plan_.width;
  const size_t source_rows_step = source_rows_bytes();
  const bool fits_16_bits = fits_16_bits_, may_keep = SEED_KEEP_EQUAL_ROWS && scratch.has_rows;
  const int num_tap_pairs = num_tap_pairs_;
  for (int y = 0; y < height; ++y, target += width, kept += width, source_rows += source_rows_step) {
    if (gather_rows(first, second, y, source_rows) && may_keep) {
      std::memcpy(target, kept, size_t(width));
      continue;
    }
    const int num_rows = plan_.row_first[y + 1] - plan_.row_first[y];
    num_rows == 3   ? sum_rows<3>(source_rows, y, column_sums)
    : num_rows == 2 ? sum_rows<2>(source_rows, y, column_sums)
    : num_rows == 4 ? sum_rows<4>(source_rows, y, column_sums)
                    : sum_rows<0>(source_rows, y, column_sums);
    num_tap_pairs <= 2 ? sum_columns<2>(column_sums, sums) : sum_columns<kMaxTapPairs>(column_sums, sums);
    const bool may_overrun = (height - 1 - y) * width >= 15;  // into later rows, which are written again
    fits_16_bits ? divide_16_bits(sums, may_overrun, source, y, target)
                 : divide_32_bits(sums, may_overrun, source, y, target);
    std::memcpy(kept, target, size_t(width));
  }
  scratch.has_rows = true;
}

// Writes the source rows of target row y, one after the other, to `rows`; returns whether they were there already.
SEED_AVX2 inline bool PlaneResizer::gather_rows(const uint8_t* first, const uint8_t* second, int y,
                                                uint8_t* rows) const {
  const size_t stride = row_stride(), width = size_t(plan_.source_width);
  const std::ptrdiff_t second_offset = second - first;
  __m256i changes = _mm256_setzero_si256();
  for (int j = plan_.row_first[y]; j < plan_.row_first[y + 1]; ++j, rows += stride) {
    const uint8_t* const row = first + size_t(plan_.row_taps[j].source) * width;
    for (size_t x = 0; x < stride; x += 32) {
      const __m256i bytes =
          _mm256_max_epu8(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + x)),
                          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + x + second_offset)));
      __m256i* const kept = reinterpret_cast<__m256i*>(rows + x);
      changes = _mm256_or_si256(changes, _mm256_xor_si256(bytes, _mm256_loadu_si256(kept)));
      _mm256_storeu_si256(kept, bytes);
    }
  }
  return _mm256_testz_si256(changes, changes);
}

// Weighted sums of the source rows of target row y, two rows at a time; kRows = 0: any number of them.
template <int kRows>
SEED_AVX2 inline void PlaneResizer::sum_rows(const uint8_t* rows, int y, uint16_t* column_sums) const {
  const size_t stride = row_stride();
  const int begin = plan_.row_first[y];
  const int num_rows = kRows != 0 ? kRows : plan_.row_first[y + 1] - begin;
  __m256i weights[kMaxRowTaps / 2] = {};
  SEED_UNROLL
  for (int j = 0; j < num_rows; j += 2) {
    const int second = j + 1 < num_rows ? row_weights_[begin + j + 1] : 0;
    weights[j / 2] = _mm256_set1_epi16(int16_t(row_weights_[begin + j] | second << 8));
  }
  for (size_t x = 0; x < stride; x += 32) {
    __m256i low = _mm256_setzero_si256(), high = low;
    SEED_UNROLL
    for (int j = 0; j < num_rows; j += 2) {
      const uint8_t* const at = rows + size_t(j) * stride + x;
      const __m256i even = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
      const __m256i odd =
          j + 1 < num_rows ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + stride)) : _mm256_setzero_si256();
      low = _mm256_add_epi16(low, _mm256_maddubs_epi16(_mm256_unpacklo_epi8(even, odd), weights[j / 2]));
      high = _mm256_add_epi16(high, _mm256_maddubs_epi16(_mm256_unpackhi_epi8(even, odd), weights[j / 2]));
    }
    __m256i* const to = reinterpret_cast<__m256i*>(column_sums + x);
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(low, high, 0x31));
  }
}

// Weighted sums of column sums. Each store writes four sums; those beyond a group's own are overwritten by the next
// group (or lie in the slack), because groups ascend.
template <int kTapPairs>
SEED_AVX2 inline void PlaneResizer::sum_columns(const uint16_t* column_sums, int32_t* sums) const {
  const GroupPair* const end = groups_.data() + groups_.size();  // local: the stores below may alias the members
  for (const GroupPair* pair = groups_.data(); pair != end; ++pair) {
    const __m256i window = _mm256_loadu2_m128i(reinterpret_cast<const __m128i*>(column_sums + pair->source_begin[1]),
                                               reinterpret_cast<const __m128i*>(column_sums + pair->source_begin[0]));
    __m256i sum = _mm256_setzero_si256();
    SEED_UNROLL
    for (int i = 0; i < kTapPairs; ++i) {
      const __m256i shuffle = _mm256_load_si256(reinterpret_cast<const __m256i*>(pair->shuffle[i]));
      const __m256i weights = _mm256_load_si256(reinterpret_cast<const __m256i*>(pair->weights[i]));
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(window, shuffle), weights));
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(sums + pair->target_begin[0]), _mm256_castsi256_si128(sum));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(sums + pair->target_begin[1]), _mm256_extracti128_si256(sum, 1));
  }
}

// Stores sixteen results from target column x on, and redoes those on (or near) a tie: bit 2i of `ties` for column x +
// i.
template <class Source>
SEED_AVX2 inline void PlaneResizer::store_pixels(__m128i bytes, uint32_t ties, int x, bool may_overrun,
                                                 const Source& source, int y, uint8_t* target) const {
  const int valid = plan_.width - x;
  if (valid >= 16 || may_overrun) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + x), bytes);
  } else {
    alignas(16) uint8_t tail[16];
    _mm_store_si128(reinterpret_cast<__m128i*>(tail), bytes);
    std::memcpy(target + x, tail, size_t(valid));
  }
  if (__builtin_expect(ties == 0, 1)) return;
  if (valid < 16) ties &= (1u << (2 * valid)) - 1;
  for (; ties != 0; ties &= ties - 1) {
    const int column = x + __builtin_ctz(ties) / 2;
    target[column] = area_resize_pixel(plan_, source, y, column, 0);
  }
}

// Needs 255 T + T / 2 < 65536, where only exact ties are near ties.
template <class Source>
SEED_AVX2 inline void PlaneResizer::divide_16_bits(const int32_t* sums, bool may_overrun, const Source& source, int y,
                                                   uint8_t* target) const {
  // Locals, because the byte stores may alias the members.
  const int width = plan_.width;
  const uint32_t tie_mask = total_ % 2 == 0 ? 0x55555555u : 0;  // an odd T has no ties
  const __m256i half = _mm256_set1_epi16(int16_t(total_ / 2)), total = _mm256_set1_epi16(int16_t(total_));
  const __m256i multiplier = _mm256_set1_epi16(int16_t(multiplier_));
  const __m128i pre_shift = _mm_cvtsi32_si128(pre_shift_), post_shift = _mm_cvtsi32_si128(post_shift_);
  for (int x = 0; x < width; x += 16) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + x));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + x + 8));
    const __m256i sum = _mm256_add_epi16(_mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8), half);
    const __m256i quotient =
        _mm256_srl_epi16(_mm256_mulhi_epu16(_mm256_srl_epi16(sum, pre_shift), multiplier), post_shift);
    const __m256i tie = _mm256_cmpeq_epi16(sum, _mm256_mullo_epi16(quotient, total));
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(quotient), _mm256_extracti128_si256(quotient, 1));
    store_pixels(bytes, uint32_t(_mm256_movemask_epi8(tie)) & tie_mask, x, may_overrun, source, y, target);
  }
}

// For any T.
template <class Source>
SEED_AVX2 inline void PlaneResizer::divide_32_bits(const int32_t* sums, bool may_overrun, const Source& source, int y,
                                                   uint8_t* target) const {
  const int width = plan_.width;
  const __m256 inverse = _mm256_set1_ps(1.0f / float(total_));
  const __m256i total = _mm256_set1_epi32(total_), threshold = _mm256_set1_epi32(total_ - tie_margin_ - 1);
  for (int x = 0; x < width; x += 16) {
    __m256i quotients[2], near_ties[2];
    SEED_UNROLL
    for (int i = 0; i < 2; ++i) {
      const __m256i sum = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + x + 8 * i));
      quotients[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(sum), inverse));
      // Near a tie |sum - quotient * T| is about T / 2, whichever way it was rounded.
      const __m256i rest = _mm256_abs_epi32(_mm256_sub_epi32(sum, _mm256_mullo_epi32(quotients[i], total)));
      near_ties[i] = _mm256_cmpgt_epi32(_mm256_slli_epi32(rest, 1), threshold);
    }
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(quotients[0], quotients[1]), 0xd8);
    const __m256i ties = _mm256_permute4x64_epi64(_mm256_packs_epi32(near_ties[0], near_ties[1]), 0xd8);
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    store_pixels(bytes, uint32_t(_mm256_movemask_epi8(ties)) & 0x55555555u, x, may_overrun, source, y, target);
  }
}

#endif  // SEED_HAVE_AVX2_PATH

}  // namespace seed
