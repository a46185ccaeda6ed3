// SPDX-License-Identifier: Apache-2.0
// Television Interface Adaptor: picture, collisions and inputs, evaluated lazily by register-write segments.
//
// The TIA is not stepped. Between two register writes that change what is shown, the pixels of a line are six 160-bit
// masks (two players, two missiles, ball, playfield); drawing and collisions are word operations on them. A write first
// draws everything before its colour clock in the old state (tia_draw_until), then changes the state.
//
// Everything exists only inside the window of lines that Display keeps; above and below it nothing is drawn or
// collides.
#pragma once

#include <cstdint>

#include "machine/pixels.h"
#include "machine/riot.h"
#include "portability.h"

namespace seed {

constexpr int kClocksPerCycle = 3;
constexpr int kClocksPerLine = 228;
constexpr int kCyclesPerLine = 76;
constexpr int kHblankClocks = 68;
constexpr int32_t kNever = 0x7fffffff;

// Frames are cut at the first TIA write after this many lines.
constexpr int kMaxLinesNtsc = 290;
constexpr int kMaxLinesPal = 342;

// The part of the television picture that is kept, and how.
struct Display {
  bool pal;                         // line limit 342 instead of 290; an odd line count takes the colour away
  uint16_t ystart;                  // first scanline that is kept
  uint16_t height;                  // number of scanlines kept = rows of a picture buffer
  bool hmove_blanks;                // HMOVE blanks the first eight pixels
  const uint8_t* shades = nullptr;  // what pixel values become in a picture: 256 bytes, 0 for 0; null: what they are
};

// Write addresses.
enum TiaRegister : uint8_t {
  // clang-format off
  kVSYNC, kVBLANK, kWSYNC, kRSYNC, kNUSIZ0, kNUSIZ1, kCOLUP0, kCOLUP1, kCOLUPF, kCOLUBK, kCTRLPF, kREFP0, kREFP1,
  kPF0, kPF1, kPF2, kRESP0, kRESP1, kRESM0, kRESM1, kRESBL, kAUDC0, kAUDC1, kAUDF0, kAUDF1, kAUDV0, kAUDV1,
  kGRP0, kGRP1, kENAM0, kENAM1, kENABL, kHMP0, kHMP1, kHMM0, kHMM1, kHMBL, kVDELP0, kVDELP1, kVDELBL,
  kRESMP0, kRESMP1, kHMOVE, kHMCLR, kCXCLR, kNumTiaRegisters
  // clang-format on
};

// All stamps and clocks are relative to the start of the frame.
struct Tia {
  ObjectMask mask[kNumTiaObjects];  // pixels of a line that each object covers: bit x & 63 of word x >> 6
  int32_t drawn_clock;              // every pixel before this colour clock is drawn and has collided
  int32_t window_start_clock;       // of row 0
  int32_t window_stop_clock;
  int32_t num_rows;               // of the picture; after a reset in mid-frame the window has more lines
  int32_t vsync_due_clock;        // a VSYNC write that ends the pulse before this clock does not end the frame
  int32_t hmove_clock;            // last HMOVE strobe
  int32_t dump_off_cycles;        // when VBLANK bit 7 fell: the paddle capacitors charge since
  uint64_t quiet;                 // bit r: writing reg[r]'s value to register r again changes nothing
  int32_t limit_cycles;           // the first TIA write from here on ends the frame
  int32_t accessed_clock;         // last write, whether or not it changed something, or collision read
  uint16_t collisions;            // bits 2r + 1 and 2r = bits 7 and 6 of collision register r
  uint16_t possible_collisions;   // of the objects that are shown at all
  uint8_t stale_masks;            // bit i: mask[i] must be rebuilt
  uint8_t shown;                  // bit i: mask[i] is not empty
  uint8_t reg[kNumTiaRegisters];  // last value written that changed something
  uint8_t delayed_GRP[2];
  uint8_t delayed_ENABL;
  uint8_t position[5];    // leftmost pixel of the first copy of P0, P1, M0, M1, BL
  uint8_t painted[4];     // what the picture shows for COLUP0, COLUP1, COLUPF, COLUBK; follows from reg and Display
  uint8_t colour_loss;    // 1: PAL picture after a frame with an odd number of lines
  uint8_t reflect_pf;     // CTRLPF bit 0 as latched at the last line end
  uint8_t skip_first[2];  // the first copy of the player is not shown
  uint8_t hmove_blank;    // the next pixels left of 8 are black
  uint8_t star_bug;       // M0 motion bug is on
  uint8_t star_phase;     // 0 to 3
  uint8_t frame_done;     // the program or the line limit has ended the frame
};

// The bits of a value written to register `reg` that mean anything. Sound is not emulated; motion registers count, but
// do not show before HMOVE.
SEED_HD SEED_FORCE_INLINE uint8_t significant_bits(int reg) {
  static constexpr uint8_t kSignificant[64] = {
      // VSYNC to NUSIZ1, colours, CTRLPF to PF2
      0x02, 0x82, 0x00, 0x00, 0x37, 0x37, 0xfe, 0xfe, 0xfe, 0xfe, 0x37, 0x08, 0x08, 0xf0, 0xff, 0xff,
      // strobes RESP0 to RESBL, sound, GRP0 to ENABL
      0xff, 0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0x02, 0x02, 0x02,
      // motion, VDEL, RESMP, strobes HMOVE to CXCLR
      0xf0, 0xf0, 0xf0, 0xf0, 0xf0, 0x01, 0x01, 0x01, 0x02, 0x02, 0xff, 0xff, 0xff};
  return kSignificant[reg];
}

SEED_HD SEED_FORCE_INLINE constexpr uint64_t register_bit(int reg) { return uint64_t{1} << reg; }

// Registers for which every write counts.
constexpr uint64_t kStrobes = register_bit(kVSYNC) | register_bit(kRESP0) | register_bit(kRESP1) |
                              register_bit(kRESM0) | register_bit(kRESM1) | register_bit(kRESBL) |
                              register_bit(kHMOVE) | register_bit(kHMCLR) | register_bit(kCXCLR);

SEED_HD inline void tia_reset(Tia& tia) {
  tia = Tia{};
  tia.vsync_due_clock = kNever;
  tia.stale_masks = 0x3f;
  tia.quiet = ~kStrobes;
}

SEED_HD SEED_FORCE_INLINE void tia_set_quiet(Tia& tia, int reg, bool quiet) {
  tia.quiet = quiet ? tia.quiet | register_bit(reg) : tia.quiet & ~register_bit(reg);
}

SEED_HD SEED_FORCE_INLINE int32_t cycles_to_line_end(int32_t cycles) {
  const int32_t phase = static_cast<int32_t>(static_cast<uint32_t>(cycles) % kCyclesPerLine);
  return phase == 0 ? 0 : kCyclesPerLine - phase;
}

SEED_HD SEED_FORCE_INLINE int32_t clock_of(int32_t cycles) {
  return static_cast<int32_t>(static_cast<uint32_t>(cycles) * kClocksPerCycle);
}

// --- Collision pairs ------------------------------------------------------------------------------------------------

// Bits of Tia::collisions: register r, bit 7 (odd) and bit 6 (even).
enum CollisionBit {
  kM0P0,
  kM0P1,
  kM1P1,
  kM1P0,
  kP0BL,
  kP0PF,
  kP1BL,
  kP1PF,
  kM0BL,
  kM0PF,
  kM1BL,
  kM1PF,
  kUnusedCollision,
  kBLPF,
  kM0M1,
  kP0P1
};
constexpr int kNumCollisionBits = 16;

// The two objects of each collision bit, first in the low nibble.
SEED_HD SEED_FORCE_INLINE int collision_pair(int bit) {
  static constexpr uint8_t kPairs[kNumCollisionBits] = {kP0 << 4 | kM0, kP1 << 4 | kM0, kP1 << 4 | kM1, kP0 << 4 | kM1,
                                                        kBL << 4 | kP0, kPF << 4 | kP0, kBL << 4 | kP1, kPF << 4 | kP1,
                                                        kBL << 4 | kM0, kPF << 4 | kM0, kBL << 4 | kM1, kPF << 4 | kM1,
                                                        kPF << 4 | kPF, kPF << 4 | kBL, kM1 << 4 | kM0, kP1 << 4 | kP0};
  return kPairs[bit];
}

// The collisions that the objects in `shown` (bit i: object i) can have.
SEED_HD inline uint32_t collisions_among(int shown) {
  constexpr uint32_t kAll = 0xffff & ~(1u << kUnusedCollision);
  uint32_t collisions = kAll;
  if (!(shown & 1 << kP0)) collisions &= ~(1u << kM0P0 | 1u << kM1P0 | 1u << kP0BL | 1u << kP0PF | 1u << kP0P1);
  if (!(shown & 1 << kP1)) collisions &= ~(1u << kM0P1 | 1u << kM1P1 | 1u << kP1BL | 1u << kP1PF | 1u << kP0P1);
  if (!(shown & 1 << kM0)) collisions &= ~(1u << kM0P0 | 1u << kM0P1 | 1u << kM0BL | 1u << kM0PF | 1u << kM0M1);
  if (!(shown & 1 << kM1)) collisions &= ~(1u << kM1P0 | 1u << kM1P1 | 1u << kM1BL | 1u << kM1PF | 1u << kM0M1);
  if (!(shown & 1 << kBL)) collisions &= ~(1u << kP0BL | 1u << kP1BL | 1u << kM0BL | 1u << kM1BL | 1u << kBLPF);
  if (!(shown & 1 << kPF)) collisions &= ~(1u << kP0PF | 1u << kP1PF | 1u << kM0PF | 1u << kM1PF | 1u << kBLPF);
  return collisions;
}

// --- Object masks ---------------------------------------------------------------------------------------------------

SEED_HD SEED_FORCE_INLINE uint32_t reverse_byte(uint32_t b) {
  b = (b & 0xf0) >> 4 | (b & 0x0f) << 4;
  b = (b & 0xcc) >> 2 | (b & 0x33) << 2;
  return (b & 0xaa) >> 1 | (b & 0x55) << 1;
}

// Each bit of a byte becomes two.
SEED_HD SEED_FORCE_INLINE uint32_t double_bits(uint32_t b) {
  b = (b | b << 4) & 0x0f0f;
  b = (b | b << 2) & 0x3333;
  b = (b | b << 1) & 0x5555;
  return b | b << 1;
}

// Each bit of a byte becomes four; `reversed`: the highest bit first.
struct QuadrupledBytes {
  uint32_t straight[256], reversed[256];
};
constexpr QuadrupledBytes quadrupled_bytes() {
  QuadrupledBytes bytes{};
  for (int b = 0; b < 256; ++b) {
    for (int bit = 0; bit < 8; ++bit) {
      if (!(b >> bit & 1)) continue;
      bytes.straight[b] |= 0xfu << (4 * bit);
      bytes.reversed[b] |= 0xfu << (4 * (7 - bit));
    }
  }
  return bytes;
}
SEED_HD SEED_FORCE_INLINE uint32_t quadruple_bits(uint32_t b, bool reversed) {
  static constexpr QuadrupledBytes kBytes = quadrupled_bytes();
  return reversed ? kBytes.reversed[b] : kBytes.straight[b];
}

// The copies of an object by NUSIZ & 7: a pattern times this, and one more copy 64 pixels on for modes 4 and 6.
SEED_HD SEED_FORCE_INLINE uint64_t copies_of(int nusiz) {
  const uint64_t at_16 = (0x0a >> (nusiz & 7) & 1), at_32 = (0x4c >> (nusiz & 7) & 1);
  return 1 | at_16 << 16 | at_32 << 32;
}
SEED_HD SEED_FORCE_INLINE bool has_copy_at_64(int nusiz) { return (nusiz & 5) == 4; }

// Makes the 128-bit pattern low, high at pixel `position` of the 160-pixel ring the mask of `object`.
SEED_HD inline void place_pattern(Tia& tia, int object, uint64_t low, uint64_t high) {
  uint64_t* const mask = tia.mask[object];
  tia.shown &= static_cast<uint8_t>(~(1 << object));
  if (low == 0) {
    mask[0] = mask[1] = mask[2] = 0;
    if (high == 0) return;
  }
  tia.shown |= static_cast<uint8_t>(1 << object);
  const int position = tia.position[object];
  uint64_t line[5] = {0, 0, 0, 0, 0};
  const int word = position >> 6, shift = position & 63;
  line[word] = low << shift;
  line[word + 1] = (low >> 1) >> (63 - shift) | high << shift;
  line[word + 2] = (high >> 1) >> (63 - shift);
  mask[0] = line[0] | line[2] >> 32 | line[3] << 32;
  mask[1] = line[1] | line[3] >> 32 | line[4] << 32;
  mask[2] = line[2] & 0xffffffffu;
}

// The graphics that a player shows: VDELP selects the delayed latch.
SEED_HD SEED_FORCE_INLINE uint32_t player_graphics(const Tia& tia, int player) {
  return (tia.reg[kVDELP0 + player] & 1) ? tia.delayed_GRP[player] : tia.reg[kGRP0 + player];
}
SEED_HD SEED_FORCE_INLINE bool missile_enabled(const Tia& tia, int missile) {
  return (tia.reg[kENAM0 + missile] & 2) && !(tia.reg[kRESMP0 + missile] & 2);
}
SEED_HD SEED_FORCE_INLINE bool ball_enabled(const Tia& tia) {
  return (((tia.reg[kVDELBL] & 1) ? tia.delayed_ENABL : tia.reg[kENABL]) & 2) != 0;
}

SEED_HD inline void build_player(Tia& tia, int player) {
  const int nusiz = tia.reg[kNUSIZ0 + player];
  uint64_t pattern = player_graphics(tia, player);
  if (!(tia.reg[kREFP0 + player] & 8)) pattern = reverse_byte(static_cast<uint32_t>(pattern));
  if ((nusiz & 7) == 5) pattern = static_cast<uint64_t>(double_bits(static_cast<uint32_t>(pattern))) << 1;
  if ((nusiz & 7) == 7) pattern = static_cast<uint64_t>(quadruple_bits(static_cast<uint32_t>(pattern), false)) << 1;
  const uint64_t copies = copies_of(nusiz) - (tia.skip_first[player] ? 1 : 0);
  place_pattern(tia, kP0 + player, pattern * copies, has_copy_at_64(nusiz) ? pattern : 0);
}

SEED_HD inline void build_missile(Tia& tia, int missile) {
  const int nusiz = tia.reg[kNUSIZ0 + missile];
  int width = 1 << (nusiz >> 4 & 3);
  bool enabled = missile_enabled(tia, missile);
  if (missile == 0 && tia.star_bug) {
    if (tia.star_phase == 1 && width < 2) width = 2;
    if (tia.star_phase == 2) enabled = false;
  }
  const uint64_t pattern = enabled ? (1u << width) - 1 : 0;
  place_pattern(tia, kM0 + missile, pattern * copies_of(nusiz), has_copy_at_64(nusiz) ? pattern : 0);
}

SEED_HD inline void build_ball(Tia& tia) {
  const int width = 1 << (tia.reg[kCTRLPF] >> 4 & 3);
  place_pattern(tia, kBL, ball_enabled(tia) ? (1u << width) - 1 : 0, 0);
}

SEED_HD inline void build_playfield(Tia& tia) {
  const uint32_t pf0 = tia.reg[kPF0] & 0xf0, pf1 = tia.reg[kPF1], pf2 = tia.reg[kPF2];
  const uint64_t left0 = quadruple_bits(pf0, false) >> 16, left1 = quadruple_bits(pf1, true);
  const uint64_t left2 = quadruple_bits(pf2, false);
  const uint64_t low = left0 | left1 << 16 | left2 << 48, high = left2 >> 16;  // 80 pixels
  uint64_t* const mask = tia.mask[kPF];
  tia.shown = static_cast<uint8_t>((tia.shown & ~(1 << kPF)) | ((low | high) != 0) << kPF);
  mask[0] = low;
  if (tia.reflect_pf) {
    const uint64_t right0 = quadruple_bits(pf2, true), right1 = quadruple_bits(pf1, false);
    const uint64_t right2 = quadruple_bits(pf0, true);
    const uint64_t right = right0 | right1 << 32;
    mask[1] = high | right << 16;
    mask[2] = right >> 48 | right2 << 16;
  } else {
    mask[1] = high | low << 16;
    mask[2] = low >> 48 | high << 16;
  }
}

SEED_HD inline void tia_build_masks(Tia& tia) {
  const int stale = tia.stale_masks;
  tia.stale_masks = 0;
  const uint8_t shown = tia.shown;
  if (stale & (1 << kP0)) build_player(tia, 0);
  if (stale & (1 << kP1)) build_player(tia, 1);
  if (stale & (1 << kM0)) build_missile(tia, 0);
  if (stale & (1 << kM1)) build_missile(tia, 1);
  if (stale & (1 << kBL)) build_ball(tia);
  if (stale & (1 << kPF)) build_playfield(tia);
  if (tia.shown != shown) tia.possible_collisions = static_cast<uint16_t>(collisions_among(tia.shown));
}

// --- Drawing and collisions -----------------------------------------------------------------------------------------

// Bits of word `word` that pixels first_x <= x < last_x occupy.
SEED_HD SEED_FORCE_INLINE uint64_t segment_bits(int word, int first_x, int last_x) {
  const int low = first_x - 64 * word, high = last_x - 64 * word;
  uint64_t bits = ~uint64_t{0};
  if (low > 0) bits <<= low;
  if (high < 64) bits &= (uint64_t{1} << high) - 1;
  return bits;
}

// Latches the collisions of pixels first_x <= x < last_x that are not latched yet.
SEED_HD inline void tia_collide(Tia& tia, int first_x, int last_x) {
  uint32_t open = tia.possible_collisions & ~tia.collisions;
  for (int word = first_x >> 6; open != 0 && word <= (last_x - 1) >> 6; ++word) {
    uint64_t once = 0, twice = 0;  // pixels that an object, that two objects cover
    for (int object = 0; object < kNumTiaObjects; ++object) {
      twice |= once & tia.mask[object][word];
      once |= tia.mask[object][word];
    }
    twice &= segment_bits(word, first_x, last_x);
    if (twice == 0) continue;
    for (uint32_t left = open; left != 0; left &= left - 1) {
      const int bit = count_trailing_zeros(left), pair = collision_pair(bit);
      if (tia.mask[pair & 15][word] & tia.mask[pair >> 4][word] & twice) open &= ~(1u << bit);
    }
    tia.collisions |= static_cast<uint16_t>(tia.possible_collisions & ~open);
  }
}

// True when the playfield is the only object that is switched on, whether or not another one would be visible.
SEED_HD inline bool only_playfield_enabled(const Tia& tia) {
  return player_graphics(tia, 0) == 0 && player_graphics(tia, 1) == 0 && !missile_enabled(tia, 0) &&
         !missile_enabled(tia, 1) && !ball_enabled(tia);
}

SEED_HD SEED_FORCE_INLINE void tia_draw_pixels(const Tia& tia, uint8_t* row, int first_x, int last_x) {
  PixelPriority priority = PixelPriority::kPlayersFirst;
  if (tia.reg[kCTRLPF] & 6) {
    const bool score = tia.reg[kCTRLPF] & 2;
    const bool playfield_first = (tia.reg[kCTRLPF] & 4) && !(score && only_playfield_enabled(tia));
    priority = playfield_first ? PixelPriority::kPlayfieldFirst : PixelPriority::kScore;
  }
  const PixelColours colours = {tia.painted[3], tia.painted[2], tia.painted[0], tia.painted[1]};
  draw_objects(row, first_x, last_x, tia.mask, priority, colours);
}

// Colour register `reg` has the value `value` from now on.
SEED_HD SEED_FORCE_INLINE void tia_paint(Tia& tia, const Display& display, int reg, uint8_t value) {
  const uint8_t pixel = static_cast<uint8_t>((value & 0xfe) | tia.colour_loss);
  tia.painted[reg - kCOLUP0] = display.shades != nullptr ? display.shades[pixel] : pixel;
}

// Draws pixels first_x <= x < last_x of one line. `row` may be null.
SEED_HD SEED_FORCE_INLINE void tia_draw_segment(Tia& tia, uint8_t* row, int first_x, int last_x) {
  if (tia.reg[kVBLANK] & 2) {
    if (row != nullptr) fill_pixels(row + first_x, last_x - first_x, 0);
  } else {
    if (tia.stale_masks) tia_build_masks(tia);
    if (tia.possible_collisions & ~tia.collisions) tia_collide(tia, first_x, last_x);
    if (row != nullptr) tia_draw_pixels(tia, row, first_x, last_x);
  }
  if (tia.hmove_blank && first_x < 8) {
    if (row != nullptr) fill_pixels(row + first_x, (last_x < 8 ? last_x : 8) - first_x, 0);
    if (last_x >= 8) tia.hmove_blank = 0;
  }
}

SEED_HD inline void tia_set_position(Tia& tia, int object, int x) {
  tia.position[object] = static_cast<uint8_t>(x >= 160 ? x - 160 : x < 0 ? x + 160 : x);
  tia.stale_masks |= static_cast<uint8_t>(1 << object);
}

SEED_HD inline void tia_set_skip_first(Tia& tia, int player, bool skip) {
  if (tia.skip_first[player] == static_cast<uint8_t>(skip)) return;
  tia.skip_first[player] = skip;
  tia_set_quiet(tia, kNUSIZ0 + player, !skip);
  tia.stale_masks |= static_cast<uint8_t>(1 << (kP0 + player));
}

SEED_HD inline void tia_latch_reflect(Tia& tia) {
  const uint8_t reflect = tia.reg[kCTRLPF] & 1;
  if (tia.reflect_pf == reflect) return;
  tia.reflect_pf = reflect;
  tia.quiet |= register_bit(kCTRLPF);
  tia.stale_masks |= 1 << kPF;
}

// What happens at the end of every line of the window.
SEED_HD inline void tia_end_line(Tia& tia) {
  tia_latch_reflect(tia);
  tia_set_skip_first(tia, 0, false);
  tia_set_skip_first(tia, 1, false);
  if (tia.star_bug) {
    constexpr uint8_t kStarMotion[4] = {18, 33, 0, 17};
    tia.star_phase = (tia.star_phase + 1) & 3;
    tia_set_position(tia, kM0, tia.position[kM0] - kStarMotion[tia.star_phase]);
    tia.stale_masks |= 1 << kM0;
  }
}

// After the line above Tia::drawn_clock was drawn whole, gives all further whole lines before `clock` the same pixels.
// Their collisions are the same, so there is nothing else to do.
SEED_HD inline void tia_repeat_line(Tia& tia, uint8_t* row_pixels, int32_t num_rows_below, int32_t clock) {
  tia_end_line(tia);
  if (tia.stale_masks) {  // the line end did change the picture
    tia.drawn_clock += kHblankClocks;
    return;
  }
  const int32_t num_lines = (clock - tia.drawn_clock) / kClocksPerLine;
  if (row_pixels != nullptr) {
    for (int32_t i = 1; i <= num_lines && i <= num_rows_below; ++i) copy_row(row_pixels + i * kScreenWidth, row_pixels);
  }
  tia.drawn_clock += num_lines * kClocksPerLine;
}

// Draws every pixel before `clock`; `pixels` is the picture (row 0 on top) or null. A line ends when the first clock of
// the next one is drawn, not when its own last one is: a strobe right between the two is undone by the line end.
SEED_HD SEED_CALL inline void tia_draw_window(Tia& tia, uint8_t* pixels, int32_t clock) {
  if (clock > tia.window_stop_clock) clock = tia.window_stop_clock;
  while (tia.drawn_clock < clock) {
    const int32_t row = (tia.drawn_clock - tia.window_start_clock) / kClocksPerLine;
    const int32_t line_start = tia.window_start_clock + row * kClocksPerLine;
    uint8_t* const row_pixels = pixels == nullptr || row >= tia.num_rows ? nullptr : pixels + row * kScreenWidth;
    if (tia.drawn_clock == line_start) {
      tia_end_line(tia);
      tia.drawn_clock = line_start + kHblankClocks;  // nothing happens in horizontal blank
      if (clock <= tia.drawn_clock) return;
    }
    const bool whole_line = tia.drawn_clock == line_start + kHblankClocks && !tia.hmove_blank && !tia.star_bug;
    const int first_x = tia.drawn_clock - line_start - kHblankClocks;
    const int32_t until = clock < line_start + kClocksPerLine ? clock : line_start + kClocksPerLine;
    tia_draw_segment(tia, row_pixels, first_x, until - line_start - kHblankClocks);
    tia.drawn_clock = until;
    if (whole_line && clock >= tia.drawn_clock + kClocksPerLine) {
      // Nothing changes any more until `clock`, except at this line's end: then all following lines look alike.
      tia_repeat_line(tia, row_pixels, tia.num_rows - 1 - row, clock);
    }
  }
}

SEED_HD SEED_FORCE_INLINE void tia_draw_until(Tia& tia, uint8_t* pixels, int32_t clock) {
  if (clock > tia.drawn_clock) tia_draw_window(tia, pixels, clock);
}

// --- Strobes --------------------------------------------------------------------------------------------------------

// Colour clock within the line.
SEED_HD SEED_FORCE_INLINE int clock_in_line(int32_t clock) {
  return static_cast<int>(static_cast<uint32_t>(clock) % kClocksPerLine);
}

// RESP0, RESP1. A strobe while a copy of the old picture is being drawn lets it finish; one outside the four clocks
// before a copy hides the first copy of the new picture until the next line.
SEED_HD inline void tia_reset_player(Tia& tia, uint8_t* pixels, int player, int32_t clock) {
  const int h = clock_in_line(clock);
  const int position = h < kHblankClocks ? 3 : (h - kHblankClocks + 5) % kScreenWidth;
  const int mode = tia.reg[kNUSIZ0 + player] & 7;
  const int width = mode == 5 ? 16 : mode == 7 ? 32 : 8;
  const uint64_t copies = copies_of(mode);
  bool delay = false, image = false;
  for (int offset = 0; offset <= 64; offset += 16) {
    if (offset < 64 ? !(copies >> offset & 1) : !has_copy_at_64(mode)) continue;
    const int distance = (position - tia.position[kP0 + player] - offset + 2 * kScreenWidth) % kScreenWidth;
    delay |= distance < 4;
    image |= distance >= 4 && distance < 4 + width;
  }
  if (image) tia_draw_until(tia, pixels, clock + 11);
  tia_set_skip_first(tia, player, !delay);
  tia_set_position(tia, kP0 + player, position);
}

// RESM0, RESM1, RESBL; a strobe soon after HMOVE lands elsewhere.
SEED_HD inline void tia_reset_missile_or_ball(Tia& tia, int object, int32_t clock) {
  const int h = clock_in_line(clock);
  const int32_t since_hmove = clock - tia.hmove_clock;
  int position = h < kHblankClocks ? 2 : (h - kHblankClocks + 4) % kScreenWidth;
  if (object == kM0 && since_hmove == 60 && h == 69) position = 8;
  if (object != kM0 && since_hmove == 9 && h == 18) position = 3;
  if (object == kBL && since_hmove == 54 && (h == 60 || h == 69)) position = 10;
  if (object == kBL && since_hmove == 21 && h == 30) position = 6;
  if (object == kBL && since_hmove == 18 && h == 27) position = 5;
  tia_set_position(tia, object, position);
}

// Pixels (right positive) that HMOVE at line cycle `cycle` moves an object by whose motion register is `motion`.
SEED_HD inline int hmove_pixels(int cycle, int motion) {
  constexpr int8_t kLateLimit[17] = {-6, -5, -5, -4, -3, -2, -2, -1, 0, 1, 1, 2, 3, 4, 4, 5, 6};            // from 4
  constexpr int8_t kEarlyShift[20] = {1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11, 12, 12, 13, 14, 15, 15};  // from 55
  const int nominal = -(static_cast<int8_t>(motion) >> 4);
  if (cycle <= 3 || cycle == 75) return nominal;
  if (cycle <= 20) return nominal > kLateLimit[cycle - 4] ? nominal : kLateLimit[cycle - 4];
  if (cycle <= 54) return 0;
  const int moved = nominal + 7 - kEarlyShift[cycle - 55];
  return moved < 0 ? moved : 0;
}

SEED_HD inline void tia_hmove(Tia& tia, const Display& display, int32_t clock) {
  const int cycle = clock_in_line(clock) / kClocksPerCycle;
  if (display.hmove_blanks && (cycle <= 20 || cycle == 75)) tia.hmove_blank = 1;
  tia.hmove_clock = clock;
  for (int object = kP0; object <= kBL; ++object) {
    const int moved = hmove_pixels(cycle, tia.reg[kHMP0 + object]);
    if (moved != 0) tia_set_position(tia, object, tia.position[object] + moved);
  }
  tia_set_skip_first(tia, 0, false);
  tia_set_skip_first(tia, 1, false);
  if (tia.star_bug) tia.stale_masks |= 1 << kM0;
  tia.star_bug = 0;
}

// --- Register writes ------------------------------------------------------------------------------------------------

// Colour clocks after the write until the change shows.
SEED_HD inline int tia_write_delay_clocks(int reg, int32_t cycles) {
  switch (reg) {
    case kPF0:
    case kPF1:
    case kPF2:
      return (0x3254 >> (4 * (cycles & 3))) & 15;  // 4, 5, 2, 3; a line is a multiple of 4 cycles
    case kNUSIZ0:
    case kNUSIZ1:
    case kRESM0:
    case kRESM1:
      return 8;
    case kVBLANK:
    case kREFP0:
    case kREFP1:
    case kGRP0:
    case kGRP1:
      return 1;
    default:
      return 0;
  }
}

SEED_HD inline void tia_write_vsync(Tia& tia, uint8_t value, int32_t clock) {
  if (value & 2) {
    tia.vsync_due_clock = clock + kClocksPerLine;
  } else if (clock >= tia.vsync_due_clock) {
    tia.vsync_due_clock = kNever;
    tia.frame_done = 1;
  }
}

SEED_HD inline void tia_write_resmp(Tia& tia, int missile, uint8_t value) {
  if ((tia.reg[kRESMP0 + missile] & 2) && !(value & 2)) {
    const int mode = tia.reg[kNUSIZ0 + missile] & 7;
    const int middle = mode == 5 ? 8 : mode == 7 ? 16 : 4;
    tia_set_position(tia, kM0 + missile, tia.position[kP0 + missile] + middle);
  }
}

// Whether a copy of what the two graphics latches hold makes the next write of the same value change something.
SEED_HD inline void tia_update_latches_quiet(Tia& tia) {
  tia_set_quiet(tia, kGRP0, tia.delayed_GRP[1] == tia.reg[kGRP1]);
  tia_set_quiet(tia, kGRP1, tia.delayed_GRP[0] == tia.reg[kGRP0] && !((tia.delayed_ENABL ^ tia.reg[kENABL]) & 2));
}

// What a write is about to change: draws the pixels before `clock` if it shows, and has the mask rebuilt.
SEED_HD SEED_FORCE_INLINE void tia_change(Tia& tia, uint8_t* pixels, int32_t clock, int object, bool shows) {
  if (shows) tia_draw_until(tia, pixels, clock);
  tia.stale_masks |= static_cast<uint8_t>(1 << object);
}

SEED_HD inline void tia_write_grp(Tia& tia, uint8_t* pixels, int player, uint8_t value, int32_t clock) {
  const int other = 1 - player;
  const bool delays_ball = player == 1 && (tia.reg[kVDELBL] & 1) && ((tia.delayed_ENABL ^ tia.reg[kENABL]) & 2);
  const bool changes = !(tia.reg[kVDELP0 + player] & 1) && tia.reg[kGRP0 + player] != value;
  const bool changes_other = (tia.reg[kVDELP0 + other] & 1) && tia.delayed_GRP[other] != tia.reg[kGRP0 + other];
  if (changes || changes_other || delays_ball) tia_draw_until(tia, pixels, clock);
  tia.stale_masks |=
      static_cast<uint8_t>(changes << (kP0 + player) | changes_other << (kP0 + other) | delays_ball << kBL);
  tia.delayed_GRP[other] = tia.reg[kGRP0 + other];
  if (player == 1) tia.delayed_ENABL = tia.reg[kENABL];
  tia.reg[kGRP0 + player] = value;
  tia_update_latches_quiet(tia);
}

// A write that changes the state. Draws what the old state showed only where the change can be seen.
SEED_HD SEED_NO_INLINE void tia_write_change(Tia& tia, const Display& display, uint8_t* pixels, int reg, uint8_t value,
                                             int32_t cycles) {
  const int32_t clock = clock_of(cycles);
  const int32_t shows_clock = clock + tia_write_delay_clocks(reg, cycles);
  switch (reg) {
    case kVSYNC:
      tia_write_vsync(tia, value, clock);
      break;
    case kVBLANK:
      if ((tia.reg[kVBLANK] ^ value) & 2) tia_draw_until(tia, pixels, shows_clock);
      if ((tia.reg[kVBLANK] & 0x80) && !(value & 0x80)) tia.dump_off_cycles = cycles;
      break;
    case kNUSIZ0:
    case kNUSIZ1: {
      const int i = reg - kNUSIZ0;
      tia_change(tia, pixels, shows_clock, kP0 + i, player_graphics(tia, i) != 0 || missile_enabled(tia, i));
      tia.stale_masks |= static_cast<uint8_t>(1 << (kM0 + i));
      tia_set_skip_first(tia, i, false);
      break;
    }
    case kCOLUP0:
    case kCOLUP1: {
      const int i = reg - kCOLUP0;
      if (pixels != nullptr && (player_graphics(tia, i) != 0 || missile_enabled(tia, i) || (tia.reg[kCTRLPF] & 2))) {
        tia_draw_until(tia, pixels, shows_clock);
      }
      tia_paint(tia, display, reg, value);
      break;
    }
    case kCOLUPF:
    case kCOLUBK:
      if (pixels != nullptr) tia_draw_until(tia, pixels, shows_clock);
      tia_paint(tia, display, reg, value);
      break;
    case kCTRLPF:
      tia_change(tia, pixels, shows_clock, kBL, true);
      tia.reg[kCTRLPF] = value;
      if (clock_in_line(clock) < 147) tia_latch_reflect(tia);
      tia_set_quiet(tia, kCTRLPF, tia.reflect_pf == (value & 1));
      break;
    case kREFP0:
    case kREFP1:
      tia_change(tia, pixels, shows_clock, kP0 + reg - kREFP0, player_graphics(tia, reg - kREFP0) != 0);
      break;
    case kPF0:
    case kPF1:
    case kPF2:
      tia_change(tia, pixels, shows_clock, kPF, true);
      break;
    case kRESP0:
    case kRESP1:
      tia_draw_until(tia, pixels, shows_clock);
      tia_reset_player(tia, pixels, reg - kRESP0, clock);
      break;
    case kRESM0:
    case kRESM1:
    case kRESBL: {
      const int object = kM0 + reg - kRESM0;
      const bool shows = object == kBL ? ball_enabled(tia) : missile_enabled(tia, object - kM0);
      tia_change(tia, pixels, shows_clock, object, shows);
      tia_reset_missile_or_ball(tia, object, clock);
      break;
    }
    case kGRP0:
    case kGRP1:
      tia_write_grp(tia, pixels, reg - kGRP0, value, shows_clock);
      return;
    case kENAM0:
    case kENAM1:
      tia_change(tia, pixels, shows_clock, kM0 + reg - kENAM0, !(tia.reg[kRESMP0 + reg - kENAM0] & 2));
      break;
    case kENABL:
      tia_change(tia, pixels, shows_clock, kBL, !(tia.reg[kVDELBL] & 1));
      tia.reg[kENABL] = value;
      tia_update_latches_quiet(tia);
      break;
    case kHMM0:
      if (tia.reg[kHMM0] >> 4 == 7 && value >> 4 == 6 && clock - tia.hmove_clock == 21 * kClocksPerCycle) {
        tia_draw_until(tia, pixels, shows_clock);
        tia.star_bug = 1;
        tia.star_phase = 0;
      }
      break;
    case kVDELP0:
    case kVDELP1: {
      const int i = reg - kVDELP0;
      tia_change(tia, pixels, shows_clock, kP0 + i, tia.delayed_GRP[i] != tia.reg[kGRP0 + i]);
      break;
    }
    case kVDELBL:
      tia_change(tia, pixels, shows_clock, kBL, (tia.delayed_ENABL ^ tia.reg[kENABL]) & 2);
      break;
    case kRESMP0:
    case kRESMP1:
      tia_change(tia, pixels, shows_clock, kM0 + reg - kRESMP0, tia.reg[kENAM0 + reg - kRESMP0] & 2);
      tia_write_resmp(tia, reg - kRESMP0, value);
      break;
    case kHMOVE:
      tia_draw_until(tia, pixels, shows_clock);
      tia_hmove(tia, display, clock);
      break;
    case kHMCLR:
      for (int object = kP0; object <= kBL; ++object) tia.reg[kHMP0 + object] = 0;
      break;
    case kCXCLR:
      tia_draw_until(tia, pixels, shows_clock);
      tia.collisions = 0;
      break;
    default:  // motion registers
      break;
  }
  if (!(kStrobes >> reg & 1)) tia.reg[reg] = value;
}

// The part of a write that needs no drawing. Returns whether that was all: most writes change nothing.
SEED_HD SEED_FORCE_INLINE bool tia_write_quiet(Tia& tia, int reg, uint8_t value, int32_t cycles) {
  tia.accessed_clock = clock_of(cycles);
  if (cycles >= tia.limit_cycles) tia.frame_done = 1;
  const bool same = reg >= kNumTiaRegisters || ((tia.reg[reg] ^ value) & significant_bits(reg)) == 0;
  return same && (tia.quiet >> reg & 1);
}

// Writes `value` to TIA register `reg` (address & 3F). WSYNC is the CPU's affair.
SEED_HD SEED_FORCE_INLINE void tia_write(Tia& tia, const Display& display, uint8_t* pixels, int reg, uint8_t value,
                                         int32_t cycles) {
  if (!tia_write_quiet(tia, reg, value, cycles)) tia_write_change(tia, display, pixels, reg, value, cycles);
}

// --- Register reads -------------------------------------------------------------------------------------------------

// Cycles from the end of dumping until a paddle's capacitor is charged: 10 nF through the pot and its resistor.
SEED_HD inline uint32_t paddle_charge_cycles(int32_t resistance_ohms) {
  return static_cast<uint32_t>(1.6 * resistance_ohms * 0.01e-6 * 1.19e6);
}

// INPT0 to INPT3, bit 7. `carry_cycles` turns frame time into cycles since the last frame call began: the comparison
// is unsigned in those.
SEED_HD inline bool tia_paddle_charged(const Tia& tia, int32_t resistance_ohms, int32_t cycles, int32_t carry_cycles) {
  if (resistance_ohms == 0) return true;
  if (resistance_ohms < 0 || (tia.reg[kVBLANK] & 0x80)) return false;
  const uint32_t charged =
      static_cast<uint32_t>(tia.dump_off_cycles - carry_cycles) + paddle_charge_cycles(resistance_ohms);
  return static_cast<uint32_t>(cycles - carry_cycles) > charged;
}

// Reads register 8 to 15: paddles and triggers. `bus` is the last byte on the data bus.
SEED_HD inline uint8_t tia_read_port(const Tia& tia, const Inputs& inputs, int reg, uint8_t bus, int32_t cycles,
                                     int32_t carry_cycles) {
  bool high = false;
  if (reg < 12) {
    high = tia_paddle_charged(tia, inputs.paddle_resistance_ohms[reg - 8], cycles, carry_cycles);
  } else if (reg < 14) {
    high = !inputs.trigger_pressed[reg - 12];
  }
  return static_cast<uint8_t>((high ? 0x80 : 0) | (bus & 0x3f));
}

// Reads TIA address `address`; `bus` is the last byte on the data bus.
SEED_HD inline uint8_t tia_read(Tia& tia, uint8_t* pixels, const Inputs& inputs, uint16_t address, uint8_t bus,
                                int32_t cycles, int32_t carry_cycles) {
  const int reg = address & 15;
  if (reg >= 8) return tia_read_port(tia, inputs, reg, bus, cycles, carry_cycles);
  tia.accessed_clock = clock_of(cycles);
  tia_draw_until(tia, pixels, clock_of(cycles));
  return static_cast<uint8_t>((tia.collisions >> (2 * reg) & 3) << 6 | (bus & 0x3f));
}

}  // namespace seed
