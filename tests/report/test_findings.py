# SPDX-License-Identifier: Apache-2.0
"""Every rule of the findings: a run that must make it speak, and one that must not."""

import pytest
from synthetic_run import write_run

from seed_hpc.report.document import run_section
from seed_hpc.report.findings import RULES, kernel_findings, run_findings
from seed_hpc.report.run_record import load_run

SCORES = {"mean": 0.0, "ci95": [-1.0, 1.0], "median": 0.0, "min": -3.0, "max": 3.0, "returns": [0.0] * 30}


@pytest.fixture
def run(tmp_path):
    """A sound run: no rule but `beats_random` says anything about it."""
    section = run_section(load_run(write_run(tmp_path, lines=60)))
    section["curves"]["mean_return"] = [None, None] + [-20.0] * 10 + [-4.0] * 48
    return section


def rules_of(run):
    return {finding.rule: finding for finding in run_findings(run)}


def phases(**shares):
    return [{"name": name, "seconds": 100 * share, "share": share} for name, share in shares.items()]


def test_a_sound_run_has_one_good_finding(run):
    assert {name: finding.severity for name, finding in rules_of(run).items()} == {"beats_random": "good"}


def evaluation(mean, low, high, random=(-0.5, 0.5), human=None, episodes=30):
    scores = {**SCORES, "mean": mean, "ci95": [low, high]}
    others = {"game": "pong", "episodes": episodes, "human": human, "human_normalised": None}
    return {**scores, **others, "random": {**SCORES, "ci95": list(random)}}


CASES = [
    ("not_finished", "warning", {"status": "interrupted"}, "resumes from its checkpoint"),
    ("not_finished", "warning", {"status": "running"}, "still running, or it was killed"),
    ("not_finished", "serious", {"status": "failed"}, "failed"),
    ("beats_random", "warning", {"evaluation": evaluation(1.0, 0.4, 1.6)}, "cannot be told from the random policy"),
    ("beats_random", "serious", {"evaluation": evaluation(-3.0, -4.0, -2.0)}, "worse than the random policy"),
    ("above_human", "good", {"evaluation": evaluation(20.0, 18.0, 22.0, human=14.6)}, "human score of 14.6"),
    ("few_episodes", "info", {"evaluation": evaluation(20.0, 18.0, 22.0, episodes=5)}, "only 5 episodes"),
    ("dominant_phase", "info", {"phases": phases(environment=0.71, learner=0.29)}, "takes 71 % of the loop"),
    (
        "throughput_unsteady",
        "info",
        {"throughput": {"median_fps": 1000.0, "p10_fps": 700.0, "p90_fps": 1200.0, "samples": 50}},
        "between 700 and 1,200",
    ),
    ("gpu_idle", "warning", {"utilisation": [{"metric": "gpu_utilisation", "median": 31.0}]}, "busy only 31 %"),
]


@pytest.mark.parametrize(("rule", "severity", "change", "says"), CASES)
def test_a_rule_speaks(run, rule, severity, change, says):
    finding = rules_of({**run, **change})[rule]
    assert finding.severity == severity
    assert says in f"{finding.text} {finding.advice}"
    assert finding.subject == "pong_vtrace/seed1"


CURVE_CASES = [
    ("throughput_decays", {"fps": [4000.0] * 30 + [3000.0] * 30}, "from 4,000 to 3,000 frames/s"),
    ("policy_lag", {"policy_lag": [12.0] * 60}, "12 updates old"),
    ("entropy_collapse", {"entropy": [1.8] * 30 + [0.01] * 30, "mean_return": [-20.0] * 60}, "did not rise"),
    ("still_learning", {"mean_return": [float(value) for value in range(60)]}, "still rising"),
]


@pytest.mark.parametrize(("rule", "curves", "says"), CURVE_CASES)
def test_a_rule_reads_the_curves(run, rule, curves, says):
    assert says in rules_of({**run, "curves": {**run["curves"], **curves}})[rule].text


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("dominant_phase", {"phases": phases(environment=0.55, learner=0.45)}),
        ("gpu_idle", {"utilisation": [{"metric": "gpu_utilisation", "median": 88.0}]}),
        ("above_human", {"evaluation": evaluation(15.0, 14.0, 16.0, human=14.6)}),
        ("few_episodes", {"evaluation": None}),
    ],
)
def test_a_rule_is_silent(run, rule, change):
    assert rule not in rules_of({**run, **change})


def test_a_collapse_that_wins_is_no_collapse(run):
    curves = {**run["curves"], "entropy": [1.8] * 30 + [0.01] * 30}
    assert "entropy_collapse" not in rules_of({**run, "curves": curves})


def test_uncommitted_changes(run):
    provenance = {**run["provenance"], "commit": "abc-dirty"}
    assert "no commit holds" in rules_of({**run, "provenance": provenance})["uncommitted_changes"].text


def test_nothing_measured_nothing_said(run):
    bare = {**run, "curves": {}, "throughput": None, "evaluation": None, "phases": None, "utilisation": []}
    assert run_findings(bare) == []


def test_the_worst_comes_first(run):
    found = run_findings({**run, "status": "failed", "phases": phases(environment=0.9, learner=0.1)})
    assert [finding.severity for finding in found] == ["serious", "info", "good"]


def test_every_rule_has_a_case():
    covered = {case[0] for case in CASES} | {case[0] for case in CURVE_CASES} | {"uncommitted_changes"}
    assert {rule.__name__ for rule in RULES} == covered


def test_kernel_rules():
    kernel = {"name": "step", "spill_bytes": 24, "occupancy": 0.375, "limited_by": "registers"}
    spills, occupancy = kernel_findings([{"arch": "90", "kernels": [kernel]}])
    assert "step (sm_90) spills 24 bytes" in spills.text
    assert "38 % occupancy, limited by registers" in occupancy.text
    assert kernel_findings([{"arch": "90", "kernels": [{**kernel, "spill_bytes": 0, "occupancy": 0.5}]}]) == []
