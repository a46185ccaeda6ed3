# SPDX-License-Identifier: Apache-2.0
"""Settings of the process that must stand before torch is loaded."""

from __future__ import annotations

import os

_ENVIRONMENT = {
    # Large tensors in huge pages: their page faults would cost more than some layers.
    "THP_MEM_ALLOC_ENABLE": "1",
    # OpenMP threads that wait sleep instead of spinning: on a machine that others use too, a spinning thread keeps the
    # one it waits for from running, and training becomes several times slower.
    "OMP_WAIT_POLICY": "PASSIVE",
}


def prepare_process() -> None:
    """Sets what the user has not set; call it before the first import of torch."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
