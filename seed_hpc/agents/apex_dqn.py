# SPDX-License-Identifier: Apache-2.0
"""Ape-X DQN: many actors with different exploration, one prioritized replay, n-step double Q-learning.

Source: Horgan et al., "Distributed Prioritized Experience Replay" (2018), https://arxiv.org/abs/1803.00933; double
Q-learning: van Hasselt et al. (2016); dueling networks: Wang et al. (2016).

With the target network Q' and transitions of k <= n steps,

    G_t = r_t + gamma r_t+1 + ... + gamma^(k-1) r_t+k-1 + gamma^k Q'(x_t+k, argmax_a Q(x_t+k, a))     section 4.1
    loss = mean[ w 1/2 (G_t - Q(x_t, a_t))^2 ],        priority = |G_t - Q(x_t, a_t)|

where w are importance weights. k < n where an episode ends within n steps: nothing is bootstrapped where the game
ended, and Q' of the true final observation where the episode was cut off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from seed_hpc.agents.agent import LossOutput
from seed_hpc.agents.replay_agent import ReplayAgent, ReplayConfig, Replayed, n_step_returns
from seed_hpc.agents.rollout import Rollout
from seed_hpc.config import option, require
from seed_hpc.replay import PrioritizedReplay, Transitions


@dataclass(frozen=True, kw_only=True)
class ApexDQNConfig(ReplayConfig):
    """Options of `apex_dqn`; defaults of the paper, section 4.1 and appendix C, with half of its replay."""

    name: Literal["apex_dqn"] = option("apex_dqn", "the algorithm")


def apex_dqn_loss(network: nn.Module, target: nn.Module, batch: Replayed) -> LossOutput:
    """Computes the loss: a pure function of the parameters and the batch.

    Args:
        network: Maps (Inputs, state) to (action values (T, N, A), state).
        target: The same with older parameters, Q'.
        batch: Its `drawn` are `Transitions`.

    Returns:
        The loss, and "priority" (N,) among the details.
    """
    drawn: Transitions = batch.drawn
    no_state = drawn.reward_N.new_zeros(drawn.reward_N.shape[0], 0)
    with torch.no_grad():
        next_inputs = batch.inputs(1, 2)
        best_N1 = network(next_inputs, no_state)[0][0].argmax(-1, keepdim=True)
        next_value_N = target(next_inputs, no_state)[0][0].gather(-1, best_N1).squeeze(-1)
        return_N = drawn.reward_N + drawn.discount_N * next_value_N
    torch.clear_autocast_cache()  # some releases of torch keep casts of parameters that were made without gradients
    q_NA = network(batch.inputs(0, 1), no_state)[0][0]
    q_N = q_NA.gather(-1, drawn.action_N.unsqueeze(-1)).squeeze(-1)
    error_N = return_N - q_N
    loss = 0.5 * (drawn.weight_N * error_N.square()).mean()
    priority_N = error_N.detach().abs()
    metrics = {"loss": loss, "mean_value": q_N.mean(), "mean_priority": priority_N.mean()}
    return LossOutput(loss, {name: x.detach() for name, x in metrics.items()}, {"priority": priority_N})


class ApexDQN(ReplayAgent):
    """The Ape-X DQN agent."""

    config: ApexDQNConfig

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        require(
            self.model.core == "feed_forward",
            f"model.core={self.model.core} does not fit agent.name=apex_dqn, which replays single transitions: "
            "choose model.core=feed_forward or agent.name=r2d2",
        )

    @property
    def transitions_per_item(self) -> int:
        """One."""
        return 1

    @property
    def reach(self) -> int:
        """As many steps as a return has rewards."""
        return self.config.n_steps

    def make_replay(self, rollout: Rollout, seed: int) -> PrioritizedReplay:
        """Transitions of n steps."""
        config = self.config
        return PrioritizedReplay(
            num_envs=self.num_envs,
            observation_shape=self.observation_shape,
            capacity=config.replay_capacity,
            stack_num=config.stack_num,
            n_steps=config.n_steps,
            discount=config.discount,
            priority_exponent=config.priority_exponent,
            importance_exponent=config.importance_exponent,
            seed=seed,
            dtype=rollout.inputs.obs_TBX.dtype,
            device=self.device,
        )

    def initial_priorities(self, recent: dict[str, Tensor], starts: list[int]) -> Tensor:
        """|G - Q| with the acting network in the place of the target's."""
        return_TB = n_step_returns(
            reward_TB=recent["reward"][:-1],
            discount_TB=self.config.discount * (~recent["terminated"][:-1]).to(recent["max_q"].dtype),
            valid_TB=~recent["last"][:-1],
            value_TB=recent["max_q"],
            n_steps=self.config.n_steps,
        )
        return (return_TB - recent["q"][:-1])[starts].abs()

    def append(self, replay: PrioritizedReplay, rollout: Rollout, priority_MB: Tensor) -> None:
        """Adds the steps of a rollout."""
        inputs = rollout.inputs
        replay.append(
            obs_TBX=inputs.obs_TBX[:-1],
            action_TB=rollout.action_TB,
            reward_TB=rollout.reward_TB,
            first_TB=inputs.first_TB[:-1],
            last_TB=rollout.last_TB[:-1],
            terminated_TB=rollout.terminated_TB,
            priority_MB=priority_MB,
        )

    def loss(self, network: nn.Module, batch: Replayed) -> LossOutput:
        """See `apex_dqn_loss`."""
        assert self.target is not None
        return apex_dqn_loss(network, self.target, batch)
