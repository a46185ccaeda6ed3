// SPDX-License-Identifier: Apache-2.0
// The thread's last error message, for the functions behind the C ABI.
#pragma once

#include "seed/status.h"

namespace seed {

// Stores a printf-style message for seed_last_error() and returns `status`, so that a check is one line.
seed_status fail(seed_status status, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace seed
