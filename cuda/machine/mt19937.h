// SPDX-License-Identifier: Apache-2.0
// The 32-bit Mersenne Twister as a plain struct, so that it can be copied with the state that it drives.
//
// Draws are those of std::mt19937 with the same one-word seed.
// Source: M. Matsumoto and T. Nishimura, "Mersenne Twister", ACM TOMACS 8(1), 1998 (init_genrand of 2002).
#pragma once

#include <cstdint>
#include <type_traits>

#include "portability.h"

namespace seed {

struct Mt19937 {
  static constexpr int kWords = 624;
  static constexpr int kMiddle = 397;

  uint32_t words[kWords];
  int32_t next;  // index of the next word to hand out; kWords = the block is used up
};
static_assert(std::is_trivially_copyable<Mt19937>::value, "copied with memcpy");

SEED_HD SEED_CALL inline void mt19937_seed(Mt19937& generator, uint32_t seed) {
  generator.words[0] = seed;
  SEED_NO_UNROLL
  for (int i = 1; i < Mt19937::kWords; ++i) {
    const uint32_t previous = generator.words[i - 1];
    generator.words[i] = 1812433253u * (previous ^ (previous >> 30)) + static_cast<uint32_t>(i);
  }
  generator.next = Mt19937::kWords;
}

// Replaces the used-up block by the next one.
SEED_HD inline void mt19937_twist(Mt19937& generator) {
  uint32_t* const words = generator.words;
  SEED_NO_UNROLL
  for (int i = 0; i < Mt19937::kWords; ++i) {
    const uint32_t joined = (words[i] & 0x80000000u) | (words[i + 1 == Mt19937::kWords ? 0 : i + 1] & 0x7fffffffu);
    const int middle = i + Mt19937::kMiddle;
    words[i] = words[middle < Mt19937::kWords ? middle : middle - Mt19937::kWords] ^ (joined >> 1) ^
               ((joined & 1u) ? 0x9908b0dfu : 0u);
  }
  generator.next = 0;
}

// Returns the next 32-bit draw.
SEED_HD SEED_CALL inline uint32_t mt19937_draw(Mt19937& generator) {
  if (generator.next >= Mt19937::kWords) mt19937_twist(generator);
  uint32_t word = generator.words[generator.next++];
  word ^= word >> 11;
  word ^= (word << 7) & 0x9d2c5680u;
  word ^= (word << 15) & 0xefc60000u;
  return word ^ (word >> 18);
}

}  // namespace seed
