// SPDX-License-Identifier: Apache-2.0
// Prioritized replay, CPU backend: memory movement, threads and the C ABI around the rules of items.h and ring.h.
//
// Actor (append):   writing = head + T | release fence | rows, relaxed | head = writing, release
// Learner (sample): head, acquire | tree, draws | rows, relaxed | acquire fence | writing: was an item overwritten?
// The fences pair up: whoever has read a byte of step s also sees writing > s. So an item that passes the check at the
// end is whole, and one that fails is drawn again. Neither side ever waits for the other.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "error.h"
#include "replay/items.h"
#include "seed/replay.h"

namespace seed {
namespace {

constexpr uint32_t kMaxAttempts = 64;         // draws of an item that the actor keeps overwriting
constexpr int64_t kBytesPerThread = 1 << 18;  // less is not worth a thread
constexpr int64_t kItemsAhead = 16;           // items whose memory is asked for before the first is read
constexpr double kMaxBytes = 9.0e18;          // of one array

// ---- Checks
// ----------------------------------------------------------------------------------------------------------

seed_status check_options(const seed_replay* replay) {
  if (replay == nullptr) return fail(SEED_INVALID_ARGUMENT, "the replay is NULL");
  const seed_replay& r = *replay;
  if (r.kind != SEED_REPLAY_TRANSITIONS && r.kind != SEED_REPLAY_SEQUENCES)
    return fail(SEED_INVALID_ARGUMENT, "kind is %d: use 0 (transitions) or 1 (sequences)", r.kind);
  if (r.stack_num < 1 || r.stack_num > SEED_REPLAY_MAX_STACK)
    return fail(SEED_INVALID_ARGUMENT, "stack_num is %d: use 1 to %d", r.stack_num, SEED_REPLAY_MAX_STACK);
  if (r.reach < 1 || r.reach > SEED_REPLAY_MAX_REACH)
    return fail(SEED_INVALID_ARGUMENT, "n_steps or length is %d: use 1 to %d", r.reach, SEED_REPLAY_MAX_REACH);
  if (r.period < 1 || (r.kind == SEED_REPLAY_TRANSITIONS && r.period != 1))
    return fail(SEED_INVALID_ARGUMENT, "period is %d: it must be at least 1, and 1 for transitions", r.period);
  if (r.num_lanes < 1 || r.frame_bytes < 1 || r.state_bytes < 0 || r.steps_per_lane < 1)
    return fail(SEED_INVALID_ARGUMENT, "lanes, steps and frame size must be at least 1, the state's size at least 0");
  if (r.steps_per_lane % r.period != 0)
    return fail(SEED_INVALID_ARGUMENT, "steps_per_lane is %lld: it must be a multiple of the period, %d",
                static_cast<long long>(r.steps_per_lane), r.period);
  const int64_t needed = r.reach + history_of(r) + r.period;
  if (r.steps_per_lane < needed)
    return fail(SEED_INVALID_ARGUMENT,
                "the replay holds %lld steps of each environment, one item needs %lld: raise the capacity",
                static_cast<long long>(r.steps_per_lane), static_cast<long long>(needed));
  const double slots = static_cast<double>(r.num_lanes) * static_cast<double>(r.steps_per_lane);
  if (slots * 8.0 * static_cast<double>(row_words(r.frame_bytes)) > kMaxBytes ||
      slots * 8.0 * static_cast<double>(row_words(r.state_bytes) + 3) > kMaxBytes)
    return fail(SEED_INVALID_ARGUMENT,
                "the replay would need more bytes than an address has bits for: lower the capacity");
  if (!(r.discount >= 0.0 && r.discount <= 1.0))
    return fail(SEED_INVALID_ARGUMENT, "discount is %g: use 0 to 1", r.discount);
  if (!(r.priority_exponent >= 0.0 && r.priority_exponent <= 2.0))
    return fail(SEED_INVALID_ARGUMENT, "priority_exponent is %g: use 0 to 2", r.priority_exponent);
  if (!(r.priority_epsilon >= 1e-30 && r.priority_epsilon <= 1e30))
    return fail(SEED_INVALID_ARGUMENT, "priority_epsilon is %g: use a small number above 0", r.priority_epsilon);
  return SEED_OK;
}

seed_status check_replay(const seed_replay* replay) {
  if (const seed_status status = check_options(replay)) return status;
  const seed_replay& r = *replay;
  for (const void* array : {static_cast<const void*>(r.frames), static_cast<const void*>(r.steps),
                            static_cast<const void*>(r.initial_priority), static_cast<const void*>(r.tree),
                            static_cast<const void*>(r.counters)})
    if (array == nullptr || reinterpret_cast<uintptr_t>(array) % 8 != 0)
      return fail(SEED_INVALID_ARGUMENT, "an array of the replay is NULL or not 8-byte aligned");
  if (r.state_bytes > 0 && (r.state == nullptr || reinterpret_cast<uintptr_t>(r.state) % 8 != 0))
    return fail(SEED_INVALID_ARGUMENT, "the replay stores states, but their array is NULL or not 8-byte aligned");
  return SEED_OK;
}

bool is_priority(float priority) { return priority >= 0.0f && priority <= std::numeric_limits<float>::max(); }

// ---- Memory shared by actor and learner
// ------------------------------------------------------------------------------

void copy_into_ring(uint64_t* words, const uint8_t* source, int64_t bytes) {
  for (int64_t i = 0; i < bytes / 8; ++i) {
    uint64_t word;
    std::memcpy(&word, source + 8 * i, 8);
    relaxed_store(words + i, word);
  }
  if (const int64_t rest = bytes % 8) {
    uint64_t word = 0;
    std::memcpy(&word, source + bytes - rest, static_cast<size_t>(rest));
    relaxed_store(words + bytes / 8, word);
  }
}

void copy_from_ring(uint8_t* target, const uint64_t* words, int64_t bytes) {
  for (int64_t i = 0; i < bytes / 8; ++i) {
    const uint64_t word = relaxed_load(words + i);
    std::memcpy(target + 8 * i, &word, 8);
  }
  if (const int64_t rest = bytes % 8) {
    const uint64_t word = relaxed_load(words + bytes / 8);
    std::memcpy(target + bytes - rest, &word, static_cast<size_t>(rest));
  }
}

uint64_t* frame_row(const seed_replay& replay, int64_t slot) {
  return static_cast<uint64_t*>(replay.frames) + slot * row_words(replay.frame_bytes);
}

uint64_t* state_row(const seed_replay& replay, int64_t index) {
  return reinterpret_cast<uint64_t*>(replay.state) + index * row_words(replay.state_bytes);
}

int64_t index_of(const seed_replay& replay, int64_t item, int64_t lane) {
  const int64_t count = items_per_lane(replay);
  return lane * count + item % count;
}

// ---- Actor
// -----------------------------------------------------------------------------------------------------------

seed_status check_steps(const seed_replay& replay, const seed_replay_steps& steps, int64_t begun, int64_t completed) {
  if (steps.num_steps < 1 || steps.num_steps > replay.steps_per_lane)
    return fail(SEED_INVALID_ARGUMENT, "%lld steps cannot be appended at once: give 1 to %lld",
                static_cast<long long>(steps.num_steps), static_cast<long long>(replay.steps_per_lane));
  if (!steps.frames || !steps.action || !steps.reward || !steps.first || !steps.last || !steps.terminated)
    return fail(SEED_INVALID_ARGUMENT, "an array of the steps is NULL");
  if (begun > 0 && replay.state_bytes > 0 && !steps.state)
    return fail(SEED_INVALID_ARGUMENT, "the replay stores states: give the %lld that begin items",
                static_cast<long long>(begun));
  for (int64_t i = 0; i < steps.num_steps * replay.num_lanes; ++i) {
    if (steps.action[i] < INT32_MIN || steps.action[i] > INT32_MAX)
      return fail(SEED_INVALID_ARGUMENT, "action %lld does not fit 32 bits", static_cast<long long>(steps.action[i]));
    if (!std::isfinite(steps.reward[i]))
      return fail(SEED_INVALID_ARGUMENT, "a reward is %g: rewards must be finite",
                  static_cast<double>(steps.reward[i]));
  }
  if (steps.priority != nullptr)
    for (int64_t i = 0; i < completed * replay.num_lanes; ++i)
      if (!is_priority(steps.priority[i]))
        return fail(SEED_INVALID_ARGUMENT, "priority %lld is %g: priorities must be finite and at least 0",
                    static_cast<long long>(i), static_cast<double>(steps.priority[i]));
  return SEED_OK;
}

void write_lane(const seed_replay& replay, const seed_replay_steps& steps, int64_t head, int64_t lane) {
  const Place place = place_of(replay, head, lane);
  for (int64_t t = 0; t < steps.num_steps; ++t) {
    const int64_t from = t * replay.num_lanes + lane;
    const auto* frame =
        static_cast<const uint8_t*>(steps.frames) + t * steps.frame_step_bytes + lane * steps.frame_lane_bytes;
    copy_into_ring(frame_row(replay, slot_at(replay, place, t)), frame, replay.frame_bytes);
    StepRecord* record = record_at(replay, place, t);
    relaxed_store(&record->action, static_cast<int32_t>(steps.action[from]));
    relaxed_store(&record->reward, steps.reward[from]);
    relaxed_store(&record->flags, (steps.first[from] ? kFirstFlag : 0) | (steps.last[from] ? kLastFlag : 0) |
                                      (steps.terminated[from] ? kTerminatedFlag : 0));
  }
}

// ---- Tree, the learner's own
// -----------------------------------------------------------------------------------------

// Refreshes level 1 nodes and all above them. Sorted nodes are refreshed once each, others perhaps more than once.
void refresh_above(const SumTree& tree, std::vector<int64_t>& nodes) {
  for (int level = 1; level < tree.num_levels; ++level) {
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    if (static_cast<int64_t>(nodes.size()) >= tree.length[level]) {
      for (int64_t node = 0; node < tree.length[level]; ++node) refresh_node(tree, level, node);
    } else {
      for (const int64_t node : nodes) refresh_node(tree, level, node);
    }
    for (int64_t& node : nodes) node /= kTreeFanout;
  }
}

void set_leaf(const seed_replay& replay, int64_t index, double value, std::vector<int64_t>& touched) {
  double& leaf = replay.tree[index];
  counters_of(replay).num_live += (value > 0.0) - (leaf > 0.0);
  leaf = value;
  touched.push_back(index / kTreeFanout);
}

// The priority an item starts with: the actor's, or the largest one that was ever given.
float starting_priority(const seed_replay& replay, int64_t index) {
  ReplayCounters& counters = counters_of(replay);
  const float given = relaxed_load(replay.initial_priority + index);
  if (!std::isnan(given)) {
    counters.max_priority = std::max<double>(counters.max_priority, given);
    return given;
  }
  return counters.max_priority > 0.0 ? static_cast<float>(counters.max_priority) : 1.0f;
}

// Takes in the items that the actor has completed and gives up those that it has begun to overwrite.
void take_in(const seed_replay& replay) {
  ReplayCounters& counters = counters_of(replay);
  const int64_t head = __atomic_load_n(&counters.head, __ATOMIC_ACQUIRE);
  const int64_t writing = __atomic_load_n(&counters.writing, __ATOMIC_RELAXED);
  const int64_t complete = num_complete(replay, head), gone = num_overwritten(replay, writing);
  const int64_t taken = counters.num_taken, count = items_per_lane(replay);
  if (complete == taken && gone <= counters.num_evicted) return;

  std::vector<int64_t> touched;
  for (int64_t lane = 0; lane < replay.num_lanes; ++lane) {
    for (int64_t item = std::max(counters.num_evicted, taken - count); item < std::min(gone, taken); ++item)
      set_leaf(replay, index_of(replay, item, lane), 0.0, touched);
    for (int64_t item = std::max(taken, complete - count); item < complete; ++item) {
      const int64_t index = index_of(replay, item, lane);
      const bool draw = item >= gone && is_drawable(replay, item, lane);
      set_leaf(replay, index, draw ? leaf_value(replay, starting_priority(replay, index)) : 0.0, touched);
    }
  }
  counters.num_taken = complete;
  counters.num_evicted = std::max(counters.num_evicted, gone);
  refresh_above(tree_of(replay), touched);
}

// ---- Gather
// ----------------------------------------------------------------------------------------------------------

// Writes observation `u` of batch item `i`: the stack that ends `offset` steps after the item's start, and what belongs
// to it.
void gather_observation(const seed_replay& replay, const seed_replay_batch& batch, int64_t u, int64_t i,
                        const Place& start, int64_t offset) {
  const int64_t at = u * batch.num_items + i;
  auto* target = static_cast<uint8_t*>(batch.obs) + at * replay.stack_num * replay.frame_bytes;
  const int32_t length = stack_length(replay, start, offset);
  const int64_t padding_bytes = (replay.stack_num - length) * replay.frame_bytes;
  if (padding_bytes > 0) std::memset(target, 0, static_cast<size_t>(padding_bytes));
  target += padding_bytes;
  for (int32_t back = length - 1; back >= 0; --back, target += replay.frame_bytes)
    copy_from_ring(target, frame_row(replay, slot_at(replay, start, offset - back)), replay.frame_bytes);

  const Arrival arrival = arrival_at(replay, start, offset);
  batch.first[at] = (flags_at(replay, start, offset) & kFirstFlag) != 0;
  batch.previous_action[at] = arrival.action;
  batch.previous_reward[at] = arrival.reward;
}

void gather_transition(const seed_replay& replay, const seed_replay_batch& batch, int64_t i, const Place& start) {
  const NStepReturn future = n_step_return(replay, start);
  gather_observation(replay, batch, 0, i, start, 0);
  gather_observation(replay, batch, 1, i, start, future.bootstrap);
  batch.action[i] = relaxed_load(&record_at(replay, start, 0)->action);
  batch.reward[i] = static_cast<float>(future.reward);
  batch.discount[i] = static_cast<float>(future.discount);
}

void gather_sequence(const seed_replay& replay, const seed_replay_batch& batch, int64_t i, const Place& start) {
  for (int64_t u = 0; u <= replay.reach; ++u) {
    const uint32_t flags = flags_at(replay, start, u);
    gather_observation(replay, batch, u, i, start, u);
    batch.last[u * batch.num_items + i] = (flags & kLastFlag) != 0;
    if (u < replay.reach) batch.terminated[u * batch.num_items + i] = (flags & kTerminatedFlag) != 0;
  }
  if (replay.state_bytes > 0)
    copy_from_ring(batch.state + i * replay.state_bytes, state_row(replay, batch.index[i]), replay.state_bytes);
}

// Where a drawn item begins, and which it is in its lane.
struct DrawnItem {
  int64_t item;
  Place start;
};

// Draws batch item `i` and asks for its memory, so that the misses of several items overlap.
DrawnItem draw_item(const seed_replay& replay, const SumTree& tree, TreePath& path, const seed_replay_batch& batch,
                    int64_t i, int64_t draw, uint32_t attempt) {
  const double target = stratum_point(replay, draw, i, batch.num_items, attempt, tree_total(tree));
  const int64_t index = find_leaf(tree, target, path), count = items_per_lane(replay), lane = index / count;
  const int64_t item = newest_item_at(replay, index, counters_of(replay).num_taken);
  batch.index[i] = index;
  batch.generation[i] = item / count;
  const Place start = place_of(replay, item * replay.period, lane);
  __builtin_prefetch(record_at(replay, start, -1));
  __builtin_prefetch(record_at(replay, start, replay.reach));
  __builtin_prefetch(frame_row(replay, slot_at(replay, start, 0)));
  __builtin_prefetch(frame_row(replay, slot_at(replay, start, replay.reach)));
  return {item, start};
}

// Gathers batch item `i`; returns its leaf, or 0 if the actor has overwritten it meanwhile.
double gather_item(const seed_replay& replay, const seed_replay_batch& batch, int64_t i, const DrawnItem& drawn) {
  if (replay.kind == SEED_REPLAY_TRANSITIONS) {
    gather_transition(replay, batch, i, drawn.start);
  } else {
    gather_sequence(replay, batch, i, drawn.start);
  }
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  const int64_t writing = __atomic_load_n(&counters_of(replay).writing, __ATOMIC_RELAXED);
  return drawn.item < num_overwritten(replay, writing) ? 0.0 : replay.tree[batch.index[i]];
}

// Draws and gathers the batch items `position[0 .. count-1]`, a few at a time.
void draw_items(const seed_replay& replay, const SumTree& tree, const seed_replay_batch& batch, const int64_t* position,
                int64_t count, int64_t draw, uint32_t attempt, double* leaf) {
  DrawnItem drawn[kItemsAhead];
  TreePath path{};
  for (int64_t begin = 0; begin < count; begin += kItemsAhead) {
    const int64_t end = std::min(begin + kItemsAhead, count);
    for (int64_t k = begin; k < end; ++k)
      drawn[k - begin] = draw_item(replay, tree, path, batch, position[k], draw, attempt);
    for (int64_t k = begin; k < end; ++k) leaf[position[k]] = gather_item(replay, batch, position[k], drawn[k - begin]);
  }
}

// Splits 0 .. count-1 into parts and calls work(begin, end) for each, on up to `num_threads` threads.
template <class Work>
void for_parts(int64_t count, int64_t num_threads, const Work& work) {
  const auto run_part = [&](int64_t part) { work(part * count / num_threads, (part + 1) * count / num_threads); };
  std::vector<std::thread> threads;
  int64_t part = 1;
  try {
    threads.reserve(static_cast<size_t>(num_threads));
    for (; part < num_threads; ++part) threads.emplace_back(run_part, part);
  } catch (const std::exception&) {  // no thread or memory to be had: the caller's thread does the rest
  }
  run_part(0);
  for (; part < num_threads; ++part) run_part(part);
  for (std::thread& thread : threads) thread.join();
}

seed_status check_batch(const seed_replay& replay, const seed_replay_batch* batch) {
  if (batch == nullptr) return fail(SEED_INVALID_ARGUMENT, "the batch is NULL");
  const seed_replay_batch& b = *batch;
  if (b.num_items < 1 || b.num_items > SEED_REPLAY_MAX_BATCH)
    return fail(SEED_INVALID_ARGUMENT, "batch_size is %lld: use 1 to %d", static_cast<long long>(b.num_items),
                SEED_REPLAY_MAX_BATCH);
  if (!(b.importance_exponent >= 0.0 && b.importance_exponent <= 2.0))
    return fail(SEED_INVALID_ARGUMENT, "importance_exponent is %g: use 0 to 2", b.importance_exponent);
  if (b.num_threads < 1 || b.num_threads > 1024)
    return fail(SEED_INVALID_ARGUMENT, "num_threads is %d: use 1 to 1024", b.num_threads);
  bool complete = b.obs && b.first && b.previous_action && b.previous_reward && b.weight && b.index && b.generation;
  if (replay.kind == SEED_REPLAY_TRANSITIONS) {
    complete = complete && b.action && b.reward && b.discount;
  } else {
    complete = complete && b.last && b.terminated && (b.state || replay.state_bytes == 0);
  }
  return complete ? SEED_OK : fail(SEED_INVALID_ARGUMENT, "an array of the batch is NULL");
}

seed_status draw_batch(const seed_replay& replay, const seed_replay_batch& batch) {
  const int64_t num_items = batch.num_items;
  const int64_t observations = replay.kind == SEED_REPLAY_TRANSITIONS ? 2 : replay.reach + 1;
  const double bytes = static_cast<double>(num_items) * static_cast<double>(observations) *
                       static_cast<double>(replay.stack_num) * static_cast<double>(replay.frame_bytes);
  const int64_t num_threads = std::clamp<int64_t>(static_cast<int64_t>(bytes / kBytesPerThread), 1, batch.num_threads);

  std::vector<double> leaf(static_cast<size_t>(num_items));
  std::vector<int64_t> pending(static_cast<size_t>(num_items));
  for (int64_t i = 0; i < num_items; ++i) pending[i] = i;
  int64_t draw = -1;
  for (uint32_t attempt = 0; !pending.empty(); ++attempt) {
    take_in(replay);
    if (counters_of(replay).num_live == 0)
      return fail(SEED_BAD_STATE, "the replay holds nothing to draw yet: append more than %d steps first",
                  replay.reach);
    if (attempt == kMaxAttempts)
      return fail(SEED_BAD_STATE, "the actor overwrites items faster than they are read: raise the replay's capacity");
    if (draw < 0) draw = counters_of(replay).num_draws++;
    const SumTree tree = tree_of(replay);
    for_parts(static_cast<int64_t>(pending.size()), num_threads, [&](int64_t begin, int64_t end) {
      draw_items(replay, tree, batch, pending.data() + begin, end - begin, draw, attempt, leaf.data());
    });
    pending.erase(std::remove_if(pending.begin(), pending.end(), [&](int64_t i) { return leaf[i] > 0.0; }),
                  pending.end());
  }
  const double smallest = *std::min_element(leaf.begin(), leaf.end());
  for (int64_t i = 0; i < num_items; ++i)
    batch.weight[i] = importance_weight(leaf[i], smallest, batch.importance_exponent);
  return SEED_OK;
}

// ---- Priorities
// ------------------------------------------------------------------------------------------------------

// Whether (index, generation) names an item that can still be drawn.
bool is_live(const seed_replay& replay, int64_t index, int64_t generation) {
  const int64_t item = newest_item_at(replay, index, counters_of(replay).num_taken);
  return replay.tree[index] != 0.0 && item / items_per_lane(replay) == generation;
}

int64_t update_priorities(const seed_replay& replay, int64_t count, const int64_t* index, const int64_t* generation,
                          const float* priority) {
  // A mark below every value lets the largest of several priorities win, in whatever order they come.
  constexpr double kMark = -1.0;
  take_in(replay);
  ReplayCounters& counters = counters_of(replay);
  std::vector<int64_t> touched;
  touched.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    if (is_live(replay, index[i], generation[i])) {
      replay.tree[index[i]] = kMark;
      touched.push_back(index[i] / kTreeFanout);
    }
  const int64_t num_applied = static_cast<int64_t>(touched.size());
  for (int64_t i = 0; i < count; ++i)
    if (is_live(replay, index[i], generation[i])) {
      replay.tree[index[i]] = std::max(replay.tree[index[i]], leaf_value(replay, priority[i]));
      counters.max_priority = std::max<double>(counters.max_priority, priority[i]);
    }
  refresh_above(tree_of(replay), touched);
  return num_applied;
}

}  // namespace
}  // namespace seed

// ---- C ABI
// -----------------------------------------------------------------------------------------------------------

using seed::fail;

extern "C" {

seed_status seed_replay_measure(const seed_replay* replay, seed_replay_sizes* sizes) {
  if (sizes == nullptr) return fail(SEED_INVALID_ARGUMENT, "sizes is NULL");
  if (const seed_status status = seed::check_options(replay)) return status;
  const int64_t slots = replay->num_lanes * replay->steps_per_lane, items = seed::num_items_of(*replay);
  *sizes = seed_replay_sizes{};
  sizes->frames = slots * 8 * seed::row_words(replay->frame_bytes);
  sizes->steps = slots * static_cast<int64_t>(sizeof(seed::StepRecord));
  sizes->state = items * 8 * seed::row_words(replay->state_bytes);
  sizes->initial_priority = items * static_cast<int64_t>(sizeof(float));
  sizes->tree = seed::make_sum_tree(items).num_nodes * static_cast<int64_t>(sizeof(double));
  sizes->counters = sizeof(seed::ReplayCounters);
  sizes->num_items = items;
  sizes->num_leaves = items;
  return SEED_OK;
}

seed_status seed_replay_num_completed(const seed_replay* replay, int64_t num_steps, int64_t* completed,
                                      int64_t* begun) {
  if (const seed_status status = seed::check_replay(replay)) return status;
  if (!completed || !begun) return fail(SEED_INVALID_ARGUMENT, "a result pointer is NULL");
  if (num_steps < 0 || num_steps > replay->steps_per_lane)
    return fail(SEED_INVALID_ARGUMENT, "%lld steps cannot be appended at once: give 0 to %lld",
                static_cast<long long>(num_steps), static_cast<long long>(replay->steps_per_lane));
  const int64_t head = __atomic_load_n(&seed::counters_of(*replay).head, __ATOMIC_RELAXED);
  *completed = seed::num_complete(*replay, head + num_steps) - seed::num_complete(*replay, head);
  *begun = seed::num_begun(*replay, head + num_steps) - seed::num_begun(*replay, head);
  return SEED_OK;
}

seed_status seed_replay_append(const seed_replay* replay, const seed_replay_steps* steps, void*) {
  if (steps == nullptr) return fail(SEED_INVALID_ARGUMENT, "the steps are NULL");
  int64_t completed = 0, begun = 0;
  if (const seed_status status = seed_replay_num_completed(replay, steps->num_steps, &completed, &begun)) return status;
  if (const seed_status status = seed::check_steps(*replay, *steps, begun, completed)) return status;

  seed::ReplayCounters& counters = seed::counters_of(*replay);
  const int64_t head = __atomic_load_n(&counters.head, __ATOMIC_RELAXED);  // only this thread writes it
  __atomic_store_n(&counters.writing, head + steps->num_steps, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);

  const int64_t first_complete = seed::num_complete(*replay, head), first_begun = seed::num_begun(*replay, head);
  for (int64_t lane = 0; lane < replay->num_lanes; ++lane) {
    seed::write_lane(*replay, *steps, head, lane);
    for (int64_t k = 0; k < completed; ++k)
      seed::relaxed_store(
          replay->initial_priority + seed::index_of(*replay, first_complete + k, lane),
          steps->priority ? steps->priority[k * replay->num_lanes + lane] : std::numeric_limits<float>::quiet_NaN());
    if (replay->state_bytes > 0)
      for (int64_t k = 0; k < begun; ++k)
        seed::copy_into_ring(
            seed::state_row(*replay, seed::index_of(*replay, first_begun + k, lane)),
            static_cast<const uint8_t*>(steps->state) + (k * replay->num_lanes + lane) * replay->state_bytes,
            replay->state_bytes);
  }
  __atomic_store_n(&counters.head, head + steps->num_steps, __ATOMIC_RELEASE);
  return SEED_OK;
}

seed_status seed_replay_count(const seed_replay* replay, int64_t* num_drawable, int64_t* num_steps, void*) {
  if (const seed_status status = seed::check_replay(replay)) return status;
  if (!num_drawable || !num_steps) return fail(SEED_INVALID_ARGUMENT, "a result pointer is NULL");
  try {
    seed::take_in(*replay);
  } catch (const std::bad_alloc&) {
    return fail(SEED_OUT_OF_MEMORY, "no memory to take in new items");
  }
  *num_drawable = seed::counters_of(*replay).num_live;
  *num_steps = __atomic_load_n(&seed::counters_of(*replay).head, __ATOMIC_RELAXED);
  return SEED_OK;
}

seed_status seed_replay_sample(const seed_replay* replay, const seed_replay_batch* batch, void*) {
  if (const seed_status status = seed::check_replay(replay)) return status;
  if (const seed_status status = seed::check_batch(*replay, batch)) return status;
  try {
    return seed::draw_batch(*replay, *batch);
  } catch (const std::bad_alloc&) {
    return fail(SEED_OUT_OF_MEMORY, "no memory to draw %lld items", static_cast<long long>(batch->num_items));
  }
}

seed_status seed_replay_update(const seed_replay* replay, int64_t count, const int64_t* index,
                               const int64_t* generation, const float* priority, int64_t* num_applied, void*) {
  if (const seed_status status = seed::check_replay(replay)) return status;
  if (count < 0 || (count > 0 && (!index || !generation || !priority)) || !num_applied)
    return fail(SEED_INVALID_ARGUMENT, "the count is negative or an array of the update is NULL");
  const int64_t num_items = seed::num_items_of(*replay);
  for (int64_t i = 0; i < count; ++i) {
    if (index[i] < 0 || index[i] >= num_items)
      return fail(SEED_INVALID_ARGUMENT, "index %lld is outside the replay: use 0 to %lld",
                  static_cast<long long>(index[i]), static_cast<long long>(num_items - 1));
    if (!seed::is_priority(priority[i]))
      return fail(SEED_INVALID_ARGUMENT, "priority %lld is %g: priorities must be finite and at least 0",
                  static_cast<long long>(i), static_cast<double>(priority[i]));
  }
  try {
    *num_applied = seed::update_priorities(*replay, count, index, generation, priority);
  } catch (const std::bad_alloc&) {
    return fail(SEED_OUT_OF_MEMORY, "no memory to update %lld items", static_cast<long long>(count));
  }
  return SEED_OK;
}

seed_status seed_replay_rebuild(const seed_replay* replay, void*) {
  if (const seed_status status = seed::check_replay(replay)) return status;
  const seed::SumTree tree = seed::tree_of(*replay);
  for (int level = 1; level < tree.num_levels; ++level)
    for (int64_t node = 0; node < tree.length[level]; ++node) seed::refresh_node(tree, level, node);
  return SEED_OK;
}
}
