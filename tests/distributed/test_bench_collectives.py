# SPDX-License-Identifier: Apache-2.0
"""Bandwidths as nccl-tests defines them; a measurement with two ranks."""

import argparse
import json
import os
import subprocess
import sys

import pytest

from seed_hpc.distributed import bench_collectives
from seed_hpc.errors import UserError


def parse(*arguments):
    parser = argparse.ArgumentParser()
    bench_collectives.add_arguments(parser)
    return parser.parse_args(arguments)


@pytest.mark.parametrize(
    ("operation", "bus_bandwidth"),
    # 8 ranks, 800 bytes in 2 seconds: 400 bytes per second, times the factor of nccl-tests' doc/PERFORMANCE.md.
    [("all_reduce", 700.0), ("all_gather", 350.0), ("reduce_scatter", 350.0), ("broadcast", 400.0)],
)
def test_bandwidths(operation, bus_bandwidth):
    assert bench_collectives.bandwidths(operation, 800, 2.0, 8) == (400.0, bus_bandwidth)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--operations", "allreduce"], "did you mean 'all_reduce'"),
        (["--factor", "1"], "--factor"),
        (["--min-bytes", "64", "--max-bytes", "32"], "--min-bytes"),
        (["--ranks", "1"], "--ranks"),
    ],
)
def test_wrong_usage(arguments, message):
    with pytest.raises(UserError, match=message):
        bench_collectives.run(parse(*arguments))


def test_two_ranks_measure_every_operation(tmp_path):
    out = tmp_path / "out.json"
    runner = (
        "import argparse, sys; from seed_hpc.distributed import bench_collectives as b;"
        "p = argparse.ArgumentParser(); b.add_arguments(p); sys.exit(b.run(p.parse_args()))"
    )
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--no-python"]
    sizes = ["--min-bytes=4096", "--max-bytes=65536", "--factor=16", "--iterations=2", f"--json={out}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*torchrun, sys.executable, "-c", runner, *sizes], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(out.read_text())
    assert result["groups"] == [[0, 1]]
    assert {row["operation"] for row in result["rows"]} == set(bench_collectives.BUS_FACTORS)
    for row in result["rows"]:
        assert row["wrong"] == 0
        assert row["algorithm_bandwidth"] == pytest.approx(row["size_bytes"] / row["time_s"])
    assert set(result["alpha_beta"]) == set(bench_collectives.BUS_FACTORS)
