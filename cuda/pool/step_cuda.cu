// SPDX-License-Identifier: Apache-2.0
// The kernels that step lanes, one thread a lane: what happens between frames, and the frames.
//
// A kernel of its own for the frames keeps the machine's registers free of everything else, and all lanes together at
// the start of each frame.
#define SEED_STEP_KERNEL
#include "pool/device_lane.h"

namespace seed {
namespace {

// The action number of a lane's step. One that does not exist is reported and played as NOOP.
__device__ inline int32_t chosen_action(const PoolView& pool, int64_t given, bool any_number, int32_t index) {
  const int32_t num_actions = any_number ? int32_t{kNumActions} : pool.num_actions;
  if (given >= 0 && given < num_actions) return any_number ? static_cast<int32_t>(given) : pool.action_numbers[given];
  report_fault(pool, LaneFault::kBadAction, index, given);
  return kNoop;
}

// Begins the steps, and their first frame.
__global__ void __launch_bounds__(kLaneThreads, kStepBlocks)
    begin_steps(const PoolView* view, const int64_t* actions, const float* strengths) {
  const PoolView& pool = *view;
  const int64_t index = thread_number();
  if (index >= pool.num_envs) return;
  Lane& lane = pool.lanes[index];
  LaneResult& result = pool.results[index];
  result.reports_end = false;
  result.is_new = false;
  result.has_first = false;
  result.step.done = lane.ended;
  result.resets = lane.ended && pool.autoreset == SEED_AUTORESET_NEXT_STEP;
  const int32_t number = static_cast<int32_t>(index);
  if (lane.ended && !result.resets) return report_fault(pool, LaneFault::kEndedLane, number, 0);
  result.reward = 0;
  result.terminated = result.truncated = false;
  if (lane.ended) return;
  const int32_t action = chosen_action(pool, actions[index], strengths != nullptr, number);
  const float strength = strengths != nullptr ? strengths[index] : 1.0f;
  LaneProgress step = lane_begin_step(lane, pool.game, pool.options, action, strength);
  lane_begin_frame(lane, pool.game, pool.options, step, result.inputs);
  result.step = step;
}

// The frame that has begun.
__global__ void __launch_bounds__(kLaneThreads, kStepBlocks) run_frames(const PoolView* view) {
  const PoolView& pool = *view;
  const int64_t index = thread_number();
  if (index >= pool.num_envs) return;
  const LaneResult& result = pool.results[index];
  if (result.step.done || !result.step.runs) return;
  console_run_frame(pool.lanes[index].atari.console, pool.game.rom, pool.game.display, result.inputs,
                    lane_screen(pool, static_cast<int32_t>(index)));
}

// Keeps the first of two shown pictures where the second frame draws over it: the console goes on with a frame that
// has not ended, in the same buffer.
__device__ inline void keep_first(const PoolView& pool, LaneResult& result, const Console& console, int32_t index) {
  if (!console.partial || result.step.num_frames + 1 != pool.options.frameskip) return;
  const uint8_t* const now = lane_screen(pool, index).buffers[console.current_buffer & 1];
  uint8_t* const first = pool.firsts + int64_t{pool.picture_bytes} * index;
  SEED_NO_UNROLL
  for (int32_t i = 0; i < pool.picture_bytes; i += 8)
    *reinterpret_cast<uint64_t*>(first + i) = *reinterpret_cast<const uint64_t*>(now + i);
  result.has_first = true;
}

// Ends the frame that has run, and begins the step's next one or ends the step.
__global__ void __launch_bounds__(kLaneThreads, kStepBlocks) next_frames(const PoolView* view) {
  const PoolView& pool = *view;
  const int64_t index = thread_number();
  if (index >= pool.num_envs) return;
  Lane& lane = pool.lanes[index];
  LaneResult& result = pool.results[index];
  if (result.step.done) return;
  keep_first(pool, result, lane.atari.console, static_cast<int32_t>(index));
  LaneProgress step = result.step;
  lane_end_frame(lane, pool.game, pool.options, step);
  if (!step.done) lane_begin_frame(lane, pool.game, pool.options, step, result.inputs);
  result.step = step;
  if (!step.done) return;
  const LaneStep end = lane_end_step(lane, pool.options, step);
  result.reward = end.reward;
  result.terminated = end.terminated;
  result.truncated = end.truncated;
  result.reports_end = end.terminated || end.truncated;
  result.resets = lane.ended && pool.autoreset == SEED_AUTORESET_SAME_STEP;
  announce_picture(pool, result, end.shown, result.has_first);
}

}  // namespace

cudaError_t launch_step(const PoolView* view, int32_t num_envs, int32_t frameskip, const int64_t* actions,
                        const float* strengths, cudaStream_t stream) {
  const int64_t num_blocks = blocks_of(num_envs, kLaneThreads);
  SEED_LAUNCH(begin_steps, num_blocks, kLaneThreads, stream, view, actions, strengths);
  for (int32_t frame = 0; frame < frameskip; ++frame) {
    SEED_LAUNCH(run_frames, num_blocks, kLaneThreads, stream, view);
    SEED_LAUNCH(next_frames, num_blocks, kLaneThreads, stream, view);
  }
  return cudaGetLastError();
}

}  // namespace seed
