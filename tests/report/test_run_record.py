# SPDX-License-Identifier: Apache-2.0
"""Run directories that a crash, a resume or a full disk left behind are read for what they still say."""

import json

import pytest
from synthetic_run import write_run

from seed_hpc import cli
from seed_hpc.errors import UserError
from seed_hpc.report.run_record import load_run, read_metrics, thin


def metrics_file(path, frames):
    path.write_text("".join(json.dumps({"frames": value, "fps": index}) + "\n" for index, value in enumerate(frames)))
    return path


def test_a_whole_run(tmp_path):
    record = load_run(write_run(tmp_path, lines=10))
    assert (record.label, record.status) == ("pong_vtrace/seed1", "finished")
    assert len(record.metrics) == 10
    assert record.column("mean_return")[:3] == [None, None, pytest.approx(-20.7, abs=1.5)]
    assert record.last("time_s") == 100.0
    assert record.setting("env.num_envs") == 64
    assert record.setting("env.none.such", "default") == "default"
    assert record.gif is not None
    assert record.notes == []


def test_half_a_last_line_is_left_out_and_said(tmp_path):
    path = metrics_file(tmp_path / "metrics.jsonl", [100, 200])
    path.write_text(path.read_text() + '{"frames": 30')
    notes = []
    assert [line["frames"] for line in read_metrics(path, notes)] == [100, 200]
    assert notes == ["metrics.jsonl: 1 of 3 lines are incomplete and were left out"]


def test_lines_repeated_by_a_resume_count_once_and_the_newest_wins(tmp_path):
    notes = []
    lines = read_metrics(metrics_file(tmp_path / "metrics.jsonl", [100, 200, 300, 150, 250, 350]), notes)
    assert [(line["frames"], line["fps"]) for line in lines] == [(100, 0), (150, 3), (250, 4), (350, 5)]
    assert "2 lines were repeated" in notes[0]


def test_not_a_number_is_absent(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"frames": 1, "loss": NaN, "fps": true}\n')
    record = load_run(write_run(tmp_path, lines=1))
    record.metrics = read_metrics(tmp_path / "metrics.jsonl", [])
    assert record.column("loss") == [None]
    assert record.column("fps") == [None]


def test_damaged_files_are_notes(tmp_path):
    directory = write_run(tmp_path, lines=3)
    (directory / "evaluation.json").write_text("{")
    (directory / "config.yaml").write_text("- a list")
    record = load_run(directory)
    assert record.evaluation is None
    assert record.config == {}
    assert len(record.notes) == 2


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("evaluation.json", {"mean": "x", "returns": 3}, "returns"),
        ("evaluation.json", {"returns": ["many"]}, "returns.0"),
        ("profile/torch-rank0.json", {"tool": "torch", "kernels": 3}, "kernels"),
        ("profile/torch-rank0.json", {"tool": "torch", "kernels": [{"name": "k"}]}, "kernels.0"),
        ("profile/analysis.json", {"overlap": "none"}, "overlap"),
        ("profile/analysis.json", {"utilisation": [{"device": 1}]}, "utilisation.0"),
        ("profile/analysis.json", {"occupancy": [{"kernel": "k", "theoretical_pct": "all"}]}, "occupancy.0"),
    ],
)
def test_files_with_other_contents_are_notes_and_the_report_is_written(tmp_path, name, content, place):
    directory = write_run(tmp_path / "results", lines=3)
    path = directory / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    (note,) = load_run(directory).notes
    assert note.startswith(f"{path.name}: damaged ({place}")
    assert cli.main(["report", str(directory), "--output", str(tmp_path / "report")]) == 0


@pytest.mark.parametrize("what", ["absent", "experiment", "damaged"])
def test_what_is_no_run_directory_is_one_clear_sentence(tmp_path, what):
    directory = write_run(tmp_path, lines=1)
    if what == "absent":
        target, says = tmp_path / "none", "is no folder"
    elif what == "experiment":
        target, says = directory.parent, "it holds the runs seed1"
    else:
        (directory / "run.json").write_text("[1, 2]")
        target, says = directory, "damaged"
    with pytest.raises(UserError, match=says):
        load_run(target)


def test_thin_keeps_first_and_last():
    assert thin(range(1000), 5) == [0, 250, 500, 749, 999]
    assert thin([1, 2], 5) == [1, 2]
