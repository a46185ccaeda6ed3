# SPDX-License-Identifier: Apache-2.0
"""Groups from NVML (a stand-in), from description files and from hosts; the command's output."""

import json
from types import SimpleNamespace

import pytest
from forked_ranks import run_ranks

from seed_hpc import cli
from seed_hpc.distributed.topology import Device, Topology, nvml_devices, read_description
from seed_hpc.errors import UserError


class FakeNvml:
    """The part of pynvml that the topology reads, over a described machine.

    `links` maps a GPU to what each of its NVLinks leads to: a GPU's number, "switch" or None for a link that is down.
    """

    NVML_NVLINK_MAX_LINKS = 4
    NVML_NVLINK_DEVICE_TYPE_GPU, NVML_NVLINK_DEVICE_TYPE_SWITCH = 0, 2
    NVML_GPU_FABRIC_STATE_COMPLETED = 3

    class NVMLError(Exception):
        pass

    def __init__(self, num_gpus, links=None, major=9, cluster=None, driver=True):
        self.num_gpus, self.links, self.major = num_gpus, links or {}, major
        self.cluster, self.driver = cluster, driver

    def nvmlInit(self):
        if not self.driver:
            raise self.NVMLError("no driver")

    def nvmlShutdown(self):
        pass

    def nvmlDeviceGetCount(self):
        return self.num_gpus

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetUUID(self, handle):
        return f"GPU-{handle}"

    def nvmlDeviceGetName(self, handle):
        return b"H200"

    def nvmlDeviceGetPciInfo(self, handle):
        return SimpleNamespace(busId=f"00000000:{handle:02X}:00.0")

    def _link(self, handle, link):
        links = self.links.get(handle)
        if links is None or link >= len(links):
            raise self.NVMLError("not supported")
        return links[link]

    def nvmlDeviceGetNvLinkState(self, handle, link):
        return self._link(handle, link) is not None

    def nvmlDeviceGetCudaComputeCapability(self, handle):
        return self.major, 0

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle, link):
        return 2 if self._link(handle, link) == "switch" else 0

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle, link):
        return SimpleNamespace(busId=f"0000:{self._link(handle, link):02x}:00.0".encode())

    def nvmlDeviceGetTopologyCommonAncestor(self, one, other):
        return 10 if one // 2 == other // 2 else 50

    def c_nvmlGpuFabricInfo_v2_t(self):
        return SimpleNamespace(clusterUuid=bytes(16), state=0, cliqueId=0)

    def byref(self, value):
        return value

    def nvmlDeviceGetGpuFabricInfoV(self, handle, info):
        if self.cluster is None:
            raise self.NVMLError("not supported")
        info.clusterUuid, info.state, info.cliqueId = self.cluster, 3, 7


def groups(nvml):
    return Topology(devices=nvml_devices(nvml)).nvlink_groups()


def test_nvlink_pairs_and_a_gpu_without_links():
    nvml = FakeNvml(5, {0: [1, 1], 1: [0, 0], 2: [3, None], 3: [2, None]})
    assert groups(nvml) == ((0, 1), (2, 3), (4,))
    devices = nvml_devices(nvml)
    assert devices[0].nvlink_bytes_per_s == 50e9
    assert devices[2].nvlink_bytes_per_s == 25e9
    (newer, *_) = nvml_devices(FakeNvml(2, {0: [1] * 4, 1: [0] * 4}, major=10))
    assert newer.nvlink_bytes_per_s == 200e9  # B200
    assert devices[0].pcie == {"GPU-1": "PIX", "GPU-2": "SYS", "GPU-3": "SYS", "GPU-4": "SYS"}


def test_a_chain_of_links_is_one_group():
    assert groups(FakeNvml(4, {0: [3], 3: [0, 1], 1: [3, 2], 2: [1]})) == ((0, 1, 2, 3),)


def test_nvswitch_joins_all_gpus_of_a_host():
    assert groups(FakeNvml(3, {gpu: ["switch"] * 4 for gpu in range(3)})) == ((0, 1, 2),)


def test_a_rack_fabric_joins_hosts():
    (device,) = nvml_devices(FakeNvml(1, {0: ["switch"]}, cluster=bytes([9]) * 16))
    assert device.fabric.endswith("clique 7")
    far = Device(host="elsewhere", index=0, uuid="GPU-far", fabric=device.fabric)
    assert Topology(devices=(device, far)).nvlink_groups() == ((0, 1),)


def test_no_driver_no_devices():
    assert nvml_devices(FakeNvml(2, driver=False)) == ()


def test_description_file(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(
        "hosts:\n"
        "  - {name: a, gpus: 4, nvlink: [[0, 1], [2, 3]]}\n"
        "  - {name: b, gpus: [{uuid: GPU-x}]}\n"
        "links:\n  network: {latency_us: 10, gigabytes_per_s: 25}\n"
    )
    found = read_description(path)
    assert found.nvlink_groups() == ((0, 1), (2, 3), (4,))
    assert found.host_groups() == ((0, 1, 2, 3), (4,))
    assert found.devices[4].uuid == "GPU-x"
    assert found.outer_link().bytes_per_s == 25e9
    assert found.inner_link(found.nvlink_groups()) == found.links["nvlink"]
    assert found.inner_link(found.host_groups()) == found.links["host"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("host: []", "did you mean 'hosts'"),
        ("hosts: []", "must be a list"),
        ("hosts: [{gpus: 2}]", "needs a name"),
        ("hosts: [{name: a, gpus: 0}]", "above 0"),
        ("hosts: [{name: a, gpus: true}]", "above 0"),
        ("hosts: [{name: a, gpus: [x, y]}]", "a list of"),
        ("hosts: [{name: a, gpus: 2, nvlnk: [[0, 1]]}]", "did you mean 'nvlink'"),
        ("hosts: [{name: a, gpus: 2, nvlink: [[0, 2]]}]", "names 2"),
        ("hosts: [{name: a, gpus: 2, nvlink: [[0, 1], [b]]}]", "names b"),
        ("hosts: [{name: a, gpus: 2, nvlink: 3}]", "list of sets"),
        ("hosts: [{name: a, gpus: 1}]\nlinks: [1]", "names and costs"),
        (
            "hosts: [{name: a, gpus: 1}]\nlinks: {network: {latency_us: .nan, gigabytes_per_s: 1}}",
            "latency of 0 or more",
        ),
        (
            "hosts: [{name: a, gpus: 1}]\nlinks: {netwrok: {latency_us: 1, gigabytes_per_s: 1}}",
            "did you mean 'network'",
        ),
        ("hosts: [{name: a, gpus: 1}]\nlinks: {network: {latency_us: 1}}", "needs latency_us"),
        ("hosts: [{name: a, gpus: 1}]\nlinks: {network: {latency_us: 1, gigabytes_per_s: 0}}", "above 0"),
        ("{", "neither YAML nor JSON"),
    ],
)
def test_wrong_descriptions(tmp_path, text, message):
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_description(path)


def test_every_rank_derives_the_same_groups(tmp_path):
    ranks = run_ranks("gathered_groups", 3, tmp_path)
    assert all(rank == (((0, 1, 2),), ((0, 1, 2),), [0, 1, 2]) for rank in ranks)


def test_command_prints_groups_and_predicted_costs(tmp_path, capsys, monkeypatch):
    for name in ("TORCHELASTIC_RUN_ID", "OMPI_COMM_WORLD_RANK", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "160")
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"hosts": [{"name": n, "gpus": 4, "nvlink": [[0, 1, 2, 3]]} for n in ("a", "b")]}))
    out = tmp_path / "out.json"
    assert cli.main(["topology", "--file", str(path), "--json", str(out), "--megabytes", "100"]) == 0
    assert "2 groups of ranks: 0 1 2 3 | 4 5 6 7" in capsys.readouterr().out
    result = json.loads(out.read_text())
    assert result["nvlink_groups"] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert result["cost_is"] == "predicted"
    assert result["chosen"] == min(result["cost_s"], key=result["cost_s"].get) == "grouped_reduce_scatter"


def test_command_without_gpu_shows_the_host(capsys, monkeypatch):
    monkeypatch.delenv("SLURM_STEP_NUM_TASKS", raising=False)
    assert cli.main(["topology", "--device", "cpu"]) == 0
    assert "1 group of ranks: 0" in capsys.readouterr().out


def test_command_refuses_what_makes_no_sense(tmp_path, capsys):
    assert cli.main(["topology", "--device", "cpu", "--measure"]) == 2
    assert "two ranks" in capsys.readouterr().err
    assert cli.main(["topology", "--megabytes", "0"]) == 2
    assert cli.main(["topology", "--file", str(tmp_path / "none.yaml")]) == 2
    assert "does not exist" in capsys.readouterr().err
