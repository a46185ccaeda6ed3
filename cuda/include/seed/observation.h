/* SPDX-License-Identifier: Apache-2.0 */
/* The picture operations of the Atari preprocessing, one picture at a time; the pool applies the same ones. */
#ifndef SEED_OBSERVATION_H
#define SEED_OBSERVATION_H

#include "seed/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Resizes source_height x source_width x channels bytes (channels 1 or 3, interleaved) to height x width x channels
 * with the rounding of OpenCV's INTER_AREA. use_simd = 0 takes the plain reference loop. */
SEED_API seed_status seed_observation_resize(const uint8_t* source, int32_t source_height, int32_t source_width,
                                             int32_t channels, uint8_t* target, int32_t height, int32_t width,
                                             int32_t use_simd);

#ifdef __cplusplus
}
#endif
#endif
