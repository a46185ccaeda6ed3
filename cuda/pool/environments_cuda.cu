// SPDX-License-Identifier: Apache-2.0
// The same list for the CUDA library: compiled here, the tables of environments hold kernels (envs/environment.h).
#include "pool/environments_cpu.cpp"
