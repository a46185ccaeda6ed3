# SPDX-License-Identifier: Apache-2.0
"""The evidence of learning: what is missing is made, what is there is kept, and the tables say what the files say."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from training import learning_evidence
from training.learning_evidence import Planned, first_above, main, parse_plan, thinned

from seed_hpc import cli
from seed_hpc.config import find_experiment

QUICK = [
    "training.total_frames=4096",
    "training.log_interval_frames=1024",
    "training.sample_hz=0",
    "training.num_threads=1",
    "training.tensorboard=false",
    "evaluation.episodes=5",
    "evaluation.random_episodes=5",
]


def test_runs_are_made_once_and_recorded(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(learning_evidence, "command", lambda *words: cli.main(list(words)))
    words = ["ball_ppo:1,2", "--results", str(tmp_path), *(f"--set={change}" for change in QUICK)]
    main(words)
    record = json.loads((tmp_path / "evidence.json").read_text())
    assert [(run["experiment"], run["seed"]) for run in record["runs"]] == [("ball_ppo", 1), ("ball_ppo", 2)]
    for run in record["runs"]:
        folder = tmp_path / "ball_ppo" / f"seed{run['seed']}"
        evaluation = json.loads((folder / "evaluation.json").read_text())
        assert run["frames"] == 4096
        assert run["curve_of"] == "games"
        assert run["evaluation"]["returns"] == evaluation["returns"]
        assert run["reached"] == (evaluation["ci95"][0] > evaluation["random"]["ci95"][1])
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert [point["frames"] for point in run["curve"]] == [line["frames"] for line in lines] == [2048, 4096]
        assert f"| `ball_ppo` | {run['seed']} | 0.00 M |" in (tmp_path / "evidence.md").read_text()

    def refuse(*words):
        raise AssertionError(words)

    capsys.readouterr()
    monkeypatch.setattr(learning_evidence, "command", refuse)
    main(words)  # everything is there
    assert capsys.readouterr().out.count("`ball_ppo`, seed") == 2


def test_what_was_interrupted_is_resumed(tmp_path, monkeypatch):
    folder = tmp_path / "pong_ppo" / "seed3"
    folder.mkdir(parents=True)
    calls = []

    def command(*words):
        calls.append(words)
        status = "finished" if words[0] == "evaluate" or len(calls) == 2 else "interrupted"
        (folder / "run.json").write_text(json.dumps({"status": status}))

    monkeypatch.setattr(learning_evidence, "command", command)
    run = Planned("pong_ppo", 3, 18.0, max_minutes=2)
    assert not learning_evidence.make(run, tmp_path, ["a.b=1"])
    assert learning_evidence.make(run, tmp_path, ["a.b=1"])
    new = ["train", "--config", "pong_ppo", "--results", str(tmp_path), "--run-id", "seed3"]
    assert calls == [
        (*new, "training.seed=3", "training.max_seconds=120", "a.b=1"),
        ("train", "--resume", str(folder)),
        ("evaluate", str(folder)),
    ]


def test_sigterm_leaves_a_checkpoint(tmp_path):
    script = [sys.executable, learning_evidence.__file__, "ball_ppo:1", "--results", str(tmp_path)]
    folders = f"{Path(learning_evidence.__file__).parents[2]}:{Path(learning_evidence.__file__).parents[1]}"
    environment = {**os.environ, "PYTHONPATH": folders, "OMP_NUM_THREADS": "1"}
    quick = [f"--set={change}" for change in (*QUICK, "training.total_frames=1e9")]
    folder = tmp_path / "ball_ppo" / "seed1"
    with subprocess.Popen([*script, *quick], env=environment, stderr=subprocess.DEVNULL) as process:
        metrics = folder / "metrics.jsonl"
        while not (metrics.is_file() and metrics.stat().st_size):
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        assert process.wait() == 1
    assert learning_evidence.status_of(folder) == "interrupted"
    assert (folder / "checkpoints" / "latest.json").is_file()


def test_the_plan_names_shipped_experiments():
    for run in parse_plan([]):
        assert find_experiment(run.experiment).is_file()
    assert parse_plan(["pong_ppo:2,3", "ball_ppo"]) == (
        Planned("pong_ppo", 2, 18.0),
        Planned("pong_ppo", 3, 18.0),
        Planned("ball_ppo", 1),
    )


@pytest.mark.parametrize(("count", "most", "kept"), [(0, 3, []), (2, 3, [0, 1]), (7, 3, [0, 3, 6]), (6, 3, [1, 3, 5])])
def test_thinned_curves_keep_their_end(count, most, kept):
    assert thinned([{"n": n} for n in range(count)], most) == [{"n": n} for n in kept]


def test_when_a_goal_was_first_reached():
    lines = [{"time_s": 60.0 * n, "frames": n, "mean_return": value} for n, value in enumerate([None, 17.9, 18.0, 12])]
    assert first_above(lines, 18.0) == {"minutes": 2.0, "frames": 2}
    assert first_above(lines, 18.1) is None
