/* SPDX-License-Identifier: Apache-2.0 */
/* An external simulator for the tests: counts steps up to a length that the seed decides, and fails on demand.
 * Actions: 0 counts, 1 counts twice, 2 crashes, 3 returns an error, 4 never returns. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "seed/simulator.h"

typedef struct counter {
  int32_t count, length;
} counter;

int32_t seed_simulator_describe(seed_simulator_description* description) {
  description->version = SEED_SIMULATOR_VERSION;
  description->observation_rank = 1;
  description->observation_shape[0] = 2;
  description->num_actions = 5;
  return 0;
}

void* seed_simulator_create(void) { return getenv("COUNTER_FAILS") ? NULL : calloc(1, sizeof(counter)); }

int32_t seed_simulator_reset(void* simulator, uint64_t seed) {
  counter* self = simulator;
  if (getenv("COUNTER_CRASHES_IN_RESET")) raise(SIGSEGV);
  self->count = 0;
  self->length = 3 + (int32_t)(seed % 5);
  return 0;
}

int32_t seed_simulator_step(void* simulator, const void* action, float* reward, int32_t* terminated,
                            int32_t* truncated) {
  counter* self = simulator;
  const int64_t chosen = *(const int64_t*)action;
  if (chosen == 2) raise(SIGSEGV);
  if (chosen == 3) return 42;
  if (chosen == 4) pause();
  self->count += chosen == 1 ? 2 : 1;
  *reward = (float)self->count;
  *terminated = self->count >= self->length;
  *truncated = 0;
  return 0;
}

int32_t seed_simulator_observe(void* simulator, void* observation) {
  const counter* self = simulator;
  float* out = observation;
  out[0] = (float)self->count;
  out[1] = (float)self->length;
  return 0;
}

void seed_simulator_destroy(void* simulator) {
  const char* const log = getenv("COUNTER_LOGS_ITS_END");
  FILE* const file = log ? fopen(log, "a") : NULL;
  if (file) fputc('x', file);
  if (file) fclose(file);
  free(simulator);
}
