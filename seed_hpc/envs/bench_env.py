# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc bench env`: emulated frames a second, beside ale-py and EnvPool in the same process.

Every repeat runs all engines one after the other, so that a machine that slows down or warms up does not decide, and
gives one ratio for each competitor; the table shows their minimum, median and maximum. All engines get the same number
of threads, the same random actions and their own defaults for everything else (84 x 84 gray, stack 4, frame skip 4).
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from seed_hpc.envs.environment_table import is_environment
from seed_hpc.envs.games import find_game
from seed_hpc.envs.parity import import_ale_py
from seed_hpc.envs.roms import read_rom, rom_folder
from seed_hpc.errors import MissingDependencyError, UserError, nearest
from seed_hpc.files import new_file, write_json
from seed_hpc.training.run_directory import command_line, commit, hardware, versions

FRAMESKIP = 4
OURS = "seed-hpc"
COMPETITORS = ("ale-py", "envpool")


@dataclass(kw_only=True)
class Measurement:
    """One engine in one setting."""

    engine: str
    game: str
    num_envs: int  # 0: one machine, no preprocessing
    batch_size: int
    num_threads: int
    frames_per_s: list[float] = field(default_factory=list)  # one a repeat, wall time
    frames_per_cpu_s: list[float] = field(default_factory=list)  # one a repeat, CPU time of all threads

    @property
    def median(self) -> float:
        """Median frames a second."""
        return statistics.median(self.frames_per_s)


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """How many times faster we are than a competitor in one setting, each at its best batch size."""

    game: str
    num_envs: int
    num_threads: int
    against: str
    minimum: float
    median: float
    maximum: float
    cpu_median: float  # of the frames a CPU second


# ---- Engines -----------------------------------------------------------------------------------------------------


class Engine(ABC):
    """Something that emulates frames when told to."""

    # Rounds until the results of all that has begun are in. Lanes of an asynchronous engine go on while nobody waits.
    rounds_in_flight = 0

    @abstractmethod
    def run(self, num_rounds: int) -> int:
        """Steps `num_rounds` times and returns the number of emulated frames."""

    def close(self) -> None:
        """Frees threads and memory."""
        return


def rounds_in_flight(num_envs: int, batch_size: int) -> int:
    """Returns `Engine.rounds_in_flight` of a vector environment: none where all lanes step together."""
    return -(-num_envs // batch_size) if batch_size < num_envs else 0


class Vector(Engine):
    """A vector environment of ale-py or ours; both have the same interface."""

    def __init__(self, env: Any, seed: int) -> None:
        self.env = env
        generator = np.random.default_rng(seed)
        self._actions = generator.integers(env.single_action_space.n, size=(64, env.batch_size))
        self.rounds_in_flight = rounds_in_flight(env.num_envs, env.batch_size)
        env.reset(seed=seed)

    def run(self, num_rounds: int) -> int:
        """See `Engine`."""
        step, actions = self.env.step, self._actions
        for i in range(num_rounds):
            step(actions[i % 64])
        return num_rounds * FRAMESKIP * int(self._actions.shape[1])

    def close(self) -> None:
        """See `Engine`."""
        self.env.close()


class EnvPool(Engine):
    """EnvPool's vector environment."""

    def __init__(self, game: str, num_envs: int, batch_size: int, num_threads: int, seed: int) -> None:
        try:
            import envpool
        except ImportError as error:
            raise MissingDependencyError("the comparison with EnvPool needs it: `pip install envpool`") from error
        name = "".join(word.capitalize() for word in game.split("_"))
        self.env = envpool.make(
            f"{name}-v5",
            env_type="gymnasium",
            num_envs=num_envs,
            batch_size=batch_size or num_envs,
            num_threads=num_threads,
            seed=seed,
            reward_clip=True,
        )
        generator = np.random.default_rng(seed)
        self._actions = generator.integers(self.env.action_space.n, size=(64, batch_size or num_envs), dtype=np.int32)
        self.rounds_in_flight = rounds_in_flight(num_envs, batch_size or num_envs)
        self.env.async_reset()
        self._env_ids = self.env.recv()[-1]["env_id"]

    def run(self, num_rounds: int) -> int:
        """See `Engine`."""
        env, actions, env_ids = self.env, self._actions, self._env_ids
        for i in range(num_rounds):
            env.send(actions[i % 64], env_ids)
            env_ids = env.recv()[-1]["env_id"]
        self._env_ids = env_ids
        return num_rounds * FRAMESKIP * int(self._actions.shape[1])

    def close(self) -> None:
        """See `Engine`."""
        self.env.close()


class Machine(Engine):
    """One machine without preprocessing: act() of ale-py's or our ALEInterface, and a look at its screen if wanted."""

    def __init__(self, ale: Any, path: Path, seed: int, screens: bool) -> None:
        ale.setInt("random_seed", seed)
        ale.loadROM(path)
        ale.reset_game()
        self.ale = ale
        numbers = [action.value for action in ale.getMinimalActionSet()]
        self._actions: list[int] = np.random.default_rng(seed).choice(numbers, size=1024).tolist()
        self._screen = np.empty(ale.getScreenDims(), np.uint8) if screens else None

    def run(self, num_rounds: int) -> int:
        """See `Engine`."""
        ale, actions, screen = self.ale, self._actions, self._screen
        act, game_over, get_screen = ale.act, ale.game_over, ale.getScreenGrayscale
        for i in range(num_rounds):
            act(actions[i & 1023])
            if screen is not None:
                get_screen(screen)
            if game_over():
                ale.reset_game()
        return num_rounds


def make_engine(
    name: str, game: str, num_envs: int, batch_size: int, num_threads: int, folder: Path | None, screens: bool = False
) -> Engine:
    """Makes an engine, ready to run; num_envs = 0 means one machine without preprocessing, whose `screens` are read."""
    seed = 1
    if num_envs == 0:
        from seed_hpc.envs.interface import ALEInterface

        interface = ALEInterface() if name == OURS else import_ale_py().ALEInterface()
        return Machine(interface, rom_folder(folder) / f"{game}.bin", seed, screens)
    if name == OURS:
        from seed_hpc.envs.vector import AtariVectorEnv

        return Vector(
            AtariVectorEnv(game, num_envs, batch_size=batch_size, num_threads=num_threads, rom_folder=folder), seed
        )
    if name == "ale-py":
        import_ale_py()
        from ale_py.vector_env import AtariVectorEnv as AleVectorEnv

        return Vector(AleVectorEnv(game, num_envs, batch_size=batch_size, num_threads=num_threads), seed)
    return EnvPool(game, num_envs, batch_size, num_threads, seed)


# ---- Measuring ---------------------------------------------------------------------------------------------------


def time_rounds(engine: Engine, num_rounds: int) -> tuple[int, float, float]:
    """Returns emulated frames, wall seconds and CPU seconds of `num_rounds` rounds, in steady state."""
    engine.run(engine.rounds_in_flight)
    cpu, wall = time.process_time(), time.perf_counter()
    frames = engine.run(num_rounds)
    return frames, time.perf_counter() - wall, time.process_time() - cpu


def rounds_for(engine: Engine, seconds: float) -> int:
    """Warms an engine up and returns how many rounds take about `seconds`."""
    num_rounds = 1
    while True:
        _, wall, _ = time_rounds(engine, num_rounds)
        if wall > seconds / 4:
            return max(1, round(num_rounds * seconds / wall))
        num_rounds *= 2


def measure(
    engines: dict[tuple[str, int], Engine],
    measurements: dict[tuple[str, int], Measurement],
    repeats: int,
    seconds: float,
) -> None:
    """Runs all engines in turn, `repeats` times, about `seconds` each."""
    rounds = {key: rounds_for(engine, seconds) for key, engine in engines.items()}
    order = list(engines)
    for repeat in range(repeats):
        for key in order if repeat % 2 == 0 else reversed(order):
            frames, wall, cpu = time_rounds(engines[key], rounds[key])
            measurements[key].frames_per_s.append(frames / wall)
            measurements[key].frames_per_cpu_s.append(frames / max(cpu, 1e-9))


def compare(measurements: Sequence[Measurement]) -> list[Ratio]:
    """Returns our ratio to each competitor among measurements of one game and size, each at its best batch size."""
    best: dict[str, Measurement] = {}
    for measurement in measurements:
        known = best.get(measurement.engine)
        if known is None or measurement.median > known.median:
            best[measurement.engine] = measurement
    ours = best.pop(OURS)
    ratios = []
    for engine, theirs in best.items():
        wall = [a / b for a, b in zip(ours.frames_per_s, theirs.frames_per_s, strict=True)]
        cpu = [a / b for a, b in zip(ours.frames_per_cpu_s, theirs.frames_per_cpu_s, strict=True)]
        ratios.append(
            Ratio(
                game=ours.game,
                num_envs=ours.num_envs,
                num_threads=ours.num_threads,
                against=engine,
                minimum=min(wall),
                median=statistics.median(wall),
                maximum=max(wall),
                cpu_median=statistics.median(cpu),
            )
        )
    return ratios


def geometric_means(ratios: Sequence[Ratio]) -> list[dict[str, Any]]:
    """Returns the geometric mean of the medians over the games, for each number of environments, threads and rival."""
    groups: dict[tuple[int, int, str], list[Ratio]] = {}
    for ratio in ratios:
        groups.setdefault((ratio.num_envs, ratio.num_threads, ratio.against), []).append(ratio)
    mean: Callable[[list[float]], float] = statistics.geometric_mean
    return [
        {
            "num_envs": num_envs,
            "num_threads": num_threads,
            "against": against,
            "games": len(group),
            "geometric_mean": mean([ratio.median for ratio in group]),
            "cpu_geometric_mean": mean([ratio.cpu_median for ratio in group]),
            "worst_game": min(group, key=lambda ratio: ratio.median).game,
            "worst": min(ratio.median for ratio in group),
        }
        for (num_envs, num_threads, against), group in groups.items()
    ]


# ---- Command -----------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `seed-hpc bench env`."""
    parser.add_argument(
        "--game", "--games", dest="games", default="pong", help="games or environments, separated by commas"
    )
    parser.add_argument("--num-envs", default="64", help="numbers of environments, separated by commas (default 64)")
    parser.add_argument(
        "--batch-sizes",
        default="0",
        help="batch sizes to try, separated by commas; 0 = all environments; each engine's best one counts (default 0)",
    )
    parser.add_argument("--raw", action="store_true", help="one machine without preprocessing: act() against act()")
    parser.add_argument("--screens", action="store_true", help="with --raw: read the gray screen after each act()")
    parser.add_argument("--against", default="ale-py", help="ale-py, envpool, both or 'none' (default ale-py)")
    parser.add_argument(
        "--num-threads", default="0", help="threads of every engine, separated by commas (default 0 = processors)"
    )
    parser.add_argument("--repeats", type=int, default=7, help="interleaved repeats (default 7)")
    parser.add_argument("--seconds", type=float, default=1.0, help="about how long one repeat of an engine takes")
    parser.add_argument("--interpreter", action="store_true", help="do not use native code made from the cartridge")
    parser.add_argument("--rom-folder", type=Path, help="folder of <game>.bin files (default: the ale-py package)")
    parser.add_argument("--json", type=new_file, metavar="FILE", help="write all figures to FILE")


def run(args: argparse.Namespace) -> int:
    """Measures, prints a table, returns 0."""
    if all(is_environment(name.strip()) for name in args.games.split(",")):
        from seed_hpc.envs import bench_native

        return bench_native.run(args)
    games, sizes, batch_sizes, threads, engines = check_arguments(args)
    if args.interpreter:
        os.environ["SEED_HPC_TRANSLATION"] = "0"
    measurements: list[Measurement] = []
    ratios: list[Ratio] = []
    print(header(args))
    for game, num_envs, num_threads in itertools.product(games, sizes, threads):
        found = measure_setting(args, game, num_envs, batch_sizes, engines, num_threads)
        measurements += found
        ratios += compare(found)
        print(lines(found), flush=True)
    means = geometric_means(ratios)
    print(summary(means))
    if args.json is not None:
        write_json(args.json, document(args, measurements, ratios, means))
    return 0


def check_arguments(args: argparse.Namespace) -> tuple[list[str], list[int], list[int], list[int], list[str]]:
    """Returns games, numbers of environments, batch sizes, numbers of threads and engines.

    Raises:
        UserError: One of them is unknown or out of range, or a ROM image is missing.
    """
    games = [find_game(name).name for name in args.games.split(",")]
    for game in games:
        read_rom(find_game(game), args.rom_folder)
    sizes = [0] if args.raw else integers("--num-envs", args.num_envs, 1)
    batch_sizes = [0] if args.raw else integers("--batch-sizes", args.batch_sizes, 0)
    competitors = [] if args.against == "none" else args.against.split(",")
    for name in competitors:
        if name not in COMPETITORS:
            raise UserError(f"--against {name} is unknown{nearest(name, COMPETITORS)}: use {' or '.join(COMPETITORS)}")
    if args.raw and "envpool" in competitors:
        raise UserError("--raw compares act() of one machine, which EnvPool does not have: use --against ale-py")
    if args.screens and not args.raw:
        raise UserError("--screens goes with --raw: vector environments return their pictures anyway")
    check_repeats(args)
    return games, sizes, batch_sizes, numbers_of_threads(args), [OURS, *competitors]


def numbers_of_threads(args: argparse.Namespace) -> list[int]:
    """Returns the numbers of --num-threads; 0 stands for the processors that this process may use."""
    return [number or len(os.sched_getaffinity(0)) for number in integers("--num-threads", args.num_threads, 0)]


def check_repeats(args: argparse.Namespace) -> None:
    """Raises `UserError` where --repeats or --seconds is out of range."""
    if args.repeats < 1:
        raise UserError(f"--repeats is {args.repeats}, it must be at least 1")
    if not (args.seconds > 0 and math.isfinite(args.seconds)):
        raise UserError(f"--seconds is {args.seconds}, it must be more than 0")


def integers(option: str, text: str, least: int) -> list[int]:
    """Returns the integers of an option, separated by commas; raises `UserError` for what is none or below `least`."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise UserError(f"{option} is '{text}', it must be integers separated by commas") from error
    for number in numbers:
        if number < least:
            raise UserError(f"{option} is {number}, it must be at least {least}")
    return numbers


def measure_setting(
    args: argparse.Namespace,
    game: str,
    num_envs: int,
    batch_sizes: Sequence[int],
    engine_names: Sequence[str],
    num_threads: int,
) -> list[Measurement]:
    """Measures all engines with one game and number of environments."""
    keys = [(name, size) for name in engine_names for size in batch_sizes if size <= num_envs]
    engines: dict[tuple[str, int], Engine] = {}
    measurements = {
        (name, size): Measurement(
            engine=name, game=game, num_envs=num_envs, batch_size=size or num_envs, num_threads=num_threads
        )
        for name, size in keys
    }
    try:
        for name, size in keys:
            engines[name, size] = make_engine(name, game, num_envs, size, num_threads, args.rom_folder, args.screens)
        measure(engines, measurements, args.repeats, args.seconds)
    finally:
        for engine in engines.values():
            engine.close()
    return list(measurements.values())


# ---- Output ------------------------------------------------------------------------------------------------------


def header(args: argparse.Namespace) -> str:
    """Returns what holds for all lines, and the columns' names."""
    machine = "act() of one machine" + (" and its gray screen" if args.screens else "")
    what = machine if args.raw else f"vector environments, frame skip {FRAMESKIP}"
    return (
        f"{what}; {args.repeats} repeats of {args.seconds:g} s\n"
        f"{'game':18} {'envs':>5} {'threads':>7} {'engine':10} {'batch':>5} {'frames/s':>10} {'frames/CPU s':>13}   "
        "seed-hpc is faster by (min median max)"
    )


def lines(measurements: Sequence[Measurement]) -> str:
    """Returns a line on each engine."""
    ratios = {ratio.against: ratio for ratio in compare(measurements)}
    text: list[str] = []
    for measurement in measurements:
        cpu = statistics.median(measurement.frames_per_cpu_s)
        line = (
            f"{measurement.game:18} {measurement.num_envs or 1:5} {measurement.num_threads:7} {measurement.engine:10} "
            f"{measurement.batch_size:5} {measurement.median:10.0f} {cpu:13.0f}"
        )
        if ratio := ratios.pop(measurement.engine, None):
            line += f"   {ratio.minimum:6.2f} {ratio.median:6.2f} {ratio.maximum:6.2f}"
        text.append(line)
    return "\n".join(text)


def summary(means: Sequence[dict[str, Any]]) -> str:
    """Returns the geometric means."""
    text = [
        f"geometric mean over {mean['games']} games, {mean['num_envs'] or 1} environments, "
        f"{mean['num_threads']} threads, against {mean['against']}: "
        f"{mean['geometric_mean']:.2f} (by CPU time {mean['cpu_geometric_mean']:.2f}); "
        f"worst {mean['worst_game']} {mean['worst']:.2f}"
        for mean in means
    ]
    return "\n".join(text) or "nothing to compare with"


def document(
    args: argparse.Namespace,
    measurements: Sequence[Measurement],
    ratios: Sequence[Ratio],
    means: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """Returns all figures with what they depend on, as plain JSON values."""
    found = versions()
    for package in ("ale-py", "envpool"):
        found.setdefault(package, _version(package))
    return {
        "schema_version": 1,
        "command": command_line(),
        "commit": commit(),
        "versions": found,
        "hardware": hardware("cpu"),
        "repeats": args.repeats,
        "seconds": args.seconds,
        "screens": args.screens,
        "frameskip": 1 if args.raw else FRAMESKIP,
        "native_code": not args.interpreter,
        "measurements": [asdict(measurement) for measurement in measurements],
        "ratios": [asdict(ratio) for ratio in ratios],
        "geometric_means": list(means),
    }


def _version(package: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
