# SPDX-License-Identifier: Apache-2.0
"""Measures an agent: one whole episode in each of N environments, no-op starts, against the random policy.

One episode per environment counts every episode once, however long it lasts. Taking the first N that end anywhere
would prefer short ones, which are the bad ones in most games.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seed_hpc.agents.agent import Agent
from seed_hpc.agents.distillation import Distillation, teacher_run
from seed_hpc.agents.replay_agent import ReplayAgent
from seed_hpc.config import Experiment
from seed_hpc.errors import UserError
from seed_hpc.models.network import Inputs, Network
from seed_hpc.report.statistics import bootstrap_difference, bootstrap_mean
from seed_hpc.training.checkpoint import load_checkpoint
from seed_hpc.training.environments import Environments, is_continuous, make_agent, make_environments, num_actions
from seed_hpc.training.human_scores import SOURCE, human_normalized, human_score

WHOLE_GAMES: dict[str, Any] = {"episodic_life": False, "life_loss_info": False}  # a score is that of a whole game

# Maps one step of n environments and the state (n, S) of the core before it to actions (n,) and the state after it.
Policy = Callable[[Inputs, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True, kw_only=True)
class Episodes:
    """Undiscounted, unclipped returns and agent steps, one of each per environment."""

    returns: list[float]
    steps: list[int]
    num_truncated: int

    def summary(self) -> dict[str, Any]:
        """Returns mean and bootstrap 95 % interval, as evaluation.json holds them."""
        interval = bootstrap_mean(self.returns)
        low, high = interval.low, interval.high
        return {
            "episodes": len(self.returns),
            "returns": self.returns,
            "mean": interval.estimate,
            "ci95": [interval.estimate if low is None else low, interval.estimate if high is None else high],
            "mean_steps": sum(self.steps) / len(self.steps),
            "truncated": self.num_truncated,
        }


class TrainedPolicy:
    """An agent with the parameters of a checkpoint.

    Args:
        agent: The agent.
        network: Its network.
        greedy: Take the best action instead of exploring.
        seed: Of the exploration.
    """

    def __init__(self, agent: Agent, network: Network, *, greedy: bool, seed: int) -> None:
        self.agent, self.network, self.greedy = agent, network.eval(), greedy
        self.generator = torch.Generator(agent.device).manual_seed(seed)
        self.state_size = network.core.state_size

    def __call__(self, inputs: Inputs, state_BS: Tensor) -> tuple[Tensor, Tensor]:
        """Chooses actions."""
        action = self.agent.act(self.network, inputs, state_BS, self.generator, greedy=self.greedy)
        return action.action_B, action.state_BS


class RandomPolicy:
    """Uniform over all actions; continuous ones lie in [-1, 1].

    Args:
        action_space: Of one environment.
        seed: Of the choice.
        device: Where actions are.
    """

    state_size = 0

    def __init__(self, action_space: Any, *, seed: int, device: torch.device) -> None:
        self.num_actions = num_actions(action_space)
        self.continuous = is_continuous(action_space)
        self.generator = torch.Generator(device).manual_seed(seed)

    def __call__(self, inputs: Inputs, state_BS: Tensor) -> tuple[Tensor, Tensor]:
        """Chooses actions."""
        shape = (inputs.first_TB.shape[1],)
        device = inputs.first_TB.device
        if self.continuous:
            uniform = torch.rand((*shape, self.num_actions), generator=self.generator, device=device)
            return 2.0 * uniform - 1.0, state_BS
        return torch.randint(self.num_actions, shape, generator=self.generator, device=device), state_BS


@torch.no_grad()
def play_episodes(
    envs: Environments,
    policy: TrainedPolicy | RandomPolicy,
    *,
    seed: int,
    clip_rewards: bool,
    on_step: Callable[[Tensor], None] | None = None,
) -> Episodes:
    """Plays one episode in each environment.

    Args:
        envs: N environments with autoreset `NextStep`; they are reset.
        policy: Chooses actions; it is asked about environments whose episode still runs only.
        seed: Of the environments.
        clip_rewards: Whether the network sees rewards clipped to [-1, 1], as in training.
        on_step: Called with the actions (N,) after each step.
    """
    num_envs = envs.num_envs
    obs_BX, _ = envs.reset(seed=seed)
    device = obs_BX.device
    state_BS = torch.zeros(num_envs, policy.state_size, device=device)
    action_B = _zero_actions(envs, device)
    reward_B = torch.zeros(num_envs, device=device)
    return_B = torch.zeros(num_envs, device=device)
    steps_B = torch.zeros(num_envs, dtype=torch.int64, device=device)
    truncated_B = torch.zeros(num_envs, dtype=torch.bool, device=device)
    running = torch.arange(num_envs, device=device)  # environments whose episode has not ended
    first = True
    while len(running):
        inputs = Inputs(
            obs_BX[running].unsqueeze(0),
            torch.full((1, len(running)), first, device=device),
            action_B[running].unsqueeze(0),
            reward_B[running].unsqueeze(0),
        )
        actions, state = policy(inputs, state_BS[running])
        state_BS[running] = state
        action_B[running] = actions
        obs_BX, raw_reward_B, terminated, truncated, _ = envs.step(action_B)
        if on_step is not None:
            on_step(action_B)
        return_B[running] += raw_reward_B[running]
        steps_B[running] += 1
        truncated_B[running] |= truncated[running]
        reward_B = raw_reward_B.clamp(-1, 1).float() if clip_rewards else raw_reward_B.float()
        running = running[~(terminated | truncated)[running]]
        first = False
    if hasattr(envs, "synchronize"):  # on CUDA: raises what went wrong in a step
        envs.synchronize()
    return Episodes(
        returns=return_B.tolist(),
        steps=steps_B.tolist(),
        num_truncated=int(truncated_B.sum()),
    )


@torch.no_grad()
def play_reference(envs: Any, *, seed: int) -> Episodes:
    """Plays one episode in each environment with the environment's own reference policy.

    Args:
        envs: A `seed_hpc.envs.native_vector.NativeVectorEnv` whose environment has such a policy.
        seed: Of the environments: the same as for an agent gives it the same episodes' beginnings.
    """
    observation, _ = envs.reset(seed=seed)
    running = torch.ones(envs.num_envs, dtype=torch.bool)
    return_B, steps_B = torch.zeros(envs.num_envs), torch.zeros(envs.num_envs, dtype=torch.int64)
    truncated_B = torch.zeros_like(running)
    while running.any():
        observation, reward_B, terminated, truncated, _ = envs.step(envs.reference_actions())
        return_B += reward_B * running
        steps_B += running
        truncated_B |= truncated & running
        running &= ~(terminated | truncated)
    del observation
    return Episodes(returns=return_B.tolist(), steps=steps_B.tolist(), num_truncated=int(truncated_B.sum()))


def _zero_actions(envs: Environments, device: torch.device) -> Tensor:
    space = envs.single_action_space
    if is_continuous(space):
        return torch.zeros(envs.num_envs, num_actions(space), device=device)
    return torch.zeros(envs.num_envs, dtype=torch.int64, device=device)


def load_policy(
    experiment: Experiment, checkpoint: Path, envs: Environments, device: torch.device
) -> tuple[TrainedPolicy, dict[str, Any]]:
    """Returns the trained policy and the checkpoint it came from."""
    state = load_checkpoint(checkpoint, lazily=True)  # a replay in it must not go to the device
    agent = make_agent(experiment, envs, device)
    network = agent.build_network()
    network.load_state_dict(state["learner"]["network"])
    agent.load_state_dict(state["learner"]["agent"])  # how it explores where actions are drawn
    options = experiment.evaluation
    # The ladder of epsilons is for collecting experience; evaluation has an epsilon of its own.
    greedy = options.policy == "greedy" or isinstance(agent, ReplayAgent)
    return TrainedPolicy(agent, network, greedy=greedy, seed=options.seed), state


def evaluate(experiment: Experiment, checkpoint: Path, device: torch.device) -> dict[str, Any]:
    """Measures a checkpoint and the random policy.

    Args:
        experiment: Environments and section `evaluation`.
        checkpoint: File of the parameters.
        device: Where to run.

    Returns:
        What evaluation.json holds.
    """
    options, game = experiment.evaluation, experiment.env.game
    clip = experiment.env.reward_clipping
    trained, policy, state = play_trained(experiment, checkpoint, device)

    envs = make_environments(experiment.env, num_envs=options.random_episodes, device=device, **WHOLE_GAMES)
    random = RandomPolicy(envs.single_action_space, seed=options.seed, device=device)
    untrained = play_episodes(envs, random, seed=options.seed, clip_rewards=clip)
    has_reference = getattr(getattr(envs, "info", None), "has_reference_policy", False)
    envs.close()
    reference = _compare_with_reference(experiment, trained) if has_reference else None

    summary = trained.summary()
    of_teacher = {}
    if isinstance(policy.agent, Distillation):
        of_teacher = compare_with_teacher(experiment, policy, trained, device)
    return {
        "game": game,
        **summary,
        "random": untrained.summary(),
        "reference": reference,
        "human": human_score(game),
        "human_normalized": human_normalized(game, summary["mean"]),
        "human_source": SOURCE if human_score(game) is not None else None,
        "policy": options.policy,
        "seed": options.seed,
        "noop_max": experiment.env.noop_max,
        "repeat_action_probability": experiment.env.repeat_action_probability,
        "checkpoint": checkpoint.name,
        "frames": int(state["statistics"]["agent_steps"]) * experiment.env.frameskip,
        **of_teacher,
    }


def play_trained(
    experiment: Experiment, checkpoint: Path, device: torch.device
) -> tuple[Episodes, TrainedPolicy, dict[str, Any]]:
    """Plays the evaluation's episodes; returns them, the policy and the checkpoint's content."""
    options = experiment.evaluation
    envs = make_environments(experiment.env, num_envs=options.episodes, device=device, **WHOLE_GAMES)
    policy, state = load_policy(experiment, checkpoint, envs, device)
    episodes = play_episodes(envs, policy, seed=options.seed, clip_rewards=experiment.env.reward_clipping)
    envs.close()
    return episodes, policy, state


def compare_with_teacher(
    experiment: Experiment, student: TrainedPolicy, episodes: Episodes, device: torch.device
) -> dict[str, Any]:
    """Returns the teacher's returns in the same environments, what the student lost of them, and both sizes.

    Raises:
        UserError: The teacher's run is gone, or is of another game.
    """
    taught, checkpoint = teacher_run(experiment.agent.teacher)
    if taught.env.game != experiment.env.game:
        raise UserError(f"the teacher {experiment.agent.teacher} plays {taught.env.game}, not {experiment.env.game}")
    evaluation = replace(experiment.evaluation, policy=taught.evaluation.policy)  # it acts as it was meant to
    teacher = replace(taught, env=experiment.env, evaluation=evaluation)
    teacher_episodes, policy, _ = play_trained(teacher, checkpoint, device)
    lost = bootstrap_difference(episodes.returns, teacher_episodes.returns)
    return {
        "parameters": _num_parameters(student.network),
        "teacher": {
            "run": experiment.agent.teacher,
            "parameters": _num_parameters(policy.network),
            **teacher_episodes.summary(),
        },
        "return_lost": {"mean": lost.estimate, "ci95": [lost.low, lost.high]},
    }


def _num_parameters(network: Network) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def _compare_with_reference(experiment: Experiment, trained: Episodes) -> dict[str, Any]:
    """Returns the reference policy's summary, and what the agent gains on it, episode by episode with equal seeds."""
    options, device = experiment.evaluation, torch.device("cpu")
    envs: Any = make_environments(experiment.env, num_envs=options.episodes, device=device)
    try:
        played = play_reference(envs, seed=options.seed)
    finally:
        envs.close()
    gains = [mine - theirs for mine, theirs in zip(trained.returns, played.returns, strict=True)]
    gain = bootstrap_mean(gains)
    low, high = gain.low, gain.high
    interval = [gain.estimate if low is None else low, gain.estimate if high is None else high]
    return {**played.summary(), "gain": {"mean": gain.estimate, "ci95": interval}}


def beats_reference(evaluation: dict[str, Any]) -> bool:
    """Whether the interval of the agent's gain on the environment's reference policy lies above 0."""
    reference = evaluation["reference"]
    return reference is not None and bool(reference["gain"]["ci95"][0] > 0.0)


def beats_random(evaluation: dict[str, Any]) -> bool:
    """Whether the agent's interval lies above that of the random policy."""
    return bool(evaluation["ci95"][0] > evaluation["random"]["ci95"][1])
