# SPDX-License-Identifier: Apache-2.0
"""Experiments: a YAML file and dotlist overrides in, checked dataclasses out.

Data flow: config/experiments/<name>.yaml -> `load_experiment` (+ `training.total_frames=1e6` ...) -> `Experiment` ->
config.yaml of the run directory -> `load_resolved` when a run is resumed or evaluated.

Every option is a dataclass field with its default and one line of text; `describe_options` lists them. An agent's
own options stand beside its update, in `seed_hpc/agents/<name>.py`, and are chosen by `agent.name`.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from seed_hpc.errors import UserError, nearest

T = TypeVar("T")


def option(default: Any, text: str) -> Any:
    """A dataclass field with one line of text for the reader of `seed-hpc train --options`."""
    return field(default=default, metadata={"text": text})


def require(condition: bool, message: str) -> None:
    """Raises a UserError with `message` unless `condition` holds; for `__post_init__` of option classes."""
    if not condition:
        raise UserError(message)


def require_at_least(section: str, options: object, minimum: float, *names: str) -> None:
    """Checks that the named options are at least `minimum`."""
    for name in names:
        value = getattr(options, name)
        require(value >= minimum, f"{section}.{name}={value} is not allowed: give a number of at least {minimum}")


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """The environments; names and defaults of the Atari options are those of `ale_py.vector_env.AtariVectorEnv`."""

    game: str = option("pong", "ROM or environment, as `seed_hpc.make_vec` names it")
    num_envs: int = option(64, "environments per process")
    num_threads: int = option(0, "threads that step them on a CPU; 0 takes all cores")
    frameskip: int = option(4, "emulated frames per agent step")
    stack_num: int = option(4, "frames per observation")
    img_height: int = option(84, "rows of an observation")
    img_width: int = option(84, "columns of an observation")
    maxpool: bool = option(True, "maximum over the last two frames, against sprites that flicker")
    noop_max: int = option(30, "at most this many no-op frames start an episode")
    use_fire_reset: bool = option(True, "press FIRE after a reset where the game needs it")
    episodic_life: bool = option(False, "a lost life ends an episode, and a new game begins")
    life_loss_info: bool = option(False, "a lost life ends an episode for the learner, and the game goes on")
    repeat_action_probability: float = option(0.0, "sticky actions; Machado et al. (2018) recommend 0.25")
    full_action_space: bool = option(False, "all 18 actions instead of the game's own")
    max_num_frames_per_episode: int = option(108_000, "an episode is cut off after this many frames (30 minutes)")
    reward_clipping: bool = option(
        True, "the learner sees rewards clipped to [-1, 1]; logged returns are never clipped"
    )

    data: str = option("", "file that environments share, for example a recorded order stream")
    options: dict[str, float] = field(
        default_factory=dict, metadata={"text": "numbers that the environment lets you set (`seed-hpc env list`)"}
    )

    def __post_init__(self) -> None:
        require_at_least("env", self, 1, "num_envs", "frameskip", "stack_num", "img_height", "img_width")
        require_at_least("env", self, 1, "max_num_frames_per_episode")
        require_at_least("env", self, 0, "num_threads", "noop_max")
        p = self.repeat_action_probability
        require(0.0 <= p < 1.0, f"env.repeat_action_probability={p} is not allowed: give a probability in [0, 1)")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The network."""

    encoder: Literal["nature", "impala", "dqn2013", "dqn2013_half", "mlp"] = option(
        "nature", "what reads an observation"
    )
    core: Literal["feed_forward", "lstm"] = option("feed_forward", "what links the steps of an episode")
    hidden_size: int = option(0, "units of the encoder's last layer; 0 takes the paper's number")
    lstm_size: int = option(256, "units of the LSTM")
    action_reward_input: bool = option(False, "the core also sees the previous action (one-hot) and reward")
    layer_norm: bool = option(False, "normalise the outputs of the encoder's layers (Ba et al., 2016); PQN needs it")
    channels_last: bool = option(True, "NHWC weights and activations; faster on CPUs and on tensor cores")
    compile: bool = option(False, "torch.compile the learner's network; needs a C++ compiler on CPUs")

    def __post_init__(self) -> None:
        require_at_least("model", self, 1, "lstm_size")
        require_at_least("model", self, 0, "hidden_size")


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """How gradients change the parameters."""

    name: Literal["adam", "radam", "rmsprop"] = option("adam", "update rule")
    backend: Literal["torch", "apex"] = option("torch", "who implements it; apex means NVIDIA's package")
    learning_rate: float = option(5e-4, "step size after the warm-up")
    schedule: Literal["constant", "linear"] = option("constant", "linear falls to zero at training.total_frames")
    warmup_frames: int = option(0, "the learning rate rises linearly over this many frames")
    max_gradient_norm: float = option(0.5, "gradients are scaled to at most this global L2 norm; 0 switches it off")
    epsilon: float = option(1e-5, "added to the root of the second moment")
    beta1: float = option(0.9, "Adam and RAdam: decay of the mean of gradients")
    beta2: float = option(0.999, "Adam and RAdam: decay of the mean of squared gradients")
    rms_decay: float = option(0.99, "RMSProp: decay of the mean of squared gradients")

    def __post_init__(self) -> None:
        require(self.learning_rate > 0, f"optimizer.learning_rate={self.learning_rate} must be above zero")
        require(self.epsilon > 0, f"optimizer.epsilon={self.epsilon} must be above zero")
        require_at_least("optimizer", self, 0, "warmup_frames", "max_gradient_norm")
        for name in ("beta1", "beta2", "rms_decay"):
            value = getattr(self, name)
            require(0.0 <= value < 1.0, f"optimizer.{name}={value} is not allowed: give a number in [0, 1)")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The closed loop."""

    total_frames: int = option(10_000_000, "emulated frames of all processes together; the run ends there")
    max_seconds: float = option(0.0, "end earlier, after this many seconds of training; 0 sets no limit")
    stop_when_converged: bool = option(False, "end when ten checkpoints show steady speed and no gain in return")
    unroll_length: int = option(20, "agent steps between two updates")
    seed: int = option(1, "of environments, action sampling and initial parameters")
    device: str = option("auto", "cpu, cuda, cuda:N; auto takes a GPU when there is one")
    num_threads: int = option(0, "threads of the network on a CPU; 0 takes all cores")
    precision: Literal["fp32", "tf32", "bf16", "fp16"] = option(
        "fp32", "of convolutions and matrix products; tf32: float32 with 10 bits on CUDA; bf16, fp16: torch.amp"
    )
    rollouts_ahead: int = option(-1, "rollouts the actor may be ahead of the learner; -1: 1 on CUDA, 0 on CPU")
    cuda_graph: bool = option(True, "on CUDA, capture the actor's unroll once and replay it")
    log_interval_s: float = option(10.0, "seconds between two log lines")
    log_interval_frames: int = option(0, "log by frames instead of seconds, for curves that compare line by line")
    checkpoint_interval_s: float = option(300.0, "seconds between two checkpoints")
    checkpoint_interval_frames: int = option(0, "checkpoint by frames instead of seconds")
    keep_checkpoints: int = option(3, "older checkpoints are removed")
    tensorboard: bool = option(True, "write TensorBoard events")
    sample_hz: float = option(10.0, "readings of GPUs and host per second, written to samples/; 0 takes none")

    def __post_init__(self) -> None:
        require_at_least("training", self, 1, "total_frames", "unroll_length", "keep_checkpoints")
        require_at_least("training", self, 0, "max_seconds", "seed", "num_threads", "log_interval_s")
        require_at_least("training", self, 0, "log_interval_frames", "checkpoint_interval_s")
        require_at_least("training", self, 0, "checkpoint_interval_frames", "sample_hz")
        require_at_least("training", self, -1, "rollouts_ahead")


@dataclass(frozen=True, kw_only=True)
class DistributedConfig:
    """How processes that srun, mpirun or torchrun started train together; a process alone ignores it."""

    exchange: Literal["auto", "flat_all_reduce", "grouped_all_gather", "grouped_reduce_scatter"] = option(
        "auto", "how gradients are averaged; auto measures and takes the quickest (docs/distributed.md)"
    )
    compression: Literal["none", "bf16"] = option("none", "what gradients travel as")
    groups: Literal["nvlink", "host"] = option("nvlink", "which ranks form a group: joined by NVLink, or of one host")
    topology: str = option("", "file that describes hosts and NVLinks instead of NVML")
    bucket_megabytes: float = option(25.0, "gradients are exchanged as soon as this many have been computed")
    timeout_s: float = option(50.0, "a rank that waits for another for so long ends the run")

    def __post_init__(self) -> None:
        require(self.bucket_megabytes > 0, f"distributed.bucket_megabytes={self.bucket_megabytes} must be above zero")
        require(self.timeout_s > 0, f"distributed.timeout_s={self.timeout_s} must be above zero")


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """How the trained agent is measured."""

    episodes: int = option(30, "one per environment slot, so that short episodes are not preferred")
    seed: int = option(1_000_003, "of the evaluation's environments, away from those of training")
    policy: Literal["sample", "greedy"] = option(
        "sample", "draw actions, or take the likeliest; with a replay always agent.evaluation_epsilon"
    )
    random_episodes: int = option(30, "episodes of the random policy, measured the same way")
    gif_frames: int = option(600, "pictures of episode.gif at most; 0 writes none")

    def __post_init__(self) -> None:
        require_at_least("evaluation", self, 2, "episodes", "random_episodes")  # one has no interval
        require_at_least("evaluation", self, 0, "seed", "gif_frames")


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Everything that a run needs to know."""

    name: str
    env: EnvConfig
    agent: Any
    model: ModelConfig
    optimizer: OptimizerConfig
    training: TrainingConfig
    evaluation: EvaluationConfig
    distributed: DistributedConfig = field(default_factory=DistributedConfig)

    def __post_init__(self) -> None:
        require(
            self.fewest_envs <= self.env.num_envs,
            f"agent.minibatches={getattr(self.agent, 'minibatches', 1)} is more than "
            f"env.num_envs={self.env.num_envs} can be split into: lower it, or raise env.num_envs",
        )
        require(
            not (self.env.life_loss_info and hasattr(self.agent, "replay_capacity")),
            f"env.life_loss_info=true does not go with agent.name={getattr(self.agent, 'name', '')}, whose replay "
            "begins a new stack of pictures with an episode: set env.episodic_life=true",
        )

    @property
    def fewest_envs(self) -> int:
        """The fewest environments whose rollouts can be split into `agent.minibatches` parts."""
        parts = int(getattr(self.agent, "minibatches", 1))
        if getattr(self.agent, "splits_steps", False) and self.model.core == "feed_forward":
            return -(-parts // self.training.unroll_length)
        return parts

    def to_dict(self) -> dict[str, Any]:
        """Returns plain nested dictionaries, as config.yaml holds them."""
        return dataclasses.asdict(self)

    def save(self, path: Path) -> None:
        """Writes the resolved configuration, defaults included."""
        path.write_text(OmegaConf.to_yaml(OmegaConf.create(self.to_dict())), encoding="utf-8")


SECTIONS: dict[str, type] = {
    "env": EnvConfig,
    "model": ModelConfig,
    "optimizer": OptimizerConfig,
    "training": TrainingConfig,
    "evaluation": EvaluationConfig,
    "distributed": DistributedConfig,
}


def experiments_folder() -> Path:
    """Returns config/experiments of the current folder, or else of the project that the package lies in."""
    local = Path("config/experiments")
    return local if local.is_dir() else Path(__file__).resolve().parents[1] / "config" / "experiments"


def find_experiment(name_or_path: str) -> Path:
    """Returns the YAML file of an experiment.

    Args:
        name_or_path: A file, or the name of one in config/experiments.

    Raises:
        UserError: There is no such file.
    """
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise UserError(f"{path} does not exist: name an experiment file, or an experiment of config/experiments")
        return path
    folder = experiments_folder()
    known = sorted(file.stem for file in folder.glob("*.yaml"))
    if name_or_path not in known:
        raise UserError(
            f"unknown experiment '{name_or_path}'{nearest(name_or_path, known)}; "
            f"known: {', '.join(known) or 'none'}, or give the path of a .yaml file"
        )
    return folder / f"{name_or_path}.yaml"


def load_experiment(name_or_path: str, overrides: Sequence[str] = ()) -> Experiment:
    """Reads an experiment and applies overrides.

    Args:
        name_or_path: As for `find_experiment`.
        overrides: Dotlist, for example ``["training.total_frames=1e6", "env.game=breakout"]``.

    Raises:
        UserError: Unknown file or key, wrong type, or a value that is not allowed.
    """
    path = find_experiment(name_or_path)
    return _build_experiment(_merge(_read_yaml(path), overrides), default_name=path.stem)


def load_section(name_or_path: str, overrides: Sequence[str], section: str) -> Any:
    """Reads one section of an experiment, any but `agent`; needs no torch, which the agents' options import."""
    values = _merge(_read_yaml(find_experiment(name_or_path)), overrides)
    return build_options(SECTIONS[section], _section(values, section), section)


def stated_values(name_or_path: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Returns what an experiment's file and the overrides say, without defaults and unchecked; needs no torch."""
    return _merge(_read_yaml(find_experiment(name_or_path)), overrides)


def load_resolved(path: Path, overrides: Sequence[str] = ()) -> Experiment:
    """Reads the config.yaml of a run directory; `overrides` as for `load_experiment`."""
    if not path.is_file():
        raise UserError(f"{path} does not exist: name a run directory, results/<experiment>/<run_id>")
    return _build_experiment(_merge(_read_yaml(path), overrides), default_name=path.parent.parent.name)


def default_experiment(agent: str, overrides: Sequence[str] = ()) -> Experiment:
    """Returns the defaults of everything with one agent; `overrides` as for `load_experiment`."""
    return _build_experiment(_merge(OmegaConf.create({"agent": {"name": agent}}), overrides), default_name=agent)


def describe_options(agent: str = "vtrace") -> Iterator[tuple[str, str, str]]:
    """Yields (dotted name, default, text) of every option, with those of one agent."""
    from seed_hpc.agents import agent_config_class

    for section, cls in {"agent": agent_config_class(agent), **SECTIONS}.items():
        for item in dataclasses.fields(cls):
            yield f"{section}.{item.name}", _default_text(item), item.metadata["text"]


def _default_text(item: dataclasses.Field[Any]) -> str:
    return "none" if item.default is dataclasses.MISSING else str(item.default)


def _read_yaml(path: Path) -> DictConfig:
    try:
        loaded = OmegaConf.load(path)
    except (OSError, OmegaConfBaseException) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    except Exception as error:  # the YAML parser's own errors have no common public class in OmegaConf
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{path} is not valid YAML: {first_line}") from error
    if not isinstance(loaded, DictConfig):
        raise UserError(f"{path} must hold the sections {', '.join(['agent', *SECTIONS])}")
    return loaded


def _parse_override(item: str) -> DictConfig:
    key, separator, _ = item.partition("=")
    require(
        bool(separator) and "." in key,
        f"'{item}' is not an override: write section.key=value, for example training.total_frames=1e6",
    )
    try:
        return OmegaConf.from_dotlist([item])
    except Exception as error:  # of the YAML parser, as in _read_yaml
        raise UserError(f"the value of '{item}' is not valid YAML: close its brackets and quotes") from error


def _merge(base: DictConfig, overrides: Sequence[str]) -> dict[str, Any]:
    changes = [_parse_override(item) for item in overrides]
    try:
        merged = OmegaConf.merge(base, *changes)
        resolved = OmegaConf.to_container(merged, resolve=True)
    except OmegaConfBaseException as error:
        raise UserError(f"the configuration cannot be resolved: {str(error).splitlines()[0]}") from error
    assert isinstance(resolved, dict)
    return typing.cast("dict[str, Any]", resolved)


def _build_experiment(values: dict[str, Any], default_name: str) -> Experiment:
    from seed_hpc.agents import agent_config_class

    name = values.pop("name", default_name)
    require(isinstance(name, str) and bool(name), f"name={name!r} is not allowed: give the experiment a name")
    for section in values:
        if section not in ("agent", *SECTIONS):
            known = ["agent", *SECTIONS]
            raise UserError(f"unknown section '{section}'{nearest(section, known)}; known: {', '.join(known)}")
    agent_values = _section(values, "agent")
    require("name" in agent_values, "agent.name is missing: choose the agent, for example agent.name=vtrace")
    agent = build_options(agent_config_class(str(agent_values["name"])), agent_values, "agent")
    sections: dict[str, Any] = {key: build_options(cls, _section(values, key), key) for key, cls in SECTIONS.items()}
    return Experiment(name=name, agent=agent, **sections)


def _section(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    section = values.get(name)
    if section is None:
        return {}
    require(isinstance(section, dict), f"section '{name}' must hold keys and values, not {section!r}")
    return dict(section)


def build_options(cls: type[T], values: Mapping[str, Any], section: str) -> T:
    """Builds an option class from plain values, with errors that name the section.

    Raises:
        UserError: Unknown key (the nearest known one is named), wrong type, or a value its class refuses.
    """
    hints = typing.get_type_hints(cls)
    known = [item.name for item in dataclasses.fields(typing.cast("Any", cls))]
    for key in values:
        if key not in known:
            raise UserError(
                f"unknown key '{section}.{key}'{nearest(str(key), known)}; known in {section}: {', '.join(known)}"
            )
    return cls(**{key: _convert(value, hints[key], f"{section}.{key}") for key, value in values.items()})


def _convert(value: Any, hint: Any, name: str) -> Any:
    """Converts a YAML value to the type of a field; 1e6 counts as an integer where one is wanted."""
    origin = typing.get_origin(hint)
    if origin is dict:
        require(isinstance(value, dict), f"{name}={value} is not allowed: give names with numbers, {name}.x=1")
        return {str(key): _convert(item, float, f"{name}.{key}") for key, item in value.items()}
    if origin is Literal:
        allowed = typing.get_args(hint)
        if value not in allowed:
            choices = ", ".join(map(str, allowed))
            raise UserError(f"{name}={value} is not allowed{nearest(str(value), map(str, allowed))}: choose {choices}")
        return value
    if origin in (Union, types.UnionType):
        inner = [item for item in typing.get_args(hint) if item is not type(None)]
        return None if value is None else _convert(value, inner[0], name)
    if hint is bool and isinstance(value, bool):
        return value
    if hint is str and isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    if hint in (int, float) and not isinstance(value, bool):
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = float("nan")
        if hint is float and number == number:
            return number
        if hint is int and number.is_integer():
            return int(value) if isinstance(value, int) else int(number)
    wanted = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[hint]
    raise UserError(f"{name}={value} is not allowed: give {wanted}")
