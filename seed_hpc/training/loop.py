# SPDX-License-Identifier: Apache-2.0
"""The closed loop: the actor fills a rollout, the learner updates on it and publishes its parameters, and again.

    envs --obs--> actor (acting copy of the network) --rollout--> learner --parameters--> actor

`ClosedLoop.run` is the loop; the rest of this file puts the parts together and keeps the run's files.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections import deque
from pathlib import Path
from typing import Any

import torch

from seed_hpc.agents.rollout import Rollout
from seed_hpc.config import Experiment
from seed_hpc.distributed.peers import Peers
from seed_hpc.errors import RunFailedError, UserError
from seed_hpc.profiling import ranges
from seed_hpc.profiling.sampler import sample_run
from seed_hpc.training.actor import Actor
from seed_hpc.training.checkpoint import CheckpointStore, load_checkpoint, rank_file
from seed_hpc.training.convergence import ConvergenceDetector
from seed_hpc.training.environments import Environments, make_agent, make_environments
from seed_hpc.training.learner import Learner, NonFiniteError
from seed_hpc.training.memory_use import memory_by_owner
from seed_hpc.training.metrics import MetricsWriter
from seed_hpc.training.optimizers import learning_rate
from seed_hpc.training.precision import Precision
from seed_hpc.training.run_directory import RunDirectory
from seed_hpc.training.signals import StopRequest
from seed_hpc.training.statistics import Statistics

logger = logging.getLogger(__name__)


def choose_device(name: str) -> torch.device:
    """Returns the device of `training.device`.

    Raises:
        UserError: It is no device, or CUDA is not available.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"training.device={name} is not a device: choose auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"training.device={name}, but torch {torch.__version__} sees no CUDA device: choose cpu")
    return torch.empty(0, device=device).device  # "cuda" becomes "cuda:0", as tensors call it


class ClosedLoop:
    """Actor and learner of one process.

    Args:
        experiment: What to run.
        envs: Its environments; None makes those of the experiment.
        peers: The run's processes; None for one alone.
    """

    def __init__(self, experiment: Experiment, envs: Environments | None = None, peers: Peers | None = None) -> None:
        self.peers = peers or Peers()
        options = experiment.training
        self.experiment, self.options = experiment, options
        self.device = device = choose_device(options.device)
        if device.type == "cpu" and options.num_threads:
            torch.set_num_threads(options.num_threads)
        precision = Precision(options.precision, device)
        torch.manual_seed(options.seed)  # initial parameters
        self.envs = envs or make_environments(experiment.env, num_envs=experiment.env.num_envs, device=device)
        self.agent = make_agent(experiment, self.envs, device)
        self.agent.prepare()
        network = self.agent.build_network()
        self.rollouts_ahead = options.rollouts_ahead
        if self.rollouts_ahead < 0:
            self.rollouts_ahead = 1 if device.type == "cuda" else 0
        self.actor = Actor(
            self.envs,
            self.agent,
            network,
            unroll_length=options.unroll_length,
            seed=options.seed + self.peers.rank * self.envs.num_envs,  # environment i of all takes seed + i
            clip_rewards=experiment.env.reward_clipping,
            num_buffers=self.rollouts_ahead + 1,
            precision=precision,
            use_cuda_graph=options.cuda_graph,
            device=device,
        )
        self.learner = Learner(
            self.agent,
            network,
            experiment.optimizer,
            seed=options.seed,
            precision=precision,
            wrap=self.peers.wrap,
            compile_network=experiment.model.compile,
            device=device,
        )
        self.statistics = Statistics(experiment.env.frameskip, self.peers.world_size)
        self.pending: deque[Rollout] = deque()  # filled by the actor, not yet used by the learner
        self.seconds = 0.0  # of training, over all processes that resumed one another
        self.convergence = ConvergenceDetector()
        self.timer = ranges.PhaseTimer()

    def run(self, directory: RunDirectory, stop: StopRequest) -> str:
        """Trains until the frames are spent or a signal comes.

        Args:
            directory: Gets log lines and checkpoints.
            stop: Asked once per iteration.

        Returns:
            The run's status: "finished" or "interrupted".

        Raises:
            RunFailedError: A loss was not finite, or the disk is full.
        """
        with _Recorder(self, directory) as recorder:
            while True:
                # All processes do the same at the same update, whichever of them got a signal or looked at its clock.
                finished, stopped, log_due, checkpoint_due = self.peers.any_rank(
                    self.is_finished(), stop.requested, *recorder.due()
                )
                if finished:
                    break
                if log_due:
                    recorder.log()
                if checkpoint_due or stopped:
                    recorder.checkpoint()
                if stopped:
                    return "interrupted"
                while len(self.pending) <= self.rollouts_ahead:
                    self.pending.append(self.actor.unroll())
                self.learn_from(self.pending.popleft())
            recorder.record_end()
        return "finished"

    def is_finished(self) -> bool:
        """Whether frames or seconds are spent, or the run has converged and is to end then."""
        options = self.options
        spent = self.statistics.frames >= options.total_frames or 0 < options.max_seconds <= self.seconds
        return spent or (self.convergence.converged and options.stop_when_converged)

    def learn_from(self, rollout: Rollout) -> None:
        """Updates on a rollout and counts it."""
        frames, total = self.statistics.frames, self.options.total_frames
        with self.actor.stream.use():  # what it changes is read there, by the unrolls that follow
            self.agent.set_progress(min(1.0, frames / total))
        self.learning_rate = learning_rate(self.experiment.optimizer, frames, total)
        self.learner.update(rollout, self.actor, self.learning_rate)
        self.actor.synchronize(rollout)
        self.statistics.add(rollout)
        ranges.step()

    def check(self) -> None:
        """On CUDA, where work is only launched, waits for it and raises what went wrong in it."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            self.learner.check_finite()
            if hasattr(self.envs, "synchronize"):
                self.envs.synchronize()

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that the next iteration depends on."""
        while self.pending:  # what is under way is learned from, not lost
            self.learn_from(self.pending.popleft())
        self.check()
        return {
            "learner": self.learner.state_dict(),
            "actor": self.actor.state_dict(),
            "experience": self.agent.experience_state_dict(),
            "statistics": self.statistics.state_dict(),
            "seconds": self.seconds,
            "convergence": self.convergence.state_dict(),
            "world_size": self.peers.world_size,
        }

    def load_checkpoint(self, path: Path) -> None:
        """Continues from a checkpoint; with another number of processes each begins new episodes.

        Raises:
            UserError: It cannot be read, or is of a network, an optimizer or environments of other sizes.
        """
        state = load_checkpoint(path)
        if state.get("world_size", 1) != self.peers.world_size:
            logger.info(
                "the checkpoint is of %d processes, this run has %d: every environment begins a new episode, "
                "and a replay is filled anew",
                state.get("world_size", 1),
                self.peers.world_size,
            )
            del state["actor"]
            state.pop("experience", None)
        elif not self.peers.is_main:
            state.update(load_checkpoint(rank_file(path, self.peers.rank)))
        try:
            self.load_state_dict(state)
        except (RuntimeError, ValueError, LookupError) as error:
            reason = str(error).splitlines()[-1].strip(" .\t")
            raise UserError(
                f"{path} does not fit this experiment ({reason}): resume it without changes to sizes, agent and "
                "environments, or start another run"
            ) from error

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from what `state_dict` returned; without "actor" only the environments start anew."""
        self.learner.load_state_dict(state["learner"])
        if "actor" in state:
            self.actor.load_state_dict(state["actor"])
        self.agent.load_experience_state_dict(state.get("experience", {}))
        self.actor.publication.mark_updated(self.learner.num_updates)
        self.statistics.load_state_dict(state["statistics"])
        self.seconds = float(state["seconds"])
        self.convergence.load_state_dict(state.get("convergence", {}))
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # the streams of actor and learner do not wait for these copies


class _Recorder:
    """Log lines and checkpoints of a loop, when they are due."""

    def __init__(self, loop: ClosedLoop, directory: RunDirectory) -> None:
        self.loop, self.options, self.directory = loop, loop.options, directory
        self.checkpoints = CheckpointStore(directory.path / "checkpoints", self.options.keep_checkpoints)
        self._frames_logged = self._frames_saved = loop.statistics.frames
        self._seconds_before = loop.seconds
        self._started = self._logged = self._saved = time.perf_counter()

    def __enter__(self) -> _Recorder:
        self.writer: MetricsWriter | None = None
        if self.loop.peers.is_main:
            self.writer = MetricsWriter(
                self.directory.path,
                frames=self.loop.statistics.frames,
                total_frames=self.options.total_frames,
                title=self.loop.experiment.name,
                tensorboard=self.options.tensorboard,
            )
        ranges.start(self.loop.timer)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        ranges.stop()
        if self.writer is not None:
            with contextlib.suppress(OSError) if error else contextlib.nullcontext():
                self.writer.close()
        if isinstance(error, OSError):
            raise RunFailedError(
                f"{self.directory.path} cannot be written ({error.strerror}): free space, then resume the run"
            ) from error
        if isinstance(error, NonFiniteError):
            raise self._explain(error) from error

    def due(self) -> tuple[bool, bool]:
        """Whether it is time for a log line, and for a checkpoint."""
        now = time.perf_counter()
        self.loop.seconds = self._seconds_before + now - self._started
        frames, options = self.loop.statistics.frames, self.options
        log_due = _is_due(
            frames, self._frames_logged, options.log_interval_frames, now - self._logged, options.log_interval_s
        )
        checkpoint_due = _is_due(
            frames,
            self._frames_saved,
            options.checkpoint_interval_frames,
            now - self._saved,
            options.checkpoint_interval_s,
        )
        return log_due and frames > self._frames_logged, checkpoint_due and frames > self._frames_saved

    def record_end(self) -> None:
        """Writes the last log line and checkpoint, unless they are there already."""
        if self._frames_logged < self.loop.statistics.frames:
            self.log()
        if self._frames_saved < self.loop.statistics.frames:
            self.checkpoint()

    def log(self) -> None:
        """Writes a log line. All but its times, rates and memory are functions of the run's position alone."""
        loop, statistics = self.loop, self.loop.statistics
        loop.check()
        now = time.perf_counter()
        elapsed = now - self._logged
        episodes = loop.peers.total(statistics.episodes)
        means = loop.peers.mean(
            {
                "mean_return": statistics.mean_return,
                "mean_episode_steps": statistics.mean_length,
                "policy_lag": loop.learner.last_lag,
                **loop.learner.latency.quantiles(),
                **loop.learner.metrics(),
            }
        )
        if self.writer is not None:
            self.writer.write(
                {
                    "time_s": round(loop.seconds, 3),
                    "unix_time_s": round(time.time(), 3),
                    "frames": statistics.frames,
                    "agent_steps": statistics.agent_steps,
                    "updates": loop.learner.num_updates,
                    "fps": (statistics.frames - self._frames_logged) / elapsed,
                    "episodes": episodes,
                    "learning_rate": loop.learning_rate,
                    **means,
                    "phase_seconds": loop.timer.take(),
                    "memory_bytes": memory_by_owner(loop.learner, loop.actor, loop.device),
                }
            )
        self._logged, self._frames_logged = now, statistics.frames

    def checkpoint(self) -> None:
        """Writes a checkpoint: rank 0 the whole state, every other rank its environments."""
        peers, state = self.loop.peers, self.loop.state_dict()
        frames = self.loop.statistics.frames
        own = state if peers.is_main else {name: state[name] for name in ("actor", "experience", "statistics")}
        peers.all_succeed(lambda: self.checkpoints.write(own, frames=frames, rank=peers.rank))
        peers.all_succeed(lambda: self.checkpoints.commit(frames) if peers.is_main else None)
        now = time.perf_counter()
        fps = (frames - self._frames_saved) / max(now - self._saved, 1e-9)
        before = self.loop.convergence.converged
        if self.loop.convergence.add(fps, self.loop.statistics.mean_return) and not before:
            logger.info("converged: ten checkpoints of steady speed without a gain in return")
        self._saved, self._frames_saved = now, frames

    def _explain(self, error: NonFiniteError) -> RunFailedError:
        """Dumps what led to a loss that is not finite."""
        path = self.directory.path / "not_finite.pt"
        network = self.loop.learner.network
        torch.save(
            {
                "update": error.update,
                "metrics": error.metrics,
                "batch": error.batch.to_dict(),
                "network": network.state_dict(),
                "optimizer": self.loop.learner.optimizer.state_dict(),
            },
            path,
        )
        bad = ", ".join(name for name, value in error.metrics.items() if not abs(value) < float("inf"))
        latest = self.checkpoints.latest()
        return RunFailedError(
            f"training stopped at update {error.update}: {bad or 'a value'} is not finite; the batch, parameters and "
            f"optimizer are in {path}; lower optimizer.learning_rate and "
            + (f"resume from {latest}" if latest else "start again")
        )


def _is_due(frames: int, frames_before: int, interval_frames: int, seconds: float, interval_s: float) -> bool:
    """Whether an interval is over, counted in frames where the experiment gives frames."""
    if interval_frames:
        return frames // interval_frames > frames_before // interval_frames
    return seconds >= interval_s


def _record_end(directory: RunDirectory, status: str, **more: Any) -> None:
    """Writes how a run ended; on a full disk a failed run keeps its own error."""
    try:
        directory.set_status(status, **more)
    except OSError as error:
        message = f"the status '{status}' cannot be written to {directory.path / 'run.json'} ({error.strerror})"
        if status != "failed":
            raise RunFailedError(f"{message}: free space, then resume the run") from error
        logger.warning(message)


def train(directory: RunDirectory, loop: ClosedLoop, *, resume: bool = False) -> str:
    """Runs a loop inside its run directory and keeps run.json true.

    Args:
        directory: The run's folder.
        loop: What to run.
        resume: Continue from the newest checkpoint.

    Returns:
        "finished" or "interrupted".

    Raises:
        RunFailedError: The run failed; run.json says so.
    """
    if resume:
        path = CheckpointStore(directory.path / "checkpoints").latest()
        if path is None:
            logger.info("%s has no checkpoint yet: the run starts from the beginning", directory.path)
        else:
            loop.load_checkpoint(path)
            logger.info("resuming %s at %s frames", directory.path, f"{loop.statistics.frames:,}")
    status = "failed"
    if loop.peers.is_main:
        directory.set_status("running", pid=os.getpid(), **loop.peers.describe(loop.device))
    try:
        with StopRequest() as stop, sample_run(directory.path, loop.options.sample_hz):
            status = loop.run(directory, stop)
        if stop.requested:
            logger.info(
                "%s: checkpoint written; continue with: seed-hpc train --resume %s", stop.signal_name, directory.path
            )
    finally:
        if loop.peers.is_main:
            _record_end(
                directory,
                status,
                frames=loop.statistics.frames,
                train_seconds=round(loop.seconds, 3),
                converged=loop.convergence.converged,
            )
        loop.envs.close()
    return status
