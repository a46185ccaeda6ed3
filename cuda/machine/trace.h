// SPDX-License-Identifier: Apache-2.0
// The interpreter that notes which bytes of a ROM are code: what the translator starts from.
#pragma once

#include <cstdint>

#include "machine/cpu_step.h"

namespace seed {

enum TraceBit : uint8_t {
  kTraceExecuted = 1,  // an instruction starts here
  kTraceEntered = 2,  // and control came from where the code alone does not show: RTS, RTI, BRK, JMP (), a bank switch,
                      // code in RAM, or the start of a frame
};

SEED_HD inline bool leads_nobody_knows_where(uint8_t opcode) {
  return opcode == 0x00 || opcode == 0x40 || opcode == 0x60 || opcode == 0x6c;  // BRK, RTI, RTS, JMP ()
}

// As console_interpret(), at a third of its speed.
SEED_HD inline void console_interpret_traced(Bus& bus) {
  Console& console = bus.console;
  bool entered = true;
  for (int i = 0; i < kMaxInstructionsPerFrame && !console.cpu.frozen && !console.tia.frame_done; ++i) {
    if (is_cartridge_address(console.cpu.PC)) {
      const uint32_t location = cartridge_offset(console.cartridge, bus.rom, console.cpu.PC);
      bus.rom.trace[location] |= entered ? kTraceExecuted | kTraceEntered : kTraceExecuted;
      entered = leads_nobody_knows_where(bus.rom.bytes[location]);
    } else {
      entered = true;
    }
    const uint32_t slices =
        console.cartridge.slice[0] << 16 | console.cartridge.slice[1] << 8 | console.cartridge.slice[2];
    cpu_step(bus);
    entered |= slices != static_cast<uint32_t>(console.cartridge.slice[0] << 16 | console.cartridge.slice[1] << 8 |
                                               console.cartridge.slice[2]);
  }
}

}  // namespace seed
