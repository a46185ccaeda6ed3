// SPDX-License-Identifier: Apache-2.0
// What stepping and resetting a lane on a device have in common: where it draws, what it announces.
#pragma once

#include "pool/device_pool.h"

namespace seed {

// Every frame is drawn into the lane's buffers.
__device__ inline Screen lane_screen(const PoolView& pool, int32_t lane) {
  uint8_t* const buffers = pool.buffers + int64_t{2} * pool.picture_bytes * lane;
  return Screen{{buffers, buffers + pool.picture_bytes}};
}

// Announces a picture for the ring: resize_pictures() writes it into the place that is `newest` from now on.
__device__ inline void announce_picture(const PoolView& pool, LaneResult& result, Shown shown, bool has_first) {
  result.newest = result.newest + 1 == pool.stack_num ? 0 : result.newest + 1;
  if (result.num_planes < pool.stack_num) ++result.num_planes;
  result.is_new = true;
  result.shown = shown;
  result.has_first = has_first;
}

}  // namespace seed
