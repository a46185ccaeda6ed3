// SPDX-License-Identifier: Apache-2.0
// Runs frames of one game, for profilers: only measured_frames() is of interest (callgrind --toggle-collect).
//
//   run_frames ROM GAME MODE FRAMES [TRANSLATION]     MODE: act, blind (act without pixels), vector (8 environments)
//
// Prints a hash of what was computed, so that two builds can be compared.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "envs/atari.h"
#include "games/tables.h"
#include "machine/program.h"
#include "seed/pool.h"
#include "seed/translation.h"

using namespace seed;

namespace {

constexpr int kNumEnvs = 8;
constexpr int kWarmUpFrames = 400;

uint64_t hash_bytes(uint64_t hash, const uint8_t* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

uint32_t next_random(uint32_t& state) {
  state = state * 1664525u + 1013904223u;
  return state >> 8;
}

std::vector<uint8_t> read_file(const char* path) {
  std::vector<uint8_t> bytes;
  if (std::FILE* const file = std::fopen(path, "rb")) {
    for (int c; (c = std::fgetc(file)) != EOF;) bytes.push_back(static_cast<uint8_t>(c));
    std::fclose(file);
  }
  return bytes;
}

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "run_frames: %s\n", what);
  std::exit(2);
}

const Translation* load_translation(const char* path) {
  void* const library = dlopen(path, RTLD_NOW);
  if (library == nullptr) die(dlerror());
  using Describe = const Translation* (*)();
  return reinterpret_cast<Describe>(dlsym(library, "seed_translation"))();
}

struct Machine {
  AtariGame game;
  AtariOptions options;
  AtariState state;
  std::vector<uint8_t> actions;
  std::vector<uint8_t> pictures;
  Screen screen;
  uint32_t random;
};

}  // namespace

extern "C" __attribute__((noinline)) void measured_frames(Machine& machine, int frames) {
  for (int i = 0; i < frames; ++i) {
    const uint8_t action = machine.actions[next_random(machine.random) % machine.actions.size()];
    atari_act(machine.state, machine.game, machine.options, action, 1.0f, machine.screen);
  }
}

extern "C" __attribute__((noinline)) void measured_steps(seed_pool* pool, int num_actions, uint32_t& random,
                                                         const seed_pool_outputs& outputs, int steps) {
  int64_t actions[kNumEnvs];
  for (int i = 0; i < steps; ++i) {
    for (int64_t& action : actions) action = next_random(random) % static_cast<uint32_t>(num_actions);
    if (seed_pool_step(pool, actions, nullptr, &outputs) != SEED_OK) die(seed_last_error());
  }
}

namespace {

uint64_t run_machine(const std::vector<uint8_t>& rom, int game, bool pixels, int frames, const Translation* native) {
  Machine machine{};
  Rom prepared{};
  if (!rom_prepare(prepared, rom.data(), static_cast<uint32_t>(rom.size()),
                   static_cast<CartridgeType>(kGames[game].cartridge)))
    die("the cartridge was not accepted");
  std::vector<Instruction> program(rom_program_length(prepared));
  rom_predecode(prepared, program.data());
  prepared.translation = native;
  machine.game = atari_game(prepared, game, GameTables{kGames, kRuleCode, kGameModes});
  for (uint8_t action = 0; action < kNumActions; ++action) {
    if (machine.game.game.minimal_actions >> action & 1) machine.actions.push_back(action);
  }
  const size_t bytes = size_t{machine.game.display.height} * kScreenWidth;
  machine.pictures.resize(2 * bytes);
  if (pixels) machine.screen = Screen{{machine.pictures.data(), machine.pictures.data() + bytes}};
  atari_load(machine.state, machine.game, machine.options, 1, 0, 0, machine.screen);
  measured_frames(machine, 0);
  for (int i = 0; i < kWarmUpFrames; ++i) {
    const uint8_t action = machine.actions[next_random(machine.random) % machine.actions.size()];
    atari_act(machine.state, machine.game, machine.options, action, 1.0f, machine.screen);
  }
  uint64_t hash = 0;
  for (int done = 0; done < frames; done += 100) {
    if (atari_over(machine.state, machine.game, machine.options))
      atari_reset(machine.state, machine.game, machine.options, machine.screen);
    measured_frames(machine, 100);
    hash = hash_bytes(hash, machine.state.console.riot.ram, 128);
    hash = hash_bytes(hash, machine.pictures.data(), machine.pictures.size());
  }
  return hash;
}

uint64_t run_pool(const std::vector<uint8_t>& rom, int game, int frames) {
  seed_pool_options options;
  seed_pool_default_options(&options);
  options.num_envs = kNumEnvs;
  options.num_threads = 1;
  seed_pool* pool = nullptr;
  if (seed_pool_create(game, rom.data(), static_cast<int64_t>(rom.size()), &options, nullptr, nullptr, &pool))
    die(seed_last_error());
  int32_t num_actions = 0, numbers[18];
  seed_pool_actions(pool, &num_actions, numbers);
  const size_t stack = size_t(options.img_height) * options.img_width * options.stack_num;
  std::vector<uint8_t> observations(kNumEnvs * stack);
  seed_pool_outputs outputs{};
  outputs.observations = observations.data();
  int32_t seeds[kNumEnvs];
  for (int i = 0; i < kNumEnvs; ++i) seeds[i] = i + 1;
  if (seed_pool_reset(pool, nullptr, seeds, nullptr, &outputs)) die(seed_last_error());
  uint32_t random = 1;
  uint64_t hash = 0;
  for (int done = 0; done < frames; done += kNumEnvs * options.frameskip * 10) {
    measured_steps(pool, num_actions, random, outputs, 10);
    hash = hash_bytes(hash, observations.data(), observations.size());
  }
  seed_pool_destroy(pool);
  return hash;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) die("usage: run_frames ROM GAME act|blind|vector FRAMES [TRANSLATION]");
  const std::vector<uint8_t> rom = read_file(arguments[1]);
  const std::string mode = arguments[3];
  const int frames = std::atoi(arguments[4]);
  int32_t game = 0;
  if (rom.empty()) die("the ROM image cannot be read");
  if (seed_game_find(arguments[2], &game) != SEED_OK) die(seed_last_error());
  if (count > 5 && seed_translation_load(game, arguments[5]) != SEED_OK) die(seed_last_error());
  const uint64_t hash = mode == "vector" ? run_pool(rom, game, frames)
                                         : run_machine(rom, game, mode == "act", frames,
                                                       count > 5 ? load_translation(arguments[5]) : nullptr);
  std::printf("%016llx\n", static_cast<unsigned long long>(hash));
  return 0;
}
