// SPDX-License-Identifier: Apache-2.0
// From bit masks to bytes: writes the pixels of one line segment.
//
// What an object covers of a line are 160 bits (ObjectMask in memory, LineBits in registers). A block of pixels takes
// its bits out of them, widens each bit to a byte of ones or zeros and blends the colours: 32 pixels with AVX2 (looked
// for at run time), 16 with SSE2, 8 in a 64-bit register anywhere else.
#pragma once

#include <cstdint>
#include <cstring>

#include "machine/switches.h"
#include "portability.h"

#if !defined(__CUDACC__) && !defined(SEED_DEVICE_CODE) && defined(__x86_64__) && defined(__GNUC__)
#define SEED_PIXELS_X86
#include <immintrin.h>
#endif

namespace seed {

constexpr int kScreenWidth = 160;
constexpr int kMaskWords = 4;  // 160 bits and padding that is always 0

struct PixelColours {
  uint8_t background, playfield, player0, player1;
};

// The movable objects and the playfield, in the order of their masks.
enum TiaObject { kP0 = 0, kP1 = 1, kM0 = 2, kM1 = 3, kBL = 4, kPF = 5, kNumTiaObjects = 6 };

// The pixels of a line that an object covers: bit x & 63 of word x >> 6.
using ObjectMask = uint64_t[kMaskWords];

enum class PixelPriority : uint8_t {
  kPlayersFirst,
  kPlayfieldFirst,
  kScore,  // players first; the playfield takes their colours, the left half COLUP0, even where player 1 covers it
};

SEED_HD inline void fill_pixels(uint8_t* pixels, int count, uint8_t value) {
#if defined(SEED_DEVICE_CODE)
  uint8_t* const end = pixels + count;
  while (pixels < end && (reinterpret_cast<uintptr_t>(pixels) & 7)) *pixels++ = value;
  for (; pixels + 8 <= end; pixels += 8) *reinterpret_cast<uint64_t*>(pixels) = value * 0x0101010101010101u;
  while (pixels < end) *pixels++ = value;
#else
  std::memset(pixels, value, static_cast<size_t>(count));
#endif
}

// On a device the rows of a picture begin at multiples of 8 bytes, and so do these eight pixels.
SEED_HD SEED_FORCE_INLINE void store_8_pixels(uint8_t* pixels, uint64_t block) {
#if defined(SEED_DEVICE_CODE)
  *reinterpret_cast<uint64_t*>(pixels) = block;
#else
  std::memcpy(pixels, &block, 8);
#endif
}
SEED_HD inline void copy_row(uint8_t* to, const uint8_t* from) {
#if defined(SEED_DEVICE_CODE)
  for (int x = 0; x < kScreenWidth; x += 8)
    *reinterpret_cast<uint64_t*>(to + x) = *reinterpret_cast<const uint64_t*>(from + x);
#elif defined(SEED_PIXELS_X86) && defined(__AVX2__)
  SEED_UNROLL
  for (int x = 0; x < kScreenWidth; x += 32) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + x),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + x)));
  }
#else
  std::memcpy(to, from, kScreenWidth);
#endif
}

// --- Sets of pixels of a line ---------------------------------------------------------------------------------------

// The value of an ObjectMask.
#if defined(SEED_PIXELS_X86) && defined(__AVX2__)

struct LineBits {
  __m256i bits;
};

SEED_FORCE_INLINE LineBits load_bits(const ObjectMask& mask) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(mask))};
}
SEED_FORCE_INLINE void store_bits(ObjectMask& mask, LineBits a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(mask), a.bits);
}
SEED_FORCE_INLINE LineBits operator&(LineBits a, LineBits b) { return {_mm256_and_si256(a.bits, b.bits)}; }
SEED_FORCE_INLINE LineBits operator|(LineBits a, LineBits b) { return {_mm256_or_si256(a.bits, b.bits)}; }
SEED_FORCE_INLINE LineBits without(LineBits a, LineBits b) { return {_mm256_andnot_si256(b.bits, a.bits)}; }
SEED_FORCE_INLINE bool any(LineBits a) { return !_mm256_testz_si256(a.bits, a.bits); }

// The bits of `pattern` from pixel `x` on, 0 <= x < 256; what lies beyond the line is kept, up to pixel 255.
SEED_FORCE_INLINE LineBits shifted_bits(uint64_t pattern, int x) {
  const __m256i from = _mm256_sub_epi64(_mm256_set1_epi64x(x), _mm256_setr_epi64x(0, 64, 128, 192));
  const __m256i all = _mm256_set1_epi64x(static_cast<long long>(pattern));
  // Shifts by 64 and more, negative ones included, give 0.
  return {_mm256_or_si256(_mm256_sllv_epi64(all, from),
                          _mm256_srlv_epi64(all, _mm256_sub_epi64(_mm256_setzero_si256(), from)))};
}

// Moves what lies beyond the line, less than 96 pixels, to its beginning.
SEED_FORCE_INLINE LineBits wrapped_bits(LineBits a) {
  const __m256i beyond = _mm256_permutevar8x32_epi32(a.bits, _mm256_setr_epi32(5, 6, 7, 3, 3, 3, 3, 3));
  const __m256i line = _mm256_setr_epi32(-1, -1, -1, -1, -1, 0, 0, 0),
                wrapped = _mm256_setr_epi32(-1, -1, -1, 0, 0, 0, 0, 0);
  return {_mm256_or_si256(_mm256_and_si256(a.bits, line), _mm256_and_si256(beyond, wrapped))};
}

#else

struct LineBits {
  uint64_t word[kMaskWords];
};

SEED_HD SEED_FORCE_INLINE LineBits load_bits(const ObjectMask& mask) { return {{mask[0], mask[1], mask[2], 0}}; }
SEED_HD SEED_FORCE_INLINE void store_bits(ObjectMask& mask, const LineBits& a) {
  for (int i = 0; i < kMaskWords; ++i) mask[i] = a.word[i];
}
SEED_HD SEED_FORCE_INLINE LineBits operator&(const LineBits& a, const LineBits& b) {
  return {{a.word[0] & b.word[0], a.word[1] & b.word[1], a.word[2] & b.word[2], 0}};
}
SEED_HD SEED_FORCE_INLINE LineBits operator|(const LineBits& a, const LineBits& b) {
  return {{a.word[0] | b.word[0], a.word[1] | b.word[1], a.word[2] | b.word[2], 0}};
}
SEED_HD SEED_FORCE_INLINE LineBits without(const LineBits& a, const LineBits& b) {
  return {{a.word[0] & ~b.word[0], a.word[1] & ~b.word[1], a.word[2] & ~b.word[2], 0}};
}
SEED_HD SEED_FORCE_INLINE bool any(const LineBits& a) { return (a.word[0] | a.word[1] | a.word[2]) != 0; }

SEED_HD SEED_FORCE_INLINE LineBits shifted_bits(uint64_t pattern, int x) {
  const int word = x >> 6, shift = x & 63;
  const uint64_t low = pattern << shift, high = (pattern >> 1) >> (63 - shift);
  return {{word == 0 ? low : 0,
           word == 1   ? low
           : word == 0 ? high
                       : 0,
           word == 2   ? low
           : word == 1 ? high
                       : 0,
           word == 3   ? low
           : word == 2 ? high
                       : 0}};
}

SEED_HD SEED_FORCE_INLINE LineBits wrapped_bits(const LineBits& a) {
  return {{a.word[0] | a.word[2] >> 32 | a.word[3] << 32, a.word[1] | a.word[3] >> 32, a.word[2] & 0xffffffffu, 0}};
}

#endif

// The pixels left of each pixel.
struct PixelsBefore {
  ObjectMask before[kScreenWidth + 1];
};
constexpr PixelsBefore pixels_before() {
  PixelsBefore pixels{};
  for (int x = 0; x <= kScreenWidth; ++x) {
    for (int bit = 0; bit < x; ++bit) pixels.before[x][bit >> 6] |= uint64_t{1} << (bit & 63);
  }
  return pixels;
}
SEED_HD SEED_FORCE_INLINE LineBits bits_before(int x) {
  static constexpr PixelsBefore kPixels = pixels_before();
  return load_bits(kPixels.before[x]);
}

// What an object's pattern of 64 pixels at `position` of the ring of 160 pixels covers, with another pattern of less
// than 32 pixels 64 pixels on.
SEED_HD SEED_FORCE_INLINE LineBits placed_bits(uint64_t pattern, uint64_t pattern_at_64, int position) {
  LineBits bits = wrapped_bits(shifted_bits(pattern, position));
  if (pattern_at_64 != 0) {
    const int second = position + 64 < kScreenWidth ? position + 64 : position + 64 - kScreenWidth;
    bits = bits | wrapped_bits(shifted_bits(pattern_at_64, second));
  }
  return bits;
}

// What the six objects cover.
struct ObjectBits {
  LineBits of[kNumTiaObjects];
};

// Which colour each pixel takes, as a number of two bits: 0 background, 1 playfield, 2 player 0, 3 player 1.
struct SeenBits {
  LineBits low, high;
};

SEED_HD SEED_FORCE_INLINE SeenBits resolve_priority(const ObjectBits& objects, PixelPriority priority) {
  const LineBits field = objects.of[kPF], playfield = field | objects.of[kBL];
  LineBits player0 = objects.of[kP0] | objects.of[kM0], player1 = objects.of[kP1] | objects.of[kM1];
  if (priority == PixelPriority::kPlayfieldFirst) {
    player0 = without(player0, playfield);
    player1 = without(player1, playfield);
  } else if (priority == PixelPriority::kScore) {
    const LineBits left_half = bits_before(kScreenWidth / 2);
    player0 = player0 | (field & left_half);
    player1 = player1 | without(field, left_half);
  }
  const LineBits players = player0 | player1;
  return {without(playfield, players) | without(player1, player0), players};
}

// --- 8 pixels in a register -----------------------------------------------------------------------------------------

// SeenBits in memory.
struct SeenMasks {
  ObjectMask low, high;
};

// 64 bits of a mask from pixel x < 192 on.
SEED_HD SEED_FORCE_INLINE uint64_t bits_from(const ObjectMask& mask, int x) {
  const int word = x >> 6, shift = x & 63;
  return mask[word] >> shift | (mask[word + 1] << 1) << (63 - shift);
}

// Byte i of the result is 1 where bit i is set.
SEED_HD SEED_FORCE_INLINE uint64_t widen_8_bits(uint64_t bits) {
  const uint64_t spread = (bits & 0xff) * 0x0101010101010101u & 0x8040201008040201u;
  return ((spread + 0x7f7f7f7f7f7f7f7fu) | spread) >> 7 & 0x0101010101010101u;
}

// What a pixel with both bits has besides the background and the differences of one bit to it.
SEED_HD SEED_FORCE_INLINE uint8_t third_difference(PixelColours colours) {
  return static_cast<uint8_t>(colours.background ^ colours.playfield ^ colours.player0 ^ colours.player1);
}

SEED_HD SEED_FORCE_INLINE uint64_t blend_8(const SeenMasks& masks, PixelColours colours, int x) {
  // A byte that is 0 or 1 times a colour is 0 or that colour.
  const uint64_t low = widen_8_bits(bits_from(masks.low, x)), high = widen_8_bits(bits_from(masks.high, x));
  return colours.background * 0x0101010101010101u ^ low * static_cast<uint8_t>(colours.playfield ^ colours.background) ^
         high * static_cast<uint8_t>(colours.player0 ^ colours.background) ^ (low & high) * third_difference(colours);
}

#if defined(SEED_DEVICE_CODE)

// Blocks begin at multiples of 8, as rows do: a whole one is one store.
SEED_HD inline void draw_by_8(uint8_t* row, int first_x, int last_x, const SeenMasks& masks, PixelColours colours) {
  for (int x = first_x & ~7; x < last_x; x += 8) {
    const uint64_t block = blend_8(masks, colours, x);
    if (x >= first_x && x + 8 <= last_x) {
      *reinterpret_cast<uint64_t*>(row + x) = block;
    } else {
      for (int i = 0; i < 8; ++i)
        if (x + i >= first_x && x + i < last_x) row[x + i] = static_cast<uint8_t>(block >> (8 * i));
    }
  }
}

#else

// Writes fewer than 8 pixels.
SEED_HD SEED_FORCE_INLINE void store_few_pixels(uint8_t* pixels, uint64_t block, int count) {
  if (count & 4) {
    std::memcpy(pixels, &block, 4);
    block >>= 32;
    pixels += 4;
  }
  if (count & 2) {
    std::memcpy(pixels, &block, 2);
    block >>= 16;
    pixels += 2;
  }
  if (count & 1) *pixels = static_cast<uint8_t>(block);
}

// The last block overlaps the one before instead of being cut.
SEED_HD inline void draw_by_8(uint8_t* row, int first_x, int last_x, const SeenMasks& masks, PixelColours colours) {
  if (last_x - first_x < 8) {
    store_few_pixels(row + first_x, blend_8(masks, colours, first_x), last_x - first_x);
    return;
  }
  for (int x = first_x; x + 8 <= last_x; x += 8) store_8_pixels(row + x, blend_8(masks, colours, x));
  if ((last_x - first_x) & 7) store_8_pixels(row + last_x - 8, blend_8(masks, colours, last_x - 8));
}

#endif

#if defined(SEED_PIXELS_X86)

// --- 16 pixels in an SSE2 register ----------------------------------------------------------------------------------

SEED_FORCE_INLINE __m128i widen_16_bits(uint64_t bits) {
  const __m128i select = _mm_set1_epi64x(static_cast<long long>(0x8040201008040201u));
  __m128i block = _mm_cvtsi32_si128(static_cast<int>(bits));
  block = _mm_unpacklo_epi8(block, block);
  block = _mm_unpacklo_epi16(block, block);
  block = _mm_unpacklo_epi32(block, block);
  return _mm_cmpeq_epi8(_mm_and_si128(block, select), select);
}

SEED_FORCE_INLINE __m128i all_16(int byte) { return _mm_set1_epi8(static_cast<char>(byte)); }

// Draws segments of 16 pixels and more; the last block overlaps the one before.
inline void draw_by_16(uint8_t* row, int first_x, int last_x, const SeenMasks& masks, PixelColours colours) {
  const __m128i background = all_16(colours.background), playfield = all_16(colours.playfield ^ colours.background);
  const __m128i player0 = all_16(colours.player0 ^ colours.background), third = all_16(third_difference(colours));
  for (int x = first_x;;) {
    const __m128i low = widen_16_bits(bits_from(masks.low, x)), high = widen_16_bits(bits_from(masks.high, x));
    __m128i block = _mm_xor_si128(_mm_and_si128(low, playfield), _mm_and_si128(high, player0));
    block = _mm_xor_si128(block, _mm_and_si128(_mm_and_si128(low, high), third));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(row + x), _mm_xor_si128(block, background));
    if (x == last_x - 16) return;
    x = x + 32 <= last_x ? x + 16 : last_x - 16;
  }
}

// --- 32 pixels in an AVX2 register ----------------------------------------------------------------------------------

#define SEED_TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2")))

SEED_TARGET_AVX2 SEED_FORCE_INLINE __m256i all_32(int byte) { return _mm256_set1_epi8(static_cast<char>(byte)); }

// Bytes of ones for bits.
SEED_TARGET_AVX2 SEED_FORCE_INLINE __m256i widen_32_bits(uint32_t word) {
  const __m256i select = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
  const __m256i byte_of_pixel =
      _mm256_setr_epi64x(0x0000000000000000, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bits = _mm256_set1_epi32(static_cast<int>(word));
  return _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(bits, byte_of_pixel), select), select);
}

// Blends 32 pixels.
struct Blender {
  const uint32_t *low, *high;  // sets of pixels
  __m256i background, playfield, player0, player1;

  SEED_TARGET_AVX2 SEED_FORCE_INLINE __m256i blend(int block) const {
    const __m256i is_low = widen_32_bits(low[block]);
    return _mm256_blendv_epi8(_mm256_blendv_epi8(background, playfield, is_low),
                              _mm256_blendv_epi8(player0, player1, is_low), widen_32_bits(high[block]));
  }
  SEED_TARGET_AVX2 SEED_FORCE_INLINE __m256i blend_playfield(int block) const {
    return _mm256_blendv_epi8(background, playfield, widen_32_bits(low[block]));
  }
};

// A window of 32 bytes at 32 - n selects the bytes from the n-th on, one at 64 - n those before it.
alignas(32) constexpr uint8_t kSelectedBytes[96] = {
    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

// Draws in the five blocks of 32 pixels that a line has. Of a block that is cut by an end of the segment, what lies
// outside keeps its pixels. Many lines show no players, or nothing at all.
SEED_TARGET_AVX2 SEED_FORCE_INLINE void draw_by_32(uint8_t* row, int first_x, int last_x, __m256i low, __m256i high,
                                                   PixelColours colours) {
  alignas(32) uint32_t words[2][8];  // a broadcast from memory is cheaper than one of a register's lanes
  _mm256_store_si256(reinterpret_cast<__m256i*>(words[0]), low);
  _mm256_store_si256(reinterpret_cast<__m256i*>(words[1]), high);
  const Blender blender = {words[0],
                           words[1],
                           all_32(colours.background),
                           all_32(colours.playfield),
                           all_32(colours.player0),
                           all_32(colours.player1)};
  __m256i* const blocks = reinterpret_cast<__m256i*>(row);
  if (last_x - first_x == kScreenWidth) {
    const bool has_players = !_mm256_testz_si256(high, high);
    if (has_players || !SEED_DRAW_BY_CONTENT) {
      SEED_UNROLL
      for (int block = 0; block < 5; ++block) _mm256_storeu_si256(blocks + block, blender.blend(block));
    } else if (!_mm256_testz_si256(low, low)) {
      SEED_UNROLL
      for (int block = 0; block < 5; ++block) _mm256_storeu_si256(blocks + block, blender.blend_playfield(block));
    } else {
      SEED_UNROLL
      for (int block = 0; block < 5; ++block) _mm256_storeu_si256(blocks + block, blender.background);
    }
    return;
  }
  for (int block = first_x >> 5; block <= (last_x - 1) >> 5; ++block) {
    const int skipped = first_x - 32 * block, drawn = last_x - 32 * block;
    const uint8_t* const from = kSelectedBytes + (skipped > 0 ? 32 - skipped : 32);
    const uint8_t* const to = kSelectedBytes + (drawn < 32 ? 64 - drawn : 32);
    const __m256i selected = _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)),
                                              _mm256_loadu_si256(reinterpret_cast<const __m256i*>(to)));
    const __m256i kept = _mm256_loadu_si256(blocks + block);
    _mm256_storeu_si256(blocks + block, _mm256_blendv_epi8(kept, blender.blend(block), selected));
  }
}

SEED_TARGET_AVX2 SEED_NO_INLINE void draw_masks_by_32(uint8_t* row, int first_x, int last_x, const SeenMasks& masks,
                                                      PixelColours colours) {
  draw_by_32(row, first_x, last_x, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(masks.low)),
             _mm256_loadu_si256(reinterpret_cast<const __m256i*>(masks.high)), colours);
}

SEED_FORCE_INLINE bool has_avx2() {
  return SEED_USE_AVX2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
}

#endif

// Writes pixels first_x <= x < last_x of `row`.
SEED_HD SEED_FORCE_INLINE void draw_pixels(uint8_t* row, int first_x, int last_x, const SeenBits& seen,
                                           PixelColours colours) {
#if defined(SEED_PIXELS_X86) && defined(__AVX2__)
  draw_by_32(row, first_x, last_x, seen.low.bits, seen.high.bits, colours);
#else
  SeenMasks masks;
  store_bits(masks.low, seen.low);
  store_bits(masks.high, seen.high);
#if defined(SEED_PIXELS_X86)
  if (has_avx2()) {
    draw_masks_by_32(row, first_x, last_x, masks, colours);
  } else if (last_x - first_x >= 16) {
    draw_by_16(row, first_x, last_x, masks, colours);
  } else {
    draw_by_8(row, first_x, last_x, masks, colours);
  }
#else
  draw_by_8(row, first_x, last_x, masks, colours);
#endif
#endif
}

}  // namespace seed
