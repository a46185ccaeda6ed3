// SPDX-License-Identifier: Apache-2.0
// One thread appends to a small ring as fast as it can, another samples and updates: everything drawn must be whole.
// Meant for -fsanitize=thread as well; arguments: steps to append, number of lanes.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "seed/replay.h"

namespace {

constexpr int64_t kChunk = 7, kFrameBytes = 100, kStack = 3, kBatch = 32, kStateNumbers = 3, kMinBatches = 20;

#define CHECK(condition)                                                                                      \
  do {                                                                                                        \
    if (!(condition)) {                                                                                       \
      std::printf("%s:%d: %s is false; last error: %s\n", __FILE__, __LINE__, #condition, seed_last_error()); \
      std::exit(1);                                                                                           \
    }                                                                                                         \
  } while (false)

// What a frame holds tells where it comes from: all bytes are mixed from step and lane.
uint8_t pixel(int64_t step, int64_t lane, int64_t position) {
  return static_cast<uint8_t>((step * 2654435761u + lane * 40503u + position * 97u) >> 7);
}

// Every 50 steps an episode ends.
bool is_last(int64_t step) { return step % 50 == 49; }
bool is_first(int64_t step) { return step % 50 == 0; }

struct Memory {
  std::vector<uint64_t> arrays[6];
  seed_replay replay{};

  explicit Memory(const seed_replay& options) : replay(options) {
    seed_replay_sizes sizes;
    CHECK(seed_replay_measure(&replay, &sizes) == SEED_OK);
    const int64_t bytes[6] = {sizes.frames,           sizes.steps,   sizes.state, sizes.tree,
                              sizes.initial_priority, sizes.counters};
    for (int i = 0; i < 6; ++i) arrays[i].assign(static_cast<size_t>(bytes[i] / 8 + 1), 0);
    replay.frames = arrays[0].data();
    replay.steps = arrays[1].data();
    replay.state = reinterpret_cast<uint8_t*>(arrays[2].data());
    replay.tree = reinterpret_cast<double*>(arrays[3].data());
    replay.initial_priority = reinterpret_cast<float*>(arrays[4].data());
    replay.counters = arrays[5].data();
  }
};

// Appends `num_steps` steps, and more until the learner has had a few batches (a busy machine may starve it).
void act(const seed_replay& replay, int64_t num_steps, const std::atomic<int64_t>& batches) {
  const int64_t lanes = replay.num_lanes;
  std::vector<uint8_t> frames(static_cast<size_t>(kChunk * lanes * kFrameBytes)), first(kChunk * lanes),
      last(kChunk * lanes), terminated(kChunk * lanes, 0);
  std::vector<int64_t> action(kChunk * lanes);
  std::vector<float> reward(kChunk * lanes), state(kChunk * lanes * kStateNumbers);
  for (int64_t head = 0; head < num_steps || batches.load() < kMinBatches; head += kChunk) {
    int64_t begun = 0;
    for (int64_t t = 0; t < kChunk; ++t) {
      const bool begins = replay.state_bytes > 0 && (head + t) % replay.period == 0;
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const int64_t at = t * lanes + lane;
        for (int64_t p = 0; p < kFrameBytes; ++p) frames[at * kFrameBytes + p] = pixel(head + t, lane, p);
        first[at] = is_first(head + t);
        last[at] = is_last(head + t);
        action[at] = (head + t) % 1000000;
        reward[at] = static_cast<float>(lane);
        if (begins)
          for (int64_t s = 0; s < kStateNumbers; ++s)
            state[(begun * lanes + lane) * kStateNumbers + s] = static_cast<float>((head + t + s) % 65536);
      }
      begun += begins;
    }
    seed_replay_steps steps{};
    steps.num_steps = kChunk;
    steps.frames = frames.data();
    steps.frame_step_bytes = lanes * kFrameBytes;
    steps.frame_lane_bytes = kFrameBytes;
    steps.action = action.data();
    steps.reward = reward.data();
    steps.first = first.data();
    steps.last = last.data();
    steps.terminated = terminated.data();
    steps.state = state.data();
    CHECK(seed_replay_append(&replay, &steps, nullptr) == SEED_OK);
  }
}

void check_stack(const uint8_t* obs, int64_t step, int64_t lane) {
  for (int64_t k = 0; k < kStack; ++k) {
    const int64_t frame = step - (kStack - 1 - k);
    const bool padded = frame < step - step % 50;
    for (int64_t p = 0; p < kFrameBytes; ++p) CHECK(obs[k * kFrameBytes + p] == (padded ? 0 : pixel(frame, lane, p)));
  }
}

// Samples and updates until the actor is done; counts the batches.
void learn(const seed_replay& replay, const std::atomic<bool>& done, std::atomic<int64_t>& batches) {
  const bool sequences = replay.kind == SEED_REPLAY_SEQUENCES;
  const int64_t observations = sequences ? replay.reach + 1 : 2, size = observations * kBatch;
  std::vector<uint8_t> obs(static_cast<size_t>(size * kStack * kFrameBytes)), first(size), last(size), terminated(size);
  std::vector<int64_t> previous_action(size), action(kBatch), index(kBatch), generation(kBatch);
  std::vector<float> previous_reward(size), reward(kBatch), discount(kBatch), weight(kBatch), priority(kBatch);
  std::vector<float> state(kBatch * kStateNumbers);
  seed_replay_batch batch{};
  batch.num_items = kBatch;
  batch.importance_exponent = 0.5;
  batch.num_threads = 2;
  batch.obs = obs.data();
  batch.first = first.data();
  batch.previous_action = previous_action.data();
  batch.previous_reward = previous_reward.data();
  batch.last = last.data();
  batch.terminated = terminated.data();
  batch.state = reinterpret_cast<uint8_t*>(state.data());
  batch.action = action.data();
  batch.reward = reward.data();
  batch.discount = discount.data();
  batch.weight = weight.data();
  batch.index = index.data();
  batch.generation = generation.data();

  const int64_t items_per_lane = replay.steps_per_lane / replay.period;
  int64_t drawable = 0, steps = 0, applied = 0;
  while (!done.load()) {
    CHECK(seed_replay_count(&replay, &drawable, &steps, nullptr) == SEED_OK);
    if (drawable == 0) continue;
    CHECK(seed_replay_sample(&replay, &batch, nullptr) == SEED_OK);
    for (int64_t i = 0; i < kBatch; ++i) {
      CHECK(index[i] >= 0 && index[i] < items_per_lane * replay.num_lanes);
      const int64_t lane = index[i] / items_per_lane;
      const int64_t start = (generation[i] * items_per_lane + index[i] % items_per_lane) * replay.period;
      for (int64_t u = 0; u < observations; ++u) {
        const int64_t at = u * kBatch + i, stop = start - start % 50 + 49;
        const int64_t step = sequences ? start + u : u == 0 ? start : std::min<int64_t>(start + replay.reach, stop);
        check_stack(obs.data() + at * kStack * kFrameBytes, step, lane);
        CHECK(first[at] == is_first(step));
        CHECK(previous_action[at] == (is_first(step) ? 0 : (step - 1) % 1000000));
        if (sequences) CHECK(last[at] == is_last(step));
      }
      if (sequences) {
        for (int64_t s = 0; s < kStateNumbers; ++s)
          CHECK(state[i * kStateNumbers + s] == static_cast<float>((start + s) % 65536));
      } else {
        CHECK(action[i] == start % 1000000);
        CHECK(!is_last(start));
      }
      priority[i] = static_cast<float>(1 + (i + batches.load()) % 9);
    }
    CHECK(seed_replay_update(&replay, kBatch, index.data(), generation.data(), priority.data(), &applied, nullptr) ==
          SEED_OK);
    CHECK(applied <= kBatch);
    ++batches;
  }
}

void run(int32_t kind, int64_t num_steps, int64_t lanes) {
  seed_replay options{};
  options.kind = kind;
  options.stack_num = kStack;
  options.period = kind == SEED_REPLAY_SEQUENCES ? 5 : 1;
  options.reach = kind == SEED_REPLAY_SEQUENCES ? 8 : 3;
  options.num_lanes = lanes;
  options.steps_per_lane = 60;  // overwritten all the time
  options.frame_bytes = kFrameBytes;
  options.state_bytes = kind == SEED_REPLAY_SEQUENCES ? kStateNumbers * static_cast<int64_t>(sizeof(float)) : 0;
  options.discount = 0.99;
  options.priority_exponent = 0.6;
  options.priority_epsilon = 1e-6;
  Memory memory(options);
  std::atomic<bool> done{false};
  std::atomic<int64_t> batches{0};
  std::thread actor([&] {
    act(memory.replay, num_steps, batches);
    done.store(true);
  });
  learn(memory.replay, done, batches);
  actor.join();
  std::printf("kind %d: %lld batches\n", kind, static_cast<long long>(batches.load()));
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t num_steps = argc > 1 ? std::atoll(argv[1]) : 50000, lanes = argc > 2 ? std::atoll(argv[2]) : 3;
  run(SEED_REPLAY_TRANSITIONS, num_steps, lanes);
  run(SEED_REPLAY_SEQUENCES, num_steps, lanes);
  return 0;
}
