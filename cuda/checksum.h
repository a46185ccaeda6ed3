// SPDX-License-Identifier: Apache-2.0
// The checksum of snapshots: finds accidents, not malice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace seed {

// FNV-1a over 64-bit words, with the rest byte by byte.
inline uint64_t hash_bytes(const uint8_t* bytes, size_t count) {
  uint64_t hash = 0xcbf29ce484222325u;
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes + i, 8);
    hash = (hash ^ word) * 0x100000001b3u;
  }
  for (; i < count; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

}  // namespace seed
