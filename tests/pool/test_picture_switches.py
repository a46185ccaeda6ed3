# SPDX-License-Identifier: Apache-2.0
"""The shortcuts of pictures (cuda/pool/machine_pictures.h, cuda/observation/plane_resizer.h), taken or not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from seed_hpc import _native

ROOT = Path(__file__).resolve().parents[2]
SWITCHES = ("SEED_DRAW_ON_DEMAND", "SEED_KEEP_EQUAL_ROWS")

# Prints a hash of all pictures; journey_escape leaves rows of earlier pictures in its own.
PLAY = """
import hashlib, numpy as np, seed_hpc
from seed_hpc.envs.roms import rom_folder
digest = hashlib.sha256()
for game in ("pong", "seaquest", "journey_escape"):
    ale = seed_hpc.ALEInterface()
    ale.setInt("random_seed", 1)
    ale.loadROM(rom_folder(None) / f"{game}.bin")
    actions = np.random.default_rng(1).integers(18, size=400)
    for frame, action in enumerate(actions):
        ale.act(int(action))
        if frame % 7 in (0, 1, 5):
            digest.update(ale.getScreen().tobytes())
    for size in (84, 42):
        envs = seed_hpc.make_vec(game, 3, num_threads=1, img_height=size, img_width=size)
        observations, _ = envs.reset(seed=1)
        for step in range(120):
            digest.update(observations.tobytes())
            observations = envs.step(actions[3 * step % 300 : 3 * step % 300 + 3] % envs.single_action_space.n)[0]
        envs.close()
print(digest.hexdigest())
"""


def play(folder: Path) -> str:
    """Returns the hash with the library in `folder`."""
    environment = {**os.environ, "SEED_HPC_LIBRARY_DIR": str(folder), "SEED_HPC_TRANSLATION": "0"}
    done = subprocess.run([sys.executable, "-c", PLAY], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.slow
def test_the_long_way_gives_the_same_pictures(tmp_path):
    headers = [path.read_text() for path in (ROOT / "cuda").rglob("*.h")]
    for switch in SWITCHES:
        assert any(f"#if !defined({switch})" in text for text in headers), switch
    cmake = shutil.which("cmake", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    if cmake is None or shutil.which(os.environ.get("CXX", "g++")) is None:
        pytest.skip("needs CMake and a C++ compiler")
    build, library = tmp_path / "build", tmp_path / "library"
    flags = " ".join(f"-D{switch}=0" for switch in SWITCHES)
    configure = ["-S", ROOT, "-B", build, f"-DCMAKE_CXX_FLAGS={flags}", f"-DSEED_LIBRARY_DIR={library}"]
    subprocess.run([cmake, *configure, "-DCMAKE_BUILD_TYPE=Release"], check=True, capture_output=True)
    subprocess.run([cmake, "--build", build, "--target", "seed_cpu"], check=True, capture_output=True)
    assert play(library) == play(_native.library_path("cpu").parent)
