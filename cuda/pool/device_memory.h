// SPDX-License-Identifier: Apache-2.0
// What pools on a device need of CUDA's runtime: errors, memory, the current device.
#pragma once

#include <cstddef>
#include <vector>

#include "checks.h"
#include "pool/cuda_launch.h"

namespace seed {

inline seed_status check_cuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return SEED_OK;
  if (error == cudaErrorNoKernelImageForDevice)
    return fail(SEED_DEVICE_ERROR,
                "libseed_cuda.so has no kernels for this GPU: build it for the GPU's architecture (docs/cuda.md)");
  return fail(error == cudaErrorMemoryAllocation ? SEED_OUT_OF_MEMORY : SEED_DEVICE_ERROR, "%s: %s", call,
              cudaGetErrorString(error));
}

// SEED_CHECK for a call of CUDA's runtime.
#define SEED_CUDA(call) SEED_CHECK(check_cuda((call), #call))

// A piece of device memory.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  seed_status allocate(size_t count) {
    cudaFree(data_);
    data_ = nullptr;
    bytes_ = count * sizeof(T);
    void* memory = nullptr;
    SEED_CUDA(cudaMalloc(&memory, bytes_ > 0 ? bytes_ : 1));
    data_ = static_cast<T*>(memory);
    return SEED_OK;
  }

  seed_status clear(cudaStream_t stream) {
    SEED_CUDA(cudaMemsetAsync(data_, 0, bytes_, stream));
    return SEED_OK;
  }

  // The source may change once the stream has been waited for.
  seed_status copy_from(const T* source, cudaStream_t stream) {
    SEED_CUDA(cudaMemcpyAsync(data_, source, bytes_, cudaMemcpyHostToDevice, stream));
    return SEED_OK;
  }

  seed_status assign(const std::vector<T>& values, cudaStream_t stream) {
    SEED_CHECK(allocate(values.size()));
    return values.empty() ? SEED_OK : copy_from(values.data(), stream);
  }

  T* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  T* data_ = nullptr;
  size_t bytes_ = 0;
};

// Makes the pool's device current, and the caller's again at the end.
class DeviceScope {
 public:
  explicit DeviceScope(int device) {
    if (cudaGetDevice(&before_) == cudaSuccess && before_ != device) changed_ = cudaSetDevice(device) == cudaSuccess;
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  ~DeviceScope() {
    if (changed_) cudaSetDevice(before_);
  }

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace seed
