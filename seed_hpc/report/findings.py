# SPDX-License-Identifier: Apache-2.0
"""Rules that read a run's figures and say in plain words what they mean and what to do.

A rule is a function from the run's section of the report (see schema.json, `run`) to a finding or None. It says nothing
where the figure it needs was not measured: that is listed under `not_measured` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from seed_hpc.report import statistics, wording
from seed_hpc.report.statistics import quantile

Severity = Literal["good", "info", "warning", "serious"]
SEVERITIES: tuple[Severity, ...] = ("serious", "warning", "info", "good")

# Thresholds of the rules, one place for all. Shares are of the loop's time.
DOMINANT_SHARE = 0.60  # One phase takes so much of a sequential loop that only it is worth speeding up.
DECAY_RATIO = 0.85  # Throughput of the last quarter against the second one.
SPREAD_RATIO = 0.30  # (p90 - p10) / median of the throughput.
LAG_UPDATES = 8.0  # Mean policy lag in updates; V-trace corrects a few, not many (Espeholt et al. 2018, section 4).
ENTROPY_SHARE = 0.05  # Entropy at the end against its start.
RISE_SHARE = 0.10  # Return still gained in the last fifth, as a share of the whole gain.
GPU_IDLE_PERCENT = 50.0
MIN_EPISODES = 30  # Episodes of an evaluation below which its interval says little.
MIN_OCCUPANCY = 0.50


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One sentence about one run (or the machine), with what to do about it."""

    rule: str
    severity: Severity
    subject: str
    text: str
    advice: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The finding as the report's JSON holds it."""
        return asdict(self)


Rule = Callable[[dict[str, Any]], Finding | None]


def run_findings(run: dict[str, Any]) -> list[Finding]:
    """Applies every rule to one run, the worst first."""
    found = [finding for rule in RULES if (finding := rule(run)) is not None]
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def not_finished(run: dict[str, Any]) -> Finding | None:
    """A run that did not reach its end."""
    texts = {
        "interrupted": ("warning", "was interrupted before its end", "start it again: it resumes from its checkpoint"),
        "running": (
            "warning",
            "has not ended: it is still running, or it was killed",
            "wait for it, or start it again: it resumes from its checkpoint",
        ),
        "failed": ("serious", "failed", "read its log, then start it again: it resumes from its checkpoint"),
    }
    if run["status"] not in texts:
        return None
    severity, text, advice = texts[run["status"]]
    reached = f" at {wording.count(run['frames'])} frames" if run["frames"] is not None else ""
    return _finding("not_finished", severity, run, f"The run {text}{reached}.", advice)


def beats_random(run: dict[str, Any]) -> Finding | None:
    """Evaluation against the random policy: 95 % intervals apart or not."""
    evaluation = run["evaluation"]
    if evaluation is None or evaluation["random"] is None:
        return None
    agent, random = evaluation["ci95"], evaluation["random"]["ci95"]
    if agent is None or random is None:
        return None
    means = f"{wording.score(evaluation['mean'])} against {wording.score(evaluation['random']['mean'])}"
    if agent[0] > random[1]:
        return _finding(
            "beats_random", "good", run, f"The agent beats the random policy: {means}, 95 % intervals apart."
        )
    if agent[1] < random[0]:
        return _finding(
            "beats_random",
            "serious",
            run,
            f"The agent is worse than the random policy: {means}, 95 % intervals apart.",
            "look at entropy and loss for a collapse, then lower optimizer.learning_rate",
        )
    return _finding(
        "beats_random",
        "warning",
        run,
        f"The agent cannot be told from the random policy: {means}, 95 % intervals overlap.",
        "train for more frames (training.total_frames) or evaluate more episodes (evaluation.episodes)",
    )


def above_human(run: dict[str, Any]) -> Finding | None:
    """Evaluation against the published human score."""
    evaluation = run["evaluation"]
    if evaluation is None or evaluation["human"] is None or evaluation["ci95"] is None:
        return None
    if evaluation["ci95"][0] <= evaluation["human"]:
        return None
    text = f"The agent scores above the published human score of {wording.score(evaluation['human'])}."
    return _finding("above_human", "good", run, text)


def few_episodes(run: dict[str, Any]) -> Finding | None:
    """An evaluation too short to trust."""
    evaluation = run["evaluation"]
    if evaluation is None or evaluation["episodes"] >= MIN_EPISODES:
        return None
    text = f"The evaluation has only {wording.plural(evaluation['episodes'], 'episode')}; its interval says little."
    return _finding("few_episodes", "info", run, text, f"set evaluation.episodes to {MIN_EPISODES} or more")


def dominant_phase(run: dict[str, Any]) -> Finding | None:
    """One phase takes most of the loop."""
    advice = {
        "environment": "more env.num_threads, or device cuda",
        "inference": "more environments a batch (env.num_envs), or a smaller network",
        "actor": "more environments a batch (env.num_envs), or a smaller network",
        "learner": "a smaller network, bf16, or fewer updates a frame",
        "replay": "a larger prefetch, or a smaller training.batch_size",
        "exchange": "larger batches a rank, or another exchange algorithm (`seed-hpc topology`)",
    }
    for name, share in _shares(run).items():
        if share >= DOMINANT_SHARE and name in advice:
            text = f"The phase “{name}” takes {wording.percent(share)} of the loop; only it is worth speeding up."
            return _finding("dominant_phase", "info", run, text, advice[name])
    return None


def throughput_decays(run: dict[str, Any]) -> Finding | None:
    """Frames/s falls while the run goes on."""
    fps = _series(run, "fps")
    if len(fps) < 12:
        return None
    quarter = len(fps) // 4
    early, late = quantile(fps[quarter : 2 * quarter], 0.5), quantile(fps[-quarter:], 0.5)
    if early <= 0 or late / early >= DECAY_RATIO:
        return None
    text = f"Throughput fell from {wording.count(early)} to {wording.count(late)} frames/s during the run."
    return _finding("throughput_decays", "warning", run, text, "look for thermal throttling, swapping or other jobs")


def throughput_unsteady(run: dict[str, Any]) -> Finding | None:
    """Frames/s varies a lot."""
    throughput = run["throughput"]
    if throughput is None or throughput["samples"] < 8:
        return None
    spread = (throughput["p90_fps"] - throughput["p10_fps"]) / throughput["median_fps"]
    if spread <= SPREAD_RATIO:
        return None
    text = (
        f"Throughput is unsteady: 80 % of the log lines lie between {wording.count(throughput['p10_fps'])} and "
        f"{wording.count(throughput['p90_fps'])} frames/s."
    )
    return _finding("throughput_unsteady", "info", run, text, "compare runs only on a machine of their own")


def policy_lag(run: dict[str, Any]) -> Finding | None:
    """Actors act with old weights."""
    lag = _series(run, "policy_lag")
    if not lag or (mean := sum(lag) / len(lag)) <= LAG_UPDATES:
        return None
    text = f"Actors act with weights that are {wording.number(mean, 3)} updates old on average."
    return _finding("policy_lag", "warning", run, text, "publish weights more often or shorten agent.unroll_length")


def entropy_collapse(run: dict[str, Any]) -> Finding | None:
    """The policy stopped exploring without a gain."""
    entropy = _series(run, "entropy")
    if len(entropy) < 8:
        return None
    start, end = quantile(entropy[:3], 0.5), quantile(entropy[-3:], 0.5)
    if start <= 0 or end / start >= ENTROPY_SHARE or _gain(run) > 0:
        return None
    text = f"The policy's entropy fell to {wording.percent(end / start)} of its start and the return did not rise."
    return _finding("entropy_collapse", "serious", run, text, "raise agent.entropy_cost or lower the learning rate")


def still_learning(run: dict[str, Any]) -> Finding | None:
    """The return still rises at the end."""
    returns = _series(run, "mean_return")
    gain = _gain(run)
    if run["status"] != "finished" or len(returns) < 20 or gain <= 0:
        return None
    fifth = len(returns) // 5
    late = quantile(returns[-max(1, fifth // 2) :], 0.5) - quantile(returns[-2 * fifth : -fifth], 0.5)
    if late / gain < RISE_SHARE:
        return None
    text = "The return was still rising when the run ended."
    return _finding("still_learning", "info", run, text, "raise training.total_frames to see where it levels off")


def gpu_idle(run: dict[str, Any]) -> Finding | None:
    """The GPU has little to do."""
    utilisation = _gpu_utilisation(run)
    if utilisation is None or utilisation >= GPU_IDLE_PERCENT:
        return None
    text = f"The GPU is busy only {utilisation:.0f} % of the time (median)."
    return _finding("gpu_idle", "warning", run, text, "raise env.num_envs until frames/s stops rising")


def uncommitted_changes(run: dict[str, Any]) -> Finding | None:
    """The run cannot be traced to a commit."""
    commit = run["provenance"]["commit"]
    if commit is None:
        return _finding("uncommitted_changes", "info", run, "The run's commit is not known: it ran outside a checkout.")
    if not commit.endswith("dirty"):
        return None
    text = "The run's sources had changes that no commit holds."
    return _finding("uncommitted_changes", "info", run, text, "commit before a run whose figures you want to publish")


def kernel_findings(kernels: Sequence[dict[str, Any]]) -> list[Finding]:
    """Spills and low theoretical occupancy of the compiled kernels."""
    found = []
    for library in kernels:
        for kernel in library["kernels"]:
            name = f"{kernel['name']} (sm_{library['arch']})"
            if kernel["spill_bytes"]:
                text = f"{name} spills {kernel['spill_bytes']} bytes of registers to memory."
                found.append(Finding(rule="kernel_spills", severity="warning", subject="kernels", text=text))
            if kernel["occupancy"] is not None and kernel["occupancy"] < MIN_OCCUPANCY:
                share = wording.percent(kernel["occupancy"])
                text = f"{name} reaches {share} occupancy, limited by {kernel['limited_by']}."
                found.append(Finding(rule="kernel_occupancy", severity="info", subject="kernels", text=text))
    return found


def analysis_findings(label: str, analysis: Mapping[str, Any] | None) -> list[Finding]:
    """What the rules of seed_hpc.profiling found in the run's profile and samples."""
    found = []
    for entry in (analysis or {}).get("findings", []):
        if isinstance(entry, Mapping) and entry.get("severity") in SEVERITIES:
            texts = {key: str(entry.get(key)) for key in ("rule", "text")}
            advice = entry.get("advice")
            severity: Severity = entry["severity"]
            found.append(Finding(severity=severity, subject=label, advice=advice and str(advice), **texts))
    return found


RULES: tuple[Rule, ...] = (
    not_finished,
    beats_random,
    above_human,
    few_episodes,
    dominant_phase,
    throughput_decays,
    throughput_unsteady,
    policy_lag,
    entropy_collapse,
    still_learning,
    gpu_idle,
    uncommitted_changes,
)


def _finding(rule: str, severity: Any, run: dict[str, Any], text: str, advice: str | None = None) -> Finding:
    return Finding(rule=rule, severity=severity, subject=run["label"], text=text, advice=advice)


def _series(run: dict[str, Any], name: str) -> list[float]:
    return [value for value in run["curves"].get(name, []) if value is not None]


def _shares(run: dict[str, Any]) -> dict[str, float]:
    return {phase["name"]: phase["share"] for phase in run["phases"] or []}


def _gain(run: dict[str, Any]) -> float:
    returns = _series(run, "mean_return")
    if len(returns) < 6:
        return 0.0
    tenth = max(1, len(returns) // 10)
    return statistics.quantile(returns[-tenth:], 0.5) - statistics.quantile(returns[:tenth], 0.5)


def _gpu_utilisation(run: dict[str, Any]) -> float | None:
    busy = [float(row["median"]) for row in run["utilisation"] if row["metric"] == "gpu_utilisation"]
    return sum(busy) / len(busy) if busy else None
