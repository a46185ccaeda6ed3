# SPDX-License-Identifier: Apache-2.0
"""R2D2: recurrent Q-learning from replayed sequences, with the core's stored state and a burn-in.

Source: Kapturowski et al., "Recurrent Experience Replay in Distributed Reinforcement Learning" (2019),
https://openreview.net/forum?id=r1lyTjAqYX, sections 2.3 and 3; value rescaling: Pohlen et al., "Observe and Look
Further" (2018), proposition A.2.

A sequence has burn_in + length transitions. Network and target network Q' start from the state that the actor's core
had, run over the burn-in without learning, and then over the rest:

    h(x) = sign(x) (sqrt(|x| + 1) - 1) + eps x
    G_t = h( r_t + ... + gamma^(k-1) r_t+k-1 + gamma^k h^-1( Q'(x_t+k, argmax_a Q(x_t+k, a)) ) )       section 2.3
    delta_t = G_t - Q(x_t, a_t),    loss = mean[ w 1/2 delta_t^2 ],    priority = eta max|delta| + (1 - eta) mean|delta|

with k = n, or fewer where an episode or the sequence ends. Episode ends inside of a sequence: the core's state is
cleared, nothing is bootstrapped where the game ended, Q' of the true final observation where it was cut off, and the
void transition that leaves a final observation counts nowhere. The paper does not clip rewards
(`env.reward_clipping=false`), since h is in clipping's place; the shipped experiments clip, as all others do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from seed_hpc.agents.agent import LossOutput
from seed_hpc.agents.replay_agent import ReplayAgent, ReplayConfig, Replayed, n_step_returns
from seed_hpc.agents.rollout import Rollout
from seed_hpc.config import option, require, require_at_least
from seed_hpc.replay import SequenceReplay, Sequences


@dataclass(frozen=True, kw_only=True)
class R2D2Config(ReplayConfig):
    """Options of `r2d2`; defaults of the paper, table 2, with a quarter of its replay.

    Sequences begin at the steps at which rollouts do: training.unroll_length is the paper's distance of 40.
    """

    name: Literal["r2d2"] = option("r2d2", "the algorithm")
    discount: float = option(0.997, "gamma")
    n_steps: int = option(5, "rewards of a return")
    batch_size: int = option(64, "sequences of an update")
    burn_in: int = option(40, "transitions that only bring the core's state up to date")
    length: int = option(80, "transitions of a sequence to learn from")
    eta: float = option(0.9, "weight of the largest error in a sequence's priority; the mean has the rest")
    rescale_epsilon: float = option(1e-3, "eps of the value rescaling h")
    learning_starts: int = option(100_000, "steps of a process before its first update")
    priority_exponent: float = option(0.9, "alpha: a sequence is drawn in proportion to priority^alpha")
    importance_exponent: float = option(0.6, "beta of the importance weights")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0.0 <= self.eta <= 1.0, f"agent.eta={self.eta} is not allowed: give a number in [0, 1]")
        require_at_least("agent", self, 0, "burn_in")
        require_at_least("agent", self, 1, "length")
        require(self.rescale_epsilon > 0, f"agent.rescale_epsilon={self.rescale_epsilon} must be above zero")


def rescale(x: Tensor, epsilon: float) -> Tensor:
    """h(x) = sign(x) (sqrt(|x| + 1) - 1) + eps x."""
    return x.sign() * ((x.abs() + 1.0).sqrt() - 1.0) + epsilon * x


def rescale_inverse(x: Tensor, epsilon: float) -> Tensor:
    """The x for which h(x) is given."""
    # Proposition A.2 takes the root of 1 + 4 eps (|x| + 1 + eps) and subtracts 1: in float32 that leaves three digits
    # for small eps. The same root, with numerator and denominator multiplied by its conjugate:
    absolute = x.abs()
    root = 2.0 * (absolute + 1.0 + epsilon) / (1.0 + (1.0 + 4.0 * epsilon * (absolute + 1.0 + epsilon)).sqrt())
    return x.sign() * (root.square() - 1.0)


def sequence_errors(
    *,
    q_TB: Tensor,
    bootstrap_TB: Tensor,
    reward_TB: Tensor,
    terminated_TB: Tensor,
    last_TB: Tensor,
    config: R2D2Config,
) -> Tensor:
    """Computes delta_t = G_t - Q(x_t, a_t), zero where the transition is void.

    Args:
        q_TB: Q of the actions taken, (T, B).
        bootstrap_TB: Q' of the best actions at all observations, (T+1, B).
        reward_TB: (T, B).
        terminated_TB: bool, the transition ended the game, (T, B).
        last_TB: bool, the observation ended an episode, (T+1, B).
        config: gamma, n and eps.
    """
    valid_TB = ~last_TB[:-1]
    return_TB = n_step_returns(
        reward_TB=reward_TB.to(bootstrap_TB.dtype),
        discount_TB=config.discount * (~terminated_TB).to(bootstrap_TB.dtype),
        valid_TB=valid_TB,
        value_TB=rescale_inverse(bootstrap_TB, config.rescale_epsilon),
        n_steps=config.n_steps,
    )
    return (rescale(return_TB, config.rescale_epsilon).detach() - q_TB) * valid_TB.to(q_TB.dtype)


def sequence_priorities(error_TB: Tensor, last_TB: Tensor, eta: float) -> Tensor:
    """Returns eta max|delta| + (1 - eta) mean|delta| over the valid transitions of each sequence, (B,)."""
    absolute_TB = error_TB.detach().abs()
    count_B = (~last_TB[:-1]).sum(0).clamp_min(1)
    return eta * absolute_TB.amax(0) + (1.0 - eta) * absolute_TB.sum(0) / count_B


def r2d2_loss(network: nn.Module, target: nn.Module, batch: Replayed, config: R2D2Config) -> LossOutput:
    """Computes the loss: a pure function of the parameters and the batch.

    Args:
        network: Maps (Inputs, state) to (action values (T, N, A), state).
        target: The same with older parameters, Q'.
        batch: Its `drawn` are `Sequences`.
        config: gamma, n, burn-in, eta, eps.

    Returns:
        The loss, and "priority" (N,) among the details.
    """
    drawn: Sequences = batch.drawn
    burn_in = config.burn_in
    with torch.no_grad():
        state_NS = target_state_NS = drawn.state_NS
        if burn_in:
            _, state_NS = network(batch.inputs(0, burn_in), state_NS)
            _, target_state_NS = target(batch.inputs(0, burn_in), target_state_NS)
        target_q_TNA, _ = target(batch.inputs(burn_in), target_state_NS)
    torch.clear_autocast_cache()  # some releases of torch keep casts of parameters that were made without gradients
    q_TNA, _ = network(batch.inputs(burn_in), state_NS)

    best_TN1 = q_TNA.detach().argmax(-1, keepdim=True)
    action_TN = drawn.previous_action_UN[burn_in + 1 :]
    last_TN = drawn.last_UN[burn_in:]
    q_TN = q_TNA[:-1].gather(-1, action_TN.unsqueeze(-1)).squeeze(-1)
    error_TN = sequence_errors(
        q_TB=q_TN,
        bootstrap_TB=target_q_TNA.gather(-1, best_TN1).squeeze(-1),
        reward_TB=drawn.previous_reward_UN[burn_in + 1 :],
        terminated_TB=drawn.terminated_VN[burn_in:],
        last_TB=last_TN,
        config=config,
    )
    num_valid = (~last_TN[:-1]).sum().clamp_min(1)
    loss = 0.5 * (drawn.weight_N * error_TN.square()).sum() / num_valid
    priority_N = sequence_priorities(error_TN, last_TN, config.eta)
    metrics = {"loss": loss, "mean_value": q_TN.mean(), "mean_priority": priority_N.mean()}
    return LossOutput(loss, {name: x.detach() for name, x in metrics.items()}, {"priority": priority_N})


class R2D2(ReplayAgent):
    """The R2D2 agent."""

    config: R2D2Config

    @property
    def transitions_per_item(self) -> int:
        """The length that is learned from."""
        return self.config.length

    @property
    def reach(self) -> int:
        """Burn-in and length."""
        return self.config.burn_in + self.config.length

    def make_replay(self, rollout: Rollout, seed: int) -> SequenceReplay:
        """Sequences that begin with the rollouts, whose core states are at hand."""
        config = self.config
        return SequenceReplay(
            num_envs=self.num_envs,
            observation_shape=self.observation_shape,
            state_size=rollout.state_BS.shape[1],
            capacity=config.replay_capacity,
            stack_num=config.stack_num,
            burn_in=config.burn_in,
            length=config.length,
            period=rollout.num_steps,
            priority_exponent=config.priority_exponent,
            importance_exponent=config.importance_exponent,
            seed=seed,
            dtype=rollout.inputs.obs_TBX.dtype,
            device=self.device,
        )

    def initial_priorities(self, recent: dict[str, Tensor], starts: list[int]) -> Tensor:
        """The loss's priorities, with the acting network in the place of both."""
        config = self.config
        priorities = [recent["q"].new_zeros(0, self.num_envs)]
        for start in starts:
            part = {name: x[start + config.burn_in : start + self.reach + 1] for name, x in recent.items()}
            error_TB = sequence_errors(
                q_TB=part["q"][:-1],
                bootstrap_TB=part["max_q"],
                reward_TB=part["reward"][:-1],
                terminated_TB=part["terminated"][:-1],
                last_TB=part["last"],
                config=config,
            )
            priorities.append(sequence_priorities(error_TB, part["last"], config.eta).unsqueeze(0))
        return torch.cat(priorities)

    def append(self, replay: SequenceReplay, rollout: Rollout, priority_MB: Tensor) -> None:
        """Adds the steps of a rollout, and the core's state before them."""
        inputs = rollout.inputs
        replay.append(
            obs_TBX=inputs.obs_TBX[:-1],
            action_TB=rollout.action_TB,
            reward_TB=rollout.reward_TB,
            first_TB=inputs.first_TB[:-1],
            last_TB=rollout.last_TB[:-1],
            terminated_TB=rollout.terminated_TB,
            state_KBS=rollout.state_BS.unsqueeze(0),
            priority_MB=priority_MB,
        )

    def loss(self, network: nn.Module, batch: Replayed) -> LossOutput:
        """See `r2d2_loss`."""
        assert self.target is not None
        return r2d2_loss(network, self.target, batch, self.config)
