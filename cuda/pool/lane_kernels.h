// SPDX-License-Identifier: Apache-2.0
// The kernels of the CUDA pool: one thread a lane for emulation, one thread a pixel for pictures.
//
// A step is a fixed sequence of launches, so that a CUDA graph can hold it: nothing below allocates, waits, or lets the
// host decide. Every lane keeps its two pictures in device memory and draws each frame; what the CPU pool saves by
// drawing later (pool/lane_pictures.h) costs branches here and is left out. The results are the same.
//
//   step_lanes -> show_pictures -> resize_pictures [-> final stacks -> reset_ended_lanes -> show -> resize] -> outputs
//
// The kernels use no barrier and no shared memory: any order of their threads gives the same result.
#pragma once

#include <cstdint>

#include "envs/atari_lane.h"
#include "observation/area_resize.h"
#include "seed/pool.h"

namespace seed {

// Threads of a block, and blocks that a multiprocessor must be able to hold: together the registers of a thread.
// 64 x 16 = 1,024 threads: the limit of sm_75, half of the limit of sm_80, sm_90 and sm_100.
constexpr int kLaneThreads = 64, kLaneBlocks = 16;
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

// The object `pictures` of lane_step(): every frame is drawn into the lane's buffers.
class DevicePictures {
 public:
  __device__ DevicePictures(const PoolView& pool, int32_t lane) : pool_(pool), lane_(lane) {}

  __device__ Screen screen() const {
    uint8_t* const buffers = pool_.buffers + int64_t{2} * pool_.picture_bytes * lane_;
    return Screen{{buffers, buffers + pool_.picture_bytes}};
  }

  __device__ Screen begin_frame(const Console&, bool shown) {
    num_shown_ += shown;
    return screen();
  }

  // The next call goes on with the same frame, in the same buffer, when this one was partial.
  __device__ void end_frame(const Console& console) {
    if (num_shown_ != 1 || !console.partial) return;
    const uint8_t* const now = screen().buffers[console.current_buffer & 1];
    uint8_t* const first = pool_.firsts + int64_t{pool_.picture_bytes} * lane_;
    for (int32_t i = 0; i < pool_.picture_bytes; ++i) first[i] = now[i];
    has_first_ = true;
  }

  __device__ bool has_first() const { return has_first_; }

 private:
  const PoolView& pool_;
  int32_t lane_;
  int32_t num_shown_ = 0;
  bool has_first_ = false;
};

// ---- Lanes -------------------------------------------------------------------------------------------------------

__device__ inline void apply_mode(const PoolView& pool, Lane& lane, int32_t index) {
  lane.atari.mode = pool.modes[index];
  lane.atari.difficulty = static_cast<uint8_t>(pool.difficulties[index]);
}

// Announces a picture for the ring: resize_pictures() writes it into the place that is `newest` from now on.
__device__ inline void announce_picture(const PoolView& pool, LaneResult& result, Shown shown, bool has_first) {
  result.newest = result.newest + 1 == pool.stack_num ? 0 : result.newest + 1;
  if (result.num_planes < pool.stack_num) ++result.num_planes;
  result.is_new = true;
  result.shown = shown;
  result.has_first = has_first;
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
  lane_reset(lane, pool.game, pool.options, DevicePictures(pool, index).screen());
  begin_episode(pool, index);
}

// Restarts the generators, as loading the cartridge with this seed does.
__device__ inline void reset_seeded(const PoolView& pool, int32_t index, uint32_t seed, uint32_t env_id) {
  Lane& lane = pool.lanes[index];
  const Screen screen = DevicePictures(pool, index).screen();
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

// `mask`, `seeds` and `env_ids` as in seed_pool_reset(), in device memory.
__global__ void __launch_bounds__(kLaneThreads, kLaneBlocks)
    reset_lanes(const PoolView* view, const uint8_t* mask, const int32_t* seeds, const int32_t* env_ids) {
  const PoolView& pool = *view;
  const int64_t thread = thread_number();
  if (thread >= pool.num_envs) return;
  const int32_t index = static_cast<int32_t>(thread);
  LaneResult& result = pool.results[index];
  result.reports_end = false;
  result.is_new = false;
  if (!mask[index]) return;
  result.reward = 0;
  result.terminated = result.truncated = false;
  if (seeds[index] == SEED_NO_SEED) {
    reset_lane(pool, index);
  } else {
    reset_seeded(pool, index, static_cast<uint32_t>(seeds[index]), static_cast<uint32_t>(env_ids[index]));
  }
}

// `actions` and `strengths` as in seed_pool_step(). An action that does not exist is reported and played as NOOP.
__global__ void __launch_bounds__(kLaneThreads, kLaneBlocks)
    step_lanes(const PoolView* view, const int64_t* actions, const float* strengths) {
  const PoolView& pool = *view;
  const int64_t thread = thread_number();
  if (thread >= pool.num_envs) return;
  const int32_t index = static_cast<int32_t>(thread);
  Lane& lane = pool.lanes[index];
  LaneResult& result = pool.results[index];
  result.reports_end = false;
  result.is_new = false;
  if (lane.ended) {
    if (pool.autoreset == SEED_AUTORESET_DISABLED) return report_fault(pool, LaneFault::kEndedLane, index, 0);
    result.reward = 0;
    result.terminated = result.truncated = false;
    return reset_lane(pool, index);
  }
  const int64_t given = actions[index];
  const int32_t num_actions = strengths != nullptr ? int32_t{kNumActions} : pool.num_actions;
  const bool exists = given >= 0 && given < num_actions;
  if (!exists) report_fault(pool, LaneFault::kBadAction, index, given);
  const int32_t action = !exists ? int32_t{kNoop} : strengths != nullptr ? int32_t(given) : pool.action_numbers[given];
  const float strength = strengths != nullptr ? strengths[index] : 1.0f;
  DevicePictures pictures(pool, index);
  const LaneStep step = lane_step(lane, pool.game, pool.options, action, strength, pictures);
  result.reward = step.reward;
  result.terminated = step.terminated;
  result.truncated = step.truncated;
  result.reports_end = step.terminated || step.truncated;
  announce_picture(pool, result, step.shown, pictures.has_first());
}

// SAME_STEP: the lanes whose episode has just ended.
__global__ void __launch_bounds__(kLaneThreads, kLaneBlocks) reset_ended_lanes(const PoolView* view) {
  const PoolView& pool = *view;
  const int64_t thread = thread_number();
  if (thread >= pool.num_envs) return;
  const int32_t index = static_cast<int32_t>(thread);
  pool.results[index].is_new = false;
  if (pool.lanes[index].ended) reset_lane(pool, index);
}

// ---- Pictures ----------------------------------------------------------------------------------------------------

// Palette indices to channels, with the maximum of two frames. One thread a pixel.
__global__ void __launch_bounds__(kPixelThreads, kPixelBlocks) show_pictures(const PoolView* view) {
  const PoolView& pool = *view;
  const int64_t thread = thread_number();
  const int64_t index = thread / pool.picture_bytes;
  if (index >= pool.num_envs) return;
  const LaneResult& result = pool.results[index];
  if (!result.is_new || result.shown == Shown::kNothingNew) return;
  const int32_t pixel = static_cast<int32_t>(thread - index * pool.picture_bytes);
  const int now = pool.lanes[index].atari.console.current_buffer & 1;
  const uint8_t* const buffers = pool.buffers + 2 * index * pool.picture_bytes;
  const uint8_t last = buffers[now * pool.picture_bytes + pixel];
  const uint8_t first = result.has_first ? pool.firsts[index * pool.picture_bytes + pixel]
                                         : buffers[(now ^ 1) * pool.picture_bytes + pixel];
  uint8_t* out = pool.shown + index * pool.num_channels * pool.picture_bytes + pixel;
  for (int channel = 0; channel < pool.num_channels; ++channel, out += pool.picture_bytes) {
    const uint8_t* const map = pool.maps[channel];
    uint8_t value = result.shown == Shown::kPreviousAndFirst ? *out : map[last];
    if (result.shown != Shown::kLastFrame && map[first] > value) value = map[first];
    *out = value;
  }
}

// Full-size channels to the newest picture of the ring. One thread a pixel of an observation.
__global__ void __launch_bounds__(kPixelThreads, kPixelBlocks) resize_pictures(const PoolView* view) {
  const PoolView& pool = *view;
  const int32_t num_pixels = pool.plan.height * pool.plan.width;
  const int64_t thread = thread_number();
  const int64_t index = thread / num_pixels;
  if (index >= pool.num_envs) return;
  const LaneResult& result = pool.results[index];
  if (!result.is_new) return;
  const int32_t pixel = static_cast<int32_t>(thread - index * num_pixels);
  uint8_t* const ring = pool.planes + index * pool.stack_num * pool.shown_bytes;
  uint8_t* const out = ring + int64_t{result.newest} * pool.shown_bytes + int64_t{pixel} * pool.num_channels;
  if (result.shown == Shown::kNothingNew) {
    const int32_t before = result.newest == 0 ? pool.stack_num - 1 : result.newest - 1;
    const uint8_t* const in = ring + int64_t{before} * pool.shown_bytes + int64_t{pixel} * pool.num_channels;
    for (int channel = 0; channel < pool.num_channels; ++channel) out[channel] = in[channel];
    return;
  }
  const int32_t y = pixel / pool.plan.width, x = pixel - y * pool.plan.width;
  const uint8_t* picture = pool.shown + index * pool.num_channels * pool.picture_bytes;
  for (int channel = 0; channel < pool.num_channels; ++channel, picture += pool.picture_bytes)
    out[channel] = area_resize_pixel(pool.plan, PictureSource{picture, kScreenWidth, 1}, y, x, 0);
}

// ---- Outputs -----------------------------------------------------------------------------------------------------

// The rings as stacks, oldest picture first. One thread a Word (a byte, or four where sizes and addresses allow).
template <class Word>
__global__ void __launch_bounds__(kPixelThreads, kPixelBlocks)
    write_stacks(const PoolView* view, uint8_t* observations, bool only_ended) {
  const PoolView& pool = *view;
  const int32_t plane_words = pool.shown_bytes / static_cast<int32_t>(sizeof(Word));
  const int64_t stack_words = int64_t{plane_words} * pool.stack_num;
  const int64_t thread = thread_number();
  const int64_t index = thread / stack_words;
  if (index >= pool.num_envs) return;
  const LaneResult& result = pool.results[index];
  if (only_ended && !result.reports_end) return;
  const int64_t word = thread - index * stack_words;
  const int32_t position = static_cast<int32_t>(word / plane_words);
  const int32_t age = pool.stack_num - 1 - position;
  Word value = 0;
  if (age < result.num_planes) {
    const int32_t plane = (result.newest - age + pool.stack_num) % pool.stack_num;
    const Word* const ring = reinterpret_cast<const Word*>(pool.planes) + index * stack_words;
    value = ring[int64_t{plane} * plane_words + (word - int64_t{position} * plane_words)];
  }
  reinterpret_cast<Word*>(observations)[thread] = value;
}

// Everything else that seed_pool_outputs names. One thread a lane; *num_ended is zero before.
__global__ void __launch_bounds__(kPixelThreads, kPixelBlocks)
    write_results(const PoolView* view, seed_pool_outputs outputs) {
  const PoolView& pool = *view;
  const int64_t index = thread_number();
  if (index >= pool.num_envs) return;
  const LaneResult& result = pool.results[index];
  const Lane& lane = pool.lanes[index];
  if (outputs.rewards != nullptr) outputs.rewards[index] = result.reward;
  if (outputs.terminations != nullptr) outputs.terminations[index] = result.terminated;
  if (outputs.truncations != nullptr) outputs.truncations[index] = result.truncated;
  if (outputs.env_ids != nullptr) outputs.env_ids[index] = static_cast<int32_t>(index);
  if (outputs.lives != nullptr) outputs.lives[index] = lane.lives;
  if (outputs.frame_numbers != nullptr) outputs.frame_numbers[index] = lane.atari.frame_number;
  if (outputs.episode_frame_numbers != nullptr) outputs.episode_frame_numbers[index] = lane.atari.episode_frame_number;
  if (outputs.num_ended != nullptr && result.reports_end) atomicAdd(outputs.num_ended, 1);
}

// The RAM of every lane: num_envs x 128 bytes. One thread a byte.
__global__ void __launch_bounds__(kPixelThreads, kPixelBlocks) write_ram(const PoolView* view, uint8_t* ram) {
  const int64_t thread = thread_number();
  if (thread < int64_t{view->num_envs} * 128)
    ram[thread] = view->lanes[thread / 128].atari.console.riot.ram[thread % 128];
}

}  // namespace seed
