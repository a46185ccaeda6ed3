# SPDX-License-Identifier: Apache-2.0
"""PQN against its equations written out, in float64."""

from dataclasses import replace

import pytest
import torch
from batches import TableValues, random_rollout

from seed_hpc.agents import agent_class
from seed_hpc.agents.agent import epsilon_greedy
from seed_hpc.agents.pqn import PQNConfig, lambda_returns
from seed_hpc.config import ModelConfig

T, B, A = 12, 8, 4


class LastStep(torch.nn.Module):
    """Answers for the one step after a rollout, as PQN asks for it, or for its T steps."""

    def __init__(self, table):
        super().__init__()
        self.table = table

    def forward(self, inputs, state):
        q, _ = self.table(inputs, state)
        return q[-1:] if len(inputs.first_TB) == 1 else q[:-1], state


def make_agent(**options):
    config = PQNConfig(name="pqn", **options)
    return agent_class("pqn")(config, ModelConfig(encoder="mlp"), (1,), A, num_envs=B, device=torch.device("cpu"))


def n_step_return(batch, max_q, s, n, b, gamma):
    """r_s + gamma r_s+1 + ... + gamma^n max Q(x_s+n), shorter if the episode ends before."""
    total, weight = 0.0, 1.0
    for t in range(s, s + n):
        total += weight * float(batch.reward_TB[t, b])
        weight *= gamma
        if batch.terminated_TB[t, b]:
            return total
        if batch.last_TB[t + 1, b]:
            return total + weight * float(max_q[t + 1, b])
    return total + weight * float(max_q[s + n, b])


@pytest.mark.parametrize("seed", range(4))
def test_loss_and_gradient_equal_the_mixture_of_n_step_returns(seed):
    """R_s = (1 - lambda) sum over n of lambda^(n-1) R_s^(n), the longest with the rest of the weight."""
    agent = make_agent(minibatches=1, epochs=1, return_lambda=0.7, discount=0.9)
    batch = random_rollout(T, B, A, seed)
    assert batch.terminated_TB.any()
    assert (batch.last_TB[1:] & ~batch.terminated_TB).any()
    network = LastStep(TableValues(T, B, A, seed + 9))
    behaviour = {"max_q": torch.randn(T, B, generator=torch.Generator().manual_seed(seed)).double()}
    batch = replace(batch, behaviour=behaviour)
    (ready,) = agent.batches(network, batch, torch.Generator())
    output = agent.loss(network, ready)
    output.loss.backward()

    q = network.table.q.detach().clone().requires_grad_()
    max_q = torch.cat((behaviour["max_q"], q.detach()[-1:].amax(-1)))
    losses = []
    for b in range(B):
        for s in range(T):
            if batch.last_TB[s, b]:
                continue
            longest = T - s
            weights = [(1 - 0.7) * 0.7 ** (n - 1) for n in range(1, longest)]
            weights.append(1.0 - sum(weights))
            target = sum(
                w * n_step_return(batch, max_q, s, n, b, 0.9)
                for n, w in zip(range(1, longest + 1), weights, strict=True)
            )
            losses.append(0.5 * (target - q[s, b, batch.action_TB[s, b]]) ** 2)
    expected = torch.stack(losses).mean()
    expected.backward()
    torch.testing.assert_close(output.loss, expected)
    torch.testing.assert_close(network.table.q.grad, q.grad)


def test_hand_worked_numbers():
    """gamma = lambda = 1/2, max Q 1, 2, 4, rewards 1, 2: R_1 = 2 + 1/2 * 4 = 4, R_0 = 1 + 1/2 (4 + 2) / 2 = 2.5."""
    returns = lambda_returns(
        reward_TB=torch.tensor([[1.0], [2.0]]).double(),
        discount_TB=torch.full((2, 1), 0.5).double(),
        valid_TB=torch.ones(2, 1, dtype=torch.bool),
        max_q_TB=torch.tensor([[1.0], [2.0], [4.0]]).double(),
        return_lambda=0.5,
    )
    assert returns.flatten().tolist() == [2.5, 4.0]


def test_epsilon_falls_and_is_saved():
    agent = make_agent(epsilon_start=1.0, epsilon_end=0.1, epsilon_decay=0.5)
    for progress, epsilon in ((0.0, 1.0), (0.25, 0.55), (0.5, 0.1), (1.0, 0.1)):
        agent.set_progress(progress)
        assert float(agent.epsilon) == pytest.approx(epsilon)
    other = make_agent()
    other.load_state_dict(agent.state_dict())
    assert float(other.epsilon) == float(agent.epsilon)


def test_epsilon_greedy_explores_as_often_as_it_says():
    q = torch.zeros(20_000, A)
    q[:, 2] = 1.0
    action = epsilon_greedy(q, torch.tensor(0.4), torch.Generator().manual_seed(0))
    share = torch.bincount(action, minlength=A) / len(action)
    assert share.tolist() == pytest.approx([0.1, 0.1, 0.7, 0.1], abs=0.015)
