# SPDX-License-Identifier: Apache-2.0
"""What is checked and measured of environments on a device; `check.py` and the tests here use it.

Everything takes the name of the device, so that it can be rehearsed without one (tests/gpu/test_rehearsal.py).
"""

import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch

import seed_hpc
from seed_hpc.config import load_experiment
from seed_hpc.training.loop import ClosedLoop

_SETTINGS: tuple[dict[str, Any], ...] = (
    {"repeat_action_probability": 0.25},
    {"autoreset_mode": "SameStep", "rng": "ale", "episodic_life": True},
    {"autoreset_mode": "SameStep", "rng": "ale", "grayscale": False, "maxpool": False},
)


def difference(game: str, num_envs: int, num_steps: int, setting: int = 0, device: str = "cuda") -> str:
    """Steps lanes on the device and on the CPU; returns "" if all results are equal, else what differs first.

    Args:
        game: Name of the game.
        num_envs: Lanes.
        num_steps: Steps; episodes end after two thirds of them, and half of the lanes are reset in the middle.
        setting: 0 next-step resets and sticky actions; 1 same-step resets, lives, ale-py's random numbers; 2 colour.
        device: "cuda", "cuda:1".
    """
    options = {**_SETTINGS[setting], "max_num_frames_per_episode": 4 * num_steps * 2 // 3}
    tested = seed_hpc.make_vec(game, num_envs, device=device, **options)
    expected = seed_hpc.make_vec(game, num_envs, **options)
    try:
        random = np.random.default_rng(0)
        complaint = _compare(tested.reset(seed=3), expected.reset(seed=3), "the first reset")
        for step in range(num_steps):
            if complaint:
                break
            if step == num_steps // 2:
                mask = np.arange(num_envs) % 2 == 0
                results = (envs.reset(seed=11, options={"reset_mask": mask}) for envs in (tested, expected))
                complaint = _compare(*results, "a partial reset")
            actions = random.integers(expected.single_action_space.n, size=num_envs)
            complaint = complaint or _compare(tested.step(actions), expected.step(actions), f"step {step}")
        if not complaint and not np.array_equal(tested.ram(), expected.ram()):
            complaint = "RAM differs at the end"
        return complaint
    finally:
        tested.close()
        expected.close()


def environment_difference(name: str, num_envs: int, num_steps: int, device: str = "cuda") -> str:
    """As `difference`, for an environment that is no Atari game; episodes end after a third of the steps."""
    options = {"autoreset_mode": "SameStep", "max_episode_steps": num_steps // 3}
    tested = seed_hpc.make_vec(name, num_envs, device=device, **options)
    expected = seed_hpc.make_vec(name, num_envs, **options)
    try:
        random = np.random.default_rng(0)
        complaint = _compare(tested.reset(seed=3), expected.reset(seed=3), "the first reset")
        for step in range(num_steps):
            if complaint:
                break
            actions = random.integers(-(2**20), 2**20, size=expected.action_space.shape)
            if isinstance(expected.single_action_space, gymnasium.spaces.Box):
                actions = (actions / 2**20).astype(np.float32)
            else:
                actions %= expected.single_action_space.n
            complaint = _compare(tested.step(actions), expected.step(actions), f"step {step}")
        return complaint
    finally:
        tested.close()
        expected.close()


def _compare(found: Any, wanted: Any, when: str) -> str:
    *arrays, infos = found
    *wanted_arrays, wanted_infos = wanted
    names = ("observations", "rewards", "terminations", "truncations")
    pairs = dict(zip(names, zip(arrays, wanted_arrays, strict=True), strict=False))
    pairs |= {key: (infos[key], wanted_infos[key]) for key in wanted_infos if key != "final_obs"}
    for name, (a, b) in pairs.items():
        if not np.array_equal(a.cpu().numpy(), b):
            return f"{name} differ in {when}"
    if "final_obs" in wanted_infos:
        ended = wanted[2] | wanted[3]
        if not np.array_equal(infos["final_obs"].cpu().numpy()[ended], wanted_infos["final_obs"][ended]):
            return f"final observations differ in {when}"
    return ""


def actor_difference(experiment: str, device: str = "cuda", num_unrolls: int = 12) -> str:
    """Compares the rollouts of an actor that replays CUDA graphs with an eager one's, while their learners learn.

    Args:
        experiment: A shipped one.
        device: On a CPU there are no graphs, and both are the same.
        num_unrolls: More than an actor makes before it captures.

    Returns:
        "", or what differs first.
    """
    options = [f"training.device={device}", "env.num_envs=16", "training.rollouts_ahead=0"]
    if "apex" in experiment:
        options += ["agent.learning_starts=200", "agent.replay_capacity=2000"]
    captured, eager = (
        ClosedLoop(load_experiment(experiment, [*options, f"training.cuda_graph={graph}"])) for graph in (True, False)
    )
    try:
        for unroll in range(num_unrolls):
            for loop in (captured, eager):
                loop.learn_from(loop.actor.unroll())
                loop.check()
            rollouts = [loop.actor._buffers[unroll % len(loop.actor._buffers)] for loop in (captured, eager)]
            tensors = [{**vars(rollout), **rollout.inputs._asdict(), **rollout.behaviour} for rollout in rollouts]
            for name, tensor in tensors[0].items():
                if torch.is_tensor(tensor) and not torch.equal(tensor.nan_to_num(), tensors[1][name].nan_to_num()):
                    return f"{name} differs in unroll {unroll}"
            # Sums of a learner on a device have no fixed order: with equal networks the next rollouts can be equal.
            eager.learner.network.load_state_dict(captured.learner.network.state_dict())
            eager.check()
        if device.startswith("cuda") and not any(captured.actor._graphs):
            return "no graph was captured"
        return ""
    finally:
        captured.envs.close()
        eager.envs.close()


class Stepper:
    """Environments that step into tensors of their own, with random actions that are on the device already."""

    def __init__(self, game: str, num_envs: int, device: str = "cuda", **options: Any) -> None:
        self.envs = seed_hpc.make_vec(game, num_envs, device=device, **options)
        place = self.envs.reset(seed=0)[0].device
        self.num_frames = num_envs * int(options.get("frameskip", 4))  # a step; lanes that reset count as well
        generator = torch.Generator(place).manual_seed(0)
        num_actions = int(self.envs.single_action_space.n)
        self.actions = torch.randint(num_actions, (64, num_envs), generator=generator, device=place)
        self.observations = torch.empty(self.envs.observation_space.shape, dtype=torch.uint8, device=place)
        self.rewards = torch.empty(num_envs, dtype=torch.int32, device=place)
        self.ends = torch.empty(2, num_envs, dtype=torch.bool, device=place)
        if place.type == "cuda":
            torch.cuda.synchronize(place)  # whatever stream steps next finds the actions there

    def step(self, number: int) -> None:
        """Enqueues a step."""
        self.envs.step_into(self.actions[number % 64], self.observations, self.rewards, self.ends[0], self.ends[1])

    def results(self) -> list[torch.Tensor]:
        """Copies of what the last step wrote."""
        return [tensor.clone() for tensor in (self.observations, self.rewards, self.ends)]


def steps_per_second(run: Callable[[int], None], wait: Callable[[], None], seconds: float) -> float:
    """Runs steps for some time, a few at a time, and returns how many a second were done."""
    for number in range(4):
        run(number)
    wait()
    started, number = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - started) < seconds:
        for _ in range(4):
            run(number)
            number += 1
        wait()
    return number / elapsed


def throughput(game: str, num_envs: int, seconds: float, device: str = "cuda") -> dict[str, Any]:
    """Returns frames a second and memory of environments alone."""
    stepper = Stepper(game, num_envs, device)
    try:
        rate = steps_per_second(stepper.step, stepper.envs.synchronize, seconds)
        per_lane, shared = stepper.envs.memory_bytes()
        frames = round(rate * stepper.num_frames)
        return {"game": game, "num_envs": num_envs, "frames_per_second": frames, "lane_bytes": per_lane,
                "shared_bytes": shared}  # fmt: skip
    finally:
        stepper.envs.close()


def graph_against_eager(game: str, num_envs: int, seconds: float = 1.0) -> dict[str, Any]:
    """Captures eight steps in a CUDA graph; returns whether replays equal eager steps, and the speed of both."""
    eager, captured = Stepper(game, num_envs), Stepper(game, num_envs)
    stream = torch.cuda.Stream()
    try:
        with torch.cuda.stream(stream):  # as PyTorch asks: warm up on the stream of the capture
            captured.step(0)
            eager.step(0)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for number in range(8):
                captured.step(number)
        equal = True
        for _ in range(4):
            graph.replay()
            for number in range(8):
                eager.step(number)
            torch.cuda.synchronize()
            equal = equal and all(map(torch.equal, eager.results(), captured.results()))
        eager_rate = steps_per_second(eager.step, torch.cuda.synchronize, seconds)
        graph_rate = 8 * steps_per_second(lambda _: graph.replay(), torch.cuda.synchronize, seconds)
        return {"game": game, "num_envs": num_envs, "equal": equal, "eager_steps_per_second": eager_rate,
                "graph_steps_per_second": graph_rate}  # fmt: skip
    finally:
        eager.envs.close()
        captured.envs.close()
