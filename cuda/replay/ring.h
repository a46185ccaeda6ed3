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

constexpr uint32_t kFirstFlag = 1;
constexpr uint32_t kLastFlag = 2;
constexpr uint32_t kTerminatedFlag = 4;

// What belongs to a step beside its frame; a neighbour's is mostly on the same cache line.
struct StepRecord {
  int32_t action;  // taken at the observation
  float reward;    // that followed
  uint32_t flags;  // first, last: of the observation; terminated: of the transition that follows
};
static_assert(sizeof(StepRecord) == 12, "part of every checkpoint");

// Rows are whole 8-byte words, so that frames of any size are copied word by word.
SEED_HD inline int64_t row_words(int64_t bytes) { return (bytes + 7) / 8; }

// A step of a lane, from which others are reached by their distance, without a division each.
struct Place {
  int64_t step;
  int64_t lane_slot;  // slot of the lane's row 0
  int64_t row;
};

SEED_HD inline Place place_of(const seed_replay& replay, int64_t step, int64_t lane) {
  return {step, lane * replay.steps_per_lane, step % replay.steps_per_lane};
}

// Slot of the step `offset` after (or before) a place; less than once round the ring.
SEED_HD inline int64_t slot_at(const seed_replay& replay, const Place& place, int64_t offset) {
  int64_t row = place.row + offset;
  if (row < 0) row += replay.steps_per_lane;
  if (row >= replay.steps_per_lane) row -= replay.steps_per_lane;
  return place.lane_slot + row;
}

SEED_HD inline StepRecord* record_at(const seed_replay& replay, const Place& place, int64_t offset) {
  return static_cast<StepRecord*>(replay.steps) + slot_at(replay, place, offset);
}

SEED_HD inline uint32_t flags_at(const seed_replay& replay, const Place& place, int64_t offset) {
  return relaxed_load(&record_at(replay, place, offset)->flags);
}

// Steps that must lie before an item unless its episode begins there: the rest of the stack, and the action and reward
// that led to its first observation.
SEED_HD inline int64_t history_of(const seed_replay& replay) { return replay.stack_num > 2 ? replay.stack_num - 1 : 1; }

// How many frames of the stack at `offset` belong to its episode; the other, older ones are zero. The bound by the
// step's number is for readers of rows that are being overwritten: they may see any flags, but read inside the ring.
SEED_HD inline int32_t stack_length(const seed_replay& replay, const Place& place, int64_t offset) {
  int32_t length = 1;
  while (length < replay.stack_num && length <= place.step + offset &&
         !(flags_at(replay, place, offset - length + 1) & kFirstFlag))
    ++length;
  return length;
}

// What led to an observation: 0 and 0 at the first one of an episode.
struct Arrival {
  int64_t action;
  float reward;
};

SEED_HD inline Arrival arrival_at(const seed_replay& replay, const Place& place, int64_t offset) {
  if (place.step + offset == 0 || (flags_at(replay, place, offset) & kFirstFlag)) return {0, 0.0f};
  const StepRecord* before = record_at(replay, place, offset - 1);
  return {relaxed_load(&before->action), relaxed_load(&before->reward)};
}

// reward = r_t + gamma r_t+1 + ... over k <= n transitions; discount = gamma^k, or 0 where the game ended; the value to
// discount is that of the observation `bootstrap` = k steps later, the true final one where an episode was cut off.
struct NStepReturn {
  double reward;
  double discount;
  int64_t bootstrap;
};

SEED_HD inline NStepReturn n_step_return(const seed_replay& replay, const Place& place) {
  double reward = 0.0, discount = 1.0;
  for (int64_t k = 0; k < replay.reach; ++k) {
    const StepRecord* record = record_at(replay, place, k);
    reward += discount * relaxed_load(&record->reward);
    discount *= replay.discount;
    if (relaxed_load(&record->flags) & kTerminatedFlag) return {reward, 0.0, k + 1};
    if (flags_at(replay, place, k + 1) & kLastFlag) return {reward, discount, k + 1};
  }
  return {reward, discount, replay.reach};
}

}  // namespace seed
