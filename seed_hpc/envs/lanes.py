# SPDX-License-Identifier: Apache-2.0
"""What every vector of environments does with its lanes: checks arguments, chooses seeds, hands out rows, packs state.

Used by `vector` (Atari), `native_vector` (C++ structs) and `external` (worker processes).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from seed_hpc.errors import MissingDependencyError, UserError

AUTORESET = {AutoresetMode.NEXT_STEP: 0, AutoresetMode.SAME_STEP: 1, AutoresetMode.DISABLED: 2}  # codes of the C ABI
# Observations, rewards, terminations, truncations and infos of one step.
Rows = tuple[Any, Any, Any, Any, dict[str, Any]]

_NO_SEED = -1
_MAX_SEED = 2**31 - 1
_STATE_HEADER = struct.Struct("<8sI")  # magic with format version, number of lanes


# ---- Arguments ---------------------------------------------------------------------------------------------------


def parse_autoreset_mode(mode: AutoresetMode | str) -> AutoresetMode:
    """Returns the mode of that name; raises a `UserError` for another."""
    try:
        return AutoresetMode(mode)
    except ValueError as error:
        known = ", ".join(known.value for known in AutoresetMode)
        raise UserError(f"autoreset_mode is '{mode}', it must be one of {known}") from error


def int32(name: str, value: Any) -> int:
    """Returns an argument as the C ABI takes it; raises a `UserError` for what is no integer or too large."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not -(2**31) <= value < 2**31:
        raise UserError(f"{name} is {value!r}, it must be an integer of at most {2**31 - 1}")
    return int(value)


def reset_mask(mask: Any, num_envs: int, *, seeded: bool) -> NDArray[np.bool_] | None:
    """Returns which lanes a reset starts, bool (num_envs,); None for all.

    Args:
        mask: Option `reset_mask` of a reset, or None.
        num_envs: Number of lanes.
        seeded: Whether all lanes have been reset before.

    Raises:
        UserError: It is no such mask, or a first reset would leave lanes out.
    """
    if mask is None:
        return None
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (num_envs,):
        raise UserError(f"reset_mask must be a boolean NumPy array of shape ({num_envs},)")
    if not seeded and not mask.all():
        raise UserError("the first reset must start every lane: leave out reset_mask")
    return None if mask.all() else np.ascontiguousarray(mask)


def lane_seeds(
    seed: int | ArrayLike | None,
    mask: NDArray[np.bool_] | None,
    env_ids: NDArray[np.int32],
    *,
    seeded: bool,
    consecutive: bool = False,
) -> tuple[NDArray[np.int32] | None, NDArray[np.int32] | None]:
    """Returns the seed and the number of each lane, int32 (num_envs,), or None for both: lanes go on.

    Args:
        seed: An integer for all lanes being reset, one for each of them, or None.
        mask: Which lanes are reset, from `reset_mask`.
        env_ids: Numbers of the lanes. With one seed for each lane they count as 0: a lane depends on its seed alone.
        seeded: Whether all lanes have been reset before; otherwise None takes a seed from the system.
        consecutive: Lanes that are given one integer get it, the next one and so on, instead of all the same.

    Raises:
        UserError: A seed is not usable.
    """
    lanes = np.arange(len(env_ids)) if mask is None else np.flatnonzero(mask)
    if seed is None:
        if seeded:
            return None, None
        seed = int(np.random.SeedSequence().generate_state(1)[0] >> 2)
    given = np.asarray(seed)
    if given.dtype.kind not in "iu" or given.shape not in ((), lanes.shape):
        raise UserError(f"seed must be None, an integer, or one integer for each of the {len(lanes)} lanes")
    steps = np.arange(len(lanes)) if consecutive and not given.ndim else np.zeros_like(lanes)
    if lanes.size and not (int(given.min()) >= _NO_SEED and int(given.max()) + int(steps[-1]) <= _MAX_SEED):
        raise UserError(f"a lane's seed must be 0 to {_MAX_SEED} (or -1: none), got {seed}")
    seeds = np.full(len(env_ids), _NO_SEED, dtype=np.int32)
    seeds[lanes] = given + steps
    if not seeded and (seeds == _NO_SEED).any():
        raise UserError("the first reset needs a seed for every lane, or none at all")
    return seeds, np.zeros_like(env_ids) if given.ndim else env_ids


# ---- Results -----------------------------------------------------------------------------------------------------


def same(array: Any) -> Any:
    """Returns results as they are."""
    return array


def converter(output: str) -> Any:
    """Returns what turns an array into a result: `same` for "numpy", `torch.from_numpy` for "torch".

    Raises:
        UserError: Another name.
        MissingDependencyError: There is no torch.
    """
    if output == "numpy":
        return same
    if output != "torch":
        raise UserError(f"output is '{output}', it must be 'numpy' or 'torch'")
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError("output='torch' needs PyTorch: `pip install torch`") from error
    return torch.from_numpy


def finish_rows(rows: Rows, num_ended: int, convert: Any) -> Rows:
    """Converts what a step returns; without `final_obs` where no episode ended."""
    observations, rewards, terminations, truncations, infos = rows
    if "final_obs" in infos and num_ended == 0:
        del infos["final_obs"]
    if convert is same:
        return rows
    converted = {key: convert(value) for key, value in infos.items()}
    return convert(observations), convert(rewards), convert(terminations), convert(truncations), converted


# ---- Addresses for the C ABI -------------------------------------------------------------------------------------


def address_of(array: NDArray[Any] | None) -> ctypes.c_void_p | None:
    """Returns where an array lies; None for none."""
    return None if array is None else ctypes.c_void_p(array.ctypes.data)


def target_address(target: Any, name: str, shape: tuple[int, ...] | None, dtype: Any) -> int:
    """Returns the address of an array or CPU tensor to write into.

    Raises:
        UserError: Its shape, type or layout is another, or it is read-only.
    """
    array = target.numpy() if hasattr(target, "numpy") else target
    fits = isinstance(array, np.ndarray) and array.shape == shape and array.dtype == dtype
    if not fits or not array.flags.c_contiguous or not array.flags.writeable:
        raise UserError(f"{name} must be a writable contiguous {np.dtype(dtype)} array of shape {shape}")
    return int(array.ctypes.data)


# ---- Snapshots ---------------------------------------------------------------------------------------------------


def pack_snapshots(magic: bytes, snapshots: Sequence[bytes]) -> bytes:
    """Returns the snapshots of all lanes in one piece, behind a header with `magic` (8 bytes) and their sizes."""
    sizes = struct.pack(f"<{len(snapshots)}Q", *map(len, snapshots))
    return _STATE_HEADER.pack(magic, len(snapshots)) + sizes + b"".join(snapshots)


def unpack_snapshots(magic: bytes, state: bytes, num_envs: int) -> list[bytes]:
    """Returns the snapshots that `pack_snapshots` joined.

    Raises:
        UserError: It is something else, damaged, or of another number of lanes.
    """
    state = bytes(state)
    if len(state) < _STATE_HEADER.size or not state.startswith(magic):
        raise UserError("these bytes are no state of a vector environment")
    count = _STATE_HEADER.unpack_from(state)[1]
    if count != num_envs:
        raise UserError(f"the state is one of {count} lanes, the environment has {num_envs}")
    first = _STATE_HEADER.size + 8 * count
    sizes = struct.unpack_from(f"<{count}Q", state, _STATE_HEADER.size) if len(state) >= first else ()
    ends = list(accumulate(sizes, initial=first))
    if ends[-1] != len(state):
        raise UserError("the state is damaged")
    return [state[begin:end] for begin, end in pairwise(ends)]


def lane_numbers(lanes: Sequence[int] | None, count: int) -> Sequence[int]:
    """Returns lanes as integers, for None the first `count`; raises a `UserError` for what is no integer."""
    return range(count) if lanes is None else [int32("lane", lane) for lane in lanes]


def check_lanes(snapshots: Sequence[bytes], lanes: Sequence[int] | None) -> Sequence[int]:
    """Returns where snapshots are to go; raises a `UserError` where there are more or fewer lanes than snapshots."""
    targets = lane_numbers(lanes, len(snapshots))
    if len(targets) != len(snapshots):
        raise UserError(f"there are {len(snapshots)} snapshots for {len(targets)} lanes")
    return targets


def replace_lanes(
    snapshots: Sequence[bytes],
    targets: Sequence[int],
    clone: Callable[[Sequence[int]], list[bytes]],
    restore: Callable[[int, bytes], None],
) -> None:
    """Restores lanes, all of them or, where one of the snapshots is refused, none: then those before it go back."""
    before = clone(targets[:-1])  # a refused snapshot leaves its own lane as it was
    try:
        for lane, snapshot in zip(targets, snapshots, strict=True):
            restore(lane, bytes(snapshot))
    except Exception:
        for lane, snapshot in zip(targets, before, strict=False):
            restore(lane, snapshot)
        raise
