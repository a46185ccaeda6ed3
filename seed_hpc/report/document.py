# SPDX-License-Identifier: Apache-2.0
"""Builds the report as data: run records -> one JSON document (schema.json) that the page and the summary show.

Nothing is measured here. A figure that no run recorded is absent, and `not_measured` says why and how to get it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema

from seed_hpc import __version__
from seed_hpc.profiling.analysis import scaling
from seed_hpc.report import wording
from seed_hpc.report.architectures import architecture_findings
from seed_hpc.report.compare import DEFAULT_TOLERANCE, compare_runs
from seed_hpc.report.findings import SEVERITIES, Finding, analysis_findings, kernel_findings, run_findings
from seed_hpc.report.run_record import RunRecord, finite_or_none, schema, thin
from seed_hpc.report.statistics import bootstrap_mean, quantile

SCHEMA_VERSION = 1
CURVE_POINTS = 1500  # More than a screen has pixels, few enough for a small file.
CURVES = ("time_s", "frames", "mean_return", "fps", "episodes", "entropy", "policy_lag", "loss", "learning_rate")
WARM_UP_SHARE = 0.1  # Log lines at the start that throughput leaves out: compilation, caches, empty replay.
# Tables of a profile that the report shows; single launches stay in profile/ of the run directory.
PROFILE_KEYS = ("tool", "version", "source", "kernels", "ranges", "api", "memory", "devices", "notes")
ANALYSIS_KEYS = ("overlap", "efficiency", "occupancy", "roofline", "energy", "notes")

JsonObject = dict[str, Any]


def build_document(
    runs: Sequence[RunRecord],
    kernels: Sequence[JsonObject] = (),
    jobs: Sequence[JsonObject] = (),
    title: str | None = None,
    commit: str | None = None,
    architectures: JsonObject | None = None,
) -> JsonObject:
    """Assembles the report of one or more runs.

    Args:
        runs: At least one run.
        kernels: Records of `seed-hpc kernels build` (kernels.json).
        jobs: Rows of the pipeline's benchmark files.
        title: Headline; by default the agent and the game.
        commit: Commit of the checkout that writes the report.
        architectures: From `load_architectures`; None where nobody measured them.

    Returns:
        A document that schema.json accepts.
    """
    sections = [run_section(run) for run in runs]
    findings = [finding for section in sections for finding in run_findings(section)] + kernel_findings(kernels)
    findings += [finding for run in runs for finding in analysis_findings(run.label, run.analysis)]
    findings += architecture_findings(architectures)
    findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return {
        "schema_version": SCHEMA_VERSION,
        "title": title or _title(sections),
        "generated": datetime.now(UTC).isoformat(timespec="seconds"),
        "generator": {"seed_hpc": __version__, "commit": commit},
        "verdict": verdict(sections, findings),
        "findings": [finding.to_json() for finding in findings],
        "runs": sections,
        "comparison": comparison_section(sections),
        "scaling": scaling_sections(sections),
        "architectures": architectures,
        "kernels": list(kernels),
        "jobs": list(jobs),
        "not_measured": not_measured(sections, kernels),
        "notes": [f"{run.label}: {note}" for run in runs for note in run.notes],
    }


def validate_document(document: Mapping[str, Any]) -> None:
    """Checks a document against schema.json (draft 2020-12); a failure is our bug, not the user's."""
    jsonschema.validate(document, schema(), cls=jsonschema.Draft202012Validator)


def run_section(run: RunRecord) -> JsonObject:
    """Everything the report says about one run."""
    throughput = _throughput(run)
    return {
        "label": run.label,
        "run_id": run.run_id,
        "experiment": run.experiment,
        "directory": str(run.directory),
        "status": run.status,
        "agent": _text(run.setting("agent.name")),
        "environment": _environment(run),
        "frames": run.last("frames"),
        "updates": run.last("updates"),
        "duration_s": run.last("time_s"),
        "final_return": run.last("mean_return"),
        "throughput": throughput,
        "step_to_gradient": _step_to_gradient(run),
        "curves": {name: thin(run.column(name), CURVE_POINTS) for name in CURVES if any_value(run.column(name))},
        "evaluation": _evaluation(run),
        "phases": _phases(run),
        "memory": _memory(run),
        "utilisation": (run.analysis or {}).get("utilisation", []),
        "timeline": (run.analysis or {}).get("timeline", []),
        "analysis": _analysis(run),
        "profiles": [{key: profile.get(key) for key in PROFILE_KEYS} for profile in run.profiles],
        "gif": "episode.gif" if run.gif else None,
        "hardware": _mapping(run.info.get("hardware")),
        "versions": _mapping(run.info.get("versions")),
        "placement": _placement(run),
        "config": run.config,
        "provenance": _provenance(run),
    }


def comparison_section(runs: Sequence[JsonObject]) -> JsonObject | None:
    """The runs of the first run's environment against that run; None where there is no other."""
    alike = [run for run in runs if run["environment"] == runs[0]["environment"]]
    if len(alike) < 2:
        return None
    rows = [comparison.to_json() for comparison in compare_runs(alike, DEFAULT_TOLERANCE)]
    return {"baseline": alike[0]["label"], "tolerance": DEFAULT_TOLERANCE, "rows": rows}


def scaling_sections(runs: Sequence[JsonObject]) -> list[JsonObject]:
    """Throughput against the number of ranks, for each experiment that was run with several numbers of them.

    Runs belong together that have the same experiment and as many environments per rank (weak scaling); of several with
    the same number of ranks the median counts.
    """
    groups: dict[tuple[str, Any], dict[int, list[JsonObject]]] = {}
    for run in runs:
        ranks = run["placement"]["world_size"]
        if ranks and run["throughput"] is not None:
            key = (run["experiment"], _mapping(run["config"].get("env")).get("num_envs"))
            groups.setdefault(key, {}).setdefault(ranks, []).append(run)
    sections = []
    for (experiment, num_envs), by_ranks in groups.items():
        if len(by_ranks) < 2:
            continue
        fps = {
            ranks: quantile([run["throughput"]["median_fps"] for run in group], 0.5)
            for ranks, group in by_ranks.items()
        }
        points = [{**asdict(point), "runs": [run["label"] for run in by_ranks[point.ranks]]} for point in scaling(fps)]
        num_envs = num_envs if isinstance(num_envs, int) else None
        sections.append({"experiment": experiment, "num_envs": num_envs, "points": points})
    return sections


def any_value(values: Sequence[Any]) -> bool:
    """Whether a column holds at least one figure."""
    return any(value is not None for value in values)


def verdict(runs: Sequence[JsonObject], findings: Sequence[Finding]) -> JsonObject:
    """The report's first sentence and its colour."""
    worst = next((finding.severity for finding in findings if finding.severity in ("serious", "warning")), "good")
    if worst == "good" and not all(_beats_random(run) for run in runs):
        worst = "info"
    text = _one_run(runs[0]) if len(runs) == 1 else _several_runs(runs)
    return {"status": worst, "text": text}


def not_measured(runs: Sequence[JsonObject], kernels: Sequence[JsonObject]) -> list[JsonObject]:
    """What the report cannot show, why, and how to get it; one row for each reason, naming the runs it holds for."""
    rows: dict[tuple[str, str], list[str]] = {}

    def missing(run: JsonObject, what: str, why: str) -> None:
        rows.setdefault((what, why), []).append(run["label"])

    for run in runs:
        if not run["curves"]:
            missing(run, "Learning curve, throughput", "the run wrote no log line: it ended before the first one")
        elif "mean_return" not in run["curves"]:
            missing(run, "Learning curve", "no episode ended during the run: train for more frames")
        if run["evaluation"] is None:
            missing(run, "Evaluation", "it has not run: `seed-hpc evaluate RUN_DIR`")
        elif run["evaluation"]["random"] is None:
            missing(run, "Comparison with the random policy", "the evaluation did not run it")
        if run["evaluation"] is not None and run["evaluation"]["human"] is None:
            missing(run, "Comparison with human play", "no published human score for this environment")
        if run["gif"] is None:
            missing(run, "Picture of an episode", "the evaluation recorded none")
        if run["phases"] is None:
            missing(run, "Time per phase", "the run recorded none")
        if not run["profiles"]:
            missing(run, "Profile by operator or kernel", "no profile was taken: set profile.enabled in config.yaml")
        if not has_gpu(run):
            missing(run, "GPU utilisation, power and memory", "the run had no GPU")
    table = [{"what": what, "why": why, "runs": labels} for (what, why), labels in rows.items()]
    for record in kernels:
        if record["status"] != "built":
            what = f"Library {record['backend']}" + (f" for sm_{record['arch']}" if record["backend"] == "cuda" else "")
            table.append({"what": what, "why": record["reason"], "runs": []})
    return table


def has_gpu(run: JsonObject) -> bool:
    """Whether the run's record names an accelerator."""
    hardware = run["hardware"]
    return any(bool(hardware.get(key)) for key in ("gpus", "gpu", "devices"))


def _title(runs: Sequence[JsonObject]) -> str:
    names = sorted(
        {f"{run['agent'] or run['experiment']} on {run['environment'] or 'its environment'}" for run in runs}
    )
    return "; ".join(names[:3]) + (" and more" if len(names) > 3 else "")


def _one_run(run: JsonObject) -> str:
    ended = {"finished": "trained", "interrupted": "was interrupted after training", "failed": "failed after training"}
    agent = run["agent"] or run["experiment"]
    if run["frames"] is None:
        return f"{agent} has no log line yet: nothing can be said about its training."
    text = (
        f"{agent} {ended.get(run['status'], 'has so far trained')} on {run['environment'] or 'its environment'} for "
        f"{wording.count(run['frames'])} frames in {wording.duration(run['duration_s'])}"
    )
    if run["throughput"] is not None:
        text += f", {wording.count(run['throughput']['median_fps'])} frames/s"
    return text + ". " + _evaluation_sentence(run)


def _evaluation_sentence(run: JsonObject) -> str:
    evaluation = run["evaluation"]
    if evaluation is None:
        return "It has not been evaluated."
    episodes = wording.plural(evaluation["episodes"], "evaluation episode")
    text = f"Over {episodes} it returns {wording.score(evaluation['mean'])}"
    if evaluation["ci95"] is not None:
        text += f" ({interval(evaluation['ci95'])})"
    if evaluation["random"] is None:
        return text + "; the random policy was not run."
    against = f"the random policy's {wording.score(evaluation['random']['mean'])}"
    if _beats_random(run):
        return f"{text}, clearly above {against}: it learned."
    return f"{text}, not clearly above {against}: learning is not shown."


def _several_runs(runs: Sequence[JsonObject]) -> str:
    finished = sum(run["status"] == "finished" for run in runs)
    evaluated = [run for run in runs if run["evaluation"] is not None]
    better = sum(_beats_random(run) for run in runs)
    frames = sum(run["frames"] or 0 for run in runs)
    text = f"{finished} of {len(runs)} runs finished, {wording.count(frames)} frames together. "
    if not evaluated:
        return text + "None has been evaluated."
    return (
        text
        + f"{better} of {wording.plural(len(evaluated), 'evaluated run')} returned clearly more than the random policy."
    )


def interval(bounds: Sequence[float]) -> str:
    """`95 % interval 1.0 … 3.2`."""
    return f"95 % interval {wording.score(bounds[0])} … {wording.score(bounds[1])}"


def _beats_random(run: JsonObject) -> bool:
    evaluation = run["evaluation"]
    if evaluation is None or evaluation["random"] is None:
        return False
    agent, random = evaluation["ci95"], evaluation["random"]["ci95"]
    return agent is not None and random is not None and agent[0] > random[1]


def _throughput(run: RunRecord) -> JsonObject | None:
    values = [value for value in run.column("fps") if value is not None and value > 0]
    values = values[min(len(values) - 1, max(1, round(WARM_UP_SHARE * len(values)))) :] if values else []
    if not values:
        return None
    return {
        "median_fps": quantile(values, 0.5),
        "p10_fps": quantile(values, 0.1),
        "p90_fps": quantile(values, 0.9),
        "samples": len(values),
    }


def _step_to_gradient(run: RunRecord) -> JsonObject | None:
    """Median over the log lines of the latency's median and 95 % quantile, in seconds."""
    columns = {name: run.column(f"step_to_gradient_{name}_s") for name in ("p50", "p95")}
    values = {name: [value for value in column if value is not None] for name, column in columns.items()}
    return {f"{name}_s": quantile(found, 0.5) for name, found in values.items()} if all(values.values()) else None


def _evaluation(run: RunRecord) -> JsonObject | None:
    raw = run.evaluation
    if raw is None:
        return None
    returns = [value for value in map(finite_or_none, raw.get("returns") or []) if value is not None]
    if not returns:
        run.notes.append("evaluation.json: it holds no returns, left out")
        return None
    human = raw.get("human")
    agent = _scores(returns, raw.get("ci95"))
    random = _mapping(raw.get("random"))
    random_returns = [value for value in map(finite_or_none, random.get("returns") or []) if value is not None]
    section: JsonObject = {
        "game": _text(raw.get("game")),
        "episodes": len(returns),
        **agent,
        "random": _scores(random_returns, random.get("ci95")) if random_returns else None,
        "human": finite_or_none(human.get("score") if isinstance(human, Mapping) else human),
        "human_normalised": None,
    }
    if section["random"] is not None and section["human"] is not None:
        span = section["human"] - section["random"]["mean"]
        section["human_normalised"] = (section["mean"] - section["random"]["mean"]) / span if span else None
    return section


def _scores(returns: list[float], recorded: Any) -> JsonObject:
    """Mean, interval and quantiles; the interval that the evaluation recorded counts, else one is computed."""
    bounds: list[float] | None = None
    if isinstance(recorded, Sequence) and len(recorded) == 2:
        checked = [finite_or_none(bound) for bound in recorded]
        bounds = [bound for bound in checked if bound is not None]
        bounds = bounds if len(bounds) == 2 else None
    if bounds is None:
        computed = bootstrap_mean(returns)
        bounds = [computed.low, computed.high] if computed.low is not None and computed.high is not None else None
    return {
        "mean": sum(returns) / len(returns),
        "ci95": bounds,
        "median": quantile(returns, 0.5),
        "min": min(returns),
        "max": max(returns),
        "returns": returns,
    }


def _phases(run: RunRecord) -> list[JsonObject] | None:
    """Seconds per phase, summed over the log lines that recorded them."""
    totals: dict[str, float] = {}
    for line in run.metrics:
        for name, value in _mapping(line.get("phase_seconds")).items():
            seconds = finite_or_none(value)
            if seconds is not None:
                totals[str(name)] = totals.get(str(name), 0.0) + seconds
    whole = sum(totals.values())
    if whole <= 0:
        return None
    rows = [{"name": name, "seconds": seconds, "share": seconds / whole} for name, seconds in totals.items()]
    return sorted(rows, key=lambda row: -float(str(row["seconds"])))


def _memory(run: RunRecord) -> JsonObject | None:
    """Bytes by owner over time, the largest owner first; None where the run recorded none."""
    lines = [line for line in run.metrics if _mapping(line.get("memory_bytes"))]
    if not lines:
        return None
    names = {str(name): None for line in lines for name in line["memory_bytes"]}
    owners = {name: [finite_or_none(line["memory_bytes"].get(name)) for line in lines] for name in names}
    largest = sorted(owners, key=lambda name: -max(value or 0.0 for value in owners[name]))
    return {
        "device": "GPU" if str(_mapping(run.info.get("hardware")).get("device")).startswith("cuda") else "host",
        "time_s": thin([finite_or_none(line.get("time_s")) for line in lines], CURVE_POINTS),
        "owners": [{"name": name, "bytes": thin(owners[name], CURVE_POINTS)} for name in largest if any(owners[name])],
    }


def _analysis(run: RunRecord) -> JsonObject | None:
    if run.analysis is None:
        return None
    return {key: run.analysis.get(key) for key in ANALYSIS_KEYS}


def _environment(run: RunRecord) -> str | None:
    for key in ("env.game", "env.name", "env.id"):
        if run.setting(key):
            return _text(run.setting(key))
    return _text((run.evaluation or {}).get("game"))


def _placement(run: RunRecord) -> JsonObject:
    hosts, groups = run.info.get("hosts"), run.info.get("groups")
    exchange = [_text(run.info.get(f"gradient_{key}")) for key in ("exchange", "compression")]
    exchange = [name for name in exchange if name != "none"]
    return {
        "world_size": run.info.get("world_size") if isinstance(run.info.get("world_size"), int) else None,
        "hosts": [str(host) for host in hosts] if isinstance(hosts, list) else [],
        "job_id": _text(run.info.get("job_id")),
        "launcher": _text(run.info.get("launcher")),
        "groups": [list(group) for group in groups] if isinstance(groups, list) else [],
        "exchange": " with ".join(filter(None, exchange)) or None,
    }


def _provenance(run: RunRecord) -> JsonObject:
    seed = run.setting("training.seed", run.setting("seed"))
    return {
        "commit": _text(run.info.get("commit")),
        "command": wording.command(run.info.get("command")),
        "seed": seed if isinstance(seed, int) else None,
        "started": _text(run.info.get("started")),
        "ended": _text(run.info.get("ended")),
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _mapping(value: Any) -> JsonObject:
    return dict(value) if isinstance(value, Mapping) else {}


def read_jobs(folder: Path) -> list[JsonObject]:
    """Reads the benchmark files that the pipeline's rules wrote.

    Args:
        folder: Searched in depth for *.tsv; the file's path without its ending names the job.

    Returns:
        One row a job: name, seconds, peak memory in bytes, CPU seconds; figures that the tool left out are None.
    """
    rows = []
    for path in sorted(folder.rglob("*.tsv")):
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) < 2:
            continue
        newest = dict(zip(lines[0].split("\t"), lines[-1].split("\t"), strict=False))
        peak = _float(newest.get("max_rss"))
        rows.append(
            {
                "name": str(path.relative_to(folder).with_suffix("")),
                "seconds": _float(newest.get("s")),
                "peak_memory_bytes": None if peak is None else peak * 2**20,
                "cpu_seconds": _float(newest.get("cpu_time")),
            }
        )
    return rows


def _float(text: str | None) -> float | None:
    try:
        return finite_or_none(float(text)) if text is not None else None
    except ValueError:
        return None
