// SPDX-License-Identifier: Apache-2.0
// The environments that the library itself brings, one line each.
#pragma once

#include <array>

#include "envs/ball.h"
#include "envs/order_book.h"
#include "envs/quadruped.h"

namespace seed {

inline const std::array<const seed_environment*, 3>& registered_environments() {
  static const std::array<const seed_environment*, 3> all{{
      Ball_environment(),
      OrderBook_environment(),
      Quadruped_environment(),
  }};
  return all;
}

}  // namespace seed
