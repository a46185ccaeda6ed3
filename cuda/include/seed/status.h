/* SPDX-License-Identifier: Apache-2.0 */
/* What every function of the C ABI returns, and how to read the message of a failure. */
#ifndef SEED_STATUS_H
#define SEED_STATUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever a function or struct of the ABI changes its meaning; checked by the loader. */
#define SEED_ABI_VERSION 2

#if defined(__GNUC__)
#define SEED_API __attribute__((visibility("default")))
#else
#define SEED_API
#endif

typedef enum seed_status {
  SEED_OK = 0,               /* The call did what it says. */
  SEED_INVALID_ARGUMENT = 1, /* A value, size or pointer of the caller is not allowed; nothing was changed. */
  SEED_NOT_FOUND = 2,        /* A named thing (game, environment, option) does not exist. */
  SEED_OUT_OF_MEMORY = 3,    /* The host or the device has not enough memory; nothing was created. */
  SEED_DEVICE_ERROR = 4,     /* The accelerator reported an error; the pool must be destroyed. */
  SEED_BAD_STATE = 5         /* The call does not fit the object's present state (e.g. step before reset). */
} seed_status;

/* Returns SEED_ABI_VERSION of the library that is loaded. */
SEED_API int32_t seed_abi_version(void);

/* Returns the message of the calling thread's last failure; empty when there was none. Never NULL. */
SEED_API const char* seed_last_error(void);

/* Returns "cpu" or "cuda". */
SEED_API const char* seed_backend_name(void);

#ifdef __cplusplus
}
#endif
#endif
