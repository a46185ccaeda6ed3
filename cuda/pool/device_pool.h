// SPDX-License-Identifier: Apache-2.0
// The CUDA pool as its kernels see it, and the sequence in which they run.
//
// A step is a fixed sequence of launches, so that a CUDA graph can hold it: nothing allocates, waits, or lets the host
// decide. Every lane keeps its two pictures in device memory and draws each frame; what the CPU pool saves by drawing
// later (pool/lane_pictures.h) costs branches here and is left out. The results are the same.
//
//   step        begin_steps, run_frames, then (next_frames, run_frames) for each further frame, next_frames
//   next step   step, reset_lanes, show_pictures, resize_pictures, outputs
//   same step   step, show_pictures, resize_pictures, final stacks, reset_lanes, show, resize, outputs
//   disabled    step, show_pictures, resize_pictures, outputs
//
// The kernels of a step and reset_lanes (step_cuda.cu, reset_cuda.cu) have one thread a lane, the others
// (picture_kernels.h) one a pixel. None uses a barrier or shared memory: any order of threads gives the same result.
#pragma once

#include <cstdint>

#include "envs/atari_lane.h"
#include "observation/area_resize.h"
#include "pool/cuda_launch.h"
#include "seed/pool.h"

namespace seed {

// Threads of a block, and blocks that a multiprocessor must be able to hold: what the assembler may use registers for.
// A block of lanes is one warp, so that few lanes spread over many multiprocessors: 16,384 lanes are four warps on each
// of an H200's 132. There, registers are worth more than room for further warps (docs/cuda.md tells what spills).
constexpr int kLaneThreads = 32, kStepBlocks = 8, kResetBlocks = 8;
constexpr int kPixelThreads = 256, kPixelBlocks = 4;

// What a lane has besides its machine.
struct LaneResult {
  int32_t reward;
  int32_t newest;      // index of the newest picture in the ring
  int32_t num_planes;  // pictures of this episode in the ring, up to stack_num; the others count as black
  bool terminated, truncated;
  bool reports_end;  // terminated or truncated in this step
  bool is_new;       // a picture is on its way into the ring
  bool has_first;    // the first of two shown pictures was copied away
  bool resets;       // reset_lanes() is to start the next episode
  LaneProgress step;
  Inputs inputs;  // of the frame that has begun
  Shown shown;
};

// The first thing that went wrong in a kernel.
enum class LaneFault : int32_t { kNone, kBadAction, kEndedLane, kModeNotReached };
struct FaultReport {
  int32_t fault;  // LaneFault; set once
  int32_t lane;
  int64_t value;
};

// Everything that the kernels of a pool share, in device memory; the pointers are the device's.
struct PoolView {
  AtariGame game;
  LaneOptions options;
  ResizePlan plan;  // of one channel
  uint8_t maps[3][256];
  uint8_t action_numbers[kNumActions];
  int32_t num_actions;
  int32_t num_channels;
  int32_t num_envs;
  int32_t stack_num;
  int32_t autoreset;
  int32_t picture_bytes;  // of a full-size picture in one channel
  int32_t shown_bytes;    // of one picture of an observation, all channels
  Lane* lanes;
  LaneResult* results;
  uint8_t* buffers;  // num_envs x 2 pictures: the machine's
  uint8_t* firsts;   // num_envs pictures: the first of two shown ones while the machine draws over it
  uint8_t* shown;    // num_envs x num_channels pictures: what the last observation shows
  uint8_t* planes;   // num_envs x stack_num x shown_bytes: the rings
  int32_t* modes;
  int32_t* difficulties;
  int32_t* start_of_lane;   // index of the lane's start, by its mode and difficulty
  Lane* starts;             // lanes right after loading and the console's reset
  uint8_t* start_buffers;   // their pictures
  uint8_t* start_reusable;  // whether the start is the same for every seed
  FaultReport* report;
};

__device__ inline int64_t thread_number() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }

__device__ inline void report_fault(const PoolView& pool, LaneFault fault, int32_t lane, int64_t value) {
  if (atomicCAS(&pool.report->fault, 0, static_cast<int32_t>(fault)) != 0) return;
  pool.report->lane = lane;
  pool.report->value = value;
}

// ---- Launches that other files make ------------------------------------------------------------------------------

// Steps every lane whose episode goes on; `actions` and `strengths` as in seed_pool_step().
cudaError_t launch_step(const PoolView* view, int32_t num_envs, int32_t frameskip, const int64_t* actions,
                        const float* strengths, cudaStream_t stream);

// Which lanes reset_lanes() resets: those that the step has marked, or those in a mask.
struct ResetTask {
  const uint8_t* mask;   // null: marked ones. Mask, seeds and env_ids as in seed_pool_reset(), all on the device
  const int32_t* seeds;  // with a mask
  const int32_t* env_ids;
  bool step_is_shown;  // the pictures that the step announced are in the rings
};
cudaError_t launch_reset_lanes(const PoolView* view, int32_t num_envs, const ResetTask& task, cudaStream_t stream);

}  // namespace seed
