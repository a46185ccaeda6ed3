# SPDX-License-Identifier: Apache-2.0
"""The network of an agent: encoder -> core -> head, over T steps of B environments at once.

The same call serves the actor (T = 1) and the learner (T = unroll length + 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from seed_hpc.config import ModelConfig
from seed_hpc.models.cores import FeedForwardCore, LSTMCore
from seed_hpc.models.encoders import build_encoder


class Inputs(NamedTuple):
    """What the network sees of T steps of B environments.

    Attributes:
        obs_TBX: Observations (T, B, ...); pictures are uint8.
        first_TB: bool, the observation is the first of an episode.
        previous_action_TB: int64, or float32 (T, B, A) where actions are continuous: what led here; 0 at first
            observations.
        previous_reward_TB: float32, the reward that came with the observation; 0 at first observations.
    """

    obs_TBX: Tensor
    first_TB: Tensor
    previous_action_TB: Tensor
    previous_reward_TB: Tensor


class Network(nn.Module):
    """Encoder, core and head.

    Args:
        config: Which encoder and core.
        observation_shape: Shape of one observation.
        num_actions: Number of actions.
        head: Builds the head from (number of features, number of actions).
        continuous: Actions are `num_actions` numbers instead of one of so many.
    """

    def __init__(
        self,
        config: ModelConfig,
        observation_shape: Sequence[int],
        num_actions: int,
        head: Callable[[int, int], nn.Module],
        *,
        continuous: bool = False,
    ) -> None:
        super().__init__()
        self.num_actions = num_actions
        self.continuous = continuous
        self.action_reward_input = config.action_reward_input
        self.encoder = build_encoder(config.encoder, observation_shape, config.hidden_size, config.layer_norm)
        num_features = int(self.encoder.num_features)  # type: ignore[arg-type]
        if config.action_reward_input:
            num_features += num_actions + 1
        self.core: FeedForwardCore | LSTMCore
        if config.core == "lstm":
            self.core = LSTMCore(num_features, config.lstm_size)
        else:
            self.core = FeedForwardCore(num_features)
        self.head = head(self.core.num_outputs, num_actions)
        if config.channels_last:
            self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def initial_state(self, num_envs: int) -> Tensor:
        """Returns the state (B, S) before an episode: zeros."""
        parameter = next(self.parameters())
        return torch.zeros(num_envs, self.core.state_size, dtype=parameter.dtype, device=parameter.device)

    def forward(self, inputs: Inputs, state_BS: Tensor) -> tuple[Any, Tensor]:
        """Runs T steps.

        Args:
            inputs: T steps of B environments.
            state_BS: State before them, see `initial_state`.

        Returns:
            The head's output with leading dimensions (T, B), and the state after the last step.
        """
        num_steps, num_envs = inputs.first_TB.shape
        features_TBD = self.encoder(inputs.obs_TBX.flatten(0, 1)).view(num_steps, num_envs, -1)
        if self.action_reward_input:
            action_TBA = inputs.previous_action_TB
            if not self.continuous:
                action_TBA = functional.one_hot(action_TBA, self.num_actions)
            action_TBA = action_TBA.to(features_TBD.dtype)
            reward_TB1 = inputs.previous_reward_TB.unsqueeze(-1).to(features_TBD.dtype)
            features_TBD = torch.cat((features_TBD, action_TBA, reward_TB1), dim=-1)
        outputs_TBD, state_BS = self.core(features_TBD, inputs.first_TB, state_BS)
        return self.head(outputs_TBD), state_BS
