# SPDX-License-Identifier: Apache-2.0
"""Analysis of profiles and samples against values worked out by hand, and every rule of the findings."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seed_hpc import cli
from seed_hpc.errors import UserError
from seed_hpc.profiling import analysis, ceilings, findings, run_analysis, sampler
from seed_hpc.profiling.analysis import Ceilings, Efficiency, Occupancy, Overlap, RooflinePoint
from seed_hpc.profiling.findings import Evidence, find
from seed_hpc.profiling.nsys import Interval
from seed_hpc.profiling.profiler_files import read_profiler_file
from seed_hpc.profiling.sampler import read_samples
from seed_hpc.profiling.tables import KernelLaunch, Profile, Summary

DATA = Path(__file__).parent / "data"


def kernel(start, end, name="gemm", device=0, stream=7):
    return Interval(start, end, name, device, stream)


# ---- overlap


def test_overlap_of_communication_and_computation():
    #  compute        0-10, 5-20 (overlapping streams), 40-50; communication 15-30, 45-47
    rows = analysis.overlap(
        [
            kernel(0, 10),
            kernel(5, 20, stream=8),
            kernel(15, 30, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=9),
            kernel(40, 50),
            kernel(45, 47, "ncclDevKernel_AllGather", stream=9),
            kernel(0, 4, device=1),
        ]
    )
    first, second = rows
    assert first == Overlap(device=0, span_ns=50, compute_ns=30, communication_ns=17, overlapped_ns=7, idle_ns=10)
    assert first.exposed_ns == 10
    assert first.hidden_share == pytest.approx(7 / 17)
    assert second == Overlap(device=1, span_ns=4, compute_ns=4, communication_ns=0, overlapped_ns=0, idle_ns=0)
    assert second.hidden_share is None
    assert analysis.overlap([]) == []


# ---- parallel efficiency


def test_pop_metrics_multiply():
    result = analysis.pop_efficiency([8.0, 6.0, 6.0, 4.0], 10.0)
    assert result == Efficiency(ranks=4, load_balance=0.75, communication=0.8, parallel=pytest.approx(0.6))
    assert result.parallel == pytest.approx(result.load_balance * result.communication)
    for useful, elapsed in (([], 1.0), ([1.0], 0.0), ([2.0], 1.0), ([-1.0], 1.0)):
        with pytest.raises(ValueError, match="useful times"):
            analysis.pop_efficiency(useful, elapsed)


def test_scaling_is_against_the_smallest_number_of_ranks():
    two, eight = analysis.scaling({8: 3000.0, 2: 1000.0})
    assert (two.speedup, two.efficiency) == (1.0, 1.0)
    assert (eight.speedup, eight.efficiency) == (3.0, 0.75)
    assert analysis.scaling({}) == []


# ---- kernels


def launches(name):
    return read_profiler_file(DATA / name).launches


def test_occupancy_and_its_limiter_from_a_real_measurement():
    registers, full = (analysis.occupancy(launch) for launch in launches("ncu_mc_raw.csv"))
    assert (registers.limited_by, registers.waves) == (("registers",), 4.49)
    assert registers.theoretical_pct == pytest.approx(100 / 3, abs=1e-4)
    assert registers.achieved_pct == 28.073377
    assert (full.theoretical_pct, full.limited_by) == (100.0, ())
    (loop,) = (analysis.occupancy(launch) for launch in launches("ncu_loop_details.csv"))
    assert (loop.theoretical_pct, loop.achieved_pct, loop.limited_by) == (50.0, 43.22, ("registers",))


def launch(**values):
    return KernelLaunch(
        launch_id="0", name="k", block=None, grid=None, device=None, compute_capability=None, count=1, duration_ns=1.0,
        values=values,
    )  # fmt: skip


def test_the_longest_launch_stands_for_its_kernel():
    rows = [launch(theoretical_occupancy_pct=float(i)) for i in range(3)]
    for row, duration in zip(rows, (5.0, 9.0, 7.0), strict=True):
        row.duration_ns = duration
    chosen = analysis.longest_launches(Profile(tool="ncu", version=None, source="a", launches=rows))
    assert [row.duration_ns for row in chosen] == [9.0]


def test_small_kernels_are_not_worth_a_finding():
    kernels = [
        Summary(name=name, count=1, total_ns=1, share_pct=share) for name, share in (("big", 95.1), ("tiny", 4.9))
    ]
    assert findings.prominent(Profile(tool="ncu", version=None, source="a", kernels=kernels)) == {"big"}


def test_occupancy_with_two_limits_and_without_counters():
    both = analysis.occupancy(
        launch(
            theoretical_occupancy_pct=50.0, limit_registers_blocks=4.0, limit_warps_blocks=4.0, limit_blocks_blocks=32.0
        )
    )
    assert both.limited_by == ("registers", "warps")
    assert analysis.occupancy(launch()) is None


def test_roofline_of_a_real_kernel():
    first, second = launches("ncu_mc_raw.csv")
    peaks = analysis.peak_ceilings(second)
    # 8704 fused operations a cycle at 1.440009 GHz; 80 bytes a cycle at 9.442674 GHz.
    assert peaks.flops == pytest.approx(2 * 8704 * 1.440009e9)
    assert peaks.bytes_per_s == pytest.approx(80 * 9.442674e9)
    point = analysis.roofline_point(second, peaks)
    assert point.flops == pytest.approx((2.742272 + 3.656363) * 1.440009e9)  # additions and multiplications, none fused
    assert point.intensity == pytest.approx(point.flops / 6.904384e9)
    assert (point.bound, point.bytes_per_s) == ("memory", 6.904384e9)
    assert point.share == pytest.approx(6.904384e9 / peaks.bytes_per_s)  # a memory-bound kernel: share of the bandwidth
    assert analysis.roofline_point(first, peaks) is None  # no single precision operation
    assert analysis.roofline_point(launch(), peaks) is None


def test_roofline_above_the_ridge_is_bound_by_arithmetic():
    roof = Ceilings(flops=1000.0, bytes_per_s=10.0, measured=True)
    values = {"fadd_per_cycle": 0.0, "fmul_per_cycle": 0.0, "ffma_per_cycle": 2.0, "sm_clock_hz": 100.0}
    point = analysis.roofline_point(launch(**values, dram_bytes_per_s=2.0), roof)
    assert (point.flops, point.intensity, point.bound, point.share) == (400.0, 200.0, "compute", 0.4)


def test_measured_ceilings_are_ordered(monkeypatch):
    monkeypatch.setattr(ceilings, "_COPY_BYTES", {"cpu": 1 << 20})
    monkeypatch.setattr(ceilings, "_MATRIX_SIZE", {"cpu": 64})
    document = ceilings.measure("cpu", repeats=3)
    for key in ("flops", "bytes_per_s"):
        assert 0 < document[key]["min"] <= document[key]["median"] <= document[key]["max"]
    assert ceilings.from_json(document).flops == document["flops"]["median"]
    with pytest.raises(UserError, match="use cuda or cpu"):
        ceilings.measure("tpu")


# ---- samples

GPU = [{"uuid": "A"}, {"uuid": "B", "parent_uuid": None}, {"uuid": "M", "parent_uuid": "A"}]


def row(time_s, uuid, energy_j=None, power_w=None, **fields):
    return {"time_s": time_s, "uuid": uuid, "energy_j": energy_j, "power_w": power_w, **fields}


def test_energy_prefers_the_counter_and_integrates_power_otherwise():
    rows = [
        row(0.0, "A", energy_j=1000.0, power_w=999.0), row(0.0, "B", power_w=100.0), row(0.0, "M"),
        row(2.0, "A", energy_j=1600.0, power_w=999.0), row(2.0, "B", power_w=200.0), row(2.0, "M"),
        row(3.0, "A", energy_j=1900.0, power_w=999.0), row(3.0, "B", power_w=200.0), row(3.0, "M"),
    ]  # fmt: skip
    result = analysis.energy(rows, GPU)
    assert result.joules == 900.0 + (2 * 150.0 + 1 * 200.0)
    assert result.source == "energy counter and power"
    assert analysis.energy(rows, GPU[:1]).source == "energy counter"
    assert analysis.energy([row(0.0, "A"), row(1.0, "A")], GPU[:1]).joules is None
    assert analysis.energy(rows, []).source == "the run used no GPU"


def test_frames_between_two_times():
    points = ((110.0, 1000), (120.0, 3000), (130.0, 3500))
    lines = [{"unix_time_s": time_s, "frames": frames} for time_s, frames in points]
    assert analysis.frames_between(lines, 115.0, 124.0) == 1000 + 200
    assert analysis.frames_between(lines, 0.0, 999.0) == 2500
    assert analysis.frames_between(lines, 131.0, 140.0) is None
    assert analysis.frames_between(lines[:1], 0.0, 999.0) is None


def test_utilisation_leaves_out_what_was_not_measured():
    rows = [
        {"gpu_utilization_pct": float(value), "power_w": None, "memory_used_bytes": 1 << 30} for value in range(1, 11)
    ]
    table = {entry["metric"]: entry for entry in analysis.utilisation("n1 GPU 0", rows)}
    assert table["gpu_utilisation"] == {
        "device": "n1 GPU 0", "metric": "gpu_utilisation", "unit": "%", "median": 5.5, "p90": 9.0, "max": 10.0,
    }  # fmt: skip
    assert table["memory"]["max"] == 1.0
    assert "power" not in table


def test_a_timeline_is_means_of_equal_stretches_without_the_time_between_parts():
    first = [{"time_s": 100.0 + step, "power_w": 10.0 * step, "cpu_pct": None} for step in range(481)]
    second = [{"time_s": 9000.0 + step, "power_w": None if step < 100 else 7.0} for step in range(481)]
    (row,) = analysis.timeline("n1 GPU 0", [first, [], second])
    assert (row["device"], row["metric"], row["unit"]) == ("n1 GPU 0", "power", "W")
    assert len(row["time_s"]) == len(row["values"]) == 240
    assert row["time_s"][:2] == [2.0, 6.0]  # stretches of 4 s
    assert row["values"][:2] == [15.0, 55.0]  # of 0, 10, 20, 30 and of 40 to 70
    assert row["values"][121] is None
    assert row["values"][200] == 7.0
    assert row["time_s"][-1] == 958.0


def test_a_timeline_of_one_sample_and_of_none():
    (row,) = analysis.timeline("n1", [[{"time_s": 5.0, "cpu_pct": 50.0}]])
    assert row["values"] == [50.0]
    assert analysis.timeline("n1", [[], []]) == analysis.timeline("n1", []) == []


def test_throttled_shares():
    rows = [{"throttle_reasons": text} for text in ("", "power_cap", "power_cap+thermal", "idle")]
    assert analysis.throttled_shares([*rows, {"throttle_reasons": None}]) == {"power_cap": 0.5, "thermal": 0.25}
    assert analysis.throttled_shares([{"throttle_reasons": None}]) == {}


# ---- findings: each rule says its sentence, and is silent just below its threshold


def rules(**evidence):
    return [(finding.rule, finding.severity) for finding in find(Evidence(subject="pong/1", **evidence))]


def overlap_row(communication_ns=0, overlapped_ns=0, idle_ns=0):
    return Overlap(
        device=0, span_ns=1000, compute_ns=500, communication_ns=communication_ns, overlapped_ns=overlapped_ns,
        idle_ns=idle_ns,
    )  # fmt: skip


def test_no_evidence_no_findings():
    assert find(Evidence(subject="x")) == []


def test_rule_gpu_failures():
    assert rules(events=[{"uuid": "A", "xid": 79}]) == [("gpu_xid", "serious")]
    assert rules(lost=["A"]) == [("gpu_lost", "serious")]
    assert rules(ecc_uncorrected={"A": 2, "B": 0}) == [("gpu_ecc", "serious")]
    assert rules(ecc_uncorrected={"A": 0}) == []


def test_rule_throttling():
    (finding,) = find(Evidence(subject="x", throttled={"n1 GPU 0: thermal": 0.25}))
    assert (finding.rule, finding.severity) == ("throttling", "warning")
    assert finding.text == "n1 GPU 0 lowered its clocks because of heat in 25 % of the samples."
    assert rules(throttled={"n1 GPU 0: power_cap": 0.5}) == [("throttling", "info")]
    assert rules(throttled={"n1 GPU 0: thermal": 0.04}) == []


def test_rule_exposed_communication():
    assert rules(overlaps=[overlap_row(200, 90)]) == [("exposed_communication", "warning")]
    assert rules(overlaps=[overlap_row(200, 190)]) == [("exposed_communication", "good")]
    assert rules(overlaps=[overlap_row(200, 140)]) == []
    (finding,) = find(Evidence(subject="x", overlaps=[overlap_row(200, 50)]))
    assert "waits 15 % of its time for communication; 25 % of the communication is hidden" in finding.text


def test_rule_idle_device():
    assert rules(overlaps=[overlap_row(idle_ns=300)]) == [("idle_device", "warning")]
    assert rules(overlaps=[overlap_row(idle_ns=299)]) == []


def profile(tool="nsys", *, kernel_ns=1_000_000, count=100, memory=(), notes=()):
    kernels = [Summary(name="gemm", count=count, total_ns=kernel_ns)]
    return Profile(tool=tool, version=None, source="a", kernels=kernels, memory=list(memory), notes=list(notes))


def test_rule_short_kernels():
    assert rules(profiles=[profile(kernel_ns=499_999)]) == [("short_kernels", "warning")]
    assert rules(profiles=[profile(kernel_ns=500_000)]) == []
    assert rules(profiles=[profile(kernel_ns=300_000, count=99)]) == []
    assert rules(profiles=[profile("ncu", kernel_ns=100)]) == []


@pytest.mark.parametrize(
    "name", ["[CUDA memcpy Host-to-Device]", "[CUDA memcpy DtoH]", "Memcpy HtoD (Pinned -> Device)"]
)
def test_rule_copies(name):
    copy = Summary(name=name, count=3, total_ns=100_000)
    inside = Summary(name="[CUDA memcpy Device-to-Device]", count=1, total_ns=900_000)
    assert rules(profiles=[profile(memory=[copy])]) == [("copies", "warning")]
    assert rules(profiles=[profile(memory=[inside])]) == []
    (finding,) = find(Evidence(subject="x", profiles=[profile(memory=[copy])]))
    assert "10 % of the kernels' time (3 copies, a)" in finding.text


def occupancy_row(theoretical, achieved, waves=4.0):
    return Occupancy(
        kernel="step", theoretical_pct=theoretical, achieved_pct=achieved, limited_by=("registers",), waves=waves
    )


def test_rule_low_occupancy():
    assert rules(occupancies=[occupancy_row(33.0, 30.0)]) == [("low_occupancy", "info")]
    assert rules(occupancies=[occupancy_row(100.0, 59.0)]) == [("uneven_blocks", "info")]
    assert rules(occupancies=[occupancy_row(100.0, 10.0, waves=0.4)]) == [("small_grid", "info")]
    assert rules(occupancies=[occupancy_row(50.0, 30.0), occupancy_row(100.0, None)]) == []
    (finding,) = find(Evidence(subject="x", occupancies=[occupancy_row(33.0, 30.0)]))
    assert "limited by registers" in finding.text
    assert "__launch_bounds__" in finding.advice


def test_rule_roof():
    def point(share):
        return RooflinePoint(kernel="k", intensity=1.0, flops=1.0, bytes_per_s=1.0, bound="memory", share=share)

    assert rules(roofline=[point(0.7)]) == [("roofline", "good")]
    assert rules(roofline=[point(0.29)]) == [("roofline", "info")]
    assert rules(roofline=[point(0.5)]) == []


def test_rule_parallel_efficiency():
    def row(balance, communication, ranks=4):
        return Efficiency(
            ranks=ranks, load_balance=balance, communication=communication, parallel=balance * communication
        )

    assert rules(efficiency=row(0.8, 0.9)) == [("load_balance", "warning")]
    assert rules(efficiency=row(0.9, 0.7)) == [("communication", "warning")]
    assert rules(efficiency=row(0.9, 0.9)) == [("parallel_efficiency", "good")]
    assert rules(efficiency=row(0.5, 0.5, ranks=1)) == []


def test_rule_memory_pressure():
    assert rules(device_memory={"n1 GPU 0": (76.0, 80.0)}) == [("memory_pressure", "warning")]
    assert rules(host_memory={"n1": (9.3, 10.0)}) == [("memory_pressure", "warning")]
    assert rules(device_memory={"n1 GPU 0": (70.0, 80.0)}, host_memory={"n1": (5.0, 10.0)}) == []


def test_rule_cpu_bound():
    def rows(cpu, gpu):
        return [
            {"device": "n1", "metric": "cpu_utilisation", "median": cpu},
            {"device": "n1 GPU 0", "metric": "gpu_utilisation", "median": gpu},
        ]

    assert rules(utilisation=rows(97.0, 30.0)) == [("cpu_bound", "warning")]
    assert rules(utilisation=rows(97.0, 85.0)) == []
    assert rules(utilisation=rows(90.0, 30.0)) == []
    assert rules(utilisation=rows(97.0, 30.0)[:1]) == []  # without a GPU busy cores are as they should be


def test_rule_counters_forbidden():
    note = "this user may not read the GPU's counters (ERR_NVGPUCTRPERM): ask the administrator"
    assert rules(profiles=[profile("ncu", notes=[note, "ncu: ERR_NVGPUCTRPERM - ..."])]) == [
        ("counters_forbidden", "info")
    ]


def test_worst_findings_come_first():
    found = rules(lost=["A"], overlaps=[overlap_row(200, 190, 300)], occupancies=[occupancy_row(33.0, 30.0)])
    assert [severity for _, severity in found] == ["serious", "warning", "info", "good"]


# ---- a whole run


def test_a_run_is_analysed_into_one_document(with_nvml, tmp_path, capsys):
    run = tmp_path / "pong" / "seed1"
    code = f"""
        import json, time
        from pathlib import Path
        from seed_hpc.profiling.sampler import sample_run
        run = Path({str(run)!r})
        begun = time.time()
        for part in range(2):
            with sample_run(run, 50.0):
                time.sleep(0.5)
        # 10,000 frames a second; the line at 50 s repeats what a lost stretch had done.
        lines = [dict(unix_time_s=begun + t, frames=10_000 * f) for t, f in ((0, 0), (40, 90), (50, 50), (100, 100))]
        (run / "profile").mkdir()
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\\n" for line in lines) + '{{"half')
        (run / "run.json").write_text(json.dumps(dict(experiment="pong")))
    """
    with_nvml("one", code)
    profile = read_profiler_file(DATA / "ncu_mc_raw.csv")
    (run / "profile" / "ncu-rank0.json").write_text(json.dumps(profile.to_json()))
    (run / "profile" / "nsys-rank0.json").write_text("{broken")
    assert cli.main(["profile", "analyse", str(run)]) == 0
    document = json.loads((run / "profile" / "analysis.json").read_text())
    parts = [read_samples(folder).gpu["time_s"].to_pylist() for folder in sorted((run / "samples").iterdir())]
    energy = document["energy"]
    assert energy["source"] == "energy counter"
    assert energy["joules"] == pytest.approx(sum(300 * (times[-1] - times[0]) for times in parts), rel=0.1)
    assert energy["frames"] == pytest.approx(10_000 * (parts[-1][-1] - parts[0][0]), rel=0.01)
    assert energy["frames_per_joule"] == pytest.approx(energy["frames"] / energy["joules"])
    assert len(list((run / "samples").iterdir())) == 2  # a resumed run has two parts, one table
    assert [row["metric"] for row in document["utilisation"]].count("gpu_utilisation") == 1
    assert {row["metric"] for row in document["timeline"]} == {
        "gpu_utilisation", "power", "sm_clock", "cpu_utilisation",
    }  # fmt: skip
    assert len(document["occupancy"]) == 2
    assert document["roofline"]["ceilings"]["measured"] is False
    assert document["overlap"] == []
    assert {row["metric"] for row in document["utilisation"]} >= {"gpu_utilisation", "power", "cpu_utilisation"}
    texts = [finding["text"] for finding in document["findings"]]
    assert any("limited by registers" in text for text in texts)
    assert any("because of heat in 100 % of the samples" in text for text in texts)
    assert any("nsys-rank0.json is damaged" in note for note in document["notes"])
    assert any("no trace holds device kernels" in note for note in document["notes"])
    assert "limited by registers" in capsys.readouterr().out


def test_what_could_not_be_sampled_is_a_note(tmp_path):
    run = tmp_path / "run"
    unsupported = {"power_w": "not supported", "energy_j": "not supported", "pcie_tx_bytes_per_s": "no permission"}
    device = {"uuid": "GPU-1", "index": 0, "parent_uuid": None, "lost": False, "unsupported": unsupported}
    for part in range(2):
        folder = run / "samples" / f"n1-{part}"
        folder.mkdir(parents=True)
        info = {"host": "n1", "started_s": float(part), "devices": [device], "events": [], "notes": ["slow disk"]}
        (folder / "sampler.json").write_text(json.dumps(info))
    (run / "run.json").write_text("{}")
    notes = run_analysis.analyse_run(run)["notes"]
    assert [note for note in notes if note.startswith("n1")] == [
        "n1: slow disk",
        "n1 GPU 0: not supported: power_w, energy_j",
        "n1 GPU 0: no permission: pcie_tx_bytes_per_s",
    ]


@pytest.mark.parametrize(
    ("uuids", "joules"), [(None, 350.0), (["GPU-3"], 300.0), ([], None), (["GPU-of-another-node"], 350.0)]
)
def test_only_the_gpus_of_the_run_count(tmp_path, uuids, joules):
    """A node of which the run uses one GPU; a record that does not tell, or tells of others, counts all."""
    run, folder = tmp_path / "run", tmp_path / "run" / "samples" / "n1-0"
    folder.mkdir(parents=True)
    powers = {"GPU-0": 5.0, "GPU-3": 30.0}
    rows = [
        {"time_s": 10.0 * step, "uuid": uuid, "power_w": watts, "gpu_utilization_pct": watts}
        for step in range(2)
        for uuid, watts in powers.items()
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=sampler.GPU_SCHEMA), folder / "gpu-000000-000000.parquet")
    devices = [{"uuid": uuid, "index": int(uuid[-1]), "parent_uuid": None, "lost": False} for uuid in powers]
    (folder / "sampler.json").write_text(json.dumps({"host": "n1", "devices": devices}))
    (run / "run.json").write_text(json.dumps({} if uuids is None else {"gpu_uuids": uuids}))
    document = run_analysis.analyse_run(run)
    assert document["energy"]["joules"] == joules
    busy = [row["device"] for row in document["utilisation"] if row["metric"] == "gpu_utilisation"]
    assert len(busy) == {350.0: 2, 300.0: 1, None: 0}[joules]
    assert any("all of its nodes" in note for note in document["notes"]) == (uuids == ["GPU-of-another-node"])


def test_frames_count_from_the_beginning_of_the_run(tmp_path):
    """The first log line stands an interval behind the run's beginning."""
    run, folder = tmp_path / "run", tmp_path / "run" / "samples" / "n1-0"
    folder.mkdir(parents=True)
    rows = [{"time_s": 1000.0 + step, "uuid": "GPU-0", "power_w": 1.0} for step in range(0, 61, 10)]
    pq.write_table(pa.Table.from_pylist(rows, schema=sampler.GPU_SCHEMA), folder / "gpu-000000-000000.parquet")
    device = {"uuid": "GPU-0", "index": 0, "parent_uuid": None, "lost": False}
    (folder / "sampler.json").write_text(json.dumps({"host": "n1", "devices": [device]}))
    (run / "run.json").write_text("{}")
    lines = [{"time_s": float(t), "unix_time_s": 1000.0 + t, "frames": 100 * t} for t in range(10, 61, 10)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run_analysis.analyse_run(run)["energy"]["frames"] == 6000


def test_measured_ceilings_are_preferred(tmp_path):
    run = tmp_path / "run"
    (run / "profile").mkdir(parents=True)
    (run / "run.json").write_text("{}")
    profile = read_profiler_file(DATA / "ncu_mc_raw.csv")
    (run / "profile" / "ncu-rank0.json").write_text(json.dumps(profile.to_json()))
    spread = {"min": 1.0, "median": 2e13, "max": 3e13}
    (run / "profile" / "ceilings.json").write_text(json.dumps({"flops": spread, "bytes_per_s": spread}))
    document = run_analysis.analyse_run(run)
    assert document["roofline"]["ceilings"] == {"flops": 2e13, "bytes_per_s": 2e13, "measured": True}


def test_a_folder_without_anything_is_refused(tmp_path):
    assert cli.main(["profile", "analyse", str(tmp_path)]) == 2
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(UserError, match="neither profiles nor samples"):
        run_analysis.analyse_run(tmp_path)


def test_every_rule_is_tested_here():
    text = Path(__file__).read_text(encoding="utf-8")
    missing = [rule.__name__ for rule in findings.RULES if f"def test_rule_{rule.__name__}" not in text]
    assert missing == []
