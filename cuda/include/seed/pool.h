/* SPDX-License-Identifier: Apache-2.0 */
/* A batch of Atari environments with preprocessing: reset, step, autoreset, snapshots.
 *
 * The operations are those of ale_py.vector_env.AtariVectorEnv, with its results bit for bit (SEED_RNG_ALE). A pool is
 * used by one thread at a time; it has worker threads of its own. Results never depend on their number.
 *
 *   seed_pool_default_options(&options);  options.num_envs = 64;
 *   seed_pool_create(game, rom, rom_size, &options, NULL, NULL, &pool);
 *   seed_pool_reset(pool, NULL, seeds, &outputs);
 *   for (;;) seed_pool_step(pool, actions, NULL, &outputs);
 */
#ifndef SEED_POOL_H
#define SEED_POOL_H

#include "seed/game.h"
#include "seed/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SEED_AUTORESET_NEXT_STEP 0 /* The step after an end ignores its action and resets. */
#define SEED_AUTORESET_SAME_STEP 1 /* The step that ends an episode resets; the last stack is a final observation. */
#define SEED_AUTORESET_DISABLED 2  /* The caller resets ended lanes; stepping one is SEED_BAD_STATE. */

#define SEED_NO_SEED (-1) /* As a lane's seed: its generators continue. */

typedef struct seed_pool_options {
  int32_t num_envs;                   /* Lanes, >= 1. */
  int32_t batch_size;                 /* Lanes that one recv returns; 0 = num_envs. */
  int32_t num_threads;                /* Threads that step lanes, the caller's included; 0 = one a processor. */
  int32_t thread_affinity_offset;     /* Worker i is bound to processor offset + i; -1 = not bound. */
  int32_t max_num_frames_per_episode; /* Frames of an episode's steps, its start not counted; <= 0: no limit. */
  float repeat_action_probability;    /* 0 .. 1. */
  int32_t full_action_space;          /* Actions are 0..17 instead of indices of the minimal set. */
  int32_t autoreset;                  /* SEED_AUTORESET_*. */
  int32_t img_height, img_width;      /* Of an observation, 1 .. 4096. */
  int32_t grayscale;                  /* 0: three interleaved colours. */
  int32_t stack_num;                  /* Pictures in an observation, oldest first, 1 .. 64. */
  int32_t frameskip;                  /* Frames a step, >= 1. */
  int32_t maxpool;                    /* The maximum of the last two frames instead of the last one. */
  int32_t noop_max;                   /* A reset plays 0 .. noop_max - 1 NOOPs; <= 0: none. */
  int32_t episodic_life;              /* A lost life ends the episode. */
  int32_t life_loss_info;             /* A lost life is reported as a termination only. */
  int32_t reward_clipping;            /* Rewards become -1, 0 or 1. */
  int32_t use_fire_reset;             /* A reset plays FIRE once if the minimal set has it. */
  int32_t rng;                        /* SEED_RNG_*. */
  int32_t first_env_id;               /* Key of lane 0 in the counter-based generator. */
  int32_t use_simd;                   /* 0: plain loops; the results are the same. */
  int32_t keep_pictures;              /* 1: draw and keep every picture (slow; a check of the usual way). */
  int32_t device;                     /* CUDA: number of the device. */
} seed_pool_options;

/* Where results go: one row a lane of the batch. NULL = not wanted. Observations have
 * stack_num x img_height x img_width (x 3) bytes a row. */
typedef struct seed_pool_outputs {
  uint8_t* observations;
  int32_t* rewards;
  uint8_t* terminations;
  uint8_t* truncations;
  int32_t* env_ids;
  int32_t* lives;
  int32_t* frame_numbers;
  int32_t* episode_frame_numbers;
  uint8_t* final_observations; /* SAME_STEP: rows of terminated or truncated lanes are written, others left alone. */
  int32_t* num_ended;          /* One number: terminated or truncated lanes of the batch. */
} seed_pool_outputs;

typedef struct seed_pool seed_pool;

/* ale-py's defaults. */
SEED_API seed_status seed_pool_default_options(seed_pool_options* options);

/* Loads the cartridge. `modes` and `difficulties` have num_envs entries; NULL = the game's defaults. */
SEED_API seed_status seed_pool_create(int32_t game, const uint8_t* rom, int64_t rom_size,
                                      const seed_pool_options* options, const int32_t* modes,
                                      const int32_t* difficulties, seed_pool** pool);
SEED_API seed_status seed_pool_destroy(seed_pool* pool);

/* CUDA: launches go to this cudaStream_t from now on (NULL, and at first: the default stream); every pointer of a step
 * and of all outputs is the device's, and functions but reset return before the device has finished. The CPU pool takes
 * NULL only. */
SEED_API seed_status seed_pool_set_stream(seed_pool* pool, void* stream);

/* CUDA: waits for the stream and returns, once, what lanes found wrong since the last call: an action that does not
 * exist (it was played as NOOP) or a step of an ended lane (it was left alone). The CPU pool returns SEED_OK. */
SEED_API seed_status seed_pool_synchronize(seed_pool* pool);

/* Number of discrete actions and the action number (0..17) of each; `actions` has room for 18. */
SEED_API seed_status seed_pool_actions(const seed_pool* pool, int32_t* num_actions, int32_t* actions);

/* Mode and difficulty of the lanes of `mask` (as in seed_pool_reset) from their next reset on; arrays as in
 * seed_pool_create. Like a reset it drops the results of lanes that are still stepping. */
SEED_API seed_status seed_pool_set_modes(seed_pool* pool, const uint8_t* mask, const int32_t* modes,
                                         const int32_t* difficulties);

/* Starts episodes. `mask` (num_envs bytes) chooses the lanes, NULL = all; the others report their present state.
 * `seeds` and `env_ids` (num_envs entries, read where the mask is set) restart a lane's generators, SEED_NO_SEED and
 * NULL do not. Returns the first batch_size lanes. */
SEED_API seed_status seed_pool_reset(seed_pool* pool, const uint8_t* mask, const int32_t* seeds, const int32_t* env_ids,
                                     const seed_pool_outputs* outputs);

/* Steps all lanes of the last batch and returns the next batch. `actions`: batch_size action indices. `strengths`:
 * batch_size paddle strengths with `actions` as action numbers 0..17 (continuous control), or NULL. */
SEED_API seed_status seed_pool_step(seed_pool* pool, const int64_t* actions, const float* strengths,
                                    const seed_pool_outputs* outputs);

/* The halves of a step: send returns at once; recv waits for the batch_size lanes that were sent first. */
SEED_API seed_status seed_pool_send(seed_pool* pool, const int64_t* actions, const float* strengths);
SEED_API seed_status seed_pool_recv(seed_pool* pool, const seed_pool_outputs* outputs);

/* Exact snapshots of single lanes: machine, generators, pictures and stack, in a versioned format. A snapshot of one
 * lane can be restored into any lane of any pool with the same game and observation options. The lane must not be
 * stepping. save writes *size bytes; it needs seed_pool_lane_capacity() bytes of room. */
SEED_API seed_status seed_pool_lane_capacity(const seed_pool* pool, int64_t* capacity);
SEED_API seed_status seed_pool_save_lane(seed_pool* pool, int32_t lane, uint8_t* bytes, int64_t capacity,
                                         int64_t* size);
/* SEED_INVALID_ARGUMENT for bytes that do not fit this pool; the lane is then unchanged. */
SEED_API seed_status seed_pool_restore_lane(seed_pool* pool, int32_t lane, const uint8_t* bytes, int64_t size);

/* The present results of all lanes (num_envs rows), without stepping. */
SEED_API seed_status seed_pool_observe(seed_pool* pool, const seed_pool_outputs* outputs);

/* The 128 bytes of RAM of every lane: num_envs x 128. */
SEED_API seed_status seed_pool_ram(const seed_pool* pool, uint8_t* ram);

/* Bytes that the pool holds now: `per_lane` (largest lane) and `shared` (threads, cartridge). */
SEED_API seed_status seed_pool_memory(const seed_pool* pool, int64_t* per_lane, int64_t* shared);

#ifdef __cplusplus
}
#endif
#endif
