# SPDX-License-Identifier: Apache-2.0
"""IMPALA: an actor-critic that learns from slightly old experience, corrected by V-trace.

Source: Espeholt et al., "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures"
(2018), https://arxiv.org/abs/1802.01561. Equation numbers below are those of the paper.

With the importance weight pi(a|x) / mu(a|x) of the learner's policy pi against the acting policy mu,

    rho_t = min(clip_rho, pi/mu)                    c_t = lambda min(clip_c, pi/mu)
    delta_t = rho_t (r_t + gamma_t V(x_t+1) - V(x_t))
    v_t = V(x_t) + delta_t + gamma_t c_t (v_t+1 - V(x_t+1))                                        (1), remark 1

and the loss of section 4.2 is, as means over the valid transitions,

    policy     - rho_t log pi(a_t|x_t) (r_t + gamma_t v_t+1 - V(x_t))
    baseline   1/2 (v_t - V(x_t))^2
    entropy    - H(pi(.|x_t))

Episode ends: gamma_t = 0 where the game ended. A truncated episode keeps gamma_t = gamma and bootstraps from V of its
true final observation, which is in the rollout; the trace is cut there, since the transition that leaves it is void
(rho = c = 0, hence v = V). The paper sums over the batch; a mean keeps learning rates independent of its size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from seed_hpc.agents.agent import Action, Agent, LossOutput
from seed_hpc.agents.policies import CATEGORICAL, Policy, policy_of
from seed_hpc.agents.rollout import Rollout, masked_mean, shuffled_minibatches
from seed_hpc.config import option, require, require_at_least
from seed_hpc.models.network import Inputs


@dataclass(frozen=True, kw_only=True)
class VTraceConfig:
    """Options of `vtrace`; defaults from table D.3 of the paper where it gives one."""

    name: Literal["vtrace"] = option("vtrace", "the algorithm")
    discount: float = option(0.99, "gamma")
    baseline_cost: float = option(0.5, "weight of the baseline's loss")
    entropy_cost: float = option(0.01, "weight of the entropy bonus")
    clip_rho: float = option(1.0, "largest importance weight of a step")
    clip_c: float = option(1.0, "largest importance weight along a trace")
    trace_decay: float = option(1.0, "lambda; below 1 shortens the traces (remark 2)")
    epochs: int = option(1, "passes over a rollout; V-trace corrects for the older policy")
    minibatches: int = option(1, "parts of a rollout, split over environments; one update each")

    def __post_init__(self) -> None:
        require(0.0 <= self.discount <= 1.0, f"agent.discount={self.discount} is not allowed: give a number in [0, 1]")
        require(0.0 <= self.trace_decay <= 1.0, f"agent.trace_decay={self.trace_decay} must lie in [0, 1]")
        require_at_least("agent", self, 0, "baseline_cost", "entropy_cost", "clip_rho", "clip_c")
        require_at_least("agent", self, 1, "epochs", "minibatches")


class VTraceTargets(NamedTuple):
    """value_TB: v_t, what the baseline should be; advantage_TB: rho_t (r_t + gamma_t v_t+1 - V(x_t))."""

    value_TB: Tensor
    advantage_TB: Tensor


def vtrace_targets(
    *,
    log_ratio_TB: Tensor,
    reward_TB: Tensor,
    discount_TB: Tensor,
    valid_TB: Tensor,
    value_TB: Tensor,
    clip_rho: float = 1.0,
    clip_c: float = 1.0,
    trace_decay: float = 1.0,
) -> VTraceTargets:
    """Computes V-trace targets, equation (1).

    Args:
        log_ratio_TB: log pi(a|x) - log mu(a|x), (T, B).
        reward_TB: (T, B).
        discount_TB: gamma_t, 0 where the game ended, (T, B).
        valid_TB: 1.0, or 0.0 where the transition is void, (T, B).
        value_TB: V of all observations, (T+1, B).
        clip_rho: Largest weight of a step.
        clip_c: Largest weight along a trace.
        trace_decay: Lambda.

    Returns:
        Targets and advantages, (T, B) each; no gradient flows through them if the arguments carry none.
    """
    ratio_TB = log_ratio_TB.exp() * valid_TB
    rho_TB = ratio_TB.clamp_max(clip_rho)
    trace_TB = discount_TB * trace_decay * ratio_TB.clamp_max(clip_c)
    delta_TB = rho_TB * (reward_TB + discount_TB * value_TB[1:] - value_TB[:-1])

    correction_B = torch.zeros_like(reward_TB[0])  # v_t - V(x_t)
    corrections: list[Tensor] = []
    for delta_B, trace_B in zip(reversed(delta_TB.unbind(0)), reversed(trace_TB.unbind(0)), strict=True):
        correction_B = delta_B + trace_B * correction_B
        corrections.append(correction_B)
    target_TB = value_TB[:-1] + torch.stack(corrections[::-1])

    next_target_TB = torch.cat((target_TB[1:], value_TB[-1:]))
    advantage_TB = rho_TB * (reward_TB + discount_TB * next_target_TB - value_TB[:-1])
    return VTraceTargets(target_TB, advantage_TB)


def vtrace_loss(network: nn.Module, batch: Rollout, config: VTraceConfig, policy: Policy = CATEGORICAL) -> LossOutput:
    """Computes the loss of section 4.2: a pure function of the network's parameters and the batch.

    Args:
        network: Maps (Inputs, state) to (PolicyValue, state).
        batch: Its `behaviour` holds "log_probability" (T, B) of the actions under the acting policy.
        config: Weights and clips.
        policy: What the network's numbers mean.
    """
    output, _ = network(batch.inputs, batch.state_BS)
    logits_TBA, value_TB = output.logits_TBA[:-1], output.value_TB
    valid_TB = batch.valid_TB.to(value_TB.dtype)
    log_pi_TB = policy.log_probability(logits_TBA, batch.action_TB)
    log_ratio_TB = log_pi_TB.detach() - batch.behaviour["log_probability"]

    targets = vtrace_targets(
        log_ratio_TB=log_ratio_TB,
        reward_TB=batch.reward_TB.to(value_TB.dtype),
        discount_TB=config.discount * (~batch.terminated_TB).to(value_TB.dtype),
        valid_TB=valid_TB,
        value_TB=value_TB.detach(),
        clip_rho=config.clip_rho,
        clip_c=config.clip_c,
        trace_decay=config.trace_decay,
    )
    policy_loss = -masked_mean(log_pi_TB * targets.advantage_TB, valid_TB)
    baseline_loss = 0.5 * masked_mean((targets.value_TB - value_TB[:-1]).square(), valid_TB)
    mean_entropy = masked_mean(policy.entropy(logits_TBA), valid_TB)
    loss = policy_loss + config.baseline_cost * baseline_loss - config.entropy_cost * mean_entropy

    metrics = {
        "loss": loss,
        "policy_loss": policy_loss,
        "value_loss": baseline_loss,
        "entropy": mean_entropy,
        "mean_value": masked_mean(value_TB[:-1], valid_TB),
        "importance_ratio": masked_mean(log_ratio_TB.exp(), valid_TB),
    }
    return LossOutput(loss, {name: x.detach() for name, x in metrics.items()})


class VTrace(Agent):
    """The IMPALA agent."""

    config: VTraceConfig
    supports_continuous = True

    def build_head(self, num_features: int, num_actions: int) -> nn.Module:
        """Policy and value."""
        return policy_of(self.continuous).head(num_features, num_actions)

    def act(
        self, network: nn.Module, inputs: Inputs, state_BS: Tensor, generator: torch.Generator, *, greedy: bool = False
    ) -> Action:
        """Samples from the policy and records the log-probability of what it took."""
        policy = policy_of(self.continuous)
        output, state_BS = network(inputs, state_BS)
        logits_BA = output.logits_TBA[0]
        action_B = policy.mode(logits_BA) if greedy else policy.sample(logits_BA, generator)
        return Action(action_B, {"log_probability": policy.log_probability(logits_BA, action_B)}, state_BS)

    def batches(self, network: nn.Module, rollout: Rollout, generator: torch.Generator) -> Iterator[Rollout]:
        """Yields the rollout `epochs` times, in `minibatches` parts."""
        del network
        for _ in range(self.config.epochs):
            yield from shuffled_minibatches(rollout, self.config.minibatches, generator)

    def loss(self, network: nn.Module, batch: Rollout) -> LossOutput:
        """See `vtrace_loss`."""
        return vtrace_loss(network, batch, self.config, policy_of(self.continuous))
