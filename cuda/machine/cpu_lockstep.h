// SPDX-License-Identifier: Apache-2.0
// The interpreter for GPUs: the lanes of a warp, one console each, do the same thing at the same time where they can.
//
// Registers and time live in local variables. An instruction is decoded by a table into mode and operation, one switch
// each, so that lanes at different places of a program share most of their work. Loops that only wait are taken in one
// go. A round ends where something has to be drawn, where an instruction is not plain (hot spots, code outside ROM, odd
// stack addresses; cpu_step does it), and at the end of a scanline, where lanes wait for each other: programs of one
// game are in the same phase there, however different their pasts.
#pragma once

#include "machine/cpu_run.h"

namespace seed {

// Why a round ended.
enum class LockstepCall : uint8_t {
  kNone,      // the scanline, the frame or the instruction limit
  kStep,      // the instruction must be executed by cpu_step; nothing of it has been
  kTiaWrite,  // all of the instruction is done but a write that changes the TIA
};

struct LockstepRequest {
  LockstepCall call;
  uint8_t reg, value;  // of a TIA write
};

// What the interpreter keeps out of memory.
struct LockstepCpu {
  Mos6502 registers;
  int32_t cycles;
  int32_t num_instructions;        // of this frame call
  uint32_t slices;                 // Cartridge::slice, lowest quarter in the lowest byte
  uint32_t plain_from, num_plain;  // window addresses that are ROM and do nothing else
  bool follows_address;            // CartridgeType::kFE
  bool done;                       // the frame has ended
  LockstepRequest request;
};

SEED_HD SEED_FORCE_INLINE void lockstep_load(LockstepCpu& state, const Bus& bus) {
  const Rom& rom = bus.rom;
  const Console& console = bus.console;
  const bool dpc = rom.type == CartridgeType::kDPC;  // most of its window is ROM like any other
  const uint32_t end = dpc ? 0xfc0 : rom_hot_spots_from(rom);
  state.plain_from = dpc ? 0x80 : rom_starts_at(rom);
  state.num_plain = end - state.plain_from;
  state.follows_address = rom.type == CartridgeType::kFE;
  state.registers = console.cpu;
  state.cycles = console.cycles;
  state.slices = 0;
  for (int i = 0; i < 4; ++i) state.slices |= static_cast<uint32_t>(console.cartridge.slice[i]) << (8 * i);
  state.done = false;
  state.request = {LockstepCall::kNone, 0, 0};
}

// Whether `count` bytes from `address` on can be read without a side effect.
SEED_HD SEED_FORCE_INLINE bool lockstep_is_rom(const LockstepCpu& state, uint16_t address, uint32_t count) {
  const uint32_t low = (address & 0xfffu) - state.plain_from;
  return (address & 0x1000) && low < state.num_plain && low + count <= state.num_plain;
}

SEED_HD SEED_FORCE_INLINE uint8_t lockstep_rom_byte(const LockstepCpu& state, const Rom& rom, uint32_t address) {
  if (state.follows_address) return rom.bytes[((~address & 0x2000u) >> 1) | (address & 0xfffu)];
  const uint32_t slice = state.slices >> (8 * (address >> 10 & 3)) & 0xff;
  return rom.bytes[slice * 1024u + (address & 0x3ffu)];
}

// Takes the rest of a loop that only waits in one go, if it ends before the instruction limit: `rounds` rounds of two
// instructions and `cycles` cycles.
SEED_HD SEED_FORCE_INLINE bool lockstep_wait(LockstepCpu& state, int32_t rounds, int32_t cycles) {
  if (rounds <= 0 || state.num_instructions + 2 * rounds >= kMaxInstructionsPerFrame) return false;
  state.num_instructions += 2 * rounds;
  state.cycles += rounds * cycles;
  return true;
}

// An operand's address, and the byte that was on the bus before it is read.
struct LockstepOperand {
  uint16_t address;
  uint8_t before;
  bool plain;
  bool page_cycle;
};

SEED_HD SEED_FORCE_INLINE LockstepOperand lockstep_operand(const Mos6502& cpu, const uint8_t* ram, Opcode opcode,
                                                           uint8_t low, uint8_t high) {
  uint32_t base = low;
  uint8_t index = 0;
  LockstepOperand operand{0, low, true, false};
  switch (opcode.mode) {
    case Mode::kZeroPage:
      break;
    case Mode::kZeroPageX:
      base = static_cast<uint8_t>(low + cpu.X);
      break;
    case Mode::kZeroPageY:
      base = static_cast<uint8_t>(low + cpu.Y);
      break;
    case Mode::kAbsoluteX:
      index = cpu.X;
      base |= static_cast<uint32_t>(high) << 8;
      break;
    case Mode::kAbsoluteY:
      index = cpu.Y;
      base |= static_cast<uint32_t>(high) << 8;
      break;
    case Mode::kAbsolute:
      base |= static_cast<uint32_t>(high) << 8;
      break;
    default: {  // kIndirectX, kIndirectY
      const bool before = opcode.mode == Mode::kIndirectX;
      const uint32_t pointer = before ? static_cast<uint8_t>(low + cpu.X) : low;
      operand.plain = pointer >= 0x80 && pointer < 0xff;
      base = ram[pointer & 0x7f] | static_cast<uint32_t>(ram[(pointer + 1) & 0x7f]) << 8;
      index = before ? 0 : cpu.Y;
    }
  }
  if (opcode.mode >= Mode::kAbsolute) operand.before = static_cast<uint8_t>(base >> 8);
  operand.address = static_cast<uint16_t>(base + index);
  operand.page_cycle = opcode.page_cycle && ((base ^ operand.address) & 0xff00) != 0;
  return operand;
}

// Writes to RAM, TIA or RIOT at state.cycles.
SEED_HD SEED_FORCE_INLINE void lockstep_write(Bus& bus, LockstepCpu& state, uint16_t address, uint8_t value) {
  Console& console = bus.console;
  if (is_tia_address(address)) {
    const int reg = address & 0x3f;
    const bool quiet = tia_write_quiet(console.tia, reg, value, state.cycles);
    if (!quiet) state.request = {LockstepCall::kTiaWrite, static_cast<uint8_t>(reg), value};
    if (reg == kWSYNC) state.cycles += cycles_to_line_end(state.cycles);
    state.done = console.tia.frame_done;
  } else if (is_ram_address(address)) {
    console.riot.ram[address & 0x7f] = value;
  } else {
    riot_write(console.riot, address, value, state.cycles);
  }
}

// Executes a branch, a jump, a subroutine call or its end. Returns false, having done nothing, for anything else.
SEED_HD SEED_FORCE_INLINE bool lockstep_jump(Bus& bus, LockstepCpu& state, Opcode opcode, uint8_t low, uint8_t high) {
  Mos6502& cpu = state.registers;
  uint8_t* const ram = bus.console.riot.ram;
  if (opcode.operation < Operation::kBRK) {
    const bool taken = cpu_takes_branch(cpu, opcode.operation);
    const uint16_t next = static_cast<uint16_t>(cpu.PC + 2);
    const uint16_t target = static_cast<uint16_t>(next + static_cast<int8_t>(low));
    state.cycles += opcode.cycles;
    if (taken) state.cycles += ((target ^ next) & 0xff00) ? 2 : 1;
    cpu.PC = taken ? target : next;
    cpu.bus = low;
    return true;
  }
  if (opcode.operation == Operation::kJMP && opcode.mode == Mode::kAbsolute) {
    cpu.PC = static_cast<uint16_t>(low | high << 8);
    cpu.bus = high;
  } else if (opcode.operation == Operation::kJSR && cpu.SP >= 0x81) {
    const uint32_t last_byte = cpu.PC + 2u;
    ram[cpu.SP-- & 0x7f] = static_cast<uint8_t>(last_byte >> 8);
    ram[cpu.SP-- & 0x7f] = static_cast<uint8_t>(last_byte);
    cpu.PC = static_cast<uint16_t>(low | high << 8);
    cpu.bus = high;
  } else if (opcode.operation == Operation::kRTS && cpu.SP >= 0x80 && cpu.SP <= 0xfd) {
    cpu.PC = static_cast<uint16_t>((ram[(cpu.SP + 1) & 0x7f] | ram[(cpu.SP + 2) & 0x7f] << 8) + 1);
    cpu.SP = static_cast<uint8_t>(cpu.SP + 2);
    cpu.bus = ram[cpu.SP & 0x7f];
  } else {
    return false;
  }
  state.cycles += opcode.cycles;
  return true;
}

// Executes a push or pull. Returns false, having done nothing, where the stack is not in RAM or TIA.
SEED_HD SEED_FORCE_INLINE bool lockstep_stack(Bus& bus, LockstepCpu& state, Opcode opcode) {
  Mos6502& cpu = state.registers;
  const uint8_t* const ram = bus.console.riot.ram;
  const bool pulls = opcode.operation >= Operation::kPLA;
  if (pulls && (cpu.SP < 0x80 || cpu.SP > 0xfe)) return false;
  cpu.PC = static_cast<uint16_t>(cpu.PC + 1);
  state.cycles += opcode.cycles;
  if (opcode.operation == Operation::kPLA) {
    cpu_load(cpu, cpu.A, ram[++cpu.SP & 0x7f]);
  } else if (opcode.operation == Operation::kPLP) {
    cpu_set_status(cpu, ram[++cpu.SP & 0x7f]);
  } else {
    const uint16_t address = static_cast<uint16_t>(0x100 + cpu.SP--);
    lockstep_write(bus, state, address, opcode.operation == Operation::kPHA ? cpu.A : cpu_status(cpu));
  }
  return true;
}

// Executes an instruction with an operand in memory. Returns false, having done nothing, where that is not plain.
SEED_HD SEED_FORCE_INLINE bool lockstep_access(Bus& bus, LockstepCpu& state, Opcode opcode, uint8_t low, uint8_t high) {
  Console& console = bus.console;
  Mos6502& cpu = state.registers;
  const LockstepOperand operand = lockstep_operand(cpu, console.riot.ram, opcode, low, high);
  const uint16_t address = operand.address;
  const bool in_ram = is_ram_address(address);
  const bool reads = opcode.operation < Operation::kSTA;
  const bool writes = !reads && opcode.operation < Operation::kASL;
  // Of the TIA's registers, reading collisions draws.
  const bool draws = reads && is_tia_address(address) && (address & 15) < 8;
  const bool plain =
      (address & 0x1000) ? reads && lockstep_is_rom(state, address, 1) : in_ram || writes || (reads && !draws);
  if (!plain || !operand.plain) return false;
  const int32_t before = state.cycles;
  state.cycles += opcode.cycles + operand.page_cycle;
  if (writes) {
    lockstep_write(bus, state, address, cpu_write_operation(cpu, opcode.operation, address));
  } else if (!reads) {
    uint8_t& byte = console.riot.ram[address & 0x7f];
    byte = cpu_modify_operation(cpu, opcode.operation, byte);
  } else {
    uint8_t m;
    if (address & 0x1000) {
      m = lockstep_rom_byte(state, bus.rom, address);
    } else if (in_ram) {
      m = console.riot.ram[address & 0x7f];
    } else if (is_tia_address(address)) {
      m = tia_read_port(console.tia, bus.inputs, address & 15, operand.before, state.cycles, console.carry_cycles);
    } else {
#if SEED_SKIP_WAITING_LOOPS
      const bool polls = opcode.operation == Operation::kLDA && opcode.mode == Mode::kAbsolute && (address & 5) == 4 &&
                         lockstep_is_rom(state, cpu.PC, 5) && ((cpu.PC ^ (cpu.PC + 5)) & 0xff00) == 0 &&
                         lockstep_rom_byte(state, bus.rom, cpu.PC + 3u) == 0xd0 &&
                         lockstep_rom_byte(state, bus.rom, cpu.PC + 4u) == 0xfb;
      if (polls) lockstep_wait(state, timer_poll_rounds(console.riot, before + 4), 7);
#endif
      m = riot_read(console.riot, bus.inputs, address, state.cycles);
    }
    cpu_read_operation(cpu, opcode.operation, m);
  }
  cpu.PC = static_cast<uint16_t>(cpu.PC + instruction_length(opcode.mode));
  return true;
}

// Executes the instruction at PC. Returns false, having done nothing, for what cpu_step must do.
SEED_HD SEED_FORCE_INLINE bool lockstep_execute(Bus& bus, LockstepCpu& state) {
  Mos6502& cpu = state.registers;
  // Four bytes: with an instruction that ends the ROM the program may run out of it, and cpu_step knows what is on the
  // bus then.
  if (!lockstep_is_rom(state, cpu.PC, 4)) return false;
  const Opcode opcode = opcode_of(lockstep_rom_byte(state, bus.rom, cpu.PC));
  const uint8_t low = lockstep_rom_byte(state, bus.rom, cpu.PC + 1u);
  const uint8_t high = lockstep_rom_byte(state, bus.rom, cpu.PC + 2u);
  if (opcode.operation >= Operation::kPHA && opcode.operation <= Operation::kPLP) {
    return lockstep_stack(bus, state, opcode);
  }
  if (opcode.operation >= Operation::kBCC) return lockstep_jump(bus, state, opcode, low, high);
  if (opcode.mode > Mode::kImmediate) return lockstep_access(bus, state, opcode, low, high);
#if SEED_SKIP_WAITING_LOOPS
  const bool counts_x = opcode.operation == Operation::kDEX, counts_y = opcode.operation == Operation::kDEY;
  if ((counts_x || counts_y) && low == 0xd0 && high == 0xfd && ((cpu.PC ^ (cpu.PC + 3)) & 0xff00) == 0) {
    // All rounds but the last, whose BNE is not taken.
    const uint8_t from = counts_x ? cpu.X : cpu.Y;
    const bool waited = lockstep_wait(state, from == 0 ? 255 : from - 1, 5);
    if (waited && counts_x) cpu.X = 1;
    if (waited && counts_y) cpu.Y = 1;
  }
#endif
  state.cycles += opcode.cycles;
  if (opcode.mode == Mode::kImmediate) {
    cpu_read_operation(cpu, opcode.operation, low);
  } else if (opcode.mode == Mode::kAccumulator) {
    cpu.A = cpu_modify_operation(cpu, opcode.operation, cpu.A);
  } else {
    cpu_register_operation(cpu, opcode.operation);
  }
  cpu.PC = static_cast<uint16_t>(cpu.PC + instruction_length(opcode.mode));
  return true;
}

// Executes instructions until `line_end`, the end of the frame, the instruction limit, or a request.
SEED_HD SEED_NO_INLINE LockstepRequest lockstep_round(Bus& bus, int32_t line_end, int32_t& num_instructions) {
  Console& console = bus.console;
  LockstepCpu state;
  state.num_instructions = num_instructions;
  lockstep_load(state, bus);
  while (state.cycles < line_end && !state.done && state.request.call == LockstepCall::kNone &&
         state.num_instructions < kMaxInstructionsPerFrame) {
    if (!lockstep_execute(bus, state)) state.request.call = LockstepCall::kStep;
    ++state.num_instructions;
  }
  console.cpu = state.registers;
  console.cycles = state.cycles;
  num_instructions = state.num_instructions;
  return state.request;
}

SEED_HD SEED_NO_INLINE void lockstep_serve(Bus& bus, LockstepRequest request) {
  Console& console = bus.console;
  if (request.call == LockstepCall::kStep) {
    cpu_step(bus);
  } else {
    tia_change_any_register(console.tia, bus.display, bus.pixels, request.reg, request.value, console.cycles);
  }
}

// Whether a lane that is here at the same time says so.
SEED_HD SEED_FORCE_INLINE bool lockstep_any(bool value) {
#if defined(__CUDA_ARCH__)
  return __any_sync(__activemask(), value);
#else
  return value;
#endif
}

// Runs the CPU until the frame ends or the instruction limit is reached.
SEED_HD inline void cpu_run_lockstep(Bus& bus) {
  Console& console = bus.console;
  int32_t num_instructions = 0;
  int32_t line_end = console.cycles + kCyclesPerLine;
  bool done = console.cpu.frozen;
  while (!done) {
    const LockstepRequest request = lockstep_round(bus, line_end, num_instructions);
    if (request.call != LockstepCall::kNone) lockstep_serve(bus, request);
    done = console.tia.frame_done || console.cpu.frozen || num_instructions >= kMaxInstructionsPerFrame;
    if (!lockstep_any(!done && console.cycles < line_end)) line_end += kCyclesPerLine;
  }
}

}  // namespace seed
