# SPDX-License-Identifier: Apache-2.0
"""Reads a run directory into one record; the only module of the report that knows the files' names.

A run may have been interrupted at any byte: a half line at the end of metrics.jsonl is left out, lines that a resumed
run wrote again replace the earlier ones, and a file that is absent leaves its field None.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from seed_hpc.errors import UserError

JsonObject = dict[str, Any]


@dataclass(kw_only=True)
class RunRecord:
    """What one run directory says.

    Attributes:
        directory: The run directory.
        info: run.json.
        config: config.yaml, resolved.
        metrics: One object a log line, frames strictly increasing.
        evaluation: evaluation.json.
        profiles: The tables of profile/*.json, as `seed-hpc profile run` writes them.
        analysis: profile/analysis.json of `seed-hpc profile analyse`.
        notes: Sentences about files that were damaged or incomplete.
    """

    directory: Path
    info: JsonObject
    config: JsonObject = field(default_factory=dict)
    metrics: list[JsonObject] = field(default_factory=list)
    evaluation: JsonObject | None = None
    profiles: list[JsonObject] = field(default_factory=list)
    analysis: JsonObject | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def run_id(self) -> str:
        """The run's name inside its experiment."""
        return str(self.info.get("run_id", self.directory.name))

    @property
    def experiment(self) -> str:
        """The experiment's name."""
        return str(self.info.get("experiment", self.directory.resolve().parent.name))

    @property
    def status(self) -> str:
        """Running | finished | interrupted | failed | unknown."""
        return str(self.info.get("status", "unknown"))

    @property
    def label(self) -> str:
        """`experiment/run_id`, as plots and tables name the run."""
        return f"{self.experiment}/{self.run_id}"

    @property
    def gif(self) -> Path | None:
        """The recorded episode, if there is one."""
        path = self.directory / "episode.gif"
        return path if path.is_file() and path.stat().st_size > 0 else None

    def column(self, name: str) -> list[float | None]:
        """One metric of every log line; None where it is absent, null or not finite."""
        return [finite_or_none(line.get(name)) for line in self.metrics]

    def last(self, name: str) -> float | None:
        """The newest value of a metric that has one."""
        return next((value for value in reversed(self.column(name)) if value is not None), None)

    def setting(self, dotted: str, default: Any = None) -> Any:
        """A value of the resolved configuration, `"env.num_envs"`."""
        value: Any = self.config
        for part in dotted.split("."):
            if not isinstance(value, Mapping) or part not in value:
                return default
            value = value[part]
        return value


def finite_or_none(value: Any) -> float | None:
    """Returns a float, or None for anything that is no finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def load_run(directory: Path) -> RunRecord:
    """Reads a run directory.

    Args:
        directory: results/<experiment>/<run_id>.

    Raises:
        UserError: The folder is no run directory, or run.json cannot be read.
    """
    if not directory.is_dir():
        raise UserError(f"{directory} is no folder: name a run directory, results/<experiment>/<run_id>")
    info_file = directory / "run.json"
    if not info_file.is_file():
        inside = sorted(path.parent.name for path in directory.glob("*/run.json"))
        hint = f"; it holds the runs {', '.join(inside)}: name one of them" if inside else ""
        raise UserError(f"{directory} is no run directory, it has no run.json{hint}")
    notes: list[str] = []
    info = _read_json(info_file)
    if not isinstance(info, dict):
        raise UserError(f"{info_file} is damaged (no JSON object): the run directory cannot be read")
    return RunRecord(
        directory=directory,
        info=info,
        config=_read_config(directory / "config.yaml", notes),
        metrics=read_metrics(directory / "metrics.jsonl", notes),
        evaluation=_read_optional(directory / "evaluation.json", "evaluation_file", notes),
        profiles=_read_profiles(directory / "profile", notes),
        analysis=_read_optional(directory / "profile" / "analysis.json", "analysis_file", notes),
        notes=notes,
    )


def read_metrics(path: Path, notes: list[str]) -> list[JsonObject]:
    """Reads metrics.jsonl.

    Args:
        path: The file; an absent one is an empty list.
        notes: Gets a sentence for lines that were left out.

    Returns:
        The lines with strictly increasing `frames`: a run that resumed from a checkpoint repeats some frames, and the
        newest line of each stretch counts.
    """
    if not path.is_file():
        return []
    lines: list[JsonObject] = []
    damaged = 0
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if not text.strip():
            continue
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            damaged += 1
            continue
        if isinstance(line, dict) and finite_or_none(line.get("frames")) is not None:
            lines.append(line)
        else:
            damaged += 1
    if damaged:
        notes.append(f"{path.name}: {damaged} of {damaged + len(lines)} lines are incomplete and were left out")
    kept: list[JsonObject] = []
    for line in reversed(lines):
        if not kept or line["frames"] < kept[-1]["frames"]:
            kept.append(line)
    if len(kept) < len(lines):
        notes.append(f"{path.name}: {len(lines) - len(kept)} lines were repeated after a resume; the newest ones count")
    return kept[::-1]


def thin(values: Sequence[Any], limit: int) -> list[Any]:
    """Returns at most `limit` values at even distances, the first and last among them."""
    if len(values) <= limit:
        return list(values)
    step = (len(values) - 1) / (limit - 1)
    return [values[round(i * step)] for i in range(limit)]


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


@functools.cache
def schema() -> JsonObject:
    """Returns schema.json: of the report, and in `$defs` of the files it is made from."""
    return dict(json.loads(files("seed_hpc.report").joinpath("schema.json").read_text(encoding="utf-8")))


def _read_optional(path: Path, kind: str, notes: list[str]) -> JsonObject | None:
    """Reads a file of `kind`, a name in the schema's `$defs`; one that is something else is left out with a note."""
    if not path.is_file():
        return None
    value = _read_json(path)
    if not isinstance(value, dict):
        notes.append(f"{path.name}: damaged (no JSON object), left out")
        return None
    checked = {"$ref": f"#/$defs/{kind}", "$defs": schema()["$defs"]}
    fault = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(checked).iter_errors(value))
    if fault is not None:
        place = ".".join(map(str, fault.absolute_path)) or "the file"
        notes.append(f"{path.name}: damaged ({place}: {fault.message:.100}), left out")
        return None
    return value


def _read_profiles(folder: Path, notes: list[str]) -> list[JsonObject]:
    tables = [_read_optional(path, "profile_file", notes) for path in sorted(folder.glob("*-rank*.json"))]
    return [table for table in tables if table is not None]


def _read_config(path: Path, notes: list[str]) -> JsonObject:
    if not path.is_file():
        return {}
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        value = None
    if not isinstance(value, dict):
        notes.append(f"{path.name}: damaged (no YAML mapping), left out")
        return {}
    return value
