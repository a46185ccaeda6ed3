# SPDX-License-Identifier: Apache-2.0
"""The process in which external simulators and gymnasium environments run; see `seed_hpc.envs.external`.

It imports little, since there are many of them. Lanes, actions and results are in shared memory; the pipe carries one
byte a command: `S` step, `R` reset of the lanes in the mask, `C` close. The answer is `K`, or `E` with a message, after
which the process ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np

NEXT_STEP, SAME_STEP, DISABLED = 0, 1, 2
_SIMULATOR_VERSION = 1


@dataclass(frozen=True)
class Shape:
    """What one environment shows and takes; `num_actions` is 0 where actions are continuous."""

    observation: tuple[int, ...]
    dtype: str
    num_actions: int
    action_size: int
    max_episode_steps: int = 0


class Simulator(Protocol):
    """One external environment; errors are exceptions, or the end of the process."""

    def reset(self, seed: int) -> None:
        """Starts an episode."""

    def step(self, action: Any) -> tuple[float, bool, bool]:
        """Returns reward, terminated, truncated."""

    def observe(self, out: Any) -> None:
        """Writes the observation into an array."""

    def close(self) -> None:
        """Lets go of what the simulator holds; it is not used any more."""


# ---- The plain C interface ---------------------------------------------------------------------------------------


class _Description(ctypes.Structure):
    """`seed_simulator_description` of cuda/include/seed/simulator.h."""

    _fields_ = (
        ("version", ctypes.c_int32),
        ("observation_is_byte", ctypes.c_int32),
        ("observation_rank", ctypes.c_int32),
        ("observation_shape", ctypes.c_int32 * 4),
        ("num_actions", ctypes.c_int32),
        ("action_size", ctypes.c_int32),
    )


class SharedLibrary:
    """A simulator behind cuda/include/seed/simulator.h.

    Args:
        path: Of the shared library.
    """

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(os.path.abspath(path))
        self.library.seed_simulator_create.restype = ctypes.c_void_p
        self.shape = self._describe()
        self._simulator = ctypes.c_void_p(self.library.seed_simulator_create())
        if not self._simulator:
            raise RuntimeError("seed_simulator_create returned NULL")

    def _describe(self) -> Shape:
        about = _Description()
        if self.library.seed_simulator_describe(ctypes.byref(about)) or about.version != _SIMULATOR_VERSION:
            raise RuntimeError(f"seed_simulator_describe failed or is not of version {_SIMULATOR_VERSION}")
        return Shape(
            observation=tuple(about.observation_shape[: about.observation_rank]),
            dtype="uint8" if about.observation_is_byte else "float32",
            num_actions=about.num_actions,
            action_size=about.action_size,
        )

    def reset(self, seed: int) -> None:
        """See `Simulator`."""
        self._call("reset", ctypes.c_uint64(seed))

    def step(self, action: Any) -> tuple[float, bool, bool]:
        """See `Simulator`."""
        reward, terminated, truncated = ctypes.c_float(), ctypes.c_int32(), ctypes.c_int32()
        address = ctypes.c_void_p(action.ctypes.data)
        self._call("step", address, ctypes.byref(reward), ctypes.byref(terminated), ctypes.byref(truncated))
        return reward.value, bool(terminated.value), bool(truncated.value)

    def observe(self, out: Any) -> None:
        """See `Simulator`."""
        self._call("observe", ctypes.c_void_p(out.ctypes.data))

    def close(self) -> None:
        """See `Simulator`."""
        self.library.seed_simulator_destroy(self._simulator)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, f"seed_simulator_{name}")(self._simulator, *arguments)
        if status:
            raise RuntimeError(f"seed_simulator_{name} returned {status}")


# ---- gymnasium ---------------------------------------------------------------------------------------------------


class GymnasiumEnvironment:
    """Any gymnasium environment with a Box of observations and Discrete or bounded Box actions.

    Args:
        name: Its id; "package:Id-v0" imports the package first.
    """

    def __init__(self, name: str) -> None:
        import gymnasium

        self.env = gymnasium.make(name)
        self.shape = self._describe(gymnasium.spaces)
        self._observation: Any = None

    def _describe(self, spaces: Any) -> Shape:
        seen, done = self.env.observation_space, self.env.action_space
        if not isinstance(seen, spaces.Box):
            raise RuntimeError(f"its observations are {type(seen).__name__}, they must be a Box")
        dtype = "uint8" if seen.dtype == np.uint8 else "float32"
        if isinstance(done, spaces.Discrete):
            self._first = int(done.start)
            return Shape(tuple(seen.shape), dtype, int(done.n), 0)
        if not isinstance(done, spaces.Box) or len(done.shape) != 1 or not done.is_bounded():
            raise RuntimeError("its actions are neither Discrete nor a bounded Box of one dimension")
        self._low, self._high = done.low, done.high
        return Shape(tuple(seen.shape), dtype, 0, int(done.shape[0]))

    def reset(self, seed: int) -> None:
        """See `Simulator`."""
        self._observation, _ = self.env.reset(seed=seed % 2**31)

    def step(self, action: Any) -> tuple[float, bool, bool]:
        """See `Simulator`."""
        if self.shape.num_actions:
            given: Any = self._first + int(action)
        else:
            share = 0.5 * (np.clip(action, -1, 1) + 1)
            given = (self._low + share * (self._high - self._low)).astype(self._low.dtype)
        self._observation, reward, terminated, truncated, _ = self.env.step(given)
        return float(reward), bool(terminated), bool(truncated)

    def observe(self, out: Any) -> None:
        """See `Simulator`."""
        out[...] = self._observation

    def close(self) -> None:
        """See `Simulator`."""
        self.env.close()


KINDS: dict[str, Callable[[str], Any]] = {"external": SharedLibrary, "gymnasium": GymnasiumEnvironment}


# ---- Memory that parent and workers share --------------------------------------------------------------------------


class Board:
    """Arrays with one row a lane, in one block of shared memory, which ends with the last process that has it.

    Args:
        num_envs: Rows.
        shape: Of the environments.
        descriptor: File descriptor of an existing block; None makes one.
    """

    def __init__(self, num_envs: int, shape: Shape, descriptor: int | None = None) -> None:
        action = ((), "i8") if shape.num_actions else ((shape.action_size,), "f4")
        fields: dict[str, tuple[tuple[int, ...], str]] = {
            "actions": action,
            "seeds": ((), "u8"),
            "env_ids": ((), "i8"),  # numbers of the lanes for their seeds
            "episodes": ((), "i8"),
            "steps": ((), "i4"),
            "rewards": ((), "f4"),
            "observations": (shape.observation, shape.dtype),
            "final_observations": (shape.observation, shape.dtype),
            "terminations": ((), "?"),
            "truncations": ((), "?"),
            "ended": ((), "?"),
            "mask": ((), "?"),
            "busy": ((), "?"),  # the lane whose simulator runs at this moment
        }
        sizes = {
            key: -(-num_envs * _count(inner) * np.dtype(kind).itemsize // 64) * 64
            for key, (inner, kind) in fields.items()
        }
        self.descriptor = os.memfd_create("seed-hpc-board") if descriptor is None else descriptor
        if descriptor is None:
            os.ftruncate(self.descriptor, sum(sizes.values()))
        self._memory = mmap.mmap(self.descriptor, sum(sizes.values()))
        self._names = tuple(fields)
        offset = 0
        for key, (inner, kind) in fields.items():
            array: Any = np.ndarray((num_envs, *inner), np.dtype(kind), self._memory, offset)
            setattr(self, key, array)
            offset += sizes[key]

    def close(self) -> None:
        """Lets go of the memory; arrays handed out before must not be used any more."""
        for key in self._names:
            delattr(self, key)
        self._memory.close()
        os.close(self.descriptor)


def _count(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def episode_seed(seed: int, env_id: int, episode: int) -> int:
    """Returns the seed of an episode: a function of the lane's seed, its number and the episode."""
    return int(np.random.SeedSequence((seed, env_id, episode)).generate_state(1, np.uint64)[0] >> 1)


# ---- The process ---------------------------------------------------------------------------------------------------


class Lanes:
    """The lanes of one worker.

    Args:
        board: Shared memory.
        lanes: Their rows.
        make: Makes a simulator.
        autoreset: NEXT_STEP, SAME_STEP or DISABLED.
    """

    def __init__(self, board: Any, lanes: range, make: Callable[[], Any], autoreset: int) -> None:
        self.board, self.lanes, self.autoreset = board, lanes, autoreset
        self.simulators = {}
        for lane in lanes:
            board.busy[lane] = True
            self.simulators[lane] = make()
            board.busy[lane] = False

    def reset(self) -> None:
        """Starts episodes in the lanes of the mask."""
        for lane in self.lanes:
            if self.board.mask[lane]:
                self._begin(lane)

    def step(self) -> None:
        """Steps all lanes."""
        board = self.board
        for lane in self.lanes:
            board.busy[lane] = True
            if board.ended[lane]:
                board.episodes[lane] += 1
                self._begin(lane)
            else:
                self._step(lane)
            board.busy[lane] = False

    def close(self) -> None:
        """Closes the simulators; nobody is left to be told of one that fails in it."""
        for simulator in self.simulators.values():
            with contextlib.suppress(Exception):
                simulator.close()

    def _begin(self, lane: int) -> None:
        board = self.board
        board.busy[lane] = True
        seed = episode_seed(int(board.seeds[lane]), int(board.env_ids[lane]), int(board.episodes[lane]))
        self.simulators[lane].reset(seed)
        self.simulators[lane].observe(board.observations[lane : lane + 1].reshape(board.observations.shape[1:]))
        board.rewards[lane] = board.steps[lane] = 0
        board.terminations[lane] = board.truncations[lane] = board.ended[lane] = False
        board.busy[lane] = False

    def _step(self, lane: int) -> None:
        board, simulator = self.board, self.simulators[lane]
        reward, terminated, truncated = simulator.step(board.actions[lane : lane + 1].reshape(board.actions.shape[1:]))
        simulator.observe(board.observations[lane : lane + 1].reshape(board.observations.shape[1:]))
        done = terminated or truncated
        board.steps[lane] += 1
        if done and self.autoreset == SAME_STEP:
            board.final_observations[lane] = board.observations[lane]
            board.episodes[lane] += 1
            self._begin(lane)
        board.rewards[lane] = reward
        board.terminations[lane], board.truncations[lane] = terminated, truncated
        board.ended[lane] = done and self.autoreset != SAME_STEP


def serve(
    connection: Connection,
    memory: int,
    kind: str,
    name: str,
    shape: Shape,
    num_envs: int,
    lanes: range,
    autoreset: int,
) -> None:
    """Obeys commands until `C`; the body of a worker process. `memory` is the descriptor of the board."""
    board: Any = Board(num_envs, shape, memory)
    served = None
    try:
        served = Lanes(board, lanes, lambda: KINDS[kind](name), autoreset)
        connection.send_bytes(b"K")
        while (command := connection.recv_bytes()) != b"C":
            (served.reset if command == b"R" else served.step)()
            connection.send_bytes(b"K")
    except EOFError:  # the parent has gone
        pass
    except Exception as error:
        connection.send_bytes(b"E" + f"{type(error).__name__}: {error}".encode())
    finally:
        if served is not None:
            served.close()
        served = None
        board.close()


def describe(connection: Connection, kind: str, name: str) -> None:
    """Makes one simulator and sends its `Shape`, or a message; the body of a process that may crash."""
    try:
        simulator = KINDS[kind](name)
        connection.send(simulator.shape)
        simulator.close()
    except Exception as error:
        connection.send(f"{type(error).__name__}: {error}")


def main(descriptor: int) -> None:
    """Runs the function of this module that the first message names, with its arguments.

    Args:
        descriptor: File descriptor of the connection to the parent.
    """
    connection = Connection(descriptor)
    try:
        function, *arguments = connection.recv()
    except EOFError:  # the parent has gone
        return
    function(connection, *arguments)
