// SPDX-License-Identifier: Apache-2.0
// The header of a lane's snapshot and its checks: what pools of both backends write before a lane's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "checksum.h"
#include "pool/pool_options.h"

namespace seed {

struct LaneHeader {
  char magic[8];
  uint32_t version;
  uint32_t layout_bytes;  // size of the structs in the body: changes with them
  char game[24];
  int32_t img_height, img_width, num_channels, stack_num;
  int32_t num_planes;
  int32_t num_picture_rows;  // of each full-size picture
  uint64_t size_bytes;       // of the whole snapshot
  uint64_t checksum;         // of everything behind the header
};

inline seed_status read_lane_header(const uint8_t* bytes, int64_t size, const char (&magic)[8], LaneHeader& header) {
  if (size < int64_t(sizeof header)) return fail(SEED_INVALID_ARGUMENT, "this is no snapshot of a lane");
  std::memcpy(&header, bytes, sizeof header);
  if (std::memcmp(header.magic, magic, sizeof header.magic) != 0)
    return fail(SEED_INVALID_ARGUMENT, "this is no snapshot of a lane");
  return SEED_OK;
}

// Compares with the header that the pool would write.
inline seed_status check_lane_header(const LaneHeader& header, const LaneHeader& expected, const uint8_t* bytes,
                                     int64_t size) {
  if (header.version != expected.version || header.layout_bytes != expected.layout_bytes)
    return fail(SEED_INVALID_ARGUMENT, "the snapshot has format %u, this library reads format %u", header.version,
                expected.version);
  if (std::memcmp(header.game, expected.game, sizeof header.game) != 0)
    return fail(SEED_INVALID_ARGUMENT, "the snapshot is one of %.23s, the pool runs %s", header.game, expected.game);
  if (header.img_height != expected.img_height || header.img_width != expected.img_width ||
      header.num_channels != expected.num_channels || header.stack_num != expected.stack_num)
    return fail(SEED_INVALID_ARGUMENT,
                "the snapshot has observations of %d x %d x %d x %d, the pool of %d x %d x %d x %d", header.stack_num,
                header.img_height, header.img_width, header.num_channels, expected.stack_num, expected.img_height,
                expected.img_width, expected.num_channels);
  if (header.size_bytes != expected.size_bytes || size != int64_t(expected.size_bytes) ||
      header.checksum != hash_bytes(bytes + sizeof header, size_t(size) - sizeof header))
    return fail(SEED_INVALID_ARGUMENT, "the snapshot is damaged");
  return SEED_OK;
}

}  // namespace seed
