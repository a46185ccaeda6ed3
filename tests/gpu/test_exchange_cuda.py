# SPDX-License-Identifier: Apache-2.0
"""The communication hook on CUDA streams and NCCL: as many ranks as there are GPUs, equal to plain training."""

import os
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "distributed"))
from forked_ranks import free_port

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def train_rank(rank, num_ranks, port, algorithm):
    from workers import batch, small_model, train_single

    from seed_hpc.distributed.exchange import GradientExchange, wrap
    from seed_hpc.distributed.topology import Device, Topology

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=num_ranks, device_id=torch.device("cuda", rank))
    devices = tuple(Device(host="here", index=i, uuid=f"GPU-{i}", fabric="switch") for i in range(num_ranks))
    exchange = GradientExchange(
        Topology(devices=devices).nvlink_groups(), algorithm=algorithm, device=torch.device("cuda", rank)
    )
    model = wrap(small_model().cuda(rank), exchange, bucket_megabytes=0.002)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for update in range(50):
        inputs, targets = (part[rank::num_ranks].cuda(rank) for part in batch(update))
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    parameters = torch.nn.utils.parameters_to_vector(model.parameters()).detach().cpu()
    dist.destroy_process_group()
    difference = float((parameters - train_single(50)).abs().max())
    assert difference < 1e-5, f"rank {rank}: {difference}"


@pytest.mark.parametrize("algorithm", ["flat_all_reduce", "grouped_all_gather", "grouped_reduce_scatter"])
def test_hook_on_cuda_equals_a_single_process(algorithm):
    # The batch of 12 is shared equally.
    num_ranks = next(n for n in (4, 3, 2, 1) if n <= torch.cuda.device_count())
    torch.multiprocessing.spawn(train_rank, (num_ranks, free_port(), algorithm), num_ranks)
