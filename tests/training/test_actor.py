# SPDX-License-Identifier: Apache-2.0
"""Rollouts hold exactly what the environments delivered, and unrolls join without a seam."""

import pytest
import torch
from doubles.catch_env import CatchEnvs

from seed_hpc.agents import agent_class, agent_config_class
from seed_hpc.config import ModelConfig
from seed_hpc.training.actor import Actor


class Recorder(CatchEnvs):
    """Catch with rewards of 3 in every step, which writes down what it was asked and what it answered."""

    def reset(self, *, seed=None):
        obs, info = super().reset(seed=seed)
        self.log = [(None, obs.clone(), None, None, None)]
        return obs, info

    def step(self, actions):
        obs, reward, terminated, truncated, info = super().step(actions)
        reward = torch.where(self.steps == 0, 0.0, reward + 3.0)
        self.log.append((actions.clone(), obs.clone(), reward, terminated.clone(), truncated.clone()))
        return obs, reward, terminated, truncated, info


def make_actor(envs, *, T=7, core="feed_forward", **options):
    config = agent_config_class("vtrace")(name="vtrace")
    device = torch.device("cpu")
    agent = agent_class("vtrace")(
        config, ModelConfig(encoder="mlp", core=core, lstm_size=4), (1, 10, 5), 3, num_envs=envs.num_envs, device=device
    )
    torch.manual_seed(0)
    network = agent.build_network()
    return Actor(envs, agent, network, unroll_length=T, seed=5, device=device, **options), network


@pytest.mark.parametrize("max_steps", [10**9, 4])
def test_unrolls_are_the_stream_of_the_environments(max_steps):
    envs = Recorder(3, max_steps)
    actor, _ = make_actor(envs, clip_rewards=False)
    t0 = 0
    returns, lengths = torch.zeros(3), torch.zeros(3, dtype=torch.int64)
    previous_done = torch.zeros(3, dtype=torch.bool)
    was_last = torch.zeros(3, dtype=torch.bool)
    for _ in range(4):
        rollout = actor.unroll()
        for t in range(rollout.num_steps):
            assert torch.equal(rollout.inputs.obs_TBX[t], envs.log[t0 + t][1])
            actions, obs, reward, terminated, truncated = envs.log[t0 + t + 1]
            done = terminated | truncated
            assert torch.equal(rollout.inputs.obs_TBX[t + 1], obs)
            assert torch.equal(rollout.reward_TB[t], reward)
            assert torch.equal(rollout.terminated_TB[t], terminated)
            assert torch.equal(rollout.last_TB[t], previous_done)
            assert torch.equal(rollout.valid_TB[t], ~previous_done)
            assert torch.equal(rollout.inputs.first_TB[t], was_last if t0 + t else torch.ones(3, dtype=torch.bool))
            assert torch.equal(rollout.action_TB[t], torch.where(previous_done, 0, actions))
            returns, lengths = returns + reward, lengths + ~previous_done
            assert torch.equal(rollout.episode_return_TB[t].nan_to_num(-99), torch.where(done, returns, -99.0))
            assert torch.equal(rollout.episode_steps_TB[t], torch.where(done, lengths, 0))
            returns, lengths = returns * ~done, lengths * ~done
            was_last, previous_done = previous_done, done
        assert torch.equal(rollout.last_TB[-1], previous_done)
        t0 += rollout.num_steps


def test_rewards_are_clipped_for_the_learner_but_not_in_returns():
    actor, _ = make_actor(Recorder(3))
    rollout = actor.unroll()
    rollout = actor.unroll()
    ended = ~rollout.episode_return_TB.isnan()
    assert rollout.reward_TB.max() == 1.0
    assert (rollout.episode_return_TB[ended] >= 26.0).all()


def test_rollout_state_and_behaviour_are_those_of_the_network():
    """The learner's one call on a rollout repeats what the actor's steps computed, across unrolls and episode ends."""
    actor, network = make_actor(CatchEnvs(4), core="lstm")
    for _ in range(3):
        rollout = actor.unroll()
        output, _ = network(rollout.inputs, rollout.state_BS)
        log_pi = torch.log_softmax(output.logits_TBA[:-1], -1)
        sampled = torch.isclose(log_pi, rollout.behaviour["log_probability"].unsqueeze(-1), atol=1e-5)
        taken = sampled.gather(-1, rollout.action_TB.unsqueeze(-1)).squeeze(-1)
        assert taken[rollout.valid_TB].all()


def test_parameters_are_taken_at_the_start_of_an_unroll_only():
    actor, network = make_actor(CatchEnvs(2))
    assert actor.unroll().policy_version == 0
    with torch.no_grad():
        network.head.value.bias.fill_(7.0)
    assert actor.network.head.value.bias != 7.0
    actor.publication.mark_updated(3)
    assert actor.unroll().policy_version == 3
    assert actor.network.head.value.bias == 7.0


def test_buffers_take_turns():
    actor, _ = make_actor(CatchEnvs(2), num_buffers=2)
    a, b, c = actor.unroll(), actor.unroll(), actor.unroll()
    assert a is c
    assert a is not b


def test_state_dict_continues_bit_for_bit():
    actor, _ = make_actor(CatchEnvs(4, 6), core="lstm")
    actor.unroll()
    state = actor.state_dict()
    expected = [actor.unroll().to_dict() for _ in range(1)]
    expected = {name: x.clone() for name, x in expected[0].items()}
    other, _ = make_actor(CatchEnvs(4, 6), core="lstm")
    other.unroll()
    other.unroll()
    other.load_state_dict(state)
    found = other.unroll().to_dict()
    assert all(torch.equal(found[name], x) for name, x in expected.items())
