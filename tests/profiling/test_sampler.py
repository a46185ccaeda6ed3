# SPDX-License-Identifier: Apache-2.0
"""The sampler against a stand-in for NVML: every kind of device, and rows that survive a crash."""

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seed_hpc.errors import UserError
from seed_hpc.profiling import nvml, sampler
from seed_hpc.profiling.sampler import GPU_SCHEMA, Sampler, read_samples

ROOT = Path(__file__).parents[2]
GIB = 1 << 30

SAMPLE = """
    import json, time
    from pathlib import Path
    from seed_hpc.profiling.sampler import Sampler, read_samples
    folder = Path("{folder}")
    with Sampler(folder, hz=50):
        time.sleep({seconds})
    samples = read_samples(folder)
    print(json.dumps({{"info": samples.info, "gpu": samples.gpu.to_pylist(), "host": samples.host.to_pylist()}}))
"""


def sample(with_nvml, folder, scenario, *, seconds=0.3, **options):
    return json.loads(with_nvml(scenario, SAMPLE.format(folder=folder, seconds=seconds), **options))


def test_one_gpu_with_every_reading(with_nvml, tmp_path):
    result = sample(with_nvml, tmp_path, "one", seconds=0.6)
    info, rows = result["info"], result["gpu"]
    assert (info["backend"], info["reason"], info["driver_version"]) == ("nvml", None, "550.54.15")
    (device,) = info["devices"]
    assert device["uuid"] == "GPU-00000010-0000-4000-8000-000000000000"
    assert device["name"] == "NVIDIA H100 80GB HBM3"
    assert device["unsupported"] == {}
    assert len(rows) == info["readings"] == len(result["host"]) > 5
    last = rows[-1]
    constant = {
        "gpu_utilization_pct": 10.0,
        "memory_utilization_pct": 5.0,
        "memory_used_bytes": GIB,
        "memory_total_bytes": 80 * GIB,
        "sm_clock_mhz": 1980,
        "memory_clock_mhz": 2619,
        "throttle_reasons": "power_cap+hardware_thermal",
        "power_w": 300.5,
        "temperature_c": 40,
        "ecc_corrected": 3,
        "ecc_uncorrected": 0,
        "gpm_sm_utilization_pct": 2.0,
        "gpm_sm_occupancy_pct": 3.0,
        "gpm_tensor_pct": 5.0,
        "gpm_fp32_pct": None,  # this metric alone is missing
        "gpm_dram_pct": 10.0,
    }
    assert {name: last[name] for name in constant} == constant
    # The counters grow with the clock: rates and energy are differences over the whole sampling.
    first = rows[1]
    elapsed = last["time_s"] - first["time_s"]
    assert last["energy_j"] - first["energy_j"] == pytest.approx(300 * elapsed, rel=0.25)
    rates = {"pcie_tx": 1e9, "pcie_rx": 2e9, "nvlink_tx": 4 * GIB, "nvlink_rx": 8 * GIB}
    for name, expected in rates.items():
        values = [row[f"{name}_bytes_per_s"] for row in rows[1:-1]]
        assert statistics.median(values) == pytest.approx(expected, rel=0.25)
    assert rows[0]["pcie_tx_bytes_per_s"] is None  # one reading has no rate


def test_without_a_driver_the_host_is_sampled_and_the_reason_is_given(with_nvml, tmp_path):
    for scenario, reason in (("no_driver", "Driver Not Loaded"), ("mismatch", "mismatch"), ("no_gpu", "lists no GPU")):
        result = sample(with_nvml, tmp_path / scenario, scenario)
        assert result["info"]["backend"] == "host"
        assert reason in result["info"]["reason"]
        assert any("no GPU readings" in note for note in result["info"]["notes"])
        assert result["gpu"] == []
        row = result["host"][-2]
        assert row["memory_total_bytes"] > row["memory_used_bytes"] > 0
        assert row["process_rss_bytes"] > 10_000_000
        assert not (tmp_path / scenario / "gpu.parquet").exists()


def test_unsupported_readings_are_null_with_a_reason_and_never_zero(with_nvml, tmp_path):
    result = sample(with_nvml, tmp_path, "no_utilization")
    (device,) = result["info"]["devices"]
    missing = {name for name, reason in device["unsupported"].items() if reason == "not supported"}
    assert {"gpu_utilization_pct", "power_w", "energy_j", "nvlink_tx_bytes_per_s", "ecc_corrected"} <= missing
    assert {"gpm_sm_utilization_pct", "gpm_dram_pct"} <= missing
    for row in result["gpu"]:
        assert all(row[name] is None for name in missing)
        assert (row["memory_used_bytes"], row["temperature_c"]) == (GIB, 40)
    assert any("Xid events are not supported" in note for note in result["info"]["notes"])


def test_an_older_driver_lacks_newer_functions(with_nvml, tmp_path):
    result = sample(with_nvml, tmp_path, "one", options=("-DOLD_DRIVER",))
    row = result["gpu"][-1]
    assert row["throttle_reasons"] == "power_cap+hardware_thermal"
    assert row["pcie_tx_bytes_per_s"] == 1000 * 1024  # the throughput call instead of byte counters
    assert row["pcie_rx_bytes_per_s"] == 2000 * 1024


def test_a_lost_gpu_does_not_end_the_sampling(with_nvml, tmp_path):
    result = sample(with_nvml, tmp_path, "lost")
    healthy, lost = result["info"]["devices"]
    assert (healthy["lost"], lost["lost"]) == (False, True)
    rows = {uuid: [row for row in result["gpu"] if row["uuid"] == uuid] for uuid in (healthy["uuid"], lost["uuid"])}
    assert len(rows[healthy["uuid"]]) == len(rows[lost["uuid"]])
    used = [row["memory_used_bytes"] for row in rows[lost["uuid"]]]
    assert used[:2] == [2 * GIB, 2 * GIB]
    assert set(used[2:]) == {None}
    assert rows[healthy["uuid"]][-1]["gpu_utilization_pct"] == 10.0
    (event,) = result["info"]["events"]
    assert (event["uuid"], event["xid"]) == (lost["uuid"], 79)
    assert any("was lost" in note for note in result["info"]["notes"])


def test_mig_instances_have_rows_of_their_own(with_nvml, tmp_path):
    result = sample(with_nvml, tmp_path, "mig")
    parent, first, second = result["info"]["devices"]
    assert parent["parent_uuid"] is None
    assert (first["parent_uuid"], second["parent_uuid"]) == (parent["uuid"],) * 2
    assert first["uuid"] == "MIG-000000a1-0000-4000-8000-000000000001"
    last = {row["uuid"]: row for row in result["gpu"]}
    assert last[first["uuid"]]["memory_used_bytes"] == GIB
    assert last[second["uuid"]]["memory_used_bytes"] == 2 * GIB
    assert last[second["uuid"]]["memory_total_bytes"] == 40 * GIB
    assert last[parent["uuid"]]["power_w"] == 300.5
    assert last[first["uuid"]]["power_w"] is None
    # In MIG mode a GPU has no utilization; GPM gives one for each instance (the metric plus 100 plus the instance).
    assert parent["unsupported"]["gpu_utilization_pct"] == "not supported"
    assert last[first["uuid"]]["gpm_sm_utilization_pct"] == 2 + 101
    assert last[second["uuid"]]["gpm_sm_utilization_pct"] == 2 + 102


def test_devices_are_known_by_uuid_whatever_cuda_visible_devices_says(with_nvml, tmp_path):
    result = sample(with_nvml, tmp_path, "groups", environment={"CUDA_VISIBLE_DEVICES": "3,1"})
    devices = result["info"]["devices"]
    assert [device["index"] for device in devices] == list(range(8))
    for device in devices:
        rows = [row for row in result["gpu"] if row["uuid"] == device["uuid"]]
        assert {row["gpu_utilization_pct"] for row in rows} == {10.0 * (device["index"] + 1)}


def test_nvlink_states_and_compute_capability(with_nvml):
    code = """
        from seed_hpc.profiling.nvml import Nvml
        with Nvml() as session:
            device = session.devices[0]
            print(sum(session.nvlink_states(device)), len(session.nvlink_states(device)),
                  session.compute_capability(device), session.cuda_version(), session.mig_enabled(device))
    """
    assert with_nvml("groups", code).strip() == "6 18 (9, 0) (12, 4) False"
    assert with_nvml("nvswitch", code).strip() == "18 18 (9, 0) (12, 4) False"
    assert with_nvml("no_utilization", code).strip() == "0 0 (9, 0) (12, 4) None"


def test_rows_survive_a_kill(nvml_double, tmp_path):
    code = (
        "import time; from pathlib import Path; from seed_hpc.profiling import sampler; "
        "sampler._FLUSH_PERIOD_S = 0.05; sampler._PARTS_PER_MERGE = 4; "
        f"sampler.Sampler(Path({str(tmp_path)!r}), hz=50).start(); print('on', flush=True); time.sleep(60)"
    )
    environment = {"PYTHONPATH": str(ROOT), "LD_LIBRARY_PATH": str(nvml_double()), "NVML_DOUBLE": "one"}
    process = subprocess.Popen([sys.executable, "-c", code], env=os.environ | environment, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"on\n"
        time.sleep(1.0)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    samples = read_samples(tmp_path)
    assert samples.info["ended_s"] is None
    assert samples.gpu.num_rows >= 3
    times = samples.gpu.column("time_s").to_pylist()
    assert times == sorted(set(times))  # in order, none twice
    assert set(samples.gpu.column("memory_used_bytes").to_pylist()) == {GIB}
    for path in tmp_path.glob("*.parquet"):
        pq.read_table(path)  # every file is complete


def test_parts_are_merged_and_a_merged_part_hides_its_pieces(tmp_path):
    def table(time_s):
        row = dict.fromkeys(GPU_SCHEMA.names) | {"time_s": float(time_s), "uuid": "GPU-1"}
        return pa.Table.from_pylist([row], schema=GPU_SCHEMA)

    (tmp_path / "sampler.json").write_text("{}")
    for part in range(3):
        pq.write_table(table(part), tmp_path / f"gpu-{part:06d}-{part:06d}.parquet")
    # A crash between writing the merged file and removing its pieces.
    pq.write_table(pa.concat_tables([table(0), table(1)]), tmp_path / "gpu-000000-000001.parquet")
    assert read_samples(tmp_path).gpu.column("time_s").to_pylist() == [0.0, 1.0, 2.0]
    sampler._merge(tmp_path, "gpu", tmp_path / "gpu.parquet", 0, 3)
    assert [path.name for path in tmp_path.glob("*.parquet")] == ["gpu.parquet"]
    assert read_samples(tmp_path).gpu.column("time_s").to_pylist() == [0.0, 1.0, 2.0]


def test_a_slow_reading_leaves_readings_out_instead_of_falling_behind(tmp_path, monkeypatch):
    read = sampler.host.Host.read

    def slow(self):
        time.sleep(0.12)
        return read(self)

    monkeypatch.setattr(sampler.host.Host, "read", slow)
    with Sampler(tmp_path, hz=20):
        time.sleep(1.0)
    info = read_samples(tmp_path).info
    assert info["missed"] >= info["readings"] - 2 > 0


def test_a_failing_reading_is_noted_and_does_not_raise(tmp_path, monkeypatch):
    calls = []

    def fail(self):
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("boom")
        return dict.fromkeys(sampler.host.FIELDS)

    monkeypatch.setattr(sampler.host.Host, "read", fail)
    with Sampler(tmp_path, hz=50):
        while len(calls) < 3:
            time.sleep(0.01)
    samples = read_samples(tmp_path)
    assert samples.host.num_rows == 2
    assert any("boom" in note for note in samples.info["notes"])


def test_host_rates_are_differences(monkeypatch):
    class Counters:
        def __init__(self, **values):
            self.__dict__.update(values)

    class Times(tuple):
        idle = property(lambda self: self[1])
        iowait = property(lambda self: self[2])

    now, cpu, moved = [100.0], [Times((10.0, 50.0, 5.0))], [1000]
    monkeypatch.setattr(sampler.host.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sampler.host.psutil, "cpu_times", lambda: cpu[0])
    disk = lambda: Counters(read_bytes=moved[0], write_bytes=0)  # noqa: E731
    network = lambda: Counters(bytes_sent=2 * moved[0], bytes_recv=0)  # noqa: E731
    monkeypatch.setattr(sampler.host.psutil, "disk_io_counters", disk)
    monkeypatch.setattr(sampler.host.psutil, "net_io_counters", network)
    reader = sampler.host.Host()
    first = reader.read()
    assert (first["cpu_pct"], first["disk_read_bytes_per_s"], first["process_cpu_pct"]) == (None, None, None)
    now[0], cpu[0], moved[0] = 100.5, Times((13.0, 55.0, 7.0)), 1600
    second = reader.read()
    assert second["cpu_pct"] == pytest.approx(30.0)  # 3 busy of 10; waiting for I/O is idle
    assert second["disk_read_bytes_per_s"] is None  # traffic is read once a second
    now[0], cpu[0], moved[0] = 102.0, Times((13.0, 55.0, 7.0)), 5000
    third = reader.read()
    assert third["cpu_pct"] is None  # no tick since the reading before
    assert third["disk_read_bytes_per_s"] == pytest.approx(2000.0)
    assert third["network_sent_bytes_per_s"] == pytest.approx(4000.0)
    now[0], moved[0] = 102.5, 9000
    assert reader.read()["disk_read_bytes_per_s"] == pytest.approx(2000.0)  # held


def test_unusable_arguments_are_refused(tmp_path):
    for hz in (0, -1, 101, float("nan")):
        with pytest.raises(UserError, match="Hz"):
            Sampler(tmp_path, hz=hz)
    pq.write_table(GPU_SCHEMA.empty_table(), tmp_path / "gpu.parquet")
    with pytest.raises(UserError, match="already holds samples"):
        Sampler(tmp_path)
    with pytest.raises(UserError, match=r"no sampler\.json"):
        read_samples(tmp_path)


def test_a_run_is_sampled_once_per_node_and_resumption(tmp_path):
    for environ, hz in (({}, 50.0), ({"LOCAL_RANK": "0"}, 50.0), ({"SLURM_LOCALID": "1"}, 50.0), ({}, 0.0)):
        with sampler.sample_run(tmp_path, hz, environ):
            time.sleep(0.05)
    folders = sorted(path.name.rpartition("-")[2] for path in (tmp_path / "samples").iterdir())
    assert folders == ["0", "1"]


def test_a_folder_that_cannot_be_written_does_not_end_the_run(tmp_path, caplog):
    (tmp_path / "samples").write_text("a file where the folder should be")
    with sampler.sample_run(tmp_path, 50.0, {}):
        pass
    assert "the run is not sampled" in caplog.text


def test_every_field_has_a_column():
    assert set(nvml.FIELDS) <= set(GPU_SCHEMA.names)
    assert {name for names, _ in nvml._READERS for name in names} == set(nvml.FIELDS)
