/* SPDX-License-Identifier: Apache-2.0 */
/* Environments other than Atari games: what one exports, and a pool that runs many lanes of it.
 *
 * An environment is written as a C++ struct (cuda/envs/environment.h) that exports one table of functions, in the
 * library itself or in a shared library of its own. The pool owns the lanes and the threads and calls the table.
 *
 *   seed_environment_find("ball", &environment);
 *   seed_env_pool_create(environment, &options, &pool);
 *   seed_env_pool_reset(pool, NULL, seeds, env_ids, &rows);
 *   for (;;) seed_env_pool_step(pool, actions, &rows);
 */
#ifndef SEED_ENVIRONMENT_H
#define SEED_ENVIRONMENT_H

#include "seed/pool.h" /* SEED_AUTORESET_*, SEED_NO_SEED */
#include "seed/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever a struct of this header changes its meaning; a shared library of another version is refused. */
#define SEED_ENVIRONMENT_VERSION 1

#define SEED_MAX_OBSERVATION_RANK 4

/* A number that the user may set, "gravity = 9.81". */
typedef struct seed_env_option {
  const char* name;
  float value; /* Default. */
  const char* text;
} seed_env_option;

typedef struct seed_env_description {
  int32_t version;      /* SEED_ENVIRONMENT_VERSION */
  int32_t layout_bytes; /* sizeof(seed_env_batch), a second check of the version. */
  const char* name;
  const char* backend;         /* "cpu" or "cuda". */
  int32_t lane_bytes;          /* A lane: seed_env_lane, then the environment's own state. */
  int32_t observation_is_byte; /* 1: uint8, 0: float32. */
  int32_t observation_rank;
  int32_t observation_shape[SEED_MAX_OBSERVATION_RANK];
  float observation_low, observation_high;
  int32_t num_actions;       /* Discrete actions 0 .. num_actions - 1; 0: they are continuous. */
  int32_t action_size;       /* Continuous: numbers in an action, each clamped to [-1, 1]; 0: discrete. */
  int32_t max_episode_steps; /* Step at which an episode is truncated; 0: never. */
  int32_t has_reference_policy;
  int32_t num_options;
  const seed_env_option* options;
} seed_env_description;

/* What the pool knows of a lane; the environment's state follows it. */
typedef struct seed_env_lane {
  uint32_t seed, env_id, episode; /* Key of the lane's random numbers. */
  uint32_t num_draws;             /* Drawn in this episode. */
  int32_t episode_steps;
  int32_t ended; /* The episode is over, the lane waits for a reset. */
  int32_t error; /* What the environment reported; 0: nothing. */
  int32_t reserved;
} seed_env_lane;

/* Arguments of a table's functions, for all lanes; row i belongs to lane i. Outputs that are NULL are not wanted. */
typedef struct seed_env_batch {
  uint8_t* lanes; /* num_lanes x lane_bytes; on CUDA word by word: word w of lane i is number w * num_lanes + i. */
  int32_t num_lanes;
  int32_t autoreset;         /* SEED_AUTORESET_*. */
  int32_t max_episode_steps; /* 0: never truncate. */
  int32_t reserved;
  const float* options;
  const uint8_t* data; /* Shared, read-only; for example a stream of recorded orders. */
  int64_t data_bytes;
  const int64_t* discrete_actions; /* (num_lanes,) */
  const float* continuous_actions; /* (num_lanes, action_size) */
  const uint8_t* mask;             /* reset: which lanes; NULL = all. */
  const int32_t* seeds;            /* reset: SEED_NO_SEED or NULL goes on with the lane's next episode. */
  const int32_t* env_ids;          /* reset: read with a seed. */
  void* observations;
  float* rewards;
  uint8_t* terminations;
  uint8_t* truncations;
  void* final_observations; /* SAME_STEP: rows of lanes that ended. */
  int32_t* episode_steps;
  void* reference_actions; /* act: int64 (num_lanes,) or float (num_lanes, action_size). */
} seed_env_batch;

/* A table of functions; each works on lanes first .. first + count - 1. `stream` is NULL on a CPU; on CUDA the call
 * returns before the work is done. */
typedef seed_status (*seed_env_function)(const seed_env_batch* batch, int32_t first, int32_t count, void* stream);

typedef struct seed_environment {
  seed_env_description description;
  seed_env_function reset;
  seed_env_function step;
  seed_env_function observe;
  seed_env_function act; /* The environment's reference policy; NULL where it has none. */
} seed_environment;

/* What a shared library with an environment exports. */
typedef const seed_environment* (*seed_environment_get_function)(void);

/* ---- The environments of this library ------------------------------------------------------------------------ */

SEED_API seed_status seed_environment_count(int32_t* count);
SEED_API seed_status seed_environment_at(int32_t index, const seed_environment** environment);
/* SEED_NOT_FOUND when there is none of that name. */
SEED_API seed_status seed_environment_find(const char* name, const seed_environment** environment);

/* ---- A pool of lanes ----------------------------------------------------------------------------------------- */

typedef struct seed_env_pool seed_env_pool;

typedef struct seed_env_pool_options {
  int32_t num_envs;          /* Lanes, >= 1. */
  int32_t num_threads;       /* Threads that step lanes, the caller's included; 0 = one a processor. */
  int32_t autoreset;         /* SEED_AUTORESET_*. */
  int32_t max_episode_steps; /* -1: the environment's own; 0: never truncate. */
  int32_t num_options;       /* Must be the environment's number. */
  int32_t device;            /* CUDA device; 0 on a CPU. */
  const float* options;      /* One value an option, copied. */
  const uint8_t* data;       /* Copied. */
  int64_t data_bytes;
} seed_env_pool_options;

/* Where results go, one row a lane. NULL = not wanted. */
typedef struct seed_env_rows {
  void* observations; /* uint8 or float32, see the description. */
  float* rewards;
  uint8_t* terminations;
  uint8_t* truncations;
  void* final_observations;
  int32_t* episode_steps; /* Steps of the episode; 0 after a reset. */
  int32_t* num_ended;     /* One number: lanes whose episode ended in this step. */
} seed_env_rows;

/* `environment` must outlive the pool. SEED_INVALID_ARGUMENT for an option out of range, or an environment of another
 * version or backend. */
SEED_API seed_status seed_env_pool_create(const seed_environment* environment, const seed_env_pool_options* options,
                                          seed_env_pool** pool);
SEED_API seed_status seed_env_pool_destroy(seed_env_pool* pool);

/* CUDA: the stream that everything is launched on (a cudaStream_t); without this call the default stream. The CPU pool
 * accepts NULL alone. On CUDA, actions and rows are the device's, what a reset takes (mask, seeds, env_ids) and the
 * bytes of a snapshot the host's. */
SEED_API seed_status seed_env_pool_set_stream(seed_env_pool* pool, void* stream);

/* CUDA: waits for the stream and returns, once, the first thing that lanes found wrong since the last call: an action
 * that does not exist or is not finite (0 was played in its place), a step of an ended lane (it began its next
 * episode), an error that an environment reported. The CPU pool returns SEED_OK. */
SEED_API seed_status seed_env_pool_synchronize(seed_env_pool* pool);

/* Starts episodes. `mask` (num_envs bytes) chooses the lanes, NULL = all; the others report their present state.
 * `seeds` and `env_ids` (num_envs entries) restart a lane's random numbers, SEED_NO_SEED and NULL do not. */
SEED_API seed_status seed_env_pool_reset(seed_env_pool* pool, const uint8_t* mask, const int32_t* seeds,
                                         const int32_t* env_ids, const seed_env_rows* rows);

/* Steps all lanes. `actions`: int64 (num_envs,) or float (num_envs, action_size). An action that is out of range or
 * not finite is refused before any lane moves. SEED_BAD_STATE when an environment reported an error. On CUDA the call
 * returns before the step is done, and seed_env_pool_synchronize tells both. */
SEED_API seed_status seed_env_pool_step(seed_env_pool* pool, const void* actions, const seed_env_rows* rows);

/* The present observations of all lanes, and what the environment's reference policy would do. */
SEED_API seed_status seed_env_pool_observe(seed_env_pool* pool, const seed_env_rows* rows);
SEED_API seed_status seed_env_pool_reference_actions(seed_env_pool* pool, void* actions);

/* Exact snapshots of single lanes, in a versioned format that names the environment; see seed_pool_save_lane. */
SEED_API seed_status seed_env_pool_lane_size(const seed_env_pool* pool, int64_t* size);
SEED_API seed_status seed_env_pool_save_lane(seed_env_pool* pool, int32_t lane, uint8_t* bytes, int64_t size);
SEED_API seed_status seed_env_pool_restore_lane(seed_env_pool* pool, int32_t lane, const uint8_t* bytes, int64_t size);

#ifdef __cplusplus
}
#endif
#endif
