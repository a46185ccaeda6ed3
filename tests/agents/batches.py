# SPDX-License-Identifier: Apache-2.0
"""Random float64 rollouts with episode ends and truncations inside, as environments deliver them."""

from dataclasses import replace

import torch
from torch import nn

from seed_hpc.agents.rollout import Rollout
from seed_hpc.models.heads import PolicyValue
from seed_hpc.models.network import Inputs


class TablePolicy(nn.Module):
    """A network whose outputs are its parameters: logits (T+1, B, A) and values (T+1, B)."""

    def __init__(self, T, B, A, seed):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.logits = nn.Parameter(torch.randn(T + 1, B, A, generator=generator, dtype=torch.float64))
        self.value = nn.Parameter(torch.randn(T + 1, B, generator=generator, dtype=torch.float64))

    def forward(self, inputs, state):
        return PolicyValue(self.logits, self.value), state


class TableValues(nn.Module):
    """A network whose outputs are its parameters: action values (T+1, B, A)."""

    def __init__(self, T, B, A, seed):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.q = nn.Parameter(torch.randn(T + 1, B, A, generator=generator, dtype=torch.float64))

    def forward(self, inputs, state):
        return self.q, state


def random_rollout(T, B, A, seed, end_probability=0.2):
    """Returns a rollout; about half of its episode ends are truncations."""
    generator = torch.Generator().manual_seed(seed)

    def rand(*shape):
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    first, last = torch.zeros(2, T + 1, B, dtype=torch.bool)
    terminated = torch.zeros(T, B, dtype=torch.bool)
    last[0] = rand(B) < end_probability
    for t in range(T):
        ends = (rand(B) < end_probability) & ~last[t]
        terminated[t] = ends & (rand(B) < 0.5)
        last[t + 1] = ends
        first[t + 1] = last[t]
    action = torch.randint(A, (T + 1, B), generator=generator)
    reward = torch.randn(T + 1, B, generator=generator, dtype=torch.float64)
    action[1:][last[:-1]] = 0  # the environment ignores the action of a void transition
    reward[1:][last[:-1]] = 0.0
    behaviour_logits = torch.randn(T, B, A, generator=generator, dtype=torch.float64)
    log_mu = torch.log_softmax(behaviour_logits, -1).gather(-1, action[1:, :, None]).squeeze(-1)
    return Rollout(
        inputs=Inputs(torch.zeros(T + 1, B, 1), first, action, reward),
        last_TB=last,
        terminated_TB=terminated,
        behaviour={"log_probability": log_mu, "value": torch.randn(T, B, generator=generator, dtype=torch.float64)},
        state_BS=torch.zeros(B, 0),
        final_state_BS=torch.zeros(B, 0),
        episode_return_TB=torch.full((T, B), torch.nan),
        episode_steps_TB=torch.zeros(T, B, dtype=torch.int64),
    )


class LinearValues(nn.Module):
    """Action values that are linear in the observation, a vector of X numbers."""

    def __init__(self, X, A, seed):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(A, X, generator=generator, dtype=torch.float64))

    def forward(self, inputs, state):
        return inputs.obs_TBX @ self.weight.T, state


def successive_rollouts(length, parts, B, X, A, seed):
    """Yields (one long float32 rollout, its parts one after the other as an actor delivers them)."""
    whole = random_rollout(length * parts, B, A, seed)
    obs = torch.randn(length * parts + 1, B, X, generator=torch.Generator().manual_seed(seed))
    whole.inputs = whole.inputs._replace(obs_TBX=obs, previous_reward_TB=whole.inputs.previous_reward_TB.float())
    for k in range(parts):
        steps, observations = slice(k * length, (k + 1) * length), slice(k * length, (k + 1) * length + 1)
        yield (
            whole,
            replace(
                whole,
                inputs=Inputs(*(x[observations] for x in whole.inputs)),
                last_TB=whole.last_TB[observations],
                terminated_TB=whole.terminated_TB[steps],
                behaviour={},
                policy_version=k,
            ),
        )
