# SPDX-License-Identifier: Apache-2.0
"""Networks: the papers' sizes, recurrent state at episode starts, dueling heads."""

import pytest
import torch
from torch.nn import functional

from seed_hpc.config import ModelConfig
from seed_hpc.errors import UserError
from seed_hpc.models.cores import LSTMCore
from seed_hpc.models.encoders import build_encoder, pixels_to_float
from seed_hpc.models.heads import ActionValueHead, PolicyValueHead
from seed_hpc.models.network import Inputs, Network

# Parameters of each encoder on 84x84x4, by the layer tables of the papers.
DQN2013 = (4 * 64 + 1) * 16 + (16 * 16 + 1) * 32 + (32 * 9 * 9 + 1) * 256
NATURE = (4 * 64 + 1) * 32 + (32 * 16 + 1) * 64 + (64 * 9 + 1) * 64 + (64 * 7 * 7 + 1) * 512


def _impala():
    total, channels = 0, 4
    for out in (16, 32, 32):
        total += (channels * 9 + 1) * out + 4 * (out * 9 + 1) * out
        channels = out
    return total + (32 * 11 * 11 + 1) * 256


@pytest.mark.parametrize(
    ("name", "parameters", "features"),
    [("dqn2013", DQN2013, 256), ("nature", NATURE, 512), ("impala", _impala(), 256)],
)
def test_encoders_have_the_papers_sizes(name, parameters, features):
    encoder = build_encoder(name, (4, 84, 84))
    assert sum(p.numel() for p in encoder.parameters()) == parameters
    assert encoder(torch.zeros(2, 4, 84, 84, dtype=torch.uint8)).shape == (2, features)


def test_pixels_become_channels_last_numbers_between_0_and_1():
    obs = torch.arange(2 * 4 * 5 * 3, dtype=torch.uint8).view(2, 4, 5, 3)
    x = pixels_to_float(obs, torch.float64)
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(x, obs.double() / 255) or torch.allclose(x, obs.double() / 255, rtol=1e-15)


@pytest.mark.parametrize(("name", "shape"), [("nature", (4, 20, 20)), ("nature", (7,)), ("impala", (7,))])
def test_observations_that_do_not_fit_are_user_errors(name, shape):
    with pytest.raises(UserError, match=r"model\.encoder=mlp"):
        build_encoder(name, shape)


def test_lstm_equals_torch_cell_with_state_cleared_at_first_steps():
    torch.manual_seed(0)
    T, B, D, H = 7, 3, 5, 4
    core = LSTMCore(D, H).double()
    cell = torch.nn.LSTMCell(D, H).double()
    with torch.no_grad():
        cell.weight_ih.copy_(core.input.weight)
        cell.weight_hh.copy_(core.recurrent.weight)
        cell.bias_ih.copy_(core.input.bias)
        cell.bias_hh.zero_()
    x, state = torch.randn(T, B, D).double(), torch.randn(B, 2 * H).double()
    first = torch.rand(T, B) < 0.3
    assert first.any()

    outputs, last_state = core(x, first, state)
    h, c = state[:, :H].clone(), state[:, H:].clone()
    for t in range(T):
        for b in range(B):
            if first[t, b]:
                h[b], c[b] = 0.0, 0.0
        h, c = cell(x[t], (h, c))
        torch.testing.assert_close(outputs[t], h)
    torch.testing.assert_close(last_state, torch.cat((h, c), -1))


@pytest.mark.parametrize("core", ["feed_forward", "lstm"])
def test_one_unroll_equals_single_steps(core):
    torch.manual_seed(1)
    T, B = 5, 2
    config = ModelConfig(encoder="mlp", core=core, lstm_size=8, action_reward_input=True)
    network = Network(config, (1, 10, 5), 3, PolicyValueHead).double()
    inputs = Inputs(
        torch.randint(0, 255, (T, B, 1, 10, 5), dtype=torch.uint8),
        torch.rand(T, B) < 0.3,
        torch.randint(0, 3, (T, B)),
        torch.randn(T, B),
    )
    whole, whole_state = network(inputs, network.initial_state(B))
    state = network.initial_state(B)
    for t in range(T):
        step, state = network(Inputs(*(x[t : t + 1] for x in inputs)), state)
        torch.testing.assert_close(step.logits_TBA[0], whole.logits_TBA[t])
        torch.testing.assert_close(step.value_TB[0], whole.value_TB[t])
    torch.testing.assert_close(state, whole_state)


def test_action_reward_input_reaches_the_output():
    torch.manual_seed(2)
    network = Network(ModelConfig(encoder="mlp", action_reward_input=True), (6,), 3, PolicyValueHead)
    obs, first = torch.randn(1, 2, 6), torch.zeros(1, 2, dtype=torch.bool)
    state = network.initial_state(2)
    a = network(Inputs(obs, first, torch.tensor([[0, 1]]), torch.zeros(1, 2)), state)[0].value_TB
    b = network(Inputs(obs, first, torch.tensor([[0, 2]]), torch.zeros(1, 2)), state)[0].value_TB
    assert a[0, 0] == b[0, 0]
    assert a[0, 1] != b[0, 1]


def test_dueling_head_is_value_plus_centred_advantage():
    torch.manual_seed(3)
    head = ActionValueHead(6, 4, dueling=True).double()
    x = torch.randn(2, 3, 6).double()
    q = head(x)
    torch.testing.assert_close(q.mean(-1), head.value(x).squeeze(-1))
    advantage = head.advantage(x)
    torch.testing.assert_close(q - q.mean(-1, keepdim=True), advantage - advantage.mean(-1, keepdim=True))


def test_heads_answer_in_float32_under_autocast():
    head = PolicyValueHead(6, 4)
    with torch.autocast("cpu", torch.bfloat16):
        output = head(torch.randn(1, 2, 6))
    assert functional.softmax(output.logits_TBA, -1).dtype == torch.float32
    assert output.value_TB.dtype == torch.float32
