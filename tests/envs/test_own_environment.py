# SPDX-License-Identifier: Apache-2.0
"""The guide's commands from `env new` to a learning agent, and what a user is told on the way."""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import seed_hpc
from seed_hpc import cli
from seed_hpc.envs import environment_build
from seed_hpc.envs.check import check_environment
from seed_hpc.errors import UserError
from seed_hpc.profiling.kernels_command import find_nvcc

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "own_environment.md"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SEED_HPC_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def guide_commands():
    """The lines of the guide's ```sh blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip()]


@pytest.mark.slow
def test_the_guide_leads_to_a_learning_agent(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, words in (("seed-hpc", "-m seed_hpc.cli"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        (folder / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }
    commands = guide_commands()
    assert [command.split()[1] for command in commands] == ["env", "kernels", "-m", "train", "evaluate"]
    for command in commands:
        done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    assert "agent" in done.stderr


def written(name="my_env", change=lambda text: text):
    """Writes the template and returns its header, changed."""
    assert cli.main(["env", "new", name]) == 0
    header = Path(name) / f"{name}.h"
    header.write_text(change(header.read_text()))
    return header


def build(header):
    return cli.main(["kernels", "build", "--env", str(header)])


def test_the_template_takes_its_name(capsys):
    header = written("cart_pole")
    assert "struct CartPole" in header.read_text()
    assert build(header) == 0
    check_environment("cart_pole")
    assert cli.main(["env", "list", "cart_pole"]) == 0
    assert "cart_pole" in capsys.readouterr().out


def test_a_broken_library_does_not_hide_the_others(capsys):
    broken = environment_build.library_path("wobbly")
    broken.parent.mkdir(parents=True)
    broken.write_text("not a library")
    assert cli.main(["env", "list"]) == 1
    printed = capsys.readouterr()
    assert "quadruped" in printed.out
    assert printed.err.startswith("wobbly: ")
    assert printed.err.count("\n") == 1
    assert cli.main(["env", "list", "wobbly"]) == 2


@pytest.mark.parametrize("name", ["My-Env", "3d", "ball", "pong", ""])
def test_names_that_cannot_be(name, capsys):
    assert cli.main(["env", "new", name]) == 2
    assert "name" in capsys.readouterr().err
    assert not Path(name or "nothing").exists()


def test_nothing_is_overwritten(capsys):
    written()
    assert cli.main(["env", "new", "my_env"]) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("float velocity;", "std::vector<float> velocity;", r"does not compile: .*my_env\.h:\d+"),
        ("float distance; ", "float* p; ~MyEnv() {} float distance; ", "plain members"),
        ("using Observation = float", "using Observation = double", "Observation must be float or uint8_t"),
        ("SEED_REGISTER_ENVIRONMENT(", "// SEED_REGISTER_ENVIRONMENT(", "registers 0 environments"),
        ('"my_env")', '"ball")', "is taken"),
        ("SEED_HD void reset", "SEED_HD void begin", "reset"),
    ],
)
def test_a_fault_in_the_header_is_one_sentence(old, new, message, capsys):
    header = written(change=lambda text: text.replace(old, new))
    assert build(header) == 2
    error = capsys.readouterr().err
    assert re.search(message, error), error
    assert len(error.strip().splitlines()) == 1
    with pytest.raises(UserError, match="no game 'my_env'"):
        seed_hpc.make_vec("my_env", 1)


def test_an_error_of_the_environment_names_the_lane():
    header = written(
        change=lambda text: text.replace("if (lost)", "").replace(
            "return {reward, lost};", "if (distance > 0.0f) context.error = 7;\n    return {reward, lost};"
        )
    )
    assert build(header) == 0
    envs = seed_hpc.make_vec("my_env", 8)
    first, _ = envs.reset(seed=3)
    lane = int(np.argmax(first[:, 0] > 0.05))
    with pytest.raises(
        UserError, match=f"'my_env' reported error 7 in lane {lane} .seed 3, number {lane}, episode 0, step 1"
    ):
        envs.step(np.ones(8, np.int64))
    envs.close()


def test_a_changed_header_is_noticed():
    header = written()
    assert build(header) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seed_hpc.make_vec("my_env", 1).close()
    header.write_text(header.read_text() + "\n")
    with pytest.warns(UserWarning, match="has changed since"):
        seed_hpc.make_vec("my_env", 1).close()


def test_a_check_that_must_fail():
    """A static counter makes lanes depend on each other; the check sees it."""
    header = written(
        change=lambda text: text.replace(
            "distance += velocity",
            "static int count = 0;\n    distance += 0.001f * (++count % 7);\n    distance += velocity",
        )
    )
    assert build(header) == 0
    with pytest.raises(AssertionError, match=r"threads|snapshot|other lanes"):
        check_environment("my_env")


BYTES = """
#include "envs/environment.h"
struct Board {
  using Actions = seed::DiscreteActions<2>;
  using Observation = uint8_t;
  static constexpr int32_t kObservationShape[] = {1, 3, 4};
  static constexpr int32_t kMaxEpisodeSteps = 20;
  uint8_t cell;
  SEED_HD void reset(seed::Context& context) { cell = static_cast<uint8_t>(context.random.integer(12)); }
  SEED_HD seed::Outcome step(int32_t action, seed::Context& context) {
    cell = static_cast<uint8_t>((cell + 1 + action) % 12);
    return {context.data[cell % context.data_bytes] * 1.0f, cell == 0};
  }
  SEED_HD void act(int32_t& action, const seed::Context&) const { action = cell % 2; }
  SEED_HD void observe(uint8_t* observation, const seed::Context&) const {
    for (int i = 0; i < 12; ++i) observation[i] = i == cell ? 255 : 0;
  }
};
SEED_REGISTER_ENVIRONMENT(Board, "board")
"""


def test_bytes_data_and_a_reference_policy(tmp_path):
    header = tmp_path / "board.h"
    header.write_text(BYTES)
    assert build(header) == 0
    data = np.arange(12, dtype=np.uint8)
    check_environment("board", data=data)
    envs = seed_hpc.make_vec("board", 16, data=data)
    observations, _ = envs.reset(seed=0)
    assert observations.shape == (16, 1, 3, 4)
    assert observations.dtype == np.uint8
    cells = observations.reshape(16, -1).argmax(1)
    actions = envs.reference_actions()
    assert np.array_equal(actions, cells % 2)
    _, rewards, *_ = envs.step(actions)
    assert np.array_equal(rewards, (cells + 1 + actions) % 12)
    envs.close()


def test_a_library_by_its_path(tmp_path):
    header = written()
    assert build(header) == 0
    library = tmp_path / "copy.so"
    library.write_bytes((tmp_path / "cache/environments/my_env/my_env_cpu.so").read_bytes())
    envs, other = seed_hpc.make_vec(str(library), 3), seed_hpc.make_vec("my_env", 3)
    assert np.array_equal(envs.reset(seed=1)[0], other.reset(seed=1)[0])
    envs.close()
    other.close()
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(UserError, match="cannot be loaded"):
        seed_hpc.make_vec(str(tmp_path / "text.so"), 1)


@pytest.mark.skipif(find_nvcc() is None, reason="no CUDA toolkit: nvcc was not found")
def test_the_same_header_compiles_for_gpus(tmp_path, capsys):
    header = written()
    assert cli.main(["kernels", "build", "--env", str(header), "--backend", "cuda", "--arch", "80"]) == 0
    folder = tmp_path / "cache/environments/my_env"
    log = (folder / "build_cuda.log").read_text()
    assert (folder / "my_env_cuda.so").is_file()
    spills = re.findall(r"(\d+) bytes spill stores", log)
    assert spills
    assert set(spills) == {"0"}
    assert cli.main(["kernels", "build", "--env", str(header), "--backend", "cuda"]) == 2
    assert "needs --arch" in capsys.readouterr().err
