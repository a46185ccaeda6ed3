// SPDX-License-Identifier: Apache-2.0
// Items: when one becomes drawable, when it is gone, how it is named, and with what probability it is drawn.
//
// Items of a lane are numbered from 0; item m begins at step m * period. Two counters of the actor order everything:
//
//     oldest = writing - steps_per_lane          head                writing
//        |  history |  items that can be drawn  |  reach  |          |
//     ---x==========x===========================x=========x----------x---->  steps
//                                                 written   being written
//
// The tree belongs to the learner alone: it takes in what the actor has appended at the start of its own calls.
#pragma once

#include <cmath>
#include <cstdint>

#include "portability.h"
#include "random.h"
#include "replay/ring.h"
#include "replay/sum_tree.h"

namespace seed {

// The memory behind seed_replay::counters: the actor's numbers and the learner's on cache lines of their own.
struct ReplayCounters {
  int64_t writing;  // actor: steps below it may be under way
  int64_t head;     // actor: steps below it are complete
  int64_t padding0[6];
  int64_t num_taken;    // learner: items of each lane that the tree has taken in
  int64_t num_evicted;  // learner: items of each lane that the tree has given up, the oldest ones
  int64_t num_live;     // learner: leaves above zero
  int64_t num_draws;    // learner: batches drawn so far, the counter of the random numbers
  double max_priority;  // learner: largest priority ever given
  int64_t padding1[3];
};
static_assert(sizeof(ReplayCounters) == 128, "part of every checkpoint");

SEED_HD inline ReplayCounters& counters_of(const seed_replay& replay) {
  return *static_cast<ReplayCounters*>(replay.counters);
}

SEED_HD inline int64_t items_per_lane(const seed_replay& replay) { return replay.steps_per_lane / replay.period; }

SEED_HD inline int64_t num_items_of(const seed_replay& replay) { return items_per_lane(replay) * replay.num_lanes; }

SEED_HD inline SumTree tree_of(const seed_replay& replay) {
  SumTree tree = make_sum_tree(num_items_of(replay));
  tree.nodes = replay.tree;
  return tree;
}

// Items of a lane whose last entry is among the first `head` steps.
SEED_HD inline int64_t num_complete(const seed_replay& replay, int64_t head) {
  return head > replay.reach ? (head - 1 - replay.reach) / replay.period + 1 : 0;
}

// Items of a lane that begin among the first `head` steps.
SEED_HD inline int64_t num_begun(const seed_replay& replay, int64_t head) {
  return (head + replay.period - 1) / replay.period;
}

// Items of a lane that are no longer whole once `writing` steps may have been written.
SEED_HD inline int64_t num_overwritten(const seed_replay& replay, int64_t writing) {
  if (writing <= replay.steps_per_lane) return 0;
  const int64_t oldest_start = writing - replay.steps_per_lane + history_of(replay);
  return (oldest_start + replay.period - 1) / replay.period;
}

// Whether the stack at a lane's very first steps can be rebuilt: a recording may begin in the middle of an episode.
SEED_HD inline bool has_history(const seed_replay& replay, const Place& start) {
  const int64_t history = history_of(replay);
  for (int64_t back = 0; back < history && back <= start.step; ++back)
    if (flags_at(replay, start, -back) & kFirstFlag) return true;
  return start.step >= history;
}

// Whether an item's steps hang together: an episode that begins although none has ended (environments that were made
// anew under a replay that went on) leaves what came before without a future.
SEED_HD inline bool is_unbroken(const seed_replay& replay, const Place& start) {
  uint32_t before = flags_at(replay, start, 0);
  for (int64_t k = 1; k <= replay.reach; ++k) {
    const uint32_t flags = flags_at(replay, start, k);
    if ((flags & kFirstFlag) && !(before & kLastFlag)) return false;
    if (replay.kind == SEED_REPLAY_TRANSITIONS && (flags & kLastFlag)) return true;
    before = flags;
  }
  return true;
}

// Whether item m of a lane may be drawn at all: void transitions never are.
SEED_HD inline bool is_drawable(const seed_replay& replay, int64_t item, int64_t lane) {
  const Place start = place_of(replay, item * replay.period, lane);
  if (replay.kind == SEED_REPLAY_TRANSITIONS && (flags_at(replay, start, 0) & kLastFlag)) return false;
  return is_unbroken(replay, start) && (start.step >= history_of(replay) || has_history(replay, start));
}

// The number, within its lane, of the newest item taken in that lies at `index`.
SEED_HD inline int64_t newest_item_at(const seed_replay& replay, int64_t index, int64_t num_taken) {
  const int64_t count = items_per_lane(replay), row = index % count;
  return row + (num_taken - 1 - row) / count * count;
}

// (priority + eps)^alpha.
SEED_HD inline double leaf_value(const seed_replay& replay, float priority) {
  return pow(static_cast<double>(priority) + replay.priority_epsilon, replay.priority_exponent);
}

// A point in stratum `position` of `count` equal ones of [0, total), from 53 random bits. `attempt` numbers the draws
// that are made again because the actor overwrote what was drawn.
SEED_HD inline double stratum_point(const seed_replay& replay, int64_t draw, int64_t position, int64_t count,
                                    uint32_t attempt, double total) {
  const PhiloxBlock block = philox4x32(PhiloxBlock{{static_cast<uint32_t>(position), attempt,
                                                    static_cast<uint32_t>(draw), static_cast<uint32_t>(draw >> 32)}},
                                       static_cast<uint32_t>(replay.seed), static_cast<uint32_t>(replay.seed >> 32));
  const uint64_t bits = (static_cast<uint64_t>(block.words[0]) << 32 | block.words[1]) >> 11;
  const double uniform = static_cast<double>(bits) * 0x1.0p-53;
  return (static_cast<double>(position) + uniform) / static_cast<double>(count) * total;
}

// Importance weight of an item whose leaf is `value`, scaled so that the batch's rarest item (`smallest`) has weight 1.
SEED_HD inline float importance_weight(double value, double smallest, double exponent) {
  return powf(static_cast<float>(smallest / value), static_cast<float>(exponent));
}

}  // namespace seed
