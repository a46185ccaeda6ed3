// SPDX-License-Identifier: Apache-2.0
// The Atari 2600: one console that executes one cartridge, frame by frame, exactly as ale-py 0.12 does.
//
// The console is a plain value. It owns no memory, does no I/O and holds no pointer, so a snapshot, a clone or a copy
// to a device is one memcpy. What many consoles share (the cartridge) or may not need (the picture) is passed in by the
// caller. The smallest loop that drives it:
//
//   Rom rom;
//   if (!rom_prepare(rom, bytes, size_bytes, CartridgeType::kF8)) ...;        // bytes stay the caller's, and alive
//   std::vector<Instruction> program(rom_program_length(rom));                 // optional: predecoded instructions
//   rom_predecode(rom, program.data());
//   Mt19937 system;
//   mt19937_seed(system, kSystemSeed);
//   Console console;
//   console_power_on(console, rom, system);                                    // RAM and timer from the generator
//   console_reset(console, rom, display, screen, system);                      // RESET line of the CPU: RAM survives
//   for (;;) {
//     console_run_frame(console, rom, display, inputs, screen);
//     use(console.riot.ram, screen.buffers[console.current_buffer]);
//   }
//
// Time is counted in CPU cycles since the start of the frame (76 per scanline); a colour clock is a third of a cycle.
// See docs/machine.md for timing, lazy drawing and what is skipped without a trace.
#pragma once

#include <cstdint>
#include <type_traits>

#include "machine/cartridge.h"
#include "machine/mos6502.h"
#include "machine/mt19937.h"
#include "machine/program.h"
#include "machine/riot.h"
#include "machine/tia.h"
#include "portability.h"

namespace seed {

// Seed of the generator that ale-py draws power-on RAM and timers from (its setting `system_random_seed`).
constexpr uint32_t kSystemSeed = 4753849;

// A frame call returns after this many instructions even when no frame was completed (a partial frame).
constexpr int kMaxInstructionsPerFrame = 25000;

// Why a console refuses to run. Set by console_power_on; every later call on that console then does nothing.
enum class ConsoleError : uint8_t {
  kNone = 0,
  kBadRom = 1,  // the Rom was not accepted by rom_prepare
};

// Everything that changes while the console runs, and nothing else.
struct Console {
  Mos6502 cpu;
  Riot riot;  // riot.ram: the 128 bytes that ale-py's getRAM() returns
  Tia tia;
  Cartridge cartridge;     // cartridge.ram: Superchip RAM; index i is CPU address F080 + i
  int32_t cycles;          // since the start of the frame
  int32_t carry_cycles;    // cycles of the frame's first line that had passed when the frame call began
  uint16_t num_lines;      // scanlines that the last frame call completed, also of a partial frame
  uint16_t rows_reached;   // rows of the picture that the last frame call got to: below it the buffer keeps the
                           // picture of two frames ago
  uint8_t current_buffer;  // index of the picture drawn last
  bool partial;            // the last frame call hit kMaxInstructionsPerFrame; the next one continues that frame
  bool greyed;             // the rows below the beam have been dimmed for this partial frame
  ConsoleError error;
};
static_assert(std::is_trivially_copyable<Console>::value, "copied with memcpy");
static_assert(sizeof(Console) <= 1024, "per-lane state must stay small");

// How a frame began.
struct FrameStart {
  Console console;  // just before the frame
  Inputs inputs;
  uint16_t num_rows;  // from the top, that one frame call drew; below, something of the picture before may be left
  bool whole;         // those are all
};

// The two picture buffers of a console: Display::height rows x kScreenWidth bytes each, palette indices (0..255), row 0
// on top. A frame is drawn into one while the other keeps the frame before. Both null: no pixels wanted; everything
// else (RAM, collisions, timing) stays exact. To be exact in rows that a short frame does not reach (rows_reached <
// height), the frame two before must have been drawn as well.
//
// Where pictures are drawn only when somebody looks, `starts` keep what it takes to draw them later; see
// console_draw_again().
struct Screen {
  uint8_t* buffers[2];
  FrameStart* starts[2] = {nullptr, nullptr};  // receive how the picture in each buffer began; null: not wanted
  const uint8_t* shades = nullptr;  // as Display::shades, for this frame; all frames of a buffer need the same
};

// Fills the RAM with 128 draws and the timer with one, as switching the console on does. Needs one console_reset before
// the first frame.
SEED_HD inline void console_power_on(Console& console, const Rom& rom, Mt19937& system);

// Restarts CPU, TIA, RIOT and bank switching; keeps RAM; clears both buffers. Takes 1 draw (129 with Superchip RAM).
SEED_HD SEED_CALL inline void console_reset(Console& console, const Rom& rom, const Display& display,
                                            const Screen& screen, Mt19937& system);

// Emulates until the program ends the frame (VSYNC), exceeds the line limit or executes kMaxInstructionsPerFrame
// instructions. `inputs` hold for the whole call.
SEED_HD SEED_FRAME_CALL inline void console_run_frame(Console& console, const Rom& rom, const Display& display,
                                                      const Inputs& inputs, const Screen& screen);

// Draws the picture of a frame that was run before, into the buffer that it had.
SEED_HD inline void console_draw_again(const FrameStart& start, const Rom& rom, const Display& display, Screen screen) {
  Console console = start.console;
  screen.starts[0] = screen.starts[1] = nullptr;
  console_run_frame(console, rom, display, start.inputs, screen);
}

}  // namespace seed

#include "machine/console_run.h"
