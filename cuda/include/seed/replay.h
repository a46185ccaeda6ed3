/* SPDX-License-Identifier: Apache-2.0 */
/* Prioritized replay: a ring of frames stored once, drawn as n-step transitions or as sequences with a core state.
 *
 * The caller owns all memory: fill in the options, ask seed_replay_measure() how large each array is, allocate them
 * (frames and the other arrays of the ring need no initial value, `tree` and `counters` must be zero) and pass the same
 * struct to every call. The arrays are the whole state; copying them is a checkpoint.
 *
 * Each lane holds the timeline of one environment; all lanes advance together. Entry t of a lane is
 *
 *     frame t | first t | last t | action t -> reward t, terminated t -> frame t+1 ...
 *
 * where `last` marks the observation that ended an episode, the transition from it is void, and `first` marks the
 * observation that begins the next one (autoreset `NextStep` of gymnasium).
 *
 * An item is what can be drawn. Items begin at the steps 0, period, 2 period, ... of a lane:
 *   transitions   period 1; item t is (o_t, a_t, sum of n rewards, discount, o_t+n), cut short by an episode's end
 *   sequences     entries t .. t+length; they may hold an end, across which nothing is carried
 * Item `index` = lane * (items per lane) + t / period mod (items per lane); its `generation` counts how often the ring
 * has gone round, so that (index, generation) names one item for ever.
 *
 * Threads: one thread may append while another samples and updates; see docs/replay.md for the memory ordering. */
#ifndef SEED_REPLAY_H
#define SEED_REPLAY_H

#include "seed/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SEED_REPLAY_TRANSITIONS 0
#define SEED_REPLAY_SEQUENCES 1

#define SEED_REPLAY_MAX_STACK 64       /* Largest stack_num. */
#define SEED_REPLAY_MAX_REACH 4096     /* Largest n_steps and sequence length. */
#define SEED_REPLAY_MAX_BATCH 16777216 /* Largest batch. */

typedef struct seed_replay {
  /* Options. */
  int32_t kind;             /* SEED_REPLAY_TRANSITIONS or SEED_REPLAY_SEQUENCES. */
  int32_t stack_num;        /* Frames per observation; missing ones at an episode's start are zero. */
  int32_t period;           /* Steps between two items; 1 for transitions. */
  int32_t reach;            /* Transitions: n. Sequences: length, so that an item has length + 1 observations. */
  int64_t num_lanes;        /* Environments. */
  int64_t steps_per_lane;   /* Length of the ring, a multiple of period. */
  int64_t frame_bytes;      /* Size of a frame. */
  int64_t state_bytes;      /* Size of a core state; 0 stores none. */
  double discount;          /* Gamma of n-step returns. */
  double priority_exponent; /* Alpha: an item is drawn with a probability in proportion to (priority + eps)^alpha. */
  double priority_epsilon;  /* Eps: keeps items of priority 0 alive, > 0. */
  uint64_t seed;            /* Key of the random numbers. */
  /* Memory. */
  void* frames; /* 8-byte aligned, like all of these. */
  void* steps;  /* Actions, rewards and flags. */
  uint8_t* state;
  float* initial_priority;
  double* tree;   /* Zero at first. */
  void* counters; /* Zero at first. */
} seed_replay;

/* Sizes in bytes of the arrays of a seed_replay, and what follows from its options. */
typedef struct seed_replay_sizes {
  int64_t frames, steps, state, initial_priority, tree, counters;
  int64_t num_items;  /* Every index is below it. */
  int64_t num_leaves; /* The first doubles of `tree`: (priority + eps)^alpha of each item, 0 where none can be drawn. */
} seed_replay_sizes;

/* What an actor has recorded: steps (T) of all lanes (B). Arrays (T, B) are C-contiguous. */
typedef struct seed_replay_steps {
  int64_t num_steps;  /* T, at most steps_per_lane. */
  const void* frames; /* Newest frame of step t, lane b: frames + t * frame_step_bytes + b * frame_lane_bytes. */
  int64_t frame_step_bytes;
  int64_t frame_lane_bytes;
  const int64_t* action;     /* Fits 32 bits; anything at void transitions. */
  const float* reward;       /* Of the transition that begins at the step. */
  const uint8_t* first;      /* 1: the observation begins an episode. */
  const uint8_t* last;       /* 1: the observation ended an episode; the transition from it is void. */
  const uint8_t* terminated; /* 1: the transition ends the game, nothing follows. */
  const void* state;         /* (K, B, state_bytes): core state before each of the K steps at which an item begins. */
  const float* priority;     /* (M, B) of the M items per lane that this call completes, oldest first; NULL: the
                                largest priority ever seen. See seed_replay_num_completed(). */
} seed_replay_steps;

/* A drawn batch of N items, written by seed_replay_sample; arrays are C-contiguous. U = 2 observations for transitions
 * (o_t and the one to bootstrap from), length + 1 for sequences. Pointers that may be NULL are marked. */
typedef struct seed_replay_batch {
  int64_t num_items;          /* N. */
  double importance_exponent; /* Beta of the weights. */
  int32_t num_threads;        /* Of the CPU backend; 1 = the caller's. */
  int32_t reserved;
  void* obs;                /* (U, N, stack_num, frame_bytes), oldest frame first. */
  uint8_t* first;           /* (U, N). */
  int64_t* previous_action; /* (U, N): the action that led to the observation; 0 at first observations. */
  float* previous_reward;   /* (U, N): the reward that came with it; 0 at first observations. */
  uint8_t* last;            /* (U, N); NULL for transitions. */
  uint8_t* terminated;      /* (U - 1, N); NULL for transitions. */
  uint8_t* state;           /* (N, state_bytes) before observation 0; NULL without states. */
  int64_t* action;          /* (N,); NULL for sequences. */
  float* reward;            /* (N,): r_t + gamma r_t+1 + ...; NULL for sequences. */
  float* discount;          /* (N,): gamma^k, or 0 where the game ended; NULL for sequences. */
  float* weight;            /* (N,): (smallest probability of the batch / probability)^beta. */
  int64_t* index;           /* (N,). */
  int64_t* generation;      /* (N,). */
} seed_replay_batch;

/* Checks the options (memory may still be NULL) and tells how much memory they need. */
SEED_API seed_status seed_replay_measure(const seed_replay* replay, seed_replay_sizes* sizes);

/* How many items of each lane an append of num_steps will complete (M), and how many begin in it (K). */
SEED_API seed_status seed_replay_num_completed(const seed_replay* replay, int64_t num_steps, int64_t* completed,
                                               int64_t* begun);

/* Actor: adds steps. Wait-free; never waits for a learner. `stream` is NULL on a CPU. */
SEED_API seed_status seed_replay_append(const seed_replay* replay, const seed_replay_steps* steps, void* stream);

/* Learner: how many items can be drawn now, and how many steps of each lane were ever appended. */
SEED_API seed_status seed_replay_count(const seed_replay* replay, int64_t* num_drawable, int64_t* num_steps,
                                       void* stream);

/* Learner: draws a batch, one item of each of N equal strata of the cumulative priority, with replacement. The draws
 * depend on seed, contents and the number of earlier calls only. SEED_BAD_STATE when there is nothing to draw. */
SEED_API seed_status seed_replay_sample(const seed_replay* replay, const seed_replay_batch* batch, void* stream);

/* Learner: gives items new priorities (finite, >= 0). Of several for one item the largest counts. Items that are gone
 * (their generation is not the slot's present one) are passed over; *num_applied counts the others. An index outside
 * 0 .. num_items - 1 or a bad priority refuses the whole call. */
SEED_API seed_status seed_replay_update(const seed_replay* replay, int64_t count, const int64_t* index,
                                        const int64_t* generation, const float* priority, int64_t* num_applied,
                                        void* stream);

/* After the arrays were restored from a checkpoint that holds the leaves of `tree` only: computes the rest of it. */
SEED_API seed_status seed_replay_rebuild(const seed_replay* replay, void* stream);

#ifdef __cplusplus
}
#endif
#endif
