# SPDX-License-Identifier: Apache-2.0
"""Cores link the steps of an episode: none (feed-forward) or an LSTM whose state is cleared where episodes begin.

A core's state is one float tensor state_BS, so that buffers, replay and checkpoints need not know what is in it.
Shapes: T steps, B environments, D features, S state numbers, H units of the LSTM.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class FeedForwardCore(nn.Module):
    """Passes features on; its state is empty (S = 0)."""

    state_size = 0

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.num_outputs = num_features

    def forward(self, features_TBD: Tensor, first_TB: Tensor, state_BS: Tensor) -> tuple[Tensor, Tensor]:
        """Returns both arguments unchanged."""
        return features_TBD, state_BS


class LSTMCore(nn.Module):
    """Long short-term memory (Hochreiter & Schmidhuber, 1997); state_BS holds h and c, so S = 2 H.

    Args:
        num_features: D.
        size: H.
    """

    def __init__(self, num_features: int, size: int) -> None:
        super().__init__()
        self.input = nn.Linear(num_features, 4 * size)
        self.recurrent = nn.Linear(size, 4 * size, bias=False)
        self.num_outputs = size
        self.state_size = 2 * size
        bound = 1.0 / math.sqrt(size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, features_TBD: Tensor, first_TB: Tensor, state_BS: Tensor) -> tuple[Tensor, Tensor]:
        """Runs T steps.

        Args:
            features_TBD: Inputs.
            first_TB: True where a step begins an episode: the state is zero before it.
            state_BS: State before step 0.

        Returns:
            Outputs (T, B, H) and the state after the last step.
        """
        input_TBG = self.input(features_TBD)  # the products that need no state, for all steps at once
        h_BH, c_BH = state_BS.to(input_TBG.dtype).chunk(2, dim=-1)
        outputs: list[Tensor] = []
        for input_BG, first_B in zip(input_TBG.unbind(0), first_TB.unbind(0), strict=True):
            keep_B1 = (~first_B).to(h_BH.dtype).unsqueeze(-1)
            h_BH, c_BH = h_BH * keep_B1, c_BH * keep_B1
            i, f, g, o = (input_BG + self.recurrent(h_BH)).chunk(4, dim=-1)
            c_BH = torch.sigmoid(f) * c_BH + torch.sigmoid(i) * torch.tanh(g)
            h_BH = torch.sigmoid(o) * torch.tanh(c_BH)
            outputs.append(h_BH)
        return torch.stack(outputs), torch.cat((h_BH, c_BH), dim=-1).to(state_BS.dtype)
