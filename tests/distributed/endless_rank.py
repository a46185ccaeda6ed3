# SPDX-License-Identifier: Apache-2.0
"""A rank that averages gradients until something happens to it: endless_rank.py TIMEOUT_S FOLDER."""

import sys
from pathlib import Path

import torch

from seed_hpc.distributed.exchange import GradientExchange, wrap
from seed_hpc.distributed.launch import process_group
from seed_hpc.distributed.topology import gather
from seed_hpc.errors import RunFailedError, UserError


def main() -> int:
    timeout_s, folder = float(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    try:
        with process_group(timeout_s=timeout_s) as launch:
            model = wrap(torch.nn.Linear(64, 64), GradientExchange(gather(launch).nvlink_groups(), timeout_s=timeout_s))
            (folder / f"started.{launch.rank}").touch()
            while True:
                model(torch.randn(8, 64)).sum().backward()
    except RunFailedError as error:
        print(error, file=sys.stderr)
        return 1
    except UserError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
