# SPDX-License-Identifier: Apache-2.0
"""The actor: observe -> network -> sample -> step, `unroll_length` times, into a rollout.

On CUDA the whole unroll, environment steps included, is captured once per rollout buffer as a CUDA graph and replayed:
one launch instead of thousands. On a CPU the same function runs eagerly. Everything that survives from one unroll to
the next lives in tensors that are written in place, so that a replay continues where the last one ended.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from seed_hpc.agents.agent import Agent
from seed_hpc.agents.rollout import Rollout, allocate_rollout
from seed_hpc.models.network import Inputs, Network
from seed_hpc.profiling import ranges
from seed_hpc.training.environments import Environments
from seed_hpc.training.precision import Precision
from seed_hpc.training.publication import WeightPublication
from seed_hpc.training.streams import Instant, Signal, Stream

# Eager unrolls before the capture: lazily made workspaces of libraries must not be made inside a graph.
_EAGER_UNROLLS = 2


class Actor:
    """Steps the environments with the acting copy of the network.

    Args:
        envs: B environments; the actor resets them.
        agent: Chooses actions.
        network: The learner's network; the actor takes a copy and renews it before every unroll.
        unroll_length: T.
        seed: Of the environments and of action sampling.
        clip_rewards: Whether the learner sees rewards clipped to [-1, 1].
        num_buffers: Rollouts that may be in use at once.
        precision: Of the network's products.
        use_cuda_graph: Whether to capture the unroll (on CUDA only, and not with environments that step on the host).
        device: Where all of this is.
    """

    def __init__(
        self,
        envs: Environments,
        agent: Agent,
        network: Network,
        *,
        unroll_length: int,
        seed: int,
        clip_rewards: bool = True,
        num_buffers: int = 1,
        precision: Precision | None = None,
        use_cuda_graph: bool = True,
        device: torch.device,
    ) -> None:
        self.envs, self.agent, self.device = envs, agent, device
        self.unroll_length, self.clip_rewards = unroll_length, clip_rewards
        self.network = copy.deepcopy(network).requires_grad_(False).eval()
        self.publication = WeightPublication(network, self.network, device)
        self.precision = precision or Precision("fp32", device)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.num_unrolls = 0

        self.stream = Stream(device)
        self._filled = [Signal(device) for _ in range(num_buffers)]
        self._released = [Signal(device) for _ in range(num_buffers)]
        self._times: dict[int, tuple[Instant, Instant]] = {}
        self._graphs: list[torch.cuda.CUDAGraph | None] = [None] * num_buffers
        on_host = getattr(envs, "steps_on_host", False)
        self._use_cuda_graph = use_cuda_graph and device.type == "cuda" and not on_host

        with self.stream.use():
            obs_BX, _ = envs.reset(seed=seed)
            self._obs_BX = obs_BX.to(device, copy=True)
            num_envs = envs.num_envs
            self._first_B = torch.ones(num_envs, dtype=torch.bool, device=device)
            self._last_B = torch.zeros(num_envs, dtype=torch.bool, device=device)
            self._action_B = agent.zero_action(num_envs)
            self._reward_B = torch.zeros(num_envs, dtype=torch.float32, device=device)
            self._score_B = torch.zeros(num_envs, dtype=getattr(envs, "reward_dtype", torch.int32), device=device)
            self._truncated_B = torch.zeros(num_envs, dtype=torch.bool, device=device)
            self._return_B = torch.zeros(num_envs, dtype=torch.float32, device=device)
            self._steps_B = torch.zeros(num_envs, dtype=torch.int64, device=device)
            self._state_BS = self.network.initial_state(num_envs)
            self._buffers = [self._new_rollout() for _ in range(num_buffers)]

    def unroll(self) -> Rollout:
        """Fills the next buffer and returns it; on CUDA it returns before the device is done, see `wait_for`."""
        index = self.num_unrolls % len(self._buffers)
        rollout = self._buffers[index]
        with self.stream.use():
            self._released[index].wait()
            rollout.policy_version = self.publication.copy()
            began = Instant(self.device)
            graph = self._graphs[index]
            if graph is not None:
                with ranges.phase("actor"):
                    graph.replay()
            elif self._use_cuda_graph and self.num_unrolls >= _EAGER_UNROLLS * len(self._buffers):
                self._capture(index)
            else:
                self._run(rollout)
            self._filled[index].record()
            self._times[index] = (began, Instant(self.device))
        self.num_unrolls += 1
        return rollout

    def rollout_bytes(self) -> int:
        """Returns the memory of all rollout buffers."""
        return sum(rollout.num_bytes() for rollout in self._buffers)

    def times(self, rollout: Rollout) -> tuple[Instant, Instant]:
        """Returns when the rollout began and when it was complete."""
        return self._times[self._index_of(rollout)]

    def wait_for(self, rollout: Rollout) -> None:
        """Learner, on its stream: does not read the rollout before it is complete."""
        self._filled[self._index_of(rollout)].wait()

    def synchronize(self, rollout: Rollout) -> None:
        """Host: waits until the rollout is complete, whose stream others do not wait for by themselves."""
        self._filled[self._index_of(rollout)].synchronize()

    def release(self, rollout: Rollout) -> None:
        """Learner, on its stream: the rollout has been used and may be overwritten."""
        self._released[self._index_of(rollout)].record()

    @torch.no_grad()
    def _run(self, rollout: Rollout) -> None:
        """One unroll; this is what a CUDA graph holds."""
        rollout.state_BS.copy_(self._state_BS)
        rollout.inputs.obs_TBX[0].copy_(self._obs_BX)
        state_BS = self._state_BS
        for t in range(self.unroll_length):
            inputs = self._record_inputs(rollout, t)
            with ranges.phase("inference"), self.precision.autocast():
                action = self.agent.act(self.network, inputs, state_BS, self.generator)
            with ranges.phase("environment"):
                self.envs.step_into(
                    action.action_B,
                    observations=rollout.inputs.obs_TBX[t + 1],
                    rewards=self._score_B,
                    terminations=rollout.terminated_TB[t],
                    truncations=self._truncated_B,
                )
            state_BS = action.state_BS
            for name, value in action.behaviour.items():
                rollout.behaviour[name][t].copy_(value)
            self._record_step(rollout, t, action.action_B)
        self._record_inputs(rollout, self.unroll_length)
        self._obs_BX.copy_(rollout.inputs.obs_TBX[-1])
        self._state_BS.copy_(state_BS)
        rollout.final_state_BS.copy_(state_BS)

    def _record_inputs(self, rollout: Rollout, t: int) -> Inputs:
        """Completes what the network sees at step t and returns it."""
        inputs = rollout.inputs
        inputs.first_TB[t].copy_(self._first_B)
        inputs.previous_action_TB[t].copy_(self._action_B)
        inputs.previous_reward_TB[t].copy_(self._reward_B)
        rollout.last_TB[t].copy_(self._last_B)
        return Inputs(*(x[t : t + 1] for x in inputs))

    def _record_step(self, rollout: Rollout, t: int, action_B: Tensor) -> None:
        """Records the outcome of step t and moves the flags on; see `agents/rollout.py` for what they mean."""
        done_B = rollout.terminated_TB[t] | self._truncated_B
        self._return_B.add_(self._score_B)
        self._steps_B.add_(~self._last_B)
        rollout.episode_return_TB[t].copy_(torch.where(done_B, self._return_B, torch.nan))
        rollout.episode_steps_TB[t].copy_(self._steps_B * done_B)
        self._return_B.mul_(~done_B)
        self._steps_B.mul_(~done_B)
        # The action after a final observation is ignored by the environment.
        valid_B = ~self._last_B
        self._action_B.copy_(action_B * (valid_B.unsqueeze(-1) if action_B.ndim == 2 else valid_B))
        self._reward_B.copy_(self._score_B.clamp(-1, 1) if self.clip_rewards else self._score_B)
        self._first_B.copy_(self._last_B)
        self._last_B.copy_(done_B)

    def _capture(self, index: int) -> None:
        """Records the unroll into buffer `index` as a graph and runs it once."""
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)
        with torch.cuda.graph(graph, stream=self.stream.cuda_stream):
            self._run(self._buffers[index])
        self._graphs[index] = graph
        graph.replay()

    def _index_of(self, rollout: Rollout) -> int:
        return next(i for i, buffer in enumerate(self._buffers) if buffer is rollout)

    @torch.no_grad()
    def _new_rollout(self) -> Rollout:
        """Allocates a rollout; one call of `act` tells what the agent records."""
        step = Inputs(*(x.unsqueeze(0) for x in (self._obs_BX, self._first_B, self._action_B, self._reward_B)))
        generator_state = self.generator.get_state()
        behaviour = self.agent.act(self.network, step, self._state_BS, self.generator).behaviour
        self.generator.set_state(generator_state)
        return allocate_rollout(step, behaviour, self._state_BS, self.unroll_length)

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that the next unroll depends on, the environments included."""
        return {
            "carry": {name: tensor.clone() for name, tensor in self._carry().items()},
            "generator": self.generator.get_state(),
            "envs": [torch.frombuffer(bytearray(lane), dtype=torch.uint8) for lane in self.envs.clone_lanes()],
            "num_unrolls": self.num_unrolls,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from what `state_dict` returned."""
        for name, tensor in self._carry().items():
            tensor.copy_(state["carry"][name])
        self.generator.set_state(state["generator"])
        self.envs.restore_lanes([lane.numpy().tobytes() for lane in state["envs"]])

    def _carry(self) -> dict[str, Tensor]:
        return {
            "obs": self._obs_BX,
            "first": self._first_B,
            "last": self._last_B,
            "action": self._action_B,
            "reward": self._reward_B,
            "return": self._return_B,
            "steps": self._steps_B,
            "state": self._state_BS,
        }
