# SPDX-License-Identifier: Apache-2.0
"""Running a program under a profiler: command lines, files per rank, the capture window, stale files."""

import json
import re
import stat
import sys
import time

import pytest
import torch

from seed_hpc import cli
from seed_hpc.errors import MissingDependencyError, UserError
from seed_hpc.profiling import profiled_run, ranges
from seed_hpc.profiling.profiled_run import Window


def loop(iterations):
    """A stand-in for training: phases, steps, a little work."""
    ranges.start()
    for _ in range(iterations):
        with ranges.phase("inference"):
            torch.ones(8, 8) @ torch.ones(8, 8)
        with ranges.phase("learner"):
            torch.ones(8).sum()
        ranges.step()
    ranges.stop()


def test_torch_profile_of_the_whole_program(tmp_path):
    profile = profiled_run.profile_with_torch(lambda: loop(5), tmp_path, rank=3, window=None)
    counts = {row.name: row.count for row in profile.ranges}
    assert counts == {"inference": 5, "learner": 5}
    assert {"aten::mm", "aten::sum"} <= {row.name for row in profile.api}
    document = json.loads((tmp_path / "torch-rank3.json").read_text())
    assert (document["tool"], document["version"], document["kernels"]) == ("torch", torch.__version__, [])
    assert any("profiled on a CPU" in note for note in document["notes"])
    assert (tmp_path / "traces" / "torch-rank3.json.gz").is_file()


def test_torch_profile_of_a_window(tmp_path):
    profile = profiled_run.profile_with_torch(lambda: loop(8), tmp_path, window=Window(first=3, count=2))
    assert {row.name: row.count for row in profile.ranges if row.name in ranges.PHASES} == {
        "inference": 2,
        "learner": 2,
    }
    assert "iterations 3 to 4 were recorded" in profile.notes


def test_a_window_that_is_never_reached_is_an_error(tmp_path):
    with pytest.raises(UserError, match="ended before iteration 50"):
        profiled_run.profile_with_torch(lambda: loop(3), tmp_path, window=Window(first=50, count=2))


def test_files_of_an_earlier_run_are_refused_before_the_program_starts(tmp_path):
    started = []
    (tmp_path / "torch-rank0.json").write_text("{}")
    with pytest.raises(UserError, match="earlier run"):
        profiled_run.profile_with_torch(lambda: started.append(1), tmp_path, window=None)
    assert not started
    profiled_run.profile_with_torch(lambda: loop(1), tmp_path, rank=1, window=None)  # another rank may


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        ({}, 0),
        ({"RANK": "5", "SLURM_PROCID": "1"}, 5),
        ({"SLURM_PROCID": "3"}, 3),
        ({"SLURM_PROCID": "0", "OMPI_COMM_WORLD_RANK": "2"}, 2),  # mpirun inside a batch script
    ],
)
def test_rank_comes_from_the_launcher(environ, rank):
    assert profiled_run.rank_of(environ) == rank


def test_nsys_command_line(tmp_path):
    line = profiled_run.nsys_command(
        tmp_path / "nsys-rank1", ["python", "x.py"], cuda=True, window=Window(first=5, count=9)
    )
    assert line[:2] == ["nsys", "profile"]
    assert line[-2:] == ["python", "x.py"]
    assert {f"--output={tmp_path}/nsys-rank1", "--trace=cuda,nvtx,osrt", "--cuda-graph-trace=node"} <= set(line)
    assert {"--capture-range=nvtx", "--nvtx-capture=capture@seed-hpc"} <= set(line)
    cpu = profiled_run.nsys_command(tmp_path / "r", ["x"], cuda=False, window=None)
    assert "--trace=nvtx,osrt" in cpu
    assert not any("capture" in option or "cuda" in option for option in cpu)
    environment = profiled_run.mark_environment({"HOME": "/h"}, Window(first=5, count=9))
    assert environment["SEED_HPC_CAPTURE"] == "5:9"
    assert (environment["SEED_HPC_MARKS"], environment["HOME"]) == ("nvtx", "/h")


def test_ncu_command_line_leaves_nccl_out(tmp_path):
    line = profiled_run.ncu_command(tmp_path / "ncu", ["x"], window=Window(first=0, count=1), max_launches=7)
    assert {"--graph-profiling=node", "--launch-count=7", "--nvtx-include=seed-hpc@capture/"} <= set(line)
    (option,) = (option for option in line if option.startswith("--kernel-name="))
    pattern = re.compile(option.removeprefix("--kernel-name=regex:"))
    for name in ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclKernel_AllGather"):
        assert not pattern.search(name)
    for name in ("gemm", "nchwToNhwc", "n", "ncc", "nc_add", "add", "step_machines", "noise"):
        assert pattern.search(name)


def fake_tool(folder, name, body):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport pathlib, sqlite3, sys\narguments = sys.argv[1:]\n{body}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


FAKE_NSYS = """
options = dict(a.split("=", 1) for a in arguments if a.startswith("--") and "=" in a)
if arguments[0] == "profile":
    pathlib.Path(options["--output"] + ".nsys-rep").write_text("report")
else:
    database = sqlite3.connect(options["--output"])
    database.executescript("CREATE TABLE META_DATA_EXPORT (name, value); CREATE TABLE StringIds (id, value);"
        "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2025.1');")
"""


def test_nsys_run_writes_tables_and_trace(tmp_path, monkeypatch):
    fake_tool(tmp_path / "bin", "nsys", FAKE_NSYS)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    profile = profiled_run.profile_with_nsys(["true"], tmp_path / "out", rank=2, window=None)
    assert profile.version == "2025.1"
    assert json.loads((tmp_path / "out" / "nsys-rank2.json").read_text())["kernels"] == []
    assert (tmp_path / "out" / "traces" / "nsys-rank2.nsys-rep").is_file()


def test_nsys_that_writes_nothing_is_an_error(tmp_path, monkeypatch):
    fake_tool(tmp_path / "bin", "nsys", "sys.exit(1)")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    with pytest.raises(UserError, match="nsys ended with status 1 and left no"):
        profiled_run.profile_with_nsys(["true"], tmp_path / "out", window=None)


def test_ncu_without_permission_gives_an_empty_table_with_the_reason(tmp_path, monkeypatch):
    log = (
        "options = dict(a.split('=', 1) for a in arguments if '=' in a)\n"
        "pathlib.Path(options['--log-file']).write_text('==PROF== Connected\\n==ERROR== ERR_NVGPUCTRPERM - no\\n')\n"
    )
    fake_tool(tmp_path / "bin", "ncu", log)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    profile = profiled_run.profile_with_ncu(["true"], tmp_path / "out", window=None)
    assert profile.kernels == []
    assert any("NVreg_RestrictProfilingToAdminUsers" in note for note in profile.notes)


def test_missing_tools_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for tool, name in ((profiled_run.profile_with_nsys, "Nsight Systems"), (profiled_run.profile_with_ncu, "Compute")):
        with pytest.raises(MissingDependencyError, match=name):
            tool(["true"], tmp_path / "out", window=None)


def test_run_command_profiles_a_training(tmp_path, monkeypatch, capsys):
    trained = []
    real_main = cli.main

    def main(arguments):
        trained.append(arguments)
        loop(2)
        return 0

    monkeypatch.setattr(cli, "main", main)
    options = ["--config", "pong.yaml", "--output", str(tmp_path), "--tool", "torch", "training.total_frames=100"]
    assert real_main(["profile", "run", *options]) == 0
    assert trained == [["train", "--config", "pong.yaml", "training.total_frames=100"]]
    assert "inference" in capsys.readouterr().out
    assert (tmp_path / "torch-rank0.json").is_file()


def test_sample_command_samples_its_child(tmp_path, capsys):
    code = "import time; time.sleep(0.4)"
    command = ["profile", "sample", "--output", str(tmp_path / "s"), "--hz", "50", "--", sys.executable, "-c", code]
    assert cli.main(command) == 0
    assert "readings" in capsys.readouterr().out
    assert (tmp_path / "s" / "host.parquet").is_file()
    begun = time.monotonic()
    failing = ["profile", "sample", "--output", str(tmp_path / "f"), "--", sys.executable, "-c", "raise SystemExit(3)"]
    assert cli.main(failing) == 1
    assert time.monotonic() - begun < 20
    assert cli.main(["profile", "sample", "--output", str(tmp_path / "g"), "--", str(tmp_path / "absent")]) == 2
    assert cli.main(["profile", "sample", "--output", str(tmp_path / "h")]) == 2
