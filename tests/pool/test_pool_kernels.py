# SPDX-License-Identifier: Apache-2.0
"""The kernels of the CUDA pool on the host, under sanitizers, against the CPU library: every output equal.

`make parity-kernels` runs this for all games (SEED_HPC_PARITY_GAMES=all), with more lanes and steps.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from seed_hpc import _native
from seed_hpc.envs import roms
from seed_hpc.envs.games import find_game, game_names

ROOT = Path(__file__).resolve().parents[2]
CUDA = ROOT / "cuda"
# A plain cartridge, paddles, Superchip RAM or many banks, and the display data chip.
FEW_GAMES = ["pong", "breakout", "pitfall2", "elevator_action"]
ALL = os.environ.get("SEED_HPC_PARITY_GAMES") == "all"
LANES, STEPS = (64, 500) if ALL else (3, 24)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Compiles the CUDA pool as plain C++ with ASan and UBSan."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    folder = tmp_path_factory.mktemp("kernels")
    tables = folder / "games" / "tables.h"
    tables.parent.mkdir()
    subprocess.run(["python3", CUDA / "games" / "generate_tables.py", tables], check=True)
    command = [compiler, "-std=gnu++17", "-O1", "-ffp-contract=off", "-w", "-DSEED_HOST_LAUNCHER"]
    command += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command += [f"-I{path}" for path in (CUDA, CUDA / "include", folder)]
    command += [CUDA / "tests" / "parity_pool_kernels.cpp", "-x", "c++", CUDA / "abi_cuda.cu"]
    command += [*sorted((CUDA / "pool").glob("*_cuda.cu")), "-o", folder / "parity", "-ldl"]
    subprocess.run(command, check=True)
    return folder / "parity"


@pytest.mark.parametrize("game", game_names() if ALL else FEW_GAMES)
def test_kernels_equal_the_cpu_pool(program, game):
    image = roms.rom_folder() / f"{game}.bin"
    numbers = [str(find_game(game).index), image, str(LANES), str(STEPS)]
    done = subprocess.run([program, _native.library_path("cpu"), *numbers], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "equal" in done.stdout
