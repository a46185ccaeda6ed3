// SPDX-License-Identifier: Apache-2.0
// The kernels of the CUDA pool, run on the host (host_cuda.h), against libseed_cpu.so: every output of every lane must
// be equal in every step, while lanes end, reset themselves and are reset by mask and seed.
//
//   parity_pool_kernels LIBSEED_CPU GAME_INDEX ROM_FILE NUM_LANES NUM_STEPS [SETTING]     without SETTING: all three
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "seed/pool.h"

namespace {

// The CPU library's functions; this program has those of the CUDA pool under the same names.
struct Cpu {
  decltype(&seed_pool_create) create;
  decltype(&seed_pool_reset) reset;
  decltype(&seed_pool_step) step;
  decltype(&seed_pool_ram) ram;
  decltype(&seed_pool_destroy) destroy;
  decltype(&seed_last_error) last_error;
};

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) std::fprintf(stderr, "no %s: %s\n", name, dlerror()), std::exit(2);
}

struct Results {
  std::vector<uint8_t> observations, finals, terminations, truncations, ram;
  std::vector<int32_t> rewards, env_ids, lives, frames, episode_frames;
  int32_t num_ended = 0;

  Results(size_t lanes, size_t stack)
      : observations(lanes * stack),
        finals(lanes * stack),
        terminations(lanes),
        truncations(lanes),
        ram(lanes * 128),
        rewards(lanes),
        env_ids(lanes),
        lives(lanes),
        frames(lanes),
        episode_frames(lanes) {}

  seed_pool_outputs outputs() {
    return {observations.data(), rewards.data(), terminations.data(),   truncations.data(), env_ids.data(),
            lives.data(),        frames.data(),  episode_frames.data(), finals.data(),      &num_ended};
  }

  // Name of the first output that differs, or null.
  const char* difference(const Results& other) const {
    if (ram != other.ram) return "ram";
    if (rewards != other.rewards) return "rewards";
    if (terminations != other.terminations) return "terminations";
    if (truncations != other.truncations) return "truncations";
    if (env_ids != other.env_ids) return "env_ids";
    if (lives != other.lives) return "lives";
    if (frames != other.frames) return "frame_numbers";
    if (episode_frames != other.episode_frames) return "episode_frame_numbers";
    if (num_ended != other.num_ended) return "num_ended";
    if (observations != other.observations) return "observations";
    if (finals != other.finals) return "final_observations";
    return nullptr;
  }
};

void require(seed_status status, const char* message) {
  if (status != SEED_OK) std::fprintf(stderr, "%s\n", message), std::exit(1);
}

struct Setting {
  const char* name;
  int32_t autoreset, rng, grayscale, maxpool, episodic_life, side, stack_num;
};
constexpr Setting kSettings[] = {
    {"next step", SEED_AUTORESET_NEXT_STEP, SEED_RNG_COUNTER, 1, 1, 0, 84, 4},
    {"same step, colour", SEED_AUTORESET_SAME_STEP, SEED_RNG_ALE, 0, 1, 1, 41, 3},
    {"no pool", SEED_AUTORESET_SAME_STEP, SEED_RNG_ALE, 1, 0, 1, 84, 1},
};

// Takes a step that leaves no trace: all lanes go back to their snapshots.
void step_and_return(seed_pool* pool, int32_t lanes, const std::vector<int64_t>& actions,
                     const seed_pool_outputs& outputs) {
  int64_t capacity = 0, size = 0;
  require(seed_pool_lane_capacity(pool, &capacity), seed_last_error());
  const std::vector<uint8_t> empty(static_cast<size_t>(capacity));
  std::vector<std::vector<uint8_t>> snapshots(static_cast<size_t>(lanes), empty);
  for (int32_t i = 0; i < lanes; ++i)
    require(seed_pool_save_lane(pool, i, snapshots[size_t(i)].data(), capacity, &size), seed_last_error());
  require(seed_pool_step(pool, actions.data(), nullptr, &outputs), seed_last_error());
  for (int32_t i = 0; i < lanes; ++i)
    require(seed_pool_restore_lane(pool, i, snapshots[size_t(i)].data(), size), seed_last_error());
}

int compare(const Cpu& cpu, const Setting& setting, int32_t game, const std::vector<char>& rom, int32_t lanes,
            int32_t steps) {
  seed_pool_options options;
  seed_pool_default_options(&options);
  options.num_envs = lanes;
  options.num_threads = 1;
  options.autoreset = setting.autoreset;
  options.rng = setting.rng;
  options.grayscale = setting.grayscale;
  options.maxpool = setting.maxpool;
  options.episodic_life = setting.episodic_life;
  options.img_height = options.img_width = setting.side;
  options.stack_num = setting.stack_num;
  options.repeat_action_probability = 0.25f;
  options.max_num_frames_per_episode = 4 * steps / 3;  // so that every lane ends
  const auto* const bytes = reinterpret_cast<const uint8_t*>(rom.data());
  const auto size = int64_t(rom.size());
  seed_pool *tested = nullptr, *expected = nullptr;
  require(seed_pool_create(game, bytes, size, &options, nullptr, nullptr, &tested), seed_last_error());
  require(cpu.create(game, bytes, size, &options, nullptr, nullptr, &expected), cpu.last_error());
  int32_t num_actions = 0;
  seed_pool_actions(tested, &num_actions, nullptr);

  const size_t stack =
      size_t(setting.stack_num) * size_t(setting.side) * size_t(setting.side) * (setting.grayscale ? 1 : 3);
  Results found(size_t(lanes), stack), wanted(size_t(lanes), stack);
  const seed_pool_outputs found_outputs = found.outputs(), wanted_outputs = wanted.outputs();
  std::vector<int32_t> seeds(static_cast<size_t>(lanes));
  for (int32_t i = 0; i < lanes; ++i) seeds[size_t(i)] = 7 + 3 * i;
  std::vector<uint8_t> mask(static_cast<size_t>(lanes));
  std::vector<int64_t> actions(static_cast<size_t>(lanes));
  std::mt19937 random(1234);
  int failed = 0;
  for (int32_t step = 0; step <= steps && !failed; ++step) {
    if (step == 0 || step == steps / 2) {
      for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % 2 == 0;
      if (step != 0) seeds[0] = SEED_NO_SEED;  // resets, and its generators go on
      const uint8_t* const chosen = step == 0 ? nullptr : mask.data();
      require(seed_pool_reset(tested, chosen, seeds.data(), nullptr, &found_outputs), seed_last_error());
      require(cpu.reset(expected, chosen, seeds.data(), nullptr, &wanted_outputs), cpu.last_error());
    } else {
      for (int64_t& action : actions) action = int64_t(random() % unsigned(num_actions));
      if (step == steps / 3) step_and_return(tested, lanes, actions, found_outputs);
      require(seed_pool_step(tested, actions.data(), nullptr, &found_outputs), seed_last_error());
      require(cpu.step(expected, actions.data(), nullptr, &wanted_outputs), cpu.last_error());
      require(seed_pool_synchronize(tested), seed_last_error());
    }
    require(seed_pool_ram(tested, found.ram.data()), seed_last_error());
    require(cpu.ram(expected, wanted.ram.data()), cpu.last_error());
    if (const char* const name = found.difference(wanted)) {
      std::printf("game %d, %s: %s differ in step %d\n", game, setting.name, name, step);
      failed = 1;
    }
  }
  // What a kernel finds wrong is told once.
  actions[0] = num_actions;
  require(seed_pool_step(tested, actions.data(), nullptr, &found_outputs), seed_last_error());
  if (seed_pool_synchronize(tested) != SEED_INVALID_ARGUMENT || seed_pool_synchronize(tested) != SEED_OK) {
    std::printf("an action that does not exist was not reported once\n");
    failed = 1;
  }
  seed_pool_destroy(tested);
  cpu.destroy(expected);
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6 && argc != 7)
    return std::fprintf(stderr, "usage: %s LIBSEED_CPU GAME_INDEX ROM NUM_LANES NUM_STEPS [SETTING]\n", argv[0]), 2;
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 2;
  Cpu cpu{};
  find(library, "seed_pool_create", cpu.create);
  find(library, "seed_pool_reset", cpu.reset);
  find(library, "seed_pool_step", cpu.step);
  find(library, "seed_pool_ram", cpu.ram);
  find(library, "seed_pool_destroy", cpu.destroy);
  find(library, "seed_last_error", cpu.last_error);
  std::ifstream file(argv[3], std::ios::binary);
  const std::vector<char> rom{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const int only = argc == 7 ? std::atoi(argv[6]) : -1;
  int failed = 0;
  for (int i = 0; i < int(sizeof kSettings / sizeof *kSettings); ++i)
    if (only < 0 || only == i)
      failed |= compare(cpu, kSettings[i], std::atoi(argv[2]), rom, std::atoi(argv[4]), std::atoi(argv[5]));
  if (!failed) std::printf("game %s: equal\n", argv[2]);
  return failed;
}
