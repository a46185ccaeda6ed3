// SPDX-License-Identifier: Apache-2.0
// MOS 6502 (6507): registers and the arithmetic of its instructions, undocumented ones included.
#pragma once

#include <cstdint>

#include "portability.h"

namespace seed {

struct Mos6502 {
  uint16_t PC;
  uint8_t A, X, Y, SP;
  // Flags, kept as what they are computed from.
  uint16_t nz;         // N = nz & 0x180, Z = low byte is 0
  uint8_t C, V, D, I;  // 0 or 1
  uint8_t bus;         // last byte on the data bus: undriven bits of TIA reads
  bool frozen;         // executed a KIL opcode
};

}  // namespace seed
