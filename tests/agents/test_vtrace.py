# SPDX-License-Identifier: Apache-2.0
"""V-trace against the paper's equations written as sums and products, in float64."""

import math

import pytest
import torch
from batches import TablePolicy, random_rollout

from seed_hpc.agents.vtrace import VTraceConfig, vtrace_loss, vtrace_targets

T, B, A = 12, 7, 4


def _plain_targets(batch, log_pi, value, config):
    """Equation (1): v_s = V(x_s) + sum over t >= s of gamma^(t-s) (product of c_i, s <= i < t) delta_t.

    The sum of a state ends with its episode: at a termination nothing follows, at a truncation the value of the final
    observation does, and from a final observation itself there is nothing to correct.
    """
    targets, advantages = torch.zeros(T, B).double(), torch.zeros(T, B).double()

    def ratio(t, b):
        return math.exp(log_pi[t, b] - batch.behaviour["log_probability"][t, b])

    def v(s, b):
        if s == T or batch.last_TB[s, b]:
            return float(value[s, b])
        total, weight = float(value[s, b]), 1.0
        for t in range(s, T):
            if batch.last_TB[t, b]:
                break
            rho = min(config.clip_rho, ratio(t, b))
            next_value = 0.0 if batch.terminated_TB[t, b] else float(value[t + 1, b])
            delta = rho * (float(batch.reward_TB[t, b]) + config.discount * next_value - float(value[t, b]))
            total += weight * delta
            weight *= config.discount * config.trace_decay * min(config.clip_c, ratio(t, b))
            if batch.terminated_TB[t, b]:
                break
        return total

    for b in range(B):
        for s in range(T):
            targets[s, b] = v(s, b)
            if batch.last_TB[s, b]:
                continue
            next_target = 0.0 if batch.terminated_TB[s, b] else v(s + 1, b)
            rho = min(config.clip_rho, ratio(s, b))
            advantages[s, b] = rho * (float(batch.reward_TB[s, b]) + config.discount * next_target - float(value[s, b]))
    return targets, advantages


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "config",
    [
        VTraceConfig(name="vtrace"),
        VTraceConfig(name="vtrace", clip_rho=1.5, clip_c=0.7, trace_decay=0.9, discount=0.95),
    ],
    ids=["paper", "other clips"],
)
def test_loss_and_gradient_equal_the_paper(seed, config):
    batch = random_rollout(T, B, A, seed)
    assert batch.terminated_TB.any()
    assert (batch.last_TB[1:] & ~batch.terminated_TB).any()
    network = TablePolicy(T, B, A, seed + 100)
    output = vtrace_loss(network, batch, config)
    output.loss.backward()

    logits = network.logits.detach().clone().requires_grad_()
    value = network.value.detach().clone().requires_grad_()
    log_pi = torch.zeros(T, B).double()
    losses = []
    for t in range(T):
        for b in range(B):
            log_pi[t, b] = torch.log_softmax(logits[t, b], -1)[batch.action_TB[t, b]].detach()
    targets, advantages = _plain_targets(batch, log_pi, value.detach(), config)
    for t in range(T):
        for b in range(B):
            if batch.last_TB[t, b]:
                continue
            p = torch.softmax(logits[t, b], -1)
            policy = -p[batch.action_TB[t, b]].log() * advantages[t, b]
            baseline = 0.5 * (targets[t, b] - value[t, b]) ** 2
            entropy = -(p * p.log()).sum()
            losses.append(policy + config.baseline_cost * baseline - config.entropy_cost * entropy)
    expected = torch.stack(losses).mean()
    expected.backward()
    torch.testing.assert_close(output.loss, expected)
    torch.testing.assert_close(network.logits.grad, logits.grad)
    torch.testing.assert_close(network.value.grad, value.grad)


def test_hand_worked_numbers():
    """Two steps on policy, gamma = 1/2, values 1, 2, 4, rewards 1, 2: v_1 = 2 + 1/2 * 4 = 4, v_0 = 1 + 1/2 * 4 = 3."""
    zeros, ones = torch.zeros(2, 1).double(), torch.ones(2, 1).double()
    targets = vtrace_targets(
        log_ratio_TB=zeros,
        reward_TB=torch.tensor([[1.0], [2.0]]).double(),
        discount_TB=0.5 * ones,
        valid_TB=ones,
        value_TB=torch.tensor([[1.0], [2.0], [4.0]]).double(),
    )
    assert targets.value_TB.flatten().tolist() == [3.0, 4.0]
    assert targets.advantage_TB.flatten().tolist() == [2.0, 2.0]


def test_a_truncated_episode_bootstraps_from_its_final_observation():
    """Step 0 ends by truncation, step 1 is void: v_0 = r + gamma V(final); the next episode does not leak in."""
    ones = torch.ones(3, 1).double()
    targets = vtrace_targets(
        log_ratio_TB=0 * ones,
        reward_TB=torch.tensor([[1.0], [0.0], [50.0]]).double(),
        discount_TB=0.5 * ones,
        valid_TB=torch.tensor([[1.0], [0.0], [1.0]]).double(),
        value_TB=torch.tensor([[7.0], [10.0], [20.0], [30.0]]).double(),
    )
    assert targets.value_TB[:2].flatten().tolist() == [1.0 + 0.5 * 10.0, 10.0]
    assert targets.advantage_TB[:2].flatten().tolist() == [1.0 + 0.5 * 10.0 - 7.0, 0.0]
