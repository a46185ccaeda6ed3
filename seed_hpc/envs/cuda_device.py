# SPDX-License-Identifier: Apache-2.0
"""A CUDA device as environments need it: PyTorch's device and stream, and the library built for its architecture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seed_hpc import _native
from seed_hpc.errors import MissingDependencyError, UserError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Where `make kernels` puts a folder for each architecture.
_CHECKOUT_BUILD = Path(__file__).resolve().parents[2] / "build" / "cuda"


class CudaDevice:
    """One device.

    Args:
        name: "cuda" (the current one) or "cuda:1".

    Raises:
        UserError: There is no such device.
        MissingDependencyError: No PyTorch, no device, or no library for it; the message says how to get it.

    Attributes:
        torch_device: As PyTorch names it, with its number.
        number: Its number.
        architecture: "90".
        library: libseed_cuda.so for it.
    """

    def __init__(self, name: str) -> None:
        self.torch_device = find_device(name)
        self.number = int(self.torch_device.index or 0)
        self.architecture = _architecture(self.torch_device)
        self.library = _native.load_path(find_library(self.architecture))

    def stream(self) -> int:
        """Returns the handle of the stream that PyTorch uses now."""
        import torch

        return int(torch.cuda.current_stream(self.torch_device).cuda_stream)

    def use(self) -> Any:
        """Returns a context in which the device is the current one."""
        import torch

        return torch.cuda.device(self.torch_device)

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Returns a new tensor on the device; memory comes from PyTorch's cache."""
        import torch

        return torch.empty(shape, dtype=dtype, device=self.torch_device)

    def target(self, target: Any, name: str, shape: tuple[int, ...] | None, dtype: torch.dtype) -> int:
        """Returns the address of a caller's tensor.

        Raises:
            UserError: It is somewhere else, or its shape, type or layout is another.
        """
        check_target(target, name, shape, dtype, self.torch_device)
        return int(target.data_ptr())

    def actions(self, actions: Any, shape: tuple[int, ...] | None, dtype: torch.dtype) -> Tensor:
        """Returns actions as a contiguous tensor on the device.

        Raises:
            UserError: They have another shape, or are no numbers of that kind.
        """
        import torch

        tensor = torch.as_tensor(actions)
        if tuple(tensor.shape) != shape:
            raise UserError(f"actions have the shape {tuple(tensor.shape)}, they must have {shape}")
        is_number = tensor.dtype != torch.bool and not tensor.dtype.is_complex
        if not is_number or (tensor.dtype.is_floating_point and not dtype.is_floating_point):
            wanted = "numbers" if dtype.is_floating_point else "integers"
            raise UserError(f"actions are of type {tensor.dtype}, they must be {wanted}")
        return tensor.to(self.torch_device, dtype).contiguous()


def check_target(
    target: Any, name: str, shape: tuple[int, ...] | None, dtype: torch.dtype, device: torch.device
) -> None:
    """Raises a `UserError` unless `target` is a contiguous tensor of this shape and type on the device."""
    if (
        getattr(target, "device", None) != device
        or tuple(target.shape) != shape
        or target.dtype != dtype
        or not target.is_contiguous()
    ):
        raise UserError(f"{name} must be a contiguous {dtype} tensor of shape {shape} on {device}")


def find_device(name: str, *, library: bool = True) -> torch.device:
    """Returns PyTorch's device of a name.

    Args:
        name: "cuda" (the current one) or "cuda:1".
        library: Whether libseed_cuda.so is needed, too, so that a message speaks of it.

    Raises:
        UserError: There is no such device.
        MissingDependencyError: No PyTorch or no device.
    """
    also = " and libseed_cuda.so" if library else ""
    advice = "`make kernels` builds the library (docs/cuda.md), or use device='cpu'" if library else "use device='cpu'"
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(
            f"device='{name}' needs PyTorch with an NVIDIA GPU{also}: `pip install torch`; {advice}"
        ) from error
    if not torch.cuda.is_available():
        without = torch.version.cuda is None
        why = "is a build without CUDA (get one from pytorch.org)" if without else "finds no device (see nvidia-smi)"
        raise MissingDependencyError(
            f"device='{name}' needs an NVIDIA GPU that PyTorch can use{also}: torch {torch.__version__} {why}; {advice}"
        )
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"device is '{name}', it must be 'cpu', 'cuda' or 'cuda:N'") from error
    count = torch.cuda.device_count()
    if device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    if device.index >= count:
        raise UserError(f"device is '{name}', but PyTorch finds {count}: use cuda:0 to cuda:{count - 1}")
    return device


def _architecture(device: torch.device) -> str:
    import torch

    return "{}{}".format(*torch.cuda.get_device_capability(device))


def libraries() -> list[Path]:
    """Returns every libseed_cuda.so that stands in the folder of an architecture."""
    folders = (*_native.library_folders(), _CHECKOUT_BUILD)
    return [path for folder in folders for path in sorted(folder.glob("sm_*/libseed_cuda.so"))]


def find_library(architecture: str) -> Path:
    """Returns libseed_cuda.so: from the folder of the architecture if there is one, else from the usual places.

    Args:
        architecture: "90".

    Raises:
        MissingDependencyError: There is none, or its record beside it names another architecture.
    """
    how = f"`make kernels ARCHS={architecture}`"
    candidates = [folder / f"sm_{architecture}" for folder in (*_native.library_folders(), _CHECKOUT_BUILD)]
    path = next((folder / "libseed_cuda.so" for folder in candidates if (folder / "libseed_cuda.so").is_file()), None)
    if path is None:
        try:
            path = _native.library_path("cuda")
        except MissingDependencyError as error:
            raise MissingDependencyError(
                f"libseed_cuda.so for this GPU (sm_{architecture}) was not found in "
                f"{', '.join(map(str, candidates))}: build it with {how}, or name the folder that "
                "holds sm_*/libseed_cuda.so in SEED_HPC_LIBRARY_DIR, or use device='cpu'"
            ) from error
        built_for = _recorded_architecture(path)
        if built_for not in (None, architecture):
            raise MissingDependencyError(
                f"{path} was built for sm_{built_for}, this GPU is sm_{architecture}: build another with {how}, or use "
                "device='cpu'"
            )
    return path


def _recorded_architecture(library: Path) -> str | None:
    """Returns what `seed-hpc kernels build` wrote beside a library; None where it wrote nothing."""
    try:
        record = json.loads(library.with_name("kernels.json").read_text(encoding="utf-8"))
        return str(record["arch"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
