# SPDX-License-Identifier: Apache-2.0
"""Compares the emulator with ale-py, live and bit for bit; `parity_command` is its command line.

A comparison plays the same random actions on both and stops at the first difference, which it names: frame or step,
field, place and both values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seed_hpc.envs.games import find_game
from seed_hpc.envs.interface import ALEInterface
from seed_hpc.envs.roms import read_rom, rom_folder
from seed_hpc.errors import MissingDependencyError

# A new random action starts with this probability at each frame; the others repeat the last one, so that play gets
# further than jitter on the spot.
_NEW_ACTION = 0.5


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first place where both disagree."""

    frame: int  # frame of play, or step of the vector environment; from 1, 0 = right after the reset
    field: str  # "ram", "screen", "reward", ...
    where: str  # RAM address, pixel, lane; empty for a single number
    ale_py: Any
    seed_hpc: Any

    def __str__(self) -> str:
        place = f" at {self.where}" if self.where else ""
        return f"frame {self.frame}, {self.field}{place}: ale-py {self.ale_py}, seed-hpc {self.seed_hpc}"


@dataclass(kw_only=True)
class Comparison:
    """What one comparison covered and found."""

    game: str
    kind: str  # "machine" or "vector"
    seed: int
    variant: str = ""  # mode and difficulty, or the name of a set of options
    frames: int = 0  # frames (machine) or steps of all lanes (vector) that were compared
    episodes: int = 0  # resets during play
    rewards: int = 0  # frames with a reward
    ale_py_s: float = 0.0  # time in ale-py's act()
    seed_hpc_s: float = 0.0  # time in our act()
    difference: Difference | None = None
    error: str | None = None  # the comparison could not be carried out
    notes: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether all that was planned has been compared and found equal."""
        return self.difference is None and self.error is None


def first_difference(frame: int, name: str, expected: NDArray[Any], found: NDArray[Any]) -> Difference | None:
    """Returns the first place where two arrays of one shape differ, or None.

    Args:
        frame: Frame or step, for the message.
        name: Field, for the message.
        expected: ale-py's.
        found: Ours.
    """
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return Difference(
            frame=frame,
            field=name,
            where="shape and dtype",
            ale_py=f"{expected.shape} {expected.dtype}",
            seed_hpc=f"{found.shape} {found.dtype}",
        )
    if np.array_equal(expected, found):
        return None
    index = tuple(int(i) for i in np.argwhere(expected != found)[0])
    return Difference(
        frame=frame,
        field=name,
        where=_place(name, index),
        ale_py=expected[index].item(),
        seed_hpc=found[index].item(),
    )


def _place(name: str, index: tuple[int, ...]) -> str:
    if name == "ram":
        return f"address ${0x80 + index[0]:02x}"
    if name == "screen":
        return f"pixel x={index[1]} y={index[0]}"
    if name in ("observation", "final_obs"):
        lane, plane, y, x, *channel = index
        suffix = f" channel={channel[0]}" if channel else ""
        return f"lane {lane} plane {plane} pixel x={x} y={y}{suffix}"
    return f"lane {index[0]}" if index else ""


def import_ale_py() -> Any:
    """Returns the ale_py module with its messages off.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        import ale_py
    except ImportError as error:
        raise MissingDependencyError("the comparison needs ale-py: `pip install ale-py`") from error
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    return ale_py


def random_actions(actions: list[int], num_frames: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Returns `num_frames` action numbers: uniform choices, each held for two frames on average."""
    choices = generator.choice(np.array(actions), size=num_frames)
    starts = generator.random(num_frames) < _NEW_ACTION
    starts[0] = True
    return np.asarray(choices[np.maximum.accumulate(np.where(starts, np.arange(num_frames), 0))])


# ---- One machine -------------------------------------------------------------------------------------------------


class MachinePair:
    """The same game on both sides, moved in step and compared after every frame."""

    def __init__(self, game: str, seed: int, folder: Path | None = None) -> None:
        ale_py = import_ale_py()
        facts = find_game(game)
        read_rom(facts, folder)  # a wrong image is an error before ale-py sees it
        path = rom_folder(folder) / f"{facts.name}.bin"
        self.ale = ale_py.ALEInterface()
        self.ours = ALEInterface()
        for side in (self.ale, self.ours):
            side.setInt("random_seed", seed)
            side.loadROM(path)
        # ale-py's enumeration takes longer to look up than an act() of ours takes; use plain numbers.
        self._ram = np.empty(128, dtype=np.uint8), np.empty(128, dtype=np.uint8)
        self._screen = np.empty(self.ours.getScreenDims(), dtype=np.uint8)

    def compare(self, frame: int, rewards: tuple[int, int] = (0, 0)) -> Difference | None:
        """Returns the first difference in anything that can be seen, or None."""
        ale, ours = self.ale, self.ours
        numbers = (
            ("reward", *rewards),
            ("lives", ale.lives(), ours.lives()),
            ("game_over", ale.game_over(), ours.game_over()),
            ("truncated", ale.game_truncated(), ours.game_truncated()),
            ("frame_number", ale.getFrameNumber(), ours.getFrameNumber()),
            ("episode_frame_number", ale.getEpisodeFrameNumber(), ours.getEpisodeFrameNumber()),
        )
        for name, expected, found in numbers:
            if expected != found:
                return Difference(frame=frame, field=name, where="", ale_py=expected, seed_hpc=found)
        ale.getRAM(self._ram[0])
        ours.getRAM(self._ram[1])
        ale.getScreen(self._screen)
        return first_difference(frame, "ram", *self._ram) or first_difference(
            frame, "screen", self._screen, ours.screen_view()
        )

    def reset(self) -> None:
        """Starts an episode on both sides."""
        self.ale.reset_game()
        self.ours.reset_game()

    def play(self, result: Comparison, actions: NDArray[np.int64]) -> None:
        """Plays `actions`, comparing after each, and adds to `result`; resets when an episode ends."""
        clock = time.perf_counter
        result.difference = self.compare(result.frames)
        for action in actions.tolist():
            if result.difference is not None:
                return
            start = clock()
            expected = self.ale.act(action)
            middle = clock()
            found = self.ours.act(action)
            result.seed_hpc_s += clock() - middle
            result.ale_py_s += middle - start
            result.frames += 1
            result.rewards += expected != 0
            result.difference = self.compare(result.frames, (expected, found))
            if result.difference is None and self.ale.game_over():
                self.reset()
                result.episodes += 1
                result.difference = self.compare(result.frames)


def compare_machine(game: str, seed: int, num_frames: int, folder: Path | None = None) -> Comparison:
    """Plays `num_frames` random actions with sticky actions (probability 0.25) in the default mode.

    Even seeds draw from the minimal action set, odd ones from all legal actions.
    """
    result = Comparison(game=game, kind="machine", seed=seed)
    pair = MachinePair(game, seed, folder)
    pair.reset()
    facts = find_game(game)
    actions = list(facts.minimal_actions if seed % 2 == 0 else facts.legal_actions)
    pair.play(result, random_actions(actions, num_frames, np.random.default_rng(seed)))
    return result


def compare_modes(game: str, seed: int, num_frames: int, folder: Path | None = None) -> Iterator[Comparison]:
    """Plays `num_frames` frames in every (mode, difficulty) of the game, one comparison each."""
    facts = find_game(game)
    generator = np.random.default_rng(seed)
    for mode in facts.modes:
        for difficulty in facts.difficulties:
            result = Comparison(game=game, kind="machine", seed=seed, variant=f"mode {mode} difficulty {difficulty}")
            pair = MachinePair(game, seed, folder)
            for side in (pair.ale, pair.ours):
                side.setMode(mode)
                side.setDifficulty(difficulty)
            pair.reset()
            pair.play(result, random_actions(list(facts.minimal_actions), num_frames, generator))
            yield result


# ---- The vector environment --------------------------------------------------------------------------------------

# Sets of options that together touch every one of them.
VECTOR_VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "same_step": {"autoreset_mode": "SameStep"},
    "episodic_life": {"episodic_life": True, "autoreset_mode": "SameStep", "noop_max": 5},
    "life_loss_info": {"life_loss_info": True, "reward_clipping": False},
    "sticky": {"repeat_action_probability": 0.25, "full_action_space": True},
    "colour": {"grayscale": False, "img_height": 100, "img_width": 90, "stack_num": 2},
    "native_size": {"img_height": 210, "img_width": 160, "stack_num": 1, "frameskip": 2},
    "odd_frameskip": {"frameskip": 5, "episodic_life": True, "use_fire_reset": False},
    "single_frames": {"frameskip": 1, "stack_num": 3, "max_num_frames_per_episode": 333},
    "no_maxpool": {"maxpool": False, "episodic_life": True, "max_num_frames_per_episode": 501},
    "continuous": {"continuous": True, "continuous_action_threshold": 0.3, "noop_max": 0},
    "truncation": {"max_num_frames_per_episode": 402, "autoreset_mode": "SameStep", "life_loss_info": True},
}


def compare_vector(
    game: str, seed: int, num_lanes: int, num_steps: int, variant: str = "default", folder: Path | None = None
) -> Comparison:
    """Plays random actions on both vector environments and compares everything that reset and step return.

    About every hundredth step some lanes are reset by mask, with and without new seeds.
    """
    import_ale_py()
    from ale_py.vector_env import AtariVectorEnv as AleVectorEnv

    from seed_hpc.envs.vector import AtariVectorEnv

    options = VECTOR_VARIANTS[variant]
    result = Comparison(game=game, kind="vector", seed=seed, variant=variant)
    read_rom(find_game(game), folder)
    theirs: Any = AleVectorEnv(game, num_lanes, num_threads=1, **options)
    ours: Any = AtariVectorEnv(game, num_lanes, num_threads=1, rom_folder=folder, **options)
    try:
        _play_vector(result, theirs, ours, num_steps)
    finally:
        theirs.close()
        ours.close()
    return result


def _play_vector(result: Comparison, theirs: Any, ours: Any, num_steps: int) -> None:
    generator = np.random.default_rng(result.seed)
    draw = _action_source(theirs, generator)
    expected = theirs.reset(seed=result.seed)
    result.difference = compare_tuples(0, expected, ours.reset(seed=result.seed))
    frameskip = VECTOR_VARIANTS[result.variant].get("frameskip", 4)
    episode_frames = expected[-1]["episode_frame_number"]
    for step in range(1, num_steps + 1):
        if result.difference is not None:
            return
        actions = draw()
        start = time.perf_counter()
        expected = theirs.step(actions)
        middle = time.perf_counter()
        found = ours.step(actions)
        result.seed_hpc_s += time.perf_counter() - middle
        result.ale_py_s += middle - start
        result.frames += theirs.num_envs
        result.rewards += int(np.count_nonzero(expected[1]))
        result.episodes += int(np.count_nonzero(expected[2] | expected[3]))
        played = expected[-1]["episode_frame_number"] - episode_frames
        restarted = (played <= 0) | (played > frameskip)
        episode_frames = expected[-1]["episode_frame_number"]
        result.difference = compare_tuples(step, expected, found, restarted)
        if result.difference is None and generator.random() < 0.01:
            result.difference, episode_frames = _reset_some_lanes(step, theirs, ours, generator)


def _action_source(env: Any, generator: np.random.Generator) -> Callable[[], NDArray[Any]]:
    if env.continuous:
        low, high = env.single_action_space.low, env.single_action_space.high
        return lambda: generator.uniform(low, high, (env.num_envs, 3)).astype(np.float32)
    return lambda: generator.integers(env.single_action_space.n, size=env.num_envs)


def _reset_some_lanes(
    step: int, theirs: Any, ours: Any, generator: np.random.Generator
) -> tuple[Difference | None, NDArray[Any]]:
    mask = generator.random(theirs.num_envs) < 0.5
    seeds = generator.integers(1 << 30, size=int(mask.sum())) if generator.random() < 0.5 else None
    arguments: dict[str, Any] = {"seed": seeds, "options": {"reset_mask": mask}}
    expected = theirs.reset(**arguments)
    return compare_tuples(step, expected, ours.reset(**arguments)), expected[-1]["episode_frame_number"]


def compare_tuples(
    step: int, expected: tuple[Any, ...], found: tuple[Any, ...], restarted: NDArray[np.bool_] | None = None
) -> Difference | None:
    """Returns the first difference between what two vector environments returned from reset() or step().

    Args:
        step: Number of the step, for the message.
        expected: ale-py's.
        found: Ours.
        restarted: Lanes that have begun an episode; in the others `final_obs` is undefined.
    """
    names = ("observation",) if len(expected) == 2 else ("observation", "reward", "terminated", "truncated")
    for name, theirs, ours in zip(names, expected[: len(names)], found[: len(names)], strict=True):
        if difference := first_difference(step, name, theirs, ours):
            return difference
    their_info, our_info = expected[-1], found[-1]
    if set(their_info) != set(our_info):
        return Difference(frame=step, field="info keys", where="", ale_py=sorted(their_info), seed_hpc=sorted(our_info))
    for key, theirs in their_info.items():
        ours = our_info[key]
        if key == "final_obs" and restarted is not None:
            theirs, ours = theirs.copy(), ours.copy()
            theirs[~restarted] = ours[~restarted] = 0
        if difference := first_difference(step, key, theirs, ours):
            return difference
    return None
