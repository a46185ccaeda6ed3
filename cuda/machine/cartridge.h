// SPDX-License-Identifier: Apache-2.0
// Atari 2600 cartridges: nine bank-switching schemes behind one 4 KB window (A12 = 1).
//
// The window is four 1 KB quarters; Cartridge::slice says which 1 KB slice of the ROM each quarter shows, so reading is
// one table look-up for every scheme. Hot spots are decoded by their low 12 address bits, on any read or write.
#pragma once

#include <cstdint>

#include "portability.h"

namespace seed {

enum class CartridgeType : uint8_t {
  k2K,    // 2 KB, mirrored
  k4K,    // 4 KB
  kF8,    // 8 KB, two 4 KB banks, hot spots FF8-FF9
  kF8SC,  // F8 with 128 bytes of RAM ("Superchip")
  kF6,    // 16 KB, four 4 KB banks, hot spots FF6-FF9
  kF6SC,  // F6 with 128 bytes of RAM
  kE0,    // 8 KB, 1 KB slices in three quarters (Parker Brothers)
  kFE,    // 8 KB, the bank follows address bit 13 (Activision)
  kDPC,   // 8 KB and a display data chip with 2 KB of its own (Pitfall II)
};
constexpr int kNumCartridgeTypes = 9;

struct Instruction;  // predecoded, see program.h
struct Translation;  // native code, see translator/translation.h

// A cartridge as the console sees it: read-only and shared by every console that plays it.
struct Rom {
  const uint8_t* bytes;  // the caller's; must outlive the Rom
  uint32_t size_bytes;
  CartridgeType type;
  bool accepted;                   // set by rom_prepare
  const Instruction* program;      // predecoded instructions (rom_predecode), or null: decode while running
  const Translation* translation;  // native code made from this cartridge, or null: interpret
  uint8_t* trace;                  // one byte per ROM byte that notes what is executed (TraceBit), or null
};

// Returns whether a cartridge of `type` may have `size_bytes` bytes.
SEED_HD inline bool rom_size_is_legal(CartridgeType type, uint32_t size_bytes) {
  switch (type) {
    case CartridgeType::k2K:
      return size_bytes == 2048;
    case CartridgeType::k4K:
      return size_bytes == 4096;
    case CartridgeType::kF8:
    case CartridgeType::kF8SC:
    case CartridgeType::kE0:
    case CartridgeType::kFE:
      return size_bytes == 8192;
    case CartridgeType::kF6:
    case CartridgeType::kF6SC:
      return size_bytes == 16384;
    case CartridgeType::kDPC:  // dumps carry 0 to 256 bytes of the random number generator at the end
      return size_bytes >= 10240 && size_bytes <= 10496;
  }
  return false;
}

// Makes `rom` describe `bytes`. Returns false (and a Rom that no console accepts) when the size does not fit the type.
SEED_HD inline bool rom_prepare(Rom& rom, const uint8_t* bytes, uint32_t size_bytes, CartridgeType type) {
  rom.bytes = bytes;
  rom.size_bytes = size_bytes;
  rom.type = type;
  rom.program = nullptr;
  rom.translation = nullptr;
  rom.trace = nullptr;
  rom.accepted = bytes != nullptr && rom_size_is_legal(type, size_bytes);
  return rom.accepted;
}

SEED_HD inline bool rom_has_superchip(const Rom& rom) {
  return rom.type == CartridgeType::kF8SC || rom.type == CartridgeType::kF6SC;
}

// Display Processor Chip: eight data fetchers, the upper three of which can make music.
struct Dpc {
  double music_fraction;       // of a music clock
  int32_t music_stamp_cycles;  // when the music was last brought up to date
  uint16_t counter[8];         // 11 bits
  uint8_t top[8];
  uint8_t bottom[8];
  uint8_t flag[8];  // 0 or FF
  uint8_t music;    // bit i = fetcher i is in music mode (i = 5, 6, 7)
  uint8_t random;
};

struct Cartridge {
  uint8_t ram[128];  // Superchip
  uint8_t slice[4];  // 1 KB slice of the ROM in each quarter of the window
  Dpc dpc;
};

constexpr double kDpcMusicClocksPerCycle = 15750.0 / 1193191.66666667;

SEED_HD inline void cartridge_select_4k(Cartridge& cartridge, int bank) {
  for (int quarter = 0; quarter < 4; ++quarter) cartridge.slice[quarter] = static_cast<uint8_t>(4 * bank + quarter);
}

// Start bank and chip registers of a machine reset; the RAM is left as it is.
SEED_HD inline void cartridge_reset(Cartridge& cartridge, const Rom& rom) {
  cartridge.dpc = Dpc{};
  cartridge.dpc.random = 1;
  switch (rom.type) {
    case CartridgeType::k2K:
      cartridge_select_4k(cartridge, 0);
      cartridge.slice[2] = 0;
      cartridge.slice[3] = 1;
      break;
    case CartridgeType::kF8:
    case CartridgeType::kF8SC:
    case CartridgeType::kDPC:
      cartridge_select_4k(cartridge, 1);
      break;
    case CartridgeType::kE0:
      for (int quarter = 0; quarter < 4; ++quarter) cartridge.slice[quarter] = static_cast<uint8_t>(4 + quarter);
      break;
    default:
      cartridge_select_4k(cartridge, 0);
  }
}

// Switches banks when `address` is a hot spot.
SEED_HD inline void cartridge_hot_spot(Cartridge& cartridge, const Rom& rom, uint16_t address) {
  const int spot = address & 0xfff;
  switch (rom.type) {
    case CartridgeType::kF8:
    case CartridgeType::kF8SC:
    case CartridgeType::kDPC:
      if (spot == 0xff8 || spot == 0xff9) cartridge_select_4k(cartridge, spot - 0xff8);
      break;
    case CartridgeType::kF6:
    case CartridgeType::kF6SC:
      if (spot >= 0xff6 && spot <= 0xff9) cartridge_select_4k(cartridge, spot - 0xff6);
      break;
    case CartridgeType::kE0:
      if (spot >= 0xfe0 && spot <= 0xff7) cartridge.slice[(spot - 0xfe0) >> 3] = static_cast<uint8_t>(spot & 7);
      break;
    default:
      break;
  }
}

// Offset in the ROM of the byte that `address` shows now.
SEED_HD SEED_FORCE_INLINE uint32_t cartridge_offset(const Cartridge& cartridge, const Rom& rom, uint16_t address) {
  if (rom.type == CartridgeType::kFE) return ((~address & 0x2000u) >> 1) | (address & 0xfffu);
  return cartridge.slice[(address >> 10) & 3] * 1024u + (address & 0x3ffu);
}

// --- Display Processor Chip -----------------------------------------------------------------------------------------

SEED_HD inline void dpc_clock_random(Dpc& dpc) {
  const int r = dpc.random;
  const int in = ~((r >> 7) ^ (r >> 5) ^ (r >> 4) ^ (r >> 3)) & 1;
  dpc.random = static_cast<uint8_t>(r << 1 | in);
}

// Counts the music fetchers down by the music clocks that have passed.
SEED_HD inline void dpc_update_music(Dpc& dpc, int32_t cycles) {
  const double clocks = dpc.music_fraction + kDpcMusicClocksPerCycle * (cycles - dpc.music_stamp_cycles);
  const int whole = static_cast<int>(clocks);
  dpc.music_fraction = clocks - whole;
  dpc.music_stamp_cycles = cycles;
  if (whole <= 0) return;
  for (int i = 5; i < 8; ++i) {
    if (!(dpc.music >> i & 1)) continue;
    const int top = dpc.top[i];
    int low = 0;
    if (top != 0) {
      low = (dpc.counter[i] & 0xff) - whole % (top + 1);
      if (low < 0) low += top + 1;
    }
    if (low <= dpc.bottom[i]) {
      dpc.flag[i] = 0;
    } else if (low <= top) {
      dpc.flag[i] = 0xff;
    }
    dpc.counter[i] = static_cast<uint16_t>((dpc.counter[i] & 0x700) | (low & 0xff));
  }
}

SEED_HD inline uint8_t dpc_read(Dpc& dpc, const Rom& rom, int reg, int32_t cycles) {
  const int i = reg & 7;
  const uint8_t* const display = rom.bytes + 8192;
  if ((dpc.counter[i] & 0xff) == dpc.top[i]) {
    dpc.flag[i] = 0xff;
  } else if ((dpc.counter[i] & 0xff) == dpc.bottom[i]) {
    dpc.flag[i] = 0;
  }
  uint8_t value = 0;
  switch (reg >> 3) {
    case 0:
      if (i < 4) {
        value = dpc.random;
      } else {
        const uint8_t amplitudes[8] = {0x0, 0x4, 0x5, 0x9, 0x6, 0xa, 0xb, 0xf};
        dpc_update_music(dpc, cycles);
        int chord = 0;
        for (int voice = 0; voice < 3; ++voice) {
          if ((dpc.music >> (5 + voice) & 1) && dpc.flag[5 + voice]) chord |= 1 << voice;
        }
        value = amplitudes[chord];
      }
      break;
    case 1:
      value = display[2047 - dpc.counter[i]];
      break;
    case 2:
      value = display[2047 - dpc.counter[i]] & dpc.flag[i];
      break;
    case 7:
      value = dpc.flag[i];
      break;
    default:
      break;
  }
  if (!(dpc.music >> i & 1)) dpc.counter[i] = (dpc.counter[i] - 1) & 0x7ff;
  return value;
}

SEED_HD inline void dpc_write(Dpc& dpc, int reg, uint8_t value) {
  const int i = reg & 7;
  switch ((reg - 0x40) >> 3) {
    case 0:
      dpc.top[i] = value;
      dpc.flag[i] = 0;
      break;
    case 1:
      dpc.bottom[i] = value;
      break;
    case 2:
      dpc.counter[i] = static_cast<uint16_t>((dpc.counter[i] & 0x700) | ((dpc.music >> i & 1) ? dpc.top[i] : value));
      break;
    case 3:
      dpc.counter[i] = static_cast<uint16_t>((value & 7) << 8 | (dpc.counter[i] & 0xff));
      if (i >= 5) dpc.music = static_cast<uint8_t>((dpc.music & ~(1 << i)) | (value >> 4 & 1) << i);
      break;
    case 6:
      dpc.random = 1;
      break;
    default:
      break;
  }
}

// --- Access through the bus -----------------------------------------------------------------------------------------

// Reads cartridge address `address` (A12 = 1) at `cycles`.
SEED_HD inline uint8_t cartridge_read(Cartridge& cartridge, const Rom& rom, uint16_t address, int32_t cycles) {
  const int low = address & 0xfff;
  if (rom.type == CartridgeType::kDPC) {
    if (low < 0x80 || low >= 0xfc0) dpc_clock_random(cartridge.dpc);
    if (low < 0x40) return dpc_read(cartridge.dpc, rom, low, cycles);
  }
  if (rom_has_superchip(rom) && low >= 0x80 && low < 0x100) return cartridge.ram[low & 0x7f];
  if (low >= 0xfe0) cartridge_hot_spot(cartridge, rom, address);
  return rom.bytes[cartridge_offset(cartridge, rom, address)];
}

SEED_HD inline void cartridge_write(Cartridge& cartridge, const Rom& rom, uint16_t address, uint8_t value) {
  const int low = address & 0xfff;
  if (rom.type == CartridgeType::kDPC) {
    dpc_clock_random(cartridge.dpc);
    if (low >= 0x40 && low < 0x80) dpc_write(cartridge.dpc, low, value);
  }
  if (rom_has_superchip(rom) && low < 0x80) cartridge.ram[low] = value;
  if (low >= 0xfe0) cartridge_hot_spot(cartridge, rom, address);
}

}  // namespace seed
