# SPDX-License-Identifier: Apache-2.0
"""`quadruped` against the same mechanics in general form, against conservation laws, and bit for bit by compilers."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import seed_hpc
from seed_hpc.baselines.numpy_environments import NumpyQuadruped

ROOT = Path(__file__).resolve().parents[2]


def coordinates(observation):
    """Returns q and v (B, 11), float64, with x = 0, of an observation."""
    o = observation.astype(np.float64)
    q, v = np.zeros((2, len(o), 11))
    q[:, 1], q[:, 2] = o[:, 0], np.arctan2(o[:, 1], o[:, 2])
    v[:, 0], v[:, 1], v[:, 2] = o[:, 3], o[:, 4], 4 * o[:, 5]
    for leg in range(4):
        hip, knee, hip_speed, knee_speed = o[:, 6 + 5 * leg : 10 + 5 * leg].T
        one, two = 3 + 2 * leg, 4 + 2 * leg
        q[:, one] = q[:, 2] + 0.5 + hip
        q[:, two] = q[:, one] - 1.0 + knee
        v[:, one] = v[:, 2] + 10 * hip_speed
        v[:, two] = v[:, one] + 10 * knee_speed
    return q, v


def test_steps_equal_the_dense_equations_in_float64():
    """Jacobians, an 11 x 11 mass matrix and a linear solver give the same motion, contacts included."""
    envs, reference = seed_hpc.make_vec("quadruped", 16), NumpyQuadruped(16)
    generator = np.random.default_rng(0)
    observation, _ = envs.reset(seed=1)
    errors = []
    for _ in range(60):
        action = generator.uniform(-1, 1, (16, 8)).astype(np.float32)
        q, v = coordinates(observation)
        reference.state = {"q": q, "v": v, "on_ground": np.zeros((16, 4))}
        rewards, fallen = reference.advance(action.astype(np.float64))
        after, found, terminations, _, infos = envs.step(action)
        lives = infos["episode_steps"] > 0
        errors.append(np.abs(reference.observe() - after)[lives].max(-1))
        np.testing.assert_allclose(found[lives], rewards[lives], atol=2e-3)
        assert np.array_equal(terminations[lives], fallen[lives])
        observation = after.copy()
    errors = np.concatenate(errors)
    assert np.quantile(errors, 0.95) < 1e-3  # a contact within rounding may begin a physics step earlier or later
    assert np.median(errors) < 1e-4
    envs.close()


def momentum_and_energy(q, v):
    """Linear momentum (B, 2) and kinetic energy (B,) of all bodies, from their Jacobians."""
    model = NumpyQuadruped(len(q))
    momentum = 10.0 * v[:, :2].copy()
    energy = 5.0 * (v[:, :2] ** 2).sum(-1) + 0.5 * 0.41 * v[:, 2] ** 2
    for leg in range(4):
        one, two = 3 + 2 * leg, 4 + 2 * leg
        for weight, inertia, thigh, shank, turned in ((1.0, 0.0052, 0.125, 0.0, one), (0.5, 0.0026, 0.25, 0.125, two)):
            _, jacobian, _ = model._point(q, v, leg, thigh, shank)
            speed = np.einsum("bki,bi->bk", jacobian, v)
            momentum += weight * speed
            energy += 0.5 * weight * (speed**2).sum(-1) + 0.5 * inertia * v[:, turned] ** 2
        energy += 0.005 * ((v[:, one] - v[:, 2]) ** 2 + (v[:, two] - v[:, one]) ** 2)
    return momentum, energy


def test_in_free_fall_the_momentum_changes_by_gravity_alone():
    """Lifted by a gravity that points up, the legs kick as they like: motors are internal forces."""
    envs = seed_hpc.make_vec("quadruped", 8, gravity=-9.81)
    envs.reset(seed=0)
    generator = np.random.default_rng(1)
    for _ in range(10):
        observation = envs.step(np.zeros((8, 8), np.float32))[0]
    before, _ = momentum_and_energy(*coordinates(observation))
    for _ in range(5):
        observation, _, terminations, *_ = envs.step(generator.uniform(-1, 1, (8, 8)).astype(np.float32))
        assert not terminations.any()
    after, _ = momentum_and_energy(*coordinates(observation))
    np.testing.assert_allclose((after - before)[:, 0], 0, atol=0.05)
    np.testing.assert_allclose((after - before)[:, 1], 16 * 9.81 * 0.1, rtol=1e-2)  # Euler steps of 1.25 ms
    envs.close()


def test_motors_and_ground_take_energy_out():
    """Left alone the robot comes to rest on its four feet, which carry its weight."""
    envs = seed_hpc.make_vec("quadruped", 8)
    envs.reset(seed=0)
    still = np.zeros((8, 8), np.float32)
    for _ in range(250):
        observation, rewards, terminations, *_ = envs.step(still)
        assert not terminations.any()
    _, energy = momentum_and_energy(*coordinates(observation))
    assert energy.max() < 1e-4
    assert (observation[:, [10, 15, 20, 25]] == 1).all()
    np.testing.assert_allclose(rewards, 0, atol=5e-3)
    # Four springs of 8000 N/m carry 16 kg: the feet sink 5 mm.
    q, _ = coordinates(observation)
    hips = np.array([0.3, 0.3, -0.3, -0.3])
    feet = q[:, 1:2] + hips * np.sin(q[:, 2:3]) - 0.25 * (np.cos(q[:, 3::2]) + np.cos(q[:, 4::2]))
    np.testing.assert_allclose(-8000 * feet.sum(1), 16 * 9.81, rtol=0.02)
    envs.close()


PLAY = """
import hashlib, sys
import numpy as np
import seed_hpc
envs = seed_hpc.make_vec(sys.argv[1], 16, num_threads=int(sys.argv[2]))
digest = hashlib.sha256(envs.reset(seed=7)[0].tobytes())
generator = np.random.default_rng(3)
for _ in range(200):
    observation, reward, *_ = envs.step(generator.uniform(-1, 1, (16, 8)).astype(np.float32))
    digest.update(observation.tobytes() + reward.tobytes())
print(digest.hexdigest())
"""


def digest(name, threads=1):
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", PLAY, str(name), str(threads)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "compiler",
    [("g++", "-O0"), ("g++", "-O3", "-march=x86-64-v3"), ("clang++", "-O3", "-march=x86-64-v3")],
    ids=" ".join,
)
def test_the_same_bits_by_any_compiler(tmp_path, compiler):
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"{compiler[0]} is not installed")
    unit, library = tmp_path / "unit.cpp", tmp_path / "quadruped.so"
    unit.write_text('#include "envs/quadruped.h"\n')
    include = [f"-I{ROOT / 'cuda'}", f"-I{ROOT / 'cuda' / 'include'}"]
    flags = ["-std=gnu++17", "-shared", "-fPIC", "-ffp-contract=off", "-DSEED_ENVIRONMENT_LIBRARY"]
    subprocess.run([*compiler, *flags, *include, "-o", str(library), str(unit)], check=True)
    assert digest(library) == digest("quadruped", threads=3)
