# SPDX-License-Identifier: Apache-2.0
"""Starts the process group of a run that torchrun, srun or mpirun launched.

Data flow: the launcher's environment variables -> `detect` -> `Launch` (rank, world size, rendezvous address)
-> `process_group`, which yields the same `Launch` inside an initialised `torch.distributed`.

The rendezvous address is resolved inside the task, because a workflow manager may strip the job's variables before.
With more than one node there is no default: an address that cannot be resolved, or that is this node's own loopback,
ends the run with one sentence. A rank that waits for a dead peer gives up after `timeout_s`.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import re
import shutil
import socket
import subprocess
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from seed_hpc.errors import RunFailedError, UserError

Launcher = Literal["none", "torchrun", "slurm", "mpi"]

# A peer that has not answered for this long is dead. Below a minute, so that a job never burns its allocation waiting.
TIMEOUT_S = 50.0

# Slurm and MPI jobs derive the port from the job, so that jobs that share a node do not meet.
_FIRST_PORT, _NUM_PORTS = 20_000, 12_000

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One process's place in the run.

    Attributes:
        launcher: What started the process.
        rank: Place among all processes, from 0.
        world_size: Number of processes.
        local_rank: Place among the processes of this node, from 0; also the index of its CUDA device.
        local_world_size: Number of processes on this node.
        num_nodes: Number of nodes.
        address: Host where rank 0 listens; None for a single process.
        port: TCP port there; None for a single process.
        job_id: The scheduler's id of the job, or None.
        hosts: Names of the nodes, where the launcher tells them.
    """

    launcher: Launcher = "none"
    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    num_nodes: int = 1
    address: str | None = None
    port: int | None = None
    job_id: str | None = None
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise UserError(f"rank {self.rank} is not below the world size {self.world_size}: check the launcher")

    @property
    def is_main(self) -> bool:
        """True for the one process that writes the run's files."""
        return self.rank == 0


def expand_hostlist(hostlist: str) -> tuple[str, ...]:
    """Expands Slurm's compressed list of nodes; the image of a job need not hold `scontrol`.

    Args:
        hostlist: For example ``gpu[001-003,007],login1``; brackets may stand more than once in a name.

    Raises:
        UserError: The brackets do not match.
    """
    names: list[str] = []
    for item in re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", hostlist.strip()):
        names.extend(_expand_brackets(item))
    if not names or hostlist.count("[") != hostlist.count("]"):
        raise UserError(f"'{hostlist}' is not a list of nodes such as 'gpu[001-003,007],login1'")
    return tuple(names)


def _expand_brackets(item: str) -> Iterator[str]:
    match = re.search(r"\[([^\]]*)\]", item)
    if match is None:
        yield item
        return
    for part in match.group(1).split(","):
        first, _, last = part.partition("-")
        for number in range(int(first), int(last or first) + 1):
            filled = f"{item[: match.start()]}{number:0{len(first)}d}{item[match.end() :]}"
            yield from _expand_brackets(filled)


def detect(environ: Mapping[str, str] | None = None) -> Launch:
    """Reads this process's place from the launcher's variables and resolves the rendezvous address.

    torchrun wins over MPI, MPI over Slurm, since each of them may itself have been started by the next.

    Raises:
        UserError: There is more than one node and the address of the first cannot be told, or a variable that should
            hold a number does not.
    """
    env = os.environ if environ is None else environ
    if "TORCHELASTIC_RUN_ID" in env or {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"} <= env.keys():
        return _from_torchrun(env)
    if "OMPI_COMM_WORLD_RANK" in env or {"PMI_RANK", "MPI_LOCALRANKID"} <= env.keys():
        return _from_mpi(env)
    if "SLURM_PROCID" in env and "SLURM_STEP_NUM_TASKS" in env:
        return _from_slurm(env)
    return Launch()


def _number(env: Mapping[str, str], *names: str, default: int = 1) -> int:
    """Reads the first of these variables that is set.

    Raises:
        UserError: It holds no number.
    """
    name = next((name for name in names if env.get(name)), None)
    if name is None:
        return default
    if not env[name].isdecimal():
        raise UserError(f"the launcher's variable {name} is '{env[name]}', it must be a whole number: unset or mend it")
    return int(env[name])


def _from_torchrun(env: Mapping[str, str]) -> Launch:
    world_size, local_world_size = _number(env, "WORLD_SIZE"), _number(env, "LOCAL_WORLD_SIZE")
    num_nodes = _number(env, "GROUP_WORLD_SIZE", default=-(-world_size // max(local_world_size, 1)))
    return _with_address(
        Launch(
            launcher="torchrun",
            rank=_number(env, "RANK", default=0),
            world_size=world_size,
            local_rank=_number(env, "LOCAL_RANK", default=0),
            local_world_size=local_world_size,
            num_nodes=num_nodes,
            job_id=env.get("SLURM_JOB_ID"),
        ),
        env,
        node_rank=_number(env, "GROUP_RANK", default=0),
    )


def _from_slurm(env: Mapping[str, str]) -> Launch:
    num_nodes = _number(env, "SLURM_STEP_NUM_NODES", "SLURM_NNODES")
    node_rank = _number(env, "SLURM_NODEID", default=0)
    launch = Launch(
        launcher="slurm",
        rank=_number(env, "SLURM_PROCID", default=0),
        world_size=_number(env, "SLURM_STEP_NUM_TASKS"),
        local_rank=_number(env, "SLURM_LOCALID", default=0),
        local_world_size=_tasks_on_node(env.get("SLURM_STEP_TASKS_PER_NODE", "1"), node_rank),
        num_nodes=num_nodes,
        job_id=env.get("SLURM_JOB_ID"),
        hosts=_slurm_hosts(env),
    )
    return _with_address(launch, env, node_rank)


def _from_mpi(env: Mapping[str, str]) -> Launch:
    world_size = _number(env, "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
    local_world_size = _number(env, "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
    rank = _number(env, "OMPI_COMM_WORLD_RANK", "PMI_RANK", default=0)
    launch = Launch(
        launcher="mpi",
        rank=rank,
        world_size=world_size,
        local_rank=_number(env, "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", default=0),
        local_world_size=local_world_size,
        num_nodes=1 if local_world_size == world_size else 2,
        job_id=env.get("SLURM_JOB_ID"),
        hosts=_slurm_hosts(env),
    )
    if world_size > 1 and "MASTER_ADDR" not in env and (gathered := _mpi_rendezvous()) is not None:
        hosts, address, port = gathered
        return replace(launch, hosts=hosts, num_nodes=len(hosts), address=address, port=port)
    return _with_address(launch, env, node_rank=0 if rank < local_world_size else 1)


def _mpi_rendezvous() -> tuple[tuple[str, ...], str, int] | None:
    """Gathers host names by mpi4py; None where mpi4py is not installed."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError):
        return None
    world: Any = MPI.COMM_WORLD
    hosts = tuple(dict.fromkeys(world.allgather(socket.gethostname())))
    offer = None
    if world.Get_rank() == 0:
        with socket.socket() as probe:
            probe.bind(("", 0))
            offer = ("127.0.0.1" if len(hosts) == 1 else _routable_address(hosts[1]), probe.getsockname()[1])
    address, port = world.bcast(offer)
    return hosts, address, port


def _slurm_hosts(env: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the job's nodes; asks the controller when the job's variables were stripped."""
    nodelist = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST")
    if not nodelist and env.get("SLURM_JOB_ID") and shutil.which("squeue"):
        nodelist = _ask("squeue", "-h", "-j", env["SLURM_JOB_ID"], "-o", "%N")
    return expand_hostlist(nodelist) if nodelist else ()


def _tasks_on_node(tasks_per_node: str, node_rank: int) -> int:
    """Reads ``2(x3),1``: the number of tasks on node `node_rank`."""
    counts: list[int] = []
    for count, repeat in re.findall(r"(\d+)(?:\(x(\d+)\))?", tasks_per_node):
        counts += [int(count)] * int(repeat or "1")
    return counts[min(node_rank, len(counts) - 1)]


def _with_address(launch: Launch, env: Mapping[str, str], node_rank: int) -> Launch:
    """Adds the rendezvous address and checks that it can be one."""
    if launch.world_size == 1:
        return launch
    job = f"{launch.job_id or ''}.{env.get('SLURM_STEP_ID', '')}.{env.get('SLURM_RESTART_COUNT', '')}"
    port = _number(env, "MASTER_PORT", default=_FIRST_PORT + zlib.crc32(job.encode()) % _NUM_PORTS)
    if address := env.get("MASTER_ADDR"):
        pass
    elif launch.num_nodes == 1:
        address = "127.0.0.1"
    elif launch.hosts:
        address = _node_address(launch.hosts[0])
    else:
        raise UserError(
            f"the rendezvous address of {launch.world_size} processes on {launch.num_nodes} nodes is unknown: "
            "start them with srun or torchrun, install mpi4py, or set MASTER_ADDR to the first node's name"
        )
    if node_rank > 0 and _is_loopback(address):
        raise UserError(
            f"the rendezvous address {address} is the loopback address on {socket.gethostname()}, which is not the "
            "first node: set MASTER_ADDR to a name or address of the first node that the others can reach"
        )
    return replace(launch, address=address, port=port)


def _node_address(node: str) -> str:
    """A name that resolves: Slurm's node name, or else the NodeAddr its controller knows."""
    if _resolves(node):
        return node
    if shutil.which("scontrol"):
        described = re.search(r"\bNodeAddr=(\S+)", _ask("scontrol", "-o", "show", "node", node))
        if described and _resolves(described.group(1)):
            return described.group(1)
    raise UserError(
        f"the first node of the job, '{node}', has no address on {socket.gethostname()}: "
        "mend the name resolution, or set MASTER_ADDR to an address of that node"
    )


def _ask(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(f"`{' '.join(command)}` did not answer ({error}): is the scheduler up?") from error


def _resolves(name: str) -> bool:
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise UserError(f"the rendezvous address '{name}' cannot be resolved: {error.strerror or error}") from error
    return all(str(entry[4][0]).startswith("127.") or entry[4][0] == "::1" for entry in found)


def _routable_address(peer: str) -> str:
    """Returns this node's address on the route to `peer`."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((peer, 9))  # a datagram socket sends nothing until it is written to
            return str(probe.getsockname()[0])
    except OSError as error:
        raise UserError(f"there is no route from {socket.gethostname()} to {peer}: {error.strerror}") from error


def interface_to(peer: str) -> str | None:
    """Name of the network interface on the route to `peer`, or None for loopback."""
    import psutil

    address = _routable_address(peer)
    for name, addresses in psutil.net_if_addrs().items():
        if any(entry.address == address for entry in addresses) and not address.startswith("127."):
            return str(name)
    return None


@contextlib.contextmanager
def process_group(
    launch: Launch | None = None, *, device: str = "cpu", timeout_s: float = TIMEOUT_S
) -> Iterator[Launch]:
    """Initialises `torch.distributed` for the block; a single process gets none.

    Args:
        launch: The process's place; None reads it from the environment.
        device: "cuda" takes NCCL, anything else gloo.
        timeout_s: How long a rank waits for a peer, at the rendezvous and in every collective.

    Raises:
        UserError: The rendezvous address cannot be told, see `detect`, or there is no CUDA device.
        RunFailedError: Not every rank met there in time, or a peer died or fell silent inside the block.
    """
    launch = detect() if launch is None else launch
    if launch.world_size == 1:
        yield launch
        return
    import torch
    import torch.distributed as dist

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise UserError(f"rank {launch.rank} is to use {device}, but torch sees no CUDA device: choose cpu")
    _choose_interface(launch)
    os.environ.update(
        RANK=str(launch.rank),
        WORLD_SIZE=str(launch.world_size),
        MASTER_ADDR=str(launch.address),
        MASTER_PORT=str(launch.port),
    )
    timeout = datetime.timedelta(seconds=timeout_s)
    options: dict[str, Any] = {}
    if device.startswith("cuda"):
        options["device_id"] = torch.device("cuda", launch.local_rank % torch.cuda.device_count())
        torch.cuda.set_device(options["device_id"])
    try:
        dist.init_process_group("nccl" if options else "gloo", timeout=timeout, **options)
    except (RuntimeError, ValueError, TimeoutError) as error:
        raise RunFailedError(
            f"rank {launch.rank} of {launch.world_size} did not meet the others at {launch.address}:{launch.port} "
            f"within {timeout_s:.0f} s ({_first_line(error)}): check that every rank started and that the nodes "
            "reach that port"
        ) from error
    try:
        yield launch
    except (dist.DistError, RuntimeError) as error:
        if not _is_peer_failure(error):
            raise
        raise RunFailedError(
            f"rank {launch.rank} of {launch.world_size} lost a peer ({_first_line(error)}): "
            "start the run again, it resumes from its last checkpoint"
        ) from error
    dist.destroy_process_group()


def _choose_interface(launch: Launch) -> None:
    """Keeps gloo off the loopback: by default it takes the interface that the host's own name resolves to."""
    if launch.num_nodes == 1 or "GLOO_SOCKET_IFNAME" in os.environ:
        return
    own = {socket.gethostname(), socket.gethostname().split(".")[0]}
    peer = next((host for host in launch.hosts if host not in own), launch.address)
    try:
        interface = interface_to(str(peer))
    except UserError:
        return
    if interface is not None:
        os.environ["GLOO_SOCKET_IFNAME"] = interface


# What gloo and NCCL say when the other side is gone.
_PEER_FAILURE = re.compile(
    r"gloo|Gloo|NCCL|Connection (closed|reset|refused)|[Tt]imed? ?out|Broken pipe|unhandled system error", re.S
)


def _is_peer_failure(error: BaseException) -> bool:
    import torch.distributed as dist

    return isinstance(error, dist.DistError) or bool(_PEER_FAILURE.search(str(error)))


def _first_line(error: BaseException) -> str:
    line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    # Without torch's wrapping and the places in its sources.
    return re.sub(r"Unable to cast |\[[^\]]*\.(?:cc|cpp|h):\d+\] *", "", line)[:200]
