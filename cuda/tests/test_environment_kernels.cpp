// SPDX-License-Identifier: Apache-2.0
// The CUDA kernels of environments, launched on the host (host_cuda.h), against the CPU pool: every result of every
// lane must be the same, although lanes lie word by word and each thread works on a copy.
#define SEED_HOST_LAUNCHER
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "envs/ball.h"
#include "envs/order_book.h"
#include "envs/quadruped.h"

using namespace seed;

namespace {

constexpr int32_t kLanes = 150;  // more than a block
constexpr int kSteps = 200;
int failures = 0;

void expect(bool condition, const char* name, const char* what, int step) {
  if (condition) return;
  std::printf("failed: %s, %s, step %d\n", name, what, step);
  ++failures;
}

// Results of one step of all lanes.
struct Results {
  explicit Results(size_t observation_numbers)
      : observations(observation_numbers),
        final_observations(observation_numbers),
        rewards(kLanes),
        terminations(kLanes),
        truncations(kLanes),
        steps(kLanes) {}

  std::vector<float> observations, final_observations, rewards;
  std::vector<uint8_t> terminations, truncations;
  std::vector<int32_t> steps;

  bool operator==(const Results& other) const {
    return same(observations, other.observations) && same(final_observations, other.final_observations) &&
           same(rewards, other.rewards) && terminations == other.terminations && truncations == other.truncations &&
           steps == other.steps;
  }
  static bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }
};

template <class Env>
void compare(const char* name, int32_t autoreset) {
  const seed_environment kernels = make_environment_table<Env>(name);
  const seed_environment* library = nullptr;
  expect(seed_environment_find(name, &library) == SEED_OK, name, "is not in the library", 0);
  const seed_env_description& about = kernels.description;
  std::vector<float> options;
  for (int32_t i = 0; i < about.num_options; ++i) options.push_back(about.options[i].value);

  seed_env_pool_options pool_options{};
  pool_options.num_envs = kLanes;
  pool_options.num_threads = 2;
  pool_options.autoreset = autoreset;
  pool_options.max_episode_steps = 60;
  pool_options.num_options = about.num_options;
  pool_options.options = options.data();
  seed_env_pool* pool = nullptr;
  expect(seed_env_pool_create(library, &pool_options, &pool) == SEED_OK, name, seed_last_error(), 0);

  const size_t numbers = size_t(kLanes) * size_t(about.observation_shape[0]);
  Results ours(numbers), theirs(numbers);
  const std::vector<int32_t> seeds(kLanes, 11);
  std::vector<int32_t> env_ids(kLanes);
  for (int32_t i = 0; i < kLanes; ++i) env_ids[size_t(i)] = 3 * i;
  std::vector<uint32_t> words(size_t(kLanes) * size_t(about.lane_bytes) / 4);
  seed_env_batch batch{};
  batch.lanes = reinterpret_cast<uint8_t*>(words.data());
  batch.num_lanes = kLanes;
  batch.autoreset = autoreset;
  batch.max_episode_steps = 60;
  batch.options = options.data();
  batch.seeds = seeds.data();
  batch.env_ids = env_ids.data();
  batch.observations = ours.observations.data();
  batch.final_observations = ours.final_observations.data();
  batch.rewards = ours.rewards.data();
  batch.terminations = ours.terminations.data();
  batch.truncations = ours.truncations.data();
  batch.episode_steps = ours.steps.data();
  const seed_env_rows rows = {theirs.observations.data(),
                              theirs.rewards.data(),
                              theirs.terminations.data(),
                              theirs.truncations.data(),
                              theirs.final_observations.data(),
                              theirs.steps.data(),
                              nullptr};

  kernels.reset(&batch, 0, kLanes, nullptr);
  seed_env_pool_reset(pool, nullptr, seeds.data(), env_ids.data(), &rows);
  expect(ours == theirs, name, "reset", 0);
  std::mt19937 generator(5);
  std::vector<int64_t> discrete(kLanes);
  std::vector<float> continuous(size_t(kLanes) * size_t(about.action_size));
  int num_ended = 0;
  for (int step = 1; step <= kSteps && failures == 0; ++step) {
    for (int64_t& action : discrete)
      action = about.num_actions > 0 ? int64_t(generator() % uint32_t(about.num_actions)) : 0;
    for (float& number : continuous) number = float(generator() % 3001) / 1000.0f - 1.5f;
    const void* const actions = about.num_actions > 0 ? static_cast<const void*>(discrete.data()) : continuous.data();
    batch.discrete_actions = discrete.data();
    batch.continuous_actions = continuous.data();
    kernels.step(&batch, 0, 100, nullptr);  // in two launches, as ranges of lanes
    kernels.step(&batch, 100, kLanes - 100, nullptr);
    expect(seed_env_pool_step(pool, actions, &rows) == SEED_OK, name, seed_last_error(), step);
    expect(ours == theirs, name, "results differ", step);
    for (int32_t i = 0; i < kLanes; ++i) num_ended += ours.terminations[size_t(i)] | ours.truncations[size_t(i)];
  }
  expect(num_ended > kLanes, name, "too few episodes ended to tell anything", num_ended);
  seed_env_pool_destroy(pool);
}

}  // namespace

int main() {
  for (const int32_t autoreset : {SEED_AUTORESET_NEXT_STEP, SEED_AUTORESET_SAME_STEP}) {
    compare<Ball>("ball", autoreset);
    compare<Quadruped>("quadruped", autoreset);
    compare<OrderBook>("order_book", autoreset);
  }
  if (failures == 0) std::printf("passed\n");
  return failures == 0 ? 0 : 1;
}
