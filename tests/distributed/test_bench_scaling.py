# SPDX-License-Identifier: Apache-2.0
"""Scaling: the projection against hand-worked numbers; a measurement in one and two ranks."""

import argparse
import json

import pytest

from seed_hpc.distributed import bench_scaling
from seed_hpc.distributed.planner import Link

LINKS = {"nvlink": Link(latency_s=0.0, bytes_per_s=400.0), "network": Link(latency_s=0.0, bytes_per_s=100.0)}


def test_projection_by_hand():
    # One node of two: the quickest exchange of 400 bytes is the flat one, 2 steps of 200 bytes at 400 B/s = 1 s, beside
    # 100 frames / 25 frames per second = 4 s.
    point = bench_scaling.project(2, 2, 25.0, 100, 1, 400.0, LINKS)
    assert point.efficiency == pytest.approx(4 / 5)
    assert point.frames_per_s == pytest.approx(2 * 25 * 4 / 5)
    # One rank exchanges nothing.
    assert bench_scaling.project(1, 2, 25.0, 100, 1, 400.0, LINKS).efficiency == 1.0
    # Two nodes of two: reduce_scatter 0.5 s + all_reduce of 200 bytes over the network 2 s + all_gather 0.5 s = 3 s.
    assert bench_scaling.project(4, 2, 25.0, 100, 1, 400.0, LINKS).efficiency == pytest.approx(4 / 7)
    # Each update of an iteration has an exchange of its own.
    assert bench_scaling.project(4, 2, 25.0, 100, 3, 400.0, LINKS).efficiency == pytest.approx(4 / 13)


def test_efficiency_is_against_one_rank_in_the_same_repeat():
    point = bench_scaling.measured_point(2, [150.0, 60.0, 190.0], [100.0, 50.0, 100.0])
    assert point.frames_per_s == 150.0
    assert point.efficiencies == (0.75, 0.6, 0.95)
    assert point.efficiency == 0.75


def test_measurement(tmp_path):
    parser = argparse.ArgumentParser()
    bench_scaling.add_arguments(parser)
    out = tmp_path / "out.json"
    options = ["--ranks", "1", "2", "--frames", "3000", "--project", "8", "--json", str(out), "--"]
    small = ["env.num_envs=4", "env.num_threads=1", "training.num_threads=1"]
    assert bench_scaling.run(parser.parse_args([*options, *small])) == 0
    result = json.loads(out.read_text())
    assert [point["ranks"] for point in result["measured"]] == [1, 2]
    assert result["measured"][0]["efficiency"] == 1.0
    assert all(point["frames_per_s"] > 0 for point in result["measured"])
    assert result["gradient_bytes"] > 1e6
