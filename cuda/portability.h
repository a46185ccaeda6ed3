// SPDX-License-Identifier: Apache-2.0
// The one macro that lets the same functions compile for host and device.
#pragma once

#if defined(__CUDACC__)
#define SEED_HD __host__ __device__
#else
#define SEED_HD
#endif

// Functions of the step path that must not become calls.
#if defined(__CUDACC__)
#define SEED_FORCE_INLINE __forceinline__
#else
#define SEED_FORCE_INLINE inline __attribute__((always_inline))
#endif
