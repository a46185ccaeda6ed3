// SPDX-License-Identifier: Apache-2.0
// What the pools of both backends do with their options: defaults, checks, and the plain structs that lanes take.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "checks.h"
#include "envs/atari_lane.h"
#include "games/tables.h"
#include "pool/rom_image.h"
#include "seed/pool.h"

namespace seed {

constexpr GameTables kTables{kGames, kRuleCode, kGameModes};

// ale-py's defaults.
inline seed_pool_options default_pool_options() {
  seed_pool_options options{};
  options.num_envs = 1;
  options.thread_affinity_offset = -1;
  options.max_num_frames_per_episode = 108000;
  options.img_height = options.img_width = 84;
  options.grayscale = 1;
  options.stack_num = 4;
  options.frameskip = 4;
  options.maxpool = 1;
  options.noop_max = 30;
  options.reward_clipping = 1;
  options.use_fire_reset = 1;
  options.rng = SEED_RNG_ALE;
  options.use_simd = 1;
  return options;
}

// ---- Checks ------------------------------------------------------------------------------------------------------

inline seed_status check_options(const seed_pool_options& options) {
  constexpr int32_t kMost = 0x7fffffff;
  SEED_CHECK(check_range("num_envs", options.num_envs, 1, 1 << 20));
  SEED_CHECK(check_range("batch_size", options.batch_size, 0, options.num_envs));
  SEED_CHECK(check_range("num_threads", options.num_threads, 0, 1024));
  SEED_CHECK(check_range("thread_affinity_offset", options.thread_affinity_offset, -1, 1 << 16));
  SEED_CHECK(check_range("autoreset", options.autoreset, SEED_AUTORESET_NEXT_STEP, SEED_AUTORESET_DISABLED));
  SEED_CHECK(check_range("img_height", options.img_height, 1, 4096));
  SEED_CHECK(check_range("img_width", options.img_width, 1, 4096));
  SEED_CHECK(check_range("stack_num", options.stack_num, 1, 64));
  SEED_CHECK(check_range("frameskip", options.frameskip, 1, kMost));
  SEED_CHECK(check_range("rng", options.rng, SEED_RNG_ALE, SEED_RNG_COUNTER));
  const float p = options.repeat_action_probability;
  if (!(p >= 0.0f && p <= 1.0f))
    return fail(SEED_INVALID_ARGUMENT, "repeat_action_probability is %g, it must be 0 to 1", double(p));
  return SEED_OK;
}

inline seed_status check_modes(int32_t game_index, int32_t num_envs, const uint8_t* mask, const int32_t* modes,
                               const int32_t* difficulties) {
  const Game& game = kGames[game_index];
  for (int32_t i = 0; i < num_envs; ++i) {
    if (mask != nullptr && mask[i] == 0) continue;
    const uint16_t* const first = kGameModes + game.first_mode;
    if (modes != nullptr && std::find(first, first + game.num_modes, modes[i]) == first + game.num_modes)
      return fail(SEED_INVALID_ARGUMENT, "%s has no mode %d", kGameNames[game_index], modes[i]);
    if (difficulties != nullptr &&
        (difficulties[i] < 0 || difficulties[i] > 3 || (game.difficulties >> difficulties[i] & 1) == 0))
      return fail(SEED_INVALID_ARGUMENT, "%s has no difficulty %d", kGameNames[game_index], difficulties[i]);
  }
  return SEED_OK;
}

// Replaces the values of the lanes of `mask`; NULL = all of them, or no new values.
inline void replace_values(const uint8_t* mask, const int32_t* replacements, std::vector<int32_t>& values) {
  if (replacements == nullptr) return;
  for (size_t i = 0; i < values.size(); ++i)
    if (mask == nullptr || mask[i] != 0) values[i] = replacements[i];
}

inline LaneOptions lane_options_of(const seed_pool_options& options, const Game& game) {
  LaneOptions lane{};
  lane.atari.repeat_action_probability = options.repeat_action_probability;
  lane.atari.frame_skip = 1;
  lane.atari.rng = options.rng == SEED_RNG_ALE ? AtariRng::kAle : AtariRng::kCounter;
  lane.frameskip = options.frameskip;
  lane.noop_max = options.noop_max;
  lane.max_num_frames = std::max(0, options.max_num_frames_per_episode);
  lane.maxpool = options.maxpool != 0;
  lane.episodic_life = options.episodic_life != 0;
  lane.life_loss_info = options.life_loss_info != 0;
  lane.reward_clipping = options.reward_clipping != 0;
  lane.fire_at_reset = options.use_fire_reset != 0 && (game.minimal_actions >> kFire & 1) != 0;
  return lane;
}

// Whether the arguments of seed_pool_create() can make a pool.
inline seed_status check_new_pool(int32_t game, const uint8_t* rom, int64_t rom_size, const seed_pool_options* options,
                                  const int32_t* modes, const int32_t* difficulties, seed_pool** pool) {
  SEED_CHECK(check_range("game", game, 0, kNumGames - 1));
  SEED_CHECK(check_pointer(rom, "rom"));
  SEED_CHECK(check_pointer(options, "options"));
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_options(*options));
  SEED_CHECK(check_modes(game, options->num_envs, nullptr, modes, difficulties));
  return check_rom_size(game, rom_size);
}

// Numbers (0..17) of the discrete actions, ascending.
inline std::vector<uint8_t> action_numbers_of(const seed_pool_options& options, const Game& game) {
  const uint32_t set = options.full_action_space ? game.legal_actions : game.minimal_actions;
  std::vector<uint8_t> numbers;
  for (uint8_t action = 0; action < kNumActions; ++action)
    if (set >> action & 1) numbers.push_back(action);
  return numbers;
}

// What each palette index becomes in one channel: gray, or red, green, blue for channel 0, 1, 2.
inline void fill_map(uint8_t (&values)[256], bool pal, bool grayscale, int channel) {
  const uint8_t* const gray = pal ? kPalGray : kNtscGray;
  const uint8_t* const rgb = pal ? kPalRgb : kNtscRgb;
  for (int value = 0; value < 256; ++value) values[value] = grayscale ? gray[value] : rgb[3 * value + channel];
}

}  // namespace seed
