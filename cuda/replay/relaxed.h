// SPDX-License-Identifier: Apache-2.0
// Relaxed loads and stores: memory that an actor may overwrite while a learner reads it.
//
// A reader checks afterwards whether what it read was overwritten and throws it away if so (docs/replay.md). Ordinary
// loads would make the race undefined; these compile to the same instructions.
#pragma once

#include "portability.h"

namespace seed {

template <class T>
SEED_HD inline T relaxed_load(const T* address) {
#if defined(__CUDA_ARCH__)
  return *static_cast<const volatile T*>(address);
#else
  T value;
  __atomic_load(address, &value, __ATOMIC_RELAXED);
  return value;
#endif
}

template <class T>
SEED_HD inline void relaxed_store(T* address, T value) {
#if defined(__CUDA_ARCH__)
  *static_cast<volatile T*>(address) = value;
#else
  __atomic_store(address, &value, __ATOMIC_RELAXED);
#endif
}

}  // namespace seed
