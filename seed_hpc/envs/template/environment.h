// `my_env`: push a cart left or right until it rests at a target.
//
// Change what you like and keep the rules: plain members only, the functions SEED_HD, no heap and no globals. What an
// environment may have is described at the top of cuda/envs/environment.h and in docs/own_environment.md.
#pragma once

#include "envs/environment.h"

struct MyEnv {
  using Actions = seed::DiscreteActions<3>;  // push left, do nothing, push right
  using Observation = float;
  static constexpr int32_t kObservationShape[] = {2};
  static constexpr int32_t kMaxEpisodeSteps = 100;
  static constexpr seed_env_option kOptions[] = {
      {"force", 1.0f, "acceleration of a push, m/s^2"},
  };

  static constexpr float kStepSeconds = 0.1f;
  static constexpr float kOutside = 3.0f;  // a cart beyond is lost, m

  // The state.
  float distance;  // to the target, m
  float velocity;  // m/s

  // Starts an episode. Random numbers come from context.random: uniform(), uniform(low, high), integer(n), normal().
  SEED_HD void reset(seed::Context& context) {
    distance = context.random.uniform(-2.0f, 2.0f);
    velocity = 0.0f;
  }

  // One step; returns the reward and whether the episode has ended by the rules.
  SEED_HD seed::Outcome step(int32_t action, seed::Context& context) {
    const float force = context.options[0];
    velocity += static_cast<float>(action - 1) * force * kStepSeconds;
    distance += velocity * kStepSeconds;
    const bool lost = seed::absolute(distance) > kOutside;
    const float reward = lost ? -10.0f : 0.1f - 0.1f * seed::absolute(distance);
    return {reward, lost};
  }

  SEED_HD void observe(float* observation, const seed::Context&) const {
    observation[0] = distance;
    observation[1] = velocity;
  }
};

SEED_REGISTER_ENVIRONMENT(MyEnv, "my_env")
