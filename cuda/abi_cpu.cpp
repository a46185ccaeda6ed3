// SPDX-License-Identifier: Apache-2.0
// The parts of the C ABI that belong to no object: version, backend, last error.
#include <cstdarg>
#include <cstdio>

#include "error.h"

#ifndef SEED_BACKEND_NAME
#define SEED_BACKEND_NAME "cpu"
#endif

namespace seed {
namespace {
thread_local char last_error[512] = "";
}  // namespace

seed_status fail(seed_status status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(last_error, sizeof last_error, format, arguments);
  va_end(arguments);
  return status;
}

}  // namespace seed

extern "C" {

int32_t seed_abi_version(void) { return SEED_ABI_VERSION; }

const char* seed_last_error(void) { return seed::last_error; }

const char* seed_backend_name(void) { return SEED_BACKEND_NAME; }
}
