// SPDX-License-Identifier: Apache-2.0
// CUDA, or what stands in for it where tests run kernels on the host.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define SEED_LAUNCH(kernel, num_blocks, num_threads, stream, ...) \
  kernel<<<num_blocks, num_threads, 0, stream>>>(__VA_ARGS__)
#else
#include "tests/host_cuda.h"
#endif

namespace seed {

inline int64_t blocks_of(int64_t num_threads, int block) { return (num_threads + block - 1) / block; }

}  // namespace seed
