// SPDX-License-Identifier: Apache-2.0
// One environment of the Atari vector: no-op starts, frame skip, episodic life, reward clipping, ends of episodes, as
// ale_py.vector_env.AtariVectorEnv does them.
//
// A Lane is a plain value. It decides which frames run and what an observation shows; how pictures are drawn, pooled,
// resized and stacked is the backend's business, which offers an object `pictures` with two functions:
//
//   Screen pictures.begin_frame(const Console& console, bool shown);  // where to draw the next frame
//   void pictures.end_frame(const Console& console);                  // the frame has run
//
//   atari_load(lane.atari, game, options.atari, seed, env_id, 0, screen);
//   lane_seed(lane, seed, env_id);
//   lane_reset(lane, game, options, screen);
//   for (;;) {
//     const LaneStep step = lane_step(lane, game, options, action, 1.0f, pictures);
//     if (lane.ended) lane_reset(lane, game, options, screen);
//   }
#pragma once

#include <cstdint>
#include <type_traits>

#include "envs/atari.h"

namespace seed {

struct LaneOptions {
  AtariOptions atari;  // with frame_skip 1 and no frame limit
  int32_t frameskip = 4;
  int32_t noop_max = 30;
  int32_t max_num_frames = 108000;  // of an episode's steps, its start not counted; 0: no limit
  bool maxpool = true;
  bool episodic_life = false;
  bool life_loss_info = false;
  bool reward_clipping = true;
  bool fire_at_reset = true;
};

// What an observation's newest picture shows.
enum class Shown : uint8_t {
  kLastFrame,         // the frame that ran last
  kLastTwoFrames,     // the maximum of the last two frames
  kNothingNew,        // the newest picture of the observation before, once more
  kPreviousAndFirst,  // the maximum of that picture and the last frame but one: an episode that ends in the last frame
                      // of a step ends before that frame's picture is taken
};

struct LaneStep {
  int32_t reward;
  bool terminated, truncated;
  Shown shown;
};

struct Lane {
  AtariState atari;
  Mt19937 noop_generator;  // lengths of no-op starts (AtariRng::kAle)
  int32_t lives;           // after the last step or reset
  int32_t num_frames;      // of the episode's steps
  bool ended;              // the episode is over: the lane must be reset
};
static_assert(std::is_trivially_copyable<Lane>::value, "copied with memcpy");

// Restarts the lane's generators, as loading the cartridge with this seed would if loading made no draws.
SEED_HD inline void lane_seed(Lane& lane, uint32_t seed, uint32_t env_id) {
  lane.atari.seed = seed;
  lane.atari.env_id = env_id;
  mt19937_seed(lane.atari.environment, seed);
  mt19937_seed(lane.noop_generator, seed);
}

// Length of a no-op start: 0 .. noop_max - 1.
SEED_HD inline int32_t lane_draw_noops(Lane& lane, const LaneOptions& options) {
  if (options.noop_max <= 0) return 0;
  const AtariState& atari = lane.atari;
  const uint32_t draw = options.atari.rng == AtariRng::kAle
                            ? mt19937_draw(lane.noop_generator)
                            : random_draw(RandomKey{atari.seed, atari.env_id, atari.episode, kNoopDraws}, 0);
  return static_cast<int32_t>((uint64_t{draw} * static_cast<uint32_t>(options.noop_max)) >> 32);
}

// What a reset does after the console's own reset: FIRE, then NOOPs.
SEED_HD inline void lane_start_episode(Lane& lane, const AtariGame& game, const LaneOptions& options, Screen screen) {
  int32_t num_noops = lane_draw_noops(lane, options);
  if (options.fire_at_reset) {
    atari_act(lane.atari, game, options.atari, kFire, 1.0f, screen);
    --num_noops;
  }
  for (int32_t i = 0; i < num_noops; ++i) {
    atari_act(lane.atari, game, options.atari, kNoop, 1.0f, screen);
    if (atari_game_over(lane.atari, game)) atari_reset(lane.atari, game, options.atari, screen);
  }
  lane.lives = atari_lives(lane.atari, game);
  lane.num_frames = 0;
  lane.ended = false;
}

// Starts an episode. The observation shows the last frame.
SEED_HD inline void lane_reset(Lane& lane, const AtariGame& game, const LaneOptions& options, Screen screen) {
  atari_reset(lane.atari, game, options.atari, screen);
  lane_start_episode(lane, game, options, screen);
}

SEED_HD inline int32_t clip_reward(int32_t reward) { return reward > 0 ? 1 : reward < 0 ? -1 : 0; }

// Holds `action` (0..17) for up to frameskip frames.
template <class Pictures>
SEED_HD inline LaneStep lane_step(Lane& lane, const AtariGame& game, const LaneOptions& options, int32_t action,
                                  float strength, Pictures& pictures) {
  const uint8_t legal = legal_action(game, action);
  const int32_t num_shown = options.maxpool && options.frameskip > 1 ? 2 : 1;
  LaneStep step{0, false, false, num_shown == 2 ? Shown::kLastTwoFrames : Shown::kLastFrame};
  uint32_t reward = 0;
  int32_t lives = lane.lives;
  bool over = false, limit = false, lost = false;
  for (int32_t frame = 0; frame < options.frameskip; ++frame) {
    const bool last = frame + 1 == options.frameskip;
    const Screen screen = pictures.begin_frame(lane.atari.console, frame + num_shown >= options.frameskip);
    reward += static_cast<uint32_t>(atari_frame(lane.atari, game, options.atari, legal, strength, screen));
    pictures.end_frame(lane.atari.console);
    over = atari_game_over(lane.atari, game);
    limit = ++lane.num_frames == options.max_num_frames;
    lives = atari_lives(lane.atari, game);
    lost = lives > 0 && lives < lane.lives;
    if (over || limit || (options.episodic_life && lost)) {
      step.shown = last && num_shown == 2 ? Shown::kPreviousAndFirst : Shown::kNothingNew;
      lane.ended = true;
      break;
    }
  }
  lane.lives = lives;
  step.reward = static_cast<int32_t>(reward);
  if (options.reward_clipping) step.reward = clip_reward(step.reward);
  step.terminated = over || ((options.episodic_life || options.life_loss_info) && lost);
  step.truncated = limit && !step.terminated;
  return step;
}

}  // namespace seed
