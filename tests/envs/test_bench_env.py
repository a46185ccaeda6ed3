# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc bench env`: what is measured, how ratios come about, wrong usage. No figure is a matter of pass or fail."""

import json

import pytest

from seed_hpc import cli
from seed_hpc.envs import bench_env
from seed_hpc.envs.bench_env import Measurement


def measurement(engine, fps, batch_size=8, game="pong", num_envs=8):
    return Measurement(
        engine=engine,
        game=game,
        num_envs=num_envs,
        batch_size=batch_size,
        num_threads=2,
        frames_per_s=fps,
        frames_per_cpu_s=[value / 2 for value in fps],
    )


def test_ratios_are_those_of_interleaved_repeats_at_the_best_batch_sizes():
    found = [
        measurement("seed-hpc", [90.0, 100.0, 95.0], batch_size=4),
        measurement("seed-hpc", [100.0, 200.0, 300.0]),
        measurement("ale-py", [10.0, 10.0, 20.0]),
        measurement("ale-py", [9.0, 9.0, 9.0], batch_size=4),
    ]
    (ratio,) = bench_env.compare(found)
    assert (ratio.against, ratio.minimum, ratio.median, ratio.maximum) == ("ale-py", 10.0, 15.0, 20.0)
    assert ratio.cpu_median == 15.0


def test_what_an_asynchronous_engine_did_before_does_not_count():
    class Asynchronous(bench_env.Engine):
        rounds_in_flight = bench_env.rounds_in_flight(num_envs=64, batch_size=24)

        def __init__(self):
            self.asked = []

        def run(self, num_rounds):
            self.asked.append(num_rounds)
            return 4 * num_rounds

    engine = Asynchronous()
    frames, _, _ = bench_env.time_rounds(engine, 5)
    assert (engine.asked, frames) == ([3, 5], 20)
    assert bench_env.rounds_in_flight(num_envs=64, batch_size=64) == 0


def test_geometric_mean_over_games():
    ratios = [
        *bench_env.compare([measurement("seed-hpc", [20.0]), measurement("ale-py", [10.0])]),
        *bench_env.compare(
            [measurement("seed-hpc", [80.0], game="qbert"), measurement("ale-py", [10.0], game="qbert")]
        ),
    ]
    (mean,) = bench_env.geometric_means(ratios)
    assert mean["geometric_mean"] == pytest.approx(4.0)
    assert (mean["games"], mean["worst"], mean["worst_game"]) == (2, 2.0, "pong")


def test_measures_all_engines_and_writes_everything_down(tmp_path, capsys):
    path = tmp_path / "bench.json"
    command = "bench env --game pong --num-envs 4 --batch-sizes 0,2 --against ale-py,envpool --num-threads 1"
    assert cli.main([*command.split(), "--repeats", "2", "--seconds", "0.02", "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    settings = [(entry["engine"], entry["batch_size"]) for entry in document["measurements"]]
    assert settings == [(engine, size) for engine in ("seed-hpc", "ale-py", "envpool") for size in (4, 2)]
    assert all(len(entry["frames_per_s"]) == 2 and min(entry["frames_per_s"]) > 0 for entry in document["measurements"])
    assert {ratio["against"] for ratio in document["ratios"]} == {"ale-py", "envpool"}
    assert document["versions"]["ale-py"]
    assert document["hardware"]["cpu"]
    assert "geometric mean over 1 games, 4 environments, 1 threads, against envpool" in capsys.readouterr().out


def test_raw_mode_measures_single_machines(capsys):
    assert cli.main(["bench", "env", "--raw", "--repeats", "1", "--seconds", "0.02"]) == 0
    assert "act() of one machine" in capsys.readouterr().out
    assert cli.main(["bench", "env", "--raw", "--screens", "--repeats", "1", "--seconds", "0.02"]) == 0
    assert "act() of one machine and its gray screen" in capsys.readouterr().out


def test_numbers_of_threads_are_compared_apart(tmp_path):
    path = tmp_path / "bench.json"
    command = "bench env --game pong --num-envs 4 --num-threads 1,2 --repeats 1 --seconds 0.02"
    assert cli.main([*command.split(), "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    assert [mean["num_threads"] for mean in document["geometric_means"]] == [1, 2]
    assert [ratio["num_threads"] for ratio in document["ratios"]] == [1, 2]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--game", "pogn"], "did you mean 'pong'"),
        (["--num-envs", "0"], "--num-envs is 0"),
        (["--num-envs", "x"], "must be integers"),
        (["--against", "ale"], "did you mean 'ale-py'"),
        (["--raw", "--against", "envpool"], "EnvPool does not have"),
        (["--screens"], "--screens goes with --raw"),
        (["--num-threads", "-1"], "--num-threads is -1"),
        (["--repeats", "0"], "--repeats is 0"),
        (["--seconds", "nan"], "--seconds is nan"),
    ],
)
def test_wrong_usage_exits_2(argv, message, capsys):
    assert cli.main(["bench", "env", *argv]) == 2
    assert message in capsys.readouterr().err


def test_help_is_that_of_the_target(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["bench", "env", "--help"])
    assert stop.value.code == 0
    assert "--batch-sizes" in capsys.readouterr().out


@pytest.mark.parametrize(("game", "against"), [("ball", "numpy"), ("quadruped", "numpy"), ("order_book", "gymnasium")])
def test_other_environments_beside_conventional_ones(game, against, tmp_path, capsys):
    path = tmp_path / "out.json"
    arguments = ["--game", game, "--num-envs", "4", "--repeats", "2", "--seconds", "0.02", "--num-threads", "1"]
    assert cli.main(["bench", "env", *arguments, "--json", str(path)]) == 0
    found = json.loads(path.read_text())
    ours, theirs = found["measurements"]
    assert (ours["engine"], theirs["engine"]) == ("seed-hpc", against)
    assert len(ours["frames_per_s"]) == len(theirs["frames_per_s"]) == 2
    assert found["ratios"][0]["median"] > 1
    assert against in capsys.readouterr().out


def test_options_of_atari_games_are_refused_for_others(capsys):
    assert cli.main(["bench", "env", "--game", "ball", "--raw"]) == 2
    assert "--raw belongs to Atari games" in capsys.readouterr().err
