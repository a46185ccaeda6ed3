# SPDX-License-Identifier: Apache-2.0
"""Reads everything that was profiled and sampled of one run and writes profile/analysis.json.

    profile/<tool>-rank<r>.json     tables (profiled_run)         samples/<host>-<n>/     samples of the run itself
    profile/traces/                 the tools' own files          profile/samples/<host>/ samples of the profiled run
    profile/ceilings.json           measured ceilings

Every part may be missing: its section is then empty or null and `notes` says why.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from seed_hpc.errors import UserError
from seed_hpc.files import write_json
from seed_hpc.profiling import analysis, findings, nsys, torch_trace
from seed_hpc.profiling.analysis import Ceilings
from seed_hpc.profiling.ceilings import from_json
from seed_hpc.profiling.nsys import Interval
from seed_hpc.profiling.sampler import Samples, read_samples
from seed_hpc.profiling.tables import Profile

ANALYSIS_FILE = "profile/analysis.json"
_GIB = 1 << 30


def analyse_run(directory: Path) -> dict[str, Any]:
    """Analyses a run and writes profile/analysis.json.

    Args:
        directory: The run directory.

    Returns:
        The document: overlap, efficiency, occupancy, roofline, energy, utilisation, timeline, findings, notes.

    Raises:
        UserError: The folder is no run directory, or nothing was profiled or sampled.
    """
    info = _read_json(directory / "run.json")
    if not isinstance(info, dict):
        raise UserError(f"{directory} is no run directory: it has no readable run.json")
    folder = directory / "profile"
    notes: list[str] = []
    profiles = _profiles(folder, notes)
    samples = _of_the_run(_samples(directory, notes), info.get("gpu_uuids"), notes)
    if not profiles and not samples:
        raise UserError(
            f"{folder} holds neither profiles nor samples: run `seed-hpc profile run` or train with samples"
        )
    evidence = findings.Evidence(subject=f"{info.get('experiment', directory.parent.name)}/{directory.name}")
    evidence.profiles = profiles
    evidence.overlaps, evidence.efficiency = _overlaps(folder, notes)
    ceilings = _ceilings(folder, profiles, notes)
    launches = [launch for profile in profiles for launch in analysis.longest_launches(profile)]
    occupancies = [row for launch in launches if (row := analysis.occupancy(launch)) is not None]
    points = []
    if ceilings is not None:
        points = [p for launch in launches if (p := analysis.roofline_point(launch, ceilings)) is not None]
    worth_saying = {name for profile in profiles for name in findings.prominent(profile)}
    evidence.occupancies = [row for row in occupancies if row.kernel in worth_saying]
    evidence.roofline = [point for point in points if point.kernel in worth_saying]
    timeline: list[dict[str, Any]] = []
    for host in sorted({str(part.info.get("host", "host")) for part in samples}):
        parts = [part for part in samples if part.info.get("host", "host") == host]
        timeline += _add_samples(evidence, host, parts)
        notes += _sampling_notes(host, parts)
    document = {
        "schema_version": 1,
        "overlap": [{**asdict(row), "hidden_share": row.hidden_share} for row in evidence.overlaps],
        "efficiency": asdict(evidence.efficiency) if evidence.efficiency else None,
        "occupancy": [asdict(row) for row in occupancies],
        "roofline": {
            "ceilings": asdict(ceilings) if ceilings else None,
            "points": [asdict(point) for point in points],
        },
        "energy": _energy(directory, samples, notes),
        "utilisation": evidence.utilisation,
        "timeline": timeline,
        "findings": [asdict(finding) for finding in findings.find(evidence)],
        "notes": notes,
    }
    write_json(directory / ANALYSIS_FILE, document)
    return document


def _profiles(folder: Path, notes: list[str]) -> list[Profile]:
    profiles = []
    for path in sorted(folder.glob("*-rank*.json")):
        document = _read_json(path)
        try:
            profiles.append(Profile.from_json(document))
        except (TypeError, KeyError, AttributeError):
            notes.append(f"{path.name} is damaged and was left out")
    if not profiles:
        notes.append("no profile was taken: `seed-hpc profile run` takes one")
    return profiles


def _samples(directory: Path, notes: list[str]) -> list[Samples]:
    """Reads the samples of the run, or, where it was not sampled, of the profiled run."""
    found = []
    pattern = "samples/*/sampler.json"
    for path in sorted(directory.glob(pattern)) or sorted((directory / "profile").glob(pattern)):
        try:
            found.append(read_samples(path.parent))
        except (UserError, OSError, ValueError) as error:
            notes.append(f"the samples of {path.parent.name} cannot be read: {error}")
    if not found:
        notes.append("the run was not sampled")
    return found


def _of_the_run(samples: list[Samples], uuids: object, notes: list[str]) -> list[Samples]:
    """Leaves out the GPUs of a node that the run does not compute on, which others may be using.

    Args:
        samples: Readings of whole nodes.
        uuids: run.json's `gpu_uuids`; a record without it, and one none of whose GPUs was read, counts all.
        notes: Takes a sentence where that is so.
    """
    if not isinstance(uuids, list):
        return samples
    devices = [device for part in samples for device in part.info.get("devices", [])]
    own = {device["uuid"] for device in devices if device["uuid"] in uuids}
    own |= {device.get("parent_uuid") for device in devices if device["uuid"] in uuids}  # of a MIG instance
    if uuids and devices and not own:
        notes.append("the GPUs of the run are not among those that were sampled: all of its nodes are counted")
        return samples
    chosen = []
    for part in samples:
        kept = [device for device in part.info.get("devices", []) if device["uuid"] in own]
        rows = part.gpu.filter(pc.is_in(part.gpu["uuid"], pa.array(sorted(own - {None}), pa.string())))
        chosen.append(replace(part, info={**part.info, "devices": kept}, gpu=rows))
    return chosen


def _overlaps(folder: Path, notes: list[str]) -> tuple[list[analysis.Overlap], analysis.Efficiency | None]:
    """Reads the kernels of every rank's trace; nsys is preferred where both tools ran."""
    rows: list[analysis.Overlap] = []
    for path in _traces(folder):
        try:
            intervals: list[Interval] = (
                nsys.read_kernel_intervals(path)
                if path.suffix == ".sqlite"
                else torch_trace.read_kernel_intervals(path)
            )
        except (UserError, OSError) as error:
            notes.append(f"{path.name}: {error}")
            continue
        rows += analysis.overlap(intervals)
    if not rows:
        notes.append("no trace holds device kernels: overlap and parallel efficiency are not known")
        return [], None
    span_s = max(row.span_ns for row in rows) / 1e9
    return rows, analysis.pop_efficiency([row.compute_ns / 1e9 for row in rows], span_s)


def _traces(folder: Path) -> list[Path]:
    traces = folder / "traces"
    return sorted(traces.glob("nsys-rank*.sqlite")) or sorted(traces.glob("torch-rank*.json.gz"))


def _ceilings(folder: Path, profiles: list[Profile], notes: list[str]) -> Ceilings | None:
    document = _read_json(folder / "ceilings.json")
    if document is not None:
        try:
            return from_json(document)
        except (KeyError, TypeError, ValueError):
            notes.append("ceilings.json is damaged and was left out")
    for profile in profiles:
        for launch in profile.launches:
            if (ceilings := analysis.peak_ceilings(launch)) is not None:
                notes.append(
                    "the roofline shows peaks, not measured ceilings: `seed-hpc profile ceilings` measures them"
                )
                return ceilings
    return None


def _add_samples(evidence: findings.Evidence, host: str, parts: list[Samples]) -> list[dict[str, Any]]:
    """Adds the samples of one node, and returns them over time; a run that was resumed has several parts."""
    parts = sorted(parts, key=lambda part: float(part.info.get("started_s") or 0.0))
    by_part = [part.host.to_pylist() for part in parts]
    timeline = analysis.timeline(host, by_part)
    host_rows = [row for rows in by_part for row in rows]
    evidence.utilisation += analysis.utilisation(host, host_rows)
    if memory := _most_memory(host_rows):
        evidence.host_memory[host] = memory
    by_part = [part.gpu.to_pylist() for part in parts]
    devices = {device["uuid"]: device for part in parts for device in part.info.get("devices", [])}
    for uuid, device in devices.items():
        own = [[row for row in rows if row["uuid"] == uuid] for rows in by_part]
        rows = [row for part in own for row in part]
        label = f"{host} GPU {device['index']}" if device.get("parent_uuid") is None else f"{host} {uuid}"
        evidence.utilisation += analysis.utilisation(label, rows)
        timeline += analysis.timeline(label, own)
        evidence.throttled.update(
            {f"{label}: {reason}": share for reason, share in analysis.throttled_shares(rows).items()}
        )
        if memory := _most_memory(rows):
            evidence.device_memory[label] = memory
        errors = [row["ecc_uncorrected"] for row in rows if row["ecc_uncorrected"] is not None]
        if errors:
            evidence.ecc_uncorrected[label] = errors[-1] - errors[0]
        if device.get("lost"):
            evidence.lost.append(uuid)
    evidence.events += [event for part in parts for event in part.info.get("events", [])]
    return timeline


def _sampling_notes(host: str, parts: list[Samples]) -> list[str]:
    """What the sampler could not read on a node, and why; each once, however often the run was resumed."""
    found = [f"{host}: {note}" for part in parts for note in part.info.get("notes", [])]
    for device in (device for part in parts for device in part.info.get("devices", [])):
        by_reason: dict[str, list[str]] = {}
        for name, reason in device.get("unsupported", {}).items():
            by_reason.setdefault(reason, []).append(name)
        found += [f"{host} GPU {device['index']}: {reason}: {', '.join(names)}" for reason, names in by_reason.items()]
    return list(dict.fromkeys(found))


def _most_memory(rows: list[dict[str, Any]]) -> tuple[float, float] | None:
    known = [
        (row["memory_used_bytes"] / _GIB, row["memory_total_bytes"] / _GIB)
        for row in rows
        if row["memory_used_bytes"] is not None and row["memory_total_bytes"] is not None
    ]
    return max(known, default=None)


def _energy(directory: Path, samples: list[Samples], notes: list[str]) -> dict[str, Any]:
    """Frames per joule of the GPUs of all sampled nodes."""
    joules, sources, begins, ends = 0.0, [], [], []
    for host in samples:
        rows = host.gpu.to_pylist()
        part = analysis.energy(rows, host.info.get("devices", []))
        sources.append(part.source)
        if part.joules is None or not rows:
            return {"joules": None, "source": part.source, "frames": None, "frames_per_joule": None}
        joules += part.joules
        begins.append(rows[0]["time_s"])
        ends.append(rows[-1]["time_s"])
    if not begins:
        return {"joules": None, "source": "the run was not sampled", "frames": None, "frames_per_joule": None}
    frames = None
    # The samples are of the run itself, or of the short run that was profiled, which has metrics of its own.
    for folder in (directory, *sorted((directory / "profile" / "run").glob("*/*"))):
        frames = analysis.frames_between(_metrics(folder), min(begins), max(ends))
        if frames is not None:
            break
    if frames is None:
        notes.append("no log line lies within the samples: frames per joule are not known")
    return {
        "joules": joules,
        "source": " and ".join(sorted(set(sources))),
        "frames": frames,
        "frames_per_joule": frames / joules if frames is not None and joules > 0 else None,
    }


def _metrics(directory: Path) -> list[dict[str, Any]]:
    """Returns the log lines with Unix time and frames, both increasing: a resumed run repeats some frames."""
    try:
        texts = (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    lines: list[dict[str, Any]] = []
    for text in texts:
        try:
            line = json.loads(text)
            frames, _ = float(line["frames"]), float(line["unix_time_s"])
        except (ValueError, KeyError, TypeError):
            continue
        while lines and lines[-1]["frames"] >= frames:
            lines.pop()
        lines.append(line)
    if lines and isinstance(time_s := lines[0].get("time_s"), int | float):
        lines.insert(0, {"unix_time_s": lines[0]["unix_time_s"] - time_s, "frames": 0})  # when the run began
    return lines


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
