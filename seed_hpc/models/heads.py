# SPDX-License-Identifier: Apache-2.0
"""Heads turn features into what an agent learns: a policy with a value, or action values.

Shapes: T steps, B environments, D features, A actions.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seed_hpc.models.encoders import initialize


class PolicyValue(NamedTuple):
    """logits_TBA: unnormalised log-probabilities of the actions, or what `seed_hpc.agents.policies` says of continuous
    ones; value_TB: expected discounted return.
    """

    logits_TBA: Tensor
    value_TB: Tensor


class PolicyValueHead(nn.Module):
    """Linear policy and value. The small first policy weights make it start near uniform."""

    def __init__(self, num_features: int, num_actions: int) -> None:
        super().__init__()
        self.policy = initialize(nn.Linear(num_features, num_actions), gain=0.01)
        self.value = initialize(nn.Linear(num_features, 1), gain=1.0)

    def forward(self, features_TBD: Tensor) -> PolicyValue:
        """Maps features to logits (T, B, A) and values (T, B), in float32."""
        return PolicyValue(
            logits_TBA=_at_least_float32(self.policy(features_TBD)),
            value_TB=_at_least_float32(self.value(features_TBD).squeeze(-1)),
        )


# exp(-0.5) = 0.6: first actions cover most of [-1, 1] and are seldom clamped.
INITIAL_LOG_STD = -0.5


class GaussianPolicyValueHead(nn.Module):
    """Linear mean and value, and one log standard deviation an action number. It starts near a zero mean."""

    def __init__(self, num_features: int, num_actions: int) -> None:
        super().__init__()
        self.mean = initialize(nn.Linear(num_features, num_actions), gain=0.01)
        self.log_std = nn.Parameter(torch.full((num_actions,), INITIAL_LOG_STD))
        self.value = initialize(nn.Linear(num_features, 1), gain=1.0)

    def forward(self, features_TBD: Tensor) -> PolicyValue:
        """Maps features to mean and log standard deviation (T, B, 2 A) and values (T, B), in float32."""
        mean_TBA = _at_least_float32(self.mean(features_TBD))
        log_std_TBA = _at_least_float32(self.log_std).expand_as(mean_TBA)
        return PolicyValue(
            logits_TBA=torch.cat((mean_TBA, log_std_TBA), -1),
            value_TB=_at_least_float32(self.value(features_TBD).squeeze(-1)),
        )


class ActionValueHead(nn.Module):
    """Action values, optionally as value plus advantage: dueling networks (Wang et al., 2016, equation 9).

    Args:
        num_features: D.
        num_actions: A.
        dueling: Q = V + A - mean(A), each with a hidden layer of `num_features` units.
    """

    def __init__(self, num_features: int, num_actions: int, *, dueling: bool = False) -> None:
        super().__init__()
        self.advantage: nn.Module
        self.value: nn.Module | None = None
        if dueling:
            self.advantage = _hidden_layer(num_features, num_actions)
            self.value = _hidden_layer(num_features, 1)
        else:
            self.advantage = initialize(nn.Linear(num_features, num_actions), gain=1.0)

    def forward(self, features_TBD: Tensor) -> Tensor:
        """Maps features to action values (T, B, A), in float32."""
        advantage_TBA = _at_least_float32(self.advantage(features_TBD))
        if self.value is None:
            return advantage_TBA
        value_TB1 = _at_least_float32(self.value(features_TBD))
        return value_TB1 + advantage_TBA - advantage_TBA.mean(-1, keepdim=True)


def _hidden_layer(num_features: int, num_outputs: int) -> nn.Sequential:
    return nn.Sequential(
        initialize(nn.Linear(num_features, num_features)),
        nn.ReLU(),
        initialize(nn.Linear(num_features, num_outputs), gain=1.0),
    )


def _at_least_float32(x: Tensor) -> Tensor:
    """Losses are computed in float32 even where the network ran in bf16 or fp16."""
    return x.float() if x.dtype.itemsize < 4 else x
