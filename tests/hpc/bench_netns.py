# SPDX-License-Identifier: Apache-2.0
"""Grouped against flat gradient exchange over a slow link: `make bench-netns`, as root.

Two network namespaces stand for two hosts, joined by a veth pair that tc slows to 200 Mbit/s in each direction; two
ranks run in each over gloo. For every exchange: seconds (the slowest rank's mean, median of the repeats), ratio to
the flat all_reduce of the same repeat, and bytes that the slow link carried, from the interface's own counter.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HOSTS = {"seedslow-a": "10.78.0.1", "seedslow-b": "10.78.0.2"}
RANKS_PER_HOST = 2
ITERATIONS = 5
EXTRA_CALLS = 2  # the check and the warm-up of bench_collectives
CASES = [
    ("flat_all_reduce", "none"),
    ("grouped_all_gather", "none"),
    ("grouped_reduce_scatter", "none"),
    ("flat_all_reduce", "bf16"),
    ("grouped_all_gather", "bf16"),
    ("grouped_reduce_scatter", "bf16"),
]
RUNNER = (
    "import argparse, sys; from seed_hpc.distributed import bench_collectives as b;"
    "p = argparse.ArgumentParser(); b.add_arguments(p); sys.exit(b.run(p.parse_args()))"
)


def sh(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def slow_link(rate: str):
    """Two namespaces and the link between them; removed at the end, whatever happens."""
    one, other = HOSTS
    remove()
    try:
        for host in HOSTS:
            sh("ip", "netns", "add", host)
            sh("ip", "-n", host, "link", "set", "lo", "up")
        sh("ip", "link", "add", "eth0", "netns", one, "type", "veth", "peer", "name", "eth0", "netns", other)
        for host, address in HOSTS.items():
            sh("ip", "-n", host, "addr", "add", f"{address}/24", "dev", "eth0")
            sh("ip", "-n", host, "link", "set", "eth0", "up")
            sh("tc", "-n", host, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "64kb",
               "latency", "50ms")  # fmt: skip
        yield
    finally:
        remove()


def remove() -> None:
    for host in HOSTS:
        subprocess.run(["ip", "netns", "del", host], capture_output=True, check=False)


def sent_bytes() -> int:
    """Bytes that both ends have sent over the link."""
    links = (json.loads(sh("ip", "-n", host, "-s", "-j", "link", "show", "eth0"))[0] for host in HOSTS)
    return sum(link["stats64"]["tx"]["bytes"] for link in links)


def run_case(algorithm: str, compression: str, size_bytes: int, folder: Path) -> tuple[float, float]:
    """Runs the four ranks; returns seconds and bytes over the link, per exchange."""
    out = folder / "out.json"
    before = sent_bytes()
    ranks = []
    for node, host in enumerate(HOSTS):
        for local_rank in range(RANKS_PER_HOST):
            environment = {
                **os.environ,
                "RANK": str(node * RANKS_PER_HOST + local_rank),
                "WORLD_SIZE": str(len(HOSTS) * RANKS_PER_HOST),
                "LOCAL_RANK": str(local_rank),
                "LOCAL_WORLD_SIZE": str(RANKS_PER_HOST),
                "GROUP_RANK": str(node),
                "GROUP_WORLD_SIZE": str(len(HOSTS)),
                "MASTER_ADDR": next(iter(HOSTS.values())),
                "MASTER_PORT": "29731",
                "OMP_NUM_THREADS": "1",
                "TORCH_CPP_LOG_LEVEL": "ERROR",
            }
            command = [
                sys.executable, "-c", RUNNER, f"--operations={algorithm}", f"--compression={compression}",
                f"--min-bytes={size_bytes}", f"--max-bytes={size_bytes}", f"--iterations={ITERATIONS}", f"--json={out}",
            ]  # fmt: skip
            # A host name of its own: ranks are grouped by host.
            enter = ["nsenter", f"--net=/run/netns/{host}", "unshare", "--uts", "sh", "-c"]
            ranks.append(
                subprocess.Popen(
                    [*enter, f'hostname {host} && exec "$@"', "sh", *command],
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
    for rank in ranks:
        errors = rank.communicate(timeout=300)[1]
        if rank.returncode != 0:
            raise RuntimeError(f"{algorithm}: a rank ended with {rank.returncode}: {errors[-2000:]}")
    result = json.loads(out.read_text())
    assert result["groups"] == [[0, 1], [2, 3]], result["groups"]
    return result["rows"][0]["time_s"], (sent_bytes() - before) / (ITERATIONS + EXTRA_CALLS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", default="200mbit", help="of the link, in tc's notation (default: %(default)s)")
    parser.add_argument("--megabytes", type=float, default=6.7, help="of gradients (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if os.geteuid() != 0:
        print("bench_netns: network namespaces need root", file=sys.stderr)
        return 2
    size_bytes = int(args.megabytes * 1e6) // 16 * 16
    measured: dict[tuple[str, str], list[tuple[float, float]]] = {case: [] for case in CASES}
    with slow_link(args.rate), tempfile.TemporaryDirectory() as folder:
        for _ in range(args.repeats):
            for case in CASES:
                measured[case].append(run_case(*case, size_bytes, Path(folder)))
    flat = [time_s for time_s, _ in measured["flat_all_reduce", "none"]]
    rows = []
    print(f"{size_bytes / 1e6:.1f} MB of gradients, 2 + 2 ranks, {args.rate}, {args.repeats} repeats\n")
    print("| exchange | compression | seconds | flat time / its time (min, median, max) | MB over the link |")
    print("|---|---|---:|---:|---:|")
    for (algorithm, compression), results in measured.items():
        ratios = [flat_s / time_s for flat_s, (time_s, _) in zip(flat, results, strict=True)]
        row = {
            "algorithm": algorithm,
            "compression": compression,
            "time_s": statistics.median(time_s for time_s, _ in results),
            "speedup": [min(ratios), statistics.median(ratios), max(ratios)],
            "link_bytes": statistics.median(link_bytes for _, link_bytes in results),
        }
        rows.append(row)
        speedup = ", ".join(f"{ratio:.2f}" for ratio in row["speedup"])
        print(f"| {algorithm} | {compression} | {row['time_s']:.3f} | {speedup} | {row['link_bytes'] / 1e6:.2f} |")
    if args.json:
        args.json.write_text(json.dumps({"rate": args.rate, "size_bytes": size_bytes, "rows": rows}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
