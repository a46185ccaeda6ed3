# SPDX-License-Identifier: Apache-2.0
"""How the processes of a run are wired, and the groups that follow from it.

Data flow: each rank reads its own device (NVML, a description file, or just its host) -> all ranks gather the list
in rank order -> every rank derives the same groups from the same list.

A group is a set of ranks that reach each other over NVLink, directly or through an NVSwitch fabric; such a fabric
may span hosts. Groups may have any sizes. Processes without a GPU form one group per host.

NVLink peers, fabrics and PCIe distances are the NVML calls behind `nvidia-smi topo -m` (NVIDIA Management Library
reference, "NvLink methods", "Device queries").
"""

from __future__ import annotations

import dataclasses
import math
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seed_hpc.distributed.launch import Launch
from seed_hpc.distributed.planner import Link
from seed_hpc.errors import UserError, nearest

Groups = tuple[tuple[int, ...], ...]

# NVML's levels of the nearest common ancestor of two PCIe devices, in the words of `nvidia-smi topo`.
_PCIE_LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}

# Bytes per second and direction of one NVLink, by the major compute capability (NVIDIA's architecture white papers:
# P100, V100, A100, H100, B200). NVML's version of a link is an enumeration, and drivers do not agree on Hopper's.
_NVLINK_BYTES_PER_S = {6: 20e9, 7: 25e9, 8: 25e9, 9: 25e9, 10: 50e9}

# Assumed until measured: a PCIe 4.0 x16 slot, a 100 Gbit/s network, and the launch of one NCCL step.
NOMINAL_LINKS = {
    "nvlink": Link(latency_s=3e-6, bytes_per_s=150e9),
    "host": Link(latency_s=6e-6, bytes_per_s=22e9),
    "network": Link(latency_s=12e-6, bytes_per_s=12.5e9),
}


@dataclass(frozen=True, kw_only=True)
class Device:
    """What one rank computes on.

    Attributes:
        host: Name of its node.
        index: Place among the node's devices.
        uuid: NVML's UUID, or ``CPU-<host>-<index>``.
        name: Model.
        nvlink_peers: UUIDs that one of its NVLinks leads to.
        fabric: Name of the switched fabric it hangs on; empty for none. Devices of one fabric all reach each other.
        nvlink_bytes_per_s: Sum over its active NVLinks, one direction; 0 for none.
        pcie: UUID of each other device of the node -> PIX, PXB, PHB, NODE or SYS, from near to far.
    """

    host: str
    index: int
    uuid: str
    name: str = "CPU"
    nvlink_peers: tuple[str, ...] = ()
    fabric: str = ""
    nvlink_bytes_per_s: float = 0.0
    pcie: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_cpu(self) -> bool:
        """True for a rank without a GPU."""
        return self.uuid.startswith("CPU-")

    @property
    def neighbourhood(self) -> set[str]:
        """What it shares with the other devices of its NVLink group; without a GPU that is the host's memory."""
        if self.is_cpu:
            return {f"host {self.host}"}
        return {self.uuid, *self.nvlink_peers} | ({f"fabric {self.fabric}"} if self.fabric else set())


@dataclass(frozen=True, kw_only=True)
class Topology:
    """The devices of a run in rank order, and the links between them.

    Attributes:
        devices: One per rank.
        links: "nvlink", "host", "network" -> cost of that link.
        source: Where it came from: "nvml", "host" or the description file's name.
    """

    devices: tuple[Device, ...]
    links: Mapping[str, Link] = field(default_factory=lambda: dict(NOMINAL_LINKS))
    source: str = "host"

    def nvlink_groups(self) -> Groups:
        """Ranks that reach each other over NVLink: the connected components, each ascending, by first rank."""
        return _components([device.neighbourhood for device in self.devices])

    def host_groups(self) -> Groups:
        """Ranks of the same host."""
        return _components([{device.host} for device in self.devices])

    def inner_link(self, groups: Groups) -> Link:
        """The slowest link inside any of `groups`."""
        number = {rank: number for number, group in enumerate(self.nvlink_groups()) for rank in group}
        joined = all(len({number[rank] for rank in group}) == 1 for group in groups)
        return self.links["nvlink" if joined and not any(device.is_cpu for device in self.devices) else "host"]

    def outer_link(self) -> Link:
        """The link between groups: the network if there is more than one host."""
        return self.links["network" if len({device.host for device in self.devices}) > 1 else "host"]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "source": self.source,
            "devices": [dataclasses.asdict(device) for device in self.devices],
            "nvlink_groups": [list(group) for group in self.nvlink_groups()],
            "host_groups": [list(group) for group in self.host_groups()],
            "links": {name: dataclasses.asdict(link) for name, link in self.links.items()},
        }


def _components(keys: Sequence[Iterable[str]]) -> Groups:
    """Joins the items that share a key, directly or through others."""
    groups: list[tuple[list[int], set[str]]] = []
    for item, own in enumerate(keys):
        members, shared = [item], set(own)
        for group in [group for group in groups if group[1] & shared]:
            members, shared = group[0] + members, shared | group[1]
            groups.remove(group)
        groups.append((sorted(members), shared))
    return tuple(sorted(tuple(members) for members, _ in groups))


def cpu_device(launch: Launch) -> Device:
    """The device of a rank without a GPU."""
    host = socket.gethostname()
    return Device(host=host, index=launch.local_rank, uuid=f"CPU-{host}-{launch.local_rank}")


def nvml_devices(nvml: Any = None) -> tuple[Device, ...]:
    """Reads this node's GPUs.

    Args:
        nvml: The module `pynvml`, or a test's stand-in with the same functions.

    Returns:
        The devices in NVML's order; empty where there is no driver.
    """
    if nvml is None:
        import pynvml

        nvml = pynvml
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return ()
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        uuids = [_text(nvml.nvmlDeviceGetUUID(handle)) for handle in handles]
        buses = {_bus_id(nvml.nvmlDeviceGetPciInfo(handle)): uuid for handle, uuid in zip(handles, uuids, strict=True)}
        return tuple(_nvml_device(nvml, index, handles, buses) for index in range(len(handles)))
    finally:
        nvml.nvmlShutdown()


def _nvml_device(nvml: Any, index: int, handles: Sequence[Any], buses: Mapping[str, str]) -> Device:
    handle, host = handles[index], socket.gethostname()
    peers: set[str] = set()
    fabric, num_links = "", 0
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            if not nvml.nvmlDeviceGetNvLinkState(handle, link):
                continue
            kind = nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link)
            if kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
                fabric = f"nvswitch {host}"
            elif kind == nvml.NVML_NVLINK_DEVICE_TYPE_GPU:
                peer = buses.get(_bus_id(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link)))
                peers |= {peer} if peer else set()
            num_links += 1
        except nvml.NVMLError:
            continue  # no such link on this model, or the driver does not tell: as good as none
    pcie: dict[str, str] = {}
    for other in handles:
        if other is handle:
            continue
        try:
            level = nvml.nvmlDeviceGetTopologyCommonAncestor(handle, other)
        except nvml.NVMLError:
            continue
        pcie[_text(nvml.nvmlDeviceGetUUID(other))] = _PCIE_LEVELS.get(int(level), "SYS")
    return Device(
        host=host,
        index=index,
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        name=_text(nvml.nvmlDeviceGetName(handle)),
        nvlink_peers=tuple(sorted(peers)),
        fabric=_rack_fabric(nvml, handle) or fabric,
        nvlink_bytes_per_s=num_links * _NVLINK_BYTES_PER_S.get(_major(nvml, handle), 50e9),
        pcie=pcie,
    )


def _major(nvml: Any, handle: Any) -> int:
    """Major compute capability; that of V100 to H100 where the driver does not tell."""
    try:
        return int(nvml.nvmlDeviceGetCudaComputeCapability(handle)[0])
    except nvml.NVMLError:
        return 9


def _rack_fabric(nvml: Any, handle: Any) -> str:
    """Cluster and clique of a fabric that spans hosts (GB200 NVL72 and later); empty for none."""
    try:
        info = nvml.c_nvmlGpuFabricInfo_v2_t()
        nvml.nvmlDeviceGetGpuFabricInfoV(handle, nvml.byref(info))
    except (nvml.NVMLError, AttributeError):
        return ""
    cluster = bytes(info.clusterUuid).hex()
    if info.state != nvml.NVML_GPU_FABRIC_STATE_COMPLETED or not cluster.strip("0"):
        return ""
    return f"cluster {cluster} clique {info.cliqueId}"


def _bus_id(pci: Any) -> str:
    # NVML pads the PCI domain to four or eight digits, depending on the call.
    domain, _, rest = _text(pci.busId).lower().partition(":")
    return f"{int(domain, 16):x}:{rest}"


def _text(value: Any) -> str:
    # Older NVML bindings answer in bytes.
    return value.decode() if isinstance(value, bytes) else str(value)


def read_description(path: Path) -> Topology:
    """Reads a topology from a YAML or JSON file, for machines without NVML and for planning.

    The file's form::

        hosts:
          - name: node1
            gpus: 4                       # or a list of {uuid: ..., name: ...}
            nvlink: [[0, 1], [2, 3]]      # sets of GPU indices joined by NVLink; without it: none
        links:                            # optional; latency in microseconds, bandwidth in GB/s and direction
          network: {latency_us: 10, gigabytes_per_s: 25}

    Raises:
        UserError: The file is missing or says something else.
    """
    from omegaconf import OmegaConf

    try:
        content = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    except FileNotFoundError as error:
        raise UserError(f"the topology file {path} does not exist") from error
    except Exception as error:
        raise UserError(f"the topology file {path} is neither YAML nor JSON: {str(error).splitlines()[0]}") from error
    if not isinstance(content, dict):
        raise UserError(f"the topology file {path} must hold 'hosts' and, optionally, 'links'")
    for key in map(str, content):
        if key not in ("hosts", "links"):
            raise UserError(f"{path}: unknown key '{key}'{nearest(key, ('hosts', 'links'))}")
    hosts = content.get("hosts")
    if not isinstance(hosts, list) or not hosts:
        raise UserError(f"{path}: 'hosts' must be a list with a name and a number of GPUs per host")
    devices = tuple(device for host in hosts for device in _described_devices(path, host))
    return Topology(devices=devices, links=_described_links(path, content.get("links") or {}), source=str(path))


def _described_devices(path: Path, host: Any) -> list[Device]:
    if not isinstance(host, dict) or not isinstance(host.get("name"), str):
        raise UserError(f"{path}: every host needs a name")
    for key in map(str, host):
        if key not in ("name", "gpus", "nvlink"):
            raise UserError(f"{path}: unknown key '{key}' of a host{nearest(key, ('name', 'gpus', 'nvlink'))}")
    name, gpus, sets = str(host["name"]), host.get("gpus", 0), host.get("nvlink") or []
    if type(gpus) is int:
        gpus = [{}] * gpus
    if not isinstance(gpus, list) or not gpus or not all(isinstance(gpu, dict) for gpu in gpus):
        raise UserError(f"{path}: host '{name}' needs 'gpus', a number above 0 or a list of {{uuid: ..., name: ...}}")
    if not isinstance(sets, list) or not all(isinstance(members, list) for members in sets):
        raise UserError(
            f"{path}: 'nvlink' of host '{name}' must be a list of sets of GPUs, for example [[0, 1], [2, 3]]"
        )
    devices = []
    for index, gpu in enumerate(gpus):
        joined = [number for number, members in enumerate(sets) if index in members]
        devices.append(
            Device(
                host=name,
                index=index,
                uuid=str(gpu.get("uuid", f"GPU-{name}-{index}")),
                name=str(gpu.get("name", "GPU")),
                fabric=f"{name} set {joined[0]}" if joined else "",
            )
        )
    for index in (index for members in sets for index in members):
        if index not in range(len(gpus)):
            raise UserError(f"{path}: host '{name}' has GPUs 0 to {len(gpus) - 1}, its 'nvlink' names {index}")
    return devices


def _described_links(path: Path, links: Any) -> dict[str, Link]:
    result = dict(NOMINAL_LINKS)
    if not isinstance(links, dict):
        raise UserError(f"{path}: 'links' must hold names and costs, for example network: {{latency_us: 10, ...}}")
    for name, link in links.items():
        if name not in result:
            raise UserError(f"{path}: unknown link '{name}'{nearest(str(name), result)}, known: {', '.join(result)}")
        try:
            latency_us, gigabytes_per_s = float(link["latency_us"]), float(link["gigabytes_per_s"])
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path}: link '{name}' needs latency_us and gigabytes_per_s") from error
        if not (0 <= latency_us < math.inf and 0 < gigabytes_per_s < math.inf):
            raise UserError(f"{path}: link '{name}' needs a latency of 0 or more and a bandwidth above 0")
        result[str(name)] = Link(latency_s=latency_us * 1e-6, bytes_per_s=gigabytes_per_s * 1e9)
    return result


def uuid_of(ordinal: int) -> str:
    """NVML's UUID of a CUDA device of this process."""
    import torch

    return f"GPU-{torch.cuda.get_device_properties(ordinal).uuid}"


def own_device(launch: Launch, device: str) -> Device:
    """The device this rank computes on; on CUDA found by UUID, so that CUDA_VISIBLE_DEVICES may reorder them."""
    if not device.startswith("cuda"):
        return cpu_device(launch)
    import torch

    ordinal = launch.local_rank % torch.cuda.device_count()
    uuid = uuid_of(ordinal)
    known = {found.uuid: found for found in nvml_devices()}
    name = torch.cuda.get_device_name(ordinal)
    return known.get(uuid, Device(host=socket.gethostname(), index=ordinal, uuid=uuid, name=name))


def gather(launch: Launch, *, device: str = "cpu", description: Path | None = None) -> Topology:
    """Gathers the run's topology; called by every rank inside `launch.process_group`.

    Args:
        launch: This process's place.
        device: "cpu" or "cuda".
        description: A file instead of NVML: its devices are the ranks, in order.

    Raises:
        UserError: The file describes another number of devices than there are ranks.
    """
    if description is not None:
        topology = read_description(description)
        if len(topology.devices) != launch.world_size:
            raise UserError(
                f"{description} describes {len(topology.devices)} devices, but the run has {launch.world_size} ranks"
            )
        return topology
    own = own_device(launch, device)
    devices: list[Any] = [own]
    if launch.world_size > 1:
        import torch.distributed as dist

        devices = [None] * launch.world_size
        dist.all_gather_object(devices, own)
    links = dict(NOMINAL_LINKS)
    speeds = [found.nvlink_bytes_per_s for found in devices if found.nvlink_bytes_per_s]
    if speeds:
        links["nvlink"] = dataclasses.replace(links["nvlink"], bytes_per_s=min(speeds))
    return Topology(devices=tuple(devices), links=links, source="nvml" if device.startswith("cuda") else "host")
