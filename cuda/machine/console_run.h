// SPDX-License-Identifier: Apache-2.0
// Power-on, reset and the frame loop of the console.
#pragma once

#include "machine/console.h"
#include "machine/cpu_lockstep.h"
#include "machine/cpu_run.h"
#include "machine/cpu_step.h"
#include "machine/trace.h"
#include "translator/translation.h"

namespace seed {

SEED_HD inline void console_power_on(Console& console, const Rom& rom, Mt19937& system) {
  console = Console{};
  console.error = rom.accepted ? ConsoleError::kNone : ConsoleError::kBadRom;
  for (uint8_t& byte : console.riot.ram) byte = static_cast<uint8_t>(mt19937_draw(system));
  console.riot.timer = static_cast<uint8_t>(mt19937_draw(system));
}

SEED_HD inline uint8_t* console_pixels(const Console& console, const Screen& screen) {
  return screen.buffers[console.current_buffer & 1];
}

SEED_HD inline int32_t line_limit_cycles(const Display& display) {
  return ((display.pal ? kMaxLinesPal : kMaxLinesNtsc) + 1) * kCyclesPerLine;
}

SEED_HD SEED_CALL inline void console_reset(Console& console, const Rom& rom, const Display& display,
                                            const Screen& screen, Mt19937& system) {
  if (console.error != ConsoleError::kNone) return;
  riot_reset(console.riot, static_cast<uint8_t>(25 + mt19937_draw(system) % 75));
  if (rom_has_superchip(rom)) {
    for (uint8_t& byte : console.cartridge.ram) byte = static_cast<uint8_t>(mt19937_draw(system));
  }
  cartridge_reset(console.cartridge, rom);
  tia_reset(console.tia);
  console.tia.window_stop_clock = (display.ystart + display.height) * kClocksPerLine;
  console.tia.num_rows = display.height;
  console.tia.drawn_clock = console.tia.seen_clock = kHblankClocks;
  console.tia.limit_cycles = line_limit_cycles(display);
  console.cycles = 0;
  console.carry_cycles = 0;
  console.cpu = Mos6502{};
  console.cpu.SP = 0xff;
  console.cpu.nz = 1;
  console.cpu.PC = static_cast<uint16_t>(cartridge_read(console.cartridge, rom, 0xfffc, 0));
  console.cpu.PC |= static_cast<uint16_t>(cartridge_read(console.cartridge, rom, 0xfffd, 0) << 8);
  for (uint8_t* buffer : screen.buffers) {
    if (buffer != nullptr) fill_pixels(buffer, display.height * kScreenWidth, 0);
  }
}

// Begins a new frame: time starts again at the beam's place in the line, in the other buffer.
SEED_HD inline void console_begin_frame(Console& console, const Display& display) {
  const int32_t carry = static_cast<int32_t>(static_cast<uint32_t>(console.cycles) % kCyclesPerLine);
  const int32_t shift = console.cycles - carry;
  Tia& tia = console.tia;
  console.current_buffer ^= 1;
  console.cycles = carry;
  console.carry_cycles = carry;
  console.riot.timer_stamp_cycles = elapsed_cycles(console.riot.timer_stamp_cycles, shift);
  console.riot.expired_stamp_cycles = elapsed_cycles(console.riot.expired_stamp_cycles, shift);
  console.cartridge.dpc.music_stamp_cycles = elapsed_cycles(console.cartridge.dpc.music_stamp_cycles, shift);
  tia.dump_off_cycles = elapsed_cycles(tia.dump_off_cycles, shift);
  tia.hmove_clock = elapsed_cycles(tia.hmove_clock, clock_of(shift));
  tia.blank_clock = 0;
  if (tia.vsync_due_clock != kNever) tia.vsync_due_clock = elapsed_cycles(tia.vsync_due_clock, clock_of(shift));
  tia.window_start_clock = display.ystart * kClocksPerLine;
  tia.window_stop_clock = tia.window_start_clock + display.height * kClocksPerLine;
  tia.num_rows = display.height;
  tia.line_clock = tia.window_start_clock;
  tia.drawn_clock = tia.seen_clock = tia.window_start_clock + kHblankClocks;
  tia_forget_passed(tia);
  tia.limit_cycles = line_limit_cycles(display);
  tia.colour_loss = display.pal && (console.num_lines & 1);
}

SEED_HD inline void console_end_frame(Console& console) {
  const Tia& tia = console.tia;
  const int32_t clock = clock_of(console.cycles);
  const int32_t stop = clock < tia.window_stop_clock ? clock : tia.window_stop_clock;
  console.rows_reached =
      static_cast<uint16_t>(stop <= tia.window_start_clock ? 0 : (stop - tia.window_start_clock) / kClocksPerLine);
  console.partial = false;
  console.greyed = false;
}

// Dims what a frame call without an end has not reached, as ale-py does.
SEED_HD inline void console_grey_rest(Console& console, const Display& display, uint8_t* pixels) {
  if (console.greyed) return;
  console.greyed = true;
  if (pixels == nullptr) return;
  const int32_t line = console.cycles / kCyclesPerLine - console.tia.window_start_clock / kClocksPerLine;
  for (int32_t i = (line < 0 ? 0 : line) * kScreenWidth; i < display.height * kScreenWidth; ++i) {
    pixels[i] = (pixels[i] & 15) >> 1;
  }
}

SEED_HD inline void console_interpret(Bus& bus) {
  if (bus.rom.program != nullptr && !bus.console.cpu.frozen) {
    cpu_run(bus);
  } else {
    cpu_step_until_done(bus, 0);
  }
}

// Runs the CPU until the frame ends or the instruction limit is reached.
SEED_HD inline void console_run_cpu(Bus& bus) {
#if defined(SEED_DEVICE_CODE)
  cpu_run_lockstep(bus);  // traces, translations and predecoded instructions are the host's
#else
  if (bus.rom.trace != nullptr) {
    console_interpret_traced(bus);
  } else if (bus.rom.translation != nullptr) {
    const Console before = bus.console;
    if (bus.rom.translation->run(bus)) return;
    bus.console = before;  // a frame of unusual length: only the interpreter counts instructions
    console_interpret(bus);
  } else {
    console_interpret(bus);
  }
#endif
}

SEED_HD SEED_FRAME_CALL inline void console_run_frame(Console& console, const Rom& rom, const Display& display,
                                                      const Inputs& inputs, const Screen& screen) {
  if (console.error != ConsoleError::kNone) return;
#if !defined(SEED_DEVICE_CODE)  // a device draws every frame
  FrameStart* const start = screen.starts[(console.current_buffer ^ (console.partial ? 0 : 1)) & 1];
  if (start != nullptr) *start = FrameStart{console, inputs, 0, false};
#endif
  const bool begins = !console.partial;
  Display shown = display;
  if (screen.shades != nullptr) shown.shades = screen.shades;
  if (begins) console_begin_frame(console, shown);
  console.partial = true;
  Bus bus{console, rom, shown, inputs, console_pixels(console, screen)};
  console.tia.frame_done = 0;
  console.tia.line_differs = 1;
  if (bus.pixels != nullptr) {
    for (int reg = kCOLUP0; reg <= kCOLUBK; ++reg) tia_paint(console.tia, shown, reg, console.tia.reg[reg]);
  }
  console_run_cpu(bus);
  tia_draw_until(console.tia, bus.pixels, console.tia.accessed_clock);
  console.tia.accessed_clock = 0;
  console.cpu.bus = 0;  // the next opcode fetch overwrites it; one value keeps snapshots comparable
  console.num_lines = static_cast<uint16_t>(console.cycles / kCyclesPerLine);
  if (console.tia.frame_done) {
    console_end_frame(console);
  } else {
    console_grey_rest(console, display, bus.pixels);
  }
#if !defined(SEED_DEVICE_CODE)
  if (start != nullptr) {
    start->num_rows = begins && !console.partial ? console.rows_reached : static_cast<uint16_t>(0);
    start->whole = start->num_rows >= display.height;
  }
#endif
}

}  // namespace seed
