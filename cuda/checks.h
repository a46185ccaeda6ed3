// SPDX-License-Identifier: Apache-2.0
// The checks of arguments that the functions behind the C ABI begin with.
#pragma once

#include <cstdint>

#include "error.h"

// Returns from the function what `call` returns, unless that is SEED_OK.
#define SEED_CHECK(call)                              \
  do {                                                \
    const seed_status check_status = (call);          \
    if (check_status != SEED_OK) return check_status; \
  } while (false)

namespace seed {

inline seed_status check_range(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return SEED_OK;
  return fail(SEED_INVALID_ARGUMENT, "%s is %lld, it must be %lld to %lld", name, static_cast<long long>(value),
              static_cast<long long>(least), static_cast<long long>(most));
}

inline seed_status check_pointer(const void* pointer, const char* name) {
  return pointer != nullptr ? SEED_OK : fail(SEED_INVALID_ARGUMENT, "%s must not be NULL", name);
}

}  // namespace seed
