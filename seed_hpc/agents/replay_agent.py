# SPDX-License-Identifier: Apache-2.0
"""What agents that learn from replayed experience share: exploration, the ring, the replay ratio, a target network.

    rollout --append--> replay --sample--> loss --priorities--> replay        `replay_ratio` decides how often
    network --every target_update_period updates--> target network

The epsilon ladder is that of Horgan et al., "Distributed Prioritized Experience Replay" (2018), section 4.1:
environment i of N explores with epsilon_i = epsilon^(1 + alpha i / (N - 1)).
Shapes: T steps, B environments, N items of a batch, A actions.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from seed_hpc.agents.agent import Action, Agent, LossOutput, epsilon_greedy
from seed_hpc.agents.rollout import Rollout
from seed_hpc.config import option, require, require_at_least
from seed_hpc.models.heads import ActionValueHead
from seed_hpc.models.network import Inputs
from seed_hpc.profiling import ranges
from seed_hpc.replay import PrioritizedReplay, SequenceReplay
from seed_hpc.replay.ring import ReplayBatch


@dataclass(frozen=True, kw_only=True)
class ReplayConfig:
    """Options of both replay agents; the subclasses set the defaults of their papers."""

    discount: float = option(0.99, "gamma")
    n_steps: int = option(3, "rewards of a return")
    batch_size: int = option(512, "transitions or sequences of an update")
    replay_ratio: float = option(1.0, "transitions learned from for each one that the actor makes")
    replay_capacity: int = option(1_000_000, "steps kept, all environments of a process together")
    learning_starts: int = option(50_000, "steps of a process before its first update")
    stack_num: int = option(4, "frames of an observation that the next one repeats, env.stack_num; 1: none")
    priority_exponent: float = option(0.6, "alpha: an item is drawn in proportion to priority^alpha")
    importance_exponent: float = option(0.4, "beta of the importance weights")
    target_update_period: int = option(2500, "updates between two copies to the target network")
    epsilon_base: float = option(0.4, "exploration of the first environment of the ladder")
    epsilon_alpha: float = option(7.0, "how fast exploration falls along the ladder")
    evaluation_epsilon: float = option(0.001, "share of random actions where the best ones are asked for")
    dueling: bool = option(True, "dueling head (Wang et al., 2016)")
    save_replay: bool = option(True, "checkpoints hold the replay; without it a resumed run fills a new one first")

    def __post_init__(self) -> None:
        for name in ("discount", "epsilon_base", "evaluation_epsilon"):
            value = getattr(self, name)
            require(0.0 <= value <= 1.0, f"agent.{name}={value} is not allowed: give a number in [0, 1]")
        require_at_least(
            "agent", self, 1, "n_steps", "batch_size", "replay_capacity", "stack_num", "target_update_period"
        )
        require_at_least("agent", self, 0, "learning_starts", "priority_exponent", "importance_exponent")
        require_at_least("agent", self, 0, "epsilon_alpha")
        require(self.replay_ratio > 0, f"agent.replay_ratio={self.replay_ratio} must be above zero")


@dataclass(frozen=True)
class Replayed:
    """A drawn batch as the learner handles batches.

    Attributes:
        drawn: What the replay gave.
        policy_version: How many updates the parameters that acted had seen, on average over the batch.
    """

    drawn: Any
    policy_version: int = 0

    def inputs(self, start: int = 0, end: int | None = None) -> Inputs:
        """Returns what the network sees at the observations `start` to `end` of each item."""
        drawn = self.drawn
        fields = (drawn.obs_UNX, drawn.first_UN, drawn.previous_action_UN, drawn.previous_reward_UN)
        return Inputs(*(x[start:end] for x in fields))

    def to_dict(self) -> dict[str, Tensor]:
        """Returns all tensors by name, for a dump."""
        drawn: ReplayBatch = self.drawn
        return drawn.tensors()

    def num_bytes(self) -> int:
        """Returns the memory of all tensors."""
        return sum(x.nbytes for x in self.to_dict().values())


def epsilon_ladder(num_envs: int, base: float, alpha: float) -> Tensor:
    """Returns epsilon_i = base^(1 + alpha i / (N - 1)), float32 (N,)."""
    rung_N = torch.arange(num_envs, dtype=torch.float64) / max(1, num_envs - 1)
    return (base ** (1.0 + alpha * rung_N)).float()


def n_step_returns(
    *, reward_TB: Tensor, discount_TB: Tensor, valid_TB: Tensor, value_TB: Tensor, n_steps: int
) -> Tensor:
    """Computes r_t + gamma_t r_t+1 + ... + gamma_t ... gamma_t+n-1 V(x_t+n), cut where an episode or the batch ends.

    One step longer each round: G <- r_t + gamma_t G_t+1, with G = V at observations that nothing follows.

    Args:
        reward_TB: (T, B).
        discount_TB: gamma_t, 0 where the game ended, (T, B).
        valid_TB: bool, False where the transition is void, (T, B).
        value_TB: V of all observations, (T+1, B).
        n_steps: n.

    Returns:
        G (T, B); V where the transition is void.
    """
    return_TB = value_TB
    for _ in range(n_steps):
        longer_TB = torch.where(valid_TB, reward_TB + discount_TB * return_TB[1:], value_TB[:-1])
        return_TB = torch.cat((longer_TB, value_TB[-1:]))
    return return_TB[:-1]


def _finite(priority: Tensor) -> Tensor:
    """What is not finite ends the run, but on CUDA only at the next check, and until then the replay takes numbers."""
    return priority.nan_to_num(nan=0.0, posinf=0.0)


class ReplayAgent(Agent):
    """Base of the agents with a replay."""

    config: ReplayConfig

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        config = self.config
        self.epsilon_B = epsilon_ladder(self.num_envs, config.epsilon_base, config.epsilon_alpha).to(self.device)
        self.evaluation_epsilon = torch.full((), config.evaluation_epsilon, device=self.device)
        self.target: nn.Module | None = None
        self.replay: PrioritizedReplay | SequenceReplay | None = None
        self.num_updates = 0
        self._num_steps = 0  # of all environments, ever appended to this replay
        self._credit = 0.0  # updates that the replay ratio allows, not yet made
        self._version_R = torch.zeros(0, dtype=torch.int64)  # policy version of each row of the ring
        self._recent: dict[str, Tensor] = {}  # the newest steps, as far back as the oldest incomplete item
        self._saved_replay: dict[str, Any] | None = None  # of a checkpoint, until the first rollout is there

    # ---- For the subclasses --------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def transitions_per_item(self) -> int:
        """Transitions that an item of a batch gives to learn from."""

    @property
    @abstractmethod
    def reach(self) -> int:
        """Steps from the beginning of an item to its last observation."""

    @abstractmethod
    def make_replay(self, rollout: Rollout, seed: int) -> PrioritizedReplay | SequenceReplay:
        """Makes the replay for rollouts such as this one."""

    @abstractmethod
    def initial_priorities(self, recent: dict[str, Tensor], starts: list[int]) -> Tensor:
        """Computes the priorities of new items from the acting policy's own values (Horgan et al., algorithm 1).

        Args:
            recent: Steps (R, B) up to the newest: "q", "max_q", "reward", "terminated", "last".
            starts: Rows of `recent` at which the M items begin that are complete now.

        Returns:
            (M, B).
        """

    @abstractmethod
    def append(self, replay: Any, rollout: Rollout, priority_MB: Tensor) -> None:
        """Adds a rollout to the replay."""

    # ---- Acting --------------------------------------------------------------------------------------------------

    def build_head(self, num_features: int, num_actions: int) -> nn.Module:
        """Action values."""
        return ActionValueHead(num_features, num_actions, dueling=self.config.dueling)

    def act(
        self, network: nn.Module, inputs: Inputs, state_BS: Tensor, generator: torch.Generator, *, greedy: bool = False
    ) -> Action:
        """Acts epsilon-greedily, each environment with its own epsilon, and records Q of the action and of the best."""
        q_TBA, state_BS = network(inputs, state_BS)
        q_BA = q_TBA[0]
        epsilon = self.evaluation_epsilon if greedy else self.epsilon_B[: len(q_BA)]  # fewer where a plan is made
        action_B = epsilon_greedy(q_BA, epsilon, generator)
        q_B = q_BA.gather(-1, action_B.unsqueeze(-1)).squeeze(-1)
        return Action(action_B, {"q": q_B, "max_q": q_BA.amax(-1)}, state_BS)

    # ---- Learning ------------------------------------------------------------------------------------------------

    def batches(self, network: nn.Module, rollout: Rollout, generator: torch.Generator) -> Iterator[Replayed]:
        """Adds the rollout to the replay, then yields as many batches as the replay ratio allows."""
        if self.target is None:
            self.target = copy.deepcopy(network).requires_grad_(False)
        if self.replay is None:
            self.replay = self._first_replay(rollout, generator)
        with ranges.phase("replay"):
            self._append(rollout)
        if self._num_steps < self.config.learning_starts or len(self.replay) == 0:
            return
        learned_per_update = self.config.batch_size * self.transitions_per_item
        self._credit += rollout.num_steps * rollout.num_envs * self.config.replay_ratio / learned_per_update
        while self._credit >= 1.0:
            self._credit -= 1.0
            with ranges.phase("replay"):
                drawn = self._sample()
            yield drawn

    def after_update(self, network: nn.Module, batch: Replayed, output: LossOutput) -> None:
        """Gives the batch its new priorities; copies the network to the target now and then."""
        assert self.replay is not None
        assert self.target is not None
        drawn: ReplayBatch = batch.drawn
        with ranges.phase("replay"):
            self.replay.update(drawn.index_N, drawn.generation_N, _finite(output.details["priority"]))
        self.num_updates += 1
        if self.num_updates % self.config.target_update_period == 0:
            self.target.load_state_dict(network.state_dict())

    def _first_replay(self, rollout: Rollout, generator: torch.Generator) -> PrioritizedReplay | SequenceReplay:
        """Makes the replay, and fills it from the checkpoint that was loaded, if any."""
        saved, self._saved_replay = self._saved_replay, None
        seed = int(torch.randint(2**62, (), generator=generator)) if saved is None else saved["ring"]["options"]["seed"]
        replay = self.make_replay(rollout, seed)
        self._version_R = torch.zeros(replay.capacity // replay.num_envs, dtype=torch.int64)
        if saved is not None:
            replay.load_state_dict(saved["ring"])
            self._version_R.copy_(saved["versions"])
            self._recent = {name: x.to(self.device) for name, x in saved["recent"].items()}
            self._num_steps, self._credit = saved["num_steps"], saved["credit"]
        return replay

    def plan(self, network: nn.Module, rollout: Rollout) -> tuple[Replayed, int]:
        """Returns a batch without data and the bytes of the replay, for a plan of memory; afterwards only `loss` works.

        Args:
            network: On the device "meta".
            rollout: As the actor would deliver it, without data.
        """
        self.device = torch.device("meta")
        self.target = copy.deepcopy(network)
        replay = self.make_replay(rollout, seed=0)
        return Replayed(replay.blank_batch(self.config.batch_size)), replay.memory_bytes

    def _append(self, rollout: Rollout) -> None:
        assert self.replay is not None
        num_rows, head = len(self._version_R), self._num_steps // rollout.num_envs
        newest = {
            **{name: rollout.behaviour[name] for name in ("q", "max_q")},
            "reward": rollout.reward_TB,
            "terminated": rollout.terminated_TB,
            "last": rollout.last_TB[:-1],
        }
        recent = {name: torch.cat((self._recent[name], x)) if self._recent else x for name, x in newest.items()}
        offset, period = head + rollout.num_steps - len(recent["q"]), num_rows // self._items_per_lane()
        completed = range(max(0, head - self.reach), max(0, head + rollout.num_steps - self.reach))
        starts = [step - offset for step in completed if step % period == 0]
        self.append(self.replay, rollout, _finite(self.initial_priorities(recent, starts)))
        self._recent = {name: x[-self.reach :].clone() for name, x in recent.items()}
        self._version_R[(head + torch.arange(rollout.num_steps)) % num_rows] = rollout.policy_version
        self._num_steps += rollout.num_steps * rollout.num_envs

    def _sample(self) -> Replayed:
        assert self.replay is not None
        drawn = self.replay.sample(self.config.batch_size)
        items_per_lane = self._items_per_lane()
        row_N = (drawn.index_N % items_per_lane).cpu() * (len(self._version_R) // items_per_lane)
        return Replayed(drawn, round(float(self._version_R[row_N].double().mean())))

    def _items_per_lane(self) -> int:
        assert self.replay is not None
        return self.replay.num_items // self.replay.num_envs

    def memory_bytes(self) -> dict[str, int]:
        """Returns the memory of target network and replay; both are made when the first rollout is there."""
        target = [] if self.target is None else [*self.target.parameters(), *self.target.buffers()]
        return {
            "target network": sum(tensor.nbytes for tensor in target),
            "replay": 0 if self.replay is None else self.replay.memory_bytes,
        }

    # ---- Checkpoints ---------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Returns the target network and the number of updates."""
        return {
            "target": None if self.target is None else self.target.state_dict(),
            "num_updates": self.num_updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        if state["target"] is not None:
            self.target = self.build_network().requires_grad_(False)
            self.target.load_state_dict(state["target"])
        self.num_updates = int(state["num_updates"])

    def experience_state_dict(self) -> dict[str, Any]:
        """Returns the replay, unless options forbid it; each process has its own."""
        if not self.config.save_replay:
            return {}
        if self.replay is None:
            return self._saved_replay or {}
        return {
            "ring": self.replay.state_dict(),
            "versions": self._version_R,
            "recent": self._recent,
            "num_steps": self._num_steps,
            "credit": self._credit,
        }

    def load_experience_state_dict(self, state: dict[str, Any]) -> None:
        """Keeps the replay of a checkpoint until the first rollout tells what shape it must have."""
        self._saved_replay = state or None
