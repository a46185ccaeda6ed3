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

#include "envs/registry.h"
#include "error.h"
#include "pool/workers.h"
#include "seed/environment.h"

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
      if (given[i] < 0 || given[i] >= about.num_actions)
        return fail(SEED_INVALID_ARGUMENT, "the action of row %d is %lld, it must be 0 to %d", i,
                    static_cast<long long>(given[i]), about.num_actions - 1);
  } else {
    const float* const given = static_cast<const float*>(actions);
    const int64_t count = int64_t{num_envs()} * about.action_size;
    for (int64_t i = 0; i < count; ++i)
      if (!std::isfinite(given[i]))
        return fail(SEED_INVALID_ARGUMENT, "the action of row %d is not finite", int(i / about.action_size));
  }
  if (options.autoreset == SEED_AUTORESET_DISABLED)
    for (int32_t i = 0; i < num_envs(); ++i)
      if (lane(i).ended != 0)
        return fail(SEED_BAD_STATE, "the episode of lane %d has ended: reset the lane before you step it", i);
  return SEED_OK;
}

seed_status EnvironmentPool::check_errors() const {
  for (int32_t i = 0; i < num_envs(); ++i) {
    const seed_env_lane& state = lane(i);
    if (state.error != 0)
      return fail(SEED_BAD_STATE,
                  "the environment '%s' reported error %d in lane %d (seed %u, number %u, episode %u, step %d)",
                  description().name, state.error, i, state.seed, state.env_id, state.episode, state.episode_steps);
  }
  return SEED_OK;
}

seed_status check_pointer(const void* pointer, const char* name) {
  return pointer != nullptr ? SEED_OK : fail(SEED_INVALID_ARGUMENT, "%s is NULL", name);
}

seed_status check_range(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return SEED_OK;
  return fail(SEED_INVALID_ARGUMENT, "%s is %lld, it must be %lld to %lld", name, static_cast<long long>(value),
              static_cast<long long>(low), static_cast<long long>(high));
}

#define SEED_CHECK(call)                              \
  do {                                                \
    const seed_status check_status = (call);          \
    if (check_status != SEED_OK) return check_status; \
  } while (false)

seed_status check_environment(const seed_environment* environment) {
  SEED_CHECK(check_pointer(environment, "environment"));
  const seed_env_description& about = environment->description;
  if (about.version != SEED_ENVIRONMENT_VERSION || about.layout_bytes != int32_t(sizeof(seed_env_batch)))
    return fail(SEED_INVALID_ARGUMENT, "the environment was built for version %d of the library, this is version %d",
                about.version, SEED_ENVIRONMENT_VERSION);
  if (std::strcmp(about.backend, "cpu") != 0)
    return fail(SEED_INVALID_ARGUMENT, "the environment '%s' was built for %s, this pool runs on CPUs", about.name,
                about.backend);
  return SEED_OK;
}

seed_status check_pool(const seed_env_pool_options& options, const seed_env_description& about) {
  SEED_CHECK(check_range("num_envs", options.num_envs, 1, 1 << 24));
  SEED_CHECK(check_range("num_threads", options.num_threads, 0, 4096));
  SEED_CHECK(check_range("autoreset", options.autoreset, 0, 2));
  SEED_CHECK(check_range("max_episode_steps", options.max_episode_steps, -1, INT32_MAX));
  SEED_CHECK(check_range("num_options", options.num_options, about.num_options, about.num_options));
  if (options.num_options > 0) SEED_CHECK(check_pointer(options.options, "options"));
  for (int32_t i = 0; i < options.num_options; ++i)
    if (!std::isfinite(options.options[i]))
      return fail(SEED_INVALID_ARGUMENT, "the option %s is not finite", about.options[i].name);
  SEED_CHECK(check_range("data_bytes", options.data_bytes, 0, INT64_MAX));
  return options.data_bytes > 0 ? check_pointer(options.data, "data") : SEED_OK;
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

seed_status check_was_reset(const EnvironmentPool& pool) {
  return pool.has_reset ? SEED_OK : fail(SEED_BAD_STATE, "the environments have not been reset: call reset first");
}

seed_status check_seeds(const EnvironmentPool& pool, const uint8_t* mask, const int32_t* seeds) {
  for (int32_t i = 0; i < pool.num_envs(); ++i) {
    const bool chosen = mask == nullptr || mask[i] != 0;
    if (!pool.has_reset && (!chosen || seeds == nullptr || seeds[i] == SEED_NO_SEED))
      return fail(SEED_BAD_STATE, "the first reset must start every lane with a seed");
    if (chosen && seeds != nullptr && seeds[i] < SEED_NO_SEED)
      return fail(SEED_INVALID_ARGUMENT, "the seed of lane %d is %d, it must be at least 0", i, seeds[i]);
  }
  return SEED_OK;
}

// ---- Snapshots ---------------------------------------------------------------------------------------------------

constexpr char kSnapshotMagic[8] = {'S', 'E', 'E', 'D', 'E', 'N', 'V', '1'};

struct SnapshotHeader {
  char magic[8];
  char name[64];
  uint32_t version, lane_bytes;
  uint64_t checksum;
};

// FNV-1a.
uint64_t hash_bytes(const uint8_t* bytes, size_t count) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < count; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

SnapshotHeader snapshot_header(const EnvironmentPool& pool, const uint8_t* lane) {
  SnapshotHeader header{};
  std::memcpy(header.magic, kSnapshotMagic, sizeof header.magic);
  std::strncpy(header.name, pool.description().name, sizeof header.name - 1);
  header.version = SEED_ENVIRONMENT_VERSION;
  header.lane_bytes = uint32_t(pool.description().lane_bytes);
  header.checksum = hash_bytes(lane, header.lane_bytes);
  return header;
}

}  // namespace
}  // namespace seed

struct seed_env_pool : seed::EnvironmentPool {};

using namespace seed;

extern "C" {

seed_status seed_environment_count(int32_t* count) {
  SEED_CHECK(check_pointer(count, "count"));
  *count = int32_t(registered_environments().size());
  return SEED_OK;
}

seed_status seed_environment_at(int32_t index, const seed_environment** environment) {
  SEED_CHECK(check_pointer(environment, "environment"));
  SEED_CHECK(check_range("index", index, 0, int64_t(registered_environments().size()) - 1));
  *environment = registered_environments()[size_t(index)];
  return SEED_OK;
}

seed_status seed_environment_find(const char* name, const seed_environment** environment) {
  SEED_CHECK(check_pointer(name, "name"));
  SEED_CHECK(check_pointer(environment, "environment"));
  for (const seed_environment* known : registered_environments()) {
    if (std::strcmp(known->description.name, name) != 0) continue;
    *environment = known;
    return SEED_OK;
  }
  return fail(SEED_NOT_FOUND, "there is no environment '%s'", name);
}

seed_status seed_env_pool_create(const seed_environment* environment, const seed_env_pool_options* options,
                                 seed_env_pool** pool) {
  SEED_CHECK(check_environment(environment));
  SEED_CHECK(check_pointer(options, "options"));
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pool(*options, environment->description));
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

seed_status seed_env_pool_reset(seed_env_pool* pool, const uint8_t* mask, const int32_t* seeds, const int32_t* env_ids,
                                const seed_env_rows* rows) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(rows, "rows"));
  SEED_CHECK(check_process(*pool));
  SEED_CHECK(check_seeds(*pool, mask, seeds));
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
  SEED_CHECK(check_was_reset(*pool));
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
  SEED_CHECK(check_was_reset(*pool));
  pool->set_rows(*rows);
  pool->run(pool->environment->observe, 1);
  return SEED_OK;
}

seed_status seed_env_pool_reference_actions(seed_env_pool* pool, void* actions) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(actions, "actions"));
  SEED_CHECK(check_process(*pool));
  SEED_CHECK(check_was_reset(*pool));
  if (pool->environment->act == nullptr)
    return fail(SEED_NOT_FOUND, "the environment '%s' has no reference policy", pool->description().name);
  pool->batch.reference_actions = actions;
  pool->run(pool->environment->act, 1);
  return SEED_OK;
}

seed_status seed_env_pool_lane_size(const seed_env_pool* pool, int64_t* size) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(size, "size"));
  *size = int64_t(sizeof(SnapshotHeader)) + pool->description().lane_bytes;
  return SEED_OK;
}

seed_status seed_env_pool_save_lane(seed_env_pool* pool, int32_t lane, uint8_t* bytes, int64_t size) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(bytes, "bytes"));
  SEED_CHECK(check_was_reset(*pool));
  SEED_CHECK(check_range("lane", lane, 0, pool->num_envs() - 1));
  int64_t needed = 0;
  SEED_CHECK(seed_env_pool_lane_size(pool, &needed));
  SEED_CHECK(check_range("size", size, needed, INT64_MAX));
  const SnapshotHeader header = snapshot_header(*pool, pool->lane_bytes(lane));
  std::memcpy(bytes, &header, sizeof header);
  std::memcpy(bytes + sizeof header, pool->lane_bytes(lane), header.lane_bytes);
  return SEED_OK;
}

seed_status seed_env_pool_restore_lane(seed_env_pool* pool, int32_t lane, const uint8_t* bytes, int64_t size) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(bytes, "bytes"));
  SEED_CHECK(check_was_reset(*pool));
  SEED_CHECK(check_range("lane", lane, 0, pool->num_envs() - 1));
  SnapshotHeader header;
  if (size < int64_t(sizeof header)) return fail(SEED_INVALID_ARGUMENT, "this is no snapshot of a lane");
  std::memcpy(&header, bytes, sizeof header);
  if (std::memcmp(header.magic, kSnapshotMagic, sizeof header.magic) != 0)
    return fail(SEED_INVALID_ARGUMENT, "this is no snapshot of a lane");
  const uint8_t* const state = bytes + sizeof header;
  if (std::strncmp(header.name, pool->description().name, sizeof header.name - 1) != 0)
    return fail(SEED_INVALID_ARGUMENT, "the snapshot is one of '%.63s', the pool runs '%s'", header.name,
                pool->description().name);
  if (header.version != SEED_ENVIRONMENT_VERSION || header.lane_bytes != uint32_t(pool->description().lane_bytes))
    return fail(SEED_INVALID_ARGUMENT, "the snapshot is one of another version of '%s'", pool->description().name);
  if (size != int64_t(sizeof header) + header.lane_bytes || header.checksum != hash_bytes(state, header.lane_bytes))
    return fail(SEED_INVALID_ARGUMENT, "the snapshot is damaged");
  std::memcpy(pool->lane_bytes(lane), state, header.lane_bytes);
  return SEED_OK;
}
}
