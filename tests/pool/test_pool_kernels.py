# SPDX-License-Identifier: Apache-2.0
"""The kernels of the CUDA pool on the host, under sanitizers, against the CPU library: every output equal.

`make parity-kernels` does this for all games, with more lanes and steps.
"""

import shutil

import pytest
from kernels_on_host import compare, compile_parity

# A plain cartridge, paddles, Superchip RAM or many banks, and the display data chip.
FEW_GAMES = ["pong", "breakout", "pitfall2", "elevator_action"]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The CUDA pool as plain C++ with ASan and UBSan."""
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("needs a C++ compiler")
    return compile_parity(tmp_path_factory.mktemp("kernels"), sanitize=True)


@pytest.mark.parametrize("game", FEW_GAMES)
def test_kernels_equal_the_cpu_pool(program, game):
    assert compare(program, game, lanes=3, steps=24) == ""
