// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes are a cartridge, any bytes are what the player does. Nothing may be read or written outside.
//
//   make fuzz            ten minutes of libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer
//   fuzz_console FILE    runs one input again
//
// An input: the game whose cartridge type and rules are used, then 4 bytes of seed, then the ROM, repeated to its size.
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "envs/atari.h"
#include "games/tables.h"

using namespace seed;

namespace {
constexpr GameTables kTables{kGames, kRuleCode, kGameModes};
constexpr int kNumFrames = 12;
constexpr size_t kHeaderBytes = 5;
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size <= kHeaderBytes) return 0;
  const int game_index = data[0] % kNumGames;
  uint32_t seed;
  std::memcpy(&seed, data + 1, sizeof seed);
  std::vector<uint8_t> bytes(kGames[game_index].rom_size);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = data[kHeaderBytes + i % (size - kHeaderBytes)];

  Rom rom{};
  if (!rom_prepare(rom, bytes.data(), static_cast<uint32_t>(bytes.size()),
                   static_cast<CartridgeType>(kGames[game_index].cartridge))) {
    return 0;
  }
  const AtariGame game = atari_game(rom, game_index, kTables);
  // Exactly as large as the picture, so that a pixel outside is a heap overflow that the sanitizer sees.
  const size_t picture_bytes = size_t{game.display.height} * kScreenWidth;
  std::vector<uint8_t> first(picture_bytes), second(picture_bytes);
  const Screen screen{{first.data(), second.data()}};
  Mt19937 system;
  mt19937_seed(system, seed);
  auto console = std::make_unique<Console>();
  console_power_on(*console, rom, system);
  console_reset(*console, rom, game.display, screen, system);
  Inputs inputs;
  for (int frame = 0; frame < kNumFrames; ++frame) {
    const uint32_t draw = mt19937_draw(system);
    inputs.swcha = static_cast<uint8_t>(draw);
    inputs.swchb = static_cast<uint8_t>(draw >> 8);
    inputs.trigger_pressed[0] = draw & 0x10000;
    inputs.paddle_resistance_ohms[0] = static_cast<int32_t>(draw % 1000000);
    console_run_frame(*console, rom, game.display, inputs, frame % 3 == 2 ? Screen{{nullptr, nullptr}} : screen);
    if (frame == 7) console_reset(*console, rom, game.display, screen, system);
  }
  return 0;
}
