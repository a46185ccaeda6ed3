/* SPDX-License-Identifier: Apache-2.0 */
/* The games that the library knows, and one Atari 2600 at a time: the operations of ale-py's ALEInterface. */
#ifndef SEED_GAME_H
#define SEED_GAME_H

#include "seed/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The table of games -------------------------------------------------------------------------------------- */

/* How many games there are; indices 0 .. count-1 are in alphabetical order. */
SEED_API seed_status seed_game_count(int32_t* count);

/* The name of game `index` ("pong"); a static string. */
SEED_API seed_status seed_game_name(int32_t index, const char** name);

/* The index of the game called `name`; SEED_NOT_FOUND when there is none. */
SEED_API seed_status seed_game_find(const char* name, int32_t* index);

/* What is known about game `index`, as one static JSON object:
 *   name, md5, size (bytes), cartridge ("4K", "F8", ...), pal (bool), ystart, height, width,
 *   controller ("joystick" | "paddle"), port ("left" | "right"),
 *   minimal_actions, legal_actions (numbers 0..17, ascending), starting_actions ([[action or "RESET", frames], ...]),
 *   modes, default_mode, difficulties, default_difficulty, lives_after_load, frame_number_after_load,
 *   variables (the rules' variables in the order of the state), notes (sentences). */
SEED_API seed_status seed_game_describe(int32_t index, const char** json);

/* Colours of all 256 pixel values: `rgb` takes 768 bytes (R,G,B per value), `gray` 256; either may be NULL.
 * With pal = 0 an odd value has the colour of the even value below it (NTSC screens hold none). With pal = 1 odd values
 * are the colourless ones of a frame whose predecessor had an odd number of lines: `rgb` and `gray` then differ, as
 * they do in ale-py. */
SEED_API seed_status seed_game_palette(int32_t pal, uint8_t* rgb, uint8_t* gray);

#define SEED_GAME_VARIABLES 16

/* The rules alone, without a machine: the variables of game `index` at the start of an episode ... */
SEED_API seed_status seed_game_initial_variables(int32_t index, int32_t variables[SEED_GAME_VARIABLES]);

/* ... and one step of them on `ram` (128 bytes; `cart_ram` too, or NULL for a cartridge without RAM), as after each
 * emulated frame. Each of the results may be NULL. */
SEED_API seed_status seed_game_step(int32_t index, const uint8_t* ram, const uint8_t* cart_ram,
                                    int32_t variables[SEED_GAME_VARIABLES], int32_t* reward, int32_t* lives,
                                    int32_t* game_over);

/* ---- One machine --------------------------------------------------------------------------------------------- */

#define SEED_RNG_ALE 0     /* ale-py's generator (mt19937), draw for draw. */
#define SEED_RNG_COUNTER 1 /* Counter-based (Philox 4x32-10): draws depend on seed, episode and index only. */

typedef struct seed_machine_options {
  int32_t random_seed;                /* Seed of sticky actions, no-ops and random mode changes. */
  float repeat_action_probability;    /* 0 .. 1: chance, at each frame, that the previous action is kept. */
  int32_t frame_skip;                 /* Frames that one act() emulates, >= 1. */
  int32_t max_num_frames_per_episode; /* Frame at which an episode is truncated; 0 = never. */
  int32_t rng;                        /* SEED_RNG_ALE or SEED_RNG_COUNTER. */
  int32_t paddle_max;                 /* Widest paddle range so far, see seed_machine_paddle_max(); 0 = the game's. */
  int32_t env_id;                     /* Key of the counter-based generator beside the seed. */
} seed_machine_options;

typedef struct seed_machine seed_machine;

/* Fills `options` with ale-py's defaults (sticky 0.25, frame_skip 1, no limit, rng ale) and random_seed 0. */
SEED_API seed_status seed_machine_default_options(seed_machine_options* options);

/* Loads a cartridge: power-on, the 60-frame probe, the full reset. `rom` (rom_size bytes, copied) must have the size of
 * the game's image. The caller checks the MD5. */
SEED_API seed_status seed_machine_create(int32_t game, const uint8_t* rom, int64_t rom_size,
                                         const seed_machine_options* options, seed_machine** machine);
SEED_API seed_status seed_machine_destroy(seed_machine* machine);

/* Starts an episode in the chosen mode and difficulty. SEED_BAD_STATE when the cartridge does not reach the mode. */
SEED_API seed_status seed_machine_reset(seed_machine* machine);

/* Holds `action` (0..17; one that is not legal acts as NOOP) for frame_skip frames; `paddle_strength` -1..1 scales the
 * movement of a paddle. `reward` is their sum; 0 without emulation when the episode is over. */
SEED_API seed_status seed_machine_act(seed_machine* machine, int32_t action, float paddle_strength, int32_t* reward);

SEED_API seed_status seed_machine_lives(const seed_machine* machine, int32_t* lives);
/* `game_over`: the game has ended; `truncated`: the frame limit was reached. */
SEED_API seed_status seed_machine_game_over(const seed_machine* machine, int32_t* game_over, int32_t* truncated);
/* Frames since load and since the last reset, as ale-py counts them. */
SEED_API seed_status seed_machine_frame_numbers(const seed_machine* machine, int32_t* total, int32_t* episode);

/* The 128 bytes of RAM. */
SEED_API seed_status seed_machine_ram(const seed_machine* machine, uint8_t* ram);
SEED_API seed_status seed_machine_set_ram(seed_machine* machine, int32_t index, uint8_t value);

/* The picture: height x 160 pixel values, valid until the next call that emulates. */
SEED_API seed_status seed_machine_screen(const seed_machine* machine, const uint8_t** pixels, int32_t* height,
                                         int32_t* width);
/* Writes height x 160 x 3 and height x 160 bytes. */
SEED_API seed_status seed_machine_screen_rgb(const seed_machine* machine, uint8_t* rgb);
SEED_API seed_status seed_machine_screen_grayscale(const seed_machine* machine, uint8_t* gray);

/* Mode and difficulty (numbers of seed_game_describe). As in ale-py the difficulty switches move at once, and the mode
 * counts from the next seed_machine_reset(). */
SEED_API seed_status seed_machine_set_mode(seed_machine* machine, int32_t mode);
SEED_API seed_status seed_machine_set_difficulty(seed_machine* machine, int32_t difficulty);
SEED_API seed_status seed_machine_mode(const seed_machine* machine, int32_t* mode, int32_t* difficulty);

/* The widest paddle range this machine has set: give it to the next machine's options to behave like an ALEInterface
 * that loads one cartridge after another. */
SEED_API seed_status seed_machine_paddle_max(const seed_machine* machine, int32_t* paddle_max);

/* Exact snapshots, pictures included, in a versioned format that names the game. Saving with include_rng = 0 leaves the
 * generator of the restoring machine alone. */
SEED_API seed_status seed_machine_state_size(const seed_machine* machine, int64_t* size);
SEED_API seed_status seed_machine_save(const seed_machine* machine, int32_t include_rng, uint8_t* state, int64_t size);
/* SEED_INVALID_ARGUMENT for bytes that are no state of this game and format, or damaged ones; the machine is then
 * unchanged. A checksum finds accidents, not malice: restore only states that you trust, as with any program. */
SEED_API seed_status seed_machine_restore(seed_machine* machine, const uint8_t* state, int64_t size);

#ifdef __cplusplus
}
#endif
#endif
