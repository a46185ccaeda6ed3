// SPDX-License-Identifier: Apache-2.0
// From bit masks to bytes: writes the pixels of one line segment.
#pragma once

#include <cstdint>

#include "portability.h"

namespace seed {

constexpr int kScreenWidth = 160;

struct PixelColours {
  uint8_t background, playfield, player0, player1;
};

SEED_HD inline void fill_pixels(uint8_t* pixels, int count, uint8_t value) {
  for (int i = 0; i < count; ++i) pixels[i] = value;
}

// Writes pixels first_x <= x < last_x of `row`. The three masks are disjoint; what none of them covers is background.
SEED_HD inline void draw_pixels(uint8_t* row, int first_x, int last_x, const uint64_t playfield[4],
                                const uint64_t player0[4], const uint64_t player1[4], PixelColours colours) {
  for (int x = first_x; x < last_x; ++x) {
    const int word = x >> 6, bit = x & 63;
    row[x] = (playfield[word] >> bit & 1) ? colours.playfield
             : (player0[word] >> bit & 1) ? colours.player0
             : (player1[word] >> bit & 1) ? colours.player1
                                          : colours.background;
  }
}

}  // namespace seed
