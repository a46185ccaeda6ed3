# SPDX-License-Identifier: Apache-2.0
"""Writes small run directories with figures that a formula makes, for tests of the report and the pipeline."""

import json
import math
from pathlib import Path

import numpy as np
import yaml
from PIL import Image


def write_run(
    folder: Path,
    *,
    run_id: str = "seed1",
    experiment: str = "pong_vtrace",
    status: str = "finished",
    lines: int = 60,
    fps: float = 4000.0,
    noise: float = 0.03,
    seed: int = 1,
    final_return: float = -4.0,
    phases: bool = True,
    memory: bool = True,
    evaluation: bool = True,
    gif: bool = True,
    ranks: int = 1,
) -> Path:
    """Returns the run directory `folder/<experiment>/<run_id>`: a Pong curve from -20.7 towards `final_return`."""
    rng = np.random.default_rng(seed)
    directory = folder / experiment / run_id
    directory.mkdir(parents=True)
    with (directory / "metrics.jsonl").open("w") as file:
        frames = 0.0
        for index in range(lines):
            rate = fps * (0.5 if index == 0 else 1 + noise * rng.standard_normal())
            frames += 10 * rate
            progress = 1 / (1 + math.exp(-10 * (index / lines - 0.5)))
            line = {
                "time_s": 10.0 * (index + 1),
                "frames": int(frames),
                "agent_steps": int(frames / 4),
                "updates": 20 * (index + 1),
                "fps": rate,
                "mean_return": None
                if index < 2
                else -20.7 + (final_return + 20.7) * progress + 0.3 * rng.standard_normal(),
                "episodes": 3 * index,
                "entropy": 1.79 - 1.1 * progress,
                "policy_lag": 1.0 + 0.2 * rng.random(),
                "step_to_gradient_p50_s": 0.4,
                "step_to_gradient_p95_s": 0.7,
                "loss": 2.0 * math.exp(-3 * index / lines) + 0.05 * rng.standard_normal(),
                "learning_rate": 6e-4 * (1 - index / lines),
            }
            if memory:
                used = {"rollouts": 2 * 10**8, "environments": 10**8 + 10**6 * index, "reserve of torch": 0}
                line["memory_bytes"] = used
            if phases:
                line["phase_seconds"] = {"environment": 4.1, "inference": 2.2, "learner": 3.4, "logging": 0.1}
            file.write(json.dumps(line) + "\n")
    config = {
        "env": {"game": "pong", "num_envs": 64, "num_threads": 2},
        "agent": {"name": "vtrace", "unroll_length": 20, "discount": 0.99},
        "training": {"total_frames": 2_400_000, "seed": seed},
    }
    (directory / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    info = {
        "run_id": run_id,
        "experiment": experiment,
        "command": ["cli.py", "train", "--config", f"config/experiments/{experiment}.yaml", "--run-id", run_id],
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "versions": {"python": "3.11.2", "torch": "2.13.0+cpu", "ale-py": "0.12.1", "numpy": "2.4.6"},
        "hardware": {"cpu": "Example CPU @ 2.5 GHz", "cores": 2, "memory_bytes": 25_769_803_776, "gpus": []},
        "world_size": ranks,
        "hosts": ["node1"],
        "started": "2026-01-02T03:04:05+00:00",
        "ended": "2026-01-02T03:14:05+00:00" if status == "finished" else None,
        "status": status,
    }
    (directory / "run.json").write_text(json.dumps(info))
    if evaluation:
        write_evaluation(directory, mean=final_return, seed=seed)
    if gif:
        write_gif(directory / "episode.gif")
    return directory


def write_evaluation(directory: Path, mean: float, seed: int = 1, episodes: int = 30) -> None:
    """Adds evaluation.json with returns around `mean`."""
    rng = np.random.default_rng(seed)
    agent = np.clip(np.rint(mean + 3 * rng.standard_normal(episodes)), -21, 21).tolist()
    random = np.clip(np.rint(-20.3 + 0.7 * rng.standard_normal(30)), -21, -18).tolist()
    half = 1.96 * float(np.std(agent)) / math.sqrt(episodes)
    scores = {
        "game": "pong",
        "episodes": episodes,
        "returns": agent,
        "mean": float(np.mean(agent)),
        "ci95": [float(np.mean(agent)) - half, float(np.mean(agent)) + half],
        "random": {"returns": random, "mean": float(np.mean(random)), "ci95": [-20.6, -20.0]},
        "human": 14.6,
    }
    (directory / "evaluation.json").write_text(json.dumps(scores))


def write_profile(directory: Path) -> None:
    """Adds the tables of a profile and profile/analysis.json, a row in each of their parts."""
    times = {"count": 25, "total_ns": 5_000_000, "share_pct": 80.0}
    profile = {"tool": "torch", "version": "2.13.0", "source": "torch-rank0.json.gz", "devices": []}
    tables = {"kernels": [], "ranges": [{"name": "learner", **times}], "memory": [], "launches": []}
    profile |= {**tables, "api": [{"name": "aten::convolution", **times}], "notes": ["no device kernels"]}
    times_ns = {"span_ns": 10_000, "compute_ns": 7_000, "communication_ns": 2_000, "overlapped_ns": 1_500}
    analysis = {
        "schema_version": 1,
        "overlap": [{"device": 0, **times_ns, "idle_ns": 2_500, "hidden_share": 0.75}],
        "efficiency": {"ranks": 2, "load_balance": 0.9, "communication": 0.9, "parallel": 0.81},
        "occupancy": [
            {"kernel": "step", "theoretical_pct": 50.0, "achieved_pct": 41.0, "limited_by": ["registers"], "waves": 3.0}
        ],
        "roofline": {
            "ceilings": {"flops": 6e13, "bytes_per_s": 4e12, "measured": False},
            "points": [
                {
                    "kernel": "step",
                    "intensity": 2.0,
                    "flops": 5e12,
                    "bytes_per_s": 2.5e12,
                    "bound": "memory",
                    "share": 0.6,
                }
            ],
        },
        "energy": {"joules": 1e4, "source": "energy counter", "frames": 2e6, "frames_per_joule": 200.0},
        "utilisation": [
            {"device": "node1", "metric": "cpu_utilisation", "unit": "%", "median": 93.0, "p90": 99.0, "max": 100.0}
        ],
        "timeline": [
            {"device": "node1", "metric": "cpu_utilisation", "unit": "%", "time_s": [1.0, 3.0], "values": [91.0, None]},
            {"device": "node1 GPU 0", "metric": "power", "unit": "W", "time_s": [1.0, 3.0], "values": [310.0, 295.0]},
        ],
        "findings": [
            {
                "rule": "idle_device",
                "severity": "warning",
                "subject": "-",
                "text": "Device 0 idles.",
                "advice": "feed it",
            }
        ],
        "notes": ["peaks, not measured ceilings"],
    }
    (directory / "profile").mkdir(exist_ok=True)
    (directory / "profile" / "torch-rank0.json").write_text(json.dumps(profile))
    (directory / "profile" / "analysis.json").write_text(json.dumps(analysis))


def write_architectures(path: Path, seeds: int = 5) -> Path:
    """Writes architectures.json: the closed loop at 3,000 frames/s, IMPALA at 1,500, central inference at 1,000."""
    speeds = {"closed_loop": 3000.0, "impala": 1500.0, "central_inference": 1000.0}
    sent = {"closed_loop": (0.0, None), "impala": (4279.0, 0.5), "central_inference": (1725.0, 0.0)}
    runs = []
    for seed in range(1, seeds + 1):
        for name, speed in speeds.items():
            rate = speed * (1 + 0.02 * seed)
            times = [1.2 * (point + 1) + 0.01 * seed for point in range(50)]
            runs.append(
                {
                    "architecture": name,
                    "seed": seed,
                    "frames_per_s": rate,
                    "updates_per_s": rate / 640,
                    "bytes_per_frame": sent[name][0],
                    "parameter_share": sent[name][1],
                    "latency_p50_s": 600 / rate,
                    "latency_p95_s": 900 / rate,
                    "actor_idle": 0.25,
                    "learner_idle": 0.4,
                    "policy_lag": 1.5,
                    "curve": [[t, int(rate * t), None if t < 3 else 1 + 1e-5 * rate * t + 0.05 * seed] for t in times],
                }
            )
    document = {
        "schema_version": 1,
        "command": ["cli.py", "bench", "architectures", "training.num_threads=1"],
        "commit": "0123456789ab",
        "hardware": {"cpu": "Example CPU @ 2.5 GHz", "cpu_count": 2, "gpus": []},
        "experiment": {"name": "breakout_vtrace_demo", "env": {"game": "breakout", "num_envs": 32}},
        "num_actors": 2,
        "seconds": 60.0,
        "runs": runs,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def write_gif(path: Path) -> None:
    """A ball that crosses a 160 x 210 field."""
    pictures = []
    for step in range(8):
        field = np.full((210, 160, 3), (144, 72, 17), dtype=np.uint8)
        field[100:104, 20 + 15 * step : 22 + 15 * step] = 236
        field[80:96, 16:20] = (213, 130, 74)
        field[90:106, 140:144] = (92, 186, 92)
        pictures.append(Image.fromarray(field))
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=60, loop=0)
