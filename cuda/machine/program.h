// SPDX-License-Identifier: Apache-2.0
// Predecoded instructions: a cartridge's ROM as cpu_run.h likes to read it.
//
// There is one Instruction for every ROM byte, for code may start anywhere. Its handler already knows the operation and
// which chip the operand is in. What a handler cannot do by itself (bank switching, undocumented opcodes, code at the
// end of a bank, odd addresses) is left to the reference interpreter, cpu_step.h: handler kStep.
#pragma once

#include <cstdint>

#include "machine/cartridge.h"
#include "machine/mos6502.h"
#include "portability.h"

namespace seed {

struct Instruction {
  uint16_t handler;
  uint16_t operand;  // address or index in the RAM; of a branch: cycles when taken, beyond `cycles`
  uint16_t value;    // constant operand; of a branch: its target in the region (see rom_region_mask)
  uint8_t cycles;
  uint8_t length;
};
static_assert(sizeof(Instruction) == 8, "many instructions to a cache line");

// Operations that read an operand, the operands they come with, and all handlers that are made of them.
#define SEED_READ_OPERATIONS(X) X(ADC) X(AND) X(BIT) X(CMP) X(CPX) X(CPY) X(EOR) X(LDA) X(LDX) X(LDY) X(ORA) X(SBC)
#define SEED_STORE_OPERATIONS(X) X(STA) X(STX) X(STY)
#define SEED_MODIFY_OPERATIONS(X) X(ASL) X(DEC) X(INC) X(LSR) X(ROL) X(ROR)
#define SEED_IMPLIED_OPERATIONS(X) \
  X(CLC)                           \
  X(CLD) X(CLI) X(CLV) X(SEC) X(SED) X(SEI) X(DEX) X(DEY) X(INX) X(INY) X(TAX) X(TAY) X(TSX) X(TXA) X(TXS) X(TYA) X(NOP)
#define SEED_BRANCH_OPERATIONS(X) X(BCC) X(BCS) X(BEQ) X(BMI) X(BNE) X(BPL) X(BVC) X(BVS)

// Operands: Constant (immediate or ROM), Ram, Tia, Riot (fixed addresses), Absolute (looked up), indexed and (zp),Y.
enum class Operand : uint8_t {
  kConstant,
  kRam,
  kTia,
  kRiot,
  kAbsolute,
  kZeroPageX,
  kZeroPageY,
  kAbsoluteX,
  kAbsoluteY,
  kIndirectY,
  kNumOperands
};

enum Handler : uint16_t {
  kStep,
#define SEED_HANDLERS(OP)                                                                                           \
  k##OP##_Constant, k##OP##_Ram, k##OP##_Tia, k##OP##_Riot, k##OP##_Absolute, k##OP##_ZeroPageX, k##OP##_ZeroPageY, \
      k##OP##_AbsoluteX, k##OP##_AbsoluteY, k##OP##_IndirectY,
  SEED_READ_OPERATIONS(SEED_HANDLERS)
#undef SEED_HANDLERS
#define SEED_HANDLERS(OP)                                                                                             \
  k##OP##_Ram, k##OP##_Tia, k##OP##_Riot, k##OP##_ZeroPageX, k##OP##_ZeroPageY, k##OP##_AbsoluteX, k##OP##_AbsoluteY, \
      k##OP##_IndirectY,
      SEED_STORE_OPERATIONS(SEED_HANDLERS)
#undef SEED_HANDLERS
#define SEED_HANDLERS(OP) k##OP##_Accumulator, k##OP##_Ram, k##OP##_ZeroPageX,
          SEED_MODIFY_OPERATIONS(SEED_HANDLERS)
#undef SEED_HANDLERS
#define SEED_HANDLERS(OP) k##OP##_Implied,
              SEED_IMPLIED_OPERATIONS(SEED_HANDLERS)
#undef SEED_HANDLERS
#define SEED_HANDLERS(OP) k##OP##_Branch,
                  SEED_BRANCH_OPERATIONS(SEED_HANDLERS)
#undef SEED_HANDLERS
                      kWSYNC_Store,
  kJMP_Absolute,
  kJSR_Absolute,
  kRTS_Implied,
  kPHA_Implied,
  kPHP_Implied,
  kPLA_Implied,
  kPLP_Implied,
  kDEX_Loop,  // DEX, BNE back to it
  kDEY_Loop,
  kINTIM_Poll,  // LDA INTIM, BNE back to it
  kNumHandlers
};

// Code runs in regions whose ROM bytes are contiguous while nothing switches banks.
SEED_HD SEED_FORCE_INLINE uint32_t rom_region_mask(const Rom& rom) {
  return rom.type == CartridgeType::k2K ? 0x7ff : rom.type == CartridgeType::kE0 ? 0x3ff : 0xfff;
}

// First of the last addresses of the window that may be hot spots; what lies from here on is left to cpu_step.
SEED_HD SEED_FORCE_INLINE uint32_t rom_hot_spots_from(const Rom& rom) {
  switch (rom.type) {
    case CartridgeType::k2K:
    case CartridgeType::k4K:
    case CartridgeType::kFE:
      return 0x1000;
    case CartridgeType::kE0:
      return 0xfe0;
    default:
      return 0xff6;
  }
}

// First address of the window that is ROM: Superchip RAM comes before.
SEED_HD SEED_FORCE_INLINE uint32_t rom_starts_at(const Rom& rom) { return rom_has_superchip(rom) ? 0x100 : 0; }

// Whether a window address means the same ROM byte for all code of a bank.
SEED_HD SEED_FORCE_INLINE bool rom_is_flat(const Rom& rom) {
  return rom.type != CartridgeType::kE0 && rom.type != CartridgeType::kFE;
}

// Number of Instructions that rom_predecode writes; 0 when the cartridge is always decoded while running: every access
// to a DPC counts, instruction fetches included.
SEED_HD inline uint32_t rom_program_length(const Rom& rom) {
  return rom.accepted && rom.type != CartridgeType::kDPC ? rom.size_bytes : 0;
}

// --- Decoding -------------------------------------------------------------------------------------------------------

// Handler of the first operand kind of an operation, or kStep.
SEED_HD inline int first_handler_of(Operation operation) {
  switch (operation) {
#define SEED_CASE(OP)    \
  case Operation::k##OP: \
    return k##OP##_Constant;
    SEED_READ_OPERATIONS(SEED_CASE)
#undef SEED_CASE
#define SEED_CASE(OP)    \
  case Operation::k##OP: \
    return k##OP##_Ram;
    SEED_STORE_OPERATIONS(SEED_CASE)
#undef SEED_CASE
#define SEED_CASE(OP)    \
  case Operation::k##OP: \
    return k##OP##_Accumulator;
    SEED_MODIFY_OPERATIONS(SEED_CASE)
#undef SEED_CASE
#define SEED_CASE(OP)    \
  case Operation::k##OP: \
    return k##OP##_Implied;
    SEED_IMPLIED_OPERATIONS(SEED_CASE)
#undef SEED_CASE
#define SEED_CASE(OP)    \
  case Operation::k##OP: \
    return k##OP##_Branch;
    SEED_BRANCH_OPERATIONS(SEED_CASE)
#undef SEED_CASE
    case Operation::kJMP:
      return kJMP_Absolute;
    case Operation::kJSR:
      return kJSR_Absolute;
    case Operation::kRTS:
      return kRTS_Implied;
    case Operation::kPHA:
      return kPHA_Implied;
    case Operation::kPHP:
      return kPHP_Implied;
    case Operation::kPLA:
      return kPLA_Implied;
    case Operation::kPLP:
      return kPLP_Implied;
    default:
      return kStep;
  }
}

SEED_HD inline int instruction_length(Mode mode) {
  switch (mode) {
    case Mode::kImplied:
    case Mode::kAccumulator:
      return 1;
    case Mode::kAbsolute:
    case Mode::kAbsoluteX:
    case Mode::kAbsoluteY:
    case Mode::kIndirect:
      return 3;
    default:
      return 2;
  }
}

// Which handlers an operation of this class and mode may have; kNumOperands: none.
SEED_HD inline Operand operand_of(Mode mode, uint16_t address, bool flat) {
  switch (mode) {
    case Mode::kImmediate:
      return Operand::kConstant;
    case Mode::kZeroPage:
    case Mode::kAbsolute:
      if (address & 0x1000) return flat ? Operand::kConstant : Operand::kAbsolute;
      if (!(address & 0x80)) return Operand::kTia;
      return (address & 0x200) ? Operand::kRiot : Operand::kRam;
    case Mode::kZeroPageX:
      return Operand::kZeroPageX;
    case Mode::kZeroPageY:
      return Operand::kZeroPageY;
    case Mode::kAbsoluteX:
      return Operand::kAbsoluteX;
    case Mode::kAbsoluteY:
      return Operand::kAbsoluteY;
    case Mode::kIndirectY:
      return address >= 0x80 && address < 0xff ? Operand::kIndirectY : Operand::kNumOperands;
    default:
      return Operand::kNumOperands;
  }
}

// The Instruction at ROM offset `offset`. `region` points at the first ROM byte of its region.
SEED_HD inline Instruction decode_instruction(const Rom& rom, uint32_t offset) {
  const uint32_t mask = rom_region_mask(rom), at = offset & mask;
  const uint8_t* const region = rom.bytes + (offset - at);
  const Opcode opcode = opcode_of(region[at]);
  const int length = instruction_length(opcode.mode);
  const uint32_t last = at + static_cast<uint32_t>(length);  // next instruction
  const uint32_t hot_from = rom.type == CartridgeType::kE0 ? 0x3e0 : rom_hot_spots_from(rom);
  const Instruction step = {kStep, 0, 0, 0, 0};
  if (last > mask || last > hot_from || at < rom_starts_at(rom)) return step;
  const int handler = first_handler_of(opcode.operation);
  if (handler == kStep) return step;

  const uint8_t low = region[(at + 1) & mask], high = region[(at + 2) & mask];
  const uint16_t address = length == 3 ? static_cast<uint16_t>(low | high << 8) : low;
  Instruction decoded = {static_cast<uint16_t>(handler), address, low, opcode.cycles, static_cast<uint8_t>(length)};
  const int operand = static_cast<int>(operand_of(opcode.mode, address, rom_is_flat(rom)));
  if (opcode.operation < Operation::kNOP) {  // reads
    if (operand == static_cast<int>(Operand::kNumOperands)) return step;
    decoded.handler = static_cast<uint16_t>(handler + operand);
    if (operand == static_cast<int>(Operand::kConstant) && opcode.mode == Mode::kAbsolute) {
      const uint32_t window = address & 0xfffu;
      if (window < rom_starts_at(rom) || window >= rom_hot_spots_from(rom)) return step;
      decoded.value = region[window & mask];
    }
    if (operand == static_cast<int>(Operand::kRam)) decoded.operand = address & 0x7f;
    // LDA INTIM, BNE back: waits for the timer.
    if (decoded.handler == kLDA_Riot && (address & 5) == 4 && last + 2 < mask && last + 2 <= hot_from &&
        region[last] == 0xd0 && region[last + 1] == 0xfb && ((at ^ (last + 2)) & 0xff00) == 0) {
      decoded.handler = kINTIM_Poll;
    }
    return decoded;
  }
  if (opcode.operation >= Operation::kSTA && opcode.operation <= Operation::kSTY) {
    const bool fixed = opcode.mode == Mode::kZeroPage || opcode.mode == Mode::kAbsolute;
    if (fixed && operand == static_cast<int>(Operand::kTia) && (address & 0x3f) == 0x02) {
      decoded.handler = kWSYNC_Store;
      return decoded;
    }
    switch (static_cast<Operand>(operand)) {
      case Operand::kRam:
        decoded.operand = address & 0x7f;
        return decoded;
      case Operand::kTia:
        decoded.operand = address & 0x3f;
        decoded.handler = static_cast<uint16_t>(handler + 1);
        return decoded;
      case Operand::kRiot:
        decoded.handler = static_cast<uint16_t>(handler + 2);
        return decoded;
      case Operand::kZeroPageX:
      case Operand::kZeroPageY:
      case Operand::kAbsoluteX:
      case Operand::kAbsoluteY:
      case Operand::kIndirectY:
        decoded.handler = static_cast<uint16_t>(handler + 3 + operand - static_cast<int>(Operand::kZeroPageX));
        return decoded;
      default:
        return step;
    }
  }
  if (opcode.operation >= Operation::kASL && opcode.operation <= Operation::kROR) {
    if (opcode.mode == Mode::kAccumulator) return decoded;
    if (operand == static_cast<int>(Operand::kRam)) {
      decoded.operand = address & 0x7f;
      decoded.handler = static_cast<uint16_t>(handler + 1);
      return decoded;
    }
    if (operand == static_cast<int>(Operand::kZeroPageX)) {
      decoded.handler = static_cast<uint16_t>(handler + 2);
      return decoded;
    }
    return step;
  }
  if (opcode.mode == Mode::kRelative) {
    const int32_t target = static_cast<int32_t>(last) + static_cast<int8_t>(low);
    if (target < 0 || target > static_cast<int32_t>(mask)) return step;
    decoded.operand = ((static_cast<uint32_t>(target) ^ last) & 0xff00) ? 2 : 1;
    decoded.value = static_cast<uint16_t>(target);
    return decoded;
  }
  if (opcode.mode == Mode::kIndirect || (opcode.operation == Operation::kNOP && opcode.mode != Mode::kImplied))
    return step;
  const bool loops =
      last + 2 < mask && last + 2 <= hot_from && low == 0xd0 && high == 0xfd && ((at ^ (last + 2)) & 0xff00) == 0;
  if (loops && opcode.operation == Operation::kDEX) decoded.handler = kDEX_Loop;
  if (loops && opcode.operation == Operation::kDEY) decoded.handler = kDEY_Loop;
  return decoded;
}

// Fills `program` (rom_program_length(rom) entries, the caller's, alive as long as the Rom) and attaches it to `rom`.
SEED_HD inline void rom_predecode(Rom& rom, Instruction* program) {
  const uint32_t length = rom_program_length(rom);
  rom.program = length == 0 ? nullptr : program;
  for (uint32_t offset = 0; offset < length; ++offset) program[offset] = decode_instruction(rom, offset);
}

}  // namespace seed
