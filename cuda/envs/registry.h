// SPDX-License-Identifier: Apache-2.0
// The environments that the library itself brings, one line each.
#pragma once

#include <array>

#include "envs/ball.h"

namespace seed {

inline const std::array<const seed_environment*, 1>& registered_environments() {
  static const std::array<const seed_environment*, 1> all{{
      Ball_environment(),
  }};
  return all;
}

}  // namespace seed
