# SPDX-License-Identifier: Apache-2.0
"""Reads what `seed-hpc bench architectures` measured into the report: figures, learning curves and what they say.

The closed loop stands beside the conventional architectures, which trained the same experiment with the same seeds for
as long. A figure is its median over the seeds with their range; a figure that was not measured is None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seed_hpc.errors import UserError
from seed_hpc.files import read_json_object
from seed_hpc.report import wording
from seed_hpc.report.findings import Finding
from seed_hpc.report.run_record import finite_or_none

JsonObject = dict[str, Any]

FILE = Path("benchmarks") / "architectures.json"  # in the results folder; the command writes it there
CLOSED_LOOP = "closed_loop"
SUBJECT = "architectures"  # of the findings
TITLES = {CLOSED_LOOP: "Closed loop", "impala": "IMPALA", "central_inference": "Central inference"}
CURVE_POINTS = 60


def _latency(value: float | None) -> str:
    if value is None:
        return wording.ABSENT
    return f"{value:.2f} s" if value >= 1 else f"{wording.number(1000 * value, 3)} ms"


def _one_decimal(value: float | None) -> str:
    return wording.ABSENT if value is None else f"{value:,.1f}"


# Figure of a run -> (what the table calls it, how the table writes it).
MEASURES: dict[str, tuple[str, Callable[[float | None], str]]] = {
    "frames_per_s": ("Frames/s", wording.count),
    "updates_per_s": ("Learner updates/s", _one_decimal),
    "bytes_per_frame": ("Bytes between processes a frame", wording.count),
    "parameter_share": ("of these, parameters", wording.percent),
    "latency_p50_s": ("Step to gradient, median", _latency),
    "latency_p95_s": ("Step to gradient, 95 % quantile", _latency),
    "actor_idle": ("Actor idle", wording.percent),
    "learner_idle": ("Learner idle", wording.percent),
    "policy_lag": ("Policy lag, updates", _one_decimal),
    "final_return": ("Return at the end", wording.score),
}


def load_architectures(path: Path) -> JsonObject:
    """Reads architectures.json.

    Args:
        path: As `seed-hpc bench architectures` wrote it.

    Returns:
        The report's section, see schema.json, `architectures`.

    Raises:
        UserError: The file does not exist or is no such measurement.
    """
    advice = "measure again with `seed-hpc bench architectures`, or remove the file"
    record = read_json_object(path, advice)
    if record.get("schema_version") != 1:
        raise UserError(f"{path} is no measurement of architectures of this version: {advice}")
    runs = record.get("runs")
    if not isinstance(runs, list) or not runs or not all(map(_is_run, runs)):
        raise UserError(f"{path} holds no runs with an architecture and a seed: {advice}")
    return _section(record, runs)


def _is_run(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("architecture"), str)
        and isinstance(value.get("seed"), int)
        and isinstance(value.get("curve", []), list)
    )


def _section(record: Mapping[str, Any], runs: Sequence[JsonObject]) -> JsonObject:
    experiment = record.get("experiment")
    experiment = experiment if isinstance(experiment, Mapping) else {}
    env = experiment.get("env")
    env = env if isinstance(env, Mapping) else {}
    hardware = record.get("hardware")
    names = dict.fromkeys(run["architecture"] for run in runs)
    seconds = finite_or_none(record.get("seconds"))
    return {
        "experiment": _text(experiment.get("name")),
        "environment": _text(env.get("game")),
        "num_envs": _integer(env.get("num_envs")),
        "num_actors": _integer(record.get("num_actors")),
        "seconds": seconds,
        "seeds": list(dict.fromkeys(run["seed"] for run in runs)),
        "command": wording.command(record.get("command")),
        "commit": _text(record.get("commit")),
        "hardware": dict(hardware) if isinstance(hardware, Mapping) else {},
        "architectures": [
            _architecture(name, [run for run in runs if run["architecture"] == name], seconds) for name in names
        ],
    }


def _architecture(name: str, runs: Sequence[JsonObject], seconds: float | None) -> JsonObject:
    """Figures and curve of one architecture over its seeds."""
    curves = [_points(run) for run in runs]
    values = {key: [finite_or_none(run.get(key)) for run in runs] for key in MEASURES if key != "final_return"}
    values["final_return"] = [curve[-1][1] if curve else None for curve in curves]
    return {
        "name": name,
        "title": TITLES.get(name, name.replace("_", " ").capitalize()),
        "figures": {key: _spread(column) for key, column in values.items()},
        "curve": _curve(curves, seconds),
    }


def _points(run: Mapping[str, Any]) -> list[tuple[float, float]]:
    """(seconds, mean return) of a run, from its first return on."""
    points = []
    for entry in run.get("curve", []):
        if isinstance(entry, list) and len(entry) == 3:
            time_s, _, value = map(finite_or_none, entry)
            if time_s is not None and value is not None:
                points.append((time_s, value))
    return sorted(points)


def _spread(values: Sequence[float | None]) -> JsonObject | None:
    """Median and range over the seeds that have the figure; None where no seed has."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {"median": float(np.median(known)), "min": min(known), "max": max(known), "values": list(values)}


def _curve(curves: Sequence[Sequence[tuple[float, float]]], seconds: float | None) -> JsonObject | None:
    """Median and range over the seeds against time, from where every seed has a return; None without such a time."""
    if not curves or not all(curves):
        return None
    first = max(curve[0][0] for curve in curves)
    last = min(curve[-1][0] for curve in curves)
    last = last if seconds is None else min(last, seconds)
    if last < first:
        return None
    time_s = np.linspace(first, last, CURVE_POINTS if last > first else 1)
    known = [np.array(curve) for curve in curves]  # (points, 2)
    returns = np.array([np.interp(time_s, curve[:, 0], curve[:, 1]) for curve in known])
    return {
        "time_s": time_s.tolist(),
        "median": np.median(returns, axis=0).tolist(),
        "min": returns.min(axis=0).tolist(),
        "max": returns.max(axis=0).tolist(),
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# ---- What the report says --------------------------------------------------------------------------------------------


def table_rows(section: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str | None]]]]:
    """Returns rows of the table: name, and for each architecture its median and its range, None where there is none."""
    rows = []
    for key, (name, write) in MEASURES.items():
        cells: list[tuple[str, str | None]] = []
        for architecture in section["architectures"]:
            figure = architecture["figures"][key] or {"median": None, "min": None, "max": None}
            low, high = write(figure["min"]), write(figure["max"])
            cells.append((write(figure["median"]), _range(low, high) if low != high else None))
        rows.append((name, cells))
    return rows


def _range(low: str, high: str) -> str:
    """`63 … 65 %`: the unit once, where both have it, and never alone on a line."""
    number, _, unit = high.partition(" ")
    return f"{low.removesuffix(f' {unit}')} … {number}\N{NO-BREAK SPACE}{unit}" if unit else f"{low} … {high}"


def architecture_findings(section: Mapping[str, Any] | None) -> list[Finding]:
    """What the rules on the architectures say; nothing where they were not measured."""
    if section is None:
        return []
    by_name = {architecture["name"]: architecture for architecture in section["architectures"]}
    closed = by_name.pop(CLOSED_LOOP, None)
    if closed is None or not by_name:
        return []
    found = (rule(closed, list(by_name.values()), section) for rule in (_speed, _return))
    return [finding for finding in found if finding is not None]


def _speed(closed: JsonObject, others: Sequence[JsonObject], _: Mapping[str, Any]) -> Finding | None:
    """Frames/s of the closed loop against the others, seed by seed."""
    texts, worst = [], float("inf")
    for other in others:
        figures = (closed["figures"]["frames_per_s"], other["figures"]["frames_per_s"])
        if None in figures:
            continue
        pairs = zip(*(figure["values"] for figure in figures), strict=False)
        ratios = [ours / theirs for ours, theirs in pairs if ours is not None and theirs]
        if ratios:
            worst = min(worst, *ratios)
            spread = f" ({min(ratios):.2f} … {max(ratios):.2f} over the seeds)" if len(ratios) > 1 else ""
            texts.append(f"{np.median(ratios):.2f} times {_inside(other)}'s{spread}")
    if not texts:
        return None
    text = f"The closed loop's frames/s are {' and '.join(texts)}."
    severity: Any = "good" if worst > 1 else "info"
    return Finding(rule="architecture_speed", severity=severity, subject=SUBJECT, text=text)


def _return(closed: JsonObject, others: Sequence[JsonObject], section: Mapping[str, Any]) -> Finding | None:
    """Return after equal wall time: told apart only where the ranges over the seeds do not touch."""
    ours = closed["figures"]["final_return"]
    known = [other for other in others if other["figures"]["final_return"] is not None]
    if ours is None or not known:
        return None
    ranges = [other["figures"]["final_return"] for other in known]
    listed = ", ".join(f"{_inside(other)} {_median_and_range(other)}" for other in known)
    after = f"After {wording.duration(section['seconds'])} each" if section["seconds"] else "At the end"
    text = f"{after} the closed loop returns {_median_and_range(closed)}; {listed}"
    severity: Any = "info"
    if all(ours["min"] > other["max"] for other in ranges):
        severity, text = "good", f"{text}: every seed ends above all others."
    elif all(ours["max"] < other["min"] for other in ranges):
        severity, text = "warning", f"{text}: every seed ends below all others."
    else:
        text = f"{text}: the seeds' ranges overlap."
    return Finding(rule="architecture_return", severity=severity, subject=SUBJECT, text=text)


def _median_and_range(architecture: JsonObject) -> str:
    figure = architecture["figures"]["final_return"]
    low, median, high = (wording.score(figure[key]) for key in ("min", "median", "max"))
    return f"{median} ({low} … {high})" if low != high else median


def _inside(architecture: JsonObject) -> str:
    """The title inside a sentence: central inference, IMPALA."""
    title: str = architecture["title"]
    return title if title.isupper() else title[0].lower() + title[1:]
