// SPDX-License-Identifier: Apache-2.0
// The kernel that starts episodes: one thread a lane, about 130 frames for those that reset.
#include "pool/device_lane.h"

namespace seed {
namespace {

// A copy of a lane right after loading, with the generators that this seed gives.
__device__ inline void copy_start(const PoolView& pool, int32_t index, uint32_t seed, uint32_t env_id) {
  const int32_t start = pool.start_of_lane[index];
  pool.lanes[index] = pool.starts[start];
  const int64_t bytes = int64_t{2} * pool.picture_bytes;
  for (int64_t i = 0; i < bytes; ++i) pool.buffers[bytes * index + i] = pool.start_buffers[bytes * start + i];
  lane_seed(pool.lanes[index], seed, env_id);
}

// There is one place for each thing that runs frames: what such a call finds in registers has to stay there all the way
// down to the picture.
__global__ void __launch_bounds__(kLaneThreads, kResetBlocks) reset_lanes(const PoolView* view, ResetTask task) {
  const PoolView& pool = *view;
  const int64_t thread = thread_number();
  if (thread >= pool.num_envs) return;
  const int32_t index = static_cast<int32_t>(thread);
  LaneResult& result = pool.results[index];
  int32_t seed = SEED_NO_SEED;  // the lane's generators go on
  if (task.step_is_shown) result.is_new = false;
  if (task.mask == nullptr) {
    if (!result.resets) return;
  } else {
    result.is_new = result.reports_end = false;
    if (!task.mask[index]) return;
    result.reward = 0;
    result.terminated = result.truncated = false;
    seed = task.seeds[index];
  }
  result.num_planes = 0;
  announce_picture(pool, result, Shown::kLastFrame, false);
  Lane& lane = pool.lanes[index];
  const Screen screen = lane_screen(pool, index);
  const bool is_seeded = seed != SEED_NO_SEED;
  const uint32_t env_id = is_seeded ? static_cast<uint32_t>(task.env_ids[index]) : 0;
  if (is_seeded && pool.start_reusable[pool.start_of_lane[index]]) {
    copy_start(pool, index, static_cast<uint32_t>(seed), env_id);
  } else {
    if (is_seeded) {
      atari_load(lane.atari, pool.game, pool.options.atari, static_cast<uint32_t>(seed), env_id, 0, Screen{});
      mt19937_seed(lane.noop_generator, static_cast<uint32_t>(seed));
    }
    lane.atari.mode = pool.modes[index];
    lane.atari.difficulty = static_cast<uint8_t>(pool.difficulties[index]);
    atari_reset(lane.atari, pool.game, pool.options.atari, screen);
  }
  lane_start_episode(lane, pool.game, pool.options, screen);
  if (lane.atari.error == AtariError::kModeNotReached)
    report_fault(pool, LaneFault::kModeNotReached, static_cast<int32_t>(&lane - pool.lanes), lane.atari.mode);
}

}  // namespace

cudaError_t launch_reset_lanes(const PoolView* view, int32_t num_envs, const ResetTask& task, cudaStream_t stream) {
  SEED_LAUNCH(reset_lanes, blocks_of(num_envs, kLaneThreads), kLaneThreads, stream, view, task);
  return cudaGetLastError();
}

}  // namespace seed
