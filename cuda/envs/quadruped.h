// SPDX-License-Identifier: Apache-2.0
// `quadruped`: a four-legged robot in a vertical plane walks forward.
//
// A trunk carries four legs of thigh and shank, two at its front and two at its rear. A step is 20 ms: 16 physics steps
// of semi-implicit Euler. Everything is float32 addition, multiplication, division and square root in a fixed order, so
// the same seed and actions give the same bits whatever the batch, the threads or the device.
//
//   action        8 numbers, hip and knee of each leg: target angle about the stance, 1 = 0.6 rad
//   observation   26 numbers, see observe()
//   reward        forward speed in m/s, up to 1.5, less 0.02 times the mean square of the torques over their limit
//   end           the trunk is below 0.2 m or pitched by more than 1 rad
//
// Mechanics. Coordinates: trunk x, z, pitch, and of each leg k the absolute angles p1 (thigh) and p2 (shank) from
// straight down, so that with d(p) = (sin p, -cos p), e(p) = dd/dp = (cos p, sin p) and the hip at a_k (cos,
// sin)(pitch)
//
//   knee = trunk + hip + L d(p1)       foot = knee + L d(p2)
//
// Kinetic energy gives the mass matrix. It has a 3 x 3 block of the trunk, a 2 x 2 block of each leg, and couples legs
// to the trunk only: the legs' accelerations are eliminated (Schur complement) and 3 equations remain. Contacts of feet
// and knees with the ground are springs with dampers, friction is Coulomb's law with a viscous part near rest. Source
// of the method: R. Featherstone, "Rigid Body Dynamics Algorithms" (2008), chapters 6 and 11.
#pragma once

#include "envs/environment.h"

namespace seed {

struct Quadruped {
  using Actions = ContinuousActions<8>;
  using Observation = float;
  static constexpr int32_t kObservationShape[] = {26};
  static constexpr int32_t kMaxEpisodeSteps = 500;
  static constexpr seed_env_option kOptions[] = {
      {"gravity", 9.81f, "m/s^2, downwards"},
      {"friction", 0.8f, "Coulomb coefficient of the ground"},
  };

  static constexpr int kLegs = 4;
  static constexpr int kPhysicsSteps = 16;
  static constexpr float kStepSeconds = 0.00125f;

  // Masses in kg, lengths in m, moments of inertia in kg m^2.
  static constexpr float kTrunkMass = 10.0f, kTrunkInertia = 0.41f, kHipDistance = 0.3f;
  static constexpr float kThighMass = 1.0f, kShankMass = 0.5f, kLength = 0.25f, kCentre = 0.125f;
  static constexpr float kThighInertia = 0.0052f, kShankInertia = 0.0026f;
  static constexpr float kRotorInertia = 0.01f;  // of each motor, seen at its joint
  static constexpr float kLegMass = kThighMass + kShankMass;
  static constexpr float kMass = kTrunkMass + kLegs * kLegMass;
  static constexpr float kMoment1 = kThighMass * kCentre + kShankMass * kLength;  // first moment about the hip
  static constexpr float kMoment2 = kShankMass * kCentre;                         // and about the knee
  static constexpr float kCoupling = kShankMass * kLength * kCentre;
  static constexpr float kThighDiagonal =
      kThighInertia + kThighMass * kCentre * kCentre + kShankMass * kLength * kLength + 2.0f * kRotorInertia;
  static constexpr float kShankDiagonal = kShankInertia + kShankMass * kCentre * kCentre + kRotorInertia;
  static constexpr float kTrunkDiagonal =
      kTrunkInertia + kLegs * (kLegMass * kHipDistance * kHipDistance + kRotorInertia);

  // Motors: proportional-derivative control of the joint angles, Nm, Nm/rad, Nm s/rad.
  static constexpr float kStanceHip = 0.5f, kStanceKnee = -1.0f, kActionRange = 0.6f;
  static constexpr float kStiffness = 60.0f, kDamping = 1.5f, kTorqueLimit = 40.0f;

  // The ground: N/m, N s/m.
  static constexpr float kGroundStiffness = 8000.0f, kGroundDamping = 60.0f, kGroundFriction = 100.0f;

  static constexpr float kLowest = 0.2f, kSteepest = 1.0f, kSpeedLimit = 1.5f, kEffortCost = 0.02f;

  struct Leg {
    float thigh, shank;              // absolute angles, rad
    float thigh_speed, shank_speed;  // rad/s
  };

  float x, z, pitch;                    // of the trunk's centre, m and rad
  float x_speed, z_speed, pitch_speed;  // m/s, rad/s
  Leg legs[kLegs];
  float on_ground[kLegs];  // 1 while the foot touches the ground

  SEED_HD static float hip_place(int leg) { return leg < 2 ? kHipDistance : -kHipDistance; }

  SEED_HD void reset(Context& context) {
    x = 0.0f;
    pitch = context.random.uniform(-0.05f, 0.05f);
    x_speed = z_speed = pitch_speed = 0.0f;
    float lowest = 0.0f;
    const SineCosine trunk = sine_cosine(pitch);
    for (int k = 0; k < kLegs; ++k) {
      Leg& leg = legs[k];
      leg.thigh = pitch + kStanceHip + context.random.uniform(-0.1f, 0.1f);
      leg.shank = leg.thigh + kStanceKnee + context.random.uniform(-0.1f, 0.1f);
      leg.thigh_speed = leg.shank_speed = 0.0f;
      on_ground[k] = 0.0f;
      lowest = minimum(lowest, hip_place(k) * trunk.sine - kLength * (cosine(leg.thigh) + cosine(leg.shank)));
    }
    z = -lowest;  // the lowest foot stands on the ground
  }

  SEED_HD Outcome step(const float* action, Context& context) {
    const float start = x;
    float effort = 0.0f;
    for (int i = 0; i < kPhysicsSteps; ++i) effort += physics_step(action, context.options[0], context.options[1]);
    const bool fallen = !(z > kLowest) || absolute(pitch) > kSteepest;
    const float speed = (x - start) / (kPhysicsSteps * kStepSeconds);
    const float mean_effort = effort / static_cast<float>(kPhysicsSteps * 2 * kLegs);
    return {minimum(speed, kSpeedLimit) - kEffortCost * mean_effort, fallen};
  }

  // What a leg adds to the equations of motion.
  struct LegTerms {
    float c1x, c1z, c1p, c2x, c2z, c2p;  // coupling of thigh and shank to the trunk
    float off_diagonal;                  // of the leg's block
    float f1, f2;                        // generalised forces
  };

  struct TrunkTerms {
    float fx, fz, fp;  // generalised forces
  };

  SEED_HD static float motor(float target, float angle, float speed) {
    return clamp(kStiffness * (target - angle) - kDamping * speed, -kTorqueLimit, kTorqueLimit);
  }

  struct Force {
    float x, z;
  };

  // The ground's force on a point at height `height` that moves with (vx, vz).
  SEED_HD static Force ground_force(float height, float vx, float vz, float friction) {
    if (height >= 0.0f) return {0.0f, 0.0f};
    const float normal = maximum(0.0f, -kGroundStiffness * height - kGroundDamping * vz);
    return {clamp(-kGroundFriction * vx, -friction * normal, friction * normal), normal};
  }

  // Forces on leg k and, through it, on the trunk; returns the sum of squares of its torques over their limit.
  SEED_HD float leg_forces(int k, const float* action, const SineCosine& trunk, float gravity, float friction,
                           LegTerms& terms, TrunkTerms& total) {
    const Leg& leg = legs[k];
    const float a = hip_place(k);
    const SineCosine p1 = sine_cosine(leg.thigh), p2 = sine_cosine(leg.shank);
    const float w1 = leg.thigh_speed, w2 = leg.shank_speed, w = pitch_speed;
    // Sines and cosines of the differences of angles.
    const float sin_1t = p1.sine * trunk.cosine - p1.cosine * trunk.sine;
    const float cos_1t = p1.cosine * trunk.cosine + p1.sine * trunk.sine;
    const float sin_2t = p2.sine * trunk.cosine - p2.cosine * trunk.sine;
    const float cos_2t = p2.cosine * trunk.cosine + p2.sine * trunk.sine;
    const float sin_12 = p1.sine * p2.cosine - p1.cosine * p2.sine;
    const float cos_12 = p1.cosine * p2.cosine + p1.sine * p2.sine;

    terms.c1x = kMoment1 * p1.cosine;
    terms.c1z = kMoment1 * p1.sine;
    terms.c1p = kMoment1 * a * sin_1t - kRotorInertia;
    terms.c2x = kMoment2 * p2.cosine;
    terms.c2z = kMoment2 * p2.sine;
    terms.c2p = kMoment2 * a * sin_2t;
    terms.off_diagonal = kCoupling * cos_12 - kRotorInertia;

    // Centrifugal terms, and gravity (that of the trunk's coordinates is added once, by the caller).
    const float u1 = w1 * w1, u2 = w2 * w2, ut = w * w;
    total.fx += kMoment1 * p1.sine * u1 + kMoment2 * p2.sine * u2;
    total.fz -= kMoment1 * p1.cosine * u1 + kMoment2 * p2.cosine * u2;
    total.fp -= a * (kMoment1 * cos_1t * u1 + kMoment2 * cos_2t * u2);
    terms.f1 = kMoment1 * a * cos_1t * ut - kCoupling * sin_12 * u2 - gravity * kMoment1 * p1.sine;
    terms.f2 = kMoment2 * a * cos_2t * ut + kCoupling * sin_12 * u1 - gravity * kMoment2 * p2.sine;

    const float hip = motor(kStanceHip + kActionRange * action[2 * k], leg.thigh - pitch, w1 - w);
    const float knee = motor(kStanceKnee + kActionRange * action[2 * k + 1], leg.shank - leg.thigh, w2 - w1);
    total.fp -= hip;
    terms.f1 += hip - knee;
    terms.f2 += knee;

    // Knee and foot on the ground.
    const float hip_vx = x_speed - a * trunk.sine * w, hip_vz = z_speed + a * trunk.cosine * w;
    const float knee_height = z + a * trunk.sine - kLength * p1.cosine;
    const float knee_vx = hip_vx + kLength * p1.cosine * w1, knee_vz = hip_vz + kLength * p1.sine * w1;
    const float foot_height = knee_height - kLength * p2.cosine;
    const Force at_foot =
        ground_force(foot_height, knee_vx + kLength * p2.cosine * w2, knee_vz + kLength * p2.sine * w2, friction);
    const Force at_knee = ground_force(knee_height, knee_vx, knee_vz, friction);
    const Force both = {at_foot.x + at_knee.x, at_foot.z + at_knee.z};
    total.fx += both.x;
    total.fz += both.z;
    total.fp += a * (trunk.cosine * both.z - trunk.sine * both.x);
    terms.f1 += kLength * (p1.cosine * both.x + p1.sine * both.z);
    terms.f2 += kLength * (p2.cosine * at_foot.x + p2.sine * at_foot.z);
    on_ground[k] = foot_height < 0.0f ? 1.0f : 0.0f;
    return (hip * hip + knee * knee) / (kTorqueLimit * kTorqueLimit);
  }

  // Returns the sum of squares of all torques over their limit.
  SEED_HD float physics_step(const float* action, float gravity, float friction) {
    const SineCosine trunk = sine_cosine(pitch);
    TrunkTerms f{0.0f, -gravity * kMass, 0.0f};
    LegTerms terms[kLegs];
    float effort = 0.0f;
    for (int k = 0; k < kLegs; ++k) effort += leg_forces(k, action, trunk, gravity, friction, terms[k], f);

    // Schur complement: s = trunk block - sum C D^-1 C^T, and the same for the forces.
    float sxx = kMass, szz = kMass, spp = kTrunkDiagonal, sxz = 0.0f, sxp = 0.0f, szp = 0.0f;
    for (int k = 0; k < kLegs; ++k) {
      LegTerms& leg = terms[k];
      const float scale = 1.0f / (kThighDiagonal * kShankDiagonal - leg.off_diagonal * leg.off_diagonal);
      const float i11 = kShankDiagonal * scale, i22 = kThighDiagonal * scale, i12 = -leg.off_diagonal * scale;
      const float x1 = leg.c1x * i11 + leg.c2x * i12, x2 = leg.c1x * i12 + leg.c2x * i22;
      const float z1 = leg.c1z * i11 + leg.c2z * i12, z2 = leg.c1z * i12 + leg.c2z * i22;
      const float p1 = leg.c1p * i11 + leg.c2p * i12, p2 = leg.c1p * i12 + leg.c2p * i22;
      sxx -= x1 * leg.c1x + x2 * leg.c2x;
      sxz -= x1 * leg.c1z + x2 * leg.c2z;
      sxp -= x1 * leg.c1p + x2 * leg.c2p;
      szz -= z1 * leg.c1z + z2 * leg.c2z;
      szp -= z1 * leg.c1p + z2 * leg.c2p;
      spp -= p1 * leg.c1p + p2 * leg.c2p;
      f.fx -= x1 * leg.f1 + x2 * leg.f2;
      f.fz -= z1 * leg.f1 + z2 * leg.f2;
      f.fp -= p1 * leg.f1 + p2 * leg.f2;
    }
    // Cholesky-like elimination of the symmetric 3 x 3 system.
    const float lz = sxz / sxx, lp = sxp / sxx;
    const float dzz = szz - lz * sxz, dzp = szp - lz * sxp;
    const float gz = f.fz - lz * f.fx;
    const float m = dzp / dzz;
    const float pitch_acceleration = (f.fp - lp * f.fx - m * gz) / (spp - lp * sxp - m * dzp);
    const float z_acceleration = (gz - dzp * pitch_acceleration) / dzz;
    const float x_acceleration = (f.fx - sxz * z_acceleration - sxp * pitch_acceleration) / sxx;

    x_speed += kStepSeconds * x_acceleration;
    z_speed += kStepSeconds * z_acceleration;
    pitch_speed += kStepSeconds * pitch_acceleration;
    x += kStepSeconds * x_speed;
    z += kStepSeconds * z_speed;
    pitch += kStepSeconds * pitch_speed;
    for (int k = 0; k < kLegs; ++k) {
      const LegTerms& leg = terms[k];
      const float r1 = leg.f1 - leg.c1x * x_acceleration - leg.c1z * z_acceleration - leg.c1p * pitch_acceleration;
      const float r2 = leg.f2 - leg.c2x * x_acceleration - leg.c2z * z_acceleration - leg.c2p * pitch_acceleration;
      const float scale = 1.0f / (kThighDiagonal * kShankDiagonal - leg.off_diagonal * leg.off_diagonal);
      legs[k].thigh_speed += kStepSeconds * scale * (kShankDiagonal * r1 - leg.off_diagonal * r2);
      legs[k].shank_speed += kStepSeconds * scale * (kThighDiagonal * r2 - leg.off_diagonal * r1);
      legs[k].thigh += kStepSeconds * legs[k].thigh_speed;
      legs[k].shank += kStepSeconds * legs[k].shank_speed;
    }
    return effort;
  }

  SEED_HD void observe(float* observation, const Context&) const {
    float* next = observation;
    *next++ = z;
    const SineCosine trunk = sine_cosine(pitch);
    *next++ = trunk.sine;
    *next++ = trunk.cosine;
    *next++ = x_speed;
    *next++ = z_speed;
    *next++ = 0.25f * pitch_speed;
    for (int k = 0; k < kLegs; ++k) {  // joint angles from the stance, rad, and their speeds over 10 rad/s
      *next++ = legs[k].thigh - pitch - kStanceHip;
      *next++ = legs[k].shank - legs[k].thigh - kStanceKnee;
      *next++ = 0.1f * (legs[k].thigh_speed - pitch_speed);
      *next++ = 0.1f * (legs[k].shank_speed - legs[k].thigh_speed);
      *next++ = on_ground[k];
    }
  }
};

SEED_REGISTER_ENVIRONMENT(Quadruped, "quadruped")

}  // namespace seed
