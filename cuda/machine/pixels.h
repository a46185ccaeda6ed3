// SPDX-License-Identifier: Apache-2.0
// From bit masks to bytes: writes the pixels of one line segment.
//
// A block of pixels takes its mask bits out of the 160-bit masks, widens each bit to a byte of ones or zeros and blends
// the colours: 32 pixels with AVX2, 16 with SSE2, 8 in a 64-bit register anywhere else.
#pragma once

#include <cstdint>
#include <cstring>

#include "portability.h"

#if defined(__CUDA_ARCH__)
#define SEED_PIXELS_SCALAR
#elif defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#else
#define SEED_PIXELS_SCALAR
#endif

namespace seed {

constexpr int kScreenWidth = 160;

struct PixelColours {
  uint8_t background, playfield, player0, player1;
};

// Which pixels take which colour: disjoint 160-bit masks (the fourth word is padding); the rest is background.
struct PixelMasks {
  uint64_t playfield[4], player0[4], player1[4];
};

SEED_HD inline void fill_pixels(uint8_t* pixels, int count, uint8_t value) {
#if defined(__CUDA_ARCH__)
  for (int i = 0; i < count; ++i) pixels[i] = value;
#else
  std::memset(pixels, value, static_cast<size_t>(count));
#endif
}

SEED_HD inline void copy_row(uint8_t* to, const uint8_t* from) {
#if defined(__CUDA_ARCH__)
  for (int i = 0; i < kScreenWidth; ++i) to[i] = from[i];
#else
  std::memcpy(to, from, kScreenWidth);
#endif
}

// 64 bits of a mask from pixel x on, of which the first 64 - (x & 63) ones and what the next word adds are right.
SEED_HD SEED_FORCE_INLINE uint64_t bits_from(const uint64_t mask[4], int x) {
  const int word = x >> 6, shift = x & 63;
  return mask[word] >> shift | (mask[word + 1] << 1) << (63 - shift);
}

// --- 8 pixels in a register -----------------------------------------------------------------------------------------

// Byte i of the result is FF where bit i is set.
SEED_HD SEED_FORCE_INLINE uint64_t widen_8_bits(uint64_t bits) {
  const uint64_t spread = (bits & 0xff) * 0x0101010101010101u & 0x8040201008040201u;
  return ((spread + 0x7f7f7f7f7f7f7f7fu) | spread) >> 7 & 0x0101010101010101u;
}

SEED_HD SEED_FORCE_INLINE void store_pixels(uint8_t* pixels, uint64_t block, int count) {
  for (int i = 0; i < count; ++i) pixels[i] = static_cast<uint8_t>(block >> (8 * i));
}

SEED_HD inline void draw_pixels_by_8(uint8_t* row, int first_x, int last_x, const PixelMasks& masks,
                                     PixelColours colours) {
  const uint64_t ones = 0x0101010101010101u;
  const uint64_t background = colours.background * ones;
  const uint64_t playfield = colours.playfield ^ colours.background, player0 = colours.player0 ^ colours.background;
  const uint64_t player1 = colours.player1 ^ colours.background;
  for (int x = first_x; x < last_x; x += 8) {
    // A byte that is 0 or 1 times a colour is 0 or that colour.
    const uint64_t block = background ^ widen_8_bits(bits_from(masks.playfield, x)) * playfield ^
                           widen_8_bits(bits_from(masks.player0, x)) * player0 ^
                           widen_8_bits(bits_from(masks.player1, x)) * player1;
    store_pixels(row + x, block, last_x - x < 8 ? last_x - x : 8);
  }
}

#if defined(SEED_PIXELS_SCALAR)

SEED_HD inline void draw_pixels(uint8_t* row, int first_x, int last_x, const PixelMasks& masks, PixelColours colours) {
  draw_pixels_by_8(row, first_x, last_x, masks, colours);
}

#else

// --- 16 pixels in an SSE2 register ----------------------------------------------------------------------------------

struct Colours16 {
  __m128i background, playfield, player0, player1;  // the latter three XORed with the background
};

SEED_FORCE_INLINE Colours16 colours16(PixelColours colours) {
  const auto all = [](int byte) { return _mm_set1_epi8(static_cast<char>(byte)); };
  return {all(colours.background), all(colours.playfield ^ colours.background),
          all(colours.player0 ^ colours.background), all(colours.player1 ^ colours.background)};
}

SEED_FORCE_INLINE __m128i widen_16_bits(uint64_t bits) {
  const __m128i select = _mm_set1_epi64x(static_cast<long long>(0x8040201008040201u));
  __m128i block = _mm_cvtsi32_si128(static_cast<int>(bits));
  block = _mm_unpacklo_epi8(block, block);
  block = _mm_unpacklo_epi16(block, block);
  block = _mm_unpacklo_epi32(block, block);
  return _mm_cmpeq_epi8(_mm_and_si128(block, select), select);
}

SEED_FORCE_INLINE __m128i blend_16(const Colours16& colours, uint64_t playfield, uint64_t player0, uint64_t player1) {
  const __m128i block = _mm_xor_si128(colours.background, _mm_and_si128(widen_16_bits(playfield), colours.playfield));
  return _mm_xor_si128(_mm_xor_si128(block, _mm_and_si128(widen_16_bits(player0), colours.player0)),
                       _mm_and_si128(widen_16_bits(player1), colours.player1));
}

SEED_FORCE_INLINE void store_pixels(uint8_t* pixels, __m128i block, int count) {
  if (count & 8) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(pixels), block);
    block = _mm_unpackhi_epi64(block, block);
    pixels += 8;
  }
  uint64_t rest;
  _mm_storel_epi64(reinterpret_cast<__m128i*>(&rest), block);
  if (count & 4) {
    std::memcpy(pixels, &rest, 4);
    rest >>= 32;
    pixels += 4;
  }
  if (count & 2) {
    std::memcpy(pixels, &rest, 2);
    rest >>= 16;
    pixels += 2;
  }
  if (count & 1) *pixels = static_cast<uint8_t>(rest);
}

SEED_FORCE_INLINE void draw_pixels_by_16(uint8_t* row, int first_x, int last_x, const PixelMasks& masks,
                                         const Colours16& colours) {
  for (int x = first_x; x < last_x; x += 16) {
    const __m128i block =
        blend_16(colours, bits_from(masks.playfield, x), bits_from(masks.player0, x), bits_from(masks.player1, x));
    if (last_x - x < 16) {
      store_pixels(row + x, block, last_x - x);
    } else {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(row + x), block);
    }
  }
}

#if defined(__AVX2__)

// --- 32 pixels in an AVX2 register ----------------------------------------------------------------------------------

SEED_FORCE_INLINE __m256i widen_32_bits(uint64_t bits) {
  const __m256i select = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
  const __m256i byte_of_pixel =
      _mm256_setr_epi64x(0x0000000000000000, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i block = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(bits)), byte_of_pixel);
  return _mm256_cmpeq_epi8(_mm256_and_si256(block, select), select);
}

inline void draw_pixels(uint8_t* row, int first_x, int last_x, const PixelMasks& masks, PixelColours colours) {
  const Colours16 narrow = colours16(colours);
  const __m256i background = _mm256_broadcastsi128_si256(narrow.background);
  const __m256i playfield = _mm256_broadcastsi128_si256(narrow.playfield);
  const __m256i player0 = _mm256_broadcastsi128_si256(narrow.player0);
  const __m256i player1 = _mm256_broadcastsi128_si256(narrow.player1);
  int x = first_x;
  for (; x + 32 <= last_x; x += 32) {
    __m256i block = _mm256_and_si256(widen_32_bits(bits_from(masks.playfield, x)), playfield);
    block = _mm256_xor_si256(block, _mm256_and_si256(widen_32_bits(bits_from(masks.player0, x)), player0));
    block = _mm256_xor_si256(block, _mm256_and_si256(widen_32_bits(bits_from(masks.player1, x)), player1));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + x), _mm256_xor_si256(block, background));
  }
  draw_pixels_by_16(row, x, last_x, masks, narrow);
}

#else

inline void draw_pixels(uint8_t* row, int first_x, int last_x, const PixelMasks& masks, PixelColours colours) {
  draw_pixels_by_16(row, first_x, last_x, masks, colours16(colours));
}

#endif
#endif

}  // namespace seed
