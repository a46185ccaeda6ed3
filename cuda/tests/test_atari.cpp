// SPDX-License-Identifier: Apache-2.0
// The ALE layer without ROM images: generators, snapshots by memcpy, hostile cartridges, actions.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <random>
#include <vector>

#include "envs/atari.h"
#include "games/tables.h"
#include "random.h"

using namespace seed;

namespace {

int num_failures = 0;

#define EXPECT(condition)                                                  \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::printf("%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
      ++num_failures;                                                      \
    }                                                                      \
  } while (false)

constexpr GameTables kTables{kGames, kRuleCode, kGameModes};

int game_index(const char* name) {
  for (int i = 0; i < kNumGames; ++i) {
    if (std::strcmp(kGameNames[i], name) == 0) return i;
  }
  return -1;
}

// One cartridge with arbitrary bytes, and the machine that plays it.
struct Player {
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> pictures;
  AtariGame game;
  AtariOptions options;
  std::unique_ptr<AtariState> state = std::make_unique<AtariState>();

  Player(int index, uint32_t rom_seed) : bytes(kGames[index].rom_size), pictures(2 * 250 * kScreenWidth) {
    std::mt19937 random(rom_seed);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    Rom rom{};
    rom_prepare(rom, bytes.data(), static_cast<uint32_t>(bytes.size()),
                static_cast<CartridgeType>(kGames[index].cartridge));
    game = atari_game(rom, index, kTables);
  }

  Screen screen() { return Screen{{pictures.data(), pictures.data() + pictures.size() / 2}}; }

  // Replaces the cartridge by a program at F000.
  void program(std::initializer_list<uint8_t> code) {
    std::fill(bytes.begin(), bytes.end(), uint8_t{0});
    std::copy(code.begin(), code.end(), bytes.begin());
    bytes[bytes.size() - 3] = 0xf0;  // reset vector F000
  }

  void load(uint32_t seed, uint32_t env_id = 0) { atari_load(*state, game, options, seed, env_id, 0, screen()); }
};

// The known answers that the authors of the generator publish with their code.
void test_philox_known_answers() {
  const PhiloxBlock zeros = philox4x32(PhiloxBlock{{0, 0, 0, 0}}, 0, 0);
  EXPECT(zeros.words[0] == 0x6627e8d5u && zeros.words[1] == 0xe169c58du);
  EXPECT(zeros.words[2] == 0xbc57ac4cu && zeros.words[3] == 0x9b00dbd8u);
  const uint32_t ones = 0xffffffffu;
  const PhiloxBlock full = philox4x32(PhiloxBlock{{ones, ones, ones, ones}}, ones, ones);
  EXPECT(full.words[0] == 0x408f276du && full.words[1] == 0x41c83b0eu);
  EXPECT(full.words[2] == 0xa20bc7c6u && full.words[3] == 0x6d5451fdu);
  const PhiloxBlock pi =
      philox4x32(PhiloxBlock{{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}}, 0xa4093822u, 0x299f31d0u);
  EXPECT(pi.words[0] == 0xd16cfe09u && pi.words[1] == 0x94fdccebu);
  EXPECT(pi.words[2] == 0x5001e420u && pi.words[3] == 0x24126ea1u);
}

// Draws of an episode depend on its number, not on what was drawn before it.
void test_counter_draws_do_not_depend_on_history() {
  AtariState a{}, b{};
  a.seed = b.seed = 7;
  for (int i = 0; i < 13; ++i) atari_draw(a, AtariRng::kCounter);
  a.episode = b.episode = 2;
  a.num_draws = b.num_draws = 0;
  const uint32_t first = atari_draw(a, AtariRng::kCounter);
  EXPECT(first == atari_draw(b, AtariRng::kCounter));
  EXPECT(first != atari_draw(b, AtariRng::kCounter));
  b.num_draws = 0;
  b.env_id = 1;
  EXPECT(first != atari_draw(b, AtariRng::kCounter));
  EXPECT(atari_draw_noops(a, AtariRng::kCounter, 30) < 30);
}

// The share of kept actions is the probability that was asked for.
void test_sticky_share() {
  for (AtariRng rng : {AtariRng::kAle, AtariRng::kCounter}) {
    auto state = std::make_unique<AtariState>();
    mt19937_seed(state->environment, 3);
    AtariOptions options;
    options.rng = rng;
    int num_kept = 0;
    for (int i = 0; i < 40000; ++i) {
      state->current_action = kNoop;
      draw_sticky_action(*state, options, kFire, 1.0f);
      num_kept += state->current_action == kNoop;
    }
    EXPECT(std::abs(num_kept - 10000) < 400);  // 4.6 standard deviations
    options.repeat_action_probability = 0.0f;
    draw_sticky_action(*state, options, kUp, 0.5f);
    EXPECT(state->current_action == kUp && state->current_strength == 0.5f);
    options.repeat_action_probability = 1.0f;
    draw_sticky_action(*state, options, kDown, 1.0f);
    EXPECT(state->current_action == kUp && state->current_strength == 0.5f);
  }
}

// Every game's rules on arbitrary programs: loading ends, in play or with an error that names the reason.
void test_hostile_cartridges_end() {
  for (int index = 0; index < kNumGames; index += 13) {
    Player player(index, static_cast<uint32_t>(index));
    player.load(1);
    const AtariError error = player.state->error;
    EXPECT(error == AtariError::kNone || error == AtariError::kWrongFormat || error == AtariError::kModeNotReached);
    for (int i = 0; i < 20; ++i) atari_act(*player.state, player.game, player.options, i, 1.0f, player.screen());
  }
}

void test_unreachable_mode_is_an_error() {
  Player player(game_index("breakout"), 0);
  player.program({0xa9, 0x02, 0x85, 0x00, 0x85, 0x02,          // LDA #2, STA VSYNC, STA WSYNC: frames of one line
                  0xa9, 0x00, 0x85, 0x00, 0x4c, 0x00, 0xf0});  // LDA #0, STA VSYNC, JMP F000
  player.load(1);
  player.state->error = AtariError::kNone;
  player.state->mode = 44;
  std::memset(player.state->console.riot.ram, 0, sizeof player.state->console.riot.ram);
  atari_reset(*player.state, player.game, player.options, player.screen());
  EXPECT(player.state->error == AtariError::kModeNotReached);
}

// A reset in the middle of a frame that never ends opens a window with more lines than the picture has rows.
void test_endless_frame_stays_in_the_picture() {
  Player player(game_index("breakout"), 0);
  player.program({0xa5, 0x00, 0x4c, 0x00, 0xf0});  // LDA CXM0P, JMP F000
  const size_t picture_bytes = size_t{player.game.display.height} * kScreenWidth;
  player.pictures.assign(3 * picture_bytes, 0x55);
  const Screen screen{{player.pictures.data(), player.pictures.data() + picture_bytes}};
  atari_load(*player.state, player.game, player.options, 1, 0, 0, screen);
  console_reset(player.state->console, player.game.rom, player.game.display, screen, player.state->system);
  console_run_frame(player.state->console, player.game.rom, player.game.display, Inputs{}, screen);
  for (size_t i = 2 * picture_bytes; i < 3 * picture_bytes; ++i) {
    EXPECT(player.pictures[i] == 0x55);
    if (player.pictures[i] != 0x55) break;
  }
}

void test_copy_continues_identically() {
  Player player(game_index("amidar"), 5);
  player.load(9);
  player.state->error = AtariError::kNone;
  auto copy = std::make_unique<AtariState>();
  std::memcpy(copy.get(), player.state.get(), sizeof(AtariState));
  const Screen none{{nullptr, nullptr}};
  for (int i = 0; i < 50; ++i) {
    atari_act(*player.state, player.game, player.options, i % 18, 1.0f, none);
    atari_act(*copy, player.game, player.options, i % 18, 1.0f, none);
  }
  EXPECT(std::memcmp(copy->console.riot.ram, player.state->console.riot.ram, 128) == 0);
  EXPECT(copy->environment.next == player.state->environment.next);
  EXPECT(copy->frame_number == player.state->frame_number);
}

void test_wrong_rom_size_is_refused() {
  Player player(game_index("pong"), 0);
  player.game.rom.accepted = false;
  player.load(1);
  EXPECT(player.state->error == AtariError::kBadRom);
}

void test_paddle_stays_in_range() {
  AtariState state{};
  state.paddle_max = kPaddleMax;
  state.paddle_resistance = 400000;
  for (float strength : {1.0f, -1.0f, 1e30f, INFINITY, NAN}) {
    for (int i = 0; i < 40; ++i) move_paddle(state, kRightFire, strength);
    EXPECT(state.paddle_resistance == kPaddleMin);
    for (int i = 0; i < 40; ++i) move_paddle(state, kUpLeft, strength);
    EXPECT(state.paddle_resistance == kPaddleMax);
  }
  move_paddle(state, kRight, 0.7f);  // 0.7f * 23000 is just below 16100
  EXPECT(state.paddle_resistance == kPaddleMax - 16099);
  move_paddle(state, kUp, 1.0f);
  EXPECT(state.paddle_resistance == kPaddleMax - 16099);
}

}  // namespace

int main() {
  test_philox_known_answers();
  test_counter_draws_do_not_depend_on_history();
  test_sticky_share();
  test_hostile_cartridges_end();
  test_unreachable_mode_is_an_error();
  test_endless_frame_stays_in_the_picture();
  test_copy_continues_identically();
  test_wrong_rom_size_is_refused();
  test_paddle_stays_in_range();
  std::printf("%s\n", num_failures == 0 ? "ok" : "failed");
  return num_failures == 0 ? 0 : 1;
}
