# SPDX-License-Identifier: Apache-2.0
"""The report's section of what `seed-hpc bench architectures` measured: figures, curves, findings, damaged files."""

import json

import pytest
from synthetic_run import write_architectures, write_run

from seed_hpc import cli
from seed_hpc.report.architectures import CURVE_POINTS, architecture_findings, load_architectures, table_rows
from seed_hpc.report.document import validate_document


@pytest.fixture
def record(tmp_path):
    return write_architectures(tmp_path / "results" / "benchmarks" / "architectures.json")


def change(path, edit):
    value = json.loads(path.read_text())
    edit(value)
    path.write_text(json.dumps(value))
    return load_architectures(path)


def figures_of(section, name):
    return next(each for each in section["architectures"] if each["name"] == name)["figures"]


def test_figures_are_medians_with_their_range(record):
    section = load_architectures(record)
    assert section["seeds"] == [1, 2, 3, 4, 5]
    assert section["command"] == "seed-hpc bench architectures training.num_threads=1"
    assert [each["title"] for each in section["architectures"]] == ["Closed loop", "IMPALA", "Central inference"]
    fps = figures_of(section, "impala")["frames_per_s"]
    assert [fps["median"], fps["min"], fps["max"]] == pytest.approx([1590, 1530, 1650])
    assert fps["values"] == pytest.approx([1530, 1560, 1590, 1620, 1650])
    assert figures_of(section, "closed_loop")["parameter_share"] is None
    last = figures_of(section, "closed_loop")["final_return"]
    assert last["median"] == pytest.approx(1 + 1e-5 * 3180 * 60.03 + 0.15)


def test_curves_are_compared_at_equal_times(record):
    curve = load_architectures(record)["architectures"][0]["curve"]
    assert len(curve["time_s"]) == CURVE_POINTS
    # The first return of seed 5 comes last, at 3.65 s; nothing is shown beyond the time that all trained.
    assert [curve["time_s"][0], curve["time_s"][-1]] == pytest.approx([3.65, 60.0])
    for time_s, low, median, high in zip(*(curve[key] for key in ("time_s", "min", "median", "max")), strict=True):
        for value, seed in ((low, 1), (median, 3), (high, 5)):
            assert value == pytest.approx(1 + 1e-5 * 3000 * (1 + 0.02 * seed) * time_s + 0.05 * seed)


def test_a_curve_ends_with_its_shortest_seed(record):
    def cut(value):
        del value["runs"][0]["curve"][30:]

    closed, impala, _ = change(record, cut)["architectures"]
    assert closed["curve"]["time_s"][-1] == pytest.approx(36.01)
    assert impala["curve"]["time_s"][-1] == pytest.approx(60.0)


def test_the_report_shows_them(record, tmp_path):
    run, output = write_run(tmp_path / "results"), tmp_path / "results" / "report"
    assert cli.main(["report", str(run), "--output", str(output)]) == 0
    document = json.loads((output / "report.json").read_text())
    validate_document(document)
    assert document["architectures"] == load_architectures(record)
    page = (output / "index.html").read_text()
    for text in (
        '<h2 id="architectures">',
        'data-plot="architecture_curves"',
        'data-plot="architecture_frames"',
        '<td class="n">1,590<span class="range">1,530 … 1,650</span></td>',
        "seed-hpc bench architectures training.num_threads=1",
    ):
        assert text in page, text
    assert "| Frames/s | 3,180 (3,060 … 3,300) | 1,590 (1,530 … 1,650) |" in (output / "summary.md").read_text()


def test_a_report_without_a_measurement_says_nothing(tmp_path):
    output = tmp_path / "report"
    assert cli.main(["report", str(write_run(tmp_path)), "--output", str(output)]) == 0
    document = json.loads((output / "report.json").read_text())
    assert document["architectures"] is None
    assert "rchitecture" not in json.dumps(document["not_measured"])
    assert 'id="architectures"' not in (output / "index.html").read_text()
    assert "## Architectures" not in (output / "summary.md").read_text()


def test_missing_figures_are_dashes(record, tmp_path):
    def bare(value):
        value["runs"] = [{"architecture": run["architecture"], "seed": run["seed"]} for run in value["runs"]]
        for key in ("command", "commit", "hardware", "experiment", "num_actors", "seconds"):
            del value[key]

    section = change(record, bare)
    assert all(cells == [("–", None)] * 3 for _, cells in table_rows(section))
    assert architecture_findings(section) == []
    output = tmp_path / "report"
    assert cli.main(["report", str(write_run(tmp_path)), "--output", str(output), "--architectures", str(record)]) == 0
    page = (output / "index.html").read_text()
    assert 'data-plot="architecture_curves"' not in page
    assert page.count('<td class="n">–</td><td class="n">–</td><td class="n">–</td>') >= 10


def test_the_table_writes_a_unit_once(record):
    rows = dict(table_rows(load_architectures(record)))
    assert rows["Step to gradient, median"][0] == ("189 ms", "182 … 196\N{NO-BREAK SPACE}ms")
    assert rows["Frames/s"][2] == ("1,060", "1,020 … 1,100")
    assert rows["of these, parameters"] == [("–", None), ("50 %", None), ("0 %", None)]


def test_one_seed_has_no_range(record):
    def first_seed(value):
        value["runs"] = value["runs"][:3]

    section = change(record, first_seed)
    rows = dict(table_rows(section))
    assert rows["Frames/s"] == [("3,060", None), ("1,530", None), ("1,020", None)]
    speed, _ = architecture_findings(section)
    assert speed.text == "The closed loop's frames/s are 2.00 times IMPALA's and 3.00 times central inference's."


def test_findings(record):
    speed, returns = architecture_findings(load_architectures(record))
    assert (speed.rule, speed.severity, returns.severity) == ("architecture_speed", "good", "good")
    assert "2.00 times IMPALA's (2.00 … 2.00 over the seeds) and 3.00 times central inference's" in speed.text
    assert returns.text.startswith("After 1 min 00 s each the closed loop returns 3.1 (2.9 … 3.2); IMPALA 2.1 (")
    assert returns.text.endswith("every seed ends above all others.")


def scale(factor):
    """The closed loop of one seed is slower and returns less by a factor."""

    def edit(value):
        run = value["runs"][0]
        run["frames_per_s"] *= factor
        run["curve"] = [[t, frames, x and factor * x] for t, frames, x in run["curve"]]

    return edit


def test_one_slow_seed_makes_neither_finding_good(record):
    speed, returns = architecture_findings(change(record, scale(0.4)))
    assert (speed.severity, returns.severity) == ("info", "info")
    assert "(0.80 … 2.00 over the seeds)" in speed.text
    assert "ranges overlap" in returns.text


def test_a_closed_loop_that_learns_less_is_a_warning(record):
    def worse(value):
        for run in value["runs"][::3]:
            run["curve"] = [[t, frames, x and 0.1 * x] for t, frames, x in run["curve"]]

    _, returns = architecture_findings(change(record, worse))
    assert returns.severity == "warning"
    assert "every seed ends below all others" in returns.text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"schema_version": 1, "runs": [{"archi', "cannot be read as JSON"),
        ("[]", "holds no JSON object"),
        ('{"schema_version": 2}', "is no measurement of architectures of this version"),
        ('{"schema_version": 1, "runs": []}', "holds no runs"),
        ('{"schema_version": 1, "runs": [{"seed": 1}]}', "holds no runs with an architecture and a seed"),
    ],
)
def test_a_damaged_file_is_one_sentence(record, tmp_path, capsys, text, says):
    record.write_text(text)
    run, output = write_run(tmp_path / "results"), tmp_path / "results" / "report"
    assert cli.main(["report", str(run), "--output", str(output)]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert "measure again with `seed-hpc bench architectures`, or remove the file" in error
    assert error.count("\n") == 1
    assert not output.exists()


def test_a_file_that_is_named_must_exist(tmp_path, capsys):
    assert cli.main(["report", str(write_run(tmp_path)), "--architectures", str(tmp_path / "none.json")]) == 2
    assert "none.json does not exist" in capsys.readouterr().err
