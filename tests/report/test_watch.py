# SPDX-License-Identifier: Apache-2.0
"""The live view: following files that grow, are half written, damaged, missing or begun anew."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from seed_hpc import cli
from seed_hpc.errors import UserError
from seed_hpc.report.watch import ASCII_BARS, RunFollower, find_run, render, sparkline, summary

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run_dir(tmp_path):
    folder = tmp_path / "pong_vtrace" / "seed1"
    folder.mkdir(parents=True)
    return folder


def write_info(folder, **fields):
    info = {"run_id": "seed1", "experiment": "pong_vtrace", "status": "running", "hosts": ["n1"], "world_size": 2}
    (folder / "run.json").write_text(json.dumps(info | fields))


def append(folder, text):
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(text)


def line(frames, **fields):
    values = {"time_s": frames / 100, "frames": frames, "fps": 100.0 + frames, "mean_return": -20.5, "loss": 0.25}
    return json.dumps(values | fields) + "\n"


def text_of(follower, width=100, **options):
    console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(render(follower, width, **options))
    return console.export_text()


def test_lines_are_read_as_they_come(run_dir):
    follower = RunFollower(run_dir)
    assert follower.poll() is False
    assert follower.status == "waiting"
    write_info(run_dir)
    append(run_dir, line(1000))
    assert follower.poll() is True
    assert follower.poll() is False
    append(run_dir, line(2000) + line(3000))
    follower.poll()
    assert follower.series("frames") == [1000.0, 2000.0, 3000.0]
    assert (follower.status, follower.ended) == ("running", False)


def test_a_half_written_line_waits_for_its_rest(run_dir):
    whole = line(1000)
    append(run_dir, whole[:17])
    follower = RunFollower(run_dir)
    assert follower.poll() is False
    assert follower.lines == []
    append(run_dir, whole[17:])
    assert follower.poll() is True
    assert (follower.last("frames"), follower.damaged) == (1000.0, 0)


def test_damaged_lines_and_missing_values_are_left_out(run_dir):
    append(run_dir, line(1000) + '{"frames": 15\n' + "[1, 2]\n\n" + line(2000, mean_return=None, fps=float("nan")))
    append(run_dir, json.dumps({"frames": 3000}) + "\n")
    follower = RunFollower(run_dir)
    follower.poll()
    assert follower.damaged == 2
    assert follower.series("mean_return") == [-20.5, None, None]
    assert follower.last("fps") == 1100.0
    assert "2 damaged lines" in text_of(follower)


def test_a_resumed_run_replaces_what_it_repeats(run_dir):
    append(run_dir, line(1000) + line(2000) + line(3000))
    follower = RunFollower(run_dir)
    follower.poll()
    append(run_dir, line(1500, loss=9.0) + line(2500))
    follower.poll()
    assert follower.series("frames") == [1000.0, 1500.0, 2500.0]


def test_a_file_begun_anew_is_read_from_its_start(run_dir):
    append(run_dir, line(1000) + line(2000))
    follower = RunFollower(run_dir)
    follower.poll()
    (run_dir / "metrics.jsonl").unlink()
    follower.poll()
    append(run_dir, line(50))
    follower.poll()
    assert follower.series("frames") == [50.0]


def test_a_half_written_run_file_keeps_what_was_known(run_dir):
    write_info(run_dir)
    follower = RunFollower(run_dir)
    follower.poll()
    (run_dir / "run.json").write_text('{"status": "fin')
    follower.poll()
    assert follower.status == "running"


def test_sparkline():
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([0.0, None, 7.0], 10) == "▁ █"
    assert sparkline([1, 1, 3, 3], 2) == "▁█"  # means of two stretches
    assert sparkline([5, 5], 10, ASCII_BARS) == "__"
    assert sparkline([None, None], 10) == "  "
    assert sparkline([], 10) == ""
    assert len(sparkline([float(i) for i in range(1000)], 37)) == 37


def test_view_shows_what_matters(run_dir):
    write_info(run_dir)
    (run_dir / "config.yaml").write_text("training: {total_frames: 4000}\n")
    phases = {"environment": 6.0, "learner": 3.0, "other": 1.0}
    append(run_dir, line(1000) + line(2000, episodes=12, learning_rate=0.0006, phase_seconds=phases))
    follower = RunFollower(run_dir)
    follower.poll()
    text = text_of(follower)
    for part in (
        "pong_vtrace/seed1",
        "running",
        "2 ranks on n1",
        "50.0 %",
        "2,100",
        "-20.50",
        "0.2500",
        "0.000600",
        "▁",
        "episodes",
        "environment 60 %",
        "learner 30 %",
    ):
        assert part in text
    assert "▁" not in text_of(follower, unicode=False)
    assert max(map(len, text_of(follower, width=60).splitlines())) <= 60
    assert summary(follower).startswith("running: 2000 frames, frames/s 2,100, return -20.50, loss 0.2500")


def test_view_says_when_the_run_is_silent(run_dir):
    write_info(run_dir)
    append(run_dir, line(1000))
    follower = RunFollower(run_dir)
    follower.poll()
    assert "may hang" not in text_of(follower, now=time.time())
    assert "no log line for 2 min" in text_of(follower, now=time.time() + 130)
    write_info(run_dir, status="finished")
    follower.poll()
    assert "may hang" not in text_of(follower, now=time.time() + 130)


def test_view_shows_gpu_and_host(run_dir, nvml_samples):
    nvml_samples(run_dir / "samples" / "n1-0")
    write_info(run_dir)
    follower = RunFollower(run_dir)
    follower.poll()
    text = text_of(follower)
    assert "NVIDIA H100" in text
    assert "GPU 37 %" in text
    assert "memory 1.0 GiB of 80.0 GiB" in text
    assert "250 W" in text
    assert "CPU 12 %" in text


@pytest.fixture
def nvml_samples():
    """Writes the files of a sampler that is still running."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from seed_hpc.profiling.sampler import GPU_SCHEMA, HOST_SCHEMA

    def write(folder):
        folder.mkdir(parents=True)
        devices = [{"uuid": "GPU-1", "name": "NVIDIA H100"}]
        (folder / "sampler.json").write_text(json.dumps({"devices": devices}))
        gpu = dict.fromkeys(GPU_SCHEMA.names) | {"time_s": 2.0, "uuid": "GPU-1", "gpu_utilization_pct": 37.0}
        gpu |= {"memory_used_bytes": 1 << 30, "memory_total_bytes": 80 << 30, "power_w": 250.0}
        host = dict.fromkeys(HOST_SCHEMA.names) | {"time_s": 2.0, "cpu_pct": 12.0}
        pq.write_table(pa.Table.from_pylist([gpu], schema=GPU_SCHEMA), folder / "gpu-000000-000000.parquet")
        pq.write_table(pa.Table.from_pylist([host], schema=HOST_SCHEMA), folder / "host-000000-000000.parquet")

    return write


def test_find_run(tmp_path, run_dir):
    with pytest.raises(UserError, match="holds no run"):
        find_run(tmp_path)
    write_info(run_dir)
    newer = run_dir.parent / "seed2"
    newer.mkdir()
    write_info(newer)
    os.utime(run_dir / "run.json", (1, 1))
    assert find_run(run_dir) == run_dir
    assert find_run(run_dir.parent) == newer
    assert find_run(tmp_path) == newer
    with pytest.raises(UserError, match="is no folder"):
        find_run(tmp_path / "absent")


def test_once(run_dir, capsys):
    write_info(run_dir, status="finished")
    append(run_dir, line(1000))
    assert cli.main(["watch", str(run_dir), "--once"]) == 0
    assert "finished" in capsys.readouterr().out
    write_info(run_dir, status="failed")
    assert cli.main(["watch", str(run_dir), "--once"]) == 1
    assert cli.main(["watch", str(run_dir / "absent"), "--once"]) == 2
    assert cli.main(["watch", str(run_dir), "--interval", "0"]) == 2


def test_following_until_the_run_ends(run_dir):
    write_info(run_dir)
    append(run_dir, line(1000))
    command = [sys.executable, "-m", "seed_hpc.cli", "watch", str(run_dir), "--interval", "0.1"]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True)
    try:
        assert "1000 frames" in process.stdout.readline()
        append(run_dir, line(2000))
        assert "2000 frames" in process.stdout.readline()
        write_info(run_dir, status="finished")
        assert process.stdout.readline().startswith("finished")
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.wait()
