# SPDX-License-Identifier: Apache-2.0
"""The policies against torch.distributions in float64, and a continuous actor that learns where its target is."""

from types import SimpleNamespace

import pytest
import torch
from torch.distributions import Categorical, Independent, Normal

from seed_hpc.agents import agent_class
from seed_hpc.agents.policies import CATEGORICAL, GAUSSIAN
from seed_hpc.agents.ppo import PPOConfig
from seed_hpc.config import ModelConfig, load_experiment
from seed_hpc.errors import UserError
from seed_hpc.models.heads import GaussianPolicyValueHead
from seed_hpc.models.network import Inputs
from seed_hpc.training.loop import ClosedLoop

T, B, A = 5, 7, 3


@pytest.fixture
def numbers():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(T, B, 2 * A, generator=generator, dtype=torch.float64)


def test_gaussian_density_and_entropy(numbers):
    mean, log_std = numbers.chunk(2, -1)
    reference = Independent(Normal(mean, log_std.exp()), 1)
    action = torch.linspace(-2, 2, T * B * A, dtype=torch.float64).view(T, B, A)
    torch.testing.assert_close(GAUSSIAN.log_probability(numbers, action), reference.log_prob(action))
    torch.testing.assert_close(GAUSSIAN.entropy(numbers), reference.entropy())
    assert torch.equal(GAUSSIAN.mode(numbers), mean)


def test_categorical_probability_and_entropy(numbers):
    reference = Categorical(logits=numbers)
    action = torch.arange(T * B).view(T, B) % (2 * A)
    torch.testing.assert_close(CATEGORICAL.log_probability(numbers, action), reference.log_prob(action))
    torch.testing.assert_close(CATEGORICAL.entropy(numbers), reference.entropy())


def test_gaussian_samples_have_the_mean_and_deviation_that_the_head_gives():
    policy = torch.tensor([0.5, -1.0, 0.1, -2.0]).expand(200_000, 4)
    drawn = GAUSSIAN.sample(policy, torch.Generator().manual_seed(3))
    torch.testing.assert_close(drawn.mean(0), torch.tensor([0.5, -1.0]), atol=0.02, rtol=0)
    torch.testing.assert_close(drawn.std(0), torch.tensor([0.1, -2.0]).exp(), atol=0.01, rtol=0)


def test_the_head_starts_with_a_small_mean_and_a_deviation_inside_the_range():
    torch.manual_seed(0)
    output = GaussianPolicyValueHead(16, A)(torch.randn(T, B, 16))
    mean, log_std = output.logits_TBA.chunk(2, -1)
    assert mean.abs().max() < 0.1
    assert 0.4 < log_std.exp().mean() < 0.8
    assert output.value_TB.shape == (T, B)


def test_agents_of_discrete_actions_refuse_continuous_ones():
    from seed_hpc.agents.pqn import PQNConfig

    model = ModelConfig(encoder="mlp")
    with pytest.raises(UserError, match="choose ppo or vtrace"):
        agent_class("pqn")(
            PQNConfig(name="pqn"), model, (2,), 2, continuous=True, num_envs=1, device=torch.device("cpu")
        )


@pytest.mark.parametrize("action_reward_input", [False, True])
def test_continuous_actions_pass_through_network_and_loss(action_reward_input):
    config = PPOConfig(name="ppo")
    model = ModelConfig(encoder="mlp", action_reward_input=action_reward_input)
    agent = agent_class("ppo")(config, model, (2,), A, continuous=True, num_envs=B, device=torch.device("cpu"))
    network = agent.build_network()
    inputs = Inputs(
        torch.randn(1, B, 2), torch.zeros(1, B, dtype=torch.bool), agent.zero_action(B)[None], torch.zeros(1, B)
    )
    action = agent.act(network, inputs, network.initial_state(B), torch.Generator().manual_seed(0))
    assert action.action_B.shape == (B, A)
    assert action.behaviour["log_probability"].shape == (B,)


class Target:
    """Episodes of one step; the reward falls with the distance of the action from a place in the observation."""

    reward_dtype = torch.float32

    def __init__(self, num_envs):
        self.num_envs = num_envs
        self.single_observation_space = SimpleNamespace(shape=(2,))
        self.single_action_space = SimpleNamespace(shape=(2,))
        self.generator = torch.Generator()

    def reset(self, *, seed=None):
        self.generator.manual_seed(seed)
        self.target = 2 * torch.rand(self.num_envs, 2, generator=self.generator) - 1
        self.ended = torch.zeros(self.num_envs, dtype=torch.bool)
        return self.target, {}

    def step_into(self, actions, observations, rewards, terminations, truncations):
        assert actions.shape == (self.num_envs, 2)
        rewards.copy_(torch.where(self.ended, 0.0, -(actions - self.target).square().sum(-1)))
        fresh = 2 * torch.rand(self.num_envs, 2, generator=self.generator) - 1
        self.target = torch.where(self.ended[:, None], fresh, self.target)
        self.ended = ~self.ended
        terminations.copy_(self.ended)
        truncations.zero_()
        observations.copy_(self.target)

    def close(self):
        pass


@pytest.mark.parametrize(("agent", "epochs"), [("ppo", 4), ("vtrace", 1)])
def test_a_continuous_policy_learns_to_hit_a_target(tmp_path, agent, epochs):
    path = tmp_path / "target.yaml"
    path.write_text(
        f"agent: {{name: {agent}, discount: 0, entropy_cost: 0, epochs: {epochs}, minibatches: 4}}\n"
        "env: {game: target, num_envs: 64, frameskip: 1, reward_clipping: false}\n"
        "model: {encoder: mlp}\noptimizer: {learning_rate: 3e-3}\n"
        "training: {unroll_length: 8, num_threads: 1, device: cpu}\n"
    )
    experiment = load_experiment(str(path))
    before = torch.get_num_threads()
    loop = ClosedLoop(experiment, Target(64))
    for _ in range(100):
        loop.learn_from(loop.actor.unroll())
    torch.set_num_threads(before)
    # At first about -1.4: a third for the target, and the deviation twice.
    assert loop.statistics.mean_return > -0.3
