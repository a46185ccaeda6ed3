# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc bench replay`: transitions appended, drawn and given priorities a second, beside torchrl and NumPy.

Every engine holds the same number of transitions and is full when it is timed. torchrl's
`TensorDictPrioritizedReplayBuffer` and the NumPy buffer store both observations of a transition and are handed n-step
returns that are ready; seed-hpc is handed rollouts, stores a frame once, and rebuilds stacks and returns when it draws.
Each repeat runs all engines one after the other and gives one ratio for each competitor. Two kinds of observations:

    numbers   16 bytes, so that bookkeeping counts; `--entries` transitions (default 1,000,000)
    frames    stacks of 4 frames of 84 x 84, so that memory counts; `--frame-entries` transitions
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seed_hpc.errors import MissingDependencyError, UserError, nearest
from seed_hpc.files import new_file, write_json
from seed_hpc.replay import PrioritizedReplay, Transitions
from seed_hpc.training.run_directory import command_line, commit, hardware, versions

OURS = "seed-hpc"
COMPETITORS = ("torchrl", "numpy")
OPERATIONS = ("append", "sample", "update")
ALPHA, BETA, DISCOUNT, N_STEPS = 0.6, 0.4, 0.99, 3
NUM_ENVS, UNROLL = 64, 20  # a rollout; one append is 1,280 transitions
SHAPES = {"numbers": ((16,), 1), "frames": ((4, 84, 84), 4)}  # observation, frames of a stack


@dataclass(kw_only=True)
class Measurement:
    """One operation of one engine in one setting."""

    engine: str
    observations: str
    entries: int
    batch_size: int
    operation: str
    transitions_per_s: list[float] = field(default_factory=list)  # one a repeat, wall time
    transitions_per_cpu_s: list[float] = field(default_factory=list)  # one a repeat, CPU time of all threads

    @property
    def median(self) -> float:
        """Median transitions a second."""
        return statistics.median(self.transitions_per_s)


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """How many times faster we are than a competitor at one operation."""

    observations: str
    batch_size: int
    operation: str
    against: str
    minimum: float
    median: float
    maximum: float
    cpu_median: float  # of the transitions a CPU second


# ---- Engines -----------------------------------------------------------------------------------------------------


class Engine(ABC):
    """A replay with room for `entries` transitions, and data to feed it."""

    def __init__(self, observations: str, entries: int, batch_size: int) -> None:
        self.shape, self.stack_num = SHAPES[observations]
        self.entries, self.batch_size = entries, batch_size
        generator = torch.Generator().manual_seed(1)
        self.priorities = [torch.empty(batch_size).exponential_(generator=generator) for _ in range(8)]
        self.calls = 0

    @abstractmethod
    def append(self) -> int:
        """Adds one rollout and returns its transitions."""

    @abstractmethod
    def sample(self) -> int:
        """Draws a batch with importance weights and returns its size."""

    @abstractmethod
    def update(self) -> int:
        """Gives the last batch new priorities and returns its size."""

    def fill(self) -> None:
        """Appends until the ring has gone round, then spreads the priorities."""
        for _ in range(math.ceil(self.entries / (NUM_ENVS * UNROLL)) + 1):
            self.append()
        for _ in range(math.ceil(min(self.entries, 200_000) / self.batch_size)):
            self.sample()
            self.update()

    def next_priorities(self) -> Tensor:
        """Returns one of eight sets of priorities, in turn."""
        self.calls += 1
        return self.priorities[self.calls % 8]


class Ours(Engine):
    """seed-hpc."""

    def __init__(self, observations: str, entries: int, batch_size: int) -> None:
        super().__init__(observations, entries, batch_size)
        self.replay = PrioritizedReplay(
            num_envs=NUM_ENVS,
            observation_shape=self.shape,
            capacity=entries,
            stack_num=self.stack_num,
            n_steps=N_STEPS,
            discount=DISCOUNT,
            priority_exponent=ALPHA,
            importance_exponent=BETA,
        )
        self.batch: Transitions | None = None  # its memory is used again
        # A view in which each stack repeats three frames of the one before, as those of the environments do.
        frame_shape = self.shape[1:] if self.stack_num > 1 else self.shape
        frames = torch.randint(256, (UNROLL + self.stack_num - 1, NUM_ENVS, *frame_shape), dtype=torch.uint8)
        obs = frames.unfold(0, self.stack_num, 1).movedim(-1, 2) if self.stack_num > 1 else frames
        no = torch.zeros(UNROLL, NUM_ENVS, dtype=torch.bool)
        self.rollout: dict[str, Tensor] = {
            "obs_TBX": obs.contiguous(),
            "action_TB": torch.randint(6, (UNROLL, NUM_ENVS)),
            "reward_TB": torch.randn(UNROLL, NUM_ENVS),
            "first_TB": no,
            "last_TB": no,
            "terminated_TB": no,
        }

    def append(self) -> int:
        """See `Engine`."""
        self.replay.append(**self.rollout)
        len(self.replay)  # takes them into the tree; the learner's next call would, and that is part of an append
        return NUM_ENVS * UNROLL

    def sample(self) -> int:
        """See `Engine`."""
        self.batch = self.replay.sample(self.batch_size, out=self.batch)
        return self.batch_size

    def update(self) -> int:
        """See `Engine`."""
        assert self.batch is not None
        self.replay.update(self.batch.index_N, self.batch.generation_N, self.next_priorities())
        return self.batch_size


def _transitions(shape: Sequence[int]) -> dict[str, Tensor]:
    """One rollout as whole transitions."""
    count = NUM_ENVS * UNROLL
    return {
        "obs": torch.randint(256, (count, *shape), dtype=torch.uint8),
        "next_obs": torch.randint(256, (count, *shape), dtype=torch.uint8),
        "action": torch.randint(6, (count,)),
        "reward": torch.randn(count),
        "discount": torch.full((count,), DISCOUNT**N_STEPS),
    }


class TorchRL(Engine):
    """torchrl's prioritized buffer over a contiguous storage in memory."""

    def __init__(self, observations: str, entries: int, batch_size: int) -> None:
        super().__init__(observations, entries, batch_size)
        try:
            from tensordict import TensorDict
            from torchrl.data import LazyTensorStorage, TensorDictPrioritizedReplayBuffer
        except ImportError as error:
            raise MissingDependencyError(
                f"the comparison with torchrl needs it ({error}): `pip install torchrl`, or --against numpy"
            ) from error
        try:
            self.buffer = TensorDictPrioritizedReplayBuffer(
                alpha=ALPHA,
                beta=BETA,
                storage=LazyTensorStorage(entries),
                batch_size=batch_size,
                priority_key="td_error",
            )
        except RuntimeError as error:  # its C++ part was built for another torch
            raise MissingDependencyError(
                f"the installed torchrl was not built for torch {torch.__version__}: install a pair that fits, build "
                "torchrl from source, or use --against numpy"
            ) from error
        count = NUM_ENVS * UNROLL
        self.rollout = TensorDict(_transitions(self.shape), batch_size=[count])

    def append(self) -> int:
        """See `Engine`."""
        self.buffer.extend(self.rollout)
        return NUM_ENVS * UNROLL

    def sample(self) -> int:
        """See `Engine`."""
        self.batch = self.buffer.sample()
        return self.batch_size

    def update(self) -> int:
        """See `Engine`."""
        self.buffer.update_priority(self.batch["index"], self.next_priorities())
        return self.batch_size


class NumPy(Engine):
    """A ring of arrays and a binary sum tree, all operations vectorised."""

    def __init__(self, observations: str, entries: int, batch_size: int) -> None:
        super().__init__(observations, entries, batch_size)
        self.rollout = {name: tensor.numpy() for name, tensor in _transitions(self.shape).items()}
        self.storage = {name: np.zeros((entries, *x.shape[1:]), x.dtype) for name, x in self.rollout.items()}
        self.batch = {name: np.empty((batch_size, *x.shape[1:]), x.dtype) for name, x in self.rollout.items()}
        self.num_leaves = 1 << (entries - 1).bit_length()
        self.tree = np.zeros(2 * self.num_leaves)  # node k has children 2k and 2k + 1, leaf i is node num_leaves + i
        self.head, self.max_priority = 0, 1.0
        self.generator = np.random.default_rng(2)

    def append(self) -> int:
        """See `Engine`."""
        count = NUM_ENVS * UNROLL
        index = (self.head + np.arange(count)) % self.entries
        for name, array in self.rollout.items():
            self.storage[name][index] = array
        self._set(index, np.full(count, self.max_priority))
        self.head = (self.head + count) % self.entries
        return count

    def sample(self) -> int:
        """See `Engine`."""
        count = self.batch_size
        target = (np.arange(count) + self.generator.random(count)) / count * self.tree[1]
        node = np.ones(count, np.int64)
        while node[0] < self.num_leaves:
            left = self.tree[2 * node]
            right = target >= left
            target = np.where(right, target - left, target)
            node = 2 * node + right
        self.index = np.minimum(node - self.num_leaves, self.entries - 1)
        leaf = self.tree[self.num_leaves + self.index]
        for name, array in self.storage.items():
            np.take(array, self.index, axis=0, out=self.batch[name], mode="clip")
        self.batch["weight"] = ((leaf / leaf.min()) ** -BETA).astype(np.float32)
        return count

    def update(self) -> int:
        """See `Engine`."""
        priority = self.next_priorities().numpy()
        self.max_priority = max(self.max_priority, float(priority.max()))
        self._set(self.index, priority)
        return self.batch_size

    def _set(self, index: NDArray[np.int64], priority: NDArray[Any]) -> None:
        node = index + self.num_leaves
        self.tree[node] = (priority.astype(np.float64) + 1e-6) ** ALPHA
        while node[0] > 1:
            node = np.unique(node >> 1)
            self.tree[node] = self.tree[2 * node] + self.tree[2 * node + 1]


ENGINES: dict[str, type[Engine]] = {OURS: Ours, "torchrl": TorchRL, "numpy": NumPy}


# ---- Measuring ---------------------------------------------------------------------------------------------------


def time_calls(call: Callable[[], int], count: int) -> tuple[int, float, float]:
    """Returns transitions, wall seconds and CPU seconds of `count` calls."""
    wall, cpu, transitions = time.perf_counter(), time.process_time(), 0
    for _ in range(count):
        transitions += call()
    return transitions, time.perf_counter() - wall, time.process_time() - cpu


def calls_for(call: Callable[[], int], seconds: float) -> int:
    """Returns how many calls take about `seconds`."""
    count = 1
    while True:
        _, wall, _ = time_calls(call, count)
        if wall > seconds / 4:
            return max(1, round(count * seconds / wall))
        count *= 2


def measure(engines: dict[str, Engine], observations: str, repeats: int, seconds: float) -> list[Measurement]:
    """Times all operations of all engines in turn, `repeats` times, about `seconds` each."""
    measurements: dict[tuple[str, str], Measurement] = {}
    counts: dict[tuple[str, str], int] = {}
    for name, engine in engines.items():
        engine.fill()
        for operation in OPERATIONS:
            counts[name, operation] = calls_for(getattr(engine, operation), seconds)
            measurements[name, operation] = Measurement(
                engine=name,
                observations=observations,
                entries=engine.entries,
                batch_size=engine.batch_size,
                operation=operation,
            )
    order = list(engines)
    for repeat in range(repeats):
        for operation in OPERATIONS:
            for name in order if repeat % 2 == 0 else reversed(order):
                transitions, wall, cpu = time_calls(getattr(engines[name], operation), counts[name, operation])
                measurements[name, operation].transitions_per_s.append(transitions / wall)
                measurements[name, operation].transitions_per_cpu_s.append(transitions / max(cpu, 1e-9))
    return list(measurements.values())


def compare(measurements: Sequence[Measurement]) -> list[Ratio]:
    """Returns our ratios to the competitors among the measurements of one setting."""
    ours = {measurement.operation: measurement for measurement in measurements if measurement.engine == OURS}
    ratios = []
    for theirs in measurements:
        if theirs.engine == OURS:
            continue
        own = ours[theirs.operation]
        wall = [a / b for a, b in zip(own.transitions_per_s, theirs.transitions_per_s, strict=True)]
        cpu = [a / b for a, b in zip(own.transitions_per_cpu_s, theirs.transitions_per_cpu_s, strict=True)]
        ratios.append(
            Ratio(
                observations=theirs.observations,
                batch_size=theirs.batch_size,
                operation=theirs.operation,
                against=theirs.engine,
                minimum=min(wall),
                median=statistics.median(wall),
                maximum=max(wall),
                cpu_median=statistics.median(cpu),
            )
        )
    return ratios


# ---- Command -----------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `seed-hpc bench replay`."""
    parser.add_argument("--observations", default="numbers,frames", help="numbers, frames or both (default both)")
    parser.add_argument("--entries", type=int, default=1_000_000, help="transitions held, of numbers (default 1000000)")
    parser.add_argument(
        "--frame-entries", type=int, default=20_000, help="transitions held, of frames; competitors take 56 KB for each"
    )
    parser.add_argument("--batch-sizes", default="512,65536", help="batch sizes of numbers (default 512,65536)")
    parser.add_argument("--frame-batch-sizes", default="512", help="batch sizes of frames (default 512)")
    parser.add_argument("--against", default="torchrl,numpy", help="torchrl, numpy, both or 'none' (default both)")
    parser.add_argument("--num-threads", type=int, default=0, help="threads of torch and ours (default: processors)")
    parser.add_argument("--repeats", type=int, default=7, help="interleaved repeats (default 7)")
    parser.add_argument("--seconds", type=float, default=0.5, help="about how long one repeat of an operation takes")
    parser.add_argument("--json", type=new_file, metavar="FILE", help="write all figures to FILE")


def run(args: argparse.Namespace) -> int:
    """Measures, prints a table, returns 0."""
    settings, names = check_arguments(args)
    if args.num_threads:
        torch.set_num_threads(args.num_threads)
    measurements: list[Measurement] = []
    ratios: list[Ratio] = []
    print(header(args))
    for observations, entries, batch_size in settings:
        engines = {name: ENGINES[name](observations, entries, batch_size) for name in names}
        found = measure(engines, observations, args.repeats, args.seconds)
        measurements += found
        ratios += compare(found)
        print(lines(found), flush=True)
    if args.json is not None:
        write_json(args.json, document(args, measurements, ratios))
    return 0


def check_arguments(args: argparse.Namespace) -> tuple[list[tuple[str, int, int]], list[str]]:
    """Returns settings (observations, entries, batch size) and engines.

    Raises:
        UserError: An option is unknown or out of range.
    """
    entries = {"numbers": args.entries, "frames": args.frame_entries}
    batch_sizes = {"numbers": args.batch_sizes, "frames": args.frame_batch_sizes}
    least = NUM_ENVS * UNROLL
    settings = []
    for kind in args.observations.split(","):
        if kind not in SHAPES:
            raise UserError(f"--observations {kind} is unknown{nearest(kind, SHAPES)}: use {' or '.join(SHAPES)}")
        if entries[kind] < least:
            raise UserError(f"{entries[kind]} entries are too few: a rollout alone has {least}")
        for text in batch_sizes[kind].split(","):
            if not text.isdecimal() or int(text) < 1:
                raise UserError(f"the batch size '{text}' is not allowed: give integers of at least 1, with commas")
            settings.append((kind, entries[kind], int(text)))
    competitors = [] if args.against == "none" else args.against.split(",")
    for name in competitors:
        if name not in COMPETITORS:
            raise UserError(f"--against {name} is unknown{nearest(name, COMPETITORS)}: use {' or '.join(COMPETITORS)}")
    if args.repeats < 1 or args.num_threads < 0:
        raise UserError("--repeats must be at least 1 and --num-threads at least 0")
    if not (args.seconds > 0 and math.isfinite(args.seconds)):
        raise UserError(f"--seconds is {args.seconds}, it must be more than 0")
    return settings, [OURS, *competitors]


# ---- Output ------------------------------------------------------------------------------------------------------


def header(args: argparse.Namespace) -> str:
    """Returns what holds for all lines, and the columns' names."""
    return (
        f"{torch.get_num_threads()} threads, {args.repeats} repeats of {args.seconds:g} s; "
        f"appends of {NUM_ENVS} x {UNROLL} transitions\n"
        f"{'observations':12} {'entries':>8} {'batch':>6} {'operation':9} {'engine':9} {'transitions/s':>14} "
        f"{'per CPU s':>12}   seed-hpc is faster by (min median max)"
    )


def lines(measurements: Sequence[Measurement]) -> str:
    """Returns a line on each operation and engine."""
    ratios = {(ratio.operation, ratio.against): ratio for ratio in compare(measurements)}
    text = []
    for item in sorted(measurements, key=lambda item: OPERATIONS.index(item.operation)):
        cpu = statistics.median(item.transitions_per_cpu_s)
        line = (
            f"{item.observations:12} {item.entries:8} {item.batch_size:6} {item.operation:9} {item.engine:9} "
            f"{item.median:14.0f} {cpu:12.0f}"
        )
        if ratio := ratios.get((item.operation, item.engine)):
            line += f"   {ratio.minimum:6.2f} {ratio.median:6.2f} {ratio.maximum:6.2f}"
        text.append(line)
    return "\n".join(text)


def document(args: argparse.Namespace, measurements: Sequence[Measurement], ratios: Sequence[Ratio]) -> dict[str, Any]:
    """Returns all figures with what they depend on, as plain JSON values."""
    return {
        "schema_version": 1,
        "command": command_line(),
        "commit": commit(),
        "versions": {**versions(), **{name: _version(name) for name in ("torchrl", "tensordict")}},
        "hardware": hardware("cpu"),
        "num_threads": torch.get_num_threads(),
        "repeats": args.repeats,
        "seconds": args.seconds,
        "measurements": [asdict(measurement) for measurement in measurements],
        "ratios": [asdict(ratio) for ratio in ratios],
    }


def _version(package: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
