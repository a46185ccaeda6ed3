// SPDX-License-Identifier: Apache-2.0
// The environment concept: a plain struct with state, reset, step and observe runs by the thousand, on CPUs and GPUs.
//
//   struct Corridor {
//     using Actions = seed::DiscreteActions<2>;             // or seed::ContinuousActions<n>: n numbers in [-1, 1]
//     using Observation = float;                            // or uint8_t
//     static constexpr int32_t kObservationShape[] = {1};
//     static constexpr int32_t kMaxEpisodeSteps = 100;      // then an episode is truncated; 0: never
//
//     float position;                                       // the state: plain members, no pointers
//
//     SEED_HD void reset(seed::Context& context) { position = context.random.uniform(-1.0f, 1.0f); }
//     SEED_HD seed::Outcome step(int32_t action, seed::Context&) {
//       position += action == 1 ? 0.1f : -0.1f;
//       return {-position * position, position > 2.0f || position < -2.0f};   // reward, terminated
//     }
//     SEED_HD void observe(float* observation, const seed::Context&) const { observation[0] = position; }
//   };
//   SEED_REGISTER_ENVIRONMENT(Corridor, "corridor")
//
// Optional members: kObservationLow, kObservationHigh; kOptions, an array of seed_env_option that the user may set and
// `context.options` holds; `act`, a reference policy to compare agents with, SEED_HD, with the result in its argument:
// void act(int32_t& action, const Context&) const, or act(float* action, const Context&) const.
//
// Rules. The functions are SEED_HD: no heap, globals, exceptions or I/O. What cannot go on sets `context.error` to a
// number above 0; the user is told it with the lane. The elementary functions of envs/arithmetic.h give the same bits
// on every device, those of <cmath> do not (but for the square root). A lane's random numbers depend on its seed, its
// number and its episode alone, never on other lanes or threads.
#pragma once

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "envs/arithmetic.h"
#include "portability.h"
#include "random.h"
#include "seed/environment.h"

#if defined(__CUDACC__) || defined(SEED_HOST_LAUNCHER)  // the latter: tests/test_environment_kernels.cpp
#include "pool/cuda_launch.h"
#endif

namespace seed {

// ---- What an environment sees ------------------------------------------------------------------------------------

// Random numbers of one lane and episode.
class Random {
 public:
  SEED_HD Random(uint32_t seed, uint32_t env_id, uint32_t episode, uint32_t num_draws)
      : key_{seed, env_id, episode, kPurpose}, num_draws_(num_draws) {
    if ((num_draws & 3) != 0) fill();
  }

  // Uniform in 0 .. 2^32 - 1.
  SEED_HD uint32_t bits() {
    if ((num_draws_ & 3) == 0) fill();
    return block_.words[num_draws_++ & 3];
  }

  // Uniform in [0, 1), a multiple of 2^-24.
  SEED_HD float uniform() { return static_cast<float>(bits() >> 8) * 5.9604644775390625e-8f; }
  SEED_HD float uniform(float low, float high) { return low + (high - low) * uniform(); }

  // Uniform in 0 .. count - 1, by multiplication: the bias is below count / 2^32.
  SEED_HD int32_t integer(int32_t count) {
    return static_cast<int32_t>((static_cast<uint64_t>(bits()) * static_cast<uint32_t>(count)) >> 32);
  }

  // Exponentially distributed with mean 1.
  SEED_HD float exponential() { return -natural_logarithm(1.0f - uniform()); }

  // Standard normal. Source: G. Box, M. Muller, "A note on the generation of random normal deviates" (1958).
  SEED_HD float normal() {
    const float radius = square_root(2.0f * exponential());
    return radius * cosine(2.0f * kPi * uniform());
  }

  SEED_HD uint32_t num_draws() const { return num_draws_; }

 private:
  static constexpr uint32_t kPurpose = 0x656E7600;

  SEED_HD void fill() {
    block_ = philox4x32(PhiloxBlock{{num_draws_ >> 2, key_.episode, key_.purpose, 0}}, key_.seed, key_.env_id);
  }

  RandomKey key_;
  uint32_t num_draws_;
  PhiloxBlock block_{};
};

struct Context {
  Random random;
  const float* options;  // in the order of kOptions
  const uint8_t* data;   // what the user passed as `data`, the same for all lanes
  int64_t data_bytes;
  int32_t error;
};

struct Outcome {
  float reward;
  bool terminated;  // by the rules; the limit of steps is the pool's business
};

template <int kCount>
struct DiscreteActions {
  static_assert(kCount >= 1, "an environment needs at least one action");
  static constexpr int32_t kNumActions = kCount;
  static constexpr int32_t kActionSize = 0;
};

template <int kSize>
struct ContinuousActions {
  static_assert(kSize >= 1, "a continuous action needs at least one number");
  static constexpr int32_t kNumActions = 0;
  static constexpr int32_t kActionSize = kSize;
};

// ---- What the concept demands, and its optional members ------------------------------------------------------------

namespace detail {

template <class, class = void>
struct HasOptions : std::false_type {};
template <class Env>
struct HasOptions<Env, std::void_t<decltype(Env::kOptions)>> : std::true_type {};

template <class, class = void>
struct HasRange : std::false_type {};
template <class Env>
struct HasRange<Env, std::void_t<decltype(Env::kObservationLow), decltype(Env::kObservationHigh)>> : std::true_type {};

template <class, class = void>
struct HasReferencePolicy : std::false_type {};
template <class Env>
struct HasReferencePolicy<Env, std::void_t<decltype(&Env::act)>> : std::true_type {};

template <class Env>
SEED_HD constexpr int32_t observation_size() {
  int32_t size = 1;
  for (size_t i = 0; i < sizeof(Env::kObservationShape) / sizeof(int32_t); ++i) size *= Env::kObservationShape[i];
  return size;
}

template <class Env>
constexpr void check_concept() {
  static_assert(std::is_trivially_copyable_v<Env>,
                "the state must be plain members that can be copied as bytes: no std::vector, std::string or virtual");
  static_assert(std::is_same_v<typename Env::Observation, float> || std::is_same_v<typename Env::Observation, uint8_t>,
                "Observation must be float or uint8_t");
  static_assert(sizeof(Env::kObservationShape) / sizeof(int32_t) <= SEED_MAX_OBSERVATION_RANK,
                "kObservationShape must have at most 4 dimensions");
  static_assert(observation_size<Env>() >= 1, "kObservationShape must hold numbers of at least 1");
  static_assert(Env::kMaxEpisodeSteps >= 0, "kMaxEpisodeSteps must be at least 0 (never)");
  static_assert(alignof(Env) <= 8, "the state must not need an alignment above 8 bytes");
}

}  // namespace detail

// ---- One lane ------------------------------------------------------------------------------------------------------

template <class Env>
struct alignas(8) EnvironmentLane {
  seed_env_lane header;
  Env env;
};

template <class Env>
SEED_HD inline Context lane_context(const seed_env_lane& header, const seed_env_batch& batch) {
  return Context{Random(header.seed, header.env_id, header.episode, header.num_draws), batch.options, batch.data,
                 batch.data_bytes, 0};
}

// Keeps what the environment's function changed outside of its state.
SEED_HD inline void lane_keep(seed_env_lane& header, const Context& context) {
  header.num_draws = context.random.num_draws();
  if (context.error != 0 && header.error == 0) header.error = context.error;
}

template <class Env>
SEED_HD inline void lane_start_episode(EnvironmentLane<Env>& lane, const seed_env_batch& batch) {
  lane.header.num_draws = 0;
  lane.header.episode_steps = 0;
  lane.header.ended = 0;
  lane.header.error = 0;
  Context context = lane_context<Env>(lane.header, batch);
  lane.env.reset(context);
  lane_keep(lane.header, context);
}

template <class Env>
SEED_HD inline void lane_observe(const EnvironmentLane<Env>& lane, const seed_env_batch& batch, void* observations,
                                 int32_t index) {
  if (observations == nullptr) return;
  const Context context = lane_context<Env>(lane.header, batch);
  using Observation = typename Env::Observation;
  Observation* const rows = static_cast<Observation*>(observations);
  lane.env.observe(rows + static_cast<size_t>(index) * detail::observation_size<Env>(), context);
}

template <class Env>
SEED_HD inline void lane_report(const EnvironmentLane<Env>& lane, const seed_env_batch& batch, int32_t index,
                                Outcome outcome, bool truncated) {
  lane_observe(lane, batch, batch.observations, index);
  if (batch.rewards != nullptr) batch.rewards[index] = outcome.reward;
  if (batch.terminations != nullptr) batch.terminations[index] = outcome.terminated;
  if (batch.truncations != nullptr) batch.truncations[index] = truncated;
  if (batch.episode_steps != nullptr) batch.episode_steps[index] = lane.header.episode_steps;
}

template <class Env>
SEED_HD inline void lane_reset(EnvironmentLane<Env>& lane, const seed_env_batch& batch, int32_t index) {
  if (batch.mask == nullptr || batch.mask[index] != 0) {
    if (batch.seeds != nullptr && batch.seeds[index] != SEED_NO_SEED) {
      lane.header.seed = static_cast<uint32_t>(batch.seeds[index]);
      lane.header.env_id = batch.env_ids != nullptr ? static_cast<uint32_t>(batch.env_ids[index]) : 0;
      lane.header.episode = 0;
    } else {
      lane.header.episode += 1;
    }
    lane_start_episode(lane, batch);
  }
  lane_report(lane, batch, index, Outcome{0.0f, false}, false);
}

template <class Env>
SEED_HD inline Outcome lane_apply(EnvironmentLane<Env>& lane, const seed_env_batch& batch, int32_t index) {
  Context context = lane_context<Env>(lane.header, batch);
  Outcome outcome;
  constexpr int32_t kActionSize = Env::Actions::kActionSize;
  if constexpr (kActionSize == 0) {
    outcome = lane.env.step(static_cast<int32_t>(batch.discrete_actions[index]), context);
  } else {
    float action[kActionSize];
    const float* const given = batch.continuous_actions + static_cast<size_t>(index) * kActionSize;
    for (int32_t i = 0; i < kActionSize; ++i) action[i] = clamp(given[i], -1.0f, 1.0f);
    outcome = lane.env.step(static_cast<const float*>(action), context);
  }
  lane_keep(lane.header, context);
  return outcome;
}

template <class Env>
SEED_HD inline void lane_step(EnvironmentLane<Env>& lane, const seed_env_batch& batch, int32_t index) {
  if (lane.header.ended != 0) {  // NEXT_STEP; DISABLED never comes here on a CPU
    lane.header.episode += 1;
    lane_start_episode(lane, batch);
    lane_report(lane, batch, index, Outcome{0.0f, false}, false);
    return;
  }
  const Outcome outcome = lane_apply(lane, batch, index);
  lane.header.episode_steps += 1;
  const bool truncated =
      !outcome.terminated && batch.max_episode_steps > 0 && lane.header.episode_steps >= batch.max_episode_steps;
  lane.header.ended = outcome.terminated || truncated;
  if (lane.header.ended != 0 && batch.autoreset == SEED_AUTORESET_SAME_STEP) {
    lane_observe(lane, batch, batch.final_observations, index);
    const int32_t error = lane.header.error;
    lane.header.episode += 1;
    lane_start_episode(lane, batch);
    if (error != 0) lane.header.error = error;
  }
  lane_report(lane, batch, index, outcome, truncated);
}

template <class Env>
SEED_HD inline void lane_act(const EnvironmentLane<Env>& lane, const seed_env_batch& batch, int32_t index) {
  if constexpr (detail::HasReferencePolicy<Env>::value) {
    const Context context = lane_context<Env>(lane.header, batch);
    if constexpr (Env::Actions::kActionSize == 0) {
      int32_t action = 0;
      lane.env.act(action, context);
      static_cast<int64_t*>(batch.reference_actions)[index] = action;
    } else {
      float* const actions = static_cast<float*>(batch.reference_actions);
      lane.env.act(actions + static_cast<size_t>(index) * Env::Actions::kActionSize, context);
    }
  }
}

enum class LaneCall { kReset, kStep, kObserve, kAct };

template <class Env, LaneCall kCall>
SEED_HD inline void lane_call(EnvironmentLane<Env>& lane, const seed_env_batch& batch, int32_t index) {
  if constexpr (kCall == LaneCall::kReset) lane_reset(lane, batch, index);
  if constexpr (kCall == LaneCall::kStep) lane_step(lane, batch, index);
  if constexpr (kCall == LaneCall::kObserve) lane_report(lane, batch, index, Outcome{0.0f, false}, false);
  if constexpr (kCall == LaneCall::kAct) lane_act(lane, batch, index);
}

// ---- Many lanes: the CPU's loop, and CUDA's kernel ---------------------------------------------------------------

#if defined(__CUDACC__) || defined(SEED_HOST_LAUNCHER)

inline namespace cuda_table {  // so that a program may hold both

// Few environments fill a GPU: 16,384 lanes are one block on each multiprocessor of a large one. So the assembler gets
// 128 registers a thread rather than room for more blocks.
constexpr int kThreadsPerBlock = 128, kMinBlocks = 4;

// One thread a lane. Lanes lie word by word, so that neighbouring threads read neighbouring words; a thread works on a
// copy of its own and writes it back. No synchronisation.
template <class Env, LaneCall kCall>
__global__ void __launch_bounds__(kThreadsPerBlock, kMinBlocks)
    lanes_kernel(seed_env_batch batch, int32_t first, int32_t count) {
  const int32_t offset = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (offset >= count) return;
  const int32_t index = first + offset;
  constexpr int kWords = static_cast<int>(sizeof(EnvironmentLane<Env>) / sizeof(uint32_t));
  alignas(8) unsigned char bytes[sizeof(EnvironmentLane<Env>)];
  EnvironmentLane<Env>& lane = *reinterpret_cast<EnvironmentLane<Env>*>(bytes);
  uint32_t* const all = reinterpret_cast<uint32_t*>(batch.lanes) + index;
  for (int w = 0; w < kWords; ++w)
    memcpy(bytes + 4 * w, all + static_cast<size_t>(w) * batch.num_lanes, sizeof(uint32_t));
  lane_call<Env, kCall>(lane, batch, index);
  if (kCall == LaneCall::kReset || kCall == LaneCall::kStep)
    for (int w = 0; w < kWords; ++w)
      memcpy(all + static_cast<size_t>(w) * batch.num_lanes, bytes + 4 * w, sizeof(uint32_t));
}

template <class Env, LaneCall kCall>
inline seed_status run_lanes(const seed_env_batch* batch, int32_t first, int32_t count, void* stream) {
  if (count <= 0) return SEED_OK;
  const int blocks = (count + kThreadsPerBlock - 1) / kThreadsPerBlock;
  const auto kernel = lanes_kernel<Env, kCall>;
  SEED_LAUNCH(kernel, blocks, kThreadsPerBlock, static_cast<cudaStream_t>(stream), *batch, first, count);
  return cudaGetLastError() == cudaSuccess ? SEED_OK : SEED_DEVICE_ERROR;
}

constexpr const char* kEnvironmentBackend = "cuda";

#else

inline namespace cpu_table {

template <class Env, LaneCall kCall>
inline seed_status run_lanes(const seed_env_batch* batch, int32_t first, int32_t count, void*) {
  EnvironmentLane<Env>* const lanes = reinterpret_cast<EnvironmentLane<Env>*>(batch->lanes);
  for (int32_t i = first; i < first + count; ++i) lane_call<Env, kCall>(lanes[i], *batch, i);
  return SEED_OK;
}

constexpr const char* kEnvironmentBackend = "cpu";

#endif

// ---- The table that is exported ------------------------------------------------------------------------------------

template <class Env>
inline seed_environment make_environment_table(const char* name) {
  detail::check_concept<Env>();
  seed_environment table{};
  seed_env_description& description = table.description;
  description.version = SEED_ENVIRONMENT_VERSION;
  description.layout_bytes = static_cast<int32_t>(sizeof(seed_env_batch));
  description.name = name;
  description.backend = kEnvironmentBackend;
  description.lane_bytes = static_cast<int32_t>(sizeof(EnvironmentLane<Env>));
  description.observation_is_byte = std::is_same_v<typename Env::Observation, uint8_t>;
  for (const int32_t size : Env::kObservationShape)
    description.observation_shape[description.observation_rank++] = size;
  description.observation_low = description.observation_is_byte ? 0.0f : -INFINITY;
  description.observation_high = description.observation_is_byte ? 255.0f : INFINITY;
  if constexpr (detail::HasRange<Env>::value) {
    description.observation_low = static_cast<float>(Env::kObservationLow);
    description.observation_high = static_cast<float>(Env::kObservationHigh);
  }
  description.num_actions = Env::Actions::kNumActions;
  description.action_size = Env::Actions::kActionSize;
  description.max_episode_steps = Env::kMaxEpisodeSteps;
  if constexpr (detail::HasOptions<Env>::value) {
    description.num_options = static_cast<int32_t>(sizeof(Env::kOptions) / sizeof(seed_env_option));
    description.options = Env::kOptions;
  }
  table.reset = run_lanes<Env, LaneCall::kReset>;
  table.step = run_lanes<Env, LaneCall::kStep>;
  table.observe = run_lanes<Env, LaneCall::kObserve>;
  if constexpr (detail::HasReferencePolicy<Env>::value) {
    description.has_reference_policy = 1;
    table.act = run_lanes<Env, LaneCall::kAct>;
  }
  return table;
}

template <class Env>
inline const seed_environment* environment_table(const char* name) {
  static const seed_environment table = make_environment_table<Env>(name);
  return &table;
}

}  // namespace cuda_table or cpu_table
}  // namespace seed

// Registers `Type` under `name`: in a shared library of its own (SEED_ENVIRONMENT_LIBRARY, which
// `seed-hpc kernels build --env` defines) by exporting the table, else as a function for a list of environments.
#if defined(SEED_ENVIRONMENT_LIBRARY)
#define SEED_REGISTER_ENVIRONMENT(Type, name)                             \
  extern "C" SEED_API const seed_environment* seed_environment_get(void); \
  extern "C" const seed_environment* seed_environment_get(void) { return ::seed::environment_table<Type>(name); }
#else
#define SEED_REGISTER_ENVIRONMENT(Type, name) \
  inline const seed_environment* Type##_environment() { return ::seed::environment_table<Type>(name); }
#endif
