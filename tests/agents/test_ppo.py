# SPDX-License-Identifier: Apache-2.0
"""PPO against the paper's equations written as sums, in float64."""

import pytest
import torch
from batches import TablePolicy, random_rollout

from seed_hpc.agents import agent_class
from seed_hpc.agents.ppo import PPOConfig, gae_advantages, ppo_loss
from seed_hpc.config import ModelConfig
from seed_hpc.models.heads import PolicyValue

T, B, A = 12, 8, 4


def plain_advantages(batch, value, gamma, lam):
    """Equation (11): A_s = sum over t >= s of (gamma lambda)^(t-s) delta_t, up to the end of the episode."""
    result = torch.zeros(T, B).double()
    for b in range(B):
        for s in range(T):
            weight = 1.0
            for t in range(s, T):
                if batch.last_TB[t, b]:
                    break
                next_value = 0.0 if batch.terminated_TB[t, b] else float(value[t + 1, b])
                result[s, b] += weight * (float(batch.reward_TB[t, b]) + gamma * next_value - float(value[t, b]))
                weight *= gamma * lam
                if batch.terminated_TB[t, b]:
                    break
    return result


def prepared(seed, config, network):
    agent = agent_class("ppo")(config, ModelConfig(encoder="mlp"), (1,), A, num_envs=B, device=torch.device("cpu"))
    batch = random_rollout(T, B, A, seed)
    return batch, agent, list(agent.batches(network, batch, torch.Generator().manual_seed(seed)))


class LastStep(torch.nn.Module):
    """Answers for the one step after a rollout, as PPO asks for it, or for its T steps."""

    def __init__(self, table):
        super().__init__()
        self.table = table

    def forward(self, inputs, state):
        output, _ = self.table(inputs, state)
        return type(output)(*((x[-1:] if len(inputs.first_TB) == 1 else x[:-1]) for x in output)), state


class Constant(torch.nn.Module):
    """Uniform policy and no value, for any number of steps."""

    def forward(self, inputs, state):
        return PolicyValue(torch.zeros(*inputs.first_TB.shape, A).double(), torch.zeros(inputs.first_TB.shape)), state


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("normalize", [True, False])
def test_loss_and_gradient_equal_the_paper(seed, normalize):
    config = PPOConfig(name="ppo", minibatches=1, epochs=1, clip=0.3, normalize_advantages=normalize)
    network = LastStep(TablePolicy(T, B, A, seed + 50))
    batch, agent, (ready,) = prepared(seed, config, network)
    assert batch.terminated_TB.any()
    assert (batch.last_TB[1:] & ~batch.terminated_TB).any()
    output = agent.loss(network, ready)
    output.loss.backward()

    logits = network.table.logits.detach().clone().requires_grad_()
    value = network.table.value.detach().clone().requires_grad_()
    old_value = torch.cat((batch.behaviour["value"], value.detach()[-1:]))
    advantages = plain_advantages(batch, old_value, config.discount, config.gae_lambda)
    valid = ~batch.last_TB[:-1]
    normal = advantages
    if normalize:
        chosen = advantages[valid]
        normal = (advantages - chosen.mean()) / (chosen.std(correction=0) + 1e-8)
    losses, clipped = [], 0
    for t in range(T):
        for b in range(B):
            if not valid[t, b]:
                continue
            p = torch.softmax(logits[t, b], -1)
            ratio = p[batch.action_TB[t, b]] / batch.behaviour["log_probability"][t, b].exp()
            limited = torch.clamp(ratio, 1 - config.clip, 1 + config.clip)
            clipped += int(limited != ratio)
            target = advantages[t, b] + batch.behaviour["value"][t, b]
            losses.append(
                -torch.min(ratio * normal[t, b], limited * normal[t, b])
                + config.value_cost * 0.5 * (target - value[t, b]) ** 2
                + config.entropy_cost * (p * p.log()).sum()
            )
    expected = torch.stack(losses).mean()
    expected.backward()
    torch.testing.assert_close(output.loss, expected)
    torch.testing.assert_close(network.table.logits.grad, logits.grad)
    torch.testing.assert_close(network.table.value.grad, value.grad)
    assert output.metrics["clip_fraction"] == pytest.approx(clipped / len(losses))


def test_hand_worked_numbers():
    """gamma = lambda = 1/2, values 1, 2, 4, rewards 1, 2: A_1 = 2 + 2 - 2 = 2, A_0 = 1 + 1 - 1 + 1/4 * 2 = 1.5."""
    ones = torch.ones(2, 1).double()
    advantages = gae_advantages(
        reward_TB=torch.tensor([[1.0], [2.0]]).double(),
        discount_TB=0.5 * ones,
        valid_TB=ones,
        value_TB=torch.tensor([[1.0], [2.0], [4.0]]).double(),
        gae_lambda=0.5,
    )
    assert advantages.flatten().tolist() == [1.5, 2.0]


def numbered(core, minibatches):
    """Minibatches of two epochs of a rollout whose rewards number its steps, row after row."""
    config = PPOConfig(name="ppo", minibatches=minibatches, epochs=2)
    model = ModelConfig(encoder="mlp", core=core)
    agent = agent_class("ppo")(config, model, (1,), A, num_envs=B, device=torch.device("cpu"))
    batch = random_rollout(T, B, A, 0)
    number = torch.arange(-B, T * B).view(T + 1, B)
    batch.inputs = batch.inputs._replace(obs_TBX=number.unsqueeze(-1) + B, previous_action_TB=number)
    batch.behaviour["log_probability"] = number[1:] / 2
    return batch, list(agent.batches(Constant(), batch, torch.Generator().manual_seed(1)))


def test_minibatches_of_a_feed_forward_network_are_random_steps():
    batch, parts = numbered("feed_forward", 5)
    assert [part.valid_TB.shape for part in parts] == [(1, size) for size in (20, 19, 19, 19, 19)] * 2
    for epoch in (parts[:5], parts[5:]):
        assert sorted(number for part in epoch for number in part.action_TB[0].tolist()) == list(range(T * B))
    assert not torch.equal(parts[0].action_TB, parts[5].action_TB)
    step, env = parts[0].action_TB[0] // B, parts[0].action_TB[0] % B
    assert len(set(env.tolist())) > B // 2
    assert len(set(step.tolist())) > T // 2
    for part in parts:  # everything of a step stays together
        number = part.action_TB[0]
        assert torch.equal(part.inputs.obs_TBX[0, :, 0], number)
        assert torch.equal(part.inputs.first_TB[0], batch.inputs.first_TB.flatten()[number])
        assert torch.equal(part.valid_TB[0], batch.valid_TB.flatten()[number])
        assert torch.equal(part.behaviour["log_probability"][0], number / 2)
        assert torch.equal(part.behaviour["value"][0], batch.behaviour["value"].flatten()[number])
        assert part.state_BS.shape == (len(number), 0)


def test_minibatches_of_a_recurrent_network_are_whole_unrolls():
    batch, parts = numbered("lstm", 3)
    assert [part.valid_TB.shape for part in parts] == [(T, 3), (T, 3), (T, 2)] * 2
    for epoch in (parts[:3], parts[3:]):
        lanes = torch.cat([part.action_TB for part in epoch], 1)
        assert torch.equal(lanes[:, lanes[0].argsort()], batch.action_TB)
    for part in parts:
        assert torch.equal(part.inputs.obs_TBX[:, :, 0], part.action_TB)
        assert torch.equal(part.behaviour["log_probability"], part.action_TB / 2)


def test_loss_of_void_transitions_is_nothing():
    config = PPOConfig(name="ppo", minibatches=1, epochs=1)
    network = LastStep(TablePolicy(T, B, A, 3))
    _, agent, (ready,) = prepared(1, config, network)
    before = ppo_loss(network, ready, config).loss
    with torch.no_grad():
        network.table.logits[:-1][~ready.valid_TB] += torch.tensor([3.0, 0.0, 0.0, 0.0]).double()
        network.table.value[:-1][~ready.valid_TB] += 9.0
    assert agent.loss(network, ready).loss == before
