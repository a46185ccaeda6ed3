# SPDX-License-Identifier: Apache-2.0
"""Policies over discrete and continuous actions: what the head's numbers mean, and what an update asks about them.

    categorical   logits (..., A) of A actions; an action is one int64
    gaussian      mean and log standard deviation (..., 2 A) of A independent numbers; an action is float32 (A,)

The standard deviations of `gaussian` are parameters that do not depend on the observation, as in Schulman et al.,
"Trust Region Policy Optimization" (2015). Environments clamp what lies outside [-1, 1]; updates see what was drawn.

Shapes: T steps, B environments, P numbers of the head, A as above.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor, nn

from seed_hpc.agents.agent import entropy, log_probability, sample_categorical
from seed_hpc.models.heads import GaussianPolicyValueHead, PolicyValueHead

_LOG_TWO_PI = math.log(2.0 * math.pi)


class Policy(Protocol):
    """A family of distributions over actions."""

    def head(self, num_features: int, num_actions: int) -> nn.Module:
        """Returns a head that gives the distribution's numbers and a value."""
        ...

    def sample(self, policy_BP: Tensor, generator: torch.Generator) -> Tensor:
        """Draws an action for each environment, without a decision of the host."""
        ...

    def mode(self, policy_BP: Tensor) -> Tensor:
        """Returns the most likely actions."""
        ...

    def log_probability(self, policy_TBP: Tensor, action_TB: Tensor) -> Tensor:
        """Returns the log-probability (discrete) or log-density (continuous) of actions."""
        ...

    def entropy(self, policy_TBP: Tensor) -> Tensor:
        """Returns the entropy in nats; of densities it may be negative."""
        ...


class Categorical:
    """One of A actions."""

    def head(self, num_features: int, num_actions: int) -> nn.Module:
        """See `Policy`."""
        return PolicyValueHead(num_features, num_actions)

    def sample(self, policy_BP: Tensor, generator: torch.Generator) -> Tensor:
        """See `Policy`."""
        return sample_categorical(policy_BP, generator)

    def mode(self, policy_BP: Tensor) -> Tensor:
        """See `Policy`."""
        return policy_BP.argmax(-1)

    def log_probability(self, policy_TBP: Tensor, action_TB: Tensor) -> Tensor:
        """See `Policy`."""
        return log_probability(policy_TBP, action_TB)

    def entropy(self, policy_TBP: Tensor) -> Tensor:
        """See `Policy`."""
        return entropy(policy_TBP)


class Gaussian:
    """A independent normal numbers."""

    def head(self, num_features: int, num_actions: int) -> nn.Module:
        """See `Policy`."""
        return GaussianPolicyValueHead(num_features, num_actions)

    def sample(self, policy_BP: Tensor, generator: torch.Generator) -> Tensor:
        """See `Policy`."""
        mean_BA, log_std_BA = policy_BP.chunk(2, -1)
        noise_BA = torch.empty_like(mean_BA).normal_(generator=generator)
        return mean_BA + log_std_BA.exp() * noise_BA

    def mode(self, policy_BP: Tensor) -> Tensor:
        """See `Policy`."""
        return policy_BP.chunk(2, -1)[0]

    def log_probability(self, policy_TBP: Tensor, action_TB: Tensor) -> Tensor:
        """See `Policy`."""
        mean_TBA, log_std_TBA = policy_TBP.chunk(2, -1)
        distance_TBA = (action_TB - mean_TBA) / log_std_TBA.exp()
        return -(0.5 * distance_TBA.square() + log_std_TBA + 0.5 * _LOG_TWO_PI).sum(-1)

    def entropy(self, policy_TBP: Tensor) -> Tensor:
        """See `Policy`."""
        _, log_std_TBA = policy_TBP.chunk(2, -1)
        return (log_std_TBA + 0.5 * (1.0 + _LOG_TWO_PI)).sum(-1)


CATEGORICAL: Policy = Categorical()
GAUSSIAN: Policy = Gaussian()


def policy_of(continuous: bool) -> Policy:
    """Returns the family for an action space."""
    return GAUSSIAN if continuous else CATEGORICAL
