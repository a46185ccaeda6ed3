// SPDX-License-Identifier: Apache-2.0
// Television Interface Adaptor: picture, collisions and inputs, evaluated lazily by register-write segments.
#pragma once

#include <cstdint>

#include "machine/riot.h"
#include "portability.h"

namespace seed {

constexpr int kScreenWidth = 160;
constexpr int kClocksPerCycle = 3;
constexpr int kClocksPerLine = 228;
constexpr int kCyclesPerLine = 76;
constexpr int kHblankClocks = 68;

// The part of the television picture that is kept, and how.
struct Display {
  bool pal;           // line limit 342 instead of 290; an odd line count takes the colour away
  uint16_t ystart;    // first scanline that is kept
  uint16_t height;    // number of scanlines kept = rows of a picture buffer
  bool hmove_blanks;  // HMOVE blanks the first eight pixels
};

// The movable objects and the playfield, in the order of Tia::mask.
enum TiaObject { kP0 = 0, kP1 = 1, kM0 = 2, kM1 = 3, kBL = 4, kPF = 5, kNumTiaObjects = 6 };

// All stamps and clocks are relative to the start of the frame.
struct Tia {
  uint64_t mask[kNumTiaObjects][3];  // the 160 pixels of a line that each object covers, bit x & 63 of word x >> 6
  int32_t drawn_clock;               // every pixel before this colour clock is drawn and has collided
  int32_t window_start_clock;        // of row 0
  int32_t window_stop_clock;
  int32_t vsync_due_clock;  // a VSYNC off before this clock does not end the frame; INT32_MAX = VSYNC is off
  int32_t hmove_clock;      // last HMOVE strobe
  int32_t dump_off_cycles;  // when VBLANK bit 7 fell: the paddle capacitors charge since
  uint16_t collisions;      // bit 2r + 1 and 2r = bit 7 and 6 of collision register r
  uint8_t stale;            // bit i: mask[i] must be rebuilt
  uint8_t VSYNC, VBLANK, CTRLPF;
  uint8_t PF[3];
  uint8_t NUSIZ[2], REFP[2], RESMP[2], VDELP[2];
  uint8_t GRP[2], delayed_GRP[2];
  uint8_t ENAM[2];
  uint8_t ENABL, delayed_ENABL, VDELBL;
  uint8_t HM[5];          // motion nibbles of P0, P1, M0, M1, BL
  uint8_t position[5];    // pixel of the leftmost copy of P0, P1, M0, M1, BL
  uint8_t colour[4];      // COLUP0, COLUP1, COLUPF, COLUBK without bit 0
  uint8_t colour_loss;    // 1: PAL picture after a frame with an odd number of lines
  uint8_t reflect;        // CTRLPF bit 0 as latched at the last line end
  uint8_t skip_first[2];  // the first copy of the player is not shown
  uint8_t hmove_blank;    // the next pixels left of 8 are black
  uint8_t star_bug;       // M0 motion bug: 0 off, 1 on
  uint8_t star_phase;
};

}  // namespace seed
