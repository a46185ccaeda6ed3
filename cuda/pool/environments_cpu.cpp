// SPDX-License-Identifier: Apache-2.0
// The list of the library's own environments behind seed/environment.h.
#include <cstring>

#include "checks.h"
#include "envs/registry.h"

using namespace seed;

extern "C" {

seed_status seed_environment_count(int32_t* count) {
  SEED_CHECK(check_pointer(count, "count"));
  *count = int32_t(registered_environments().size());
  return SEED_OK;
}

seed_status seed_environment_at(int32_t index, const seed_environment** environment) {
  SEED_CHECK(check_pointer(environment, "environment"));
  SEED_CHECK(check_range("index", index, 0, int64_t(registered_environments().size()) - 1));
  *environment = registered_environments()[size_t(index)];
  return SEED_OK;
}

seed_status seed_environment_find(const char* name, const seed_environment** environment) {
  SEED_CHECK(check_pointer(name, "name"));
  SEED_CHECK(check_pointer(environment, "environment"));
  for (const seed_environment* known : registered_environments()) {
    if (std::strcmp(known->description.name, name) != 0) continue;
    *environment = known;
    return SEED_OK;
  }
  return fail(SEED_NOT_FOUND, "there is no environment '%s'", name);
}
}
