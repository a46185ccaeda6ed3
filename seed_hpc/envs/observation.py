# SPDX-License-Identifier: Apache-2.0
"""The picture operations of the Atari preprocessing on single pictures, for tools and tests; environments apply the
same ones inside the pool.
"""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from seed_hpc import _native


def resize_area(picture: NDArray[np.uint8], height: int, width: int, *, use_simd: bool = True) -> NDArray[np.uint8]:
    """Resizes a picture with the rounding of OpenCV's INTER_AREA, which ale-py uses.

    Args:
        picture: uint8, shape (H, W) or (H, W, 3).
        height: Rows of the result, 1 to 4096.
        width: Columns of the result, 1 to 4096.
        use_simd: False takes the plain reference loop; the result is the same.

    Returns:
        uint8, shape (height, width) or (height, width, 3).

    Raises:
        UserError: A size is out of range or the picture has another shape.
    """
    source = np.ascontiguousarray(picture, dtype=np.uint8)
    channels = source.shape[2] if source.ndim == 3 else 1
    target = np.empty((max(height, 0), max(width, 0), *source.shape[2:]), dtype=np.uint8)
    library = _native.load("cpu")
    status = library.seed_observation_resize(
        ctypes.c_void_p(source.ctypes.data),
        source.shape[0],
        source.shape[1],
        channels,
        ctypes.c_void_p(target.ctypes.data),
        height,
        width,
        int(use_simd),
    )
    _native.check(library, status)
    return target
