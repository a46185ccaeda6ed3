// SPDX-License-Identifier: Apache-2.0
// Television Interface Adaptor: picture, collisions and inputs, evaluated lazily by register-write segments.
//
// The TIA is not stepped. The pixels of a line are six 160-bit masks (two players, two missiles, ball, playfield);
// drawing and collisions are word operations on them, once a line. A write that changes the shape of an object in mid
// line first puts aside what the beam has passed of its mask (tia_defer); at the end of the line the parts make one
// mask. Only a write that changes colours, or a look at the collisions, has the line drawn up to there
// (tia_draw_until).
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
constexpr int kBlankPixels = 8;  // that HMOVE blanks
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
  ObjectMask mask[kNumTiaObjects];    // pixels of a line that each object covers: bit x & 63 of word x >> 6
  ObjectMask passed[kNumTiaObjects];  // what it covers left of passed_x in the pending pixels
  uint64_t columns[kNumTiaObjects];   // columns of four pixels that it may touch: bit x >> 2
  int32_t drawn_clock;                // every pixel before this colour clock is drawn and has collided
  int32_t seen_clock;          // what every pixel before this clock shows is settled: from drawn_clock on pending
  int32_t line_clock;          // start of the line of drawn_clock
  int32_t window_start_clock;  // of row 0
  int32_t window_stop_clock;
  int32_t num_rows;                  // of the picture; after a reset in mid-frame the window has more lines
  int32_t vsync_due_clock;           // a VSYNC write that ends the pulse before this clock does not end the frame
  int32_t hmove_clock;               // last HMOVE strobe
  int32_t blank_clock;               // the strobe that hmove_blank comes from
  int32_t dump_off_cycles;           // when VBLANK bit 7 fell: the paddle capacitors charge since
  uint64_t quiet;                    // bit r: writing reg[r]'s value to register r again changes nothing
  int32_t limit_cycles;              // the first TIA write from here on ends the frame
  int32_t accessed_clock;            // last write, whether or not it changed something, or collision read
  uint16_t collisions;               // bits 2r + 1 and 2r = bits 7 and 6 of collision register r
  uint16_t meeting;                  // collisions of objects whose columns overlap
  uint8_t stale_masks;               // bit i: mask[i] must be rebuilt
  uint8_t stale_columns;             // bit i: columns[i] must be rebuilt
  uint8_t shown;                     // bit i: mask[i] is not empty
  uint8_t deferred;                  // bit i: mask[i] has changed in the pending pixels; of others passed_x is 0
  uint8_t passed_shown;              // bit i: passed[i] may have pixels
  uint8_t passed_x[kNumTiaObjects];  // the mask holds from this pixel on
  uint8_t line_differs;              // something but a mask has changed since the last whole line was drawn
  uint8_t line_blank;                // whether HMOVE blanked the beginning of that line
  uint8_t moving;                    // bit i: HMOVE would move object i
  uint8_t free_players;              // bit i: player i has no open collision, whatever the graphics of both
  uint8_t reg[kNumTiaRegisters];     // last value written that changed something
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

constexpr int kAllObjects = (1 << kNumTiaObjects) - 1;

SEED_HD inline void tia_reset(Tia& tia) {
  tia = Tia{};
  tia.vsync_due_clock = kNever;
  tia.stale_masks = tia.stale_columns = kAllObjects;
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

// The two objects of each collision bit, one in each nibble.
#define SEED_COLLISION_PAIRS                                                                                          \
  kP0 << 4 | kM0, kP1 << 4 | kM0, kP1 << 4 | kM1, kP0 << 4 | kM1, kBL << 4 | kP0, kPF << 4 | kP0, kBL << 4 | kP1,     \
      kPF << 4 | kP1, kBL << 4 | kM0, kPF << 4 | kM0, kBL << 4 | kM1, kPF << 4 | kM1, kPF << 4 | kPF, kPF << 4 | kBL, \
      kM1 << 4 | kM0, kP1 << 4 | kP0
SEED_HD SEED_FORCE_INLINE int collision_pair(int bit) {
  static constexpr uint8_t kPairs[kNumCollisionBits] = {SEED_COLLISION_PAIRS};
  return kPairs[bit];
}

// The collisions that the objects in each set (bit i: object i) can have.
struct CollisionSets {
  uint16_t among[1 << kNumTiaObjects];
};
constexpr CollisionSets collision_sets() {
  constexpr uint8_t kPairs[kNumCollisionBits] = {SEED_COLLISION_PAIRS};
  CollisionSets sets{};
  for (int objects = 0; objects < 1 << kNumTiaObjects; ++objects) {
    for (int bit = 0; bit < kNumCollisionBits; ++bit) {
      const bool both = (objects >> (kPairs[bit] & 15) & 1) && (objects >> (kPairs[bit] >> 4) & 1);
      if (bit != kUnusedCollision && both) sets.among[objects] |= static_cast<uint16_t>(1u << bit);
    }
  }
  return sets;
}
SEED_HD SEED_FORCE_INLINE uint32_t collisions_among(int objects) {
  static constexpr CollisionSets kSets = collision_sets();
  return kSets.among[objects];
}
SEED_HD SEED_FORCE_INLINE uint32_t collisions_with(int objects) {
  return collisions_among(kAllObjects) & ~collisions_among(kAllObjects & ~objects);
}

// --- Object masks ---------------------------------------------------------------------------------------------------

struct ReversedBytes {
  uint8_t of[256];
};
constexpr ReversedBytes reversed_bytes() {
  ReversedBytes bytes{};
  for (int b = 0; b < 256; ++b) {
    for (int bit = 0; bit < 8; ++bit) bytes.of[b] = static_cast<uint8_t>(bytes.of[b] | (b >> bit & 1) << (7 - bit));
  }
  return bytes;
}
SEED_HD SEED_FORCE_INLINE uint32_t reverse_byte(uint32_t b) {
  static constexpr ReversedBytes kBytes = reversed_bytes();
  return kBytes.of[b];
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
  static constexpr uint64_t kAt16 = uint64_t{1} << 16, kAt32 = uint64_t{1} << 32;
  static constexpr uint64_t kCopies[8] = {1, 1 | kAt16, 1 | kAt32, 1 | kAt16 | kAt32, 1, 1, 1 | kAt32, 1};
  return kCopies[nusiz & 7];
}
SEED_HD SEED_FORCE_INLINE bool has_copy_at_64(int nusiz) { return (nusiz & 5) == 4; }

// Makes a pattern at the object's position its mask, with another one 64 pixels on.
SEED_HD SEED_FORCE_INLINE void place_pattern(Tia& tia, int object, uint64_t pattern, uint64_t pattern_at_64) {
  tia.shown = static_cast<uint8_t>((tia.shown & ~(1 << object)) | ((pattern | pattern_at_64) != 0) << object);
  store_bits(tia.mask[object], placed_bits(pattern, pattern_at_64, tia.position[object]));
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

SEED_HD inline void tia_build_mask(Tia& tia, int object) {
  tia.stale_masks &= static_cast<uint8_t>(~(1 << object));
  if (object <= kP1) {
    build_player(tia, object - kP0);
  } else if (object <= kM1) {
    build_missile(tia, object - kM0);
  } else if (object == kBL) {
    build_ball(tia);
  } else {
    build_playfield(tia);
  }
}

SEED_HD inline void tia_build_masks(Tia& tia) {
  const int stale = tia.stale_masks;
  tia.stale_masks = 0;
  if (stale & (1 << kP0)) build_player(tia, 0);
  if (stale & (1 << kP1)) build_player(tia, 1);
  if (stale & (1 << kM0)) build_missile(tia, 0);
  if (stale & (1 << kM1)) build_missile(tia, 1);
  if (stale & (1 << kBL)) build_ball(tia);
  if (stale & (1 << kPF)) build_playfield(tia);
}

// --- Where objects can meet -----------------------------------------------------------------------------------------

// Pixels that an object may cover change with every graphics write, the columns that it may touch only when it moves.
// A column is a pixel of the playfield.
constexpr int kNumColumns = kScreenWidth / 4;

// The columns that `width` pixels at `position` of the ring touch, and their copies by NUSIZ & 7.
SEED_HD SEED_FORCE_INLINE uint64_t touched_columns(int position, int width, int nusiz) {
  const uint64_t copies = copies_of(nusiz);
  const uint64_t in_columns = 1 | (copies >> 16 & 1) << 4 | (copies >> 32) << 8 | uint64_t{has_copy_at_64(nusiz)} << 16;
  const int num_columns = ((position & 3) + width + 3) >> 2;
  const uint64_t columns = (((uint64_t{1} << num_columns) - 1) * in_columns) << (position >> 2);
  return (columns | columns >> kNumColumns) & ((uint64_t{1} << kNumColumns) - 1);
}

SEED_HD inline uint64_t player_columns(const Tia& tia, int player) {
  const int nusiz = tia.reg[kNUSIZ0 + player], mode = nusiz & 7;
  return touched_columns(tia.position[kP0 + player], mode == 5 ? 17 : mode == 7 ? 33 : 8, nusiz);
}
SEED_HD inline uint64_t missile_columns(const Tia& tia, int missile) {
  const int nusiz = tia.reg[kNUSIZ0 + missile], width = 1 << (nusiz >> 4 & 3);
  return touched_columns(tia.position[kM0 + missile], width < 2 ? 2 : width, nusiz);  // 2: as the motion bug has it
}
SEED_HD inline uint64_t ball_columns(const Tia& tia) {
  return touched_columns(tia.position[kBL], 1 << (tia.reg[kCTRLPF] >> 4 & 3), 0);
}
SEED_HD inline uint64_t playfield_columns(const Tia& tia) {
  const uint32_t pf0 = tia.reg[kPF0] & 0xf0, pf1 = tia.reg[kPF1], pf2 = tia.reg[kPF2];
  const uint64_t left = pf0 >> 4 | reverse_byte(pf1) << 4 | pf2 << 12;
  const uint64_t mirrored = reverse_byte(pf2) | pf1 << 8 | reverse_byte(pf0) << 16;
  return left | (tia.reflect_pf ? mirrored : left) << (kNumColumns / 2);
}

SEED_HD SEED_NO_INLINE void tia_build_columns(Tia& tia) {
  const uint32_t stale = tia.stale_columns;
  tia.stale_columns = 0;
  if (stale & (1 << kP0)) tia.columns[kP0] = player_columns(tia, 0);
  if (stale & (1 << kP1)) tia.columns[kP1] = player_columns(tia, 1);
  if (stale & (1 << kM0)) tia.columns[kM0] = missile_columns(tia, 0);
  if (stale & (1 << kM1)) tia.columns[kM1] = missile_columns(tia, 1);
  if (stale & (1 << kBL)) tia.columns[kBL] = ball_columns(tia);
  if (stale & (1 << kPF)) tia.columns[kPF] = playfield_columns(tia);
  for (uint32_t left = stale; left != 0; left &= left - 1) {
    const int object = count_trailing_zeros(left);
    int met = 1 << object;
    SEED_UNROLL
    for (int other = 0; other < kNumTiaObjects; ++other) {
      met |= ((tia.columns[object] & tia.columns[other]) != 0) << other;
    }
    const uint32_t own = collisions_with(1 << object);
    tia.meeting = static_cast<uint16_t>((tia.meeting & ~own) | (collisions_among(met) & own));
  }
}

// The collisions that can be in the pending pixels whatever the shape of the objects, as long as they do not move.
SEED_HD SEED_FORCE_INLINE uint32_t tia_meeting(Tia& tia) {
  if (!SEED_COLLIDE_WHERE_OBJECTS_MEET) return collisions_among(kAllObjects);
  if (tia.stale_columns) tia_build_columns(tia);
  return tia.meeting | collisions_with(tia.passed_shown);  // what was put aside may have been elsewhere
}

// The objects that are switched on, whether or not they would be visible.
SEED_HD SEED_FORCE_INLINE int tia_objects_on(const Tia& tia) {
  return (player_graphics(tia, 0) != 0) << kP0 | (player_graphics(tia, 1) != 0) << kP1 |
         missile_enabled(tia, 0) << kM0 | missile_enabled(tia, 1) << kM1 | ball_enabled(tia) << kBL | 1 << kPF;
}

// Which collisions may still be found in the pending pixels.
SEED_HD SEED_FORCE_INLINE uint32_t tia_open_collisions(Tia& tia) {
  if (tia.reg[kVBLANK] & 2) return 0;
  uint32_t open =
      collisions_among(tia.shown | tia.stale_masks | tia.passed_shown) & ~static_cast<uint32_t>(tia.collisions);
  if (open != 0 && SEED_COLLIDE_WHERE_OBJECTS_MEET) open &= tia_meeting(tia);
  if (open != 0 && tia.stale_masks) open &= collisions_among(tia_objects_on(tia) | tia.passed_shown);
  return open;
}

// Collisions of `objects` with one another and with `others` that are not latched.
SEED_HD SEED_FORCE_INLINE uint32_t tia_possible_collisions(const Tia& tia, int objects, int others) {
  return collisions_among(others | objects) & collisions_with(objects) & ~static_cast<uint32_t>(tia.collisions);
}

// --- Drawing and collisions -----------------------------------------------------------------------------------------

// Colour register `reg` has the value `value` from now on.
SEED_HD SEED_FORCE_INLINE void tia_paint(Tia& tia, const Display& display, int reg, uint8_t value) {
  const uint8_t pixel = static_cast<uint8_t>((value & 0xfe) | tia.colour_loss);
  tia.painted[reg - kCOLUP0] = display.shades != nullptr ? display.shades[pixel] : pixel;
  tia.line_differs = 1;
}

// Puts aside what the pending pixels show of an object whose mask is about to change.
SEED_HD SEED_NO_INLINE void tia_put_aside(Tia& tia, bool visible, int object) {
  const int bit = 1 << object;
  const int x = tia.seen_clock - tia.line_clock - kHblankClocks;
  if (!visible) {
    // Nothing to do unless the object, if it were shown, could have a collision that has not been latched.
    const int others = tia.shown | tia.stale_masks | tia.passed_shown;
    const uint32_t possible = tia_possible_collisions(tia, bit, others);
    if (possible == 0) return;
    if ((possible & tia_meeting(tia)) == 0) {  // it had none where it was
      tia.deferred |= static_cast<uint8_t>(bit);
      tia.passed_x[object] = static_cast<uint8_t>(x);
      return;
    }
  }
  if (tia.stale_masks & bit) tia_build_mask(tia, object);
  const LineBits passed = without(bits_before(x), bits_before(tia.passed_x[object])) & load_bits(tia.mask[object]);
  store_bits(tia.passed[object], load_bits(tia.passed[object]) | passed);
  tia.deferred |= static_cast<uint8_t>(bit);
  tia.passed_shown |= static_cast<uint8_t>(tia.shown & bit);
  tia.passed_x[object] = static_cast<uint8_t>(x);
}

// Objects have what they cover now in all pending pixels.
SEED_HD SEED_FORCE_INLINE void tia_forget_passed(Tia& tia) {
  for (uint32_t left = tia.deferred; left != 0; left &= left - 1) {
    const int object = count_trailing_zeros(left);
    store_bits(tia.passed[object], LineBits{});
    tia.passed_x[object] = 0;
  }
  tia.deferred = tia.passed_shown = 0;
}

// What the objects cover of the pending pixels.
SEED_HD SEED_FORCE_INLINE ObjectBits tia_pending_bits(const Tia& tia) {
  ObjectBits objects;
  SEED_UNROLL
  for (int i = 0; i < kNumTiaObjects; ++i) objects.of[i] = load_bits(tia.mask[i]);
  if (tia.deferred == 0) return objects;
  SEED_UNROLL
  for (int i = 0; i < kNumTiaObjects; ++i) {
    objects.of[i] = load_bits(tia.passed[i]) | without(objects.of[i], bits_before(tia.passed_x[i]));
  }
  return objects;
}

// Latches which of the collisions `open` there are in the pixels `twice`, which two objects or more cover.
SEED_HD SEED_NO_INLINE void tia_latch_collisions(Tia& tia, uint32_t open, const ObjectMask& twice) {
  const ObjectBits objects = tia_pending_bits(tia);
  const LineBits pixels = load_bits(twice);
  int colliding = 0;
  for (int object = 0; object < kNumTiaObjects; ++object) colliding |= any(pixels & objects.of[object]) << object;
  for (uint32_t left = open & collisions_among(colliding); left != 0; left &= left - 1) {
    const int bit = count_trailing_zeros(left), pair = collision_pair(bit);
    const LineBits both = objects.of[pair & 15] & objects.of[pair >> 4];
    if (any(both & pixels)) tia.collisions |= static_cast<uint16_t>(1u << bit);
  }
}

// Latches which of the collisions `open` there are in the pending pixels first_x <= x < last_x.
SEED_HD SEED_NO_INLINE void tia_collide(Tia& tia, uint32_t open, int first_x, int last_x) {
  const ObjectBits objects = tia_pending_bits(tia);
  LineBits once = objects.of[0], twice = objects.of[0] & objects.of[1];  // what one object, what two objects cover
  SEED_UNROLL
  for (int object = 1; object + 1 < kNumTiaObjects; ++object) {
    once = once | objects.of[object];
    twice = twice | (once & objects.of[object + 1]);
  }
  twice = twice & without(bits_before(last_x), bits_before(first_x));
  if (!any(twice)) return;
  ObjectMask mask;
  store_bits(mask, twice);
  tia_latch_collisions(tia, open, mask);
}

SEED_HD SEED_FORCE_INLINE void tia_draw_pixels(const Tia& tia, uint8_t* row, int first_x, int last_x) {
  PixelPriority priority = PixelPriority::kPlayersFirst;
  if (tia.reg[kCTRLPF] & 6) {
    const bool score = tia.reg[kCTRLPF] & 2;
    const bool playfield_first = (tia.reg[kCTRLPF] & 4) && !(score && tia_objects_on(tia) == 1 << kPF);
    priority = playfield_first ? PixelPriority::kPlayfieldFirst : PixelPriority::kScore;
  }
  const PixelColours colours = {tia.painted[3], tia.painted[2], tia.painted[0], tia.painted[1]};
  draw_pixels(row, first_x, last_x, resolve_priority(tia_pending_bits(tia), priority), colours);
}

// Whether HMOVE blanks the beginning of the line of drawn_clock, not that of a later one.
SEED_HD SEED_FORCE_INLINE bool tia_line_is_blanked(const Tia& tia) {
  return tia.hmove_blank && tia.blank_clock < tia.line_clock + kHblankClocks;
}

// Draws the pending pixels first_x <= x < last_x of one line. `row` may be null.
SEED_HD SEED_NO_INLINE void tia_draw_segment(Tia& tia, uint8_t* row, int first_x, int last_x) {
  const bool whole = last_x - first_x == kScreenWidth && tia.deferred == 0;
  tia.line_blank = tia_line_is_blanked(tia);
  if (tia.reg[kVBLANK] & 2) {
    if (row != nullptr) fill_pixels(row + first_x, last_x - first_x, 0);
  } else if (row != nullptr) {
    if (tia.stale_masks) tia_build_masks(tia);
    const uint32_t open = tia_open_collisions(tia);
    if (open != 0) tia_collide(tia, open, first_x, last_x);
    tia_draw_pixels(tia, row, first_x, last_x);
  } else if (const uint32_t open = tia_open_collisions(tia)) {
    if (tia.stale_masks) tia_build_masks(tia);
    tia_collide(tia, open, first_x, last_x);
  }
  if (first_x < kBlankPixels && tia_line_is_blanked(tia)) {
    const int blank_x = last_x < kBlankPixels ? last_x : kBlankPixels;
    if (row != nullptr && blank_x - first_x == kBlankPixels) {
      store_8_pixels(row, 0);
    } else if (row != nullptr) {
      fill_pixels(row + first_x, blank_x - first_x, 0);
    }
    if (last_x >= kBlankPixels) tia.hmove_blank = 0;
  }
  tia_forget_passed(tia);
  tia.line_differs = !whole;
}

// `objects` touch other columns from now on.
SEED_HD SEED_FORCE_INLINE void tia_move_columns(Tia& tia, int objects) {
  tia.stale_columns |= static_cast<uint8_t>(objects);
  tia.free_players = 0;
}

SEED_HD inline void tia_set_position(Tia& tia, int object, int x) {
  tia.position[object] = static_cast<uint8_t>(x >= 160 ? x - 160 : x < 0 ? x + 160 : x);
  tia.stale_masks |= static_cast<uint8_t>(1 << object);
  tia_move_columns(tia, 1 << object);
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
  tia_move_columns(tia, 1 << kPF);
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

SEED_HD SEED_FORCE_INLINE uint8_t* tia_row(const Tia& tia, uint8_t* pixels) {
  if (pixels == nullptr) return nullptr;
  const uint32_t row = static_cast<uint32_t>(tia.line_clock - tia.window_start_clock) / kClocksPerLine;
  return row >= static_cast<uint32_t>(tia.num_rows) ? nullptr : pixels + row * kScreenWidth;
}

// Draws the rest of the line. A whole line that looks like the one above is copied.
SEED_HD inline void tia_draw_rest_of_line(Tia& tia, uint8_t* pixels) {
  const int first_x = tia.drawn_clock - tia.line_clock - kHblankClocks;
  if (first_x >= kScreenWidth) return;
  uint8_t* const row = tia_row(tia, pixels);
  const bool is_blanked = tia_line_is_blanked(tia);
  if (tia.stale_masks && !tia.line_differs) {
    tia.stale_masks &= static_cast<uint8_t>(tia.shown | tia_objects_on(tia));  // others stay empty
  }
  const bool same =
      first_x == 0 && !tia.line_differs && (tia.stale_masks | tia.deferred) == 0 && is_blanked == tia.line_blank;
  if (SEED_COPY_EQUAL_LINES && same) {
    if (row != nullptr) copy_row(row, row - kScreenWidth);  // its collisions are the same, too
    if (is_blanked) tia.hmove_blank = 0;
    return;
  }
  tia_draw_segment(tia, row, first_x, kScreenWidth);
}

// Whether the end of the line changes what may show in the next one.
SEED_HD SEED_FORCE_INLINE bool tia_line_end_changes(const Tia& tia) {
  return (tia.skip_first[0] | tia.skip_first[1] | tia.star_bug | (tia.reflect_pf ^ (tia.reg[kCTRLPF] & 1))) != 0;
}

// Whether the line after the one that has just been drawn looks, and collides, like it.
SEED_HD SEED_FORCE_INLINE bool tia_next_line_is_same(const Tia& tia) {
  return (tia.line_differs | tia.stale_masks | tia.deferred | tia.hmove_blank | tia.line_blank) == 0 &&
         !tia_line_end_changes(tia);
}

// Copies the line of drawn_clock to those below it, `num_lines` with its own.
SEED_HD inline void tia_repeat_line(const Tia& tia, uint8_t* pixels, int32_t num_lines) {
  uint8_t* const row = tia_row(tia, pixels);
  if (row == nullptr) return;
  const int32_t rows_left = tia.num_rows - static_cast<int32_t>((row - pixels) / kScreenWidth);
  for (int32_t i = 1; i < num_lines && i < rows_left; ++i) copy_row(row + i * kScreenWidth, row);
}

// Finishes all lines that end before `clock`. A line ends when the first clock of the next one has passed, not when its
// own last one has: a strobe right between the two is undone by the line end.
SEED_HD SEED_NO_INLINE void tia_finish_lines(Tia& tia, uint8_t* pixels, int32_t clock) {
  const bool window_ends = clock > tia.window_stop_clock;
  const int32_t stop = window_ends ? tia.window_stop_clock : clock - 1;
  while (tia.line_clock + kClocksPerLine <= stop) {
    int32_t num_lines = 1;
    const bool unseen = pixels == nullptr && !tia.star_bug && tia_open_collisions(tia) == 0;
    if (SEED_SKIP_UNSEEN_LINES && unseen) {
      if (!tia_line_end_changes(tia))
        num_lines = static_cast<int32_t>(static_cast<uint32_t>(stop - tia.line_clock) / kClocksPerLine);
      if (tia.blank_clock < tia.line_clock + (num_lines - 1) * kClocksPerLine + kHblankClocks) tia.hmove_blank = 0;
      tia_forget_passed(tia);
      tia.line_differs = 1;
    } else {
      tia_draw_rest_of_line(tia, pixels);
      const bool is_last = tia.line_clock + 2 * kClocksPerLine > stop;
      if (SEED_COPY_EQUAL_LINES && !is_last && tia_next_line_is_same(tia)) {
        num_lines = static_cast<int32_t>(static_cast<uint32_t>(stop - tia.line_clock) / kClocksPerLine);
        tia_repeat_line(tia, pixels, num_lines);
      }
    }
    tia.line_clock += num_lines * kClocksPerLine;
    if (tia.line_clock == tia.window_stop_clock && window_ends) {
      tia.drawn_clock = tia.seen_clock = kNever;
      return;
    }
    tia_end_line(tia);
    tia.drawn_clock = tia.line_clock + kHblankClocks;  // nothing happens in horizontal blank
  }
  tia.seen_clock = tia.drawn_clock;
}

// Settles what every pixel before `clock` shows.
SEED_HD SEED_FORCE_INLINE void tia_advance(Tia& tia, uint8_t* pixels, int32_t clock) {
  if (clock <= tia.seen_clock) return;
  if (clock > tia.line_clock + kClocksPerLine) tia_finish_lines(tia, pixels, clock);
  if (clock > tia.seen_clock) tia.seen_clock = clock;
}

SEED_HD SEED_NO_INLINE void tia_draw_pending(Tia& tia, uint8_t* pixels) {
  const int32_t line_start = tia.line_clock + kHblankClocks;
  tia_draw_segment(tia, tia_row(tia, pixels), tia.drawn_clock - line_start, tia.seen_clock - line_start);
  tia.drawn_clock = tia.seen_clock;
}

// Draws every pixel before `clock`; `pixels` is the picture (row 0 on top) or null.
SEED_HD SEED_FORCE_INLINE void tia_draw_until(Tia& tia, uint8_t* pixels, int32_t clock) {
  tia_advance(tia, pixels, clock);
  if (tia.seen_clock > tia.drawn_clock) tia_draw_pending(tia, pixels);
}

// Whether pending pixels are in the columns of `object`.
SEED_HD SEED_FORCE_INLINE bool tia_is_pending(Tia& tia, int object) {
  if (tia.stale_columns) tia_build_columns(tia);
  const int32_t line_start = tia.line_clock + kHblankClocks;
  const int first_x = tia.drawn_clock - line_start, last_x = tia.seen_clock - line_start;
  return (tia.columns[object] >> (first_x >> 2) & ((uint64_t{1} << (((last_x + 3) >> 2) - (first_x >> 2))) - 1)) != 0;
}

// The mask of `object` is about to change for all pixels that are not settled; `moves`: to other columns.
SEED_HD SEED_FORCE_INLINE void tia_defer(Tia& tia, uint8_t* pixels, int object, bool moves) {
  if (tia.seen_clock > tia.drawn_clock) {
    // With score and priority, what is in front depends on what is switched on.
    const bool draw = !SEED_PUT_SHAPES_ASIDE || (pixels != nullptr && (tia.reg[kCTRLPF] & 6) == 6);
    if (draw) {
      tia_draw_pending(tia, pixels);
    } else if (moves || !SEED_LEAVE_SHAPES_AHEAD || tia_is_pending(tia, object)) {
      tia_put_aside(tia, pixels != nullptr, object);
    }
  }
  tia.stale_masks |= static_cast<uint8_t>(1 << object);
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
  if (image) tia_advance(tia, pixels, clock + 11);
  tia_defer(tia, pixels, kP0 + player, true);
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

// What HMOVE at a line cycle makes of the pixels (right positive) that a motion register asks for.
struct HmoveRule {
  int shift, least, most;
};
SEED_HD inline HmoveRule hmove_rule(int cycle) {
  static constexpr int8_t kLateLimit[17] = {-6, -5, -5, -4, -3, -2, -2, -1, 0, 1, 1, 2, 3, 4, 4, 5, 6};  // from 4
  static constexpr int8_t kEarlyShift[20] = {1, 2, 3,  3,  4,  5,  6,  6,  7,  8,
                                             9, 9, 10, 11, 12, 12, 13, 14, 15, 15};  // from 55
  constexpr int kAny = 32;
  if (cycle <= 3 || cycle == 75) return {0, -kAny, kAny};
  if (cycle <= 20) return {0, kLateLimit[cycle - 4], kAny};
  if (cycle <= 54) return {0, 0, 0};
  return {7 - kEarlyShift[cycle - 55], -kAny, 0};
}

SEED_HD SEED_FORCE_INLINE void tia_blank_line(Tia& tia, int32_t clock) {
  tia.hmove_blank = 1;
  tia.blank_clock = clock;
}

// Whether HMOVE at `clock` changes nothing but the beginning of the line.
SEED_HD SEED_FORCE_INLINE bool tia_hmove_is_still(const Tia& tia, int32_t clock) {
  return (tia.moving | tia.skip_first[0] | tia.skip_first[1] | tia.star_bug) == 0 &&
         clock_in_line(clock) < 4 * kClocksPerCycle;
}

SEED_HD SEED_NO_INLINE void tia_hmove(Tia& tia, const Display& display, int32_t clock) {
  const int cycle = clock_in_line(clock) / kClocksPerCycle;
  if (display.hmove_blanks && (cycle <= 20 || cycle == 75)) tia_blank_line(tia, clock);
  tia.hmove_clock = clock;
  const HmoveRule rule = hmove_rule(cycle);
  const bool all_move = rule.shift != 0 || rule.least > 0 || rule.most < 0;
  for (uint32_t left = all_move ? kAllObjects & ~(1 << kPF) : tia.moving; left != 0; left &= left - 1) {
    const int object = count_trailing_zeros(left);
    int moved = rule.shift - (static_cast<int8_t>(tia.reg[kHMP0 + object]) >> 4);
    if (moved < rule.least) moved = rule.least;
    if (moved > rule.most) moved = rule.most;
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

SEED_HD SEED_FORCE_INLINE void tia_set_moving(Tia& tia, int object, uint8_t motion) {
  tia.moving = static_cast<uint8_t>((tia.moving & ~(1 << object)) | (motion >> 4 != 0) << object);
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

// `object` is about to change at `clock`, to other columns if it `moves`, if the change `shows`. What it looked like
// before does not matter if it is not drawn and no object that is on has a collision left with it, wherever it is.
SEED_HD SEED_FORCE_INLINE void tia_change(Tia& tia, uint8_t* pixels, int32_t clock, int object, bool shows,
                                          bool moves = false) {
  const bool matters =
      shows && (pixels != nullptr || !SEED_COLLIDE_WHERE_OBJECTS_MEET || clock <= tia.seen_clock ||
                tia_possible_collisions(tia, 1 << object, tia_objects_on(tia) | tia.passed_shown) != 0);
  if (!matters) {
    tia.stale_masks |= static_cast<uint8_t>(1 << object);
    return;
  }
  tia_advance(tia, pixels, clock);
  tia_defer(tia, pixels, object, moves);
}

// Where nothing is drawn: whether the graphics of `objects` matter neither now nor until something else changes.
SEED_HD SEED_FORCE_INLINE bool tia_graphics_are_free(Tia& tia, const uint8_t* pixels, int objects) {
  if (!SEED_COLLIDE_WHERE_OBJECTS_MEET || pixels != nullptr) return false;
  if ((objects & ~tia.free_players) == 0) return true;
  if (tia_line_end_changes(tia)) return false;  // the playfield or a missile will be elsewhere without a write
  const int others = tia_objects_on(tia) | 1 << kP0 | 1 << kP1 | tia.passed_shown;
  if ((tia_possible_collisions(tia, objects, others) & tia_meeting(tia)) != 0) return false;
  tia.free_players |= static_cast<uint8_t>(objects & (1 << kP0 | 1 << kP1));
  return true;
}

// `objects` are about to change at `clock`.
SEED_HD SEED_NO_INLINE void tia_change_graphics(Tia& tia, uint8_t* pixels, int objects, int32_t clock) {
  if (!tia_graphics_are_free(tia, pixels, objects)) {
    tia_advance(tia, pixels, clock);
    if (objects & 1 << kP0) tia_defer(tia, pixels, kP0, false);
    if (objects & 1 << kP1) tia_defer(tia, pixels, kP1, false);
    if (objects & 1 << kBL) tia_defer(tia, pixels, kBL, false);
  }
  tia.stale_masks |= static_cast<uint8_t>(objects);
}

SEED_HD SEED_FORCE_INLINE void tia_write_grp(Tia& tia, uint8_t* pixels, int player, uint8_t value, int32_t clock) {
  const int other = 1 - player;
  const bool delays_ball = player == 1 && (tia.reg[kVDELBL] & 1) && ((tia.delayed_ENABL ^ tia.reg[kENABL]) & 2);
  const bool changes = !(tia.reg[kVDELP0 + player] & 1) && tia.reg[kGRP0 + player] != value;
  const bool changes_other = (tia.reg[kVDELP0 + other] & 1) && tia.delayed_GRP[other] != tia.reg[kGRP0 + other];
  const int objects = changes << (kP0 + player) | changes_other << (kP0 + other) | delays_ball << kBL;
  if (pixels == nullptr && (objects & ~tia.free_players) == 0) {
    tia.stale_masks |= static_cast<uint8_t>(objects);
  } else if (objects != 0) {
    tia_change_graphics(tia, pixels, objects, clock);
    if (delays_ball) tia.free_players = 0;
  }
  tia.delayed_GRP[other] = tia.reg[kGRP0 + other];
  if (player == 1) tia.delayed_ENABL = tia.reg[kENABL];
  tia.reg[kGRP0 + player] = value;
  tia_update_latches_quiet(tia);
}

// A write that changes the state.
SEED_HD SEED_FORCE_INLINE void tia_write_change(Tia& tia, const Display& display, uint8_t* pixels, int reg,
                                                uint8_t value, int32_t cycles) {
  const int32_t clock = clock_of(cycles);
  const int32_t shows_clock = clock + tia_write_delay_clocks(reg, cycles);
  switch (reg) {
    case kVSYNC:
      tia_write_vsync(tia, value, clock);
      break;
    case kVBLANK:
      if ((tia.reg[kVBLANK] ^ value) & 2) {
        tia_draw_until(tia, pixels, shows_clock);
        tia.line_differs = 1;
      }
      if ((tia.reg[kVBLANK] & 0x80) && !(value & 0x80)) tia.dump_off_cycles = cycles;
      break;
    case kNUSIZ0:
    case kNUSIZ1: {
      const int i = reg - kNUSIZ0;
      tia_change(tia, pixels, shows_clock, kP0 + i, player_graphics(tia, i) != 0, true);
      tia_change(tia, pixels, shows_clock, kM0 + i, missile_enabled(tia, i), true);
      tia_set_skip_first(tia, i, false);
      tia_move_columns(tia, 1 << (kP0 + i) | 1 << (kM0 + i));
      break;
    }
    case kCOLUP0:
    case kCOLUP1: {
      if (pixels == nullptr) break;
      const int i = reg - kCOLUP0;
      const int objects = 1 << (kP0 + i) | 1 << (kM0 + i);
      if (player_graphics(tia, i) != 0 || missile_enabled(tia, i) || (tia.reg[kCTRLPF] & 2) ||
          (tia.deferred & objects)) {
        tia_draw_until(tia, pixels, shows_clock);
      }
      tia_paint(tia, display, reg, value);
      break;
    }
    case kCOLUPF:
    case kCOLUBK:
      if (pixels == nullptr) break;
      tia_draw_until(tia, pixels, shows_clock);
      tia_paint(tia, display, reg, value);
      break;
    case kCTRLPF: {
      const int changed = tia.reg[kCTRLPF] ^ value;
      if (pixels == nullptr && !(changed & 0x31) && tia.reflect_pf == (value & 1)) {  // priority or score
        tia.reg[kCTRLPF] = value;
        break;
      }
      tia_advance(tia, pixels, shows_clock);
      if (changed & 6) {
        if (pixels != nullptr) tia_draw_until(tia, pixels, shows_clock);
        tia.line_differs = 1;
      }
      if (changed & 0x30) tia_defer(tia, pixels, kBL, true);  // its width
      if (clock_in_line(clock) < 147 && tia.reflect_pf != (value & 1)) {
        tia_defer(tia, pixels, kPF, true);
        tia.reflect_pf = value & 1;
        tia_move_columns(tia, 1 << kPF);
      }
      tia.reg[kCTRLPF] = value;
      tia_move_columns(tia, changed & 0x30 ? 1 << kBL : 0);
      tia_set_quiet(tia, kCTRLPF, tia.reflect_pf == (value & 1));
      break;
    }
    case kREFP0:
    case kREFP1:
      tia_change(tia, pixels, shows_clock, kP0 + reg - kREFP0, player_graphics(tia, reg - kREFP0) != 0);
      break;
    case kPF0:
    case kPF1:
    case kPF2:
      tia_change(tia, pixels, shows_clock, kPF, true, true);
      tia_move_columns(tia, 1 << kPF);
      break;
    case kRESP0:
    case kRESP1:
      tia_advance(tia, pixels, shows_clock);
      tia_reset_player(tia, pixels, reg - kRESP0, clock);
      break;
    case kRESM0:
    case kRESM1:
    case kRESBL: {
      const int object = kM0 + reg - kRESM0;
      const bool shows = object == kBL ? ball_enabled(tia) : missile_enabled(tia, object - kM0);
      tia_change(tia, pixels, shows_clock, object, shows, true);
      tia_reset_missile_or_ball(tia, object, clock);
      break;
    }
    case kGRP0:
    case kGRP1:
      tia_write_grp(tia, pixels, reg - kGRP0, value, shows_clock);
      return;
    case kENAM0:
    case kENAM1:
      tia.free_players = 0;
      tia_change(tia, pixels, shows_clock, kM0 + reg - kENAM0, !(tia.reg[kRESMP0 + reg - kENAM0] & 2));
      break;
    case kENABL:
      tia.free_players = 0;
      tia_change(tia, pixels, shows_clock, kBL, !(tia.reg[kVDELBL] & 1));
      tia.reg[kENABL] = value;
      tia_update_latches_quiet(tia);
      break;
    case kHMM0:
      tia_set_moving(tia, kM0, value);
      if (tia.reg[kHMM0] >> 4 == 7 && value >> 4 == 6 && clock - tia.hmove_clock == 21 * kClocksPerCycle) {
        tia_draw_until(tia, pixels, shows_clock);
        tia.star_bug = 1;
        tia.free_players = 0;
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
      tia.free_players = 0;
      tia_change(tia, pixels, shows_clock, kBL, (tia.delayed_ENABL ^ tia.reg[kENABL]) & 2);
      break;
    case kRESMP0:
    case kRESMP1:
      tia.free_players = 0;
      tia_change(tia, pixels, shows_clock, kM0 + reg - kRESMP0, tia.reg[kENAM0 + reg - kRESMP0] & 2, true);
      tia_write_resmp(tia, reg - kRESMP0, value);
      break;
    case kHMOVE:
      if (tia_hmove_is_still(tia, clock)) {
        // Where nothing is drawn, the lines above need not be finished first.
        if (pixels != nullptr || !SEED_COLLIDE_WHERE_OBJECTS_MEET) tia_advance(tia, pixels, shows_clock);
        if (display.hmove_blanks) tia_blank_line(tia, clock);
        tia.hmove_clock = clock;
      } else {
        tia_draw_until(tia, pixels, shows_clock);
        tia_hmove(tia, display, clock);
      }
      break;
    case kHMCLR:
      for (int object = kP0; object <= kBL; ++object) tia.reg[kHMP0 + object] = 0;
      tia.moving = 0;
      break;
    case kCXCLR:
      tia_draw_until(tia, pixels, shows_clock);
      tia.collisions = 0;
      tia.free_players = 0;
      tia.line_differs = 1;
      break;
    case kHMP0:
    case kHMP1:
    case kHMM1:
    case kHMBL:
      tia_set_moving(tia, reg - kHMP0, value);
      break;
    default:
      break;
  }
  if (!(kStrobes >> reg & 1)) tia.reg[reg] = value;
}

// The same as a function for each register.
template <int kReg>
SEED_HD SEED_NO_INLINE void tia_change_register(Tia& tia, const Display& display, uint8_t* pixels, uint8_t value,
                                                int32_t cycles) {
  tia_write_change(tia, display, pixels, kReg, value, cycles);
}
SEED_HD SEED_NO_INLINE void tia_change_any_register(Tia& tia, const Display& display, uint8_t* pixels, int reg,
                                                    uint8_t value, int32_t cycles) {
  tia_write_change(tia, display, pixels, reg, value, cycles);
}

// Whether writing `value` to register `reg` (address & 3F) may change anything. Most writes do not.
SEED_HD SEED_FORCE_INLINE bool tia_write_counts(const Tia& tia, int reg, uint8_t value) {
  if (reg >= kNumTiaRegisters) return false;
  if (!SEED_SKIP_QUIET_WRITES) return true;
  return ((tia.reg[reg] ^ value) & significant_bits(reg)) != 0 || !(tia.quiet >> reg & 1);
}

// The part of a write that needs no drawing. Returns whether that was all.
SEED_HD SEED_FORCE_INLINE bool tia_write_quiet(Tia& tia, int reg, uint8_t value, int32_t cycles) {
  tia.accessed_clock = clock_of(cycles);
  if (cycles >= tia.limit_cycles) tia.frame_done = 1;
  return !tia_write_counts(tia, reg, value);
}

// Writes `value` to TIA register `reg`. WSYNC is the CPU's affair.
SEED_HD SEED_FORCE_INLINE void tia_write(Tia& tia, const Display& display, uint8_t* pixels, int reg, uint8_t value,
                                         int32_t cycles) {
  if (!tia_write_quiet(tia, reg, value, cycles)) tia_change_any_register(tia, display, pixels, reg, value, cycles);
}

// Gives what only saves work the values that follow from all else: equal machines have equal bytes, whatever was drawn.
SEED_HD inline void tia_settle(Tia& tia) {
  tia_build_masks(tia);
  tia_build_columns(tia);
  tia.line_differs = 1;
  tia.line_blank = tia.free_players = 0;
  for (uint8_t& pixel : tia.painted) pixel = 0;
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
