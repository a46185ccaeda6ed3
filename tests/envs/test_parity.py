# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc parity`: finds nothing where there is nothing, names the first difference where there is one."""

import json

import numpy as np
import pytest

from seed_hpc import cli
from seed_hpc.envs import parity, parity_command
from seed_hpc.envs.interface import ALEInterface
from seed_hpc.envs.parity import Comparison, Difference


def test_equal_games_exit_0(tmp_path, capsys):
    path = tmp_path / "parity.json"
    code = cli.main(["parity", "--games", "pong,qbert", "--frames", "60", "--seeds", "2", "--json", str(path)])
    assert code == 0
    text = capsys.readouterr().out
    assert "2 games, 4 runs, 240 frames compared" in text
    assert "all equal" in text
    document = json.loads(path.read_text())
    assert document["equal"] is True
    assert [entry["frames"] for entry in document["comparisons"]] == [60, 60, 60, 60]
    assert {entry["game"] for entry in document["comparisons"]} == {"pong", "qbert"}

    assert cli.main(["parity", "--table", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| pong | 2 | 120 | yes |",
        "| qbert | 2 | 120 | yes |",
        "| all | 4 | 240 | yes |",
    ]
    document["comparisons"][0]["error"] = "the process ended with code -11"
    path.write_text(json.dumps(document))
    assert cli.main(["parity", "--table", str(path)]) == 0
    assert "| pong | 2 | 120 | NO |" in capsys.readouterr().out


def test_the_table_of_something_else_is_refused(tmp_path, capsys):
    (tmp_path / "other.json").write_text("{}")
    assert cli.main(["parity", "--table", str(tmp_path / "other.json")]) == 2
    assert "name files that --json wrote" in capsys.readouterr().err


def test_every_mode_and_difficulty_is_covered():
    results = list(parity.compare_modes("pong", seed=0, num_frames=3))
    assert len({result.variant for result in results}) == 2 * 4
    assert all(result.equal for result in results)


@pytest.mark.parametrize(
    ("method", "wrong", "field", "where"),
    [
        ("act", lambda true: true + 1, "reward", ""),
        ("lives", lambda true: true + 1, "lives", ""),
        ("game_over", lambda true: not true, "game_over", ""),
        ("getFrameNumber", lambda true: true + 1, "frame_number", ""),
    ],
)
def test_names_the_first_different_number(monkeypatch, method, wrong, field, where):
    original = getattr(ALEInterface, method)
    monkeypatch.setattr(ALEInterface, method, lambda self, *args: wrong(original(self, *args)))
    difference = parity.compare_machine("pong", seed=0, num_frames=5).difference
    assert (difference.field, difference.where, difference.frame) == (field, where, 1 if method == "act" else 0)


def test_names_the_first_different_byte_and_pixel(monkeypatch):
    pair = parity.MachinePair("pong", 0)
    pair.reset()
    assert pair.compare(7) is None
    true_byte = int(pair.ale.getRAM()[5])
    pair.ours.setRAM(5, true_byte ^ 1)
    assert str(pair.compare(7)) == f"frame 7, ram at address $85: ale-py {true_byte}, seed-hpc {true_byte ^ 1}"
    pair.ours.setRAM(5, true_byte)
    picture = pair.ours.screen_view().copy()
    picture[20, 30] += 2
    monkeypatch.setattr(pair.ours, "screen_view", lambda: picture)
    difference = pair.compare(7)
    assert (difference.field, difference.where) == ("screen", "pixel x=30 y=20")
    assert difference.seed_hpc == difference.ale_py + 2


def test_a_difference_exits_1_and_is_printed(monkeypatch, capsys):
    difference = Difference(frame=9, field="ram", where="address $80", ale_py=1, seed_hpc=2)
    failed = Comparison(game="pong", kind="machine", seed=0, frames=9, difference=difference)
    monkeypatch.setattr(parity_command, "run_in_process", lambda task: [failed])
    assert cli.main(["parity", "--games", "pong"]) == 1
    text = capsys.readouterr().out
    assert "pong seed 0: frame 9, ram at address $80: ale-py 1, seed-hpc 2" in text
    assert "1 different: pong" in text


def test_a_process_that_dies_is_a_failure(monkeypatch):
    task = parity_command.plan_tasks(_arguments(["--games", "pong"]))[0]
    monkeypatch.setattr(parity_command, "_send_comparisons", _die)
    results = parity_command.run_in_process(task)
    assert results[0].error == "the process ended with code 3"
    assert not results[0].equal


def _die(task, sender):
    raise SystemExit(3)


def _arguments(argv):
    import argparse

    parser = argparse.ArgumentParser()
    parity_command.add_arguments(parser)
    return parser.parse_args(argv)


def test_vector_differences_name_lane_and_pixel():
    expected = (np.zeros((2, 4, 84, 84), np.uint8), {"lives": np.array([3, 3])})
    found = (expected[0].copy(), {"lives": np.array([3, 2])})
    assert str(parity.compare_tuples(4, expected, found)) == "frame 4, lives at lane 1: ale-py 3, seed-hpc 2"
    found[0][1, 3, 10, 20] = 9
    difference = parity.compare_tuples(4, expected, found)
    assert difference.where == "lane 1 plane 3 pixel x=20 y=10"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--games", "pogn"], "did you mean 'pong'"),
        (["--frames", "0"], "--frames is 0"),
        (["--vector", "--variants", "colur"], "did you mean 'colour'"),
        (["--rom-folder", "/nowhere"], "the ROM folder /nowhere does not exist"),
    ],
)
def test_wrong_usage_exits_2(argv, message, capsys):
    assert cli.main(["parity", *argv]) == 2
    assert message in capsys.readouterr().err
