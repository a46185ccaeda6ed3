// SPDX-License-Identifier: Apache-2.0
// `ball`: keep a ball on a plate by tilting the plate about two axes, the 3D Ball task of Unity's ML-Agents toolkit.
//
// World axes: x and z level, y up, the plate's centre at the origin. A step is five physics steps of 20 ms. The ball
// falls freely until it touches the plate; there it rolls without slipping, so that of the gravity along the plate 5/7
// accelerate a solid sphere and 2/7 spin it up. Source of task and sizes: A. Juliani et al., "Unity: a general platform
// for intelligent agents" (2018), arXiv:1809.02627; the physics is written anew, in float32.
//
//   action        2 numbers: change of the tilt about z and about x, 1 = 2 degrees a physics step
//   observation   tilt about z and x over its limit, ball position over 2.5 m, ball velocity over 5 m/s
//   reward        0.1 for each step that the ball is on the plate, -1 when it falls, which ends the episode
//   solved        a mean return of at least 95 over 100 episodes; 100 is the most that 1000 steps allow
#pragma once

#include "envs/environment.h"

namespace seed {

struct Ball {
  using Actions = ContinuousActions<2>;
  using Observation = float;
  static constexpr int32_t kObservationShape[] = {8};
  static constexpr int32_t kMaxEpisodeSteps = 1000;
  static constexpr seed_env_option kOptions[] = {
      {"gravity", 9.81f, "m/s^2, downwards"},
      {"tilt_rate", 2.0f, "largest change of a tilt in one physics step of 20 ms, degrees"},
  };

  static constexpr int kPhysicsSteps = 5;
  static constexpr float kStepSeconds = 0.02f;
  static constexpr float kRadius = 0.5f;        // of the ball, m
  static constexpr float kHalfSize = 2.5f;      // of the plate, m
  static constexpr float kOutside = 3.0f;       // a ball beyond is lost, m
  static constexpr float kBelow = -2.0f;        // and one lower than this
  static constexpr float kTiltLimit = 0.5054f;  // rad; twice the angle whose sine is 0.25
  static constexpr float kDegree = kPi / 180.0f;

  struct Vector {
    float x, y, z;
  };

  float tilt_z, tilt_x;  // rad
  Vector position, velocity;

  SEED_HD static float dot(const Vector& a, const Vector& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

  // Adds `scale` times b to a.
  SEED_HD static void add(Vector& a, float scale, const Vector& b) {
    a.x += scale * b.x;
    a.y += scale * b.y;
    a.z += scale * b.z;
  }

  // The plate's axes after turning about x, then about z: two along it and its normal.
  struct Plate {
    Vector along_x, along_z, normal;
  };

  SEED_HD Plate plate() const {
    const SineCosine z = sine_cosine(tilt_z), x = sine_cosine(tilt_x);
    return {{z.cosine, z.sine, 0.0f},
            {x.sine * z.sine, -x.sine * z.cosine, x.cosine},
            {-z.sine * x.cosine, z.cosine * x.cosine, x.sine}};
  }

  SEED_HD void reset(Context& context) {
    tilt_z = context.random.uniform(-10.0f, 10.0f) * kDegree;
    tilt_x = context.random.uniform(-10.0f, 10.0f) * kDegree;
    position.x = context.random.uniform(-1.5f, 1.5f);
    position.y = 4.0f;
    position.z = context.random.uniform(-1.5f, 1.5f);
    velocity = {0.0f, 0.0f, 0.0f};
  }

  SEED_HD Outcome step(const float* action, Context& context) {
    for (int i = 0; i < kPhysicsSteps; ++i) physics_step(action, context.options[0], context.options[1] * kDegree);
    const bool lost = position.y < kBelow || absolute(position.x) > kOutside || absolute(position.z) > kOutside;
    return {lost ? -1.0f : 0.1f, lost};
  }

  SEED_HD void physics_step(const float* action, float gravity, float tilt_rate) {
    const Vector normal_before = plate().normal;
    tilt_z = clamp(tilt_z + tilt_rate * action[0], -kTiltLimit, kTiltLimit);
    tilt_x = clamp(tilt_x + tilt_rate * action[1], -kTiltLimit, kTiltLimit);
    velocity.y -= gravity * kStepSeconds;
    add(position, kStepSeconds, velocity);

    const Plate now = plate();
    const float distance = dot(position, now.normal);
    const bool above =
        absolute(dot(position, now.along_x)) <= kHalfSize && absolute(dot(position, now.along_z)) <= kHalfSize;
    if (!above || distance >= kRadius || distance <= 0.0f) return;
    // The distance may not shrink any further; the plate's own turning changes it too.
    const Vector turned = {now.normal.x - normal_before.x, now.normal.y - normal_before.y,
                           now.normal.z - normal_before.z};
    const float approach = dot(velocity, now.normal) + dot(position, turned) / kStepSeconds;
    if (approach < 0.0f) add(velocity, -approach, now.normal);
    add(position, kRadius - distance, now.normal);
    // Gravity along the plate is (0, -g, 0) + g n_y n.
    const float spun_up = 2.0f / 7.0f * kStepSeconds * gravity;
    add(velocity, -spun_up * now.normal.y, now.normal);
    velocity.y += spun_up;
  }

  SEED_HD void observe(float* observation, const Context&) const {
    observation[0] = tilt_z / kTiltLimit;
    observation[1] = tilt_x / kTiltLimit;
    observation[2] = position.x / kHalfSize;
    observation[3] = position.y / kHalfSize;
    observation[4] = position.z / kHalfSize;
    observation[5] = velocity.x / 5.0f;
    observation[6] = velocity.y / 5.0f;
    observation[7] = velocity.z / 5.0f;
  }
};

SEED_REGISTER_ENVIRONMENT(Ball, "ball")

}  // namespace seed
