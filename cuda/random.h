// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: a draw is a pure function of its key and its index.
//
// No generator state is carried along, so the same (seed, environment, episode, draw) gives the same number on every
// device, in every thread and in any order. Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers:
// as easy as 1, 2, 3", SC'11 (Philox 4x32 with 10 rounds).
#pragma once

#include <cstdint>

#include "portability.h"

namespace seed {

struct PhiloxBlock {
  uint32_t words[4];
};

// Encrypts `counter` with `key`: four independent uniform words.
SEED_HD inline PhiloxBlock philox4x32(PhiloxBlock counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter.words[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter.words[2];
    counter =
        PhiloxBlock{{static_cast<uint32_t>(product1 >> 32) ^ counter.words[1] ^ key0, static_cast<uint32_t>(product1),
                     static_cast<uint32_t>(product0 >> 32) ^ counter.words[3] ^ key1, static_cast<uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// What separates one stream of draws from every other.
struct RandomKey {
  uint32_t seed;
  uint32_t env_id;
  uint32_t episode;
  uint32_t purpose;  // one number for each use, so that one use cannot shift another's draws
};

// Draw number `index` of the stream, uniform in 0 .. 2^32 - 1.
SEED_HD inline uint32_t random_draw(const RandomKey& key, uint32_t index) {
  const PhiloxBlock block = philox4x32(PhiloxBlock{{index >> 2, key.episode, key.purpose, 0}}, key.seed, key.env_id);
  return block.words[index & 3];
}

}  // namespace seed
