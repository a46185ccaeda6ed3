/* SPDX-License-Identifier: Apache-2.0 */
/* The plain C interface of an external simulator: what a shared library of yours exports to run as an environment.
 *
 *   make_vec("external:./libmy_simulator.so", num_envs=8)
 *
 * Each lane has a simulator of its own, in a worker process; a crash ends that lane's episode and nothing else. A
 * function that returns a status returns 0 for success; another value counts as a crash. C and C++ include this header;
 * other languages need its six functions only. */
#ifndef SEED_SIMULATOR_H
#define SEED_SIMULATOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SEED_SIMULATOR_VERSION 1

typedef struct seed_simulator_description {
  int32_t version;             /* SEED_SIMULATOR_VERSION */
  int32_t observation_is_byte; /* 1: uint8, 0: float32 */
  int32_t observation_rank;    /* 1 .. 4 */
  int32_t observation_shape[4];
  int32_t num_actions; /* Discrete actions 0 .. num_actions - 1; 0: they are continuous. */
  int32_t action_size; /* Continuous: numbers in an action, each in [-1, 1]. */
} seed_simulator_description;

/* Fills in the description. */
int32_t seed_simulator_describe(seed_simulator_description* description);

/* Makes a simulator; NULL: it cannot be made. */
void* seed_simulator_create(void);

/* Starts an episode; equal seeds must give equal episodes. */
int32_t seed_simulator_reset(void* simulator, uint64_t seed);

/* `action`: one int64_t, or action_size floats. `terminated`: the episode has ended by the rules; `truncated`: it was
 * cut off. */
int32_t seed_simulator_step(void* simulator, const void* action, float* reward, int32_t* terminated,
                            int32_t* truncated);

/* Writes the present observation. */
int32_t seed_simulator_observe(void* simulator, void* observation);

/* Called when the environment is closed; a process that crashed or hangs is ended without it. */
void seed_simulator_destroy(void* simulator);

#ifdef __cplusplus
}
#endif
#endif
