// SPDX-License-Identifier: Apache-2.0
// The table of games and the single machine behind seed/game.h.
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "checks.h"
#include "checksum.h"
#include "envs/atari.h"
#include "games/tables.h"
#include "machine/console.h"
#include "machine/program.h"
#include "pool/machine_pictures.h"
#include "pool/rom_image.h"
#include "pool/translations.h"
#include "seed/game.h"
#include "seed/translation.h"

struct seed_machine {
  int32_t game_index;
  std::vector<uint8_t> rom_bytes;
  std::vector<seed::Instruction> program;
  seed::AtariGame game;
  seed::AtariOptions options;
  seed::AtariState state;
  mutable seed::MachinePictures pictures;  // looking at one may draw it

  int64_t picture_bytes() const { return int64_t{game.display.height} * seed::kScreenWidth; }
  const uint8_t* picture() const { return pictures.look(state.console, game.rom); }
};

namespace seed {
namespace {

constexpr GameTables kTables{kGames, kRuleCode, kGameModes};

seed_status check_game(int32_t index) {
  if (index >= 0 && index < kNumGames) return SEED_OK;
  return fail(SEED_NOT_FOUND, "game index %d is outside 0..%d", index, kNumGames - 1);
}

seed_status check_options(const seed_machine_options& options) {
  const float p = options.repeat_action_probability;
  if (!(p >= 0.0f && p <= 1.0f)) {
    return fail(SEED_INVALID_ARGUMENT, "repeat_action_probability is %g, it must be 0..1", static_cast<double>(p));
  }
  if (options.frame_skip < 1)
    return fail(SEED_INVALID_ARGUMENT, "frame_skip is %d, it must be >= 1", options.frame_skip);
  if (options.max_num_frames_per_episode < 0) {
    return fail(SEED_INVALID_ARGUMENT, "max_num_frames_per_episode is %d, it must be >= 0 (0 = no limit)",
                options.max_num_frames_per_episode);
  }
  if (options.rng != SEED_RNG_ALE && options.rng != SEED_RNG_COUNTER) {
    return fail(SEED_INVALID_ARGUMENT, "rng is %d, it must be SEED_RNG_ALE or SEED_RNG_COUNTER", options.rng);
  }
  if (options.paddle_max < 0 || options.paddle_max > 10000000) {
    return fail(SEED_INVALID_ARGUMENT, "paddle_max is %d, it must be 0..10000000", options.paddle_max);
  }
  return SEED_OK;
}

seed_status check_state(const seed_machine& machine) {
  switch (machine.state.error) {
    case AtariError::kNone:
      return SEED_OK;
    case AtariError::kBadRom:
      return fail(SEED_INVALID_ARGUMENT, "the cartridge was not accepted");
    case AtariError::kWrongFormat:
      return fail(SEED_INVALID_ARGUMENT, "the cartridge's picture is %s, that of %s is %s: this is another ROM image",
                  machine.game.display.pal ? "NTSC" : "PAL", kGameNames[machine.game_index],
                  machine.game.display.pal ? "PAL" : "NTSC");
    case AtariError::kModeNotReached:
      return fail(SEED_BAD_STATE, "the cartridge did not reach mode %d of %s", machine.state.mode,
                  kGameNames[machine.game_index]);
  }
  return fail(SEED_BAD_STATE, "unknown error");
}

const uint8_t* rgb_palette(bool pal) { return pal ? kPalRgb : kNtscRgb; }
const uint8_t* gray_palette(bool pal) { return pal ? kPalGray : kNtscGray; }

// Writes the kBytes bytes that `palette` has for each pixel. Most pictures are wide areas of one colour: eight pixels
// like the eight before are copied.
template <int kBytes>
void map_pixels(const uint8_t* pixels, int64_t num_pixels, const uint8_t* palette, uint8_t* out) {
  static_assert(kScreenWidth % 8 == 0, "a row is made of blocks of eight pixels");
  for (int64_t i = 0; i < num_pixels; i += 8, out += 8 * kBytes) {
    if (i > 0 && std::memcmp(pixels + i, pixels + i - 8, 8) == 0) {
      std::memcpy(out, out - 8 * kBytes, 8 * kBytes);
      continue;
    }
    for (int k = 0; k < 8; ++k) std::memcpy(out + k * kBytes, palette + kBytes * pixels[i + k], kBytes);
  }
}

// ---- Snapshots ---------------------------------------------------------------------------------------------------

constexpr uint32_t kStateVersion = 2;  // of the format around the state
constexpr char kStateMagic[8] = {'S', 'E', 'E', 'D', 'A', 'T', 'A', 'R'};

struct StateHeader {
  char magic[8];
  uint32_t version;
  uint32_t layout;  // of AtariState
  uint32_t include_rng;
  char game[28];
  uint64_t size_bytes;  // of the whole snapshot
  uint64_t checksum;    // of everything behind the header
};

size_t snapshot_bytes(const seed_machine& machine) {
  return sizeof(StateHeader) + sizeof(AtariState) + 2 * static_cast<size_t>(machine.picture_bytes());
}

StateHeader snapshot_header(const seed_machine& machine, bool include_rng) {
  StateHeader header{};
  std::memcpy(header.magic, kStateMagic, sizeof header.magic);
  header.version = kStateVersion;
  header.layout = atari_state_layout();
  header.include_rng = include_rng;
  std::strncpy(header.game, kGameNames[machine.game_index], sizeof header.game - 1);
  header.size_bytes = snapshot_bytes(machine);
  return header;
}

// atari_act(), a frame at a time.
int32_t act(seed_machine& machine, uint8_t action, float strength) {
  AtariState& state = machine.state;
  uint32_t reward = 0;
  for (int32_t i = 0; i < machine.options.frame_skip; ++i) {
    Inputs inputs;
    if (!atari_begin_frame(state, machine.game, machine.options, action, strength, inputs)) continue;
    machine.pictures.run_frame(state.console, machine.game.rom, [&](Screen screen) {
      console_run_frame(state.console, machine.game.rom, machine.game.display, inputs, screen);
    });
    reward += static_cast<uint32_t>(atari_end_frame(state, machine.game));
  }
  return static_cast<int32_t>(reward);
}

// The random part of a state stays the restoring machine's own when the snapshot was saved without it.
void keep_generators(AtariState& state, const AtariState& own) {
  state.environment = own.environment;
  state.seed = own.seed;
  state.env_id = own.env_id;
  state.episode = own.episode;
  state.num_draws = own.num_draws;
}

}  // namespace
}  // namespace seed

using namespace seed;

extern "C" {

// ---- The table of games --------------------------------------------------------------------------------------------

seed_status seed_game_count(int32_t* count) {
  SEED_CHECK(check_pointer(count, "count"));
  *count = kNumGames;
  return SEED_OK;
}

seed_status seed_game_name(int32_t index, const char** name) {
  SEED_CHECK(check_game(index));
  SEED_CHECK(check_pointer(name, "name"));
  *name = kGameNames[index];
  return SEED_OK;
}

seed_status seed_game_find(const char* name, int32_t* index) {
  SEED_CHECK(check_pointer(name, "name"));
  SEED_CHECK(check_pointer(index, "index"));
  for (int32_t i = 0; i < kNumGames; ++i) {
    if (std::strcmp(kGameNames[i], name) != 0) continue;
    *index = i;
    return SEED_OK;
  }
  return fail(SEED_NOT_FOUND, "there is no game called '%.64s'", name);
}

seed_status seed_game_describe(int32_t index, const char** json) {
  SEED_CHECK(check_game(index));
  SEED_CHECK(check_pointer(json, "json"));
  *json = kGameDescriptions[index];
  return SEED_OK;
}

seed_status seed_game_palette(int32_t pal, uint8_t* rgb, uint8_t* gray) {
  if (rgb != nullptr) std::memcpy(rgb, rgb_palette(pal != 0), 768);
  if (gray != nullptr) std::memcpy(gray, gray_palette(pal != 0), 256);
  return SEED_OK;
}

static_assert(SEED_GAME_VARIABLES == kMaxVariables, "the header must agree with the rules");

seed_status seed_game_initial_variables(int32_t index, int32_t variables[SEED_GAME_VARIABLES]) {
  SEED_CHECK(check_game(index));
  SEED_CHECK(check_pointer(variables, "variables"));
  std::memcpy(variables, kGames[index].initial, sizeof kGames[index].initial);
  return SEED_OK;
}

seed_status seed_game_step(int32_t index, const uint8_t* ram, const uint8_t* cart_ram,
                           int32_t variables[SEED_GAME_VARIABLES], int32_t* reward, int32_t* lives,
                           int32_t* game_over) {
  static const uint8_t no_ram[128] = {};
  SEED_CHECK(check_game(index));
  SEED_CHECK(check_pointer(ram, "ram"));
  SEED_CHECK(check_pointer(variables, "variables"));
  const Game& game = kGames[index];
  const RuleInput input{ram, cart_ram != nullptr ? cart_ram : no_ram, 0};
  rules_step(kRuleCode, game.step, input, variables);
  if (reward != nullptr) *reward = variables[game.reward];
  if (lives != nullptr) *lives = rules_value(kRuleCode, game.lives, input, variables);
  if (game_over != nullptr) *game_over = rules_value(kRuleCode, game.game_over, input, variables) != 0;
  return SEED_OK;
}

// ---- One machine
// -----------------------------------------------------------------------------------------------------

seed_status seed_machine_default_options(seed_machine_options* options) {
  SEED_CHECK(check_pointer(options, "options"));
  *options = seed_machine_options{};
  options->repeat_action_probability = 0.25f;
  options->frame_skip = 1;
  options->rng = SEED_RNG_ALE;
  return SEED_OK;
}

seed_status seed_machine_create(int32_t game, const uint8_t* rom, int64_t rom_size, const seed_machine_options* options,
                                seed_machine** machine) {
  SEED_CHECK(check_game(game));
  SEED_CHECK(check_pointer(rom, "rom"));
  SEED_CHECK(check_pointer(options, "options"));
  SEED_CHECK(check_pointer(machine, "machine"));
  SEED_CHECK(check_options(*options));
  SEED_CHECK(check_rom_size(game, rom_size));
  try {
    std::vector<uint8_t> bytes(rom, rom + rom_size);
    Rom prepared{};
    SEED_CHECK(prepare_rom(game, bytes, prepared));
    std::vector<Instruction> program(rom_program_length(prepared));
    rom_predecode(prepared, program.data());
    prepared.translation = translation_of(game);
    const AtariGame shared = atari_game(prepared, game, kTables);
    const AtariOptions atari_options{options->repeat_action_probability, options->frame_skip,
                                     options->max_num_frames_per_episode,
                                     options->rng == SEED_RNG_ALE ? AtariRng::kAle : AtariRng::kCounter};
    std::unique_ptr<seed_machine> created(new seed_machine{game, std::move(bytes), std::move(program), shared,
                                                           atari_options, AtariState{},
                                                           MachinePictures(shared.display)});
    created->pictures.run_many(created->state, [&](Screen screen) {
      atari_load(created->state, created->game, created->options, static_cast<uint32_t>(options->random_seed),
                 static_cast<uint32_t>(options->env_id), options->paddle_max, screen);
    });
    SEED_CHECK(check_state(*created));
    *machine = created.release();
    return SEED_OK;
  } catch (const std::bad_alloc&) {
    return fail(SEED_OUT_OF_MEMORY, "not enough memory for a machine");
  }
}

seed_status seed_machine_trace(seed_machine* machine, uint8_t* trace) {
  SEED_CHECK(check_pointer(machine, "machine"));
  machine->game.rom.trace = trace;
  return SEED_OK;
}

seed_status seed_machine_destroy(seed_machine* machine) {
  delete machine;
  return SEED_OK;
}

seed_status seed_machine_reset(seed_machine* machine) {
  SEED_CHECK(check_pointer(machine, "machine"));
  machine->pictures.run_many(
      machine->state, [&](Screen screen) { atari_reset(machine->state, machine->game, machine->options, screen); });
  return check_state(*machine);
}

seed_status seed_machine_act(seed_machine* machine, int32_t action, float paddle_strength, int32_t* reward) {
  SEED_CHECK(check_pointer(machine, "machine"));
  SEED_CHECK(check_pointer(reward, "reward"));
  SEED_CHECK(check_state(*machine));
  if (!std::isfinite(paddle_strength)) return fail(SEED_INVALID_ARGUMENT, "paddle_strength must be a finite number");
  *reward = act(*machine, legal_action(machine->game, action), paddle_strength);
  return SEED_OK;
}

seed_status seed_machine_lives(const seed_machine* machine, int32_t* lives) {
  SEED_CHECK(check_pointer(machine, "machine"));
  SEED_CHECK(check_pointer(lives, "lives"));
  *lives = atari_lives(machine->state, machine->game);
  return SEED_OK;
}

seed_status seed_machine_game_over(const seed_machine* machine, int32_t* game_over, int32_t* truncated) {
  SEED_CHECK(check_pointer(machine, "machine"));
  if (game_over != nullptr) *game_over = atari_game_over(machine->state, machine->game);
  if (truncated != nullptr) *truncated = atari_truncated(machine->state, machine->options);
  return SEED_OK;
}

seed_status seed_machine_frame_numbers(const seed_machine* machine, int32_t* total, int32_t* episode) {
  SEED_CHECK(check_pointer(machine, "machine"));
  if (total != nullptr) *total = machine->state.frame_number;
  if (episode != nullptr) *episode = machine->state.episode_frame_number;
  return SEED_OK;
}

seed_status seed_machine_ram(const seed_machine* machine, uint8_t* ram) {
  SEED_CHECK(check_pointer(machine, "machine"));
  SEED_CHECK(check_pointer(ram, "ram"));
  std::memcpy(ram, machine->state.console.riot.ram, sizeof machine->state.console.riot.ram);
  return SEED_OK;
}

seed_status seed_machine_set_ram(seed_machine* machine, int32_t index, uint8_t value) {
  SEED_CHECK(check_pointer(machine, "machine"));
  if (index < 0 || index > 127) return fail(SEED_INVALID_ARGUMENT, "RAM index %d is outside 0..127", index);
  machine->state.console.riot.ram[index] = value;
  return SEED_OK;
}

seed_status seed_machine_screen(const seed_machine* machine, const uint8_t** pixels, int32_t* height, int32_t* width) {
  SEED_CHECK(check_pointer(machine, "machine"));
  if (pixels != nullptr) *pixels = machine->picture();
  if (height != nullptr) *height = machine->game.display.height;
  if (width != nullptr) *width = kScreenWidth;
  return SEED_OK;
}

seed_status seed_machine_screen_rgb(const seed_machine* machine, uint8_t* rgb) {
  SEED_CHECK(check_pointer(machine, "machine"));
  SEED_CHECK(check_pointer(rgb, "rgb"));
  map_pixels<3>(machine->picture(), machine->picture_bytes(), rgb_palette(machine->game.display.pal), rgb);
  return SEED_OK;
}

seed_status seed_machine_screen_grayscale(const seed_machine* machine, uint8_t* gray) {
  SEED_CHECK(check_pointer(machine, "machine"));
  SEED_CHECK(check_pointer(gray, "gray"));
  map_pixels<1>(machine->picture(), machine->picture_bytes(), gray_palette(machine->game.display.pal), gray);
  return SEED_OK;
}

seed_status seed_machine_set_mode(seed_machine* machine, int32_t mode) {
  SEED_CHECK(check_pointer(machine, "machine"));
  const Game& game = machine->game.game;
  for (int i = 0; i < game.num_modes; ++i) {
    if (kGameModes[game.first_mode + i] != mode) continue;
    machine->state.mode = mode;
    return SEED_OK;
  }
  return fail(SEED_INVALID_ARGUMENT, "%s has no mode %d", kGameNames[machine->game_index], mode);
}

seed_status seed_machine_set_difficulty(seed_machine* machine, int32_t difficulty) {
  SEED_CHECK(check_pointer(machine, "machine"));
  if (difficulty < 0 || difficulty > 3 || (machine->game.game.difficulties >> difficulty & 1) == 0) {
    return fail(SEED_INVALID_ARGUMENT, "%s has no difficulty %d", kGameNames[machine->game_index], difficulty);
  }
  machine->state.difficulty = static_cast<uint8_t>(difficulty);
  return SEED_OK;
}

seed_status seed_machine_mode(const seed_machine* machine, int32_t* mode, int32_t* difficulty) {
  SEED_CHECK(check_pointer(machine, "machine"));
  if (mode != nullptr) *mode = machine->state.mode;
  if (difficulty != nullptr) *difficulty = machine->state.difficulty;
  return SEED_OK;
}

seed_status seed_machine_paddle_max(const seed_machine* machine, int32_t* paddle_max) {
  SEED_CHECK(check_pointer(machine, "machine"));
  SEED_CHECK(check_pointer(paddle_max, "paddle_max"));
  *paddle_max = machine->state.paddle_max;
  return SEED_OK;
}

seed_status seed_machine_state_size(const seed_machine* machine, int64_t* size) {
  SEED_CHECK(check_pointer(machine, "machine"));
  SEED_CHECK(check_pointer(size, "size"));
  *size = static_cast<int64_t>(snapshot_bytes(*machine));
  return SEED_OK;
}

seed_status seed_machine_save(const seed_machine* machine, int32_t include_rng, uint8_t* state, int64_t size) {
  SEED_CHECK(check_pointer(machine, "machine"));
  SEED_CHECK(check_pointer(state, "state"));
  if (size != static_cast<int64_t>(snapshot_bytes(*machine))) {
    return fail(SEED_INVALID_ARGUMENT, "the buffer has %lld bytes, a state has %lld", static_cast<long long>(size),
                static_cast<long long>(snapshot_bytes(*machine)));
  }
  uint8_t* const body = state + sizeof(StateHeader);
  AtariState settled = machine->state;  // whether or not anybody looks at pictures, equal states have equal bytes
  tia_settle(settled.console.tia);
  std::memcpy(body, &settled, sizeof settled);
  machine->pictures.draw_all(machine->game.rom);
  const std::vector<uint8_t>& pixels = machine->pictures.pixels();
  std::memcpy(body + sizeof machine->state, pixels.data(), pixels.size());
  StateHeader header = snapshot_header(*machine, include_rng != 0);
  header.checksum = hash_bytes(body, sizeof machine->state + pixels.size());
  std::memcpy(state, &header, sizeof header);
  return SEED_OK;
}

seed_status seed_machine_restore(seed_machine* machine, const uint8_t* state, int64_t size) {
  SEED_CHECK(check_pointer(machine, "machine"));
  SEED_CHECK(check_pointer(state, "state"));
  StateHeader header;
  if (size < static_cast<int64_t>(sizeof header)) return fail(SEED_INVALID_ARGUMENT, "this is not a saved state");
  std::memcpy(&header, state, sizeof header);
  const StateHeader expected = snapshot_header(*machine, header.include_rng != 0);
  if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0) {
    return fail(SEED_INVALID_ARGUMENT, "this is not a saved state");
  }
  if (header.version != expected.version || header.layout != expected.layout) {
    return fail(SEED_INVALID_ARGUMENT, "the state was saved by another version of the library, in another format");
  }
  if (std::memcmp(header.game, expected.game, sizeof header.game) != 0) {
    return fail(SEED_INVALID_ARGUMENT, "the state is one of %.27s, the machine runs %s", header.game, expected.game);
  }
  const uint8_t* const body = state + sizeof header;
  if (header.size_bytes != expected.size_bytes || size != static_cast<int64_t>(expected.size_bytes) ||
      header.checksum != hash_bytes(body, expected.size_bytes - sizeof header)) {
    return fail(SEED_INVALID_ARGUMENT, "the state is damaged");
  }
  const AtariState own = machine->state;
  std::memcpy(&machine->state, body, sizeof machine->state);
  std::vector<uint8_t>& pixels = machine->pictures.pixels();
  std::memcpy(pixels.data(), body + sizeof machine->state, pixels.size());
  machine->pictures.replaced();
  if (header.include_rng == 0) keep_generators(machine->state, own);
  return SEED_OK;
}
}
