# SPDX-License-Identifier: Apache-2.0
"""The structs of cuda/include/seed/replay.h for ctypes, and the library with its argument types declared."""

from __future__ import annotations

import ctypes
import functools

from seed_hpc import _native

TRANSITIONS, SEQUENCES = 0, 1
ARRAYS = ("frames", "steps", "state", "initial_priority", "tree", "counters")


class Replay(ctypes.Structure):
    """`seed_replay`: options and the memory that torch allocated."""

    _fields_ = (
        ("kind", ctypes.c_int32),
        ("stack_num", ctypes.c_int32),
        ("period", ctypes.c_int32),
        ("reach", ctypes.c_int32),
        ("num_lanes", ctypes.c_int64),
        ("steps_per_lane", ctypes.c_int64),
        ("frame_bytes", ctypes.c_int64),
        ("state_bytes", ctypes.c_int64),
        ("discount", ctypes.c_double),
        ("priority_exponent", ctypes.c_double),
        ("priority_epsilon", ctypes.c_double),
        ("seed", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in ARRAYS),
    )


class Sizes(ctypes.Structure):
    """`seed_replay_sizes`."""

    _fields_ = tuple((name, ctypes.c_int64) for name in (*ARRAYS, "num_items", "num_leaves"))


class Steps(ctypes.Structure):
    """`seed_replay_steps`."""

    _fields_ = (
        ("num_steps", ctypes.c_int64),
        ("frames", ctypes.c_void_p),
        ("frame_step_bytes", ctypes.c_int64),
        ("frame_lane_bytes", ctypes.c_int64),
        ("action", ctypes.c_void_p),
        ("reward", ctypes.c_void_p),
        ("first", ctypes.c_void_p),
        ("last", ctypes.c_void_p),
        ("terminated", ctypes.c_void_p),
        ("state", ctypes.c_void_p),
        ("priority", ctypes.c_void_p),
    )


class Batch(ctypes.Structure):
    """`seed_replay_batch`."""

    _fields_ = (
        ("num_items", ctypes.c_int64),
        ("importance_exponent", ctypes.c_double),
        ("num_threads", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("obs", ctypes.c_void_p),
        ("first", ctypes.c_void_p),
        ("previous_action", ctypes.c_void_p),
        ("previous_reward", ctypes.c_void_p),
        ("last", ctypes.c_void_p),
        ("terminated", ctypes.c_void_p),
        ("state", ctypes.c_void_p),
        ("action", ctypes.c_void_p),
        ("reward", ctypes.c_void_p),
        ("discount", ctypes.c_void_p),
        ("weight", ctypes.c_void_p),
        ("index", ctypes.c_void_p),
        ("generation", ctypes.c_void_p),
    )


@functools.cache
def library() -> ctypes.CDLL:
    """Loads the CPU's library and declares the functions of the replay; there is no other backend."""
    loaded = _native.load()
    replay, number, stream = ctypes.POINTER(Replay), ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p
    arguments = {
        "measure": (replay, ctypes.POINTER(Sizes)),
        "num_completed": (replay, ctypes.c_int64, number, number),
        "append": (replay, ctypes.POINTER(Steps), stream),
        "count": (replay, number, number, stream),
        "sample": (replay, ctypes.POINTER(Batch), stream),
        "update": (replay, ctypes.c_int64, stream, stream, stream, number, stream),
        "rebuild": (replay, stream),
    }
    for name, types in arguments.items():
        getattr(loaded, f"seed_replay_{name}").argtypes = types
    return loaded
