# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc bench env --game ball`: environments that are no Atari games, beside conventional ones in the same run.

`ball` and `quadruped` are compared with the same equations in NumPy, all lanes at once; `order_book` with a gymnasium
environment in plain Python, in gymnasium's SyncVectorEnv. Repeats are interleaved as in `bench_env`. All get the same
random actions.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from seed_hpc.baselines.numpy_environments import NumpyBall, NumpyQuadruped
from seed_hpc.baselines.plain_order_book import PlainOrderBookEnv
from seed_hpc.envs.bench_env import (
    OURS,
    Engine,
    Measurement,
    Ratio,
    check_repeats,
    compare,
    document,
    integers,
    lines,
    measure,
    numbers_of_threads,
)
from seed_hpc.envs.environment_table import find_environment
from seed_hpc.envs.native_vector import NativeVectorEnv
from seed_hpc.errors import UserError
from seed_hpc.files import write_json

_SEED = 1


def _plain_order_books(num_envs: int) -> Any:
    return gymnasium.vector.SyncVectorEnv([PlainOrderBookEnv] * num_envs)


# Environment -> (name of the comparison, what makes `num_envs` lanes of it).
COMPARISONS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "ball": ("numpy", NumpyBall),
    "quadruped": ("numpy", NumpyQuadruped),
    "order_book": ("gymnasium", _plain_order_books),
}


class Steps(Engine):
    """A vector environment that plays the same random actions again and again."""

    def __init__(self, env: Any, actions: Any) -> None:
        self.env, self.actions = env, actions
        env.reset(seed=_SEED)

    def run(self, num_rounds: int) -> int:
        """See `Engine`; counts steps of environments."""
        step, actions = self.env.step, self.actions
        for i in range(num_rounds):
            step(actions[i % len(actions)])
        return num_rounds * int(self.env.num_envs)

    def close(self) -> None:
        """See `Engine`."""
        if hasattr(self.env, "close"):
            self.env.close()


def run(args: argparse.Namespace) -> int:
    """Measures all environments of `--game`, prints a table, returns 0."""
    for given, name in (
        (args.raw, "--raw"),
        (args.screens, "--screens"),
        (args.interpreter, "--interpreter"),
        (args.batch_sizes != "0", "--batch-sizes"),
    ):
        if given:
            raise UserError(f"{name} belongs to Atari games: leave it out")
    check_repeats(args)
    games = [find_environment(name.strip()).name for name in args.games.split(",")]
    sizes, threads = integers("--num-envs", args.num_envs, 1), numbers_of_threads(args)
    measurements: list[Measurement] = []
    ratios: list[Ratio] = []
    print(f"{args.repeats} repeats of {args.seconds:g} s; steps of environments a second")
    print(
        f"{'environment':18} {'envs':>5} {'threads':>7} {'engine':10} {'batch':>5} {'steps/s':>10} "
        f"{'steps/CPU s':>13}   seed-hpc is faster by (min median max)"
    )
    for game, num_envs, num_threads in itertools.product(games, sizes, threads):
        found = _measure_one(game, num_envs, num_threads, args)
        measurements += found
        ratios += compare(found)
        print(lines(found), flush=True)
    if args.json is not None:
        write_json(args.json, {**document(args, measurements, ratios, []), "frameskip": 1})
    return 0


def _measure_one(game: str, num_envs: int, num_threads: int, args: argparse.Namespace) -> list[Measurement]:
    ours = NativeVectorEnv(game, num_envs, num_threads=num_threads)
    generator = np.random.default_rng(_SEED)
    shape = (64, *(ours.action_space.shape or ()))
    actions: Any
    if ours.continuous:
        actions = generator.uniform(-1, 1, shape).astype(np.float32)
    else:
        actions = generator.integers(ours.single_action_space.n, size=shape)  # type: ignore[attr-defined]
    engines: dict[tuple[str, int], Engine] = {(OURS, 0): Steps(ours, actions)}
    if game in COMPARISONS and args.against != "none":
        name, make = COMPARISONS[game]
        engines[name, 0] = Steps(make(num_envs), actions)
    measurements = {
        key: Measurement(
            engine=key[0],
            game=game,
            num_envs=num_envs,
            batch_size=num_envs,
            num_threads=num_threads if key[0] == OURS else 1,
        )
        for key in engines
    }
    try:
        measure(engines, measurements, args.repeats, args.seconds)
    finally:
        for engine in engines.values():
            engine.close()
    return list(measurements.values())
