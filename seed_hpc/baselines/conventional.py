# SPDX-License-Identifier: Apache-2.0
"""The two architectures that people come from, built on ale-py, with the agents, networks and losses of this package.

    impala              actor processes: ale-py, a copy of the network; they fetch parameters from the learner's server
                        and send whole trajectories, over sockets. Espeholt et al., "IMPALA" (2018), figure 1
    central_inference   actor processes: ale-py alone; they send every observation to the learner's process, which
                        answers with actions. Espeholt et al., "SEED RL" (2020), figure 2; sockets instead of gRPC

Both are asynchronous: the learner updates on one rollout of all environments while the next one is made.
"""

from __future__ import annotations

import copy
import multiprocessing
import queue
import socket
import threading
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seed_hpc.agents.rollout import Rollout
from seed_hpc.baselines.messages import Channel, join, pack, unpack
from seed_hpc.config import EnvConfig, Experiment
from seed_hpc.training.actor import Actor
from seed_hpc.training.environments import make_agent
from seed_hpc.training.streams import Instant

CPU = torch.device("cpu")
_START_TIMEOUT_S = 120.0


class AlePyEnvironments:
    """ale-py's vector environment with the interface that `Actor` needs.

    Args:
        config: The experiment's section `env`.
        num_envs: Number of environments.
    """

    def __init__(self, config: EnvConfig, num_envs: int) -> None:
        from seed_hpc.envs.parity import import_ale_py

        import_ale_py()
        from ale_py.vector_env import AtariVectorEnv

        self.num_envs = num_envs
        self.envs = AtariVectorEnv(
            config.game,
            num_envs,
            num_threads=1,
            frameskip=config.frameskip,
            stack_num=config.stack_num,
            img_height=config.img_height,
            img_width=config.img_width,
            maxpool=config.maxpool,
            noop_max=config.noop_max,
            use_fire_reset=config.use_fire_reset,
            episodic_life=config.episodic_life,
            life_loss_info=config.life_loss_info,
            repeat_action_probability=config.repeat_action_probability,
            full_action_space=config.full_action_space,
            max_num_frames_per_episode=config.max_num_frames_per_episode,
            reward_clipping=False,
        )
        self.single_observation_space = self.envs.single_observation_space
        self.single_action_space = self.envs.single_action_space

    def reset(self, *, seed: int | None = None) -> tuple[Tensor, dict[str, Any]]:
        """Begins new episodes."""
        return torch.from_numpy(self.envs.reset(seed=seed)[0].copy()), {}

    def step_arrays(self, actions: Any) -> tuple[Any, Any, Any, Any]:
        """Returns observations, rewards, terminations and truncations as arrays."""
        observations, rewards, terminations, truncations, _ = self.envs.step(np.asarray(actions))
        return observations, np.asarray(rewards, np.int32), terminations, truncations

    def step_into(
        self, actions: Tensor, observations: Tensor, rewards: Tensor, terminations: Tensor, truncations: Tensor
    ) -> None:
        """Steps and writes the results into the caller's tensors."""
        for target, source in zip(
            (observations, rewards, terminations, truncations), self.step_arrays(actions), strict=True
        ):
            target.copy_(torch.from_numpy(np.asarray(source)))

    def close(self) -> None:
        """Frees threads and memory."""
        self.envs.close()


def make_actor(experiment: Experiment, envs: Any, seed: int) -> Actor:
    """Returns an actor with a network of its own."""
    torch.manual_seed(experiment.training.seed)
    agent = make_agent(experiment, envs, CPU)
    return Actor(
        envs,
        agent,
        agent.build_network(),
        unroll_length=experiment.training.unroll_length,
        seed=seed,
        clip_rewards=experiment.env.reward_clipping,
        device=CPU,
    )


class Handover:
    """What `Learner.update` asks of an actor, where rollouts come from other processes or threads.

    Args:
        publish: Called with the number of updates after each rollout.
    """

    def __init__(self, publish: Any) -> None:
        self._publish = publish
        self._times: dict[int, tuple[Instant, Instant]] = {}
        self.publication = self

    def remember(self, rollout: Rollout, began: float, filled: float) -> None:
        """Notes when a rollout was made, in seconds of `time.perf_counter` (one clock for all processes)."""
        self._times = {id(rollout): (_instant(began), _instant(filled))}

    def times(self, rollout: Rollout) -> tuple[Instant, Instant]:
        """See `Actor.times`."""
        return self._times[id(rollout)]

    def wait_for(self, rollout: Rollout) -> None:
        """Rollouts are complete when they arrive."""

    def release(self, rollout: Rollout) -> None:
        """Rollouts are the learner's own."""

    def wait_for_copy(self) -> None:
        """Nobody copies from the learner's network itself."""

    def mark_updated(self, version: int) -> None:
        """Publishes the parameters."""
        self._publish(version)


def _instant(seconds: float) -> Instant:
    instant = Instant(CPU)
    instant._seconds = seconds
    return instant


# ---- Actor processes -----------------------------------------------------------------------------------------------


def impala_actor(port: int, index: int, experiment: Experiment, num_envs: int) -> None:
    """Body of an actor process: fetch parameters, unroll, send the trajectory, and again."""
    torch.set_num_threads(1)
    channel = Channel(socket.create_connection(("127.0.0.1", port)))
    seed = experiment.training.seed + index * num_envs
    actor = make_actor(experiment, AlePyEnvironments(experiment.env, num_envs), seed)
    source = actor.publication._source
    version, started = -1, time.perf_counter()
    try:
        while True:
            channel.send(("parameters", version))
            version, arrays = channel.receive()
            if arrays is not None:
                for tensor, array in zip(source, arrays, strict=True):
                    tensor.detach().copy_(torch.from_numpy(array))
            actor.publication.mark_updated(version)
            began = time.perf_counter()
            rollout = actor.unroll()
            filled = time.perf_counter()
            idle = channel.seconds_waited / (filled - started)
            channel.send(("rollout", pack(rollout), began, filled, idle))
            channel.receive()
    except (EOFError, OSError):  # the learner has ended the run
        actor.envs.close()


def environment_actor(port: int, index: int, experiment: Experiment, num_envs: int) -> None:
    """Body of an actor process that knows environments only: actions in, observations out."""
    channel = Channel(socket.create_connection(("127.0.0.1", port)))
    envs = AlePyEnvironments(experiment.env, num_envs)
    channel.send((index, envs.single_observation_space, envs.single_action_space))
    started = time.perf_counter()
    try:
        while True:
            kind, value = channel.receive()
            if kind == "reset":
                channel.send(envs.reset(seed=value + index * num_envs)[0].numpy())
            else:
                idle = channel.seconds_waited / (time.perf_counter() - started)
                channel.send((*envs.step_arrays(value), idle))
    except (EOFError, OSError):
        envs.close()


class Processes:
    """Actor processes and the learner's ends of their connections.

    Args:
        body: `impala_actor` or `environment_actor`.
        experiment: What to run.
        num_actors: Processes; they share the experiment's environments evenly.
    """

    def __init__(self, body: Any, experiment: Experiment, num_actors: int) -> None:
        self.num_envs = experiment.env.num_envs // num_actors
        context = multiprocessing.get_context("spawn")
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(_START_TIMEOUT_S)
            port = server.getsockname()[1]
            self.processes = [
                context.Process(target=body, args=(port, index, experiment, self.num_envs), daemon=True)
                for index in range(num_actors)
            ]
            for process in self.processes:
                process.start()
            self.channels = [Channel(server.accept()[0]) for _ in range(num_actors)]
        for channel in self.channels:
            channel._socket.settimeout(None)

    def bytes_moved(self) -> int:
        """Returns the bytes of all messages, in both directions."""
        return sum(channel.bytes_sent + channel.bytes_received for channel in self.channels)

    def close(self) -> None:
        """Ends the processes."""
        for channel in self.channels:
            channel.close()
        for process in self.processes:
            process.join(2.0)
            process.kill()
            process.join()


# ---- The learner's side: where rollouts come from --------------------------------------------------------------------


class ImpalaSource:
    """Trajectories of actor processes, and the parameter server.

    Args:
        experiment: What to run.
        num_actors: Actor processes.
        network: The learner's network.
    """

    def __init__(self, experiment: Experiment, num_actors: int, network: torch.nn.Module) -> None:
        self._network = network
        self._lock = threading.Lock()
        self._parameters: tuple[int, list[Any]] = (0, [])
        self.parameter_bytes = 0
        self.actor_idle = [0.0] * num_actors
        self.publish(0)
        self.processes = Processes(impala_actor, experiment, num_actors)
        self._queues: list[queue.Queue[Any]] = [queue.Queue(maxsize=1) for _ in range(num_actors)]
        self._threads = [threading.Thread(target=self._serve, args=(i,), daemon=True) for i in range(num_actors)]
        for thread in self._threads:
            thread.start()

    def publish(self, version: int) -> None:
        """Gives actors that ask from now on the learner's parameters."""
        tensors = [*self._network.parameters(), *self._network.buffers()]
        arrays = [tensor.detach().numpy().copy() for tensor in tensors]
        with self._lock:
            self._parameters = (version, arrays)

    def _serve(self, index: int) -> None:
        """Answers one actor until its connection ends."""
        channel = self.processes.channels[index]
        try:
            while True:
                kind, *content = channel.receive()
                if kind == "parameters":
                    with self._lock:
                        version, arrays = self._parameters
                    sent = channel.send((version, arrays if version != content[0] else None))
                    with self._lock:
                        self.parameter_bytes += sent
                else:
                    packed, began, filled, self.actor_idle[index] = content
                    self._queues[index].put((unpack(packed), began, filled))
                    channel.send("received")
        except (EOFError, OSError):
            self._queues[index].put(None)

    def next(self) -> tuple[Rollout, float, float]:
        """Waits for a rollout of every actor; returns them as one, with the times of its beginning and end."""
        parts = [waiting.get(timeout=_START_TIMEOUT_S) for waiting in self._queues]
        if any(part is None for part in parts):
            raise RuntimeError("an actor process has ended")
        rollouts, began, filled = zip(*parts, strict=True)
        return join(rollouts), min(began), max(filled)

    def close(self) -> None:
        """Ends processes and threads."""
        for waiting in self._queues:  # a thread may wait for room
            while not waiting.empty():
                waiting.get_nowait()
        self.processes.close()


class RemoteEnvironments:
    """The environments of all actor processes as one vector: every step is a message to and from each."""

    def __init__(self, processes: Processes) -> None:
        self.channels = processes.channels
        hello = sorted(((*channel.receive(), channel) for channel in self.channels), key=lambda entry: entry[0])
        self.channels = [entry[3] for entry in hello]
        self.single_observation_space, self.single_action_space = hello[0][1], hello[0][2]
        self.per_actor = processes.num_envs
        self.num_envs = processes.num_envs * len(self.channels)
        self.actor_idle = [0.0] * len(self.channels)

    def reset(self, *, seed: int | None = None) -> tuple[Tensor, dict[str, Any]]:
        """Begins new episodes everywhere."""
        for channel in self.channels:
            channel.send(("reset", seed))
        return torch.cat([torch.from_numpy(channel.receive()) for channel in self.channels]), {}

    def step_into(
        self, actions: Tensor, observations: Tensor, rewards: Tensor, terminations: Tensor, truncations: Tensor
    ) -> None:
        """Sends each actor its actions and gathers the results."""
        targets = (observations, rewards, terminations, truncations)
        for channel, part in zip(self.channels, torch.split(actions, self.per_actor), strict=True):
            channel.send(("step", part.numpy()))
        for index, channel in enumerate(self.channels):
            rows = slice(index * self.per_actor, (index + 1) * self.per_actor)
            *results, self.actor_idle[index] = channel.receive()
            for target, result in zip(targets, results, strict=True):
                target[rows].copy_(torch.from_numpy(np.asarray(result)))


class CentralSource:
    """Inference for all actor processes in a thread of the learner's process.

    Args:
        experiment: What to run.
        num_actors: Actor processes.
        network: The learner's network.
    """

    parameter_bytes = 0  # they never leave the process

    def __init__(self, experiment: Experiment, num_actors: int, network: torch.nn.Module) -> None:
        self._network, self._lock = network, threading.Lock()
        self.processes = Processes(environment_actor, experiment, num_actors)
        envs = RemoteEnvironments(self.processes)
        self.actor_idle = envs.actor_idle
        self._actor = make_actor(experiment, envs, experiment.training.seed)
        self.publish(0)
        self._rollouts: queue.Queue[Any] = queue.Queue(maxsize=1)
        self._stop = False
        self._thread = threading.Thread(target=self._infer, daemon=True)
        self._thread.start()

    @torch.no_grad()
    def publish(self, version: int) -> None:
        """Gives the inference thread the learner's parameters for its next unroll."""
        with self._lock:
            source = [*self._network.parameters(), *self._network.buffers()]
            torch._foreach_copy_(self._actor.publication._source, source)
            self._actor.publication.mark_updated(version)

    def _infer(self) -> None:
        copy_parameters = self._actor.publication.copy

        def locked_copy() -> int:
            with self._lock:
                return copy_parameters()

        self._actor.publication.copy = locked_copy  # type: ignore[method-assign]
        try:
            while not self._stop:
                began = time.perf_counter()
                rollout = copy.deepcopy(self._actor.unroll())
                self._rollouts.put((rollout, began, time.perf_counter()))
        except (EOFError, OSError):
            self._rollouts.put(None)

    def next(self) -> tuple[Rollout, float, float]:
        """Waits for the next rollout of all environments."""
        part = self._rollouts.get(timeout=_START_TIMEOUT_S)
        if part is None:
            raise RuntimeError("an actor process has ended")
        rollout, began, filled = part
        return rollout, began, filled

    def close(self) -> None:
        """Ends processes and the thread."""
        self._stop = True
        while self._thread.is_alive():
            if not self._rollouts.empty():
                self._rollouts.get_nowait()
            self._thread.join(0.05)
        self.processes.close()


SOURCES: dict[str, Any] = {"impala": ImpalaSource, "central_inference": CentralSource}
