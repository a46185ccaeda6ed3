# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc bench replay`: a small run, the arithmetic of its ratios, and wrong options."""

import argparse
import json

import numpy as np
import pytest

from seed_hpc.errors import UserError
from seed_hpc.replay import bench_replay
from seed_hpc.replay.bench_replay import Measurement, NumPy, compare


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    bench_replay.add_arguments(parser)
    return parser.parse_args(arguments)


def test_a_small_run_writes_all_figures(tmp_path, capsys):
    file = tmp_path / "replay.json"
    options = ["--entries=1500", "--frame-entries=1280", "--batch-sizes=8,64", "--frame-batch-sizes=4"]
    assert bench_replay.run(parse(*options, "--against=numpy", "--repeats=2", "--seconds=0.001", f"--json={file}")) == 0
    found = json.loads(file.read_text())
    assert len(found["measurements"]) == 3 * 3 * 2  # settings, operations, engines
    assert {(ratio["observations"], ratio["batch_size"]) for ratio in found["ratios"]} == {
        ("numbers", 8),
        ("numbers", 64),
        ("frames", 4),
    }
    for ratio in found["ratios"]:
        assert 0 < ratio["minimum"] <= ratio["median"] <= ratio["maximum"]
    assert capsys.readouterr().out.count("numpy") == 9


def test_ratios_are_taken_within_each_repeat():
    def measurement(engine, rates):
        return Measurement(
            engine=engine, observations="numbers", entries=9, batch_size=3, operation="sample",
            transitions_per_s=rates, transitions_per_cpu_s=[2 * rate for rate in rates],
        )  # fmt: skip

    (ratio,) = compare([measurement("seed-hpc", [10.0, 30.0, 20.0]), measurement("torchrl", [5.0, 10.0, 20.0])])
    assert (ratio.minimum, ratio.median, ratio.maximum, ratio.cpu_median) == (1.0, 2.0, 3.0, 2.0)


def test_the_numpy_buffer_is_a_correct_competitor():
    """It draws in proportion to its priorities, so the comparison is with something that does the work."""
    engine = NumPy("numbers", 1300, 400)
    engine.fill()
    leaves = engine.tree[engine.num_leaves : engine.num_leaves + 1300]
    assert engine.tree[1] == pytest.approx(leaves.sum())
    counts = np.zeros(1300)
    for _ in range(500):
        engine.sample()
        np.add.at(counts, engine.index, 1)
    assert np.corrcoef(counts, leaves)[0, 1] > 0.99


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--observations=sounds"], "--observations sounds is unknown"),
        (["--entries=10"], "10 entries are too few"),
        (["--batch-sizes=0"], "batch size '0' is not allowed"),
        (["--batch-sizes=x"], "batch size 'x' is not allowed"),
        (["--against=numpi"], "did you mean 'numpy'"),
        (["--repeats=0"], "--repeats must be at least 1"),
        (["--seconds=nan"], "--seconds is nan"),
    ],
)
def test_options_that_are_not_allowed(options, message):
    with pytest.raises(UserError, match=message):
        bench_replay.run(parse(*options))
