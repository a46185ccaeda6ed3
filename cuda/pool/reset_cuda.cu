// SPDX-License-Identifier: Apache-2.0
// The kernel that starts episodes: one thread a lane, about 130 frames for those that reset.
#include "pool/device_lane.h"

namespace seed {
namespace {

__device__ inline void apply_mode(const PoolView& pool, Lane& lane, int32_t index) {
  lane.atari.mode = pool.modes[index];
  lane.atari.difficulty = static_cast<uint8_t>(pool.difficulties[index]);
}

__device__ inline void begin_episode(const PoolView& pool, int32_t index) {
  LaneResult& result = pool.results[index];
  result.num_planes = 0;
  announce_picture(pool, result, Shown::kLastFrame, false);
  if (pool.lanes[index].atari.error == AtariError::kModeNotReached)
    report_fault(pool, LaneFault::kModeNotReached, index, pool.lanes[index].atari.mode);
}

// The lane's generators go on.
__device__ inline void reset_lane(const PoolView& pool, int32_t index) {
  Lane& lane = pool.lanes[index];
  apply_mode(pool, lane, index);
  lane_reset(lane, pool.game, pool.options, lane_screen(pool, index));
  begin_episode(pool, index);
}

// Restarts the generators, as loading the cartridge with this seed does.
__device__ inline void reset_seeded(const PoolView& pool, int32_t index, uint32_t seed, uint32_t env_id) {
  Lane& lane = pool.lanes[index];
  const Screen screen = lane_screen(pool, index);
  const int32_t start = pool.start_of_lane[index];
  if (pool.start_reusable[start]) {
    lane = pool.starts[start];
    const uint8_t* const pictures = pool.start_buffers + int64_t{2} * pool.picture_bytes * start;
    for (int32_t i = 0; i < 2 * pool.picture_bytes; ++i) screen.buffers[0][i] = pictures[i];
    lane_seed(lane, seed, env_id);
    lane_start_episode(lane, pool.game, pool.options, screen);
  } else {
    atari_load(lane.atari, pool.game, pool.options.atari, seed, env_id, 0, Screen{{nullptr, nullptr}});
    mt19937_seed(lane.noop_generator, seed);
    apply_mode(pool, lane, index);
    lane_reset(lane, pool.game, pool.options, screen);
  }
  begin_episode(pool, index);
}

__global__ void __launch_bounds__(kLaneThreads, kResetBlocks) reset_lanes(const PoolView* view, ResetTask task) {
  const PoolView& pool = *view;
  const int64_t thread = thread_number();
  if (thread >= pool.num_envs) return;
  const int32_t index = static_cast<int32_t>(thread);
  LaneResult& result = pool.results[index];
  if (task.step_is_shown) result.is_new = false;
  if (task.mask == nullptr) {
    if (result.resets) reset_lane(pool, index);
    return;
  }
  result.is_new = result.reports_end = false;
  if (!task.mask[index]) return;
  result.reward = 0;
  result.terminated = result.truncated = false;
  if (task.seeds[index] == SEED_NO_SEED) {
    reset_lane(pool, index);
  } else {
    reset_seeded(pool, index, static_cast<uint32_t>(task.seeds[index]), static_cast<uint32_t>(task.env_ids[index]));
  }
}

}  // namespace

cudaError_t launch_reset_lanes(const PoolView* view, int32_t num_envs, const ResetTask& task, cudaStream_t stream) {
  SEED_LAUNCH(reset_lanes, blocks_of(num_envs, kLaneThreads), kLaneThreads, stream, view, task);
  return cudaGetLastError();
}

}  // namespace seed
