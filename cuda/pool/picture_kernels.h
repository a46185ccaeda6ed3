// SPDX-License-Identifier: Apache-2.0
// The kernels behind emulation: pictures to observations, and everything else that a step returns.
#pragma once

#include "pool/device_pool.h"

namespace seed {

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
