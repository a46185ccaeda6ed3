# SPDX-License-Identifier: Apache-2.0
"""PPO: several clipped policy-gradient updates on one rollout, with generalised advantage estimates.

Sources: Schulman et al., "Proximal Policy Optimization Algorithms" (2017), https://arxiv.org/abs/1707.06347, whose
equation numbers are used; Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage
Estimation" (2016).

With V the value at the time of acting,

    delta_t = r_t + gamma_t V(x_t+1) - V(x_t)                                                                (12)
    A_t = delta_t + gamma_t lambda A_t+1                                                                     (11)
    R_t = A_t + V(x_t)

and the loss, as means over the valid transitions of a minibatch, with ratio_t = pi(a_t|x_t) / pi_old(a_t|x_t),

    policy     - min(ratio_t A_t, clip(ratio_t, 1 - epsilon, 1 + epsilon) A_t)                               (7)
    value      1/2 (R_t - V(x_t))^2
    entropy    - H(pi(.|x_t))                                                                                (9)

Advantages are normalised in each minibatch. Minibatches are random steps of the rollout; with a recurrent core, whole
unrolls of some environments. Episode ends: gamma_t = 0 where the game ended; a truncated episode bootstraps from V of
its true final observation, and the sum (11) is cut there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from seed_hpc.agents.agent import Action, Agent, LossOutput
from seed_hpc.agents.policies import CATEGORICAL, Policy, policy_of
from seed_hpc.agents.rollout import Rollout, Steps, masked_mean, shuffled_steps
from seed_hpc.config import option, require, require_at_least
from seed_hpc.models.network import Inputs


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """Options of `ppo`; defaults from table 5 of the paper (Atari) where it gives one."""

    splits_steps: ClassVar[bool] = True  # minibatches are steps, not environments; see `shuffled_steps`

    name: Literal["ppo"] = option("ppo", "the algorithm")
    discount: float = option(0.99, "gamma")
    gae_lambda: float = option(0.95, "lambda of the advantage estimates")
    clip: float = option(0.1, "epsilon: how far the ratio of policies may move with profit")
    value_cost: float = option(1.0, "weight of the value's loss")
    entropy_cost: float = option(0.01, "weight of the entropy bonus")
    epochs: int = option(3, "passes over a rollout")
    minibatches: int = option(4, "parts of a rollout; one update each")
    normalize_advantages: bool = option(True, "zero mean and unit variance in each minibatch")

    def __post_init__(self) -> None:
        for name in ("discount", "gae_lambda"):
            value = getattr(self, name)
            require(0.0 <= value <= 1.0, f"agent.{name}={value} is not allowed: give a number in [0, 1]")
        require(self.clip > 0.0, f"agent.clip={self.clip} is not allowed: give a number above 0")
        require_at_least("agent", self, 0, "value_cost", "entropy_cost")
        require_at_least("agent", self, 1, "epochs", "minibatches")


def gae_advantages(
    *, reward_TB: Tensor, discount_TB: Tensor, valid_TB: Tensor, value_TB: Tensor, gae_lambda: float
) -> Tensor:
    """Computes generalised advantage estimates, equations (11) and (12).

    Args:
        reward_TB: (T, B).
        discount_TB: gamma_t, 0 where the game ended, (T, B).
        valid_TB: 1.0, or 0.0 where the transition is void, (T, B).
        value_TB: V of all observations, (T+1, B).
        gae_lambda: Lambda.

    Returns:
        Advantages (T, B), 0 where the transition is void.
    """
    delta_TB = valid_TB * (reward_TB + discount_TB * value_TB[1:] - value_TB[:-1])
    trace_TB = valid_TB * discount_TB * gae_lambda
    advantage_B = torch.zeros_like(reward_TB[0])
    advantages: list[Tensor] = []
    for delta_B, trace_B in zip(reversed(delta_TB.unbind(0)), reversed(trace_TB.unbind(0)), strict=True):
        advantage_B = delta_B + trace_B * advantage_B
        advantages.append(advantage_B)
    return torch.stack(advantages[::-1])


def ppo_loss(network: nn.Module, batch: Steps, config: PPOConfig, policy: Policy = CATEGORICAL) -> LossOutput:
    """Computes the loss (9): a pure function of the network's parameters and the batch.

    Args:
        network: Maps (Inputs, state) to (PolicyValue, state).
        batch: Its `behaviour` holds "log_probability", "advantage" and "return", (T, B) each.
        config: Weights and clip.
        policy: What the network's numbers mean.
    """
    output, _ = network(batch.inputs, batch.state_BS)
    value_TB = output.value_TB
    valid_TB = batch.valid_TB.to(value_TB.dtype)
    log_ratio_TB = policy.log_probability(output.logits_TBA, batch.action_TB) - batch.behaviour["log_probability"]
    ratio_TB = (log_ratio_TB * valid_TB).exp()
    advantage_TB = batch.behaviour["advantage"]
    if config.normalize_advantages:
        mean = masked_mean(advantage_TB, valid_TB)
        variance = masked_mean((advantage_TB - mean).square(), valid_TB)
        advantage_TB = (advantage_TB - mean) / (variance.sqrt() + 1e-8)

    clipped_TB = ratio_TB.clamp(1.0 - config.clip, 1.0 + config.clip)
    policy_loss = -masked_mean(torch.minimum(ratio_TB * advantage_TB, clipped_TB * advantage_TB), valid_TB)
    value_loss = 0.5 * masked_mean((batch.behaviour["return"] - value_TB).square(), valid_TB)
    mean_entropy = masked_mean(policy.entropy(output.logits_TBA), valid_TB)
    loss = policy_loss + config.value_cost * value_loss - config.entropy_cost * mean_entropy

    metrics = {
        "loss": loss,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": mean_entropy,
        "mean_value": masked_mean(value_TB, valid_TB),
        # (ratio - 1) - log ratio: the low-variance estimate of KL(old, new) of http://joschu.net/blog/kl-approx.html
        "kl_divergence": masked_mean(ratio_TB - 1.0 - log_ratio_TB, valid_TB),
        "clip_fraction": masked_mean((ratio_TB != clipped_TB).to(value_TB.dtype), valid_TB),
    }
    return LossOutput(loss, {name: x.detach() for name, x in metrics.items()})


class PPO(Agent):
    """The PPO agent."""

    config: PPOConfig
    supports_continuous = True

    def build_head(self, num_features: int, num_actions: int) -> nn.Module:
        """Policy and value."""
        return policy_of(self.continuous).head(num_features, num_actions)

    def act(
        self, network: nn.Module, inputs: Inputs, state_BS: Tensor, generator: torch.Generator, *, greedy: bool = False
    ) -> Action:
        """Samples from the policy; records the log-probability of what it took, and the value."""
        policy = policy_of(self.continuous)
        output, state_BS = network(inputs, state_BS)
        logits_BA = output.logits_TBA[0]
        action_B = policy.mode(logits_BA) if greedy else policy.sample(logits_BA, generator)
        behaviour = {"log_probability": policy.log_probability(logits_BA, action_B), "value": output.value_TB[0]}
        return Action(action_B, behaviour, state_BS)

    def batches(self, network: nn.Module, rollout: Rollout, generator: torch.Generator) -> Iterator[Steps]:
        """Adds advantages and returns to the rollout, then yields it `epochs` times in `minibatches` parts."""
        with torch.no_grad():
            bootstrap, _ = network(rollout.final_inputs, rollout.final_state_BS)
            value_TB = torch.cat((rollout.behaviour["value"], bootstrap.value_TB))
            advantage_TB = gae_advantages(
                reward_TB=rollout.reward_TB,
                discount_TB=self.config.discount * (~rollout.terminated_TB).to(value_TB.dtype),
                valid_TB=rollout.valid_TB.to(value_TB.dtype),
                value_TB=value_TB,
                gae_lambda=self.config.gae_lambda,
            )
        targets = {"advantage": advantage_TB, "return": advantage_TB + rollout.behaviour["value"]}
        rollout = replace(rollout, behaviour={**rollout.behaviour, **targets})
        for _ in range(self.config.epochs):
            yield from shuffled_steps(
                rollout, self.config.minibatches, generator, recurrent=self.model.core != "feed_forward"
            )

    def loss(self, network: nn.Module, batch: Steps) -> LossOutput:
        """See `ppo_loss`."""
        return ppo_loss(network, batch, self.config, policy_of(self.continuous))
