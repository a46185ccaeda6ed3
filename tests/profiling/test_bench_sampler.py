# SPDX-License-Identifier: Apache-2.0
"""The measurement of the sampler's overhead: order of the runs, ratios, limit."""

import argparse
import json

import pytest

from seed_hpc.errors import UserError
from seed_hpc.profiling import bench_sampler, sampler


class FakeSampler:
    """Counts as on while its block runs."""

    on = False
    log: list = []  # noqa: RUF012

    def __init__(self, folder, *, hz):
        self.folder = folder

    def __enter__(self):
        FakeSampler.on = True
        return self

    def cpu_seconds(self):
        """4 % of an iteration's 11 ms each, and start-up that must not count."""
        return 1.0 + 0.04 * 0.011 * sum(FakeSampler.log)

    def __exit__(self, *exception):
        FakeSampler.on = False


@pytest.fixture
def fake(monkeypatch):
    """A clock on which an iteration takes 10 ms, and 11 ms while the sampler is on."""
    now = [0.0]
    FakeSampler.log = []

    def iteration():
        now[0] += 0.011 if FakeSampler.on else 0.010
        FakeSampler.log.append(FakeSampler.on)

    samples = sampler.Samples({"readings": 10, "missed": 0, "backend": "host"}, None, None)
    monkeypatch.setattr(bench_sampler, "Sampler", FakeSampler)
    monkeypatch.setattr(bench_sampler, "read_samples", lambda folder: samples)
    monkeypatch.setattr(bench_sampler, "_cpu_ms_per_reading", lambda folder: 0.5)
    return iteration, lambda: now[0]


def test_runs_are_interleaved_and_compared_in_pairs(fake):
    iteration, clock = fake
    result = bench_sampler.measure(iteration, hz=10.0, pairs=4, seconds=0.1, clock=clock, cpu_clock=clock)
    assert result["iterations"] == 10
    assert result["ratios"] == pytest.approx([1.1] * 4)
    assert result["overhead_pct"]["median"] == pytest.approx(10.0)
    assert (result["readings"], result["backend"]) == (40, "host")
    assert result["thread_cpu_pct"] == pytest.approx(4.0)
    order = [FakeSampler.log[-80:][start] for start in range(0, 80, 10)]
    assert order == [True, False, False, True, True, False, False, True]


def options(**changes):
    values = {"hz": 10.0, "pairs": 1, "seconds": 0.1, "device": "cpu", "limit": None, "json": None}
    return argparse.Namespace(**values | changes)


def test_limit_decides_the_exit_code(fake, monkeypatch, tmp_path, capsys):
    iteration, clock = fake
    monkeypatch.setattr(bench_sampler, "_workload", lambda device: iteration)
    monkeypatch.setattr(bench_sampler.measure, "__kwdefaults__", {"clock": clock, "cpu_clock": clock})
    output = tmp_path / "sampler.json"
    assert bench_sampler.run(options(json=output)) == 0
    assert "overhead +10.00 %" in capsys.readouterr().out
    assert json.loads(output.read_text())["ratio"]["median"] == pytest.approx(1.1)
    assert bench_sampler.run(options(limit=9.0)) == 1
    assert bench_sampler.run(options(limit=11.0)) == 0


def test_the_real_sampler_and_workload(tmp_path):
    output = tmp_path / "sampler.json"
    assert bench_sampler.run(options(seconds=0.3, json=output)) == 0
    result = json.loads(output.read_text())
    assert result["readings"] >= 2  # the first and the last
    assert 0.0 < result["cpu_ms_per_reading"] < 50.0
    assert 0.0 <= result["thread_cpu_pct"] < 50.0


@pytest.mark.parametrize("changes", [{"pairs": 0}, {"seconds": 0.0}, {"seconds": float("nan")}, {"hz": 0.0}])
def test_unusable_options_are_refused(changes, fake, monkeypatch):
    if "hz" in changes:
        monkeypatch.setattr(bench_sampler, "Sampler", sampler.Sampler)
    with pytest.raises(UserError, match="not allowed"):
        bench_sampler.run(options(**changes))
