// SPDX-License-Identifier: Apache-2.0
// Runs frames of one game through the C ABI, for profilers: only measured_frames() is of interest
// (valgrind --tool=callgrind --toggle-collect=measured_frames). See tests/machine/instruction_counts.py.
//
//   run_frames LIBRARY ROM GAME act|vector FRAMES [TRANSLATION]
//
// Prints a hash of RAM and pictures, or of observations: two builds that agree print the same.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "seed/game.h"
#include "seed/pool.h"
#include "seed/translation.h"

namespace {

constexpr int kNumEnvs = 8;
constexpr int kWarmUpRounds = 400;
constexpr int kRoundsBetweenHashes = 100;

void* library;

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "run_frames: %s\n", what);
  std::exit(2);
}

// The function `name` of the library.
template <class Function>
Function* find(Function*, const char* name) {
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr) die(dlerror());
  return reinterpret_cast<Function*>(symbol);
}
#define FIND(name) find(static_cast<decltype(&(name))>(nullptr), #name)

void check(seed_status status) {
  if (status != SEED_OK) die(FIND(seed_last_error)());
}

uint64_t hash_bytes(uint64_t hash, const uint8_t* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

std::vector<uint8_t> read_file(const char* path) {
  std::vector<uint8_t> bytes;
  if (std::FILE* const file = std::fopen(path, "rb")) {
    for (int c; (c = std::fgetc(file)) != EOF;) bytes.push_back(static_cast<uint8_t>(c));
    std::fclose(file);
  }
  if (bytes.empty()) die("the ROM image cannot be read");
  return bytes;
}

// What is measured: one machine, or a pool of environments.
struct Subject {
  seed_machine* machine;
  seed_pool* pool;
  seed_pool_outputs outputs;
  int num_actions;
  uint32_t random;
  decltype(&seed_machine_act) act;
  decltype(&seed_pool_step) step;

  uint32_t draw(int bound) {
    random = random * 1664525u + 1013904223u;
    return (random >> 8) % static_cast<uint32_t>(bound);
  }

  void run(int rounds) {
    int32_t reward;
    int64_t actions[kNumEnvs];
    for (int i = 0; i < rounds; ++i) {
      if (machine != nullptr) {
        check(act(machine, static_cast<int32_t>(draw(num_actions)), 1.0f, &reward));
      } else {
        for (int64_t& action : actions) action = draw(num_actions);
        check(step(pool, actions, nullptr, &outputs));
      }
    }
  }
};

}  // namespace

extern "C" __attribute__((noinline)) void measured_frames(Subject& subject, int rounds) { subject.run(rounds); }

int main(int count, char** arguments) {
  if (count < 6) die("usage: run_frames LIBRARY ROM GAME act|vector FRAMES [TRANSLATION]");
  library = dlopen(arguments[1], RTLD_NOW);
  if (library == nullptr) die(dlerror());
  const std::vector<uint8_t> rom = read_file(arguments[2]);
  const bool vector = std::strcmp(arguments[4], "vector") == 0;
  int32_t game = 0;
  check(FIND(seed_game_find)(arguments[3], &game));
  if (count > 6) check(FIND(seed_translation_load)(game, arguments[6]));

  Subject subject{};
  subject.act = FIND(seed_machine_act);
  subject.step = FIND(seed_pool_step);
  subject.random = 1;
  std::vector<uint8_t> observations;
  int frames_per_round = 1;
  const int64_t size = static_cast<int64_t>(rom.size());
  if (vector) {
    seed_pool_options options;
    check(FIND(seed_pool_default_options)(&options));
    options.num_envs = kNumEnvs;
    options.num_threads = 1;
    check(FIND(seed_pool_create)(game, rom.data(), size, &options, nullptr, nullptr, &subject.pool));
    int32_t numbers[18], seeds[kNumEnvs];
    check(FIND(seed_pool_actions)(subject.pool, &subject.num_actions, numbers));
    observations.resize(size_t{kNumEnvs} * size_t(options.img_height * options.img_width * options.stack_num));
    subject.outputs.observations = observations.data();
    for (int i = 0; i < kNumEnvs; ++i) seeds[i] = i + 1;
    check(FIND(seed_pool_reset)(subject.pool, nullptr, seeds, nullptr, &subject.outputs));
    frames_per_round = kNumEnvs * options.frameskip;
  } else {
    seed_machine_options options;
    check(FIND(seed_machine_default_options)(&options));
    check(FIND(seed_machine_create)(game, rom.data(), size, &options, &subject.machine));
    subject.num_actions = 18;
    subject.run(kWarmUpRounds);
  }

  uint64_t hash = 0xcbf29ce484222325u;
  const int rounds = std::atoi(arguments[5]) / frames_per_round;
  for (int done = 0; done < rounds; done += kRoundsBetweenHashes) {
    measured_frames(subject, rounds - done < kRoundsBetweenHashes ? rounds - done : kRoundsBetweenHashes);
    if (vector) {
      hash = hash_bytes(hash, observations.data(), observations.size());
      continue;
    }
    uint8_t ram[128];
    const uint8_t* pixels = nullptr;
    int32_t height, width;
    check(FIND(seed_machine_ram)(subject.machine, ram));
    check(FIND(seed_machine_screen)(subject.machine, &pixels, &height, &width));
    hash = hash_bytes(hash_bytes(hash, ram, sizeof ram), pixels, size_t(height * width));
    int32_t over = 0;
    check(FIND(seed_machine_game_over)(subject.machine, &over, nullptr));
    if (over) check(FIND(seed_machine_reset)(subject.machine));
  }
  std::printf("%d %016llx\n", rounds * frames_per_round, static_cast<unsigned long long>(hash));
  return 0;
}
