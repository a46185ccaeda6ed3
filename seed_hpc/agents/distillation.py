# SPDX-License-Identifier: Apache-2.0
"""Distillation: a student network learns to act as a trained teacher does, for example LSTM 256 -> LSTM 128.

Sources: Rusu et al., "Policy Distillation" (2016), https://arxiv.org/abs/1511.06295, equation (3); the student acts
and the teacher judges what it meets, as Czarnecki et al., "Distilling Policy Distillation" (2019) recommend.

With the teacher's policy p = softmax(logits / tau), or softmax(Q / tau) of a teacher with action values,

    loss = mean over the valid steps of KL(p || pi) = sum_a p(a) (log p(a) - log pi(a))

Teacher and student both keep a core state; the teacher's follows the student's experience.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from seed_hpc.agents.agent import Action, Agent, LossOutput, entropy, sample_categorical
from seed_hpc.agents.rollout import Rollout, masked_mean, shuffled_minibatches
from seed_hpc.config import option, require, require_at_least
from seed_hpc.errors import UserError
from seed_hpc.models.heads import ActionValueHead, PolicyValue
from seed_hpc.models.network import Inputs, Network


@dataclass(frozen=True, kw_only=True)
class DistillationConfig:
    """Options of `distillation`."""

    name: Literal["distillation"] = option("distillation", "the algorithm")
    teacher: str = option("", "run directory of the teacher, results/<experiment>/<run_id>")
    temperature: float = option(1.0, "tau; Rusu et al. take 0.01 for action values")
    epochs: int = option(1, "passes over a rollout")
    minibatches: int = option(1, "parts of a rollout, split over environments; one update each")

    def __post_init__(self) -> None:
        require(self.temperature > 0, f"agent.temperature={self.temperature} must be above zero")
        require_at_least("agent", self, 1, "epochs", "minibatches")


def distillation_loss(network: nn.Module, batch: Rollout) -> LossOutput:
    """Computes the loss: a pure function of the network's parameters and the batch.

    Args:
        network: Maps (Inputs, state) to (logits (T, B, A), state).
        batch: Its `behaviour` holds "teacher" (T, B, A), the logarithms of the teacher's probabilities.
    """
    logits_TBA, _ = network(Inputs(*(x[:-1] for x in batch.inputs)), batch.state_BS)
    log_pi_TBA, log_p_TBA = torch.log_softmax(logits_TBA, -1), batch.behaviour["teacher"]
    valid_TB = batch.valid_TB.to(log_pi_TBA.dtype)
    loss = masked_mean((log_p_TBA.exp() * (log_p_TBA - log_pi_TBA)).sum(-1), valid_TB)
    agree_TB = (log_pi_TBA.argmax(-1) == log_p_TBA.argmax(-1)).to(valid_TB.dtype)
    metrics = {
        "loss": loss,
        "entropy": masked_mean(entropy(logits_TBA), valid_TB),
        "agreement": masked_mean(agree_TB, valid_TB),  # share of steps where both would most likely do the same
    }
    return LossOutput(loss, {name: x.detach() for name, x in metrics.items()})


class Distillation(Agent):
    """The student."""

    config: DistillationConfig

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.teacher: Network | None = None
        self._teacher_state_BS: Tensor | None = None

    def build_head(self, num_features: int, num_actions: int) -> nn.Module:
        """Logits: the numbers of an action-value head, read as a policy."""
        return ActionValueHead(num_features, num_actions)

    def prepare(self) -> None:
        """Loads the teacher, which acting and evaluating do not need."""
        self.teacher = self._load_teacher()
        if self._teacher_state_BS is None:
            self._teacher_state_BS = self.teacher.initial_state(self.num_envs)

    def _load_teacher(self) -> Network:
        from seed_hpc.agents import agent_class
        from seed_hpc.training.checkpoint import load_checkpoint

        experiment, checkpoint = teacher_run(self.config.teacher)
        teacher = agent_class(experiment.agent.name)(
            experiment.agent,
            experiment.model,
            self.observation_shape,
            self.num_actions,
            num_envs=self.num_envs,
            device=self.device,
        )
        network = teacher.build_network()
        try:
            network.load_state_dict(load_checkpoint(checkpoint, lazily=True)["learner"]["network"])
        except RuntimeError as error:
            raise UserError(
                f"the teacher {self.config.teacher} does not fit observations of shape {self.observation_shape} and "
                f"{self.num_actions} actions: use the section `env` of its config.yaml"
            ) from error
        return network.requires_grad_(False).eval()

    def act(
        self, network: nn.Module, inputs: Inputs, state_BS: Tensor, generator: torch.Generator, *, greedy: bool = False
    ) -> Action:
        """Samples from the student's policy."""
        logits_TBA, state_BS = network(inputs, state_BS)
        logits_BA = logits_TBA[0]
        action_B = logits_BA.argmax(-1) if greedy else sample_categorical(logits_BA, generator)
        return Action(action_B, {}, state_BS)

    def batches(self, network: nn.Module, rollout: Rollout, generator: torch.Generator) -> Iterator[Rollout]:
        """Adds the teacher's opinion to the rollout, then yields it `epochs` times in `minibatches` parts."""
        if self.teacher is None or self._teacher_state_BS is None:
            raise UserError("agent.name=distillation learns from a teacher: it can be trained and evaluated only")
        with torch.no_grad():
            inputs = Inputs(*(x[:-1] for x in rollout.inputs))
            output, self._teacher_state_BS = self.teacher(inputs, self._teacher_state_BS)
            logits_TBA = output.logits_TBA if isinstance(output, PolicyValue) else output
            log_p_TBA = torch.log_softmax(logits_TBA / self.config.temperature, -1)
        rollout = replace(rollout, behaviour={**rollout.behaviour, "teacher": log_p_TBA})
        for _ in range(self.config.epochs):
            yield from shuffled_minibatches(rollout, self.config.minibatches, generator)

    def loss(self, network: nn.Module, batch: Rollout) -> LossOutput:
        """See `distillation_loss`."""
        return distillation_loss(network, batch)

    def memory_bytes(self) -> dict[str, int]:
        """Returns the memory of the teacher."""
        return {"teacher": 0 if self.teacher is None else sum(x.nbytes for x in self.teacher.parameters())}

    def experience_state_dict(self) -> dict[str, Any]:
        """Returns the state of the teacher's core."""
        return {"teacher_state": self._teacher_state_BS}

    def load_experience_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `experience_state_dict` returned."""
        if state.get("teacher_state") is not None:
            self._teacher_state_BS = state["teacher_state"].to(self.device)


def teacher_run(folder: str) -> tuple[Any, Path]:
    """Returns the experiment and the newest checkpoint of a teacher's run directory.

    Raises:
        UserError: There is none.
    """
    from seed_hpc.config import load_resolved
    from seed_hpc.training.checkpoint import CheckpointStore

    if not folder:
        raise UserError(
            "agent.teacher is missing: give the run directory of the teacher, results/<experiment>/<run_id>"
        )
    experiment = load_resolved(Path(folder) / "config.yaml")
    checkpoint = CheckpointStore(Path(folder) / "checkpoints").latest()
    if checkpoint is None:
        raise UserError(f"the teacher {folder} has no checkpoint yet: train it first")
    return experiment, checkpoint
