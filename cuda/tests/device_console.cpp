// SPDX-License-Identifier: Apache-2.0
// The console with the code that a device runs (cpu_lockstep.h, plain drawing), on the host and beside the other one.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#define SEED_HOST_LAUNCHER
#define seed seed_device
#include "machine/console.h"

// console_run_frame(); the structs are those of namespace seed, which have the same layout.
void run_device_frame(void* console, const void* rom, const void* display, const void* inputs, uint8_t* first,
                      uint8_t* second) {
  using namespace seed_device;
  console_run_frame(*static_cast<Console*>(console), *static_cast<const Rom*>(rom),
                    *static_cast<const Display*>(display), *static_cast<const Inputs*>(inputs),
                    Screen{{first, second}});
}
