# SPDX-License-Identifier: Apache-2.0
"""Runs one function of a module in several ranks over gloo and returns what each returned.

The ranks are forked from a process of their own that has imported torch but computed nothing: one import for all.
"""

import json
import os
import pickle
import socket
import subprocess
import sys
import traceback
from pathlib import Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_ranks(function: str, num_ranks: int, tmp_path: Path, timeout_s: float = 120, **arguments: object) -> list:
    """Calls ``workers.<function>(launch, **arguments)`` in every rank; returns the results in rank order."""
    command = [sys.executable, __file__, function, str(num_ranks), str(tmp_path), json.dumps(arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_PORT": str(free_port())}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout_s)
    assert done.returncode == 0, done.stdout + done.stderr
    return [pickle.loads((tmp_path / f"{function}.{rank}").read_bytes()) for rank in range(num_ranks)]


def main() -> int:
    function, num_ranks, folder, arguments = sys.argv[1:]
    import torch
    import workers

    from seed_hpc.distributed.launch import Launch, process_group

    torch.set_num_threads(1)
    children = []
    for rank in range(int(num_ranks)):
        child = os.fork()
        if child:
            children.append(child)
            continue
        try:
            launch = Launch(
                launcher="torchrun",
                rank=rank,
                world_size=int(num_ranks),
                local_rank=rank,
                local_world_size=int(num_ranks),
                address="127.0.0.1",
                port=int(os.environ["MASTER_PORT"]),
            )
            with process_group(launch, timeout_s=30):
                result = getattr(workers, function)(launch, **json.loads(arguments))
            (Path(folder) / f"{function}.{rank}").write_bytes(pickle.dumps(result))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return max(map(abs, codes))


if __name__ == "__main__":
    sys.exit(main())
