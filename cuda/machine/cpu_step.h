// SPDX-License-Identifier: Apache-2.0
// One instruction at a time, straight from the bus: the reference interpreter, and the fallback of cpu_run.h.
//
// Timing: the opcode is fetched at the instruction's first cycle. Then all its cycles are charged, so every further
// access happens at the cycle after the instruction's last. There are no dummy accesses but the stack read that comes
// before pulls and JSR.
#pragma once

#include "machine/bus.h"

namespace seed {

SEED_HD inline uint8_t cpu_fetch(Bus& bus) { return bus_read(bus, bus.console.cpu.PC++); }

SEED_HD inline uint16_t cpu_fetch_word(Bus& bus) {
  const uint8_t low = cpu_fetch(bus);
  return static_cast<uint16_t>(low | cpu_fetch(bus) << 8);
}

SEED_HD inline void cpu_push(Bus& bus, uint8_t value, bool after_write = false) {
  bus_write(bus, static_cast<uint16_t>(0x100 + bus.console.cpu.SP--), value, after_write);
}

SEED_HD inline uint8_t cpu_pull(Bus& bus) { return bus_read(bus, static_cast<uint16_t>(0x100 + ++bus.console.cpu.SP)); }

SEED_HD inline void cpu_read_stack(Bus& bus) { bus_read(bus, static_cast<uint16_t>(0x100 + bus.console.cpu.SP)); }

SEED_HD inline uint16_t cpu_pull_word(Bus& bus) {
  const uint8_t low = cpu_pull(bus);
  return static_cast<uint16_t>(low | cpu_pull(bus) << 8);
}

// Reads the word at `address`, whose high byte comes from `high_address`.
SEED_HD inline uint16_t cpu_read_pointer(Bus& bus, uint16_t address, uint16_t high_address) {
  const uint8_t low = bus_read(bus, address);
  return static_cast<uint16_t>(low | bus_read(bus, high_address) << 8);
}

SEED_HD inline uint16_t cpu_index(Bus& bus, uint16_t base, uint8_t index, bool page_cycle) {
  const uint16_t address = static_cast<uint16_t>(base + index);
  if (page_cycle && ((base ^ address) & 0xff00)) bus.console.cycles += 1;
  return address;
}

// Fetches the operand and returns the address it denotes; kImmediate denotes the operand byte itself.
SEED_HD inline uint16_t cpu_operand_address(Bus& bus, Opcode opcode) {
  const Mos6502& cpu = bus.console.cpu;
  switch (opcode.mode) {
    case Mode::kImmediate:
      return bus.console.cpu.PC++;
    case Mode::kZeroPage:
      return cpu_fetch(bus);
    case Mode::kZeroPageX:
      return static_cast<uint8_t>(cpu_fetch(bus) + cpu.X);
    case Mode::kZeroPageY:
      return static_cast<uint8_t>(cpu_fetch(bus) + cpu.Y);
    case Mode::kAbsolute:
      return cpu_fetch_word(bus);
    case Mode::kAbsoluteX:
      return cpu_index(bus, cpu_fetch_word(bus), cpu.X, opcode.page_cycle);
    case Mode::kAbsoluteY:
      return cpu_index(bus, cpu_fetch_word(bus), cpu.Y, opcode.page_cycle);
    case Mode::kIndirect: {
      const uint16_t pointer = cpu_fetch_word(bus);
      return cpu_read_pointer(bus, pointer, static_cast<uint16_t>((pointer & 0xff00) | ((pointer + 1) & 0xff)));
    }
    case Mode::kIndirectX: {
      const uint8_t pointer = static_cast<uint8_t>(cpu_fetch(bus) + cpu.X);
      return cpu_read_pointer(bus, pointer, static_cast<uint16_t>(pointer + 1));
    }
    case Mode::kIndirectY: {
      const uint8_t pointer = cpu_fetch(bus);
      return cpu_index(bus, cpu_read_pointer(bus, pointer, static_cast<uint16_t>(pointer + 1)), cpu.Y,
                       opcode.page_cycle);
    }
    default:
      return 0;
  }
}

SEED_HD SEED_FORCE_INLINE void cpu_load(Mos6502& cpu, uint8_t& reg, uint8_t value) {
  reg = value;
  cpu.nz = value;
}

SEED_HD inline void cpu_branch(Bus& bus, bool taken) {
  Mos6502& cpu = bus.console.cpu;
  const int8_t offset = static_cast<int8_t>(cpu_fetch(bus));
  if (!taken) return;
  const uint16_t target = static_cast<uint16_t>(cpu.PC + offset);
  bus.console.cycles += ((target ^ cpu.PC) & 0xff00) ? 2 : 1;
  cpu.PC = target;
}

// The operations that read their operand.
SEED_HD SEED_FORCE_INLINE void cpu_read_operation(Mos6502& cpu, Operation operation, uint8_t m) {
  switch (operation) {
    case Operation::kADC:
      cpu_adc(cpu, m);
      break;
    case Operation::kAND:
      cpu_load(cpu, cpu.A, cpu.A & m);
      break;
    case Operation::kBIT:
      cpu_bit(cpu, m);
      break;
    case Operation::kCMP:
      cpu_compare(cpu, cpu.A, m);
      break;
    case Operation::kCPX:
      cpu_compare(cpu, cpu.X, m);
      break;
    case Operation::kCPY:
      cpu_compare(cpu, cpu.Y, m);
      break;
    case Operation::kEOR:
      cpu_load(cpu, cpu.A, cpu.A ^ m);
      break;
    case Operation::kLDA:
      cpu_load(cpu, cpu.A, m);
      break;
    case Operation::kLDX:
      cpu_load(cpu, cpu.X, m);
      break;
    case Operation::kLDY:
      cpu_load(cpu, cpu.Y, m);
      break;
    case Operation::kORA:
      cpu_load(cpu, cpu.A, cpu.A | m);
      break;
    case Operation::kSBC:
      cpu_sbc(cpu, m);
      break;
    case Operation::kANC:
      cpu_load(cpu, cpu.A, cpu.A & m);
      cpu.C = cpu.A >> 7;
      break;
    case Operation::kANE:
      cpu_load(cpu, cpu.A, (cpu.A | 0xee) & cpu.X & m);
      break;
    case Operation::kARR:
      cpu_arr(cpu, m);
      break;
    case Operation::kASR:
      cpu.A = cpu_lsr(cpu, cpu.A & m);
      break;
    case Operation::kLAS:
      cpu_load(cpu, cpu.A, cpu.SP & m);
      cpu.X = cpu.SP = cpu.A;
      break;
    case Operation::kLAX:
      cpu_load(cpu, cpu.A, m);
      cpu.X = m;
      break;
    case Operation::kLXA:
      cpu_load(cpu, cpu.A, (cpu.A | 0xee) & m);
      cpu.X = cpu.A;
      break;
    case Operation::kSBX:
      cpu_sbx(cpu, m);
      break;
    default:
      break;  // NOP
  }
}

// The operations that store; returns the byte for `address`.
SEED_HD SEED_FORCE_INLINE uint8_t cpu_write_operation(Mos6502& cpu, Operation operation, uint16_t address) {
  const int high = (address >> 8) + 1;
  switch (operation) {
    case Operation::kSTX:
      return cpu.X;
    case Operation::kSTY:
      return cpu.Y;
    case Operation::kSAX:
      return cpu.A & cpu.X;
    case Operation::kSHA:
      return static_cast<uint8_t>(cpu.A & cpu.X & high);
    case Operation::kSHS:
      cpu.SP = cpu.A & cpu.X;
      return static_cast<uint8_t>(cpu.SP & high);
    case Operation::kSHX:
      return static_cast<uint8_t>(cpu.X & high);
    case Operation::kSHY:
      return static_cast<uint8_t>(cpu.Y & high);
    default:
      return cpu.A;  // STA
  }
}

// The operations that change their operand; returns its new value.
SEED_HD SEED_FORCE_INLINE uint8_t cpu_modify_operation(Mos6502& cpu, Operation operation, uint8_t m) {
  switch (operation) {
    case Operation::kASL:
      return cpu_asl(cpu, m);
    case Operation::kLSR:
      return cpu_lsr(cpu, m);
    case Operation::kROL:
      return cpu_rol(cpu, m);
    case Operation::kROR:
      return cpu_ror(cpu, m);
    case Operation::kDEC:
      cpu.nz = static_cast<uint8_t>(m - 1);
      return static_cast<uint8_t>(cpu.nz);
    case Operation::kINC:
      cpu.nz = static_cast<uint8_t>(m + 1);
      return static_cast<uint8_t>(cpu.nz);
    case Operation::kDCP:
      m = static_cast<uint8_t>(m - 1);
      cpu_compare(cpu, cpu.A, m);
      return m;
    case Operation::kISB:
      m = static_cast<uint8_t>(m + 1);
      cpu_sbc(cpu, m);
      return m;
    case Operation::kRLA:
      m = cpu_rol(cpu, m);
      cpu_load(cpu, cpu.A, cpu.A & m);
      return m;
    case Operation::kRRA:
      m = cpu_ror(cpu, m);
      cpu_adc(cpu, m);
      return m;
    case Operation::kSLO:
      m = cpu_asl(cpu, m);
      cpu_load(cpu, cpu.A, cpu.A | m);
      return m;
    case Operation::kSRE:
      m = cpu_lsr(cpu, m);
      cpu_load(cpu, cpu.A, cpu.A ^ m);
      return m;
    default:
      return m;
  }
}

// The operations on registers and flags alone.
SEED_HD SEED_FORCE_INLINE void cpu_register_operation(Mos6502& cpu, Operation operation) {
  switch (operation) {
    case Operation::kCLC:
      cpu.C = 0;
      break;
    case Operation::kCLD:
      cpu.D = 0;
      break;
    case Operation::kCLI:
      cpu.I = 0;
      break;
    case Operation::kCLV:
      cpu.V = 0;
      break;
    case Operation::kSEC:
      cpu.C = 1;
      break;
    case Operation::kSED:
      cpu.D = 1;
      break;
    case Operation::kSEI:
      cpu.I = 1;
      break;
    case Operation::kDEX:
      cpu_load(cpu, cpu.X, cpu.X - 1);
      break;
    case Operation::kDEY:
      cpu_load(cpu, cpu.Y, cpu.Y - 1);
      break;
    case Operation::kINX:
      cpu_load(cpu, cpu.X, cpu.X + 1);
      break;
    case Operation::kINY:
      cpu_load(cpu, cpu.Y, cpu.Y + 1);
      break;
    case Operation::kTAX:
      cpu_load(cpu, cpu.X, cpu.A);
      break;
    case Operation::kTAY:
      cpu_load(cpu, cpu.Y, cpu.A);
      break;
    case Operation::kTSX:
      cpu_load(cpu, cpu.X, cpu.SP);
      break;
    case Operation::kTXA:
      cpu_load(cpu, cpu.A, cpu.X);
      break;
    case Operation::kTXS:
      cpu.SP = cpu.X;
      break;
    case Operation::kTYA:
      cpu_load(cpu, cpu.A, cpu.Y);
      break;
    default:
      break;  // NOP
  }
}

// Whether a branch is taken.
SEED_HD SEED_FORCE_INLINE bool cpu_takes_branch(const Mos6502& cpu, Operation operation) {
  switch (operation) {
    case Operation::kBCC:
      return !cpu.C;
    case Operation::kBCS:
      return cpu.C;
    case Operation::kBEQ:
      return cpu_zero(cpu);
    case Operation::kBNE:
      return !cpu_zero(cpu);
    case Operation::kBMI:
      return cpu_negative(cpu);
    case Operation::kBPL:
      return !cpu_negative(cpu);
    case Operation::kBVC:
      return !cpu.V;
    default:
      return cpu.V;  // BVS
  }
}

// Control flow and the stack.
SEED_HD inline void cpu_control_operation(Bus& bus, Opcode opcode) {
  Mos6502& cpu = bus.console.cpu;
  switch (opcode.operation) {
    case Operation::kJMP:
      cpu.PC = cpu_operand_address(bus, opcode);
      break;
    case Operation::kJSR: {
      const uint8_t low = cpu_fetch(bus);
      cpu_read_stack(bus);
      cpu_push(bus, static_cast<uint8_t>(cpu.PC >> 8));
      cpu_push(bus, static_cast<uint8_t>(cpu.PC), true);
      cpu.PC = static_cast<uint16_t>(low | cpu_fetch(bus) << 8);
      break;
    }
    case Operation::kRTS:
      cpu_read_stack(bus);
      cpu.PC = static_cast<uint16_t>(cpu_pull_word(bus) + 1);
      break;
    case Operation::kRTI:
      cpu_read_stack(bus);
      cpu_set_status(cpu, cpu_pull(bus));
      cpu.PC = cpu_pull_word(bus);
      break;
    case Operation::kBRK:
      cpu_fetch(bus);
      cpu_push(bus, static_cast<uint8_t>(cpu.PC >> 8));
      cpu_push(bus, static_cast<uint8_t>(cpu.PC), true);
      cpu_push(bus, cpu_status(cpu), true);
      cpu.I = 1;
      cpu.PC = cpu_read_pointer(bus, 0xfffe, 0xffff);
      break;
    case Operation::kPHA:
      cpu_push(bus, cpu.A);
      break;
    case Operation::kPHP:
      cpu_push(bus, cpu_status(cpu));
      break;
    case Operation::kPLA:
      cpu_read_stack(bus);
      cpu_load(cpu, cpu.A, cpu_pull(bus));
      break;
    case Operation::kPLP:
      cpu_read_stack(bus);
      cpu_set_status(cpu, cpu_pull(bus));
      break;
    case Operation::kKIL:
      cpu.frozen = true;
      break;
    default:
      cpu_branch(bus, cpu_takes_branch(cpu, opcode.operation));
  }
}

// Executes the instruction at PC.
SEED_HD inline void cpu_step(Bus& bus) {
  Mos6502& cpu = bus.console.cpu;
  const Opcode opcode = opcode_of(cpu_fetch(bus));
  bus.console.cycles += opcode.cycles;
  if (opcode.operation >= Operation::kBCC) {
    cpu_control_operation(bus, opcode);
  } else if (opcode.mode == Mode::kImplied) {
    cpu_register_operation(cpu, opcode.operation);
  } else if (opcode.mode == Mode::kAccumulator) {
    cpu.A = cpu_modify_operation(cpu, opcode.operation, cpu.A);
  } else {
    const uint16_t address = cpu_operand_address(bus, opcode);
    if (opcode.operation < Operation::kSTA) {
      cpu_read_operation(cpu, opcode.operation, bus_read(bus, address));
    } else if (opcode.operation < Operation::kASL) {
      bus_write(bus, address, cpu_write_operation(cpu, opcode.operation, address));
    } else {
      bus_write(bus, address, cpu_modify_operation(cpu, opcode.operation, bus_read(bus, address)));
    }
  }
}

}  // namespace seed
