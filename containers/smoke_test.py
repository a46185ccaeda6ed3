# SPDX-License-Identifier: Apache-2.0
"""An image's self-test: the package, its native library and torch work together; takes a few seconds."""

import sys

import torch

from seed_hpc import __version__, _native
from seed_hpc.distributed.launch import Launch
from seed_hpc.distributed.topology import Topology, cpu_device


def main() -> int:
    """Fails with a traceback, which ends the build."""
    backends = ["cpu", "cuda"] if "--with-cuda-library" in sys.argv[1:] else ["cpu"]
    for backend in backends:
        library = _native.load(backend)
        assert library.seed_backend_name().decode() == backend
    gradient = torch.ones(3, requires_grad=True)
    (gradient * 2).sum().backward()
    assert gradient.grad is not None
    assert gradient.grad.tolist() == [2.0, 2.0, 2.0]
    assert Topology(devices=(cpu_device(Launch()),)).nvlink_groups() == ((0,),)
    print(f"seed-hpc {__version__}: {', '.join(backends)} and torch {torch.__version__} work")
    return 0


if __name__ == "__main__":
    sys.exit(main())
