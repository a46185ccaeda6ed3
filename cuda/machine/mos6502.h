// SPDX-License-Identifier: Apache-2.0
// MOS 6502 (6507): registers, instruction table and arithmetic, undocumented instructions included.
//
// Nothing here touches the bus: cpu_step.h and cpu_run.h drive these functions with what they read.
// Flags are kept as the values they are computed from; most are never looked at.
#pragma once

#include <cstdint>

#include "portability.h"

namespace seed {

struct Mos6502 {
  uint16_t PC;
  uint8_t A, X, Y, SP;
  uint16_t nz;   // Z: low byte is 0. N: bit 7 or bit 8 is set (bit 8 only after BIT, PLP and RTI)
  uint8_t C;     // 0 or 1
  uint8_t V;     // bit 7
  uint8_t D, I;  // 0 or 1
  uint8_t bus;   // last byte on the data bus: the undriven bits of a TIA read
  bool frozen;   // executed a KIL opcode; only a reset helps
};

enum class Operation : uint8_t {
  // clang-format off
  // Read a value
  kADC, kAND, kBIT, kCMP, kCPX, kCPY, kEOR, kLDA, kLDX, kLDY, kORA, kSBC, kNOP,
  kANC, kANE, kARR, kASR, kLAS, kLAX, kLXA, kSBX,
  // Write a value
  kSTA, kSTX, kSTY, kSAX, kSHA, kSHS, kSHX, kSHY,
  // Read, modify, write
  kASL, kDEC, kINC, kLSR, kROL, kROR, kDCP, kISB, kRLA, kRRA, kSLO, kSRE,
  // Registers and flags
  kCLC, kCLD, kCLI, kCLV, kDEX, kDEY, kINX, kINY, kSEC, kSED, kSEI, kTAX, kTAY, kTSX, kTXA, kTXS, kTYA,
  // Control
  kBCC, kBCS, kBEQ, kBMI, kBNE, kBPL, kBVC, kBVS, kBRK, kJMP, kJSR, kRTI, kRTS, kPHA, kPHP, kPLA, kPLP, kKIL,
  // clang-format on
};

enum class Mode : uint8_t {
  kImplied,
  kAccumulator,
  kImmediate,
  kZeroPage,
  kZeroPageX,
  kZeroPageY,
  kAbsolute,
  kAbsoluteX,
  kAbsoluteY,
  kIndirect,
  kIndirectX,
  kIndirectY,
  kRelative,
};

struct Opcode {
  Operation operation;
  Mode mode;
  uint8_t cycles;
  bool page_cycle;  // one more when indexing leaves the page
};

// The meaning of an opcode. Source: the usual 6502 tables; A7 takes the 4 cycles that ale-py gives it.
SEED_HD inline Opcode opcode_of(uint8_t opcode) {
  using O = Operation;
  using M = Mode;
  constexpr bool kPage = true;
  // clang-format off
  static constexpr Opcode kOpcodes[256] = {
    // x0 to x7, then x8 to xF
    {O::kBRK, M::kImplied, 7, false},   {O::kORA, M::kIndirectX, 6, false}, {O::kKIL, M::kImplied, 2, false},   {O::kSLO, M::kIndirectX, 8, false},
    {O::kNOP, M::kZeroPage, 3, false},  {O::kORA, M::kZeroPage, 3, false},  {O::kASL, M::kZeroPage, 5, false},  {O::kSLO, M::kZeroPage, 5, false},
    {O::kPHP, M::kImplied, 3, false},   {O::kORA, M::kImmediate, 2, false}, {O::kASL, M::kAccumulator, 2, false}, {O::kANC, M::kImmediate, 2, false},
    {O::kNOP, M::kAbsolute, 4, false},  {O::kORA, M::kAbsolute, 4, false},  {O::kASL, M::kAbsolute, 6, false},  {O::kSLO, M::kAbsolute, 6, false},
    // 10
    {O::kBPL, M::kRelative, 2, false},  {O::kORA, M::kIndirectY, 5, kPage}, {O::kKIL, M::kImplied, 2, false},   {O::kSLO, M::kIndirectY, 8, false},
    {O::kNOP, M::kZeroPageX, 4, false}, {O::kORA, M::kZeroPageX, 4, false}, {O::kASL, M::kZeroPageX, 6, false}, {O::kSLO, M::kZeroPageX, 6, false},
    {O::kCLC, M::kImplied, 2, false},   {O::kORA, M::kAbsoluteY, 4, kPage}, {O::kNOP, M::kImplied, 2, false},   {O::kSLO, M::kAbsoluteY, 7, false},
    {O::kNOP, M::kAbsoluteX, 4, kPage}, {O::kORA, M::kAbsoluteX, 4, kPage}, {O::kASL, M::kAbsoluteX, 7, false}, {O::kSLO, M::kAbsoluteX, 7, false},
    // 20
    {O::kJSR, M::kAbsolute, 6, false},  {O::kAND, M::kIndirectX, 6, false}, {O::kKIL, M::kImplied, 2, false},   {O::kRLA, M::kIndirectX, 8, false},
    {O::kBIT, M::kZeroPage, 3, false},  {O::kAND, M::kZeroPage, 3, false},  {O::kROL, M::kZeroPage, 5, false},  {O::kRLA, M::kZeroPage, 5, false},
    {O::kPLP, M::kImplied, 4, false},   {O::kAND, M::kImmediate, 2, false}, {O::kROL, M::kAccumulator, 2, false}, {O::kANC, M::kImmediate, 2, false},
    {O::kBIT, M::kAbsolute, 4, false},  {O::kAND, M::kAbsolute, 4, false},  {O::kROL, M::kAbsolute, 6, false},  {O::kRLA, M::kAbsolute, 6, false},
    // 30
    {O::kBMI, M::kRelative, 2, false},  {O::kAND, M::kIndirectY, 5, kPage}, {O::kKIL, M::kImplied, 2, false},   {O::kRLA, M::kIndirectY, 8, false},
    {O::kNOP, M::kZeroPageX, 4, false}, {O::kAND, M::kZeroPageX, 4, false}, {O::kROL, M::kZeroPageX, 6, false}, {O::kRLA, M::kZeroPageX, 6, false},
    {O::kSEC, M::kImplied, 2, false},   {O::kAND, M::kAbsoluteY, 4, kPage}, {O::kNOP, M::kImplied, 2, false},   {O::kRLA, M::kAbsoluteY, 7, false},
    {O::kNOP, M::kAbsoluteX, 4, kPage}, {O::kAND, M::kAbsoluteX, 4, kPage}, {O::kROL, M::kAbsoluteX, 7, false}, {O::kRLA, M::kAbsoluteX, 7, false},
    // 40
    {O::kRTI, M::kImplied, 6, false},   {O::kEOR, M::kIndirectX, 6, false}, {O::kKIL, M::kImplied, 2, false},   {O::kSRE, M::kIndirectX, 8, false},
    {O::kNOP, M::kZeroPage, 3, false},  {O::kEOR, M::kZeroPage, 3, false},  {O::kLSR, M::kZeroPage, 5, false},  {O::kSRE, M::kZeroPage, 5, false},
    {O::kPHA, M::kImplied, 3, false},   {O::kEOR, M::kImmediate, 2, false}, {O::kLSR, M::kAccumulator, 2, false}, {O::kASR, M::kImmediate, 2, false},
    {O::kJMP, M::kAbsolute, 3, false},  {O::kEOR, M::kAbsolute, 4, false},  {O::kLSR, M::kAbsolute, 6, false},  {O::kSRE, M::kAbsolute, 6, false},
    // 50
    {O::kBVC, M::kRelative, 2, false},  {O::kEOR, M::kIndirectY, 5, kPage}, {O::kKIL, M::kImplied, 2, false},   {O::kSRE, M::kIndirectY, 8, false},
    {O::kNOP, M::kZeroPageX, 4, false}, {O::kEOR, M::kZeroPageX, 4, false}, {O::kLSR, M::kZeroPageX, 6, false}, {O::kSRE, M::kZeroPageX, 6, false},
    {O::kCLI, M::kImplied, 2, false},   {O::kEOR, M::kAbsoluteY, 4, kPage}, {O::kNOP, M::kImplied, 2, false},   {O::kSRE, M::kAbsoluteY, 7, false},
    {O::kNOP, M::kAbsoluteX, 4, kPage}, {O::kEOR, M::kAbsoluteX, 4, kPage}, {O::kLSR, M::kAbsoluteX, 7, false}, {O::kSRE, M::kAbsoluteX, 7, false},
    // 60
    {O::kRTS, M::kImplied, 6, false},   {O::kADC, M::kIndirectX, 6, false}, {O::kKIL, M::kImplied, 2, false},   {O::kRRA, M::kIndirectX, 8, false},
    {O::kNOP, M::kZeroPage, 3, false},  {O::kADC, M::kZeroPage, 3, false},  {O::kROR, M::kZeroPage, 5, false},  {O::kRRA, M::kZeroPage, 5, false},
    {O::kPLA, M::kImplied, 4, false},   {O::kADC, M::kImmediate, 2, false}, {O::kROR, M::kAccumulator, 2, false}, {O::kARR, M::kImmediate, 2, false},
    {O::kJMP, M::kIndirect, 5, false},  {O::kADC, M::kAbsolute, 4, false},  {O::kROR, M::kAbsolute, 6, false},  {O::kRRA, M::kAbsolute, 6, false},
    // 70
    {O::kBVS, M::kRelative, 2, false},  {O::kADC, M::kIndirectY, 5, kPage}, {O::kKIL, M::kImplied, 2, false},   {O::kRRA, M::kIndirectY, 8, false},
    {O::kNOP, M::kZeroPageX, 4, false}, {O::kADC, M::kZeroPageX, 4, false}, {O::kROR, M::kZeroPageX, 6, false}, {O::kRRA, M::kZeroPageX, 6, false},
    {O::kSEI, M::kImplied, 2, false},   {O::kADC, M::kAbsoluteY, 4, kPage}, {O::kNOP, M::kImplied, 2, false},   {O::kRRA, M::kAbsoluteY, 7, false},
    {O::kNOP, M::kAbsoluteX, 4, kPage}, {O::kADC, M::kAbsoluteX, 4, kPage}, {O::kROR, M::kAbsoluteX, 7, false}, {O::kRRA, M::kAbsoluteX, 7, false},
    // 80
    {O::kNOP, M::kImmediate, 2, false}, {O::kSTA, M::kIndirectX, 6, false}, {O::kNOP, M::kImmediate, 2, false}, {O::kSAX, M::kIndirectX, 6, false},
    {O::kSTY, M::kZeroPage, 3, false},  {O::kSTA, M::kZeroPage, 3, false},  {O::kSTX, M::kZeroPage, 3, false},  {O::kSAX, M::kZeroPage, 3, false},
    {O::kDEY, M::kImplied, 2, false},   {O::kNOP, M::kImmediate, 2, false}, {O::kTXA, M::kImplied, 2, false},   {O::kANE, M::kImmediate, 2, false},
    {O::kSTY, M::kAbsolute, 4, false},  {O::kSTA, M::kAbsolute, 4, false},  {O::kSTX, M::kAbsolute, 4, false},  {O::kSAX, M::kAbsolute, 4, false},
    // 90
    {O::kBCC, M::kRelative, 2, false},  {O::kSTA, M::kIndirectY, 6, false}, {O::kKIL, M::kImplied, 2, false},   {O::kSHA, M::kIndirectY, 6, false},
    {O::kSTY, M::kZeroPageX, 4, false}, {O::kSTA, M::kZeroPageX, 4, false}, {O::kSTX, M::kZeroPageY, 4, false}, {O::kSAX, M::kZeroPageY, 4, false},
    {O::kTYA, M::kImplied, 2, false},   {O::kSTA, M::kAbsoluteY, 5, false}, {O::kTXS, M::kImplied, 2, false},   {O::kSHS, M::kAbsoluteY, 5, false},
    {O::kSHY, M::kAbsoluteX, 5, false}, {O::kSTA, M::kAbsoluteX, 5, false}, {O::kSHX, M::kAbsoluteY, 5, false}, {O::kSHA, M::kAbsoluteY, 5, false},
    // A0
    {O::kLDY, M::kImmediate, 2, false}, {O::kLDA, M::kIndirectX, 6, false}, {O::kLDX, M::kImmediate, 2, false}, {O::kLAX, M::kIndirectX, 6, false},
    {O::kLDY, M::kZeroPage, 3, false},  {O::kLDA, M::kZeroPage, 3, false},  {O::kLDX, M::kZeroPage, 3, false},  {O::kLAX, M::kZeroPage, 4, false},
    {O::kTAY, M::kImplied, 2, false},   {O::kLDA, M::kImmediate, 2, false}, {O::kTAX, M::kImplied, 2, false},   {O::kLXA, M::kImmediate, 2, false},
    {O::kLDY, M::kAbsolute, 4, false},  {O::kLDA, M::kAbsolute, 4, false},  {O::kLDX, M::kAbsolute, 4, false},  {O::kLAX, M::kAbsolute, 4, false},
    // B0
    {O::kBCS, M::kRelative, 2, false},  {O::kLDA, M::kIndirectY, 5, kPage}, {O::kKIL, M::kImplied, 2, false},   {O::kLAX, M::kIndirectY, 5, kPage},
    {O::kLDY, M::kZeroPageX, 4, false}, {O::kLDA, M::kZeroPageX, 4, false}, {O::kLDX, M::kZeroPageY, 4, false}, {O::kLAX, M::kZeroPageY, 4, false},
    {O::kCLV, M::kImplied, 2, false},   {O::kLDA, M::kAbsoluteY, 4, kPage}, {O::kTSX, M::kImplied, 2, false},   {O::kLAS, M::kAbsoluteY, 4, kPage},
    {O::kLDY, M::kAbsoluteX, 4, kPage}, {O::kLDA, M::kAbsoluteX, 4, kPage}, {O::kLDX, M::kAbsoluteY, 4, kPage}, {O::kLAX, M::kAbsoluteY, 4, kPage},
    // C0
    {O::kCPY, M::kImmediate, 2, false}, {O::kCMP, M::kIndirectX, 6, false}, {O::kNOP, M::kImmediate, 2, false}, {O::kDCP, M::kIndirectX, 8, false},
    {O::kCPY, M::kZeroPage, 3, false},  {O::kCMP, M::kZeroPage, 3, false},  {O::kDEC, M::kZeroPage, 5, false},  {O::kDCP, M::kZeroPage, 5, false},
    {O::kINY, M::kImplied, 2, false},   {O::kCMP, M::kImmediate, 2, false}, {O::kDEX, M::kImplied, 2, false},   {O::kSBX, M::kImmediate, 2, false},
    {O::kCPY, M::kAbsolute, 4, false},  {O::kCMP, M::kAbsolute, 4, false},  {O::kDEC, M::kAbsolute, 6, false},  {O::kDCP, M::kAbsolute, 6, false},
    // D0
    {O::kBNE, M::kRelative, 2, false},  {O::kCMP, M::kIndirectY, 5, kPage}, {O::kKIL, M::kImplied, 2, false},   {O::kDCP, M::kIndirectY, 8, false},
    {O::kNOP, M::kZeroPageX, 4, false}, {O::kCMP, M::kZeroPageX, 4, false}, {O::kDEC, M::kZeroPageX, 6, false}, {O::kDCP, M::kZeroPageX, 6, false},
    {O::kCLD, M::kImplied, 2, false},   {O::kCMP, M::kAbsoluteY, 4, kPage}, {O::kNOP, M::kImplied, 2, false},   {O::kDCP, M::kAbsoluteY, 7, false},
    {O::kNOP, M::kAbsoluteX, 4, kPage}, {O::kCMP, M::kAbsoluteX, 4, kPage}, {O::kDEC, M::kAbsoluteX, 7, false}, {O::kDCP, M::kAbsoluteX, 7, false},
    // E0
    {O::kCPX, M::kImmediate, 2, false}, {O::kSBC, M::kIndirectX, 6, false}, {O::kNOP, M::kImmediate, 2, false}, {O::kISB, M::kIndirectX, 8, false},
    {O::kCPX, M::kZeroPage, 3, false},  {O::kSBC, M::kZeroPage, 3, false},  {O::kINC, M::kZeroPage, 5, false},  {O::kISB, M::kZeroPage, 5, false},
    {O::kINX, M::kImplied, 2, false},   {O::kSBC, M::kImmediate, 2, false}, {O::kNOP, M::kImplied, 2, false},   {O::kSBC, M::kImmediate, 2, false},
    {O::kCPX, M::kAbsolute, 4, false},  {O::kSBC, M::kAbsolute, 4, false},  {O::kINC, M::kAbsolute, 6, false},  {O::kISB, M::kAbsolute, 6, false},
    // F0
    {O::kBEQ, M::kRelative, 2, false},  {O::kSBC, M::kIndirectY, 5, kPage}, {O::kKIL, M::kImplied, 2, false},   {O::kISB, M::kIndirectY, 8, false},
    {O::kNOP, M::kZeroPageX, 4, false}, {O::kSBC, M::kZeroPageX, 4, false}, {O::kINC, M::kZeroPageX, 6, false}, {O::kISB, M::kZeroPageX, 6, false},
    {O::kSED, M::kImplied, 2, false},   {O::kSBC, M::kAbsoluteY, 4, kPage}, {O::kNOP, M::kImplied, 2, false},   {O::kISB, M::kAbsoluteY, 7, false},
    {O::kNOP, M::kAbsoluteX, 4, kPage}, {O::kSBC, M::kAbsoluteX, 4, kPage}, {O::kINC, M::kAbsoluteX, 7, false}, {O::kISB, M::kAbsoluteX, 7, false},
  };
  // clang-format on
  return kOpcodes[opcode];
}

// --- Flags ----------------------------------------------------------------------------------------------------------

SEED_HD SEED_FORCE_INLINE bool cpu_negative(const Mos6502& cpu) { return (cpu.nz & 0x180) != 0; }
SEED_HD SEED_FORCE_INLINE bool cpu_zero(const Mos6502& cpu) { return (cpu.nz & 0xff) == 0; }

// The status register as PHP and BRK push it.
SEED_HD inline uint8_t cpu_status(const Mos6502& cpu) {
  return static_cast<uint8_t>((cpu_negative(cpu) ? 0x80 : 0) | (cpu.V & 0x80) >> 1 | 0x30 | cpu.D << 3 | cpu.I << 2 |
                              (cpu_zero(cpu) ? 2 : 0) | cpu.C);
}

SEED_HD inline void cpu_set_status(Mos6502& cpu, uint8_t status) {
  cpu.C = status & 1;
  cpu.I = status >> 2 & 1;
  cpu.D = status >> 3 & 1;
  cpu.V = static_cast<uint8_t>(status << 1 & 0x80);
  cpu.nz = static_cast<uint16_t>(((status & 2) ? 0 : 1) | (status & 0x80) << 1);
}

// --- Arithmetic -----------------------------------------------------------------------------------------------------

SEED_HD inline int decimal_of(int byte) { return 10 * (byte >> 4) + (byte & 15); }
SEED_HD inline uint8_t bcd_of(int value) { return static_cast<uint8_t>((value / 10 % 10) << 4 | value % 10); }

SEED_HD inline void cpu_adc_decimal(Mos6502& cpu, uint8_t m) {
  const uint8_t old_a = cpu.A;
  const int sum = decimal_of(cpu.A) + decimal_of(m) + cpu.C;
  cpu.C = sum > 99;
  cpu.A = bcd_of((sum & 255) % 100);
  cpu.nz = cpu.A;
  cpu.V = static_cast<uint8_t>((old_a ^ cpu.A) & (cpu.A ^ m) & 0x80);
}

SEED_HD inline void cpu_sbc_decimal(Mos6502& cpu, uint8_t m) {
  const uint8_t old_a = cpu.A;
  int difference = decimal_of(cpu.A) - decimal_of(m) - 1 + cpu.C;
  if (difference < 0) difference += 100;
  const int borrow = 1 - cpu.C;
  cpu.A = difference < 0 ? static_cast<uint8_t>(decimal_of(256 + difference)) : bcd_of(difference);
  cpu.C = old_a >= m + borrow;
  cpu.nz = cpu.A;
  cpu.V = static_cast<uint8_t>((old_a ^ cpu.A) & (cpu.A ^ m) & 0x80);
}

SEED_HD SEED_FORCE_INLINE void cpu_adc(Mos6502& cpu, uint8_t m) {
  if (cpu.D) {
    cpu_adc_decimal(cpu, m);
    return;
  }
  const int sum = cpu.A + m + cpu.C;
  cpu.V = static_cast<uint8_t>(~(cpu.A ^ m) & (cpu.A ^ sum) & 0x80);
  cpu.C = static_cast<uint8_t>(sum >> 8);
  cpu.A = static_cast<uint8_t>(sum);
  cpu.nz = cpu.A;
}

SEED_HD SEED_FORCE_INLINE void cpu_sbc(Mos6502& cpu, uint8_t m) {
  if (cpu.D) {
    cpu_sbc_decimal(cpu, m);
    return;
  }
  const int difference = cpu.A - m - 1 + cpu.C;
  cpu.V = static_cast<uint8_t>((cpu.A ^ m) & (cpu.A ^ difference) & 0x80);
  cpu.C = difference >= 0;
  cpu.A = static_cast<uint8_t>(difference);
  cpu.nz = cpu.A;
}

SEED_HD SEED_FORCE_INLINE void cpu_compare(Mos6502& cpu, uint8_t reg, uint8_t m) {
  cpu.C = reg >= m;
  cpu.nz = static_cast<uint8_t>(reg - m);
}

SEED_HD SEED_FORCE_INLINE void cpu_bit(Mos6502& cpu, uint8_t m) {
  cpu.nz = static_cast<uint16_t>((cpu.A & m) | (m & 0x80) << 1);
  cpu.V = static_cast<uint8_t>(m << 1 & 0x80);
}

SEED_HD SEED_FORCE_INLINE uint8_t cpu_asl(Mos6502& cpu, uint8_t m) {
  cpu.C = m >> 7;
  cpu.nz = static_cast<uint8_t>(m << 1);
  return static_cast<uint8_t>(cpu.nz);
}

SEED_HD SEED_FORCE_INLINE uint8_t cpu_lsr(Mos6502& cpu, uint8_t m) {
  cpu.C = m & 1;
  cpu.nz = m >> 1;
  return static_cast<uint8_t>(cpu.nz);
}

SEED_HD SEED_FORCE_INLINE uint8_t cpu_rol(Mos6502& cpu, uint8_t m) {
  const uint8_t result = static_cast<uint8_t>(m << 1 | cpu.C);
  cpu.C = m >> 7;
  cpu.nz = result;
  return result;
}

SEED_HD SEED_FORCE_INLINE uint8_t cpu_ror(Mos6502& cpu, uint8_t m) {
  const uint8_t result = static_cast<uint8_t>(m >> 1 | cpu.C << 7);
  cpu.C = m & 1;
  cpu.nz = result;
  return result;
}

// --- Undocumented ---------------------------------------------------------------------------------------------------

SEED_HD inline void cpu_arr(Mos6502& cpu, uint8_t m) {
  cpu.A = static_cast<uint8_t>((cpu.A & m) >> 1 | cpu.C << 7);
  cpu.nz = cpu.A;
  cpu.C = cpu.A >> 6 & 1;
  cpu.V = static_cast<uint8_t>((cpu.A << 1 ^ cpu.A << 2) & 0x80);
}

SEED_HD inline void cpu_sbx(Mos6502& cpu, uint8_t m) {
  const int difference = (cpu.A & cpu.X) - m;
  cpu.C = difference >= 0;
  cpu.X = static_cast<uint8_t>(difference);
  cpu.nz = cpu.X;
}

}  // namespace seed
