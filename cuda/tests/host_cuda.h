// SPDX-License-Identifier: Apache-2.0
// The part of CUDA that the pool uses, on the host: memory is the heap, a launch is a loop over blocks and threads.
// Tests compile the CUDA pool with it as plain C++, under sanitizers and without a device. Kernels with barriers or
// shared memory would need more than a loop; there are none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define __global__ static
#define __device__
#define __launch_bounds__(...)

namespace host_cuda {
struct Index {
  unsigned x;
};
}  // namespace host_cuda
static thread_local host_cuda::Index blockIdx{0}, threadIdx{0}, blockDim{0};

// Lets every thread of the grid run, one after the other.
#define SEED_LAUNCH(kernel, num_blocks, num_threads, stream, ...)                         \
  do {                                                                                    \
    (void)(stream);                                                                       \
    blockDim.x = unsigned(num_threads);                                                   \
    for (blockIdx.x = 0; blockIdx.x < unsigned(num_blocks); ++blockIdx.x)                 \
      for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x) kernel(__VA_ARGS__); \
  } while (false)

template <class Number>
Number atomicCAS(Number* address, Number expected, Number value) {
  const Number before = *address;
  if (before == expected) *address = value;
  return before;
}

template <class Number>
Number atomicAdd(Number* address, Number value) {
  const Number before = *address;
  *address += value;
  return before;
}

enum cudaError_t { cudaSuccess, cudaErrorMemoryAllocation, cudaErrorNoKernelImageForDevice };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
using cudaStream_t = void*;

inline const char* cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "no error" : "out of memory"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = std::malloc(bytes);
  return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaFree(void* memory) { return std::free(memory), cudaSuccess; }
inline cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  return std::memcpy(target, source, bytes), cudaSuccess;
}
inline cudaError_t cudaMemcpy2DAsync(void* target, size_t target_pitch, const void* source, size_t source_pitch,
                                     size_t width, size_t height, cudaMemcpyKind, cudaStream_t) {
  for (size_t row = 0; row < height; ++row)
    std::memcpy(static_cast<char*>(target) + row * target_pitch, static_cast<const char*>(source) + row * source_pitch,
                width);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* target, int value, size_t bytes, cudaStream_t) {
  return std::memset(target, value, bytes), cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
