// SPDX-License-Identifier: Apache-2.0
// What the pools of environments of both backends have in common: checks, messages, and snapshots of lanes, which
// either backend reads.
#pragma once

#include <cmath>
#include <cstring>

#include "checks.h"
#include "checksum.h"
#include "seed/environment.h"

namespace seed {

// ---- Checks ------------------------------------------------------------------------------------------------------

// `backend`: "cpu" or "cuda"; `devices`: what it runs on, for the message.
inline seed_status check_environment(const seed_environment* environment, const char* backend, const char* devices) {
  SEED_CHECK(check_pointer(environment, "environment"));
  const seed_env_description& about = environment->description;
  if (about.version != SEED_ENVIRONMENT_VERSION || about.layout_bytes != int32_t(sizeof(seed_env_batch)))
    return fail(SEED_INVALID_ARGUMENT, "the environment was built for version %d of the library, this is version %d",
                about.version, SEED_ENVIRONMENT_VERSION);
  if (std::strcmp(about.backend, backend) != 0)
    return fail(SEED_INVALID_ARGUMENT, "the environment '%s' was built for %s, this pool runs on %s", about.name,
                about.backend, devices);
  return SEED_OK;
}

inline seed_status check_env_pool_options(const seed_env_pool_options& options, const seed_env_description& about) {
  SEED_CHECK(check_range("num_envs", options.num_envs, 1, 1 << 24));
  SEED_CHECK(check_range("num_threads", options.num_threads, 0, 4096));
  SEED_CHECK(check_range("autoreset", options.autoreset, SEED_AUTORESET_NEXT_STEP, SEED_AUTORESET_DISABLED));
  SEED_CHECK(check_range("max_episode_steps", options.max_episode_steps, -1, INT32_MAX));
  SEED_CHECK(check_range("num_options", options.num_options, about.num_options, about.num_options));
  if (options.num_options > 0) SEED_CHECK(check_pointer(options.options, "options"));
  for (int32_t i = 0; i < options.num_options; ++i)
    if (!std::isfinite(options.options[i]))
      return fail(SEED_INVALID_ARGUMENT, "the option %s is not finite", about.options[i].name);
  SEED_CHECK(check_range("data_bytes", options.data_bytes, 0, INT64_MAX));
  return options.data_bytes > 0 ? check_pointer(options.data, "data") : SEED_OK;
}

inline seed_status check_was_reset(bool has_reset) {
  return has_reset ? SEED_OK : fail(SEED_BAD_STATE, "the environments have not been reset: call reset first");
}

// The arguments of a reset, on the host.
inline seed_status check_seeds(int32_t num_envs, bool has_reset, const uint8_t* mask, const int32_t* seeds) {
  for (int32_t i = 0; i < num_envs; ++i) {
    const bool chosen = mask == nullptr || mask[i] != 0;
    if (!has_reset && (!chosen || seeds == nullptr || seeds[i] == SEED_NO_SEED))
      return fail(SEED_BAD_STATE, "the first reset must start every lane with a seed");
    if (chosen && seeds != nullptr && seeds[i] < SEED_NO_SEED)
      return fail(SEED_INVALID_ARGUMENT, "the seed of lane %d is %d, it must be at least 0", i, seeds[i]);
  }
  return SEED_OK;
}

// ---- What went wrong in a lane -----------------------------------------------------------------------------------

// `then`: what was done about it, where the call could not be refused.

inline seed_status fail_action(int32_t lane, int64_t action, const seed_env_description& about, const char* then = "") {
  return fail(SEED_INVALID_ARGUMENT, "the action of row %d is %lld, it must be 0 to %d%s", lane,
              static_cast<long long>(action), about.num_actions - 1, then);
}

inline seed_status fail_not_finite(int32_t lane, const char* then = "") {
  return fail(SEED_INVALID_ARGUMENT, "the action of row %d is not finite%s", lane, then);
}

inline seed_status fail_ended(int32_t lane) {
  return fail(SEED_BAD_STATE, "the episode of lane %d has ended: reset the lane before you step it", lane);
}

inline seed_status fail_environment(int32_t lane, const seed_env_lane& state, const seed_env_description& about) {
  return fail(SEED_BAD_STATE,
              "the environment '%s' reported error %d in lane %d (seed %u, number %u, episode %u, step %d)", about.name,
              state.error, lane, state.seed, state.env_id, state.episode, state.episode_steps);
}

// ---- Snapshots ---------------------------------------------------------------------------------------------------

constexpr char kEnvSnapshotMagic[8] = {'S', 'E', 'E', 'D', 'E', 'N', 'V', '2'};

// What comes before the bytes of a lane.
struct EnvSnapshotHeader {
  char magic[8];
  char name[64];
  uint32_t version, lane_bytes;
  uint64_t checksum;
};

inline int64_t env_snapshot_size(const seed_env_description& about) {
  return int64_t(sizeof(EnvSnapshotHeader)) + about.lane_bytes;
}

// Writes the header before the lane's bytes, which are at `bytes + sizeof(EnvSnapshotHeader)` already.
inline void write_env_snapshot_header(const seed_env_description& about, uint8_t* bytes) {
  EnvSnapshotHeader header{};
  std::memcpy(header.magic, kEnvSnapshotMagic, sizeof header.magic);
  std::strncpy(header.name, about.name, sizeof header.name - 1);
  header.version = SEED_ENVIRONMENT_VERSION;
  header.lane_bytes = uint32_t(about.lane_bytes);
  header.checksum = hash_bytes(bytes + sizeof header, header.lane_bytes);
  std::memcpy(bytes, &header, sizeof header);
}

inline seed_status check_env_snapshot(const seed_env_description& about, const uint8_t* bytes, int64_t size) {
  EnvSnapshotHeader header;
  if (size < int64_t(sizeof header)) return fail(SEED_INVALID_ARGUMENT, "this is no snapshot of a lane");
  std::memcpy(&header, bytes, sizeof header);
  if (std::memcmp(header.magic, kEnvSnapshotMagic, sizeof header.magic) != 0)
    return fail(SEED_INVALID_ARGUMENT, "this is no snapshot of a lane");
  if (std::strncmp(header.name, about.name, sizeof header.name - 1) != 0)
    return fail(SEED_INVALID_ARGUMENT, "the snapshot is one of '%.63s', the pool runs '%s'", header.name, about.name);
  if (header.version != SEED_ENVIRONMENT_VERSION || header.lane_bytes != uint32_t(about.lane_bytes))
    return fail(SEED_INVALID_ARGUMENT, "the snapshot is one of another version of '%s'", about.name);
  if (size != env_snapshot_size(about) || header.checksum != hash_bytes(bytes + sizeof header, header.lane_bytes))
    return fail(SEED_INVALID_ARGUMENT, "the snapshot is damaged");
  return SEED_OK;
}

}  // namespace seed
