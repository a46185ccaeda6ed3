# SPDX-License-Identifier: Apache-2.0
"""R2D2 against its equations written out step by step, in float64, and what it does with the replay."""

import math
from dataclasses import replace

import pytest
import torch
from batches import random_rollout, successive_rollouts

from seed_hpc.agents import agent_class
from seed_hpc.agents.r2d2 import R2D2Config, r2d2_loss, rescale, rescale_inverse, sequence_priorities
from seed_hpc.agents.replay_agent import Replayed
from seed_hpc.config import ModelConfig
from seed_hpc.errors import UserError
from seed_hpc.models.heads import ActionValueHead
from seed_hpc.models.network import Inputs, Network
from seed_hpc.replay import Sequences

A, X, H = 4, 3, 6
BURN_IN, LENGTH = 4, 9
CONFIG = R2D2Config(discount=0.9, n_steps=3, burn_in=BURN_IN, length=LENGTH, eta=0.7, rescale_epsilon=1e-2)
MODEL = ModelConfig(encoder="mlp", core="lstm", lstm_size=H, hidden_size=8, action_reward_input=True)


def make_network(seed):
    torch.manual_seed(seed)
    return Network(MODEL, (X,), A, lambda features, actions: ActionValueHead(features, actions, dueling=True))


def make_agent(num_envs, **options):
    options = {"stack_num": 1, "learning_starts": 0, "replay_capacity": 10_000, **options}
    return agent_class("r2d2")(
        R2D2Config(name="r2d2", **options), MODEL, (X,), A, num_envs=num_envs, device=torch.device("cpu")
    )


def random_sequences(N, seed):
    """Sequences in float64 with ends, truncations and first observations anywhere."""
    rollout = random_rollout(BURN_IN + LENGTH, N, A, seed, end_probability=0.15)
    generator = torch.Generator().manual_seed(seed)
    return Sequences(
        obs_UNX=torch.randn(BURN_IN + LENGTH + 1, N, X, generator=generator, dtype=torch.float64),
        first_UN=rollout.inputs.first_TB,
        previous_action_UN=rollout.inputs.previous_action_TB,
        previous_reward_UN=3.0 * rollout.inputs.previous_reward_TB,
        weight_N=torch.rand(N, generator=generator, dtype=torch.float64),
        index_N=torch.arange(N),
        generation_N=torch.zeros(N, dtype=torch.int64),
        last_UN=rollout.last_TB,
        terminated_VN=rollout.terminated_TB,
        state_NS=torch.randn(N, 2 * H, generator=generator, dtype=torch.float64),
    )


def h(x, eps):
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + eps * x


def h_inverse(y, eps):
    """By bisection: h grows."""
    low, high = -1e4, 1e4
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if h(middle, eps) < y else (low, middle)
    return low


def values_of_one(network, drawn, i):
    """Q at the observations after the burn-in, one step of one sequence at a time; no gradient before it."""
    state, values = drawn.state_NS[i : i + 1], []
    fields = (drawn.obs_UNX, drawn.first_UN, drawn.previous_action_UN, drawn.previous_reward_UN)
    for t in range(BURN_IN + LENGTH + 1):
        with torch.set_grad_enabled(t >= BURN_IN):
            q, state = network(Inputs(*(x[t : t + 1, i : i + 1] for x in fields)), state)
        values.append(q[0, 0])
    return values[BURN_IN:]


@pytest.mark.parametrize("seed", range(4))
def test_loss_gradient_and_priorities_equal_the_paper_written_out(seed):
    N = 6
    drawn = random_sequences(N, seed)
    assert drawn.terminated_VN[BURN_IN:].any()
    assert (drawn.last_UN[BURN_IN + 1 :] & ~drawn.terminated_VN[BURN_IN:]).any()
    assert drawn.first_UN[:BURN_IN].any()
    network, target = make_network(seed + 1).double(), make_network(seed + 2).double()
    output = r2d2_loss(network, target, Replayed(drawn), CONFIG)
    output.loss.backward()
    gradients = {name: p.grad.clone() for name, p in network.named_parameters()}
    network.zero_grad()

    gamma, n, eps, eta = CONFIG.discount, CONFIG.n_steps, CONFIG.rescale_epsilon, CONFIG.eta
    total, count, priorities = 0.0, 0, []
    for i in range(N):
        q, target_q = values_of_one(network, drawn, i), values_of_one(target, drawn, i)
        errors = []
        for s in range(LENGTH):
            if drawn.last_UN[BURN_IN + s, i]:
                continue
            reward, weight, at = 0.0, 1.0, s
            while at < min(s + n, LENGTH):
                reward += weight * float(drawn.previous_reward_UN[BURN_IN + at + 1, i])
                ended = bool(drawn.terminated_VN[BURN_IN + at, i])
                weight = 0.0 if ended else weight * gamma
                at += 1
                if drawn.last_UN[BURN_IN + at, i]:
                    break
            best = int(q[at].argmax())
            value = h_inverse(float(target_q[at][best].detach()), eps) if weight else 0.0
            error = h(reward + weight * value, eps) - q[s][drawn.previous_action_UN[BURN_IN + s + 1, i]]
            total = total + drawn.weight_N[i] * 0.5 * error**2
            errors.append(abs(float(error.detach())))
            count += 1
        priorities.append(eta * max(errors) + (1 - eta) * sum(errors) / len(errors))
    expected = total / count
    expected.backward()
    torch.testing.assert_close(output.loss, expected)
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, msg=name)
    assert all(parameter.grad is None for parameter in target.parameters())
    assert output.details["priority"].tolist() == pytest.approx(priorities)


@pytest.mark.parametrize("eps", [1e-3, 1e-2, 0.5])
def test_value_rescaling_and_its_inverse(eps):
    x = torch.tensor([-300.0, -2.5, -1e-3, 0.0, 1e-3, 1.0, 17.0, 900.0], dtype=torch.float64)
    assert rescale(x, eps).tolist() == pytest.approx([h(float(v), eps) for v in x])
    torch.testing.assert_close(rescale_inverse(rescale(x, eps), eps), x)
    y = torch.linspace(-20, 20, 9, dtype=torch.float64)
    assert rescale_inverse(y, eps).tolist() == pytest.approx([h_inverse(float(v), eps) for v in y])
    single = x.float()  # the paper's form of the inverse has three digits here
    torch.testing.assert_close(rescale_inverse(rescale(single, eps), eps), single, rtol=2e-5, atol=1e-6)


def test_priorities_mix_the_largest_and_the_mean_error():
    """Errors 1, -3, (void), 2: 0.9 * 3 + 0.1 * (1 + 3 + 2) / 3 = 2.9; a sequence without valid transitions gets 0."""
    error = torch.tensor([[1.0, 0.0], [-3.0, 0.0], [0.0, 0.0], [2.0, 0.0]])
    last = torch.tensor([[False, True], [False, True], [True, True], [False, True], [False, False]])
    assert sequence_priorities(error, last, 0.9).tolist() == pytest.approx([2.9, 0.0])


def test_replayed_sequences_begin_with_the_actors_states_and_priorities():
    """With one network as actor, learner and target, Q of replayed sequences is what it was when they were acted, and
    the first priorities are those of the loss."""
    num_envs, unroll = 5, 4
    agent = make_agent(
        num_envs, burn_in=4, length=8, n_steps=3, discount=0.9, batch_size=40, replay_ratio=100.0, priority_exponent=1.0
    )
    network = make_network(3)
    state, acted, drawn = network.initial_state(num_envs), [], []
    rollouts = list(successive_rollouts(unroll, 7, num_envs, X, A, seed=3))
    whole, _ = rollouts[0]
    for _, rollout in rollouts:
        with torch.no_grad():
            q, state_after = network(Inputs(*(x[:-1] for x in rollout.inputs)), state)
        behaviour = {"q": q.gather(-1, rollout.action_TB[..., None])[..., 0], "max_q": q.amax(-1)}
        rollout = replace(rollout, behaviour=behaviour, state_BS=state)
        acted.append(q)
        state = state_after
        drawn = next(iter(agent.batches(network, rollout, torch.Generator().manual_seed(0))), None)
    q_acted = torch.cat(acted)
    sequences = drawn.drawn
    leaves, errors = agent.replay.leaves, agent.loss(network, drawn).details["priority"]
    row_of = {tuple(whole.inputs.obs_TBX[t, b].tolist()): (t, b) for t in range(29) for b in range(num_envs)}
    q_again, _ = network(drawn.inputs(), sequences.state_NS)
    starts = set()
    for i in range(40):
        t, b = row_of[tuple(sequences.obs_UNX[0, i].tolist())]
        starts.add(t)
        torch.testing.assert_close(q_again[:, i], q_acted[t : t + 13, b])
        assert torch.equal(sequences.last_UN[:, i], whole.last_TB[t : t + 13, b])
        assert torch.equal(sequences.terminated_VN[:, i], whole.terminated_TB[t : t + 12, b])
        assert float(leaves[sequences.index_N[i]]) == pytest.approx(float(errors[i]), rel=1e-3, abs=1e-4)
    # The recording begins inside of an episode, so 0 is not drawn; after 28 steps 16 lacks its last observation.
    assert starts == {4, 8, 12}


@pytest.mark.parametrize("options", [{"eta": 1.5}, {"burn_in": -1}, {"length": 0}, {"rescale_epsilon": 0.0}])
def test_options_that_are_not_allowed(options):
    with pytest.raises(UserError, match=next(iter(options))):
        R2D2Config(**options)
