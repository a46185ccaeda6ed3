# SPDX-License-Identifier: Apache-2.0
"""Environments that are not ours, as a vector: a shared library with a plain C interface, or any gymnasium environment.

    parent: actions -> shared memory -> worker processes -> shared memory -> copies for the caller, or to a device

Each lane lives in a worker process. When one crashes, hangs or reports an error, the episodes of its lanes are
truncated there (`infos["crashed"]`), the process is started anew, and the run goes on.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import signal
import struct
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike

from seed_hpc.envs.cuda_device import find_device
from seed_hpc.envs.external_worker import KINDS, Board, Shape, describe, serve
from seed_hpc.envs.lanes import (
    AUTORESET,
    check_lanes,
    converter,
    int32,
    parse_autoreset_mode,
    reset_mask,
    target_address,
)
from seed_hpc.errors import UserError

log = logging.getLogger(__name__)

_SNAPSHOT = struct.Struct("<8sQqqi?")
_SNAPSHOT_MAGIC = b"SEEDEXT2"  # with the version of the format
_MOST_RESTARTS = 3  # in a row without a step in between
_START_S = 60.0  # a process that starts may take so long, however short `timeout_s` is
_CLOSE_S = 1.0  # one that ends may take so long to close its simulators
_RESULTS = ("observations", "rewards", "terminations", "truncations")


def is_external(name: str) -> bool:
    """Whether `name` is "external:<library>" or "gymnasium:<id>"."""
    return name.partition(":")[0] in KINDS and ":" in name


# What a worker's interpreter runs: with our search path, deaf to Ctrl-C, since the parent decides when it ends.
_START = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.path[:] = sys.argv[2:]; "
    "from seed_hpc.envs.external_worker import main; main(int(sys.argv[1]))"
)


class _Process:
    """A Python process that runs one function of `external_worker`, and the pipe to it.

    multiprocessing's processes would run the caller's script again, which then needs `if __name__ == "__main__":`.

    Args:
        function: Its first argument is the other end of the pipe.
        arguments: The others.
        descriptors: Of files that the process inherits.
    """

    owes_answer: bool  # it has been told something, and its answer has not been read

    def __init__(self, function: Callable[..., None], *arguments: Any, descriptors: Sequence[int] = ()) -> None:
        self.connection, theirs = multiprocessing.Pipe()
        with theirs:
            inherited = (theirs.fileno(), *descriptors)
            command = [sys.executable, "-c", _START, str(theirs.fileno()), *sys.path]
            self._process = subprocess.Popen(command, pass_fds=inherited)
        weakref.finalize(self, self._process.kill)  # at the latest with this interpreter, even where a simulator hangs
        self.tell((function, *arguments))

    def tell(self, message: Any) -> None:
        """Sends bytes as they are, anything else pickled; to a process that has ended nothing."""
        self.owes_answer = True
        send = self.connection.send_bytes if isinstance(message, bytes) else self.connection.send
        with contextlib.suppress(OSError):
            send(message)

    def how_it_ended(self) -> str:
        """Says so in words, for a process whose pipe is closed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        code = self._process.returncode
        if code is not None and code < 0:
            return f"the process was ended by {signal.Signals(-code).name}"
        return f"the process ended with exit code {code}"

    def end(self, patience_s: float = 0.0) -> None:
        """Waits for the end of the process, at most so long, and enforces it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience_s)
        self._process.kill()
        self._process.wait()
        self.connection.close()


@dataclass
class _Worker:
    process: _Process
    lanes: range
    num_failures: int = 0


class ExternalVectorEnv(VectorEnv[Any, Any, Any]):
    """Many copies of an environment that is not ours, in worker processes.

    Args:
        name: "external:<path of a shared library>" (cuda/include/seed/simulator.h) or "gymnasium:<id>". Continuous
            actions of gymnasium environments are scaled from [-1, 1] to their bounds.
        num_envs: Number of lanes.
        lanes_per_process: Lanes of one worker process: they share its fate when one crashes.
        timeout_s: A worker that does not answer for so long counts as crashed.
        autoreset_mode: `NextStep`, `SameStep` or `Disabled` (gymnasium's AutoresetMode).
        num_threads: Not used; processes run the lanes.
        output: "numpy" or "torch" (CPU tensors); on a device it is always torch.
        device: "cpu", or the CUDA device to which results go; the environments themselves run on the host.
        first_env_id: Number of lane 0: give rank r of a job r * num_envs.

    Raises:
        UserError: The environment cannot be made, has spaces that are not supported, or an argument is out of range.
    """

    reward_dtype: Any  # torch's float32, for the training loop
    steps_on_host = True  # a CUDA graph cannot hold a step

    def __init__(
        self,
        name: str,
        num_envs: int,
        *,
        lanes_per_process: int = 1,
        timeout_s: float = 60.0,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        num_threads: int = 0,
        output: str = "numpy",
        device: str = "cpu",
        first_env_id: int = 0,
        data: None = None,
    ) -> None:
        del num_threads
        self._workers: list[_Worker] = []
        self._board: Any = None
        self._transfer: Any = None
        self._device: Any = find_device(device, library=False) if device != "cpu" else None
        if data is not None:
            raise UserError(f"'{name}' takes no data")
        self._kind, _, self._name = name.partition(":")
        self._to_output = converter(output) if self._device is None else self._to_device
        self.autoreset_mode = parse_autoreset_mode(autoreset_mode)
        self.num_envs = int32("num_envs", num_envs)
        for argument, value in (("num_envs", self.num_envs), ("lanes_per_process", lanes_per_process)):
            if value < 1:
                raise UserError(f"{argument} is {value}, it must be at least 1")
        if self._kind == "external" and not Path(self._name).is_file():
            raise UserError(f"{self._name} does not exist: name the shared library of your simulator")
        self._timeout_s, self._first_env_id = timeout_s, int32("first_env_id", first_env_id)
        self._shape = shape = self._ask_shape()
        self.continuous = shape.num_actions == 0
        dtype: Any = np.dtype(shape.dtype).type
        low, high = (0, 255) if dtype == np.uint8 else (-np.inf, np.inf)
        self.single_observation_space = spaces.Box(low, high, shape.observation, dtype)
        self.single_action_space = (
            spaces.Box(-1.0, 1.0, (shape.action_size,), np.float32)
            if self.continuous
            else spaces.Discrete(shape.num_actions)
        )
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = {"autoreset_mode": self.autoreset_mode}
        if output == "torch" or self._device is not None:
            import torch

            self.reward_dtype = torch.float32
        self._seeded = False
        self._crashed = np.zeros(self.num_envs, np.bool_)
        self._restored = np.zeros(self.num_envs, np.bool_)
        self._board = Board(self.num_envs, shape)
        starts = range(0, self.num_envs, lanes_per_process)
        for first in starts:
            lanes = range(first, min(first + lanes_per_process, self.num_envs))
            self._workers.append(_Worker(self._start(lanes), lanes))
        for worker in self._workers:
            self._require(worker, "made")
        if self._device is not None:
            from seed_hpc.envs.host_transfer import HostTransfer

            self._transfer = HostTransfer({name: getattr(self._board, name) for name in _RESULTS}, self._device)

    # ---- Processes -----------------------------------------------------------------------------------------------

    def _ask_shape(self) -> Shape:
        """Makes one environment in a process of its own, since it may crash."""
        process = _Process(describe, self._kind, self._name)
        try:
            patience_s = max(self._timeout_s, _START_S)
            in_time = process.connection.poll(patience_s)
            answer = process.connection.recv() if in_time else f"no answer in {patience_s:g} s"
        except (EOFError, OSError):
            answer = process.how_it_ended()
        finally:
            process.end(patience_s=_CLOSE_S)
        if not isinstance(answer, Shape):
            raise UserError(f"'{self._kind}:{self._name}' cannot be made: {answer}")
        return answer

    def _start(self, lanes: range) -> _Process:
        memory, mode = self._board.descriptor, AUTORESET[self.autoreset_mode]
        what = (self._kind, self._name, self._shape)
        return _Process(serve, memory, *what, self.num_envs, lanes, mode, descriptors=[memory])

    def _answer(self, worker: _Worker, *, starts: bool = False) -> str | None:
        """Waits for a worker; returns None, or what went wrong."""
        connection = worker.process.connection
        patience_s = max(self._timeout_s, _START_S) if starts else self._timeout_s
        try:
            if not connection.poll(patience_s):
                return f"no answer in {patience_s:g} s"
            answer = connection.recv_bytes()
            worker.process.owes_answer = False
        except (EOFError, OSError):
            return worker.process.how_it_ended()
        return None if answer == b"K" else answer[1:].decode(errors="replace")

    def _require(self, worker: _Worker, what: str) -> None:
        if (fault := self._answer(worker, starts=what.startswith("made"))) is not None:
            self.close()
            lanes = (
                f"lane {worker.lanes[0]}"
                if len(worker.lanes) == 1
                else f"lanes {worker.lanes[0]} to {worker.lanes[-1]}"
            )
            raise UserError(f"'{self._kind}:{self._name}' cannot be {what} in {lanes}: {fault}")

    def _renew(self, worker: _Worker, fault: str) -> None:
        """Truncates the episodes of a worker's lanes and starts it anew."""
        board, rows = self._board, slice(worker.lanes.start, worker.lanes.stop)
        guilty = [lane for lane in worker.lanes if board.busy[lane]]
        log.warning("lane %s of '%s': %s; its episode is cut off", guilty or list(worker.lanes), self._name, fault)
        worker.process.end()
        board.busy[rows] = board.terminations[rows] = False
        board.rewards[rows] = 0
        board.truncations[rows] = board.ended[rows] = True
        self._crashed[rows] = True
        worker.num_failures += 1
        if worker.num_failures > _MOST_RESTARTS:
            self.close()
            raise UserError(
                f"'{self._kind}:{self._name}' fails again and again, in lane {worker.lanes[0]} now: {fault}"
            )
        worker.process = self._start(worker.lanes)
        self._require(worker, "made again")
        if self.autoreset_mode == AutoresetMode.SAME_STEP:
            self._begin_next([worker], rows)

    def _begin_next(self, workers: Sequence[_Worker], rows: Any) -> None:
        """Begins the next episodes of truncated lanes, as SameStep does; `workers` are those that have them."""
        board = self._board
        board.final_observations[rows] = board.observations[rows]
        board.episodes[rows] += 1
        board.mask[:] = False
        board.mask[rows] = True
        self._reset_lanes(workers)
        board.truncations[rows] = True

    def _reset_lanes(self, workers: Sequence[_Worker]) -> None:
        """Starts episodes in the lanes of the mask."""
        for worker in workers:
            worker.process.tell(b"R")
        for worker in workers:
            self._require(worker, "reset")

    # ---- gymnasium's interface -----------------------------------------------------------------------------------

    def reset(self, *, seed: int | ArrayLike | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Starts episodes; arguments and results as in `NativeVectorEnv.reset`.

        Raises:
            UserError: A seed or mask is not usable, or an environment fails in its reset.
        """
        board = self._open_board()
        mask = reset_mask((options or {}).get("reset_mask"), self.num_envs, seeded=self._seeded)
        chosen = np.ones(self.num_envs, np.bool_) if mask is None else mask
        if seed is None and not self._seeded:
            seed = int(np.random.SeedSequence().generate_state(1)[0] >> 2)
        if seed is None:
            board.episodes[chosen] += 1
        else:
            given = np.asarray(seed)
            if given.dtype.kind not in "iu" or given.shape not in ((), (int(chosen.sum()),)) or (given < 0).any():
                raise UserError(f"seed must be None, an integer of at least 0, or one for each of {chosen.sum()} lanes")
            board.seeds[chosen] = given
            board.env_ids[chosen] = 0 if given.ndim else self._first_env_id + np.flatnonzero(chosen)
            board.episodes[chosen] = 0
        board.mask[:] = chosen
        self._crashed[:] = False
        self._restored[chosen] = False
        self._reset_lanes(self._workers)
        self._seeded = True
        return self._to_output(board.observations.copy()), self._infos()

    def step(self, actions: ArrayLike) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps all lanes. A step that is interrupted, say by Ctrl-C, has happened: its results are lost.

        Returns:
            As `NativeVectorEnv.step`; the infos also hold `crashed`, bool (num_envs,): the lane's episode was truncated
            because its simulator failed.

        Raises:
            UserError: An action is not usable, or an environment fails again and again.
        """
        board = self._open_board()
        if self._transfer is not None:
            results = self._transfer.new_targets()
            self._step_to_device(actions, results)
        else:
            self._step_board(actions)
            results = {name: self._to_output(getattr(board, name).copy()) for name in _RESULTS}
        infos = self._infos()
        done = board.terminations | board.truncations
        if self.autoreset_mode == AutoresetMode.SAME_STEP and done.any():
            infos["final_obs"] = self._to_output(board.final_observations.copy())
        observations, rewards, terminations, truncations = (results[name] for name in _RESULTS)
        return observations, rewards, terminations, truncations, infos

    def step_into(
        self, actions: ArrayLike, observations: Any, rewards: Any, terminations: Any, truncations: Any
    ) -> None:
        """Steps and writes the results into memory of the caller; see `NativeVectorEnv.step_into`."""
        board = self._open_board()
        targets = dict(zip(_RESULTS, (observations, rewards, terminations, truncations), strict=True))
        if self._transfer is not None:
            self._step_to_device(actions, targets)
            return
        # No array of the board is held meanwhile: an environment that fails again and again closes it.
        for name, target in targets.items():
            target_address(target, name, getattr(board, name).shape, getattr(board, name).dtype)
        self._step_board(actions)
        for name, target in targets.items():
            np.copyto(target if isinstance(target, np.ndarray) else target.numpy(), getattr(board, name))

    def _step_to_device(self, actions: Any, targets: dict[str, Any]) -> None:
        """Steps; a worker's observations travel while the next ones still step."""
        transfer = self._transfer
        transfer.begin(targets)
        self._step_board(actions, arrived=lambda lanes: transfer.send("observations", lanes))
        for name in _RESULTS[1:]:  # a few bytes a lane: at once for all
            transfer.send(name, range(self.num_envs))
        transfer.finish()

    def _to_device(self, array: Any) -> Any:
        import torch

        return torch.from_numpy(array).to(self._device)

    def _step_board(self, actions: Any, arrived: Callable[[range], None] = lambda lanes: None) -> None:
        """Steps; calls `arrived` with the lanes whose results are on the board, until all have been named."""
        board = self._open_board()
        if not self._seeded:
            raise UserError("the environments have not been reset: call reset first")
        self._read_actions(actions)
        if self.autoreset_mode == AutoresetMode.DISABLED and board.ended.any():
            lane = int(np.argmax(board.ended))
            raise UserError(f"the episode of lane {lane} has ended: reset the lane before you step it")
        self._crashed[:] = False
        if self._restored.any():
            self._end_restored(board)
            arrived(range(self.num_envs))
            return
        for worker in self._workers:
            worker.process.tell(b"S")
        for worker in self._workers:
            if (fault := self._answer(worker)) is None:
                worker.num_failures = 0
            else:
                self._renew(worker, fault)
            arrived(worker.lanes)

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the processes and frees the memory."""
        del kwargs
        for worker in self._workers:
            worker.process.tell(b"C")
        for worker in self._workers:
            worker.process.end(patience_s=_CLOSE_S)
        self._workers = []
        if self._transfer is not None:
            self._transfer.close()
            self._transfer = None
        if self._board is not None:
            self._board.close()
            self._board = None

    def __del__(self) -> None:
        if getattr(self, "_board", None) is not None:
            self.close()

    # ---- Snapshots: what a simulator that cannot be copied allows --------------------------------------------------

    def clone_lanes(self, lanes: Sequence[int] | None = None) -> list[bytes]:
        """Returns each lane's seed, number, episode and last observation; a simulator itself cannot be copied."""
        board = self._open_board()
        return [
            _SNAPSHOT.pack(
                _SNAPSHOT_MAGIC,
                int(board.seeds[lane]),
                int(board.env_ids[lane]),
                int(board.episodes[lane]),
                int(board.steps[lane]),
                bool(board.ended[lane]),
            )
            + board.observations[lane].tobytes()
            for lane in (range(self.num_envs) if lanes is None else lanes)
        ]

    def restore_lanes(self, snapshots: Sequence[bytes], lanes: Sequence[int] | None = None) -> None:
        """Takes lanes up after the episode of their snapshot.

        The interrupted episodes are truncated by the next step, which shows their last observation again (with
        SameStep in `final_obs`); the lanes then go on with the next episode of their seed and number.
        """
        targets = check_lanes(snapshots, lanes)
        if not self._seeded:
            self.reset(seed=0)
        board = self._open_board()
        size = _SNAPSHOT.size + board.observations[0].nbytes
        for lane, snapshot in zip(targets, snapshots, strict=True):
            if len(snapshot) != size or not snapshot.startswith(_SNAPSHOT_MAGIC):
                raise UserError("this is no snapshot of a lane of such an environment")
            _, seed, env_id, episode, steps, ended = _SNAPSHOT.unpack_from(snapshot)
            board.seeds[lane], board.env_ids[lane] = seed, env_id
            board.episodes[lane], board.steps[lane] = episode, steps
            observation = np.frombuffer(snapshot, board.observations.dtype, offset=_SNAPSHOT.size)
            board.observations[lane] = observation.reshape(board.observations.shape[1:])
            board.ended[lane] = ended
            self._restored[lane] = not ended

    def _end_restored(self, board: Any) -> None:
        """Truncates interrupted episodes; all other lanes wait for one step, which reports nothing new."""
        restored = self._restored
        board.rewards[:] = 0
        board.terminations[:] = False
        board.truncations[:] = restored
        board.ended |= restored
        if self.autoreset_mode == AutoresetMode.SAME_STEP:
            self._begin_next(self._workers, restored)
        restored[:] = False

    # ---- Arguments -----------------------------------------------------------------------------------------------

    def _open_board(self) -> Any:
        """Returns the board once no worker writes to it: a call before may have been interrupted, say by Ctrl-C."""
        if self._board is None:
            raise UserError("the environment is closed: make a new one")
        for worker in self._workers:
            if worker.process.owes_answer and (fault := self._answer(worker)) is not None:
                self._renew(worker, fault)
        return self._board

    def _infos(self) -> dict[str, Any]:
        rows = {"env_id": np.arange(self.num_envs, dtype=np.int32), "episode_steps": self._board.steps.copy()}
        return {key: self._to_output(row) for key, row in {**rows, "crashed": self._crashed.copy()}.items()}

    def _read_actions(self, actions: Any) -> None:
        on_host = actions.cpu() if self._transfer is not None and hasattr(actions, "cpu") else actions
        given, target = np.asarray(on_host), self._board.actions
        if given.shape != target.shape:
            raise UserError(f"actions have the shape {given.shape}, they must have {target.shape}")
        if given.dtype.kind not in ("fiu" if self.continuous else "iu"):
            raise UserError(
                f"actions are of type {given.dtype}, they must be {'numbers' if self.continuous else 'integers'}"
            )
        if self.continuous:
            if not np.isfinite(given).all():
                raise UserError("an action is not finite")
            given = np.clip(given, -1, 1)
        elif given.min() < 0 or given.max() >= self._shape.num_actions:
            raise UserError(f"an action is outside of 0 to {self._shape.num_actions - 1}")
        np.copyto(target, given, casting="same_kind")
