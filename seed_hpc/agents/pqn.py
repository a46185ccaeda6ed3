# SPDX-License-Identifier: Apache-2.0
"""PQN: Q-learning on the rollouts of many parallel environments, without replay and without a target network.

Source: Gallici et al., "Simplifying Deep Temporal Difference Learning" (2024), https://arxiv.org/abs/2407.04811,
algorithm 1. Layer normalisation of the network (model.layer_norm=true) is what makes this stable.

With Q at the time of acting, the targets are lambda-returns of Q(lambda) (Peng & Williams, 1996),

    R_t = r_t + gamma_t (lambda R_t+1 + (1 - lambda) max_a Q(x_t+1, a)),   R_T = max_a Q(x_T, a)

and the loss, as a mean over the valid transitions of a minibatch, is 1/2 (R_t - Q(x_t, a_t))^2. Actions are
epsilon-greedy. Episode ends: gamma_t = 0 where the game ended; a truncated episode bootstraps from its true final
observation x, where R = max_a Q(x, a), since the transition that leaves it is void.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from seed_hpc.agents.agent import Action, Agent, LossOutput, epsilon_greedy
from seed_hpc.agents.rollout import Rollout, Steps, masked_mean, shuffled_steps
from seed_hpc.config import option, require, require_at_least
from seed_hpc.models.heads import ActionValueHead
from seed_hpc.models.network import Inputs


@dataclass(frozen=True, kw_only=True)
class PQNConfig:
    """Options of `pqn`; defaults from the Atari column of table 6 of the paper where it gives one."""

    splits_steps: ClassVar[bool] = True  # minibatches are steps, not environments; see `shuffled_steps`

    name: Literal["pqn"] = option("pqn", "the algorithm")
    discount: float = option(0.99, "gamma")
    return_lambda: float = option(0.65, "lambda of the returns")
    epochs: int = option(2, "passes over a rollout")
    minibatches: int = option(32, "parts of a rollout; one update each")
    epsilon_start: float = option(1.0, "share of random actions at the start")
    epsilon_end: float = option(0.001, "share of random actions after the decay")
    epsilon_decay: float = option(0.1, "share of training over which it falls linearly")
    dueling: bool = option(False, "dueling head (Wang et al., 2016)")

    def __post_init__(self) -> None:
        for name in ("discount", "return_lambda", "epsilon_start", "epsilon_end", "epsilon_decay"):
            value = getattr(self, name)
            require(0.0 <= value <= 1.0, f"agent.{name}={value} is not allowed: give a number in [0, 1]")
        require_at_least("agent", self, 1, "epochs", "minibatches")


def lambda_returns(
    *,
    reward_TB: Tensor,
    discount_TB: Tensor,
    valid_TB: Tensor,
    max_q_TB: Tensor,
    return_lambda: float,
) -> Tensor:
    """Computes the returns of Q(lambda).

    Args:
        reward_TB: (T, B).
        discount_TB: gamma_t, 0 where the game ended, (T, B).
        valid_TB: bool, False where the transition is void, (T, B).
        max_q_TB: max_a Q of all observations, (T+1, B).
        return_lambda: Lambda.

    Returns:
        R (T, B); max_a Q where the transition is void.
    """
    return_B = max_q_TB[-1]
    returns: list[Tensor] = []
    for t in reversed(range(reward_TB.shape[0])):
        next_B = return_lambda * return_B + (1.0 - return_lambda) * max_q_TB[t + 1]
        return_B = torch.where(valid_TB[t], reward_TB[t] + discount_TB[t] * next_B, max_q_TB[t])
        returns.append(return_B)
    return torch.stack(returns[::-1])


def pqn_loss(network: nn.Module, batch: Steps) -> LossOutput:
    """Computes the loss: a pure function of the network's parameters and the batch.

    Args:
        network: Maps (Inputs, state) to (action values (T, B, A), state).
        batch: Its `behaviour` holds "return" (T, B).
    """
    q_TBA, _ = network(batch.inputs, batch.state_BS)
    q_TB = q_TBA.gather(-1, batch.action_TB.unsqueeze(-1)).squeeze(-1)
    valid_TB = batch.valid_TB.to(q_TB.dtype)
    loss = 0.5 * masked_mean((batch.behaviour["return"] - q_TB).square(), valid_TB)
    metrics = {"loss": loss, "mean_value": masked_mean(q_TB, valid_TB)}
    return LossOutput(loss, {name: x.detach() for name, x in metrics.items()})


class PQN(Agent):
    """The PQN agent."""

    config: PQNConfig

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._epsilon = self.config.epsilon_start
        self.epsilon = torch.full((), self._epsilon, device=self.device)

    def build_head(self, num_features: int, num_actions: int) -> nn.Module:
        """Action values."""
        return ActionValueHead(num_features, num_actions, dueling=self.config.dueling)

    def act(
        self, network: nn.Module, inputs: Inputs, state_BS: Tensor, generator: torch.Generator, *, greedy: bool = False
    ) -> Action:
        """Acts epsilon-greedily and records max_a Q."""
        q_TBA, state_BS = network(inputs, state_BS)
        q_BA = q_TBA[0]
        action_B = q_BA.argmax(-1) if greedy else epsilon_greedy(q_BA, self.epsilon, generator)
        return Action(action_B, {"max_q": q_BA.amax(-1)}, state_BS)

    def set_progress(self, progress: float) -> None:
        """Lowers epsilon linearly."""
        config = self.config
        done = min(1.0, progress / config.epsilon_decay) if config.epsilon_decay else 1.0
        self._set_epsilon(config.epsilon_start + done * (config.epsilon_end - config.epsilon_start))

    def _set_epsilon(self, epsilon: float) -> None:
        self._epsilon = epsilon
        self.epsilon.fill_(epsilon)  # what the actor's CUDA graph reads

    def batches(self, network: nn.Module, rollout: Rollout, generator: torch.Generator) -> Iterator[Steps]:
        """Adds returns to the rollout, then yields it `epochs` times in `minibatches` parts."""
        with torch.no_grad():
            bootstrap_TBA, _ = network(rollout.final_inputs, rollout.final_state_BS)
            max_q_TB = torch.cat((rollout.behaviour["max_q"], bootstrap_TBA.amax(-1)))
            return_TB = lambda_returns(
                reward_TB=rollout.reward_TB,
                discount_TB=self.config.discount * (~rollout.terminated_TB).to(max_q_TB.dtype),
                valid_TB=rollout.valid_TB,
                max_q_TB=max_q_TB,
                return_lambda=self.config.return_lambda,
            )
        rollout = replace(rollout, behaviour={**rollout.behaviour, "return": return_TB})
        for _ in range(self.config.epochs):
            yield from shuffled_steps(
                rollout, self.config.minibatches, generator, recurrent=self.model.core != "feed_forward"
            )

    def loss(self, network: nn.Module, batch: Steps) -> LossOutput:
        """See `pqn_loss`; the log also shows epsilon."""
        output = pqn_loss(network, batch)
        return output._replace(metrics={**output.metrics, "epsilon": torch.full_like(output.loss, self._epsilon)})

    def state_dict(self) -> dict[str, Any]:
        """Returns epsilon."""
        return {"epsilon": self._epsilon}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores epsilon."""
        self._set_epsilon(float(state["epsilon"]))
