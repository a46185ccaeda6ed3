// SPDX-License-Identifier: Apache-2.0
// What translated code is made of: each statement that cuda/translator/translate.py writes is a macro of this file.
//
// The macros see these locals: `cpu` (the 6502; a, x, y, sp, nz, c, v are its registers), `t` (cycles since the start
// of the frame), `pc` (valid only where control is not known), `pointer`. All else lives in the console. The generator
// adds up cycles that are known and passes `t + elapsed` to an access; it brings `t` up to date before a label. A
// statement that may end the frame names the place where the next frame starts.
//
// One generated file is one shared library that exports seed_translation(): see translation.h.
#pragma once

#include "machine/console.h"
#include "seed/status.h"
#include "translator/translation.h"

namespace seed {
namespace {

// A frame that reaches the line limit is taken back and interpreted: only the interpreter looks at the limit at each
// write. As an instruction takes two cycles or more, the instruction limit is further away still.
static_assert(kMaxInstructionsPerFrame * 2 > (kMaxLinesPal + 1) * kCyclesPerLine, "no count of instructions");

// Where the byte at `address` is in the image now (cartridge_offset for a known type).
SEED_FORCE_INLINE uint32_t rom_location(const Console& console, uint32_t address) {
  constexpr CartridgeType type = SEED_ROM_TYPE;
  if (type == CartridgeType::k2K || type == CartridgeType::k4K) return address & SEED_ROM_MASK;
  if (type == CartridgeType::kFE) return (~address & 0x2000) >> 1 | (address & 0xfff);
  if (type == CartridgeType::kE0) return console.cartridge.slice[address >> 10 & 3] * 1024u + (address & 0x3ff);
  return console.cartridge.slice[0] * 1024u + (address & 0xfff);
}

// Whether an access to the cartridge at this window offset may do more than read a byte.
SEED_FORCE_INLINE bool has_effect(uint32_t offset) {
  constexpr CartridgeType type = SEED_ROM_TYPE;
  if (type == CartridgeType::k2K || type == CartridgeType::k4K || type == CartridgeType::kFE) return false;
  if (type == CartridgeType::kF8SC || type == CartridgeType::kF6SC) return offset < 0x100 || offset >= 0xff6;
  if (type == CartridgeType::kDPC) return offset < 0x80 || offset >= 0xfc0;
  if (type == CartridgeType::kE0) return offset >= 0xfe0;
  return offset >= 0xff6;
}

__attribute__((noinline)) uint8_t read_slowly(Bus& bus, uint16_t address, int32_t cycles, uint8_t last_on_bus) {
  bus.console.cycles = cycles;
  bus.console.cpu.bus = last_on_bus;
  return bus_read(bus, address);
}

// Returns the cycle after the write: WSYNC holds the CPU until the line ends.
__attribute__((noinline)) int32_t write_slowly(Bus& bus, uint16_t address, uint8_t value, int32_t cycles,
                                               bool after_write) {
  bus.console.cycles = cycles;
  bus_write(bus, address, value, after_write);
  return bus.console.cycles;
}

__attribute__((noinline)) void interpret_instruction(Bus& bus) { cpu_step(bus); }

// A pull where the stack pointer leaves the RAM, with the accesses of the real one.
__attribute__((noinline)) uint8_t pull_slowly(Bus& bus, uint8_t sp, int32_t cycles, uint8_t opcode) {
  bus.console.cycles = cycles;
  bus.console.cpu.bus = opcode;
  bus_read(bus, static_cast<uint16_t>(0x100 + sp));
  return bus_read(bus, static_cast<uint16_t>(0x100 + static_cast<uint8_t>(sp + 1)));
}

SEED_FORCE_INLINE uint8_t read_anywhere(Bus& bus, uint16_t address, int32_t cycles, uint8_t last_on_bus) {
  if (is_cartridge_address(address) && !has_effect(address & 0xfff)) {
    return bus.rom.bytes[rom_location(bus.console, address)];
  }
  if (is_ram_address(address)) return bus.console.riot.ram[address & 0x7f];
  if (is_tia_address(address)) {
    return tia_read(bus.console.tia, bus.pixels, bus.inputs, address, last_on_bus, cycles, bus.console.carry_cycles);
  }
  return read_slowly(bus, address, cycles, last_on_bus);
}

// Cycles of the rounds of a loop that surely go on because the timer, first read at `read_cycles`, is in
// lowest .. highest. Such reads change nothing; the read after them is left to the loop.
SEED_FORCE_INLINE int32_t timer_poll_cycles(const Riot& riot, int32_t read_cycles, int32_t round_cycles, int32_t lowest,
                                            int32_t highest) {
  const int32_t left = riot_timer_left(riot, read_cycles);
  if (left < lowest || left > highest) return 0;
  const int32_t last_read = riot.timer_stamp_cycles + ((riot.timer - lowest) << riot.timer_shift);
  return last_read < read_cycles ? 0 : ((last_read - read_cycles) / round_cycles + 1) * round_cycles;
}

SEED_FORCE_INLINE bool stack_is_ram(uint8_t sp, int num_pulls) { return sp >= 0x80 && sp < 0x100 - num_pulls; }

}  // namespace
}  // namespace seed

// ---- The function ---------------------------------------------------------------------------------------------------

#define SEED_TRANSLATED_BEGIN                                                         \
  namespace seed {                                                                    \
  namespace {                                                                         \
  bool run_translated(Bus& bus) {                                                     \
    Console& console = bus.console;                                                   \
    Tia& tia = console.tia;                                                           \
    Riot& riot = console.riot;                                                        \
    uint8_t* const ram = riot.ram;                                                    \
    const uint8_t* const rom_bytes = bus.rom.bytes;                                   \
    const int32_t limit = tia.limit_cycles;                                           \
    Mos6502 cpu = console.cpu;                                                        \
    uint8_t &a = cpu.A, &x = cpu.X, &y = cpu.Y, &sp = cpu.SP, &c = cpu.C, &v = cpu.V; \
    uint16_t& nz = cpu.nz;                                                            \
    int32_t t = console.cycles;                                                       \
    uint32_t pc = cpu.PC, pc_base = pc & ~SEED_ROM_MASK & 0xffff;                     \
    uint16_t pointer = 0;                                                             \
    (void)rom_bytes, (void)pointer, (void)limit, (void)pc_base;                       \
    goto dispatch;

// Goes to the translated code of `pc`, or executes instructions until there is some.
#define SEED_DISPATCH_BEGIN                                                                  \
  dispatch:                                                                                  \
  pc &= 0xffff;                                                                              \
  if (t >= limit) return false;                                                              \
  pc_base = pc & ~SEED_ROM_MASK & 0xffff;                                                    \
  if (!(pc & 0x1000) || (SEED_ROM_HAS_ONE_BASE && pc_base != SEED_ROM_BASE)) goto interpret; \
  switch (kEntries[rom_location(console, pc)]) {
#define SEED_DISPATCH_END                                   \
  default:                                                  \
    break;                                                  \
    }                                                       \
  interpret:                                                \
    cpu.PC = static_cast<uint16_t>(pc);                     \
    if (!(pc & 0x1000)) {                                   \
      const int32_t cycles = cpu_run_ram_code(bus, cpu, t); \
      pc = cpu.PC;                                          \
      t += cycles;                                          \
      if (cycles != 0) goto dispatch;                       \
    }                                                       \
    console.cpu = cpu;                                      \
    console.cycles = t;                                     \
    interpret_instruction(bus);                             \
    cpu = console.cpu;                                      \
    t = console.cycles;                                     \
    pc = cpu.PC;                                            \
    if (cpu.frozen) return false;                           \
    if (tia.frame_done) goto frame_end;                     \
    goto dispatch;

#define SEED_TRANSLATED_END                                                                         \
  frame_end:                                                                                        \
  cpu.PC = static_cast<uint16_t>(pc);                                                               \
  cpu.bus = console.cpu.bus;                                                                        \
  console.cpu = cpu;                                                                                \
  console.cycles = t;                                                                               \
  return t < limit;                                                                                 \
  }                                                                                                 \
  }                                                                                                 \
  }                                                                                                 \
  extern "C" SEED_API const seed::Translation* seed_translation(void) {                             \
    static const seed::Translation translation = {seed::kTranslationVersion, sizeof(seed::Console), \
                                                  seed::run_translated};                            \
    return &translation;                                                                            \
  }

// ---- Control --------------------------------------------------------------------------------------------------------

#if SEED_ROM_HAS_ONE_BASE
#define BASE SEED_ROM_BASE
#define SET_BASE(base) static_cast<void>(0)
#else
#define BASE pc_base
#define SET_BASE(base) pc_base = (base)
#endif

#define DISPATCH(target) \
  do {                   \
    pc = (target);       \
    goto dispatch;       \
  } while (0)
#define CONTINUE_AT(offset) DISPATCH(BASE + (offset))
#define INTERPRET_AT(offset) \
  do {                       \
    pc = BASE + (offset);    \
    goto interpret;          \
  } while (0)
#define CHECK_CYCLES(target) \
  if (__builtin_expect(t >= limit, 0)) return false
#define END_FRAME_AT(target) \
  do {                       \
    pc = (target);           \
    goto frame_end;          \
  } while (0)
#define CHECK_BANK(location, elapsed, offset)                                      \
  if (__builtin_expect(rom_location(console, BASE + (offset)) != (location), 0)) { \
    t += (elapsed);                                                                \
    CONTINUE_AT(offset);                                                           \
  }

// ---- Waiting --------------------------------------------------------------------------------------------------------

#define SKIP_DELAY_DE(counter, round_cycles)                 \
  t += static_cast<uint8_t>((counter) - 1) * (round_cycles); \
  counter = 1
#define SKIP_DELAY_IN(counter, round_cycles) \
  t += (255 - (counter)) * (round_cycles);   \
  counter = 255
#define SKIP_TIMER_POLLS(read_cycles, round_cycles, lowest, highest) \
  t += timer_poll_cycles(riot, t + (read_cycles), round_cycles, lowest, highest)

// ---- Memory ---------------------------------------------------------------------------------------------------------

#define READ(address, cycles, last_on_bus) read_anywhere(bus, static_cast<uint16_t>(address), cycles, last_on_bus)
#define ZERO_PAGE_READ(address, cycles, last_on_bus) READ((address) & 0xff, cycles, last_on_bus)
#define TIA_READ(reg, cycles, last_on_bus) \
  tia_read(tia, bus.pixels, bus.inputs, reg, last_on_bus, cycles, console.carry_cycles)
#define RIOT_READ(reg, cycles) riot_read(riot, bus.inputs, reg, cycles)
#define RIOT_WRITE(reg, value, cycles) riot_write(riot, reg, value, cycles)

// The word in the zero page, and the high byte that its last read leaves on the bus.
#define POINTER(address) \
  pointer = static_cast<uint16_t>(READ(address, t, address) | READ((address) + 1, t, address) << 8)
#define POINTER_X(address)                                                    \
  pointer = static_cast<uint16_t>(ZERO_PAGE_READ((address) + x, t, address) | \
                                  READ((((address) + x) & 0xff) + 1, t, address) << 8)
#define POINTER_HIGH static_cast<uint8_t>(pointer >> 8)

// To any address. Most go to the RAM or the TIA.
#define WRITE(address, value, offset)                                                            \
  do {                                                                                           \
    const uint16_t write_address = static_cast<uint16_t>(address);                               \
    const uint8_t written = (value);                                                             \
    if (is_ram_address(write_address)) {                                                         \
      ram[write_address & 0x7f] = written;                                                       \
    } else if (is_tia_address(write_address) && (write_address & 0x3f) != kWSYNC) {              \
      if (tia_write_counts(tia, write_address & 0x3f, written)) {                                \
        tia.accessed_clock = clock_of(t);                                                        \
        tia_change_any_register(tia, bus.display, bus.pixels, write_address & 0x3f, written, t); \
        if (__builtin_expect(tia.frame_done, 0)) END_FRAME_AT(BASE + (offset));                  \
      }                                                                                          \
    } else {                                                                                     \
      t = write_slowly(bus, write_address, written, t, false);                                   \
      if (__builtin_expect(tia.frame_done, 0)) END_FRAME_AT(BASE + (offset));                    \
    }                                                                                            \
  } while (0)

// To a TIA register that is known: only a write to VSYNC can end the frame.
#define TIA_WRITE(reg, value, elapsed, offset)                                      \
  do {                                                                              \
    if (tia_write_counts(tia, reg, value)) {                                        \
      if (reg == kVSYNC) tia.accessed_clock = clock_of(t + (elapsed));              \
      tia_change_register<reg>(tia, bus.display, bus.pixels, value, t + (elapsed)); \
      if (reg == kVSYNC && __builtin_expect(tia.frame_done, 0)) {                   \
        t += (elapsed);                                                             \
        END_FRAME_AT(BASE + (offset));                                              \
      }                                                                             \
    }                                                                               \
  } while (0)

#define WSYNC(value, offset) t += cycles_to_line_end(t)

// ---- Stack ----------------------------------------------------------------------------------------------------------

#define PUSH(value, after_write)                                                     \
  do {                                                                               \
    const uint8_t pushed = static_cast<uint8_t>(value);                              \
    if (__builtin_expect(sp >= 0x80, 1)) {                                           \
      ram[sp & 0x7f] = pushed;                                                       \
    } else if ((sp & 0x3f) != kWSYNC) {                                              \
      if (tia_write_counts(tia, sp & 0x3f, pushed)) {                                \
        tia.accessed_clock = clock_of(t);                                            \
        tia_change_any_register(tia, bus.display, bus.pixels, sp & 0x3f, pushed, t); \
      }                                                                              \
    } else {                                                                         \
      t = write_slowly(bus, 0x100 + sp, pushed, t, after_write);                     \
    }                                                                                \
    --sp;                                                                            \
  } while (0)

// JSR: pushes the address of its last byte.
#define PUSH_WORD(word, target)                                    \
  do {                                                             \
    PUSH((word) >> 8, false);                                      \
    PUSH(word, true);                                              \
    if (__builtin_expect(tia.frame_done, 0)) END_FRAME_AT(target); \
  } while (0)

#define PHA(offset)                                                         \
  do {                                                                      \
    PUSH(a, false);                                                         \
    if (__builtin_expect(tia.frame_done, 0)) END_FRAME_AT(BASE + (offset)); \
  } while (0)
#define PHP(offset)                                                         \
  do {                                                                      \
    PUSH(cpu_status(cpu), false);                                           \
    if (__builtin_expect(tia.frame_done, 0)) END_FRAME_AT(BASE + (offset)); \
  } while (0)

#define PULL(opcode) (stack_is_ram(sp, 1) ? ram[(sp + 1) & 0x7f] : pull_slowly(bus, sp, t, opcode))
#define PLA(opcode)        \
  do {                     \
    nz = a = PULL(opcode); \
    ++sp;                  \
  } while (0)
#define PLP(opcode)                    \
  do {                                 \
    cpu_set_status(cpu, PULL(opcode)); \
    ++sp;                              \
  } while (0)

// The generator has charged the six cycles; the interpreter would charge them again.
#define RTS(offset)                                              \
  do {                                                           \
    if (__builtin_expect(!stack_is_ram(sp, 2), 0)) {             \
      t -= 6;                                                    \
      INTERPRET_AT(offset);                                      \
    }                                                            \
    pc = (ram[(sp + 1) & 0x7f] | ram[(sp + 2) & 0x7f] << 8) + 1; \
    sp = static_cast<uint8_t>(sp + 2);                           \
    goto dispatch;                                               \
  } while (0)

// ---- Operations -----------------------------------------------------------------------------------------------------

#define LDA(m) nz = a = (m)
#define LDX(m) nz = x = (m)
#define LDY(m) nz = y = (m)
#define AND(m) nz = a = static_cast<uint8_t>(a & (m))
#define ORA(m) nz = a = static_cast<uint8_t>(a | (m))
#define EOR(m) nz = a = static_cast<uint8_t>(a ^ (m))
#define ADC(m) cpu_adc(cpu, m)
#define SBC(m) cpu_sbc(cpu, m)
#define CMP(m) cpu_compare(cpu, a, m)
#define CPX(m) cpu_compare(cpu, x, m)
#define CPY(m) cpu_compare(cpu, y, m)
#define BIT(m) cpu_bit(cpu, m)
#define ASL(m) m = cpu_asl(cpu, m)
#define LSR(m) m = cpu_lsr(cpu, m)
#define ROL(m) m = cpu_rol(cpu, m)
#define ROR(m) m = cpu_ror(cpu, m)
#define INC(m) nz = m = static_cast<uint8_t>(m + 1)
#define DEC(m) nz = m = static_cast<uint8_t>(m - 1)
#define INX() INC(x)
#define INY() INC(y)
#define DEX() DEC(x)
#define DEY() DEC(y)
#define TAX() nz = x = a
#define TAY() nz = y = a
#define TXA() nz = a = x
#define TYA() nz = a = y
#define TSX() nz = x = sp
#define TXS() sp = x
#define CLC() c = 0
#define SEC() c = 1
#define CLD() cpu.D = 0
#define SED() cpu.D = 1
#define CLI() cpu.I = 0
#define SEI() cpu.I = 1
#define CLV() v = 0
#define NOP() static_cast<void>(0)
