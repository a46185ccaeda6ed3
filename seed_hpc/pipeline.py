# SPDX-License-Identifier: Apache-2.0
"""What the Snakemake pipeline knows: its configuration, the runs that follow from it, and how one run is trained.

Data flow: config/config.yaml -> `check_config` -> `planned_runs` -> one job each -> `train`. The workflow's files hold
rules only; everything worth a test is here.

A run's directory is named after what it computes: `seed<n>-<digest>`, the digest being that of the experiment file's
values and the overrides. A changed experiment is therefore a new run beside the old one, an unchanged one is up to
date, and nothing is ever overwritten.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

import jsonschema
import yaml

from seed_hpc.errors import RunFailedError, UserError, nearest

JsonObject = dict[str, Any]

DIGEST_LENGTH = 8


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One run that the pipeline makes.

    Attributes:
        experiment: Name of the experiment, the stem of its file.
        run_id: Name of the run inside the experiment.
        config: The experiment's file.
        overrides: Dotlist that `seed-hpc train` gets, the seed included.
        digest: Of everything that the run computes.
    """

    experiment: str
    run_id: str
    config: Path
    overrides: tuple[str, ...]
    digest: str


# ---- configuration --------------------------------------------------------------------------------------------------


def read_yaml(path: Path) -> Any:
    """Reads a YAML file.

    Raises:
        UserError: It does not exist or is no YAML.
    """
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})") from error
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where is not None else ""
        raise UserError(f"{path} is no valid YAML{line}: {getattr(error, 'problem', None) or error}") from error


def check_config(config: Mapping[str, Any], schema: Mapping[str, Any]) -> JsonObject:
    """Checks the pipeline's configuration and fills in defaults.

    Args:
        config: As config/config.yaml and `--config` give it.
        schema: workflow/schemas/config.schema.yaml.

    Returns:
        A new mapping with the schema's defaults where the user said nothing.

    Raises:
        UserError: The first fault in words: unknown key with the nearest known one, missing key, or value not allowed.
    """
    filled = _with_defaults(config, schema)
    faults = sorted(jsonschema.Draft202012Validator(schema).iter_errors(filled), key=lambda fault: list(fault.path))
    if faults:
        raise UserError(_explain(faults[0]))
    return dict(filled)


def _with_defaults(value: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping):
        filled = dict(value)
        for key, inner in schema.get("properties", {}).items():
            if key in filled:
                filled[key] = _with_defaults(filled[key], inner)
            elif "default" in inner:
                filled[key] = _with_defaults(inner["default"], inner)
        return filled
    if isinstance(value, list) and "items" in schema:
        return [_with_defaults(entry, schema["items"]) for entry in value]
    return value


def _explain(fault: jsonschema.ValidationError) -> str:
    """Turns a schema violation into one sentence that says what to type."""
    schema: Mapping[str, Any] = dict(fault.schema) if isinstance(fault.schema, Mapping) else {}
    place = _dotted(fault.absolute_path)
    prefix = f"{place}." if place else ""
    if fault.validator == "additionalProperties" and isinstance(fault.instance, Mapping):
        known = list(schema.get("properties", {}))
        unknown = next(str(key) for key in fault.instance if key not in known)
        return f"unknown key '{prefix}{unknown}'{nearest(unknown, known)}; known here: {', '.join(known)}"
    if fault.validator == "required" and isinstance(fault.instance, Mapping):
        missing = next(key for key in schema["required"] if key not in fault.instance)
        return f"{prefix}{missing} is missing: {schema['properties'][missing].get('description', 'give a value')}"
    if fault.validator == "enum":
        allowed = [str(value) for value in schema["enum"]]
        hint = nearest(str(fault.instance), allowed)
        return f"{place}={fault.instance} is not allowed{hint}: choose {', '.join(allowed)}"
    return f"{place}={fault.instance!r} is not allowed ({fault.message}): {schema.get('description', 'see the schema')}"


def _dotted(path: Sequence[str | int]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


# ---- runs -----------------------------------------------------------------------------------------------------------


def planned_runs(config: Mapping[str, Any], root: Path) -> list[PlannedRun]:
    """Returns the runs that a checked configuration asks for, in its order.

    Args:
        config: From `check_config`.
        root: Folder in which config/experiments lies.

    Raises:
        UserError: An experiment does not exist, is no mapping, or two runs are one and the same.
    """
    folder = root / "config" / "experiments"
    runs: list[PlannedRun] = []
    for entry in config["experiments"]:
        name = str(entry["name"])
        path = folder / f"{name}.yaml"
        known = sorted(file.stem for file in folder.glob("*.yaml"))
        if name not in known:
            choices = ", ".join(known) or "none"
            raise UserError(f"experiments: there is no {path}{nearest(name, known)}; known experiments: {choices}")
        values = read_yaml(path)
        if not isinstance(values, dict):
            raise UserError(f"{path} holds no mapping: write sections such as env, agent and training")
        if values.get("name", name) != name:
            raise UserError(f"{path} names itself '{values['name']}': take the line `name:` out, or rename the file")
        for seed in entry["seeds"]:
            runs.append(_planned_run(name, path.relative_to(root), values, entry, int(seed)))
    names = [f"{run.experiment}/{run.run_id}" for run in runs]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"experiments: {name} is asked for twice: change a seed or an override")
    return runs


def _planned_run(name: str, path: Path, values: Mapping[str, Any], entry: Mapping[str, Any], seed: int) -> PlannedRun:
    overrides = tuple(str(item) for item in entry["overrides"])
    text = json.dumps([values, overrides], sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()
    run_id = f"{entry['run_id'] or 'seed'}{'-' if entry['run_id'] else ''}{seed}"
    if not entry["run_id"]:
        run_id += f"-{digest[:DIGEST_LENGTH]}"
    return PlannedRun(
        experiment=name,
        run_id=run_id,
        config=path,
        overrides=(*overrides, f"training.seed={seed}"),
        digest=digest,
    )


def check_experiments(runs: Sequence[PlannedRun], root: Path) -> None:
    """Builds every run's experiment, so that a wrong key or value is known before the first job starts.

    Raises:
        UserError: As `seed_hpc.config.load_experiment`.
    """
    from seed_hpc.config import load_experiment

    for run in runs:
        load_experiment(str(root / run.config), run.overrides)


def profile_frames(run: PlannedRun, root: Path, window: str) -> int:
    """Returns the length of the profiled run: until the window of iterations has passed, and two more; needs no torch.

    Args:
        run: The run that is profiled.
        root: Folder in which config/experiments lies.
        window: "FIRST:COUNT", iterations of the training loop from 0.
    """
    from seed_hpc.config import load_section

    env, training = (load_section(str(root / run.config), run.overrides, name) for name in ("env", "training"))
    frames_per_iteration = env.num_envs * env.frameskip * training.unroll_length
    return int((sum(map(int, window.split(":"))) + 2) * frames_per_iteration)


# ---- one training job -----------------------------------------------------------------------------------------------


def train(run: PlannedRun, results: Path, log: Path, *, launcher: str = "", python: str = sys.executable) -> JsonObject:
    """Starts a run, or resumes it where it stopped; the job of rule train_agent.

    Args:
        run: What to train.
        results: The results folder.
        log: Gets the output of `seed-hpc train`, appended: a resumed run keeps its history.
        launcher: Put before the command, for example `srun --mpi=none -N 2 -n 4`; empty for one process.
        python: Interpreter that has seed_hpc.

    Returns:
        The record that the pipeline keeps of the finished run.

    Raises:
        UserError: Another process trains this run, or its directory was made with another configuration.
        RunFailedError: The training failed, or stopped early and will resume when it is started again.
    """
    directory = results / run.experiment / run.run_id
    with _only_one(results / run.experiment, run.run_id):
        _remove_if_empty(directory)
        info = _read_info(directory)
        if info is not None:
            _refuse_other_config(run, directory)
        if info is None or info.get("status") != "finished":
            code = run_logged(training_command(run, results, launcher, python), log)
            info = _read_info(directory)
            _refuse_unfinished(info, code, directory, log)
        assert info is not None
    return {
        "experiment": run.experiment,
        "run_id": run.run_id,
        "status": info["status"],
        "frames": info.get("frames"),
        "train_seconds": info.get("train_seconds"),
        "commit": info.get("commit"),
        "digest": run.digest,
    }


def training_command(run: PlannedRun, results: Path, launcher: str, python: str) -> list[str]:
    """Returns the command line of a run; an existing run of that name is resumed."""
    command = [*shlex.split(launcher), python, "-m", "seed_hpc.cli", "train", "--config", str(run.config)]
    command += ["--results", str(results), "--run-id", run.run_id, "--or-resume"]
    return [*command, *run.overrides]


def run_logged(command: Sequence[str], log: Path) -> int:
    """Runs a command; its output goes to this terminal and, appended, to a file.

    Ctrl-C reaches the command from the terminal, other signals are passed on; either way the command may end in its
    own time, because it writes a checkpoint first.

    Returns:
        The command's exit code.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        with _passing_signals(process):
            assert process.stdout is not None
            for line in process.stdout:
                file.write(line)
                file.flush()
                _echo(line, sys.stderr)
            return process.wait()


def _echo(line: str, stream: TextIO) -> None:
    """Prints a line; a terminal that has gone does not end the training."""
    try:
        stream.write(line)
        stream.flush()
    except OSError:
        pass


@contextmanager
def _passing_signals(process: subprocess.Popen[str]) -> Iterator[None]:
    def pass_on(number: int, _frame: FrameType | None) -> None:
        if process.poll() is None:
            process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGUSR1)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _only_one(folder: Path, run_id: str) -> Iterator[None]:
    """Holds a lock, so that a job that survived its workflow and a new one never write the same run."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / f".{run_id}.lock").open("w", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror}): set `results` in config.yaml") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(
                f"another process is training {folder / run_id}: wait for it, or end it, then start the pipeline again"
            ) from error
        yield


def _remove_if_empty(directory: Path) -> None:
    """Removes the folder that a workflow manager makes for its output: `seed-hpc train` makes the run directory."""
    if directory.is_dir() and not any(directory.iterdir()):
        directory.rmdir()


def _read_info(directory: Path) -> JsonObject | None:
    path = directory / "run.json"
    if not path.is_file():
        return None
    try:
        info = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: move {directory} away and start again") from error
    return dict(info)


def _refuse_other_config(run: PlannedRun, directory: Path) -> None:
    """Refuses to go on with a run whose directory was made with other settings (a run_id chosen by hand)."""
    from seed_hpc import config

    saved = directory / "config.yaml"
    if find_spec("torch"):
        wanted = _flat(config.load_experiment(str(run.config), run.overrides).to_dict())
        found = _flat(config.load_resolved(saved).to_dict())
    else:  # A host whose jobs run in an image may lack torch, which the agents' options import: no defaults are known.
        wanted = _flat(config.stated_values(str(run.config), run.overrides))
        found = {key: value for key, value in _flat(config.stated_values(str(saved))).items() if key in wanted}
    different = sorted(key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key))
    if different:
        key = different[0]
        raise UserError(
            f"{directory} was made with another configuration ({key} was {found.get(key)}, is {wanted.get(key)} now); "
            "it is never overwritten: choose another run_id in config.yaml, or move the folder away"
        )


def _flat(values: Mapping[str, Any], prefix: str = "") -> JsonObject:
    flat: JsonObject = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _refuse_unfinished(info: JsonObject | None, code: int, directory: Path, log: Path) -> None:
    status = None if info is None else info.get("status")
    if code == 0 and status == "finished":
        return
    if status == "interrupted":
        reached = f" at {info['frames']:,.0f} frames" if info and isinstance(info.get("frames"), int | float) else ""
        raise RunFailedError(f"{directory} was interrupted{reached}: run snakemake again, it resumes there")
    raise RunFailedError(f"training {directory} ended with exit code {code} and status {status}: see {log}")
