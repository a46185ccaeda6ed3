// SPDX-License-Identifier: Apache-2.0
// From palette indices to bytes of an observation's channel: table look-up and maximum of two pictures, row by row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "observation/plane_resizer.h"

namespace seed {

// One channel of the palette: what each of the 256 pixel values becomes.
struct ChannelMap {
  alignas(32) uint8_t values[256];
};

namespace map_detail {

inline void map_plain(const ChannelMap& map, const uint8_t* pixels, size_t count, uint8_t* out) {
  for (size_t i = 0; i < count; ++i) out[i] = map.values[pixels[i]];
}

inline void map_max_plain(const ChannelMap& map, const uint8_t* a, const uint8_t* b, size_t count, uint8_t* out) {
  for (size_t i = 0; i < count; ++i) out[i] = std::max(map.values[a[i]], map.values[b[i]]);
}

}  // namespace map_detail

// out = map[pixels]; `count` is a multiple of 32.
inline void map_picture(const ChannelMap& map, const uint8_t* pixels, size_t count, uint8_t* out) {
  map_detail::map_plain(map, pixels, count, out);
}

// out = max(map[a], map[b]); `count` is a multiple of 32.
inline void map_max_pictures(const ChannelMap& map, const uint8_t* a, const uint8_t* b, size_t count, uint8_t* out) {
  map_detail::map_max_plain(map, a, b, count, out);
}

// out = max(out, map[pixels]).
inline void map_max_into(const ChannelMap& map, const uint8_t* pixels, size_t count, uint8_t* out) {
  for (size_t i = 0; i < count; ++i) out[i] = std::max(out[i], map.values[pixels[i]]);
}

}  // namespace seed
