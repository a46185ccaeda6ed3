// SPDX-License-Identifier: Apache-2.0
// The parts of the C ABI that belong to no object, for the CUDA library.
#define SEED_BACKEND_NAME "cuda"
#include "abi_cpu.cpp"
