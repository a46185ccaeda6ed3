# SPDX-License-Identifier: Apache-2.0
"""Renders the report's document as one HTML file that needs no network, and as a Markdown summary."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import yaml

from seed_hpc.report import wording
from seed_hpc.report.architectures import table_rows
from seed_hpc.report.document import ANALYSIS_KEYS, interval

SEVERITY_NAMES = {"serious": "Serious", "warning": "Warning", "info": "Note", "good": "Good"}


def render_html(document: Mapping[str, Any], gifs: Mapping[str, Path]) -> str:
    """Returns the page.

    Args:
        document: As schema.json describes it.
        gifs: A run's label to the picture of its episode, embedded into the page.
    """
    from plotly.offline import get_plotlyjs

    runs = document["runs"]
    curve_names = sorted({name for run in runs for name in run["curves"]})
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            report=document,
            severity_names=SEVERITY_NAMES,
            curve_names=curve_names,
            has_curves=bool(curve_names),
            run_index={run["label"]: index for index, run in enumerate(runs)},
            machines=_machines(runs),
            no_analysis=dict.fromkeys(ANALYSIS_KEYS),
            gifs={label: _data_url(path) for label, path in gifs.items()},
            css=_template_text("report.css"),
            js=_template_text("report.js"),
            plotly=get_plotlyjs(),
            # A `</script>` inside a string would end the script element; the escaped form is the same JSON.
            data=json.dumps(document, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c"),
        )
    )


def render_markdown(document: Mapping[str, Any]) -> str:
    """Returns the summary that fits into a merge request or a mail."""
    template = _environment().get_template("summary.md.j2")
    return template.render(report=document, severity_names=SEVERITY_NAMES)


def flatten(mapping: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields (name, value) rows of a nested record, in reading form: `memory bytes` -> `memory`, `23.4 GiB`."""
    for key, value in mapping.items():
        name = str(key).replace("_", " ")
        if value is None or value == [] or value == {}:
            yield name, "none" if value is not None else "not known"
        elif isinstance(value, Mapping):
            yield from ((f"{name}, {inner}", text) for inner, text in flatten(value))
        elif isinstance(value, list | tuple) and any(isinstance(entry, Mapping) for entry in value):
            for index, entry in enumerate(value):
                nested = entry if isinstance(entry, Mapping) else {"": entry}
                yield from ((f"{name} {index}, {inner}", text) for inner, text in flatten(nested))
        elif isinstance(value, list | tuple):
            yield name, ", ".join(map(str, value))
        elif isinstance(value, bool):
            yield name, "yes" if value else "no"
        elif isinstance(value, int) and name.endswith(" bytes"):
            yield name.removesuffix(" bytes"), wording.size(value)
        else:
            yield name, str(value)


def _machines(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Runs grouped by equal hardware and software, so that ten seeds on one machine are one table."""
    groups: list[dict[str, Any]] = []
    for run in runs:
        for group in groups:
            if group["hardware"] == run["hardware"] and group["versions"] == run["versions"]:
                group["labels"].append(run["label"])
                break
        else:
            groups.append({"labels": [run["label"]], "hardware": run["hardware"], "versions": run["versions"]})
    return groups


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template_text),
        autoescape=lambda name: bool(name) and str(name).endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        count=wording.count,
        number=wording.number,
        score=wording.score,
        duration=wording.duration,
        size=wording.size,
        percent=wording.percent,
        signed_percent=wording.signed_percent,
        interval=interval,
        flatten=flatten,
        table_rows=table_rows,
        yaml=lambda value: yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip(),
    )
    return environment


def _template_text(name: str) -> str:
    return files("seed_hpc.report").joinpath("templates", name).read_text(encoding="utf-8")


def _data_url(path: Path) -> str:
    return "data:image/gif;base64," + base64.b64encode(path.read_bytes()).decode()
