# SPDX-License-Identifier: Apache-2.0
"""The learner: turns rollouts into parameter updates and keeps the statistics of the last hundred of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from seed_hpc.agents.agent import Agent, Batch, LossOutput
from seed_hpc.agents.rollout import Rollout
from seed_hpc.config import OptimizerConfig
from seed_hpc.models.network import Network
from seed_hpc.profiling import ranges
from seed_hpc.training.actor import Actor
from seed_hpc.training.latency import StepToGradient
from seed_hpc.training.optimizers import build_optimizer
from seed_hpc.training.precision import Precision
from seed_hpc.training.streams import Instant, Stream

# Logged losses are means over this many updates: a fixed number, so that they do not depend on when a line is written.
WINDOW_UPDATES = 100


class NonFiniteError(Exception):
    """The loss or a gradient is not a finite number; carries what a dump needs."""

    def __init__(self, update: int, batch: Batch, metrics: dict[str, float]) -> None:
        super().__init__(f"update {update} is not finite")
        self.update, self.batch, self.metrics = update, batch, metrics


class Learner:
    """Updates the network.

    Args:
        agent: Defines batches and loss.
        network: The network to train.
        config: The optimizer's options.
        seed: Of the shuffling of minibatches.
        precision: Of the network's products.
        wrap: Wraps the network for distributed training; None trains alone.
        compile_network: Whether to torch.compile the network.
        device: Where the network is.
    """

    def __init__(
        self,
        agent: Agent,
        network: Network,
        config: OptimizerConfig,
        *,
        seed: int,
        precision: Precision | None = None,
        wrap: Callable[[nn.Module], nn.Module] | None = None,
        compile_network: bool = False,
        device: torch.device,
    ) -> None:
        self.agent, self.network, self.config, self.device = agent, network, config, device
        self.precision = precision or Precision("fp32", device)
        self.optimizer = build_optimizer(network.parameters(), config, device)
        self.generator = torch.Generator().manual_seed(seed)
        self.num_updates = 0
        self.last_lag = 0.0
        self.latency = StepToGradient()
        self._stream = Stream(device)
        with self._stream.use():  # DDP gathers gradients on the stream that it was made on
            trained: nn.Module = wrap(network) if wrap is not None else network
        self._trained: nn.Module = torch.compile(trained) if compile_network else trained  # type: ignore[assignment]
        self._parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
        self._finite = torch.ones((), dtype=torch.bool, device=device)
        self._metric_names: list[str] = []
        self._window: Tensor | None = None  # (WINDOW_UPDATES, number of metrics), a ring
        self._newest_row = 0  # of it
        self._last_batch: Batch | None = None

    def update(self, rollout: Rollout, actor: Actor, learning_rate: float) -> None:
        """Updates the network on a rollout and publishes the result to the actor.

        Args:
            rollout: From `actor`.
            actor: Gets the new parameters at its next unroll.
            learning_rate: For these updates.

        Raises:
            NonFiniteError: Loss or gradients are not finite; on CUDA it is `check_finite` that finds out.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        with self._stream.use(), ranges.phase("learner"):
            actor.wait_for(rollout)
            actor.publication.wait_for_copy()
            lags: list[int] = []
            for batch in self.agent.batches(self.network, rollout, self.generator):
                lags.append(self.num_updates - batch.policy_version)
                self._update_on(batch)
            self.last_lag = sum(lags) / max(1, len(lags))
            self.latency.add(*actor.times(rollout), Instant(self.device))
            actor.release(rollout)
            actor.publication.mark_updated(self.num_updates)

    def _update_on(self, batch: Batch) -> None:
        self._last_batch = batch
        with self.precision.autocast():
            output = self.agent.loss(self._trained, batch)
        self.network.zero_grad(set_to_none=True)  # not the optimizer's: apex's takes no argument
        scaler = self.precision.scaler
        scaler.scale(output.loss).backward()  # type: ignore[no-untyped-call]
        scaler.unscale_(self.optimizer)
        max_norm = self.config.max_gradient_norm or torch.inf
        norm = nn.utils.clip_grad_norm_(self._parameters, max_norm)
        self._record(output, norm)
        self._guard(output, norm)
        scaler.step(self.optimizer)
        scaler.update()
        self.num_updates += 1
        self.agent.after_update(self.network, batch, output)

    def _guard(self, output: LossOutput, norm: Tensor) -> None:
        """On a CPU checks before the step is taken; on CUDA only remembers, since a check would make the host wait."""
        # A gradient scaler meets infinite gradients as a matter of course and skips those steps itself.
        finite = output.loss.isfinite() if self.precision.scaler.is_enabled() else (output.loss + norm).isfinite()
        self._finite.logical_and_(finite.detach())
        if self.device.type != "cuda":
            self.check_finite()

    def check_finite(self) -> None:
        """Raises NonFiniteError if any update so far was not finite; waits for them."""
        with self._stream.use():
            finite = bool(self._finite)
        if not finite:
            assert self._last_batch is not None
            raise NonFiniteError(self.num_updates, self._last_batch, self.latest_metrics())

    def _record(self, output: LossOutput, norm: Tensor) -> None:
        metrics = {**output.metrics, "gradient_norm": norm}
        if self._window is None:
            self._metric_names = list(metrics)
            self._window = torch.zeros(WINDOW_UPDATES, len(metrics), device=self.device)
        row = torch.stack([value.detach().float() for value in metrics.values()])
        self._newest_row = self.num_updates % WINDOW_UPDATES
        self._window[self._newest_row].copy_(row)

    def metrics(self) -> dict[str, float]:
        """Returns each metric's mean over the last hundred updates (fewer at the start); waits for the device."""
        if self._window is None or self.num_updates == 0:
            return {}
        with self._stream.use():
            means = self._window[: min(self.num_updates, WINDOW_UPDATES)].double().mean(0).tolist()
        return dict(zip(self._metric_names, means, strict=True))

    def latest_metrics(self) -> dict[str, float]:
        """Returns the metrics of the newest update."""
        assert self._window is not None
        with self._stream.use():
            values = self._window[self._newest_row].tolist()
        return dict(zip(self._metric_names, values, strict=True))

    def state_dict(self) -> dict[str, Any]:
        """Returns network, optimizer, agent, counters and statistics."""
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.precision.scaler.state_dict(),
            "agent": self.agent.state_dict(),
            "generator": self.generator.get_state(),
            "num_updates": self.num_updates,
            "last_lag": self.last_lag,
            "metric_names": self._metric_names,
            "window": self._window,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from what `state_dict` returned."""
        self.network.load_state_dict(state["network"])
        # The experiment's own settings count, not those of the checkpoint: they may have been changed for what follows.
        settings = [{name: x for name, x in group.items() if name != "params"} for group in self.optimizer.param_groups]
        self.optimizer.load_state_dict(state["optimizer"])
        for group, own in zip(self.optimizer.param_groups, settings, strict=True):
            group.update(own)
        if self.precision.scaler.is_enabled():
            self.precision.scaler.load_state_dict(state["scaler"])
        self.agent.load_state_dict(state["agent"])
        self.generator.set_state(state["generator"])
        self.num_updates = int(state["num_updates"])
        self.last_lag = float(state["last_lag"])
        self._metric_names = list(state["metric_names"])
        self._window = None if state["window"] is None else state["window"].to(self.device)
