// SPDX-License-Identifier: Apache-2.0
// The ring of recorded steps: which frames make up an observation, what an n-step transition earns, where it ends.
//
// Steps are numbered from the first ever appended; step s of a lane lies in row s mod steps_per_lane of that lane, so
// that an item's frames are neighbours in memory. The functions here only read rows that their caller knows to be
// there: `history` steps before an item and `reach` steps after its start.
#pragma once

#include <cstdint>

#include "portability.h"
#include "replay/relaxed.h"
#include "seed/replay.h"

namespace seed {

constexpr uint8_t kFirstFlag = 1;
constexpr uint8_t kLastFlag = 2;
constexpr uint8_t kTerminatedFlag = 4;

// Rows are whole 8-byte words, so that frames of any size are copied word by word.
SEED_HD inline int64_t row_words(int64_t bytes) { return (bytes + 7) / 8; }

SEED_HD inline int64_t slot_of(const seed_replay& replay, int64_t step, int64_t lane) {
  return lane * replay.steps_per_lane + step % replay.steps_per_lane;
}

SEED_HD inline uint8_t flags_at(const seed_replay& replay, int64_t step, int64_t lane) {
  return relaxed_load(replay.flags + slot_of(replay, step, lane));
}

// Steps that must lie before an item unless its episode begins there: the rest of the stack, and the action and reward
// that led to its first observation.
SEED_HD inline int64_t history_of(const seed_replay& replay) { return replay.stack_num > 2 ? replay.stack_num - 1 : 1; }

// How many frames of the stack at `step` belong to its episode; the other, older ones are zero. The bound by `step` is
// for readers of rows that are being overwritten: they may see any flags, but read inside the ring.
SEED_HD inline int32_t stack_length(const seed_replay& replay, int64_t step, int64_t lane) {
  int32_t length = 1;
  while (length < replay.stack_num && length <= step && !(flags_at(replay, step - length + 1, lane) & kFirstFlag))
    ++length;
  return length;
}

// What led to an observation: 0 and 0 at the first one of an episode.
struct Arrival {
  int64_t action;
  float reward;
};

SEED_HD inline Arrival arrival_at(const seed_replay& replay, int64_t step, int64_t lane) {
  if (step == 0 || (flags_at(replay, step, lane) & kFirstFlag)) return {0, 0.0f};
  const int64_t slot = slot_of(replay, step - 1, lane);
  return {relaxed_load(replay.action + slot), relaxed_load(replay.reward + slot)};
}

// reward = r_t + gamma r_t+1 + ... over k <= n transitions; discount = gamma^k, or 0 where the game ended; the value to
// discount is that of the observation at bootstrap_step = t + k, the true final one where an episode was cut off.
struct NStepReturn {
  double reward;
  double discount;
  int64_t bootstrap_step;
};

SEED_HD inline NStepReturn n_step_return(const seed_replay& replay, int64_t step, int64_t lane) {
  double reward = 0.0, discount = 1.0;
  for (int64_t k = 0; k < replay.reach; ++k) {
    reward += discount * relaxed_load(replay.reward + slot_of(replay, step + k, lane));
    discount *= replay.discount;
    if (flags_at(replay, step + k, lane) & kTerminatedFlag) return {reward, 0.0, step + k + 1};
    if (flags_at(replay, step + k + 1, lane) & kLastFlag) return {reward, discount, step + k + 1};
  }
  return {reward, discount, step + replay.reach};
}

}  // namespace seed
