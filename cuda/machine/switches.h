// SPDX-License-Identifier: Apache-2.0
// The shortcuts of the machine, each with a switch: -DSEED_..=0 takes the long way, with the same results
// (tests/machine/test_switches.py). Translation to native code is a switch at run time, SEED_HPC_TRANSLATION=0.
#pragma once

// Loops that only wait (LDA INTIM, BNE; DEX, BNE; DEY, BNE) are taken in one go. Breakout waits for the timer.
#if !defined(SEED_SKIP_WAITING_LOOPS)
#define SEED_SKIP_WAITING_LOOPS 1
#endif

// A register write that changes nothing is over at once. In most games four of five are like that.
#if !defined(SEED_SKIP_QUIET_WRITES)
#define SEED_SKIP_QUIET_WRITES 1
#endif

// A shape that changes in mid line is put aside and the line drawn once. Off: it is drawn up to the change. Q*bert
// writes the playfield four times a line.
#if !defined(SEED_PUT_SHAPES_ASIDE)
#define SEED_PUT_SHAPES_ASIDE 1
#endif

// A shape that changes while the beam is not near the object is not put aside. Seaquest changes players at the left
// edge.
#if !defined(SEED_LEAVE_SHAPES_AHEAD)
#if defined(SEED_DEVICE_CODE)
#define SEED_LEAVE_SHAPES_AHEAD 0
#else
#define SEED_LEAVE_SHAPES_AHEAD 1
#endif
#endif

// A line that looks like the one above is copied. Pong's field.
#if !defined(SEED_COPY_EQUAL_LINES)
#define SEED_COPY_EQUAL_LINES 1
#endif

// Where no pixels are wanted, lines that can have no new collision are passed over together.
#if !defined(SEED_SKIP_UNSEEN_LINES)
#define SEED_SKIP_UNSEEN_LINES 1
#endif

// Collisions are looked for where the columns that objects may touch overlap; where no pixels are wanted, a shape that
// has no such place is not followed at all. Seaquest's swimmers. A device draws every frame and gains nothing.
#if !defined(SEED_COLLIDE_WHERE_OBJECTS_MEET)
#if defined(SEED_DEVICE_CODE)
#define SEED_COLLIDE_WHERE_OBJECTS_MEET 0
#else
#define SEED_COLLIDE_WHERE_OBJECTS_MEET 1
#endif
#endif

// A line without players, or with nothing at all, is drawn without looking for them in each pixel. Seaquest's sea.
#if !defined(SEED_DRAW_BY_CONTENT)
#define SEED_DRAW_BY_CONTENT 1
#endif

// Pixels are drawn 32 at a time where the processor has AVX2.
#if !defined(SEED_USE_AVX2)
#define SEED_USE_AVX2 1
#endif
