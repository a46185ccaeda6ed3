// SPDX-License-Identifier: Apache-2.0
// The pool of environments behind seed/environment.h on the CPU: lanes in one array, split among threads.
//
// A task is a range of lanes. How many there are follows from the measured cost of a step, since waking threads for
// less work than that costs more than it gains; results never depend on it.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "pool/environment_pool.h"
#include "pool/workers.h"

namespace seed {
namespace {

constexpr double kTaskSeconds = 10e-6;  // below this a task is not worth a thread
constexpr int kTasksPerThread = 4;      // so that a thread that is interrupted does not hold up the others
constexpr int kTimedSteps = 3;          // the first ones, by the calling thread alone

struct EnvironmentPool {
  const seed_environment* environment;
  seed_env_pool_options options;
  std::vector<float> option_values;
  std::vector<uint8_t> data;
  std::unique_ptr<uint64_t[]> lane_words;
  seed_env_batch batch{};
  seed_env_function function = nullptr;  // of the call that runs
  int32_t num_tasks = 1;                 // of the call that runs
  double step_seconds = 0.0;             // the quickest of the timed steps, all lanes
  int num_steps = 0;
  bool has_reset = false;
  pid_t process;
  std::unique_ptr<Workers> workers;  // last: its threads use everything above

  const seed_env_description& description() const { return environment->description; }
  int32_t num_envs() const { return options.num_envs; }
  uint8_t* lane_bytes(int32_t lane) const { return batch.lanes + size_t(lane) * size_t(description().lane_bytes); }
  const seed_env_lane& lane(int32_t index) const {
    return *reinterpret_cast<const seed_env_lane*>(static_cast<const void*>(lane_bytes(index)));
  }

  void run_task(int32_t task) const {
    const int64_t first = int64_t{num_envs()} * task / num_tasks, last = int64_t{num_envs()} * (task + 1) / num_tasks;
    function(&batch, int32_t(first), int32_t(last - first), nullptr);
  }

  // Runs a function of the table on all lanes.
  void run(seed_env_function chosen, int32_t tasks) {
    function = chosen;
    num_tasks = std::max(1, std::min(tasks, num_envs()));
    if (num_tasks == 1) return run_task(0);
    for (int32_t task = 0; task < num_tasks; ++task) workers->post(task);
    workers->wake();
    workers->wait(num_tasks);
  }

  int32_t max_tasks() const { return workers->num_threads() == 0 ? 1 : kTasksPerThread * (workers->num_threads() + 1); }

  void run_step() {
    if (num_steps >= kTimedSteps)
      return run(environment->step, std::min(max_tasks(), int32_t(step_seconds / kTaskSeconds)));
    const auto began = std::chrono::steady_clock::now();
    run(environment->step, 1);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    step_seconds = num_steps == 0 ? seconds : std::min(step_seconds, seconds);
    ++num_steps;
  }

  void set_rows(const seed_env_rows& rows) {
    batch.observations = rows.observations;
    batch.rewards = rows.rewards;
    batch.terminations = rows.terminations;
    batch.truncations = rows.truncations;
    batch.final_observations = rows.final_observations;
    batch.episode_steps = rows.episode_steps;
  }

  seed_status check_actions(const void* actions) const;
  seed_status check_errors() const;
};

seed_status EnvironmentPool::check_actions(const void* actions) const {
  const seed_env_description& about = description();
  if (about.num_actions > 0) {
    const int64_t* const given = static_cast<const int64_t*>(actions);
    for (int32_t i = 0; i < num_envs(); ++i)
      if (given[i] < 0 || given[i] >= about.num_actions) return fail_action(i, given[i], about);
  } else {
    const float* const given = static_cast<const float*>(actions);
    const int64_t count = int64_t{num_envs()} * about.action_size;
    for (int64_t i = 0; i < count; ++i)
      if (!std::isfinite(given[i])) return fail_not_finite(int32_t(i / about.action_size));
  }
  if (options.autoreset == SEED_AUTORESET_DISABLED)
    for (int32_t i = 0; i < num_envs(); ++i)
      if (lane(i).ended != 0) return fail_ended(i);
  return SEED_OK;
}

seed_status EnvironmentPool::check_errors() const {
  for (int32_t i = 0; i < num_envs(); ++i)
    if (lane(i).error != 0) return fail_environment(i, lane(i), description());
  return SEED_OK;
}

void build(EnvironmentPool& pool, const seed_environment* environment, const seed_env_pool_options& options) {
  pool.environment = environment;
  pool.options = options;
  pool.process = getpid();
  pool.option_values.assign(options.options, options.options + options.num_options);
  if (options.data_bytes > 0) pool.data.assign(options.data, options.data + options.data_bytes);
  const size_t bytes = size_t(options.num_envs) * size_t(environment->description.lane_bytes);
  pool.lane_words.reset(new uint64_t[bytes / 8 + 1]());
  pool.batch.lanes = static_cast<uint8_t*>(static_cast<void*>(pool.lane_words.get()));
  pool.batch.num_lanes = options.num_envs;
  pool.batch.autoreset = options.autoreset;
  pool.batch.max_episode_steps =
      options.max_episode_steps < 0 ? environment->description.max_episode_steps : options.max_episode_steps;
  pool.batch.options = pool.option_values.data();
  pool.batch.data = pool.data.data();
  pool.batch.data_bytes = options.data_bytes;
  const int processors = std::max(1, int(std::thread::hardware_concurrency()));
  const int threads = std::min(options.num_threads > 0 ? options.num_threads : processors, options.num_envs);
  EnvironmentPool* const owner = &pool;
  pool.workers.reset(
      new Workers(threads - 1, -1, kTasksPerThread * threads, [owner](int, int task) { owner->run_task(task); }));
}

// A child of fork() has no worker threads.
seed_status check_process(const EnvironmentPool& pool) {
  if (pool.process == getpid()) return SEED_OK;
  return fail(SEED_BAD_STATE, "the pool's threads live in process %d: create a pool in each process", pool.process);
}

}  // namespace
}  // namespace seed

struct seed_env_pool : seed::EnvironmentPool {};

using namespace seed;

extern "C" {

seed_status seed_env_pool_create(const seed_environment* environment, const seed_env_pool_options* options,
                                 seed_env_pool** pool) {
  SEED_CHECK(check_environment(environment, "cpu", "CPUs"));
  SEED_CHECK(check_pointer(options, "options"));
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_env_pool_options(*options, environment->description));
  try {
    std::unique_ptr<seed_env_pool> created(new seed_env_pool{});
    build(*created, environment, *options);
    *pool = created.release();
    return SEED_OK;
  } catch (const std::bad_alloc&) {
    return fail(SEED_OUT_OF_MEMORY, "not enough memory for %d environments", options->num_envs);
  } catch (const std::system_error& error) {
    return fail(SEED_OUT_OF_MEMORY, "the threads cannot be started: %s", error.what());
  }
}

seed_status seed_env_pool_destroy(seed_env_pool* pool) {
  if (pool == nullptr || pool->process != getpid()) return SEED_OK;  // threads did not survive a fork
  delete pool;
  return SEED_OK;
}

seed_status seed_env_pool_set_stream(seed_env_pool* pool, void* stream) {
  SEED_CHECK(check_pointer(pool, "pool"));
  return stream == nullptr ? SEED_OK : fail(SEED_INVALID_ARGUMENT, "the CPU pool has no stream: give NULL");
}

seed_status seed_env_pool_synchronize(seed_env_pool* pool) { return check_pointer(pool, "pool"); }

seed_status seed_env_pool_reset(seed_env_pool* pool, const uint8_t* mask, const int32_t* seeds, const int32_t* env_ids,
                                const seed_env_rows* rows) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(rows, "rows"));
  SEED_CHECK(check_process(*pool));
  SEED_CHECK(check_seeds(pool->num_envs(), pool->has_reset, mask, seeds));
  pool->set_rows(*rows);
  pool->batch.mask = mask;
  pool->batch.seeds = seeds;
  pool->batch.env_ids = env_ids;
  pool->run(pool->environment->reset, pool->max_tasks());
  pool->has_reset = true;
  if (rows->num_ended != nullptr) *rows->num_ended = 0;
  return pool->check_errors();
}

seed_status seed_env_pool_step(seed_env_pool* pool, const void* actions, const seed_env_rows* rows) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(actions, "actions"));
  SEED_CHECK(check_pointer(rows, "rows"));
  SEED_CHECK(check_process(*pool));
  SEED_CHECK(check_was_reset(pool->has_reset));
  SEED_CHECK(pool->check_errors());  // a lane that failed must be reset first
  SEED_CHECK(pool->check_actions(actions));
  pool->set_rows(*rows);
  pool->batch.discrete_actions = static_cast<const int64_t*>(actions);
  pool->batch.continuous_actions = static_cast<const float*>(actions);
  pool->run_step();
  if (rows->num_ended != nullptr) {
    *rows->num_ended = 0;
    if (rows->terminations != nullptr && rows->truncations != nullptr)
      for (int32_t i = 0; i < pool->num_envs(); ++i) *rows->num_ended += rows->terminations[i] | rows->truncations[i];
  }
  return pool->check_errors();
}

seed_status seed_env_pool_observe(seed_env_pool* pool, const seed_env_rows* rows) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(rows, "rows"));
  SEED_CHECK(check_process(*pool));
  SEED_CHECK(check_was_reset(pool->has_reset));
  pool->set_rows(*rows);
  pool->run(pool->environment->observe, 1);
  return SEED_OK;
}

seed_status seed_env_pool_reference_actions(seed_env_pool* pool, void* actions) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(actions, "actions"));
  SEED_CHECK(check_process(*pool));
  SEED_CHECK(check_was_reset(pool->has_reset));
  if (pool->environment->act == nullptr)
    return fail(SEED_NOT_FOUND, "the environment '%s' has no reference policy", pool->description().name);
  SEED_CHECK(pool->check_errors());
  pool->batch.reference_actions = actions;
  pool->run(pool->environment->act, 1);
  return SEED_OK;
}

seed_status seed_env_pool_lane_size(const seed_env_pool* pool, int64_t* size) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(size, "size"));
  *size = env_snapshot_size(pool->description());
  return SEED_OK;
}

seed_status seed_env_pool_save_lane(seed_env_pool* pool, int32_t lane, uint8_t* bytes, int64_t size) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(bytes, "bytes"));
  SEED_CHECK(check_was_reset(pool->has_reset));
  SEED_CHECK(check_range("lane", lane, 0, pool->num_envs() - 1));
  SEED_CHECK(check_range("size", size, env_snapshot_size(pool->description()), INT64_MAX));
  std::memcpy(bytes + sizeof(EnvSnapshotHeader), pool->lane_bytes(lane), size_t(pool->description().lane_bytes));
  write_env_snapshot_header(pool->description(), bytes);
  return SEED_OK;
}

seed_status seed_env_pool_restore_lane(seed_env_pool* pool, int32_t lane, const uint8_t* bytes, int64_t size) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(bytes, "bytes"));
  SEED_CHECK(check_was_reset(pool->has_reset));
  SEED_CHECK(check_range("lane", lane, 0, pool->num_envs() - 1));
  SEED_CHECK(check_env_snapshot(pool->description(), bytes, size));
  std::memcpy(pool->lane_bytes(lane), bytes + sizeof(EnvSnapshotHeader), size_t(pool->description().lane_bytes));
  return SEED_OK;
}
}
