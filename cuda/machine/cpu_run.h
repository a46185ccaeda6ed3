// SPDX-License-Identifier: Apache-2.0
// The interpreter of predecoded instructions (program.h): same results as cpu_step.h, several times its speed.
//
// Registers, time and the place in the program live in local variables. A handler that meets anything but its plain
// case leaves the whole instruction to cpu_step. Time and the number of instructions share one word, so that counting
// costs nothing: the limit is looked at when control goes somewhere else than straight on, and the last stretch before
// it is stepped.
#pragma once

#include "machine/cpu_step.h"
#include "machine/program.h"
#include "machine/switches.h"

namespace seed {

// Cycles since the start of the frame in the low bits, instructions of this frame call above.
using CycleCount = uint64_t;
constexpr int kCycleBits = 22;
constexpr CycleCount kOneInstruction = CycleCount{1} << kCycleBits;
constexpr int32_t kMaxCycles = 1 << (kCycleBits - 1);  // at the start of a call; a call takes less than as many again
// More instructions than straight-line code and one waiting loop can take before the limit is looked at.
constexpr int kMaxStraightLine = 4096 + 512 + 8;

SEED_HD SEED_FORCE_INLINE int32_t cycles_of(CycleCount count) {
  return static_cast<int32_t>(count & (kOneInstruction - 1));
}

SEED_HD SEED_NO_INLINE void cpu_step_called(Bus& bus) { cpu_step(bus); }

SEED_HD inline void cpu_step_until_done(Bus& bus, int num_instructions) {
  const Console& console = bus.console;
  for (; num_instructions < kMaxInstructionsPerFrame && !console.cpu.frozen && !console.tia.frame_done;
       ++num_instructions) {
    cpu_step_called(bus);
  }
}

// Rounds of "LDA INTIM, BNE" (7 cycles) that still find the timer running when the first read is at `cycles`.
SEED_HD inline int32_t timer_poll_rounds(const Riot& riot, int32_t cycles) {
  const int32_t left = riot_timer_left(riot, cycles);
  if (left <= 0) return 0;
  const int32_t elapsed = elapsed_cycles(cycles, riot.timer_stamp_cycles) - 1;
  const int32_t until_zero = ((static_cast<int32_t>(riot.timer) - 1) << riot.timer_shift) - elapsed;
  return (until_zero + 6) / 7;
}

// Executes the instruction at PC if it is one of the three that bank switching from RAM is made of (up_n_down: LDA hot
// spot, STA RAM, JMP). Returns its cycles; 0: it is another one, and nothing was done.
SEED_HD SEED_FORCE_INLINE int32_t cpu_run_ram_code(Bus& bus, Mos6502& cpu, int32_t cycles) {
  Console& console = bus.console;
  if (!is_ram_address(cpu.PC) || (cpu.PC & 0x7f) > 0x7d) return 0;
  const uint8_t* const code = console.riot.ram + (cpu.PC & 0x7f);
  const uint16_t address = static_cast<uint16_t>(code[1] | code[2] << 8);
  switch (code[0]) {
    case 0x85:  // STA zero page
      if (code[1] < 0x80) return 0;
      cpu.PC = static_cast<uint16_t>(cpu.PC + 2);
      console.riot.ram[code[1] & 0x7f] = cpu.A;
      return 3;
    case 0xad:  // LDA absolute
      if (!is_cartridge_address(address)) return 0;
      cpu.PC = static_cast<uint16_t>(cpu.PC + 3);
      cpu_load(cpu, cpu.A, cartridge_read(console.cartridge, bus.rom, address, cycles + 4));
      cpu.bus = cpu.A;
      return 4;
    case 0x4c:  // JMP absolute
      cpu.PC = address;
      cpu.bus = code[2];
      return 3;
    default:
      return 0;
  }
}

// Runs the CPU until the frame ends or the instruction limit is reached.
SEED_HD inline void cpu_run(Bus& bus) {
  Console& console = bus.console;
  if (console.cycles >= kMaxCycles || console.cycles < 0) {
    cpu_step_until_done(bus, 0);
    return;
  }
  Tia& tia = console.tia;
  Riot& riot = console.riot;
  uint8_t* const ram = riot.ram;
  const Rom& rom = bus.rom;
  const Instruction* const program = rom.program;
  const uint32_t mask = rom_region_mask(rom);
  const uint32_t rom_from = rom_starts_at(rom), rom_size = rom_hot_spots_from(rom) - rom_from;
  const bool flat = rom_is_flat(rom);
  constexpr CycleCount kLimit = (kMaxInstructionsPerFrame - kMaxStraightLine) * kOneInstruction;

  Mos6502 cpu = console.cpu;
  CycleCount count = static_cast<CycleCount>(console.cycles);
  const Instruction* ip = program;      // the instruction being executed
  const Instruction* region = program;  // the first of its region
  uint32_t region_address = 0;          // its address
  const uint8_t* window = rom.bytes;    // what the 4 KB window shows, where `flat`
  uint16_t address = 0;
  uint8_t m = 0;

  // Reads `address` into m unless that is a hot spot or the RIOT. `page_cycle` goes by before; `last_on_bus` shows in
  // what the TIA leaves undriven.
#define SEED_READ_PLAIN(page_cycle, last_on_bus)                                                  \
  if (address & 0x1000) {                                                                         \
    const uint32_t low = address & 0xfffu;                                                        \
    if (low - rom_from >= rom_size) goto step_instead;                                            \
    m = flat ? window[low & mask] : rom.bytes[cartridge_offset(console.cartridge, rom, address)]; \
  } else if ((address & 0x280) == 0x80) {                                                         \
    m = ram[address & 0x7f];                                                                      \
  } else if (!(address & 0x80)) {                                                                 \
    m = tia_read(tia, bus.pixels, bus.inputs, address, static_cast<uint8_t>(last_on_bus),         \
                 cycles_of(count) + (page_cycle), console.carry_cycles);                          \
  } else {                                                                                        \
    goto step_instead;                                                                            \
  }                                                                                               \
  count += (page_cycle);
#define SEED_WRITE_PLAIN(byte)                                                       \
  if ((address & 0x1280) == 0x80) {                                                  \
    ram[address & 0x7f] = (byte);                                                    \
  } else if ((address & 0x1080) == 0 && (address & 0x3f) != kWSYNC) {                \
    tia_write(tia, bus.display, bus.pixels, address & 0x3f, byte, cycles_of(count)); \
    if (tia.frame_done) goto frame_done;                                             \
  } else {                                                                           \
    goto step_instead;                                                               \
  }
#define SEED_INDEX(base, index) address = static_cast<uint16_t>((base) + (index))
#define SEED_PAGE_CYCLE(base) ((((base) ^ address) & 0xff00) != 0)

#if defined(__GNUC__) && !defined(__CUDACC__)
#define SEED_DISPATCH goto* kLabels[ip->handler]
#define SEED_HANDLER(name) handle_##name:
#define SEED_LABEL(name) &&handle_##name,
  static const void* const kLabels[kNumHandlers] = {
      &&step,
#define SEED_LABELS(OP)                                                                                               \
  &&handle_##OP##_Constant, &&handle_##OP##_Ram, &&handle_##OP##_Tia, &&handle_##OP##_Riot, &&handle_##OP##_Absolute, \
      &&handle_##OP##_ZeroPageX, &&handle_##OP##_ZeroPageY, &&handle_##OP##_AbsoluteX, &&handle_##OP##_AbsoluteY,     \
      &&handle_##OP##_IndirectY,
      SEED_READ_OPERATIONS(SEED_LABELS)
#undef SEED_LABELS
#define SEED_LABELS(OP)                                                                      \
  &&handle_##OP##_Ram, &&handle_##OP##_Tia, &&handle_##OP##_Riot, &&handle_##OP##_ZeroPageX, \
      &&handle_##OP##_ZeroPageY, &&handle_##OP##_AbsoluteX, &&handle_##OP##_AbsoluteY, &&handle_##OP##_IndirectY,
          SEED_STORE_OPERATIONS(SEED_LABELS)
#undef SEED_LABELS
#define SEED_LABELS(OP) &&handle_##OP##_Accumulator, &&handle_##OP##_Ram, &&handle_##OP##_ZeroPageX,
              SEED_MODIFY_OPERATIONS(SEED_LABELS)
#undef SEED_LABELS
#define SEED_LABELS(OP) &&handle_##OP##_Implied,
                  SEED_IMPLIED_OPERATIONS(SEED_LABELS)
#undef SEED_LABELS
#define SEED_LABELS(OP) &&handle_##OP##_Branch,
                      SEED_BRANCH_OPERATIONS(SEED_LABELS)
#undef SEED_LABELS
                          SEED_LABEL(WSYNC_Store) SEED_LABEL(JMP_Absolute) SEED_LABEL(JSR_Absolute)
                              SEED_LABEL(RTS_Implied) SEED_LABEL(PHA_Implied) SEED_LABEL(PHP_Implied)
                                  SEED_LABEL(PLA_Implied) SEED_LABEL(PLP_Implied) SEED_LABEL(DEX_Loop)
                                      SEED_LABEL(DEY_Loop) SEED_LABEL(INTIM_Poll)};
  goto enter;
  {
#else
#define SEED_DISPATCH goto dispatch
#define SEED_HANDLER(name) case k##name:
  goto enter;
dispatch:
  switch (ip->handler) {
    case kStep:
    default:
      goto step;
#endif
// Every access of an instruction comes after all its cycles.
#define SEED_BEGIN(name) \
  SEED_HANDLER(name)     \
  count += kOneInstruction + ip->cycles;
#define SEED_END    \
  ip += ip->length; \
  SEED_DISPATCH;

    // --- Operations that read ---
#define SEED_HANDLERS(OP)                                                                                \
  SEED_BEGIN(OP##_Constant)                                                                              \
  cpu_read_operation(cpu, Operation::k##OP, static_cast<uint8_t>(ip->value));                            \
  SEED_END                                                                                               \
  SEED_BEGIN(OP##_Ram)                                                                                   \
  cpu_read_operation(cpu, Operation::k##OP, ram[ip->operand]);                                           \
  SEED_END                                                                                               \
  SEED_BEGIN(OP##_Tia)                                                                                   \
  m = tia_read(tia, bus.pixels, bus.inputs, ip->operand,                                                 \
               static_cast<uint8_t>(ip->length == 2 ? ip->operand : ip->operand >> 8), cycles_of(count), \
               console.carry_cycles);                                                                    \
  cpu_read_operation(cpu, Operation::k##OP, m);                                                          \
  SEED_END                                                                                               \
  SEED_BEGIN(OP##_Riot)                                                                                  \
  m = riot_read(riot, bus.inputs, ip->operand, cycles_of(count));                                        \
  cpu_read_operation(cpu, Operation::k##OP, m);                                                          \
  SEED_END                                                                                               \
  SEED_BEGIN(OP##_Absolute)                                                                              \
  address = ip->operand;                                                                                 \
  SEED_READ_PLAIN(0, address >> 8)                                                                       \
  cpu_read_operation(cpu, Operation::k##OP, m);                                                          \
  SEED_END                                                                                               \
  SEED_BEGIN(OP##_ZeroPageX)                                                                             \
  address = static_cast<uint8_t>(ip->operand + cpu.X);                                                   \
  SEED_READ_PLAIN(0, ip->operand)                                                                        \
  cpu_read_operation(cpu, Operation::k##OP, m);                                                          \
  SEED_END                                                                                               \
  SEED_BEGIN(OP##_ZeroPageY)                                                                             \
  address = static_cast<uint8_t>(ip->operand + cpu.Y);                                                   \
  SEED_READ_PLAIN(0, ip->operand)                                                                        \
  cpu_read_operation(cpu, Operation::k##OP, m);                                                          \
  SEED_END                                                                                               \
  SEED_BEGIN(OP##_AbsoluteX)                                                                             \
  SEED_INDEX(ip->operand, cpu.X);                                                                        \
  SEED_READ_PLAIN(SEED_PAGE_CYCLE(ip->operand), ip->operand >> 8)                                        \
  cpu_read_operation(cpu, Operation::k##OP, m);                                                          \
  SEED_END                                                                                               \
  SEED_BEGIN(OP##_AbsoluteY)                                                                             \
  SEED_INDEX(ip->operand, cpu.Y);                                                                        \
  SEED_READ_PLAIN(SEED_PAGE_CYCLE(ip->operand), ip->operand >> 8)                                        \
  cpu_read_operation(cpu, Operation::k##OP, m);                                                          \
  SEED_END                                                                                               \
  SEED_BEGIN(OP##_IndirectY) {                                                                           \
    const uint32_t base = ram[ip->operand & 0x7f] | ram[(ip->operand + 1) & 0x7f] << 8;                  \
    SEED_INDEX(base, cpu.Y);                                                                             \
    SEED_READ_PLAIN(SEED_PAGE_CYCLE(base), base >> 8)                                                    \
  }                                                                                                      \
  cpu_read_operation(cpu, Operation::k##OP, m);                                                          \
  SEED_END
    SEED_READ_OPERATIONS(SEED_HANDLERS)
#undef SEED_HANDLERS

    // --- Stores ---
#define SEED_HANDLERS(OP)                                                                             \
  SEED_BEGIN(OP##_Ram)                                                                                \
  ram[ip->operand] = cpu_write_operation(cpu, Operation::k##OP, 0);                                   \
  SEED_END                                                                                            \
  SEED_BEGIN(OP##_Tia)                                                                                \
  tia_write(tia, bus.display, bus.pixels, ip->operand, cpu_write_operation(cpu, Operation::k##OP, 0), \
            cycles_of(count));                                                                        \
  if (tia.frame_done) goto frame_done;                                                                \
  SEED_END                                                                                            \
  SEED_BEGIN(OP##_Riot)                                                                               \
  riot_write(riot, ip->operand, cpu_write_operation(cpu, Operation::k##OP, 0), cycles_of(count));     \
  SEED_END                                                                                            \
  SEED_BEGIN(OP##_ZeroPageX)                                                                          \
  address = static_cast<uint8_t>(ip->operand + cpu.X);                                                \
  SEED_WRITE_PLAIN(cpu_write_operation(cpu, Operation::k##OP, 0))                                     \
  SEED_END                                                                                            \
  SEED_BEGIN(OP##_ZeroPageY)                                                                          \
  address = static_cast<uint8_t>(ip->operand + cpu.Y);                                                \
  SEED_WRITE_PLAIN(cpu_write_operation(cpu, Operation::k##OP, 0))                                     \
  SEED_END                                                                                            \
  SEED_BEGIN(OP##_AbsoluteX)                                                                          \
  SEED_INDEX(ip->operand, cpu.X);                                                                     \
  SEED_WRITE_PLAIN(cpu_write_operation(cpu, Operation::k##OP, 0))                                     \
  SEED_END                                                                                            \
  SEED_BEGIN(OP##_AbsoluteY)                                                                          \
  SEED_INDEX(ip->operand, cpu.Y);                                                                     \
  SEED_WRITE_PLAIN(cpu_write_operation(cpu, Operation::k##OP, 0))                                     \
  SEED_END                                                                                            \
  SEED_BEGIN(OP##_IndirectY)                                                                          \
  SEED_INDEX(ram[ip->operand & 0x7f] | ram[(ip->operand + 1) & 0x7f] << 8, cpu.Y);                    \
  SEED_WRITE_PLAIN(cpu_write_operation(cpu, Operation::k##OP, 0))                                     \
  SEED_END
    SEED_STORE_OPERATIONS(SEED_HANDLERS)
#undef SEED_HANDLERS
    SEED_BEGIN(WSYNC_Store)
    tia_write(tia, bus.display, bus.pixels, kWSYNC, 0, cycles_of(count));
    count += static_cast<CycleCount>(cycles_to_line_end(cycles_of(count)));
    if (tia.frame_done) goto frame_done;
    SEED_END

    // --- Read, modify, write ---
#define SEED_HANDLERS(OP)                                                                 \
  SEED_BEGIN(OP##_Accumulator)                                                            \
  cpu.A = cpu_modify_operation(cpu, Operation::k##OP, cpu.A);                             \
  SEED_END                                                                                \
  SEED_BEGIN(OP##_Ram)                                                                    \
  ram[ip->operand] = cpu_modify_operation(cpu, Operation::k##OP, ram[ip->operand]);       \
  SEED_END                                                                                \
  SEED_BEGIN(OP##_ZeroPageX)                                                              \
  SEED_INDEX(ip->operand, cpu.X);                                                         \
  if (!(address & 0x80)) goto step_instead;                                               \
  ram[address & 0x7f] = cpu_modify_operation(cpu, Operation::k##OP, ram[address & 0x7f]); \
  SEED_END
    SEED_MODIFY_OPERATIONS(SEED_HANDLERS)
#undef SEED_HANDLERS

    // --- Registers and flags ---
#define SEED_HANDLERS(OP)                        \
  SEED_BEGIN(OP##_Implied)                       \
  cpu_register_operation(cpu, Operation::k##OP); \
  SEED_END
    SEED_IMPLIED_OPERATIONS(SEED_HANDLERS)
#undef SEED_HANDLERS

    // --- Control ---
#define SEED_HANDLERS(OP)                        \
  SEED_BEGIN(OP##_Branch)                        \
  if (cpu_takes_branch(cpu, Operation::k##OP)) { \
    count += ip->operand;                        \
    ip = region + ip->value;                     \
    if (count >= kLimit) goto leave;             \
    SEED_DISPATCH;                               \
  }                                              \
  SEED_END
    SEED_BRANCH_OPERATIONS(SEED_HANDLERS)
#undef SEED_HANDLERS
    SEED_BEGIN(JMP_Absolute)
    address = ip->operand;
    cpu.bus = static_cast<uint8_t>(address >> 8);
    goto jump;
    SEED_BEGIN(JSR_Absolute)
    if (cpu.SP < 0x81) goto step_instead;
    {
      const uint32_t last_byte = region_address + static_cast<uint32_t>(ip - region) + 2;
      ram[cpu.SP-- & 0x7f] = static_cast<uint8_t>(last_byte >> 8);
      ram[cpu.SP-- & 0x7f] = static_cast<uint8_t>(last_byte);
    }
    address = ip->operand;
    cpu.bus = static_cast<uint8_t>(address >> 8);
    goto jump;
    SEED_BEGIN(RTS_Implied)
    if (cpu.SP < 0x80 || cpu.SP > 0xfd) goto step_instead;
    address = static_cast<uint16_t>((ram[(cpu.SP + 1) & 0x7f] | ram[(cpu.SP + 2) & 0x7f] << 8) + 1);
    cpu.SP = static_cast<uint8_t>(cpu.SP + 2);
    cpu.bus = ram[cpu.SP & 0x7f];
    goto jump;
    SEED_BEGIN(PHA_Implied)
    if ((cpu.SP & 0xbf) == kWSYNC) goto step_instead;
    address = cpu.SP--;
    SEED_WRITE_PLAIN(cpu.A)
    SEED_END
    SEED_BEGIN(PHP_Implied)
    if ((cpu.SP & 0xbf) == kWSYNC) goto step_instead;
    address = cpu.SP--;
    SEED_WRITE_PLAIN(cpu_status(cpu))
    SEED_END
    SEED_BEGIN(PLA_Implied)
    if (cpu.SP < 0x80 || cpu.SP > 0xfe) goto step_instead;
    cpu.A = ram[++cpu.SP & 0x7f];
    cpu.nz = cpu.A;
    SEED_END
    SEED_BEGIN(PLP_Implied)
    if (cpu.SP < 0x80 || cpu.SP > 0xfe) goto step_instead;
    cpu_set_status(cpu, ram[++cpu.SP & 0x7f]);
    SEED_END

    // --- Loops that only wait ---
#if SEED_SKIP_WAITING_LOOPS
#define SEED_COUNT_DOWN(OP, reg)                                                     \
  SEED_HANDLER(OP##_Loop) {                                                          \
    const CycleCount rounds = cpu.reg == 0 ? 256 : cpu.reg;                          \
    count += rounds * (2 * kOneInstruction + 5) - 1; /* the last BNE is not taken */ \
    cpu.reg = 0;                                                                     \
    cpu.nz = 0;                                                                      \
    ip += 3;                                                                         \
    if (count >= kLimit) goto leave;                                                 \
    SEED_DISPATCH;                                                                   \
  }
    SEED_COUNT_DOWN(DEX, X)
    SEED_COUNT_DOWN(DEY, Y)
    SEED_HANDLER(INTIM_Poll) {
      const CycleCount rounds = static_cast<CycleCount>(timer_poll_rounds(riot, cycles_of(count) + 4));
      const CycleCount waited = count + rounds * (2 * kOneInstruction + 7);
      if (waited < kLimit) count = waited;
      count += kOneInstruction + 4;
      cpu_read_operation(cpu, Operation::kLDA, riot_read(riot, bus.inputs, ip->operand, cycles_of(count)));
    }
    SEED_END
#else
      SEED_BEGIN(DEX_Loop)
      cpu_register_operation(cpu, Operation::kDEX);
      SEED_END
      SEED_BEGIN(DEY_Loop)
      cpu_register_operation(cpu, Operation::kDEY);
      SEED_END
      SEED_BEGIN(INTIM_Poll)
      cpu_read_operation(cpu, Operation::kLDA, riot_read(riot, bus.inputs, ip->operand, cycles_of(count)));
      SEED_END
#endif
  }

jump:  // to `address`
  if ((address & ~mask & 0xffff) != region_address) {
    cpu.PC = address;
    goto enter;
  }
  ip = region + (address & mask);
  if (count >= kLimit) goto leave;
  SEED_DISPATCH;

step_instead:  // of a handler that has changed nothing but the time
  count -= kOneInstruction + ip->cycles;
step:
  cpu.PC = static_cast<uint16_t>(region_address + static_cast<uint32_t>(ip - region));
step_at_pc:
  console.cpu = cpu;
  console.cycles = cycles_of(count);
  cpu_step_called(bus);
  cpu = console.cpu;
  count = (count & ~(kOneInstruction - 1)) + kOneInstruction + static_cast<CycleCount>(console.cycles);
  if (tia.frame_done || cpu.frozen) return;

enter:  // the program at PC
  if (count >= kLimit) {
    console.cpu = cpu;
    console.cycles = cycles_of(count);
    cpu_step_until_done(bus, static_cast<int>(count >> kCycleBits));
    return;
  }
  if (!(cpu.PC & 0x1000)) {
    const int32_t cycles = cpu_run_ram_code(bus, cpu, cycles_of(count));
    if (cycles == 0) goto step_at_pc;
    count += kOneInstruction + static_cast<CycleCount>(cycles);
    goto enter;
  }
  ip = program + cartridge_offset(console.cartridge, rom, cpu.PC);
  region = ip - (cpu.PC & mask);
  region_address = cpu.PC & ~mask & 0xffffu;
  window = rom.bytes + (flat ? console.cartridge.slice[0] * 1024u : 0u);
  SEED_DISPATCH;

leave:
  cpu.PC = static_cast<uint16_t>(region_address + static_cast<uint32_t>(ip - region));
  goto enter;

frame_done:  // by the instruction at ip
  cpu.PC = static_cast<uint16_t>(region_address + static_cast<uint32_t>(ip - region) + ip->length);
  console.cpu = cpu;
  console.cycles = cycles_of(count);

#undef SEED_READ_PLAIN
#undef SEED_WRITE_PLAIN
#undef SEED_INDEX
#undef SEED_PAGE_CYCLE
#undef SEED_DISPATCH
#undef SEED_HANDLER
#undef SEED_LABEL
#undef SEED_BEGIN
#undef SEED_END
#undef SEED_COUNT_DOWN
}

}  // namespace seed
