// SPDX-License-Identifier: Apache-2.0
// Power-on, reset and the frame loop of the console.
#pragma once

#include "machine/console.h"

namespace seed {

SEED_HD inline void console_power_on(Console& console, const Rom& rom, Mt19937& system) {
  console = Console{};
  console.error = rom.accepted ? ConsoleError::kNone : ConsoleError::kBadRom;
  for (uint8_t& byte : console.riot.ram) byte = static_cast<uint8_t>(mt19937_draw(system));
  console.riot.timer = static_cast<uint8_t>(mt19937_draw(system));
}

SEED_HD inline void console_reset(Console& console, const Rom& rom, const Display& display, Screen screen,
                                  Mt19937& system) {
  if (console.error != ConsoleError::kNone) return;
  riot_reset(console.riot, static_cast<uint8_t>(25 + mt19937_draw(system) % 75));
  if (rom_has_superchip(rom)) {
    for (uint8_t& byte : console.cartridge.ram) byte = static_cast<uint8_t>(mt19937_draw(system));
  }
  for (uint8_t* buffer : screen.buffers) {
    if (buffer == nullptr) continue;
    for (int i = 0; i < display.height * kScreenWidth; ++i) buffer[i] = 0;
  }
}

SEED_HD inline void console_run_frame(Console& console, const Rom& rom, const Display& display, const Inputs& inputs,
                                      Screen screen) {
  (void)console, (void)rom, (void)display, (void)inputs, (void)screen;
}

}  // namespace seed
