// SPDX-License-Identifier: Apache-2.0
// The environments that the library itself brings, one line each.
#pragma once

#include <array>

#include "envs/ball.h"
#include "envs/quadruped.h"

namespace seed {

inline const std::array<const seed_environment*, 2>& registered_environments() {
  static const std::array<const seed_environment*, 2> all{{
      Ball_environment(),
      Quadruped_environment(),
  }};
  return all;
}

}  // namespace seed
