// SPDX-License-Identifier: Apache-2.0
// What the library knows about a game, as plain constants that a device can mirror.
//
// The build writes the table of all games (kGames, kRuleCode, names, palettes) from games.toml and palettes.toml into
// games/tables.h. State refers to a game by its index; code that runs on a device gets the tables as a GameTables.
#pragma once

#include <cstdint>
#include <type_traits>

#include "games/rules.h"

namespace seed {

// ale-py's action numbers.
enum Action : uint8_t {
  kNoop,
  kFire,
  kUp,
  kRight,
  kLeft,
  kDown,
  kUpRight,
  kUpLeft,
  kDownRight,
  kDownLeft,
  kUpFire,
  kRightFire,
  kLeftFire,
  kDownFire,
  kUpRightFire,
  kUpLeftFire,
  kDownRightFire,
  kDownLeftFire,
  kNumActions,
  kConsoleReset = 40,  // the RESET switch; in starting actions only
};

enum class Controller : uint8_t { kJoystickLeft, kJoystickRight, kPaddle, kPaddleSwapped };

struct StartingAction {
  uint8_t action;
  uint16_t num_frames;  // 0 ends the list
};

constexpr int kMaxStartingActions = 3;

constexpr uint8_t kByRule = 0xff;

struct Game {
  // Rules: starts in the rule code, and the variables at the start of an episode.
  uint16_t step;
  uint16_t game_over;
  uint16_t lives;
  uint16_t set_mode;
  uint8_t reward;         // index of the variable
  uint8_t terminal;       // index of the variable that says game over, or kByRule
  uint8_t num_variables;  // temporaries not counted
  uint16_t persistent;    // bit i: variable i keeps its value across a reset
  int32_t initial[kMaxVariables];

  // Cartridge and picture.
  uint8_t cartridge;  // CartridgeType
  uint8_t pal;
  uint8_t hmove_blanks;
  uint8_t ystart;            // first scanline shown
  uint8_t height;            // rows shown
  uint8_t probe_height;      // rows during the 60 frames that decide between NTSC and PAL
  uint8_t probe_difficulty;  // difficulty switches during these frames
  int32_t rom_size;          // bytes

  // Controls.
  Controller controller;
  uint8_t difficulties;  // bit d: difficulty d is offered
  uint8_t num_modes;
  uint16_t first_mode;       // index into the list of all modes; this one is the default
  uint32_t minimal_actions;  // bit a: action a
  uint32_t legal_actions;
  int32_t max_resistance;  // of a paddle when the game widens the range, else 0
  StartingAction starting_actions[kMaxStartingActions];
};
static_assert(std::is_trivially_copyable<Game>::value, "copied to devices");

// The tables as the step functions see them: constants of the host or their mirror on a device.
struct GameTables {
  const Game* games;
  const uint8_t* code;
  const uint16_t* modes;
};

}  // namespace seed
