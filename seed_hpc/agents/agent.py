# SPDX-License-Identifier: Apache-2.0
"""What a learning algorithm offers to the closed loop.

    actor:    action = agent.act(network, inputs, state)          for each step of an unroll
    learner:  for batch in agent.batches(network, rollout, generator):   the rollout, parts of it, or replayed samples
                  output = agent.loss(network, batch)             pure: no state changes, gradients flow to `network`
                  ... backward, clip, optimizer step ...
                  agent.after_update(network, batch, output)      target networks, priorities

`act` runs inside a CUDA graph: it may neither allocate on the host nor depend on values on the device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from seed_hpc.agents.rollout import Rollout
from seed_hpc.config import ModelConfig
from seed_hpc.errors import UserError
from seed_hpc.models.network import Inputs, Network


class Batch(Protocol):
    """What the learner needs of a batch, whatever else is in it: a rollout, or replayed samples."""

    @property
    def policy_version(self) -> int:
        """How many updates the acting parameters had seen."""
        ...

    def to_dict(self) -> dict[str, Tensor]:
        """Returns all tensors by name, for a dump."""
        ...


class Action(NamedTuple):
    """What an agent does in one step of B environments.

    Attributes:
        action_B: int64 (B,), or float32 (B, A) where actions are continuous.
        behaviour: Tensors (B, ...) that the update wants to know later; the same names in every call.
        state_BS: State of the network's core after the step.
    """

    action_B: Tensor
    behaviour: dict[str, Tensor]
    state_BS: Tensor


class LossOutput(NamedTuple):
    """Result of an update's pure part.

    Attributes:
        loss: Scalar to descend.
        metrics: Scalars for the log, detached.
        details: Tensors that `Agent.after_update` needs, for example priorities.
    """

    loss: Tensor
    metrics: dict[str, Tensor]
    details: dict[str, Tensor] = {}  # noqa: RUF012 - NamedTuple defaults are shared, and never written to


class Agent(ABC):
    """A learning algorithm.

    Args:
        config: The agent's own options.
        model: The network's options.
        observation_shape: Shape of one observation.
        num_actions: Number of actions; of the numbers in an action where they are continuous.
        continuous: An action is float32 (num_actions,) instead of one integer.
        num_envs: Environments of the actor, B.
        device: Where it runs.

    Raises:
        UserError: Actions are continuous and the algorithm needs discrete ones.
    """

    supports_continuous = False

    def __init__(
        self,
        config: Any,
        model: ModelConfig,
        observation_shape: Sequence[int],
        num_actions: int,
        *,
        continuous: bool = False,
        num_envs: int,
        device: torch.device,
    ) -> None:
        if continuous and not self.supports_continuous:
            raise UserError(
                f"agent.name={config.name} chooses among discrete actions, those of this environment are continuous: "
                "choose ppo or vtrace"
            )
        self.config = config
        self.model = model
        self.observation_shape = tuple(observation_shape)
        self.num_actions = num_actions
        self.continuous = continuous
        self.num_envs = num_envs
        self.device = device

    def build_network(self) -> Network:
        """Returns a freshly initialised network on the agent's device."""
        network = Network(
            self.model, self.observation_shape, self.num_actions, self.build_head, continuous=self.continuous
        )
        return network.to(self.device)

    def prepare(self) -> None:  # noqa: B027 - most agents need nothing
        """Called once before training: loads what only the learner needs."""

    def zero_action(self, num_envs: int) -> Tensor:
        """Returns zeros in the shape and type of actions: int64 (B,), or float32 (B, A) where they are continuous."""
        if self.continuous:
            return torch.zeros(num_envs, self.num_actions, device=self.device)
        return torch.zeros(num_envs, dtype=torch.int64, device=self.device)

    @abstractmethod
    def build_head(self, num_features: int, num_actions: int) -> nn.Module:
        """Returns the head of the network."""

    @abstractmethod
    def act(
        self, network: nn.Module, inputs: Inputs, state_BS: Tensor, generator: torch.Generator, *, greedy: bool = False
    ) -> Action:
        """Chooses actions for one step.

        Args:
            network: The acting copy of the network.
            inputs: One step (T = 1).
            state_BS: State of the core before it.
            generator: Source of randomness, on the agent's device.
            greedy: Take the best action instead of exploring.
        """

    def batches(self, network: nn.Module, rollout: Rollout, generator: torch.Generator) -> Iterator[Batch]:
        """Yields what the learner updates on after each rollout; by default the rollout itself.

        Args:
            network: The learner's network, for targets; it changes between two batches.
            rollout: The newest experience.
            generator: Source of randomness for the order of minibatches, on the CPU.
        """
        del network, generator
        yield rollout

    @abstractmethod
    def loss(self, network: nn.Module, batch: Any) -> LossOutput:
        """Computes the loss of one of `batches`; changes nothing but what autograd records."""

    def after_update(self, network: nn.Module, batch: Any, output: LossOutput) -> None:
        """Called after each optimizer step."""
        del network, batch, output

    def set_progress(self, progress: float) -> None:
        """Called before each rollout with the share of training done, 0 to 1, for schedules."""
        del progress

    def memory_bytes(self) -> dict[str, int]:
        """Returns the memory of what the agent holds beside the network, by part."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Returns what a checkpoint must hold beyond the network."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        del state

    def experience_state_dict(self) -> dict[str, Any]:
        """Returns the experience that this process keeps, for its own checkpoint; the tensors may be views."""
        return {}

    def load_experience_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `experience_state_dict` returned."""
        del state


def sample_categorical(logits_BA: Tensor, generator: torch.Generator) -> Tensor:
    """Draws int64 (B,) from softmax(logits) by the Gumbel-max trick: no host decision, so a CUDA graph can hold it."""
    minus_gumbel_BA = torch.empty_like(logits_BA).exponential_(generator=generator).log()
    return (logits_BA - minus_gumbel_BA).argmax(-1)


def log_probability(logits_TBA: Tensor, action_TB: Tensor) -> Tensor:
    """Returns log softmax(logits) of the actions taken, (T, B)."""
    return torch.log_softmax(logits_TBA, -1).gather(-1, action_TB.unsqueeze(-1)).squeeze(-1)


def entropy(logits_TBA: Tensor) -> Tensor:
    """Returns the entropy of softmax(logits) in nats, (T, B)."""
    log_p_TBA = torch.log_softmax(logits_TBA, -1)
    return -(log_p_TBA.exp() * log_p_TBA).sum(-1)


def epsilon_greedy(q_BA: Tensor, epsilon: Tensor, generator: torch.Generator) -> Tensor:
    """Returns the best actions, int64 (B,), or uniformly random ones with probability `epsilon`, () or (B,)."""
    num_envs, num_actions = q_BA.shape
    random_B = torch.randint(num_actions, (num_envs,), generator=generator, device=q_BA.device)
    explore_B = torch.rand(num_envs, generator=generator, device=q_BA.device) < epsilon
    return torch.where(explore_B, random_B, q_BA.argmax(-1))
