# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc report`: writes the performance report of runs, or compares runs with a baseline."""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from seed_hpc.errors import UserError
from seed_hpc.files import new_file, read_json_object, write_json, write_text
from seed_hpc.profiling.kernels_command import read_records
from seed_hpc.report import wording
from seed_hpc.report.architectures import FILE as ARCHITECTURES_FILE
from seed_hpc.report.architectures import load_architectures
from seed_hpc.report.compare import DEFAULT_TOLERANCE, Comparison, compare_runs, has_regression
from seed_hpc.report.document import build_document, read_jobs, run_section, validate_document
from seed_hpc.report.page import render_html, render_markdown
from seed_hpc.report.run_record import load_run

logger = logging.getLogger(__name__)

DEFAULT_OUTPUT = Path("results/report")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the runs and the options of both modes."""
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN_DIR", help="results/<experiment>/<run_id>")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT, metavar="DIR", help=f"default: {DEFAULT_OUTPUT}")
    parser.add_argument("--title", help="headline; by default the agent and the game")
    parser.add_argument(
        "--kernels", nargs="+", type=Path, default=[], metavar="FILE", help="kernels.json files of `kernels build`"
    )
    parser.add_argument("--jobs", type=Path, metavar="DIR", help="benchmark files that the pipeline's rules wrote")
    parser.add_argument(
        "--architectures",
        type=Path,
        metavar="FILE",
        help=f"what `bench architectures` measured; by default {ARCHITECTURES_FILE} beside DIR, where it exists",
    )
    parser.add_argument(
        "--compare",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="compare run directories or report.json files; the first is the baseline; exit code 1 on a regression",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=DEFAULT_TOLERANCE,
        metavar="SHARE",
        help=f"change that does not matter (default {DEFAULT_TOLERANCE})",
    )
    parser.add_argument("--json", type=new_file, metavar="FILE", help="with --compare: write the verdicts to FILE")


def run(args: argparse.Namespace) -> int:
    """Writes the report (0), or compares (0, or 1 on a regression)."""
    if args.compare is not None:
        if args.runs:
            raise UserError(f"give the runs after --compare, not before it: {', '.join(map(str, args.runs))}")
        return _compare(args.compare, args.tolerance, args.json)
    if args.json is not None:
        raise UserError("--json belongs to --compare; a report's data are in its report.json")
    if not args.runs:
        raise UserError("name at least one run directory, results/<experiment>/<run_id>, or use --compare A B")
    write_report(
        args.runs,
        args.output,
        kernels=args.kernels,
        jobs=args.jobs,
        title=args.title,
        architectures=args.architectures or _architectures_beside(args.output),
    )
    return 0


def write_report(
    runs: Sequence[Path],
    output: Path,
    *,
    kernels: Sequence[Path] = (),
    jobs: Path | None = None,
    title: str | None = None,
    architectures: Path | None = None,
) -> dict[str, Any]:
    """Writes index.html, report.json and summary.md.

    Args:
        runs: Run directories, at least one; the order is the order in the report.
        output: Folder of the report; made when absent.
        kernels: kernels.json files.
        jobs: Folder of Snakemake's benchmark files.
        title: Headline.
        architectures: What `seed-hpc bench architectures` wrote; None leaves its section out.

    Returns:
        The document that report.json holds.

    Raises:
        UserError: A run or record cannot be read, two runs have one label, or the folder cannot be written.
    """
    records = [load_run(path) for path in runs]
    _refuse_equal_labels([record.label for record in records])
    if jobs is not None and not jobs.is_dir():
        raise UserError(f"--jobs {jobs} is no folder: name that of the benchmark files that the pipeline's rules wrote")
    document = build_document(
        records,
        kernels=read_records(kernels),
        jobs=read_jobs(jobs) if jobs is not None else [],
        title=title,
        commit=_commit(),
        architectures=load_architectures(architectures) if architectures is not None else None,
    )
    # NaN and numbers that JSON does not have never leave this process.
    document = dict(json.loads(json.dumps(document, default=str), parse_constant=lambda _: None))
    validate_document(document)
    gifs = {record.label: record.gif for record in records if record.gif is not None}
    try:
        output.mkdir(parents=True, exist_ok=True)
        write_text(output / "index.html", render_html(document, gifs))
        write_text(output / "report.json", json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
        write_text(output / "summary.md", render_markdown(document))
    except OSError as error:
        raise UserError(f"{output} cannot be written ({error.strerror}): give another folder with --output") from error
    logger.info("%s", document["verdict"]["text"])
    logger.info("report: %s", output / "index.html")
    return document


def _architectures_beside(output: Path) -> Path | None:
    """The measurement in the results folder that the report is in, if there is one."""
    path = output.parent / ARCHITECTURES_FILE
    return path if path.is_file() else None


def _compare(paths: Sequence[Path], tolerance: float, json_file: Path | None) -> int:
    if len(paths) < 2:
        raise UserError("--compare needs a baseline and at least one run to compare with it: --compare A B")
    if not 0 <= tolerance < 1:
        raise UserError(f"--tolerance {tolerance} is not allowed: give a share from 0 to below 1, 0.05 for 5 %")
    sections = [_section(path) for path in paths]
    comparisons = compare_runs(sections, tolerance)
    _print_comparisons(sections[0], comparisons)
    regressed = has_regression(comparisons)
    if json_file is not None:
        verdict = {
            "schema_version": 1,
            "baseline": sections[0]["label"],
            "tolerance": tolerance,
            "regression": regressed,
            "comparisons": [comparison.to_json() for comparison in comparisons],
        }
        try:
            write_json(json_file, verdict)
        except OSError as error:
            raise UserError(f"{json_file} cannot be written ({error.strerror})") from error
    return 1 if regressed else 0


def _section(path: Path) -> dict[str, Any]:
    """The run's section: made from a run directory, or taken from a report.json of one run."""
    if path.is_dir():
        return run_section(load_run(path))
    document = read_json_object(path, "name a run directory or a report.json")
    runs = document.get("runs")
    if not isinstance(runs, list) or not runs or document.get("schema_version") != 1:
        raise UserError(f"{path} is no report.json of this version: name a run directory or a report.json")
    if len(runs) > 1:
        names = ", ".join(str(run.get("directory")) for run in runs)
        raise UserError(f"{path} holds {len(runs)} runs: name their directories instead ({names})")
    section: dict[str, Any] = runs[0]
    return section


def _print_comparisons(baseline: dict[str, Any], comparisons: Sequence[Comparison]) -> None:
    names = {"throughput": "frames/s, median", "evaluation_return": "evaluation return, mean"}
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"baseline {baseline['label']}", markup=False)
    for comparison in comparisons:
        values = ""
        if comparison.value is not None:
            values = f"{wording.number(comparison.baseline_value)} -> {wording.number(comparison.value)}, "
        text = f"{comparison.run}: {names[comparison.metric]}: {comparison.verdict}: {values}{comparison.text}"
        console.print(text, markup=False)


def _refuse_equal_labels(labels: Sequence[str]) -> None:
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise UserError(f"the run {twice[0]} was named twice: name each run once")


def _commit() -> str | None:
    """The checkout's commit, `-dirty` appended when files differ; None outside a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip() or None
    except (OSError, subprocess.SubprocessError):
        return None
