# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc report`: the three files, comparison with exit codes, and every wrong use."""

import json

import pytest
from synthetic_run import write_evaluation, write_profile, write_run

from seed_hpc import cli
from seed_hpc.report.document import read_jobs, validate_document

NOT_BUILT = {
    "backend": "cuda",
    "arch": "90",
    "status": "not_built",
    "reason": "no nvcc was found",
    "library": None,
    "digest": None,
    "bytes": None,
    "compiler": None,
    "build_seconds": None,
    "commit": None,
    "kernels": [],
}


@pytest.fixture
def output(tmp_path):
    return tmp_path / "report"


def report(*arguments):
    return cli.main(["report", *map(str, arguments)])


def read(output):
    document = json.loads((output / "report.json").read_text())
    validate_document(document)
    return document


def test_a_report_of_one_run(tmp_path, output):
    kernels = tmp_path / "kernels.json"
    kernels.write_text(json.dumps(NOT_BUILT))
    assert report(write_run(tmp_path), "--output", output, "--kernels", kernels) == 0
    document = read(output)
    assert document["comparison"] is None
    assert document["verdict"]["status"] == "good"
    assert "clearly above the random policy's" in document["verdict"]["text"]
    run = document["runs"][0]
    assert run["throughput"]["median_fps"] == pytest.approx(4000, rel=0.02)
    assert run["throughput"]["samples"] == 54  # 60 lines less the first tenth
    assert [phase["name"] for phase in run["phases"]] == ["environment", "learner", "inference", "logging"]
    assert sum(phase["share"] for phase in run["phases"]) == pytest.approx(1)
    assert [owner["name"] for owner in run["memory"]["owners"]] == ["rollouts", "environments"]  # nothing empty
    assert run["memory"]["owners"][1]["bytes"][-1] == 10**8 + 59 * 10**6
    assert run["evaluation"]["human_normalised"] == pytest.approx(
        (run["evaluation"]["mean"] - run["evaluation"]["random"]["mean"]) / (14.6 - run["evaluation"]["random"]["mean"])
    )
    assert run["provenance"]["command"].startswith("seed-hpc train --config config/experiments/pong_vtrace.yaml")
    missing = {row["what"]: row["why"] for row in document["not_measured"]}
    assert missing["Library cuda for sm_90"] == "no nvcc was found"
    page = (output / "index.html").read_text()
    assert page.count("data:image/gif;base64,") == 1
    assert "not built: no nvcc was found" in page
    assert "2.37 M frames in 10 min 00 s" in (output / "summary.md").read_text()
    assert sorted(path.name for path in output.iterdir()) == ["index.html", "report.json", "summary.md"]


def test_a_report_of_several_runs(tmp_path, output):
    runs = [write_run(tmp_path, run_id=f"seed{seed}", seed=seed) for seed in (1, 2, 3)]
    assert report(*runs, "--output", output) == 0
    document = read(output)
    assert document["verdict"]["text"].startswith("3 of 3 runs finished")
    assert [run["run_id"] for run in document["runs"]] == ["seed1", "seed2", "seed3"]


def test_runs_of_one_environment_are_compared_with_the_first(tmp_path, output):
    runs = [write_run(tmp_path, run_id=name, fps=fps) for name, fps in (("base", 4000.0), ("slow", 3200.0))]
    runs.append(write_run(tmp_path, run_id="bare", evaluation=False, lines=3))
    other = write_run(tmp_path, experiment="ball", run_id="one")
    (other / "config.yaml").write_text("env: {game: ball}")
    assert report(*runs, other, "--output", output) == 0
    comparison = read(output)["comparison"]
    assert (comparison["baseline"], comparison["tolerance"]) == ("pong_vtrace/base", 0.05)
    found = [(row["run"], row["metric"], row["verdict"]) for row in comparison["rows"]]
    assert found == [
        ("pong_vtrace/slow", "throughput", "regression"),
        ("pong_vtrace/slow", "evaluation_return", "inconclusive"),
        ("pong_vtrace/bare", "throughput", "not comparable"),
        ("pong_vtrace/bare", "evaluation_return", "not comparable"),
    ]
    page = (output / "index.html").read_text()
    assert '<td class="verdict-regression">regression</td>' in page
    assert "not comparable: a run has no evaluation" in page
    assert "frames/s: **regression**" in (output / "summary.md").read_text()


def test_runs_with_several_numbers_of_ranks_are_a_table_of_scaling(tmp_path, output):
    sizes = {"a": (1, 1000.0), "b": (2, 1800.0), "c": (4, 3000.0), "d": (4, 3400.0)}
    runs = [
        write_run(tmp_path, run_id=name, ranks=ranks, fps=fps, noise=0.0, gif=False)
        for name, (ranks, fps) in sizes.items()
    ]
    runs.append(write_run(tmp_path, experiment="other", ranks=8, gif=False))
    assert report(*runs, "--output", output) == 0
    (group,) = read(output)["scaling"]
    assert (group["experiment"], group["num_envs"]) == ("pong_vtrace", 64)
    found = [(point["ranks"], point["fps"], point["speedup"], point["efficiency"]) for point in group["points"]]
    assert found == [(1, 1000.0, 1.0, 1.0), (2, 1800.0, 1.8, 0.9), (4, 3200.0, 3.2, 0.8)]
    assert group["points"][2]["runs"] == ["pong_vtrace/c", "pong_vtrace/d"]
    page = (output / "index.html").read_text()
    assert "Scaling over ranks: pong_vtrace, 64 environments per rank" in page
    assert '<td class="n">0.4 s</td><td class="n">0.7 s</td>' in page


def test_a_bare_run_says_what_is_missing(tmp_path, output):
    run = write_run(tmp_path, lines=0, status="failed", evaluation=False, gif=False)
    assert report(run, "--output", output) == 0
    document = read(output)
    assert document["verdict"]["status"] == "serious"
    assert {row["what"] for row in document["not_measured"]} >= {
        "Learning curve, throughput",
        "Evaluation",
        "Picture of an episode",
        "Time per phase",
        "Profile by operator or kernel",
        "GPU utilisation, power and memory",
    }


def test_a_weak_agent_is_not_called_good(tmp_path, output):
    run = write_run(tmp_path, evaluation=False)
    write_evaluation(run, mean=-20.3)
    assert report(run, "--output", output) == 0
    verdict = read(output)["verdict"]
    assert verdict["status"] == "warning"
    assert "learning is not shown" in verdict["text"]


def test_a_profiled_run(tmp_path, output):
    run = write_run(tmp_path)
    write_profile(run)
    assert report(run, "--output", output) == 0
    document = read(output)
    assert document["findings"][0]["text"] == "Device 0 idles."
    assert document["findings"][0]["subject"] == "pong_vtrace/seed1"
    assert document["verdict"]["status"] == "warning"
    assert document["runs"][0]["utilisation"][0]["median"] == 93.0
    assert "launches" not in document["runs"][0]["profiles"][0]
    page = (output / "index.html").read_text()
    for text in ("aten::convolution", "parallel efficiency 81 %", "200 frames per joule", "75 %", "no device kernels"):
        assert text in page, text
    assert 'data-plot="roofline"' in page
    assert page.count('data-plot="timeline"') == 2


def test_text_of_a_run_cannot_break_the_page(tmp_path, output):
    run = write_run(tmp_path)
    info = json.loads((run / "run.json").read_text())
    info["command"] = "</script><script>alert(1)</script><!--"
    info["hardware"]["cpu"] = "<img src=x onerror=alert(1)>"
    (run / "run.json").write_text(json.dumps(info))
    assert report(run, "--output", output) == 0
    page = (output / "index.html").read_text()
    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page


def test_jobs_of_the_pipeline(tmp_path):
    (tmp_path / "train_agent").mkdir()
    header = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"
    (tmp_path / "train_agent" / "seed1.tsv").write_text(header + "61.5\t0:01:01\t512.0\t-\t-\t-\t0\t0\t90\tNA\n")
    (tmp_path / "empty.tsv").write_text("")
    row = {"name": "train_agent/seed1", "seconds": 61.5, "peak_memory_bytes": 2**29, "cpu_seconds": None}
    assert read_jobs(tmp_path) == [row]


def test_compare_exits_1_on_a_regression_and_0_otherwise(tmp_path):
    base = write_run(tmp_path, run_id="base")
    same = write_run(tmp_path, run_id="same", seed=2)
    slow = write_run(tmp_path, run_id="slow", fps=3200.0)
    write_evaluation(same, mean=-4.0, seed=1)
    verdicts = tmp_path / "verdict.json"
    assert report("--compare", base, same, "--json", verdicts) == 0
    rows = {row["metric"]: row["verdict"] for row in json.loads(verdicts.read_text())["comparisons"]}
    # Thirty episodes are too few to show that two equal agents are equal within 5 %, and the verdict says so.
    assert rows == {"throughput": "unchanged", "evaluation_return": "inconclusive"}
    assert report("--compare", base, slow, "--json", verdicts) == 1
    rows = {row["metric"]: row for row in json.loads(verdicts.read_text())["comparisons"]}
    assert rows["throughput"]["verdict"] == "regression"
    assert rows["throughput"]["change"] == pytest.approx(-0.2, abs=0.02)
    assert rows["throughput"]["low"] < rows["throughput"]["change"] < rows["throughput"]["high"]
    assert report("--compare", slow, base, "--json", verdicts) == 0
    assert json.loads(verdicts.read_text())["comparisons"][0]["verdict"] == "improvement"


def test_compare_takes_report_files(tmp_path, output):
    base, slow = write_run(tmp_path, run_id="base"), write_run(tmp_path, run_id="slow", fps=2000.0)
    assert report(base, "--output", output) == 0
    assert report("--compare", output / "report.json", slow) == 1


def test_noise_is_inconclusive_not_a_failure(tmp_path):
    base = write_run(tmp_path, run_id="base", noise=0.5, lines=25)
    other = write_run(tmp_path, run_id="other", noise=0.5, lines=25, fps=3600.0, seed=5)
    verdicts = tmp_path / "verdict.json"
    assert report("--compare", base, other, "--json", verdicts) == 0
    assert json.loads(verdicts.read_text())["comparisons"][0]["verdict"] == "inconclusive"


def test_runs_without_evaluation_compare_by_throughput_alone(tmp_path, capsys):
    runs = [write_run(tmp_path, run_id=name, evaluation=False) for name in ("a", "b")]
    assert report("--compare", *runs) == 0
    assert "not comparable: a run has no evaluation" in capsys.readouterr().out


def wrong_uses(tmp_path):
    run = write_run(tmp_path)
    two = tmp_path / "two"
    report(run, write_run(tmp_path, run_id="seed2"), "--output", two)
    (tmp_path / "file").write_text("not JSON")
    (tmp_path / "object").write_text("{}")
    return {
        "no run": ([], "name at least one run directory"),
        "absent": ([tmp_path / "none"], "is no folder"),
        "twice": ([run, run], "named twice"),
        "kernels absent": ([run, "--kernels", tmp_path / "none.json"], "does not exist"),
        "kernels damaged": ([run, "--kernels", tmp_path / "file"], "cannot be read as JSON"),
        "kernels of another kind": (
            [run, "--kernels", tmp_path / "object"],
            "is no record of `seed-hpc kernels build`",
        ),
        "jobs absent": ([run, "--jobs", tmp_path / "none"], "is no folder"),
        "output is a file": ([run, "--output", tmp_path / "file"], "cannot be written"),
        "one to compare": (["--compare", run], "needs a baseline"),
        "both modes": ([run, "--compare", run, run], "give the runs after --compare"),
        "tolerance": (["--compare", run, run, "--tolerance", "5"], "give a share"),
        "several runs in one file": (["--compare", two / "report.json", run], "holds 2 runs"),
        "json without compare": ([run, "--json", tmp_path / "x.json"], "--json belongs to --compare"),
    }


def test_wrong_use_is_one_sentence_and_exit_code_2(tmp_path, capsys):
    for name, (arguments, says) in wrong_uses(tmp_path).items():
        capsys.readouterr()
        assert report(*arguments) == 2, name
        error = capsys.readouterr().err
        assert says in error, name
        assert "Traceback" not in error
        assert error.count("\n") == 1, name


def test_a_failed_report_leaves_the_old_one(tmp_path, output, monkeypatch):
    run = write_run(tmp_path)
    assert report(run, "--output", output) == 0
    before = (output / "index.html").read_text()

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("seed_hpc.files.os.fsync", full_disk)
    assert report(run, "--output", output) == 2
    assert (output / "index.html").read_text() == before
    assert len(list(output.iterdir())) == 3
