// SPDX-License-Identifier: Apache-2.0
// From bit masks to bytes: writes the pixels of one line segment.
//
// A block of pixels takes its bits out of the 160-bit masks, widens each bit to a byte of ones or zeros and blends the
// colours: 32 pixels with AVX2 (looked for at run time), 16 with SSE2, 8 in a 64-bit register anywhere else. The last
// block of a segment overlaps the one before instead of being cut.
#pragma once

#include <cstdint>
#include <cstring>

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

// Which pixels take which colour: disjoint masks; the rest is background.
struct PixelMasks {
  ObjectMask playfield, player0, player1;
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

// On a device the rows of a picture begin at multiples of 8 bytes.
SEED_HD inline void copy_row(uint8_t* to, const uint8_t* from) {
#if defined(SEED_DEVICE_CODE)
  for (int x = 0; x < kScreenWidth; x += 8)
    *reinterpret_cast<uint64_t*>(to + x) = *reinterpret_cast<const uint64_t*>(from + x);
#else
  std::memcpy(to, from, kScreenWidth);
#endif
}

// 64 bits of a mask from pixel x < 192 on.
SEED_HD SEED_FORCE_INLINE uint64_t bits_from(const ObjectMask& mask, int x) {
  const int word = x >> 6, shift = x & 63;
  return mask[word] >> shift | (mask[word + 1] << 1) << (63 - shift);
}

// --- 8 pixels in a register -----------------------------------------------------------------------------------------

// Byte i of the result is 1 where bit i is set.
SEED_HD SEED_FORCE_INLINE uint64_t widen_8_bits(uint64_t bits) {
  const uint64_t spread = (bits & 0xff) * 0x0101010101010101u & 0x8040201008040201u;
  return ((spread + 0x7f7f7f7f7f7f7f7fu) | spread) >> 7 & 0x0101010101010101u;
}

SEED_HD SEED_FORCE_INLINE uint64_t blend_8(const PixelMasks& masks, PixelColours colours, int x) {
  // A byte that is 0 or 1 times a colour is 0 or that colour.
  const uint64_t background = colours.background * 0x0101010101010101u;
  return background ^
         widen_8_bits(bits_from(masks.playfield, x)) * static_cast<uint8_t>(colours.playfield ^ colours.background) ^
         widen_8_bits(bits_from(masks.player0, x)) * static_cast<uint8_t>(colours.player0 ^ colours.background) ^
         widen_8_bits(bits_from(masks.player1, x)) * static_cast<uint8_t>(colours.player1 ^ colours.background);
}

#if defined(SEED_DEVICE_CODE)

// Blocks begin at multiples of 8, as rows do: a whole one is one store.
SEED_HD inline void draw_masks_by_8(uint8_t* row, int first_x, int last_x, const PixelMasks& masks,
                                    PixelColours colours) {
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

SEED_HD SEED_FORCE_INLINE void store_8_pixels(uint8_t* pixels, uint64_t block) { std::memcpy(pixels, &block, 8); }

SEED_HD inline void draw_masks_by_8(uint8_t* row, int first_x, int last_x, const PixelMasks& masks,
                                    PixelColours colours) {
  if (last_x - first_x < 8) {
    store_few_pixels(row + first_x, blend_8(masks, colours, first_x), last_x - first_x);
    return;
  }
  for (int x = first_x; x + 8 <= last_x; x += 8) store_8_pixels(row + x, blend_8(masks, colours, x));
  if ((last_x - first_x) & 7) store_8_pixels(row + last_x - 8, blend_8(masks, colours, last_x - 8));
}

#endif

// Words of the left half of a line.
SEED_HD SEED_FORCE_INLINE uint64_t left_half(int word) { return word == 0 ? ~uint64_t{0} : word == 1 ? 0xffff : 0; }

// Who is seen in words first_word to last_word.
SEED_HD SEED_FORCE_INLINE void resolve_priority(const ObjectMask* objects, PixelPriority priority, int first_word,
                                                int last_word, PixelMasks& masks) {
  masks.playfield[last_word + 1] = masks.player0[last_word + 1] = masks.player1[last_word + 1] = 0;
  for (int word = first_word; word <= last_word; ++word) {
    uint64_t playfield = objects[kPF][word] | objects[kBL][word];
    uint64_t player0 = objects[kP0][word] | objects[kM0][word], player1 = objects[kP1][word] | objects[kM1][word];
    if (priority == PixelPriority::kPlayfieldFirst) {
      player0 &= ~playfield;
      player1 &= ~playfield;
    } else if (priority == PixelPriority::kScore) {
      player0 |= objects[kPF][word] & left_half(word);
      player1 |= objects[kPF][word] & ~left_half(word);
    }
    masks.player0[word] = player0;
    masks.player1[word] = player1 & ~player0;
    masks.playfield[word] = playfield & ~(player0 | player1);
  }
}

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

// Draws segments of 16 pixels and more.
inline void draw_masks_sse2(uint8_t* row, int first_x, int last_x, const PixelMasks& masks, PixelColours colours) {
  const __m128i background = all_16(colours.background), playfield = all_16(colours.playfield ^ colours.background);
  const __m128i player0 = all_16(colours.player0 ^ colours.background);
  const __m128i player1 = all_16(colours.player1 ^ colours.background);
  for (int x = first_x;;) {
    __m128i block = _mm_and_si128(widen_16_bits(bits_from(masks.playfield, x)), playfield);
    block = _mm_xor_si128(block, _mm_and_si128(widen_16_bits(bits_from(masks.player0, x)), player0));
    block = _mm_xor_si128(block, _mm_and_si128(widen_16_bits(bits_from(masks.player1, x)), player1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(row + x), _mm_xor_si128(block, background));
    if (x == last_x - 16) return;
    x = x + 32 <= last_x ? x + 16 : last_x - 16;
  }
}

// --- 32 pixels in an AVX2 register ----------------------------------------------------------------------------------

#define SEED_TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2")))

SEED_TARGET_AVX2 SEED_FORCE_INLINE __m256i widen_32_bits(uint64_t bits) {
  const __m256i select = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
  const __m256i byte_of_pixel =
      _mm256_setr_epi64x(0x0000000000000000, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i block = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(bits)), byte_of_pixel);
  return _mm256_cmpeq_epi8(_mm256_and_si256(block, select), select);
}

SEED_TARGET_AVX2 SEED_FORCE_INLINE __m256i all_32(int byte) { return _mm256_set1_epi8(static_cast<char>(byte)); }

SEED_TARGET_AVX2 SEED_FORCE_INLINE __m256i load_mask(const ObjectMask& mask) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(mask));
}

SEED_TARGET_AVX2 SEED_FORCE_INLINE void store_mask(ObjectMask& mask, __m256i bits) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(mask), bits);
}

SEED_TARGET_AVX2 SEED_FORCE_INLINE void resolve_priority_avx2(const ObjectMask* objects, PixelPriority priority,
                                                              PixelMasks& masks) {
  const __m256i field = load_mask(objects[kPF]);
  const __m256i playfield = _mm256_or_si256(field, load_mask(objects[kBL]));
  __m256i player0 = _mm256_or_si256(load_mask(objects[kP0]), load_mask(objects[kM0]));
  __m256i player1 = _mm256_or_si256(load_mask(objects[kP1]), load_mask(objects[kM1]));
  if (priority == PixelPriority::kPlayfieldFirst) {
    player0 = _mm256_andnot_si256(playfield, player0);
    player1 = _mm256_andnot_si256(playfield, player1);
  } else if (priority == PixelPriority::kScore) {
    const __m256i left = _mm256_setr_epi64x(-1, 0xffff, 0, 0);
    player0 = _mm256_or_si256(player0, _mm256_and_si256(left, field));
    player1 = _mm256_or_si256(player1, _mm256_andnot_si256(left, field));
  }
  store_mask(masks.player0, player0);
  store_mask(masks.player1, _mm256_andnot_si256(player0, player1));
  store_mask(masks.playfield, _mm256_andnot_si256(_mm256_or_si256(player0, player1), playfield));
}

// Draws segments of 32 pixels and more.
SEED_TARGET_AVX2 SEED_FORCE_INLINE void draw_masks_avx2(uint8_t* row, int first_x, int last_x, const PixelMasks& masks,
                                                        PixelColours colours) {
  const __m256i background = all_32(colours.background), playfield = all_32(colours.playfield ^ colours.background);
  const __m256i player0 = all_32(colours.player0 ^ colours.background);
  const __m256i player1 = all_32(colours.player1 ^ colours.background);
  for (int x = first_x;;) {
    __m256i block = _mm256_and_si256(widen_32_bits(bits_from(masks.playfield, x)), playfield);
    block = _mm256_xor_si256(block, _mm256_and_si256(widen_32_bits(bits_from(masks.player0, x)), player0));
    block = _mm256_xor_si256(block, _mm256_and_si256(widen_32_bits(bits_from(masks.player1, x)), player1));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + x), _mm256_xor_si256(block, background));
    if (x == last_x - 32) return;
    x = x + 64 <= last_x ? x + 32 : last_x - 32;
  }
}

SEED_TARGET_AVX2 SEED_NO_INLINE void draw_objects_avx2(uint8_t* row, int first_x, int last_x, const ObjectMask* objects,
                                                       PixelPriority priority, PixelColours colours) {
  PixelMasks masks;
  resolve_priority_avx2(objects, priority, masks);
  if (last_x - first_x >= 32) {
    draw_masks_avx2(row, first_x, last_x, masks, colours);
  } else if (last_x - first_x >= 16) {
    draw_masks_sse2(row, first_x, last_x, masks, colours);
  } else {
    draw_masks_by_8(row, first_x, last_x, masks, colours);
  }
}

SEED_FORCE_INLINE bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"); }

#endif

// Writes pixels first_x <= x < last_x of `row`, which the masks of six objects cover.
SEED_HD inline void draw_objects(uint8_t* row, int first_x, int last_x, const ObjectMask* objects,
                                 PixelPriority priority, PixelColours colours) {
#if defined(SEED_PIXELS_X86)
  if (has_avx2()) {
    draw_objects_avx2(row, first_x, last_x, objects, priority, colours);
    return;
  }
#endif
  PixelMasks masks;
  resolve_priority(objects, priority, first_x >> 6, (last_x - 1) >> 6, masks);
#if defined(SEED_PIXELS_X86)
  if (last_x - first_x >= 16) {
    draw_masks_sse2(row, first_x, last_x, masks, colours);
    return;
  }
#endif
  draw_masks_by_8(row, first_x, last_x, masks, colours);
}

}  // namespace seed
