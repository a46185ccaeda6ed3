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
SEED_HD inline void lane_start_episode(Lane& lane, const AtariGame& game, const LaneOptions& options,
                                       const Screen& screen) {
  int32_t num_noops = lane_draw_noops(lane, options);
  if (options.fire_at_reset) {
    atari_act(lane.atari, game, options.atari, kFire, 1.0f, screen);
    --num_noops;
  }
  SEED_NO_UNROLL
  for (; num_noops > 0; --num_noops) {
    atari_act(lane.atari, game, options.atari, kNoop, 1.0f, screen);
    if (atari_game_over(lane.atari, game)) atari_reset(lane.atari, game, options.atari, screen);
  }
  lane.lives = atari_lives(lane.atari, game);
  lane.num_frames = 0;
  lane.ended = false;
}

// Starts an episode. The observation shows the last frame.
SEED_HD inline void lane_reset(Lane& lane, const AtariGame& game, const LaneOptions& options, const Screen& screen) {
  atari_reset(lane.atari, game, options.atari, screen);
  lane_start_episode(lane, game, options, screen);
}

SEED_HD inline int32_t clip_reward(int32_t reward) { return reward > 0 ? 1 : reward < 0 ? -1 : 0; }

// A step between two of its frames.
struct LaneProgress {
  uint32_t reward;     // so far
  int32_t num_frames;  // that have begun
  int32_t lives;
  float strength;
  uint8_t action;
  bool runs;  // the console executes the frame that has begun
  bool over, limit, lost;
  bool done;
  Shown shown;
};

// Begins to hold `action` (0..17) for up to frameskip frames.
SEED_HD inline LaneProgress lane_begin_step(const Lane& lane, const AtariGame& game, const LaneOptions& options,
                                            int32_t action, float strength) {
  LaneProgress step{};
  step.lives = lane.lives;
  step.strength = strength;
  step.action = legal_action(game, action);
  step.shown = options.maxpool && options.frameskip > 1 ? Shown::kLastTwoFrames : Shown::kLastFrame;
  return step;
}

// Whether an observation shows the next frame.
SEED_HD inline bool lane_shows_next(const LaneProgress& step, const LaneOptions& options) {
  const int32_t num_shown = options.maxpool && options.frameskip > 1 ? 2 : 1;
  return step.num_frames + num_shown >= options.frameskip;
}

// Begins a frame; if step.runs, the caller runs it with `inputs`.
SEED_HD inline void lane_begin_frame(Lane& lane, const AtariGame& game, const LaneOptions& options, LaneProgress& step,
                                     Inputs& inputs) {
  ++step.num_frames;
  step.runs = atari_begin_frame(lane.atari, game, options.atari, step.action, step.strength, inputs);
}

// Ends it, and sees whether it was the step's last.
SEED_HD inline void lane_end_frame(Lane& lane, const AtariGame& game, const LaneOptions& options, LaneProgress& step) {
  if (step.runs) step.reward += static_cast<uint32_t>(atari_end_frame(lane.atari, game));
  step.over = atari_game_over(lane.atari, game);
  step.limit = ++lane.num_frames == options.max_num_frames;
  step.lives = atari_lives(lane.atari, game);
  step.lost = step.lives > 0 && step.lives < lane.lives;
  const bool last = step.num_frames == options.frameskip;
  step.done = last;
  if (step.over || step.limit || (options.episodic_life && step.lost)) {
    step.shown = last && step.shown == Shown::kLastTwoFrames ? Shown::kPreviousAndFirst : Shown::kNothingNew;
    step.done = lane.ended = true;
  }
}

SEED_HD inline LaneStep lane_end_step(Lane& lane, const LaneOptions& options, const LaneProgress& step) {
  lane.lives = step.lives;
  const int32_t reward = static_cast<int32_t>(step.reward);
  const bool terminated = step.over || ((options.episodic_life || options.life_loss_info) && step.lost);
  return LaneStep{options.reward_clipping ? clip_reward(reward) : reward, terminated, step.limit && !terminated,
                  step.shown};
}

// Holds `action` (0..17) for up to frameskip frames.
template <class Pictures>
SEED_HD inline LaneStep lane_step(Lane& lane, const AtariGame& game, const LaneOptions& options, int32_t action,
                                  float strength, Pictures& pictures) {
  LaneProgress step = lane_begin_step(lane, game, options, action, strength);
  while (!step.done) {
    const Screen screen = pictures.begin_frame(lane.atari.console, lane_shows_next(step, options));
    Inputs inputs;
    lane_begin_frame(lane, game, options, step, inputs);
    if (step.runs) {
      console_run_frame(lane.atari.console, game.rom, game.display, inputs, screen);
      pictures.end_frame(lane.atari.console);
    }
    lane_end_frame(lane, game, options, step);
  }
  return lane_end_step(lane, options, step);
}

}  // namespace seed
