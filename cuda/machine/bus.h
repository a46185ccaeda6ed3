// SPDX-License-Identifier: Apache-2.0
// The address decoder of the console: which chip answers, and when.
//
// A12 = 1: cartridge. Otherwise A7 = 0: TIA; A7 = 1: RIOT, whose RAM answers when A9 = 0.
#pragma once

#include "machine/console.h"

namespace seed {

// One frame call's view of a console: its state and what the caller passed in.
struct Bus {
  Console& console;
  const Rom& rom;
  const Display& display;
  const Inputs& inputs;
  uint8_t* pixels;  // picture being drawn, or null
};

SEED_HD SEED_FORCE_INLINE bool is_cartridge_address(uint16_t address) { return (address & 0x1000) != 0; }
SEED_HD SEED_FORCE_INLINE bool is_tia_address(uint16_t address) { return (address & 0x1080) == 0; }
SEED_HD SEED_FORCE_INLINE bool is_ram_address(uint16_t address) { return (address & 0x1280) == 0x80; }

SEED_HD SEED_CALL inline uint8_t bus_read(Bus& bus, uint16_t address) {
  Console& console = bus.console;
  uint8_t value;
  if (is_cartridge_address(address)) {
    value = cartridge_read(console.cartridge, bus.rom, address, console.cycles - console.carry_cycles);
  } else if (is_tia_address(address)) {
    value =
        tia_read(console.tia, bus.pixels, bus.inputs, address, console.cpu.bus, console.cycles, console.carry_cycles);
  } else if (is_ram_address(address)) {
    value = console.riot.ram[address & 0x7f];
  } else {
    value = riot_read(console.riot, bus.inputs, address, console.cycles);
  }
  console.cpu.bus = value;
  return value;
}

// `after_write`: the CPU's previous access was a write (the second and third push of JSR and BRK).
SEED_HD SEED_CALL inline void bus_write(Bus& bus, uint16_t address, uint8_t value, bool after_write = false) {
  Console& console = bus.console;
  if (is_cartridge_address(address)) {
    cartridge_write(console.cartridge, bus.rom, address, value);
  } else if (is_tia_address(address)) {
    const int reg = address & 0x3f;
    tia_write(console.tia, bus.display, bus.pixels, reg, value, console.cycles);
    if (reg == kWSYNC && !after_write) console.cycles += cycles_to_line_end(console.cycles);
  } else if (is_ram_address(address)) {
    console.riot.ram[address & 0x7f] = value;
  } else {
    riot_write(console.riot, address, value, console.cycles);
  }
  console.cpu.bus = value;
}

}  // namespace seed
