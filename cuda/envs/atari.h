// SPDX-License-Identifier: Apache-2.0
// The Arcade Learning Environment around the console: actions, sticky actions, rewards, episodes, modes, exactly as
// ale-py 0.12 does it.
//
// An AtariState is one environment, a plain value; what environments of a game share comes in an AtariGame. The
// smallest loop that drives it:
//
//   const AtariGame game = atari_game(rom, index, tables);
//   AtariState state;
//   atari_load(state, game, options, screen);     // power-on, probe, first reset
//   for (;;) {
//     reward = atari_act(state, game, options, action, 1.0f, screen);
//     if (atari_over(state, game, options)) atari_reset(state, game, options, screen);
//   }
//
// Numbers in comments are ale-py's behaviour, observed from outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "games/game.h"
#include "machine/console.h"
#include "machine/mt19937.h"
#include "portability.h"
#include "random.h"

namespace seed {

constexpr int32_t kPaddleMin = 27450;
constexpr int32_t kPaddleMax = 790196;  // some games raise it
constexpr int32_t kPaddleStep = 23000;  // resistance that a full push changes in a frame
constexpr int kProbeFrames = 60;
constexpr int kResetFrames = 60;     // NOOP frames after the console's reset
constexpr int kSoftResetFrames = 4;  // frames that the RESET switch is held
// A mode search that goes on for longer is given up (an act() counts as one frame): the longest of the table, cube 50
// of video_cube, takes 916.
constexpr int32_t kMaxModeFrames = 20000;

enum class AtariRng : uint8_t {
  kAle,      // mt19937, draw for draw as ale-py
  kCounter,  // random_draw(): independent of how many draws were made before the episode
};

// Purposes of the counter-based draws.
enum AtariDraws : uint32_t { kStepDraws = 0, kNoopDraws = 1 };

enum class AtariError : uint8_t {
  kNone = 0,
  kBadRom,          // the console refuses the cartridge
  kWrongFormat,     // the probe found PAL where the table of games says NTSC, or the reverse
  kModeNotReached,  // the mode search failed; the episode cannot be played
};

struct AtariOptions {
  float repeat_action_probability = 0.25f;
  int32_t frame_skip = 1;
  int32_t max_num_frames_per_episode = 0;  // 0: no limit
  AtariRng rng = AtariRng::kAle;
};

// What all environments of a game share; made by atari_game().
struct AtariGame {
  Rom rom;
  Game game;
  const uint8_t* rule_code;
  Display display;
  int32_t default_mode;
};

struct AtariState {
  Console console;
  int32_t variables[kMaxVariables];  // of the game's rules
  int32_t frame_number;              // since load; counted are frames of act() and one for each SELECT press
  int32_t episode_frame_number;
  int32_t paddle_resistance;  // of the agent's paddle; the other one stays in the middle
  int32_t paddle_max;
  int32_t mode;            // takes effect at the next reset
  float current_strength;  // of the current action
  uint32_t seed;
  uint32_t env_id;
  uint32_t episode;        // resets so far, the one at load included
  uint32_t num_draws;      // since the reset (counter-based draws)
  uint8_t current_action;  // the sticky one
  uint8_t difficulty;      // bit 0 left switch A, bit 1 right switch A
  AtariError error;
  Mt19937 environment;  // sticky actions, random mode changes, no-op starts
  Mt19937 system;       // timers and cartridge RAM at each machine reset
};
static_assert(std::is_trivially_copyable<AtariState>::value, "copied with memcpy");

// Raised whenever a member of AtariState, or of what it contains, changes its meaning but not its place.
constexpr uint32_t kAtariStateMeaning = 1;

// A number that changes with the layout of AtariState: states are saved byte for byte, and one of another layout must
// be refused.
constexpr uint32_t atari_state_layout() {
  const size_t sizes[] = {kAtariStateMeaning,
                          sizeof(AtariState),
                          sizeof(Console),
                          sizeof(Tia),
                          sizeof(Riot),
                          sizeof(Cartridge),
                          sizeof(Mos6502),
                          offsetof(Console, tia),
                          offsetof(Console, cartridge),
                          offsetof(Console, cycles),
                          offsetof(Tia, reg),
                          offsetof(Tia, position)};
  uint32_t hash = 0x811c9dc5u;  // FNV-1a
  for (const size_t size : sizes) hash = (hash ^ static_cast<uint32_t>(size)) * 0x01000193u;
  return hash;
}

// ---- Shared data -------------------------------------------------------------------------------------------------

inline AtariGame atari_game(const Rom& rom, int index, const GameTables& tables) {
  const Game& game = tables.games[index];
  Display display{};
  display.pal = game.pal != 0;
  display.ystart = game.ystart;
  display.height = game.height;
  display.hmove_blanks = game.hmove_blanks != 0;
  return AtariGame{rom, game, tables.code, display, tables.modes[game.first_mode]};
}

// ---- Random draws ------------------------------------------------------------------------------------------------

// The next draw of the environment's generator, uniform in 0 .. 2^32 - 1.
SEED_HD inline uint32_t atari_draw(AtariState& state, AtariRng rng) {
  if (rng == AtariRng::kAle) return mt19937_draw(state.environment);
  return random_draw(RandomKey{state.seed, state.env_id, state.episode, kStepDraws}, state.num_draws++);
}

// A draw in 0 .. bound - 1 for the length of a no-op start.
SEED_HD inline uint32_t atari_draw_noops(AtariState& state, AtariRng rng, uint32_t bound) {
  const uint32_t draw = rng == AtariRng::kAle
                            ? mt19937_draw(state.environment)
                            : random_draw(RandomKey{state.seed, state.env_id, state.episode, kNoopDraws}, 0);
  return static_cast<uint32_t>((uint64_t{draw} * bound) >> 32);
}

// ---- Inputs ------------------------------------------------------------------------------------------------------

enum Direction : uint8_t { kDirUp = 1, kDirDown = 2, kDirLeft = 4, kDirRight = 8, kDirFire = 16 };

// Directions and trigger of an action.
SEED_HD inline uint8_t action_directions(uint8_t action) {
  switch (action) {
    case kFire:
      return kDirFire;
    case kUp:
      return kDirUp;
    case kRight:
      return kDirRight;
    case kLeft:
      return kDirLeft;
    case kDown:
      return kDirDown;
    case kUpRight:
      return kDirUp | kDirRight;
    case kUpLeft:
      return kDirUp | kDirLeft;
    case kDownRight:
      return kDirDown | kDirRight;
    case kDownLeft:
      return kDirDown | kDirLeft;
    case kUpFire:
      return kDirUp | kDirFire;
    case kRightFire:
      return kDirRight | kDirFire;
    case kLeftFire:
      return kDirLeft | kDirFire;
    case kDownFire:
      return kDirDown | kDirFire;
    case kUpRightFire:
      return kDirUp | kDirRight | kDirFire;
    case kUpLeftFire:
      return kDirUp | kDirLeft | kDirFire;
    case kDownRightFire:
      return kDirDown | kDirRight | kDirFire;
    case kDownLeftFire:
      return kDirDown | kDirLeft | kDirFire;
    default:
      return 0;
  }
}

SEED_HD inline bool is_paddle(Controller controller) {
  return controller == Controller::kPaddle || controller == Controller::kPaddleSwapped;
}

// The ports with nothing pressed.
SEED_HD inline Inputs released_inputs(const AtariState& state, const Game& game) {
  Inputs inputs{};
  inputs.swchb = static_cast<uint8_t>(0x3f | (state.difficulty & 3) << 6);
  if (is_paddle(game.controller)) {
    const bool swapped = game.controller == Controller::kPaddleSwapped;
    inputs.paddle_resistance_ohms[swapped ? 1 : 0] = state.paddle_resistance;
    inputs.paddle_resistance_ohms[swapped ? 0 : 1] = (kPaddleMin + state.paddle_max) / 2;
    if (swapped)
      inputs.paddle_resistance_ohms[2] = inputs.paddle_resistance_ohms[3] = 0;  // a second pair is plugged in
  }
  return inputs;
}

// The ports with `action` held.
SEED_HD SEED_CALL inline Inputs action_inputs(const AtariState& state, const Game& game, uint8_t action) {
  Inputs inputs = released_inputs(state, game);
  if (action == kConsoleReset) {
    inputs.swchb &= 0xfe;
    return inputs;
  }
  const uint8_t directions = action_directions(action);
  const bool fire = (directions & kDirFire) != 0;
  switch (game.controller) {
    case Controller::kJoystickLeft:
      inputs.swcha = static_cast<uint8_t>(~((directions & 15) << 4));
      inputs.trigger_pressed[0] = fire;
      break;
    case Controller::kJoystickRight:
      inputs.swcha = static_cast<uint8_t>(~(directions & 15));
      inputs.trigger_pressed[1] = fire;
      break;
    case Controller::kPaddle:
      if (fire) inputs.swcha = 0x7f;
      break;
    case Controller::kPaddleSwapped:
      if (fire) inputs.swcha = 0xbf;
      break;
  }
  return inputs;
}

// Turns the agent's paddle as the horizontal part of `action` says.
SEED_HD inline void move_paddle(AtariState& state, uint8_t action, float strength) {
  const uint8_t directions = action_directions(action);
  if ((directions & (kDirLeft | kDirRight)) == 0) return;
  const double magnitude = strength < 0 ? -static_cast<double>(strength) : static_cast<double>(strength);
  // Bounded, so that the conversion below is defined for every strength, NaN included.
  const double step = magnitude < 100.0 ? kPaddleStep * magnitude : 100.0 * kPaddleStep;
  const int32_t moved = static_cast<int32_t>(step);
  int32_t resistance = state.paddle_resistance + ((directions & kDirRight) ? -moved : moved);
  if (resistance < kPaddleMin) resistance = kPaddleMin;
  if (resistance > state.paddle_max) resistance = state.paddle_max;
  state.paddle_resistance = resistance;
}

// ---- Frames ------------------------------------------------------------------------------------------------------

SEED_HD inline RuleInput rule_input(const AtariState& state) {
  return RuleInput{state.console.riot.ram, state.console.cartridge.ram, state.mode};
}

// One frame of the console followed by one step of the rules.
SEED_HD SEED_CALL inline void run_stepped_frame(AtariState& state, const AtariGame& game, const Inputs& inputs,
                                                const Screen& screen) {
  console_run_frame(state.console, game.rom, game.display, inputs, screen);
  rules_step(game.rule_code, game.game.step, rule_input(state), state.variables);
}

SEED_HD inline int32_t atari_lives(const AtariState& state, const AtariGame& game) {
  return rules_value(game.rule_code, game.game.lives, rule_input(state), state.variables);
}

// The game itself has ended.
SEED_HD inline bool atari_game_over(const AtariState& state, const AtariGame& game) {
  if (game.game.terminal != kByRule) return state.variables[game.game.terminal] != 0;
  return rules_value(game.rule_code, game.game.game_over, rule_input(state), state.variables) != 0;
}

// The episode has reached the frame limit.
SEED_HD inline bool atari_truncated(const AtariState& state, const AtariOptions& options) {
  return options.max_num_frames_per_episode > 0 && state.episode_frame_number >= options.max_num_frames_per_episode;
}

SEED_HD inline bool atari_over(const AtariState& state, const AtariGame& game, const AtariOptions& options) {
  return atari_truncated(state, options) || atari_game_over(state, game);
}

// Draws what the environment does with `action` in this frame. ale-py draws for two players, and at each frame,
// whatever the probability.
SEED_HD inline void draw_sticky_action(AtariState& state, const AtariOptions& options, uint8_t action, float strength) {
  const double bound = static_cast<double>(options.repeat_action_probability) * 4294967296.0;
  const uint32_t draw = atari_draw(state, options.rng);
  if (options.rng == AtariRng::kAle) atari_draw(state, options.rng);
  if (static_cast<double>(draw) < bound) return;
  state.current_action = action;
  state.current_strength = strength;
}

// What comes before one of the frames of an act(): `action` must be legal. Returns whether the frame runs, and what is
// held meanwhile; it does not when the episode is over.
SEED_HD inline bool atari_begin_frame(AtariState& state, const AtariGame& game, const AtariOptions& options,
                                      uint8_t action, float strength, Inputs& inputs) {
  draw_sticky_action(state, options, action, strength);
  if (atari_over(state, game, options)) return false;
  move_paddle(state, state.current_action, state.current_strength);
  inputs = action_inputs(state, game.game, state.current_action);
  return true;
}

// What comes after it. Returns the reward.
SEED_HD inline int32_t atari_end_frame(AtariState& state, const AtariGame& game) {
  rules_step(game.rule_code, game.game.step, rule_input(state), state.variables);
  ++state.frame_number;
  ++state.episode_frame_number;
  return state.variables[game.game.reward];
}

// One of the frame_skip frames of an act(). Returns the reward.
SEED_HD SEED_CALL inline int32_t atari_frame(AtariState& state, const AtariGame& game, const AtariOptions& options,
                                             uint8_t action, float strength, const Screen& screen) {
  Inputs inputs;
  if (!atari_begin_frame(state, game, options, action, strength, inputs)) return 0;
  console_run_frame(state.console, game.rom, game.display, inputs, screen);
  return atari_end_frame(state, game);
}

// The action that is carried out for any number an agent may give.
SEED_HD inline uint8_t legal_action(const AtariGame& game, int32_t action) {
  const bool legal = action >= 0 && action < kNumActions && (game.game.legal_actions >> action & 1) != 0;
  return legal ? static_cast<uint8_t>(action) : static_cast<uint8_t>(kNoop);
}

// Holds `action` for frame_skip frames; returns the sum of rewards.
SEED_HD SEED_CALL inline int32_t atari_act(AtariState& state, const AtariGame& game, const AtariOptions& options,
                                           int32_t action, float strength, const Screen& screen) {
  const uint8_t legal = legal_action(game, action);
  uint32_t reward = 0;
  SEED_NO_UNROLL
  for (int32_t i = 0; i < options.frame_skip; ++i) {
    reward += static_cast<uint32_t>(atari_frame(state, game, options, legal, strength, screen));
  }
  return static_cast<int32_t>(reward);
}

// ---- Reset -------------------------------------------------------------------------------------------------------

SEED_HD SEED_CALL inline void soft_reset(AtariState& state, const AtariGame& game, const Screen& screen) {
  const Inputs inputs = action_inputs(state, game.game, kConsoleReset);
  SEED_NO_UNROLL
  for (int i = 0; i < kSoftResetFrames; ++i) run_stepped_frame(state, game, inputs, screen);
  state.current_action = kNoop;
}

// SELECT held for `frames` frames, which the rules do not see, then a frame that they see.
SEED_HD SEED_CALL inline void press_select(AtariState& state, const AtariGame& game, int32_t frames,
                                           const Screen& screen) {
  const Inputs released = released_inputs(state, game.game);
  Inputs pressed = released;
  pressed.swchb &= 0xfd;
  SEED_NO_UNROLL
  for (; frames > 0; --frames) console_run_frame(state.console, game.rom, game.display, pressed, screen);
  run_stepped_frame(state, game, released, screen);
  ++state.frame_number;
  ++state.episode_frame_number;
}

// Brings the cartridge into the requested mode.
SEED_HD inline void search_mode(AtariState& state, const AtariGame& game, const AtariOptions& options,
                                const Screen& screen) {
  uint32_t position = game.game.set_mode;
  for (int32_t frames = 0; frames < kMaxModeFrames;) {
    ModeRequest request = rules_next_request(game.rule_code, position, rule_input(state), state.variables);
    if (request.kind == ModeRequest::kPressRandom)
      request.frames += static_cast<int32_t>(atari_draw(state, options.rng) % request.modulus);
    frames += request.frames + 1;
    switch (request.kind) {
      case ModeRequest::kDone:
        return;
      case ModeRequest::kPressRandom:
      case ModeRequest::kPressSelect:
        press_select(state, game, request.frames, screen);
        break;
      case ModeRequest::kAct:
        atari_act(state, game, options, legal_action(game, request.action), 1.0f, screen);
        break;
      case ModeRequest::kSoftReset:
        soft_reset(state, game, screen);
        break;
      case ModeRequest::kFail:
        frames = kMaxModeFrames;
        break;
    }
  }
  state.error = AtariError::kModeNotReached;
}

SEED_HD SEED_CALL inline void reset_variables(AtariState& state, const Game& game) {
  for (int i = 0; i < kMaxVariables; ++i) {
    if ((game.persistent >> i & 1) == 0) state.variables[i] = game.initial[i];
  }
}

// Starts an episode.
SEED_HD SEED_CALL inline void atari_reset(AtariState& state, const AtariGame& game, const AtariOptions& options,
                                          const Screen& screen) {
  if (state.error == AtariError::kBadRom || state.error == AtariError::kWrongFormat) return;
  state.error = AtariError::kNone;
  ++state.episode;
  state.num_draws = 0;
  state.episode_frame_number = 0;
  state.paddle_resistance = (kPaddleMin + state.paddle_max) / 2;
  console_reset(state.console, game.rom, game.display, screen, state.system);
  const Inputs released = released_inputs(state, game.game);
  SEED_NO_UNROLL
  for (int i = 0; i < kResetFrames; ++i) run_stepped_frame(state, game, released, screen);
  soft_reset(state, game, screen);
  reset_variables(state, game.game);
  search_mode(state, game, options, screen);
  soft_reset(state, game, screen);
  SEED_NO_UNROLL
  for (const StartingAction& start : game.game.starting_actions) {
    const Inputs inputs = action_inputs(state, game.game, start.action);
    for (int i = 0; i < start.num_frames; ++i) run_stepped_frame(state, game, inputs, screen);
  }
}

// The frames by which ale-py decides between NTSC and PAL at load. What they leave in RAM stays.
SEED_HD SEED_CALL inline void probe_format(AtariState& state, const AtariGame& game, const Screen& screen) {
  Display display = game.display;
  display.pal = false;
  display.height = game.game.probe_height;
  Inputs inputs{};
  inputs.swchb = static_cast<uint8_t>(0x3f | (game.game.probe_difficulty & 3) << 6);
  if (is_paddle(game.game.controller)) {
    for (int32_t& resistance : inputs.paddle_resistance_ohms) resistance = 0;
  }
  int num_tall_frames = 0;
  SEED_NO_UNROLL
  for (int i = 0; i < kProbeFrames; ++i) {
    console_run_frame(state.console, game.rom, display, inputs, screen);
    if (i >= kProbeFrames / 2 && state.console.num_lines > 285) ++num_tall_frames;
  }
  const bool pal = num_tall_frames >= 15;
  if (pal != game.display.pal) state.error = AtariError::kWrongFormat;
}

// Switches the console on with the cartridge in it and starts the first episode.
//
// Args:
//   paddle_max: widest paddle range set so far by the interface that loads (ale-py keeps it), or 0.
SEED_HD SEED_CALL inline void atari_load(AtariState& state, const AtariGame& game, const AtariOptions& options,
                                         uint32_t seed, uint32_t env_id, int32_t paddle_max, const Screen& screen) {
  state = AtariState{};
  state.seed = seed;
  state.env_id = env_id;
  state.mode = game.default_mode;
  state.current_strength = 1.0f;
  state.paddle_max = kPaddleMax;
  if (paddle_max > state.paddle_max) state.paddle_max = paddle_max;
  if (game.game.max_resistance > state.paddle_max) state.paddle_max = game.game.max_resistance;
  for (int i = 0; i < kMaxVariables; ++i) state.variables[i] = game.game.initial[i];
  mt19937_seed(state.environment, seed);
  mt19937_seed(state.system, kSystemSeed);
  console_power_on(state.console, game.rom, state.system);
  if (state.console.error != ConsoleError::kNone) {
    state.error = AtariError::kBadRom;
    return;
  }
  console_reset(state.console, game.rom, game.display, screen, state.system);
  probe_format(state, game, screen);
  if (state.error != AtariError::kNone) return;
  console_reset(state.console, game.rom, game.display, screen, state.system);
  atari_reset(state, game, options, screen);
}

}  // namespace seed
