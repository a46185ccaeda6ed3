// SPDX-License-Identifier: Apache-2.0
// MOS 6532 RIOT: 128 bytes of RAM, two input ports and the interval timer.
//
// The timer is not counted: a read computes it from the cycle of the last write.
#pragma once

#include <cstdint>

#include "portability.h"

namespace seed {

constexpr int32_t kNoPaddle = -1;

// What the player holds, for one frame.
struct Inputs {
  uint8_t swcha = 0xff;  // joystick directions and paddle triggers, 0 = pressed: left port bits 4 up, 5 down, 6 left,
                         // 7 right; right port bits 0-3. Paddle 0 trigger bit 7, paddle 1 bit 6
  uint8_t swchb = 0x3f;  // bit 0 RESET, 1 SELECT (0 = pressed), 6/7 left/right difficulty A; the others 1
  bool trigger_pressed[2] = {false, false};                                          // joystick buttons: INPT4, INPT5
  int32_t paddle_resistance_ohms[4] = {kNoPaddle, kNoPaddle, kNoPaddle, kNoPaddle};  // INPT0-INPT3
};

struct Riot {
  uint8_t ram[128];
  int32_t timer_stamp_cycles;    // when the timer was written
  int32_t expired_stamp_cycles;  // when a program first saw it expired (valid while `expired_seen`)
  uint8_t timer;                 // value written
  uint8_t timer_shift;           // prescaler 1, 8, 64, 1024 = 1 << shift
  bool expired_seen;
  uint8_t DDRA;
};

// State after a machine reset; `timer` comes from the system generator. RAM is left as it is.
SEED_HD inline void riot_reset(Riot& riot, uint8_t timer) {
  riot.timer_stamp_cycles = 0;
  riot.expired_stamp_cycles = 0;
  riot.timer = timer;
  riot.timer_shift = 6;
  riot.expired_seen = false;
  riot.DDRA = 0;
}

// Cycles from stamp to cycles, in the machine's 32-bit arithmetic (a timer left alone for half an hour wraps).
SEED_HD SEED_FORCE_INLINE int32_t elapsed_cycles(int32_t cycles, int32_t stamp_cycles) {
  return static_cast<int32_t>(static_cast<uint32_t>(cycles) - static_cast<uint32_t>(stamp_cycles));
}

// What is left of the timer's own interval; negative = expired.
SEED_HD SEED_FORCE_INLINE int32_t riot_timer_left(const Riot& riot, int32_t cycles) {
  const uint32_t elapsed = static_cast<uint32_t>(elapsed_cycles(cycles, riot.timer_stamp_cycles)) - 1u;
  return static_cast<int32_t>(riot.timer) - static_cast<int32_t>(elapsed >> riot.timer_shift) - 1;
}

SEED_HD inline uint8_t riot_read_INTIM(Riot& riot, int32_t cycles) {
  const int32_t left = riot_timer_left(riot, cycles);
  if (left >= 0) return static_cast<uint8_t>(left);
  // Expired: it counts every cycle down from FF, until a program has seen that; then at the old rate again.
  const uint32_t elapsed = static_cast<uint32_t>(elapsed_cycles(cycles, riot.timer_stamp_cycles)) - 1u;
  const uint32_t interval = static_cast<uint32_t>(riot.timer) << riot.timer_shift;
  const uint32_t count = interval - elapsed - 1u;
  if (static_cast<int32_t>(count) <= -2 && !riot.expired_seen) {
    riot.expired_seen = true;
    riot.expired_stamp_cycles = cycles;
  }
  if (!riot.expired_seen) return static_cast<uint8_t>(count);
  const uint32_t seen = static_cast<uint32_t>(elapsed_cycles(riot.expired_stamp_cycles, riot.timer_stamp_cycles));
  return static_cast<uint8_t>(riot.timer - (elapsed >> riot.timer_shift) - (seen - interval));
}

SEED_HD inline uint8_t riot_read(Riot& riot, const Inputs& inputs, uint16_t address, int32_t cycles) {
  switch (address & 7) {
    case 0:
      return inputs.swcha;
    case 1:
      return riot.DDRA;
    case 2:
      return inputs.swchb;
    case 3:
      return 0;  // SWBCNT
    case 4:
    case 6:
      return riot_read_INTIM(riot, cycles);
    default:  // INSTAT
      return riot_timer_left(riot, cycles) < 0 && !riot.expired_seen ? 0x80 : 0;
  }
}

SEED_HD inline void riot_write(Riot& riot, uint16_t address, uint8_t value, int32_t cycles) {
  if ((address & 0x14) == 0x14) {
    const uint8_t shifts[4] = {0, 3, 6, 10};
    riot.timer = value;
    riot.timer_shift = shifts[address & 3];
    riot.timer_stamp_cycles = cycles;
    riot.expired_seen = false;
  } else if ((address & 7) == 1) {
    riot.DDRA = value;
  }
}

}  // namespace seed
