# SPDX-License-Identifier: Apache-2.0
"""Encoders: one observation in, one feature vector out. Pixels are uint8 until the first layer of these.

    dqn2013        Mnih et al., "Playing Atari with Deep Reinforcement Learning" (2013): 2 convolutions; also that
                   of A3C and the shallow one of IMPALA; a third of the arithmetic of `nature`
    dqn2013_half   the same for frames of half the size (42x42, as in OpenAI's universe-starter-agent): kernel and
                   stride of the first convolution are halved too; for CPUs
    nature         Mnih et al., "Human-level control through deep reinforcement learning" (2015): 3 convolutions
    impala         Espeholt et al., "IMPALA" (2018), figure 3 right: 15 convolutions with residual blocks
    mlp            two dense layers, for observations that are vectors

Shapes: N observations, C frames of a stack, H rows, W columns, D features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from seed_hpc.errors import UserError

# Convolutions as (output channels, kernel size, stride), and the units of the dense layer after them.
CONVOLUTIONS: dict[str, tuple[tuple[tuple[int, int, int], ...], int]] = {
    "dqn2013": (((16, 8, 4), (32, 4, 2)), 256),
    "dqn2013_half": (((16, 4, 2), (32, 4, 2)), 256),
    "nature": (((32, 8, 4), (64, 4, 2), (64, 3, 1)), 512),
}
IMPALA_CHANNELS = (16, 32, 32)


def initialize(layer: nn.Linear | nn.Conv2d, gain: float = math.sqrt(2.0)) -> nn.Linear | nn.Conv2d:
    """Gives a layer orthogonal weights (Saxe et al., 2014) and zero biases, and returns it."""
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def pixels_to_float(obs_NCHW: Tensor, dtype: torch.dtype) -> Tensor:
    """Scales uint8 pixels to [0, 1], in the memory format that the first convolution wants."""
    if obs_NCHW.is_cuda:  # one pass over memory
        scaled = torch.empty_like(obs_NCHW, dtype=dtype, memory_format=torch.channels_last)
        return scaled.copy_(obs_NCHW).mul_(1.0 / 255.0)
    # On a CPU only a conversion in place of the elements is vectorised.
    return obs_NCHW.to(dtype).mul_(1.0 / 255.0).contiguous(memory_format=torch.channels_last)


def flatten_pixels(x_NCHW: Tensor) -> Tensor:
    """Makes (N, H W C) of (N, C, H, W): no copy in the memory format channels_last, in both directions."""
    return x_NCHW.permute(0, 2, 3, 1).flatten(1)


class ConvolutionalEncoder(nn.Module):
    """Convolutions with ReLU, then one dense layer with ReLU.

    Args:
        observation_shape: (C, H, W).
        convolutions: (output channels, kernel size, stride) of each.
        hidden_size: Units of the dense layer.
        layer_norm: Normalise each layer's output before its ReLU.
    """

    def __init__(
        self,
        observation_shape: Sequence[int],
        convolutions: Sequence[tuple[int, int, int]],
        hidden_size: int,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        channels, height, width = observation_shape
        layers: list[nn.Module] = []
        for out_channels, kernel, stride in convolutions:
            layers.append(initialize(nn.Conv2d(channels, out_channels, kernel, stride)))
            channels, height, width = out_channels, (height - kernel) // stride + 1, (width - kernel) // stride + 1
            if height < 1 or width < 1:
                raise UserError(
                    f"observations of {observation_shape[1]}x{observation_shape[2]} are too small for this "
                    "encoder: raise env.img_height and env.img_width, or choose model.encoder=mlp"
                )
            if layer_norm:
                layers.append(nn.GroupNorm(1, channels))  # over channels and pixels: one group
            layers.append(nn.ReLU())
        self.convolutions = nn.Sequential(*layers)
        self.dense = initialize(nn.Linear(channels * height * width, hidden_size))
        self.norm = nn.LayerNorm(hidden_size) if layer_norm else nn.Identity()
        self.num_features = hidden_size

    def forward(self, obs_NCHW: Tensor) -> Tensor:
        """Maps uint8 (N, C, H, W) to features (N, D)."""
        x = self.convolutions(pixels_to_float(obs_NCHW, self.dense.weight.dtype))
        return functional.relu(self.norm(self.dense(flatten_pixels(x))))


class _ResidualBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv0 = initialize(nn.Conv2d(channels, channels, 3, padding=1))
        self.conv1 = initialize(nn.Conv2d(channels, channels, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv1(functional.relu(self.conv0(functional.relu(x))))  # type: ignore[no-any-return]


class ImpalaEncoder(nn.Module):
    """Three sections of convolution, max-pooling and two residual blocks, then one dense layer.

    Args:
        observation_shape: (C, H, W).
        hidden_size: Units of the dense layer.
        layer_norm: Normalise the dense layer's output before its ReLU.
    """

    def __init__(self, observation_shape: Sequence[int], hidden_size: int, layer_norm: bool = False) -> None:
        super().__init__()
        channels, height, width = observation_shape
        sections: list[nn.Module] = []
        for out_channels in IMPALA_CHANNELS:
            sections += [
                initialize(nn.Conv2d(channels, out_channels, 3, padding=1)),
                nn.MaxPool2d(3, stride=2, padding=1),
                _ResidualBlock(out_channels),
                _ResidualBlock(out_channels),
            ]
            channels, height, width = out_channels, (height + 1) // 2, (width + 1) // 2
        self.sections = nn.Sequential(*sections)
        self.dense = initialize(nn.Linear(channels * height * width, hidden_size))
        self.norm = nn.LayerNorm(hidden_size) if layer_norm else nn.Identity()
        self.num_features = hidden_size

    def forward(self, obs_NCHW: Tensor) -> Tensor:
        """Maps uint8 (N, C, H, W) to features (N, D)."""
        x = self.sections(pixels_to_float(obs_NCHW, self.dense.weight.dtype))
        return functional.relu(self.norm(self.dense(flatten_pixels(functional.relu(x)))))


class DenseEncoder(nn.Module):
    """Two dense layers with tanh, for vectors.

    Args:
        observation_shape: Any; it is flattened.
        hidden_size: Units of both layers.
        layer_norm: Normalise each layer's output before its tanh.
    """

    def __init__(self, observation_shape: Sequence[int], hidden_size: int, layer_norm: bool = False) -> None:
        super().__init__()
        self.first = initialize(nn.Linear(math.prod(observation_shape), hidden_size))
        self.second = initialize(nn.Linear(hidden_size, hidden_size))
        self.first_norm = nn.LayerNorm(hidden_size) if layer_norm else nn.Identity()
        self.second_norm = nn.LayerNorm(hidden_size) if layer_norm else nn.Identity()
        self.num_features = hidden_size

    def forward(self, obs: Tensor) -> Tensor:
        """Maps observations (N, ...) to features (N, D); uint8 ones are scaled to [0, 1]."""
        x = obs.flatten(1).to(self.first.weight.dtype)
        if obs.dtype == torch.uint8:
            x = x / 255.0
        x = torch.tanh(self.first_norm(self.first(x)))
        return torch.tanh(self.second_norm(self.second(x)))


def build_encoder(
    name: str, observation_shape: Sequence[int], hidden_size: int = 0, layer_norm: bool = False
) -> nn.Module:
    """Returns an encoder by name.

    Args:
        name: See the top of this file.
        observation_shape: Shape of one observation.
        hidden_size: Units of the last layer; 0 takes the paper's number.
        layer_norm: Whether to normalise layers.

    Raises:
        UserError: The encoder reads pictures and the observations are none, or are too small.
    """
    if name == "mlp":
        return DenseEncoder(observation_shape, hidden_size or 64, layer_norm)
    if len(observation_shape) != 3:
        raise UserError(
            f"model.encoder={name} reads pictures, but observations have shape {tuple(observation_shape)}: "
            "choose model.encoder=mlp"
        )
    if name == "impala":
        return ImpalaEncoder(observation_shape, hidden_size or 256, layer_norm)
    convolutions, paper_size = CONVOLUTIONS[name]
    return ConvolutionalEncoder(observation_shape, convolutions, hidden_size or paper_size, layer_norm)
