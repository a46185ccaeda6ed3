// SPDX-License-Identifier: Apache-2.0
// The pool of environments behind seed/environment.h on a CUDA device.
//
//   step    take_actions, the environment's own kernel (envs/environment.h), see_results
//   reset   the environment's own kernel, see_results
//
// A step launches on the pool's stream and returns: no allocation, no wait, so that it can be captured in a CUDA graph.
// What kernels find wrong is told by seed_env_pool_synchronize().
#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "pool/device_memory.h"
#include "pool/environment_pool.h"

namespace seed {
namespace {

constexpr int kThreads = 128;

enum class EnvironmentFault : int32_t { kNone, kBadAction, kNotFinite, kEndedLane, kReported };

// The first thing that went wrong.
struct EnvironmentReport {
  int32_t fault;  // EnvironmentFault; set once
  int32_t lane;
  int64_t action;
  seed_env_lane state;
};

// What the kernels of a pool share.
struct EnvironmentView {
  const uint32_t* lanes;  // word by word, as in seed_env_batch
  int32_t num_lanes;
  int32_t num_actions;  // 0: continuous
  int32_t action_size;
  bool never_resets;  // SEED_AUTORESET_DISABLED
  int64_t* discrete_actions;
  float* continuous_actions;
  EnvironmentReport* report;
};

__device__ inline seed_env_lane lane_state(const EnvironmentView& pool, int32_t lane) {
  seed_env_lane state;
  uint32_t words[sizeof state / sizeof(uint32_t)];
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i) words[i] = pool.lanes[i * size_t(pool.num_lanes) + lane];
  memcpy(&state, words, sizeof state);
  return state;
}

__device__ inline void report_fault(const EnvironmentView& pool, EnvironmentFault fault, int32_t lane, int64_t action) {
  if (atomicCAS(&pool.report->fault, 0, static_cast<int32_t>(fault)) != 0) return;
  pool.report->lane = lane;
  pool.report->action = action;
  pool.report->state = lane_state(pool, lane);
}

__device__ inline int32_t thread_lane() { return static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x); }

// Copies the actions; what the CPU's pool refuses is reported here, and 0 is played in its place. One thread a lane.
__global__ void __launch_bounds__(kThreads) take_actions(EnvironmentView pool, const void* actions) {
  const int32_t lane = thread_lane();
  if (lane >= pool.num_lanes) return;
  if (pool.never_resets && lane_state(pool, lane).ended != 0) report_fault(pool, EnvironmentFault::kEndedLane, lane, 0);
  if (pool.num_actions > 0) {
    const int64_t given = static_cast<const int64_t*>(actions)[lane];
    const bool legal = given >= 0 && given < pool.num_actions;
    if (!legal) report_fault(pool, EnvironmentFault::kBadAction, lane, given);
    pool.discrete_actions[lane] = legal ? given : 0;
    return;
  }
  const float* const given = static_cast<const float*>(actions) + size_t(lane) * pool.action_size;
  float* const taken = pool.continuous_actions + size_t(lane) * pool.action_size;
  for (int32_t i = 0; i < pool.action_size; ++i) {
    const bool finite = given[i] - given[i] == 0.0f;
    if (!finite) report_fault(pool, EnvironmentFault::kNotFinite, lane, 0);
    taken[i] = finite ? given[i] : 0.0f;
  }
}

// Looks for errors that environments reported, and counts the lanes that ended (*num_ended is 0 before). One thread a
// lane.
__global__ void __launch_bounds__(kThreads)
    see_results(EnvironmentView pool, const uint8_t* terminations, const uint8_t* truncations, int32_t* num_ended) {
  const int32_t lane = thread_lane();
  if (lane >= pool.num_lanes) return;
  if (lane_state(pool, lane).error != 0) report_fault(pool, EnvironmentFault::kReported, lane, 0);
  if (num_ended != nullptr && (terminations[lane] | truncations[lane]) != 0) atomicAdd(num_ended, 1);
}

struct EnvironmentPool {
  const seed_environment* environment;
  seed_env_pool_options options;
  int device = 0;
  cudaStream_t stream = nullptr;
  bool has_reset = false;
  seed_env_batch batch{};
  EnvironmentView view{};
  DeviceArray<uint32_t> lanes;
  DeviceArray<float> option_values, continuous_actions;
  DeviceArray<int64_t> discrete_actions;
  DeviceArray<uint8_t> data, mask;
  DeviceArray<int32_t> seeds, env_ids;
  DeviceArray<EnvironmentReport> report;

  const seed_env_description& description() const { return environment->description; }
  size_t num_envs() const { return size_t(options.num_envs); }
  size_t lane_words() const { return size_t(description().lane_bytes) / sizeof(uint32_t); }

  seed_status build();
  seed_status run(seed_env_function function, const seed_env_rows& rows);
  seed_status see(const seed_env_rows& rows);
  seed_status synchronize();
};

seed_status EnvironmentPool::build() {
  const seed_env_description& about = description();
  SEED_CHECK(lanes.allocate(num_envs() * lane_words()));
  SEED_CHECK(lanes.clear(stream));
  SEED_CHECK(discrete_actions.allocate(about.num_actions > 0 ? num_envs() : 0));
  SEED_CHECK(continuous_actions.allocate(num_envs() * size_t(about.action_size)));
  SEED_CHECK(mask.allocate(num_envs()));
  SEED_CHECK(seeds.allocate(num_envs()));
  SEED_CHECK(env_ids.allocate(num_envs()));
  SEED_CHECK(report.allocate(1));
  SEED_CHECK(report.clear(stream));
  SEED_CHECK(option_values.allocate(size_t(options.num_options)));
  if (options.num_options > 0) SEED_CHECK(option_values.copy_from(options.options, stream));
  SEED_CHECK(data.allocate(size_t(options.data_bytes)));
  if (options.data_bytes > 0) SEED_CHECK(data.copy_from(options.data, stream));
  SEED_CUDA(cudaStreamSynchronize(stream));
  options.options = nullptr;  // the caller's, no longer needed
  options.data = nullptr;
  batch.lanes = reinterpret_cast<uint8_t*>(lanes.data());
  batch.num_lanes = options.num_envs;
  batch.autoreset = options.autoreset;
  batch.max_episode_steps = options.max_episode_steps < 0 ? about.max_episode_steps : options.max_episode_steps;
  batch.options = option_values.data();
  batch.data = data.data();
  batch.data_bytes = options.data_bytes;
  batch.discrete_actions = discrete_actions.data();
  batch.continuous_actions = continuous_actions.data();
  view = EnvironmentView{lanes.data(),
                         options.num_envs,
                         about.num_actions,
                         about.action_size,
                         options.autoreset == SEED_AUTORESET_DISABLED,
                         discrete_actions.data(),
                         continuous_actions.data(),
                         report.data()};
  return SEED_OK;
}

// Launches a function of the environment for all lanes.
seed_status EnvironmentPool::run(seed_env_function function, const seed_env_rows& rows) {
  batch.observations = rows.observations;
  batch.rewards = rows.rewards;
  batch.terminations = rows.terminations;
  batch.truncations = rows.truncations;
  batch.final_observations = rows.final_observations;
  batch.episode_steps = rows.episode_steps;
  if (function(&batch, 0, options.num_envs, stream) == SEED_OK) return SEED_OK;
  return fail(SEED_DEVICE_ERROR,
              "the kernels of '%s' cannot be launched on this GPU: build them for its architecture (docs/cuda.md)",
              description().name);
}

seed_status EnvironmentPool::see(const seed_env_rows& rows) {
  const bool counts = rows.num_ended != nullptr && rows.terminations != nullptr && rows.truncations != nullptr;
  if (rows.num_ended != nullptr) SEED_CUDA(cudaMemsetAsync(rows.num_ended, 0, sizeof *rows.num_ended, stream));
  SEED_LAUNCH(see_results, blocks_of(options.num_envs, kThreads), kThreads, stream, view, rows.terminations,
              rows.truncations, counts ? rows.num_ended : nullptr);
  SEED_CUDA(cudaGetLastError());
  return SEED_OK;
}

// Waits for the stream and returns what the kernels found wrong, once.
seed_status EnvironmentPool::synchronize() {
  EnvironmentReport found{};
  SEED_CUDA(cudaMemcpyAsync(&found, report.data(), sizeof found, cudaMemcpyDeviceToHost, stream));
  SEED_CUDA(cudaStreamSynchronize(stream));
  if (found.fault == 0) return SEED_OK;
  SEED_CHECK(report.clear(stream));
  constexpr char kThen[] = "; 0 was played in its place";
  switch (static_cast<EnvironmentFault>(found.fault)) {
    case EnvironmentFault::kBadAction:
      return fail_action(found.lane, found.action, description(), kThen);
    case EnvironmentFault::kNotFinite:
      return fail_not_finite(found.lane, kThen);
    case EnvironmentFault::kEndedLane:
      return fail_ended(found.lane);
    default:
      return fail_environment(found.lane, found.state, description());
  }
}

seed_status check_snapshot_call(const EnvironmentPool* pool, int32_t lane, const void* bytes) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(bytes, "bytes"));
  SEED_CHECK(check_was_reset(pool->has_reset));
  return check_range("lane", lane, 0, pool->options.num_envs - 1);
}

}  // namespace
}  // namespace seed

struct seed_env_pool : seed::EnvironmentPool {};

using namespace seed;

extern "C" {

seed_status seed_env_pool_create(const seed_environment* environment, const seed_env_pool_options* options,
                                 seed_env_pool** pool) {
  SEED_CHECK(check_environment(environment, "cuda", "CUDA devices"));
  SEED_CHECK(check_pointer(options, "options"));
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_env_pool_options(*options, environment->description));
  try {
    std::unique_ptr<seed_env_pool> created(new seed_env_pool{});
    created->environment = environment;
    created->options = *options;
    created->device = options->device;
    const DeviceScope scope(created->device);
    SEED_CUDA(cudaGetLastError());  // of a device that does not exist
    SEED_CHECK(created->build());
    *pool = created.release();
    return SEED_OK;
  } catch (const std::bad_alloc&) {
    return fail(SEED_OUT_OF_MEMORY, "not enough memory for %d environments", options->num_envs);
  }
}

seed_status seed_env_pool_destroy(seed_env_pool* pool) {
  if (pool == nullptr) return SEED_OK;
  const DeviceScope scope(pool->device);
  cudaStreamSynchronize(pool->stream);
  delete pool;
  return SEED_OK;
}

seed_status seed_env_pool_set_stream(seed_env_pool* pool, void* stream) {
  SEED_CHECK(check_pointer(pool, "pool"));
  pool->stream = static_cast<cudaStream_t>(stream);
  return SEED_OK;
}

seed_status seed_env_pool_synchronize(seed_env_pool* pool) {
  SEED_CHECK(check_pointer(pool, "pool"));
  const DeviceScope scope(pool->device);
  return pool->synchronize();
}

seed_status seed_env_pool_reset(seed_env_pool* pool, const uint8_t* mask, const int32_t* seeds, const int32_t* env_ids,
                                const seed_env_rows* rows) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(rows, "rows"));
  SEED_CHECK(check_seeds(pool->options.num_envs, pool->has_reset, mask, seeds));
  const DeviceScope scope(pool->device);
  seed_env_batch& batch = pool->batch;
  batch.mask = mask != nullptr ? pool->mask.data() : nullptr;
  batch.seeds = seeds != nullptr ? pool->seeds.data() : nullptr;
  batch.env_ids = env_ids != nullptr ? pool->env_ids.data() : nullptr;
  if (mask != nullptr) SEED_CHECK(pool->mask.copy_from(mask, pool->stream));
  if (seeds != nullptr) SEED_CHECK(pool->seeds.copy_from(seeds, pool->stream));
  if (env_ids != nullptr) SEED_CHECK(pool->env_ids.copy_from(env_ids, pool->stream));
  SEED_CHECK(pool->run(pool->environment->reset, *rows));
  pool->has_reset = true;
  SEED_CHECK(pool->see(*rows));
  return pool->synchronize();
}

seed_status seed_env_pool_step(seed_env_pool* pool, const void* actions, const seed_env_rows* rows) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(actions, "actions"));
  SEED_CHECK(check_pointer(rows, "rows"));
  SEED_CHECK(check_was_reset(pool->has_reset));
  const DeviceScope scope(pool->device);
  SEED_LAUNCH(take_actions, blocks_of(pool->options.num_envs, kThreads), kThreads, pool->stream, pool->view, actions);
  SEED_CUDA(cudaGetLastError());
  SEED_CHECK(pool->run(pool->environment->step, *rows));
  return pool->see(*rows);
}

seed_status seed_env_pool_observe(seed_env_pool* pool, const seed_env_rows* rows) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(rows, "rows"));
  SEED_CHECK(check_was_reset(pool->has_reset));
  const DeviceScope scope(pool->device);
  return pool->run(pool->environment->observe, *rows);
}

seed_status seed_env_pool_reference_actions(seed_env_pool* pool, void* actions) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(actions, "actions"));
  SEED_CHECK(check_was_reset(pool->has_reset));
  if (pool->environment->act == nullptr)
    return fail(SEED_NOT_FOUND, "the environment '%s' has no reference policy", pool->description().name);
  const DeviceScope scope(pool->device);
  pool->batch.reference_actions = actions;
  return pool->run(pool->environment->act, seed_env_rows{});
}

seed_status seed_env_pool_lane_size(const seed_env_pool* pool, int64_t* size) {
  SEED_CHECK(check_pointer(pool, "pool"));
  SEED_CHECK(check_pointer(size, "size"));
  *size = env_snapshot_size(pool->description());
  return SEED_OK;
}

seed_status seed_env_pool_save_lane(seed_env_pool* pool, int32_t lane, uint8_t* bytes, int64_t size) {
  SEED_CHECK(check_snapshot_call(pool, lane, bytes));
  SEED_CHECK(check_range("size", size, env_snapshot_size(pool->description()), INT64_MAX));
  const DeviceScope scope(pool->device);
  constexpr size_t kWord = sizeof(uint32_t);  // of all lanes' words the lane's, one after the other
  SEED_CUDA(cudaMemcpy2DAsync(bytes + sizeof(EnvSnapshotHeader), kWord, pool->lanes.data() + lane,
                              kWord * pool->num_envs(), kWord, pool->lane_words(), cudaMemcpyDeviceToHost,
                              pool->stream));
  SEED_CUDA(cudaStreamSynchronize(pool->stream));
  write_env_snapshot_header(pool->description(), bytes);
  return SEED_OK;
}

seed_status seed_env_pool_restore_lane(seed_env_pool* pool, int32_t lane, const uint8_t* bytes, int64_t size) {
  SEED_CHECK(check_snapshot_call(pool, lane, bytes));
  SEED_CHECK(check_env_snapshot(pool->description(), bytes, size));
  const DeviceScope scope(pool->device);
  constexpr size_t kWord = sizeof(uint32_t);
  SEED_CUDA(cudaMemcpy2DAsync(pool->lanes.data() + lane, kWord * pool->num_envs(), bytes + sizeof(EnvSnapshotHeader),
                              kWord, kWord, pool->lane_words(), cudaMemcpyHostToDevice, pool->stream));
  SEED_CUDA(cudaStreamSynchronize(pool->stream));
  return SEED_OK;
}
}
