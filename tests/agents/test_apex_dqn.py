# SPDX-License-Identifier: Apache-2.0
"""Ape-X DQN against its equations written out, in float64, and what it does with the replay."""

import pytest
import torch
from batches import LinearValues, random_rollout, successive_rollouts

from seed_hpc.agents import agent_class
from seed_hpc.agents.apex_dqn import ApexDQNConfig, apex_dqn_loss
from seed_hpc.agents.replay_agent import Replayed, epsilon_ladder, n_step_returns
from seed_hpc.config import ModelConfig
from seed_hpc.errors import UserError
from seed_hpc.replay import Transitions

T, B, A, X = 12, 8, 4, 3
GAMMA = 0.9


def make_agent(**options):
    options = {"stack_num": 1, "learning_starts": 0, "replay_capacity": 10_000, "dueling": False, **options}
    return agent_class("apex_dqn")(
        ApexDQNConfig(name="apex_dqn", **options),
        ModelConfig(encoder="mlp"),
        (X,),
        A,
        num_envs=B,
        device=torch.device("cpu"),
    )


def random_transitions(N, seed):
    """Transitions of 1 to 3 steps in float64; one in four ended the game."""
    generator = torch.Generator().manual_seed(seed)

    def randn(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def randint(high, *shape):
        return torch.randint(high, shape, generator=generator)

    return Transitions(
        obs_UNX=randn(2, N, X),
        first_UN=randint(2, 2, N).bool(),
        previous_action_UN=randint(A, 2, N),
        previous_reward_UN=randn(2, N),
        weight_N=randn(N).abs(),
        index_N=torch.arange(N),
        generation_N=torch.zeros(N, dtype=torch.int64),
        action_N=randint(A, N),
        reward_N=randn(N),
        discount_N=GAMMA ** (1.0 + randint(3, N).double()) * (randint(4, N) > 0),
    )


@pytest.mark.parametrize("seed", range(4))
def test_loss_gradient_and_priorities_equal_double_q_learning_written_out(seed):
    N = 16
    drawn = random_transitions(N, seed)
    assert (drawn.discount_N == 0).any()
    network, target = LinearValues(X, A, seed + 1), LinearValues(X, A, seed + 2)
    output = apex_dqn_loss(network, target, Replayed(drawn))
    output.loss.backward()

    weight = network.weight.detach().clone().requires_grad_()
    plain, plain_target = weight.detach(), target.weight.detach()
    total, priorities, differ = 0.0, [], 0
    for i in range(N):
        now, then = drawn.obs_UNX[0, i], drawn.obs_UNX[1, i]
        best = max(range(A), key=lambda a: float(plain[a] @ then))
        differ += best != max(range(A), key=lambda a: float(plain_target[a] @ then))
        value = float(plain_target[best] @ then)
        error = drawn.reward_N[i] + drawn.discount_N[i] * value - weight[drawn.action_N[i]] @ now
        total = total + drawn.weight_N[i] * 0.5 * error**2
        priorities.append(abs(float(error.detach())))
    expected = total / N
    expected.backward()
    assert differ > 0  # the double estimate is another one
    torch.testing.assert_close(output.loss, expected)
    torch.testing.assert_close(network.weight.grad, weight.grad)
    assert target.weight.grad is None
    assert output.details["priority"].tolist() == pytest.approx(priorities)


def written_out_return(rollout, value, s, b, n):
    """r_s + gamma r_s+1 + ..., the observation n steps on or at the episode's end, and gamma^k or 0."""
    total, weight = 0.0, 1.0
    for t in range(s, s + n):
        total += weight * float(rollout.reward_TB[t, b])
        weight *= GAMMA
        if rollout.terminated_TB[t, b]:
            return total, t + 1, 0.0
        if rollout.last_TB[t + 1, b]:
            return total, t + 1, weight
    return total, s + n, weight


@pytest.mark.parametrize("n", [1, 3, 20])
def test_n_step_returns_of_a_rollout(n):
    rollout = random_rollout(T, B, A, seed=n)
    value = torch.randn(T + 1, B, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    returns = n_step_returns(
        reward_TB=rollout.reward_TB,
        discount_TB=GAMMA * (~rollout.terminated_TB).double(),
        valid_TB=rollout.valid_TB,
        value_TB=value,
        n_steps=n,
    )
    for b in range(B):
        for s in range(T):
            if rollout.last_TB[s, b]:
                assert returns[s, b] == value[s, b]
                continue
            total, at, weight = written_out_return(rollout, value, s, b, min(n, T - s))
            assert float(returns[s, b]) == pytest.approx(total + weight * float(value[at, b]))


def test_replayed_transitions_are_those_of_the_rollouts_and_begin_with_the_actors_priorities():
    """With one network as actor, learner and target, the first priorities are the errors of the loss."""
    agent = make_agent(n_steps=3, discount=GAMMA, batch_size=64, replay_ratio=2.0)
    network = LinearValues(X, A, 5).float()
    drawn = []
    rollouts = list(successive_rollouts(7, 6, B, X, A, seed=3))
    whole, _ = rollouts[0]
    for _, rollout in rollouts:
        q, _ = network(rollout.inputs, None)
        q = q.detach()[:-1]
        rollout.behaviour = {"q": q.gather(-1, rollout.action_TB[..., None])[..., 0], "max_q": q.amax(-1)}
        drawn += list(agent.batches(network, rollout, torch.Generator().manual_seed(0)))
    assert len(drawn) == int(2.0 * 6 * 7 * B / 64)
    row_of = {tuple(whole.inputs.obs_TBX[t, b].tolist()): (t, b) for t in range(43) for b in range(B)}
    batch = drawn[-1].drawn
    leaves = agent.replay.leaves
    errors = agent.loss(network, drawn[-1]).details["priority"]
    for i in range(64):
        t, b = row_of[tuple(batch.obs_UNX[0, i].tolist())]
        assert not whole.last_TB[t, b]
        total, at, weight = written_out_return(whole, None, t, b, 3)
        assert row_of[tuple(batch.obs_UNX[1, i].tolist())] == (at, b)
        assert float(batch.reward_N[i]) == pytest.approx(total, abs=1e-5)
        assert float(batch.discount_N[i]) == pytest.approx(weight)
        assert int(batch.action_N[i]) == int(whole.action_TB[t, b])
        priority = float(leaves[batch.index_N[i]]) ** (1 / 0.6)
        assert priority == pytest.approx(float(errors[i]), rel=1e-3, abs=1e-4)


def test_the_target_network_follows_every_so_many_updates():
    agent = make_agent(target_update_period=2, batch_size=8, replay_ratio=1.0)
    network = LinearValues(X, A, 5).float()
    targets = []
    for _, rollout in successive_rollouts(4, 3, B, X, A, seed=3):
        rollout.behaviour = {"q": torch.zeros(4, B), "max_q": torch.zeros(4, B)}
        for batch in agent.batches(network, rollout, torch.Generator().manual_seed(0)):
            output = agent.loss(network, batch)
            network.weight.data.add_(1.0)
            agent.after_update(network, batch, output)
            targets.append(torch.equal(agent.target.weight, network.weight))
    assert targets == [False, True] * (len(targets) // 2)
    assert len(targets) > 2


def test_epsilon_ladder():
    ladder = epsilon_ladder(8, 0.4, 7.0)
    assert ladder.tolist() == pytest.approx([0.4 ** (1 + 7 * i / 7) for i in range(8)])
    assert epsilon_ladder(1, 0.4, 7.0).tolist() == pytest.approx([0.4])


def test_each_environment_explores_with_its_own_epsilon():
    agent = make_agent(epsilon_base=0.5, epsilon_alpha=200.0, evaluation_epsilon=0.0)
    network = LinearValues(X, A, 5).float()
    generator = torch.Generator().manual_seed(0)
    (_, rollout), *_ = successive_rollouts(300, 1, B, X, A, seed=1)
    explored = torch.zeros(B)
    for t in range(300):
        step = type(rollout.inputs)(*(x[t : t + 1] for x in rollout.inputs))
        best = network(step, None)[0][0].argmax(-1)
        explored += agent.act(network, step, torch.zeros(B, 0), generator).action_B != best
        assert torch.equal(agent.act(network, step, torch.zeros(B, 0), generator, greedy=True).action_B, best)
    assert explored[0] / 300 == pytest.approx(0.5 * (A - 1) / A, abs=0.1)
    assert not explored[1:].any()


def test_a_recurrent_core_is_refused():
    with pytest.raises(UserError, match=r"model\.core=lstm does not fit agent\.name=apex_dqn"):
        agent_class("apex_dqn")(
            ApexDQNConfig(name="apex_dqn"),
            ModelConfig(encoder="mlp", core="lstm"),
            (X,),
            A,
            num_envs=B,
            device=torch.device("cpu"),
        )


@pytest.mark.parametrize(
    "options", [{"replay_ratio": 0.0}, {"n_steps": 0}, {"discount": 1.5}, {"batch_size": 0}, {"epsilon_alpha": -1.0}]
)
def test_options_that_are_not_allowed(options):
    with pytest.raises(UserError, match=next(iter(options))):
        ApexDQNConfig(**options)
