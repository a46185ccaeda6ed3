/* SPDX-License-Identifier: Apache-2.0 */
/* Native code made from a game's cartridge: what it is made from, and how it is used. */
#ifndef SEED_TRANSLATION_H
#define SEED_TRANSLATION_H

#include "seed/game.h"
#include "seed/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Notes in `trace` (one byte per byte of the ROM image, the caller's, kept until the next call) which bytes the machine
 * executes: bit 0, an instruction starts here; bit 1, control came from where the code alone does not show. NULL stops.
 * Emulation is slower meanwhile and otherwise the same. */
SEED_API seed_status seed_machine_trace(seed_machine* machine, uint8_t* trace);

/* From now on machines and pools that are created for `game` run the code in the shared library `path`; NULL makes them
 * interpret again. SEED_INVALID_ARGUMENT when the library is no translation or one for another version of this
 * library. What is created is bit for bit the same either way. */
SEED_API seed_status seed_translation_load(int32_t game, const char* path);

/* Whether machines of `game` that are created now would run native code. */
SEED_API seed_status seed_translation_is_loaded(int32_t game, int32_t* is_loaded);

#ifdef __cplusplus
}
#endif
#endif
