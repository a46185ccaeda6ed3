// SPDX-License-Identifier: Apache-2.0
// The pool on cartridges of random bytes: pictures that are drawn only when somebody looks equal those that are always
// drawn, whatever a program does to its frames; threads and SIMD change nothing; bad arguments change nothing.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "pool/workers.h"
#include "seed/pool.h"

namespace {

int num_failures = 0;

#define EXPECT(condition)                                                                \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::printf("%s:%d: %s; %s\n", __FILE__, __LINE__, #condition, seed_last_error()); \
      ++num_failures;                                                                    \
    }                                                                                    \
  } while (false)

constexpr int kLanes = 3;

// The results of one reset or step.
struct Results {
  explicit Results(const seed_pool_options& options)
      : row_bytes(size_t(options.stack_num) * size_t(options.img_height) * size_t(options.img_width) *
                  (options.grayscale ? 1 : 3)),
        observations(kLanes * row_bytes),
        finals(kLanes * row_bytes) {}

  seed_pool_outputs outputs() {
    return {observations.data(), rewards,       terminations, truncations, env_ids, lives, frames,
            episode_frames,      finals.data(), &num_ended};
  }

  bool operator==(const Results& other) const {
    return observations == other.observations && finals == other.finals &&
           std::memcmp(rewards, other.rewards, sizeof rewards) == 0 &&
           std::memcmp(terminations, other.terminations, sizeof terminations) == 0 &&
           std::memcmp(truncations, other.truncations, sizeof truncations) == 0 &&
           std::memcmp(frames, other.frames, sizeof frames) == 0 && num_ended == other.num_ended;
  }

  size_t row_bytes;
  std::vector<uint8_t> observations, finals;
  int32_t rewards[kLanes] = {}, env_ids[kLanes] = {}, lives[kLanes] = {}, frames[kLanes] = {};
  int32_t episode_frames[kLanes] = {}, num_ended = 0;
  uint8_t terminations[kLanes] = {}, truncations[kLanes] = {};
};

// A pool and its last results.
struct Player {
  Player(int32_t game, const std::vector<uint8_t>& rom, const seed_pool_options& options) : results(options) {
    status = seed_pool_create(game, rom.data(), int64_t(rom.size()), &options, nullptr, nullptr, &pool);
  }
  ~Player() { seed_pool_destroy(pool); }

  void reset(int32_t seed) {
    const int32_t seeds[kLanes] = {seed, seed + 1, seed + 2};
    const seed_pool_outputs outputs = results.outputs();
    status = seed_pool_reset(pool, nullptr, seeds, nullptr, &outputs);
  }

  void step(const int64_t* actions) {
    const seed_pool_outputs outputs = results.outputs();
    status = seed_pool_step(pool, actions, nullptr, &outputs);
  }

  seed_pool* pool = nullptr;
  seed_status status;
  Results results;
};

// Random bytes, with every other program mostly made of harmless instructions, so that it runs for a while.
std::vector<uint8_t> random_rom(std::mt19937& random, size_t size) {
  static const uint8_t harmless[] = {0xa9, 0x85, 0x85, 0x86, 0xa2, 0xe8, 0xca, 0xea, 0x69, 0x49, 0x85, 0x02};
  std::vector<uint8_t> rom(size);
  const bool tame = random() & 1;
  for (uint8_t& byte : rom) byte = tame && random() % 4 != 0 ? harmless[random() % sizeof harmless] : uint8_t(random());
  rom[size - 4] = uint8_t(random());
  rom[size - 3] = 0xf0 | uint8_t(random() & 7);
  return rom;
}

// A program that makes whole frames with changing colours, and every second, fourth or eighth time a short one or one
// that outlasts several frame calls: what the lane's pictures come from changes in the midst of a step.
std::vector<uint8_t> framing_rom(std::mt19937& random, size_t size) {
  const uint8_t rarely = uint8_t((2 << (random() % 3)) - 1);
  const uint8_t num_short_lines = uint8_t(20 + random() % 200);
  const bool stalls = random() % 3 == 0;
  std::vector<uint8_t> code = {0xa9, 0x02,
                               0x85, 0x00,
                               0x85, 0x02,
                               0x85, 0x02,
                               0x85, 0x02,
                               0xa9, 0x00,
                               0x85, 0x00,  // VSYNC for three lines
                               0xe6, 0x80,
                               0xa2, 0xfa,  // INC 80; LDX #250
                               0xa5, 0x80,
                               0x29, rarely,
                               0xd0, 0x02,             // LDA 80; AND #rarely; BNE lines
                               0xa2, num_short_lines,  // LDX #num_short_lines
                               0x8a, 0x18,
                               0x65, 0x80,
                               0x85, 0x09,
                               0x85, 0x0e,  // lines: TXA; CLC; ADC 80; STA COLUBK; STA PF1
                               0x85, 0x02,
                               0xca, 0xd0,
                               0xf4};  // STA WSYNC; DEX; BNE lines
  if (stalls) {                        // 65,536 times round an empty loop, after short frames only
    const uint8_t stall[] = {0xa5, 0x80, 0x29, rarely, 0xd0, 0x06, 0xca, 0xd0, 0xfd, 0x88, 0xd0, 0xfa};
    code.insert(code.end(), std::begin(stall), std::end(stall));
  }
  code.insert(code.end(), {0x4c, 0x00, 0xf0});  // JMP F000
  std::vector<uint8_t> rom(size, 0xea);
  std::copy(code.begin(), code.end(), rom.begin());
  rom[size - 4] = 0x00;
  rom[size - 3] = 0xf0;
  return rom;
}

seed_pool_options random_options(std::mt19937& random) {
  seed_pool_options options;
  seed_pool_default_options(&options);
  options.num_envs = kLanes;
  options.num_threads = 1;
  options.frameskip = 1 + int32_t(random() % 5);
  options.maxpool = random() & 1;
  options.grayscale = random() % 4 != 0;
  options.stack_num = 1 + int32_t(random() % 3);
  options.noop_max = int32_t(random() % 4);
  options.max_num_frames_per_episode = random() & 1 ? 0 : 5 + int32_t(random() % 20);
  options.autoreset = int32_t(random() % 2);
  options.repeat_action_probability = random() & 1 ? 0.25f : 0.0f;
  options.rng = int32_t(random() % 2);
  if (random() & 1) options.img_height = 105, options.img_width = 80;
  return options;
}

void test_shortcuts_on_random_programs(int num_programs) {
  std::mt19937 random(1);
  int num_played = 0;
  // Games whose rules need no mode search: a random program would not get through one.
  const char* const games[] = {"boxing", "carnival", "darkchambers", "montezuma_revenge"};
  for (int program = 0; program < num_programs; ++program) {
    int32_t game = 0;
    seed_game_find(games[program % 4], &game);
    const char* description = nullptr;
    seed_game_describe(game, &description);
    const size_t size = std::stoul(std::strstr(description, "\"size\": ") + 8);
    // The framing program fits the games without bank switching, the first two.
    const bool frames = program % 4 < 2 && program % 3 != 0;
    const std::vector<uint8_t> rom = frames ? framing_rom(random, size) : random_rom(random, size);
    const seed_pool_options usual = random_options(random);
    seed_pool_options kept = usual, plain = usual;
    kept.keep_pictures = 1;
    plain.use_simd = 0;
    plain.num_threads = 3;
    Player a(game, rom, usual), b(game, rom, kept), c(game, rom, plain);
    EXPECT(a.status == b.status && a.status == c.status);
    if (a.status != SEED_OK) continue;  // the program does not make an NTSC picture
    for (int step = 0; step < 14; ++step) {
      const int64_t actions[kLanes] = {int64_t(random() % 4), int64_t(random() % 4), int64_t(random() % 4)};
      for (Player* player : {&a, &b, &c}) step == 0 ? player->reset(program) : player->step(actions);
      EXPECT(a.status == b.status && a.status == c.status);
      if (a.status != SEED_OK) break;  // the program does not reach the game's mode
      ++num_played;
      EXPECT(a.results == b.results);
      EXPECT(a.results == c.results);
      if (num_failures > 0) {
        std::printf("program %d (%s), step %d, frameskip %d\n", program, games[program % 4], step, usual.frameskip);
        return;
      }
    }
  }
  std::printf("%d steps of random programs\n", num_played);
  EXPECT(num_played > num_programs);
}

void test_bad_arguments_change_nothing() {
  std::mt19937 random(2);
  int32_t game = 0;
  seed_game_find("breakout", &game);
  std::vector<uint8_t> rom = random_rom(random, 2048);
  seed_pool_options options;
  seed_pool_default_options(&options);
  options.num_envs = kLanes;
  seed_pool* pool = nullptr;
  EXPECT(seed_pool_create(game, rom.data(), 2047, &options, nullptr, nullptr, &pool) == SEED_INVALID_ARGUMENT);
  EXPECT(seed_pool_create(-1, rom.data(), 2048, &options, nullptr, nullptr, &pool) == SEED_INVALID_ARGUMENT);
  EXPECT(seed_pool_create(game, nullptr, 2048, &options, nullptr, nullptr, &pool) == SEED_INVALID_ARGUMENT);
  options.img_height = 1 << 20;
  EXPECT(seed_pool_create(game, rom.data(), 2048, &options, nullptr, nullptr, &pool) == SEED_INVALID_ARGUMENT);
  options.img_height = 84;
  const int32_t modes[kLanes] = {0, 1, 0};
  EXPECT(seed_pool_create(game, rom.data(), 2048, &options, modes, nullptr, &pool) == SEED_INVALID_ARGUMENT);
  EXPECT(pool == nullptr);
  EXPECT(seed_pool_step(nullptr, nullptr, nullptr, nullptr) == SEED_INVALID_ARGUMENT);
  EXPECT(seed_pool_destroy(nullptr) == SEED_OK);
}

// Every task runs once, and the oldest are done when wait() returns.
void test_workers() {
  for (const int num_threads : {0, 1, 3}) {
    constexpr int kTasks = 7;
    std::vector<int> runs(kTasks, 0);  // written by whoever runs the task, read after wait()
    int posted = 0, waited = 0;
    seed::Workers workers(num_threads, -1, kTasks, [&](int thread, int task) {
      EXPECT(thread >= 0 && thread <= num_threads);
      ++runs[size_t(task)];
    });
    std::mt19937 random(3);
    for (int round = 0; round < 3000; ++round) {
      for (int i = int(random() % 4); i > 0 && posted - waited < kTasks; --i) workers.post(posted++ % kTasks);
      workers.wake();
      const int count = posted == waited ? 0 : int(random() % unsigned(posted - waited + 1));
      const int before = waited;
      workers.wait(count);
      waited += count;
      for (int number = before; number < waited; ++number) EXPECT(runs[size_t(number % kTasks)] == number / kTasks + 1);
      if (round % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // lets the threads fall asleep
      if (num_failures > 0) return;
    }
    workers.wait(posted - waited);
  }
}

}  // namespace

int main(int argc, char** argv) {
  test_workers();
  test_bad_arguments_change_nothing();
  test_shortcuts_on_random_programs(argc > 1 ? std::atoi(argv[1]) : 40);
  std::printf("%s\n", num_failures == 0 ? "ok" : "failed");
  return num_failures == 0 ? 0 : 1;
}
