// SPDX-License-Identifier: Apache-2.0
// The macros and primitives that let the same functions compile for host and device.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define SEED_HD __host__ __device__
#else
#define SEED_HD
#endif

// Functions of the step path that must not become calls, and rare ones that must stay calls.
#if defined(__CUDACC__)
#define SEED_FORCE_INLINE __forceinline__
#define SEED_NO_INLINE __noinline__ inline
#else
#define SEED_FORCE_INLINE inline __attribute__((always_inline))
#define SEED_NO_INLINE inline __attribute__((noinline))
#endif

// Functions of the step path that stay calls on a device, where inlining them everywhere would fill the instruction
// cache (and keep the assembler busy for many minutes).
#if defined(__CUDACC__)
#define SEED_CALL __noinline__
#define SEED_NO_UNROLL _Pragma("unroll 1")  // before a loop
#else
#define SEED_CALL
#define SEED_NO_UNROLL
#endif

// What runs a frame: a call on a device, where many places run frames, but for the kernel that steps environments. It
// has one such place, and no call means no register to save.
#if defined(SEED_STEP_KERNEL)
#define SEED_FRAME_CALL
#else
#define SEED_FRAME_CALL SEED_CALL
#endif

// Code as a device runs it: also where tests launch kernels on the host (tests/host_cuda.h).
#if defined(__CUDA_ARCH__) || defined(SEED_HOST_LAUNCHER)
#define SEED_DEVICE_CODE
#endif

// Before a short loop of constant length whose values should stay in registers.
#if defined(__CUDACC__)
#define SEED_UNROLL _Pragma("unroll")
#elif defined(__GNUC__)
#define SEED_UNROLL _Pragma("GCC unroll 8")
#else
#define SEED_UNROLL
#endif

namespace seed {

// Index of the lowest set bit; `bits` is not 0.
SEED_HD SEED_FORCE_INLINE int count_trailing_zeros(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __ffs(static_cast<int>(bits)) - 1;
#else
  return __builtin_ctz(bits);
#endif
}

}  // namespace seed
