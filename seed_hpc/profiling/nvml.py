# SPDX-License-Identifier: Apache-2.0
"""What NVML knows of this node's GPUs: devices and MIG instances by UUID, and one row of readings of each.

NVML counts devices in PCI bus order and ignores CUDA_VISIBLE_DEVICES, so everything here is keyed by UUID. A reading
that a device cannot give is None and its reason is kept in `NvmlDevice.unsupported`; it is never reported as 0.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from seed_hpc.errors import MissingDependencyError

Reading = float | int | str | None

# Readings of one row, with their units in the names. `throttle_reasons` lists names joined by "+", "" means none.
FIELDS: dict[str, type] = {
    "gpu_utilization_pct": float,  # share of the last period in which any kernel ran
    "memory_utilization_pct": float,  # share in which device memory was read or written
    "memory_used_bytes": int,
    "memory_total_bytes": int,
    "sm_clock_mhz": int,
    "memory_clock_mhz": int,
    "throttle_reasons": str,
    "power_w": float,
    "energy_j": float,  # counter since the driver was loaded: use differences
    "temperature_c": int,
    "pcie_tx_bytes_per_s": float,
    "pcie_rx_bytes_per_s": float,
    "nvlink_tx_bytes_per_s": float,
    "nvlink_rx_bytes_per_s": float,
    "ecc_corrected": int,  # since the driver was loaded
    "ecc_uncorrected": int,
    "gpm_sm_utilization_pct": float,  # GPM: Hopper and newer
    "gpm_sm_occupancy_pct": float,
    "gpm_tensor_pct": float,
    "gpm_fp32_pct": float,
    "gpm_dram_pct": float,
}

_KIB, _MIB = 1024, 1024 * 1024
_ALL_LINKS = 0xFFFFFFFF  # scope of a field value: the sum over all NVLinks
_SLOW_PERIOD_S = 1.0  # for readings that block (PCIe throughput takes 20 ms) or hardly change (ECC)

_THROTTLE_NAMES = (
    ("nvmlClocksEventReasonGpuIdle", "idle"),
    ("nvmlClocksEventReasonApplicationsClocksSetting", "application_clocks"),
    ("nvmlClocksEventReasonSwPowerCap", "power_cap"),
    ("nvmlClocksEventReasonHwSlowdown", "hardware_slowdown"),
    ("nvmlClocksEventReasonSyncBoost", "sync_boost"),
    ("nvmlClocksEventReasonSwThermalSlowdown", "thermal"),
    ("nvmlClocksEventReasonHwThermalSlowdown", "hardware_thermal"),
    ("nvmlClocksEventReasonHwPowerBrakeSlowdown", "power_brake"),
    ("nvmlClocksEventReasonDisplayClockSetting", "display_clocks"),
)


@dataclass(frozen=True)
class XidEvent:
    """A critical error of a GPU as the driver numbers it (Xid 79: fallen off the bus, 48: double bit ECC, ...)."""

    time_s: float  # Unix time at which it was seen
    uuid: str
    xid: int


@dataclass
class NvmlDevice:
    """One physical GPU, or one MIG instance of it."""

    handle: Any
    uuid: str
    name: str
    index: int  # in PCI bus order; for an instance, that of its GPU
    parent_uuid: str | None = None  # set for a MIG instance
    gpu_instance_id: int | None = None
    unsupported: dict[str, str] = field(default_factory=dict)  # field -> reason
    lost: bool = False
    _counters: dict[str, tuple[float, float]] = field(default_factory=dict, repr=False)
    _held: dict[str, tuple[float, Any]] = field(default_factory=dict, repr=False)
    _gpm: list[Any] | None = field(default=None, repr=False)


class Nvml:
    """An open NVML session; a context manager.

    Raises:
        MissingDependencyError: There is no driver, or the library and the driver do not fit; says which.
    """

    def __init__(self) -> None:
        try:
            import pynvml
        except ImportError:
            raise MissingDependencyError("NVML needs the package nvidia-ml-py: pip install nvidia-ml-py") from None
        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise MissingDependencyError(f"NVML is not usable: {error}") from None
        self.notes: list[str] = []
        self.events: list[XidEvent] = []
        self.devices: list[NvmlDevice] = []
        self._event_set: Any = None
        self._enumerate()
        self._watch_xid()

    def __enter__(self) -> Nvml:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session; a second call does nothing."""
        if self._nvml is None:
            return
        with suppress(self._nvml.NVMLError):
            for device in self.devices:
                for sample in device._gpm or []:
                    self._nvml.nvmlGpmSampleFree(sample)
            if self._event_set is not None:
                self._nvml.nvmlEventSetFree(self._event_set)
            self._nvml.nvmlShutdown()
        self._nvml = None

    def driver_version(self) -> str | None:
        """Returns the driver's version, such as "550.54.15"."""
        return self._text(self._nvml.nvmlSystemGetDriverVersion)

    def cuda_version(self) -> tuple[int, int] | None:
        """Returns the newest CUDA version that the driver can run."""
        try:
            number = self._nvml.nvmlSystemGetCudaDriverVersion_v2()
        except self._nvml.NVMLError:
            return None
        return number // 1000, number % 1000 // 10

    def compute_capability(self, device: NvmlDevice) -> tuple[int, int] | None:
        """Returns (major, minor), or None where the device is lost."""
        try:
            major, minor = self._nvml.nvmlDeviceGetCudaComputeCapability(device.handle)
        except self._nvml.NVMLError:
            return None
        return int(major), int(minor)

    def mig_enabled(self, device: NvmlDevice) -> bool | None:
        """Returns whether the GPU is split into instances; None where it cannot be."""
        try:
            return bool(self._nvml.nvmlDeviceGetMigMode(device.handle)[0])
        except self._nvml.NVMLError:
            return None

    def nvlink_states(self, device: NvmlDevice) -> list[bool]:
        """Returns for each NVLink that the GPU has whether it is up."""
        states = []
        for link in range(self._nvml.NVML_NVLINK_MAX_LINKS):
            try:
                states.append(bool(self._nvml.nvmlDeviceGetNvLinkState(device.handle, link)))
            except self._nvml.NVMLError:
                break
        return states

    def read(self, device: NvmlDevice) -> dict[str, Reading]:
        """Reads one row; a field that cannot be read is None (see `NvmlDevice.unsupported`, `NvmlDevice.lost`)."""
        row: dict[str, Reading] = dict.fromkeys(FIELDS)
        if device.lost:
            return row
        now = time.monotonic()
        for names, reader in _READERS:
            wanted = [name for name in names if name not in device.unsupported]
            if not wanted:
                continue
            try:
                values = reader(self, device, now)
            except self._nvml.NVMLError as error:
                self._failed(device, wanted, error)
                if device.lost:
                    return dict.fromkeys(FIELDS)
                continue
            row.update({name: value for name, value in zip(names, values, strict=True) if name in wanted})
        return row

    def poll_events(self) -> list[XidEvent]:
        """Returns the critical errors since the last call, without waiting."""
        found: list[XidEvent] = []
        while self._event_set is not None:
            try:
                data = self._nvml.nvmlEventSetWait_v2(self._event_set, 0)
            except self._nvml.NVMLError as error:
                if error.value != self._nvml.NVML_ERROR_TIMEOUT:
                    self.notes.append(f"Xid events ended: {error}")
                    self._event_set = None
                break
            handle = ctypes.cast(data.device, ctypes.c_void_p).value
            uuid = next((d.uuid for d in self.devices if ctypes.cast(d.handle, ctypes.c_void_p).value == handle), "?")
            found.append(XidEvent(time.time(), uuid, int(data.eventData)))
        self.events += found
        return found

    # ---- set-up

    def _text(self, function: Callable[..., Any], *arguments: Any) -> str | None:
        try:
            return str(function(*arguments))
        except self._nvml.NVMLError:
            return None

    def _enumerate(self) -> None:
        nvml = self._nvml
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                device = NvmlDevice(
                    handle, str(nvml.nvmlDeviceGetUUID(handle)), str(nvml.nvmlDeviceGetName(handle)), index
                )
            except nvml.NVMLError as error:
                self.notes.append(f"GPU {index} cannot be read: {error}")
                continue
            self.devices.append(device)
            self._enumerate_instances(device)

    def _enumerate_instances(self, parent: NvmlDevice) -> None:
        if not self.mig_enabled(parent):
            return
        nvml = self._nvml
        for slot in range(nvml.nvmlDeviceGetMaxMigDeviceCount(parent.handle)):
            try:
                handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent.handle, slot)
                self.devices.append(
                    NvmlDevice(
                        handle,
                        str(nvml.nvmlDeviceGetUUID(handle)),
                        str(nvml.nvmlDeviceGetName(handle)),
                        parent.index,
                        parent.uuid,
                        int(nvml.nvmlDeviceGetGpuInstanceId(handle)),
                    )
                )
            except nvml.NVMLError as error:
                if error.value != nvml.NVML_ERROR_NOT_FOUND:  # an empty slot
                    self.notes.append(f"MIG slot {slot} of GPU {parent.index} cannot be read: {error}")

    def _watch_xid(self) -> None:
        nvml = self._nvml
        try:
            event_set = nvml.nvmlEventSetCreate()
            for device in self.devices:
                if device.parent_uuid is None:
                    nvml.nvmlDeviceRegisterEvents(device.handle, nvml.nvmlEventTypeXidCriticalError, event_set)
            self._event_set = event_set
        except nvml.NVMLError as error:
            self.notes.append(f"Xid events are not supported: {error}")

    def _failed(self, device: NvmlDevice, names: list[str], error: Any) -> None:
        """Decides what an error means: the GPU is gone, the field does not exist here, or only this reading failed."""
        nvml = self._nvml
        if error.value in (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_GPU_NOT_FOUND, nvml.NVML_ERROR_RESET_REQUIRED):
            device.lost = True
            self.notes.append(f"GPU {device.uuid} was lost at {time.time():.3f}: {error}")
        elif error.value in (
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            nvml.NVML_ERROR_INVALID_ARGUMENT,
            nvml.NVML_ERROR_NO_PERMISSION,
            nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        ):
            reason = "not supported" if error.value == nvml.NVML_ERROR_NOT_SUPPORTED else str(error).lower()
            device.unsupported.update(dict.fromkeys(names, reason))

    # ---- helpers of the readers

    def _rate(self, device: NvmlDevice, name: str, now: float, count: float) -> float | None:
        """Turns a counter into a rate per second; None at the first reading and when the counter was reset."""
        before = device._counters.get(name)
        device._counters[name] = (now, count)
        if before is None or now <= before[0] or count < before[1]:
            return None
        return (count - before[1]) / (now - before[0])

    def _slowly(self, device: NvmlDevice, name: str, now: float, read: Callable[[], Any]) -> Any:
        """Reads at most once a second and repeats the value in between."""
        held = device._held.get(name)
        if held is None or now - held[0] >= _SLOW_PERIOD_S:
            held = device._held[name] = (now, read())
        return held[1]

    def _field_values(self, device: NvmlDevice, ids: list[Any]) -> list[int]:
        """Reads field values; raises the NVML error of the first one that is not there."""
        values = self._nvml.nvmlDeviceGetFieldValues(device.handle, ids)
        for value in values:
            if value.nvmlReturn != 0:
                raise self._nvml.NVMLError(value.nvmlReturn)
        return [int(value.value.ullVal) for value in values]


def _utilization(nvml: Nvml, device: NvmlDevice, now: float) -> tuple[Reading, ...]:
    rates = nvml._nvml.nvmlDeviceGetUtilizationRates(device.handle)
    return float(rates.gpu), float(rates.memory)


def _memory(nvml: Nvml, device: NvmlDevice, now: float) -> tuple[Reading, ...]:
    memory = nvml._nvml.nvmlDeviceGetMemoryInfo(device.handle)
    return int(memory.used), int(memory.total)


def _sm_clock(nvml: Nvml, device: NvmlDevice, now: float) -> tuple[Reading, ...]:
    return (int(nvml._nvml.nvmlDeviceGetClockInfo(device.handle, nvml._nvml.NVML_CLOCK_SM)),)


def _memory_clock(nvml: Nvml, device: NvmlDevice, now: float) -> tuple[Reading, ...]:
    return (int(nvml._nvml.nvmlDeviceGetClockInfo(device.handle, nvml._nvml.NVML_CLOCK_MEM)),)


def _throttle_reasons(nvml: Nvml, device: NvmlDevice, now: float) -> tuple[Reading, ...]:
    try:
        mask = nvml._nvml.nvmlDeviceGetCurrentClocksEventReasons(device.handle)
    except nvml._nvml.NVMLError as error:
        if error.value != nvml._nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        mask = nvml._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device.handle)  # its name before driver 535
    return ("+".join(name for constant, name in _THROTTLE_NAMES if mask & getattr(nvml._nvml, constant)),)


def _power(nvml: Nvml, device: NvmlDevice, now: float) -> tuple[Reading, ...]:
    return (nvml._nvml.nvmlDeviceGetPowerUsage(device.handle) / 1000.0,)


def _energy(nvml: Nvml, device: NvmlDevice, now: float) -> tuple[Reading, ...]:
    return (nvml._nvml.nvmlDeviceGetTotalEnergyConsumption(device.handle) / 1000.0,)


def _temperature(nvml: Nvml, device: NvmlDevice, now: float) -> tuple[Reading, ...]:
    return (int(nvml._nvml.nvmlDeviceGetTemperature(device.handle, nvml._nvml.NVML_TEMPERATURE_GPU)),)


def _pcie(nvml: Nvml, device: NvmlDevice, now: float) -> tuple[Reading, ...]:
    """Byte counters where the driver has them, else the throughput call, which blocks 20 ms for each direction."""
    library = nvml._nvml
    if not device._held.get("pcie_without_counters"):
        try:
            sent, received = nvml._field_values(
                device, [library.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, library.NVML_FI_DEV_PCIE_COUNT_RX_BYTES]
            )
            return nvml._rate(device, "pcie_tx", now, sent), nvml._rate(device, "pcie_rx", now, received)
        except library.NVMLError as error:
            if error.value == library.NVML_ERROR_GPU_IS_LOST:
                raise
            device._held["pcie_without_counters"] = (now, True)

    def read() -> tuple[float, ...]:
        counters = (library.NVML_PCIE_UTIL_TX_BYTES, library.NVML_PCIE_UTIL_RX_BYTES)
        return tuple(float(library.nvmlDeviceGetPcieThroughput(device.handle, c)) * _KIB for c in counters)

    sent_rate, received_rate = nvml._slowly(device, "pcie", now, read)
    return sent_rate, received_rate


def _nvlink(nvml: Nvml, device: NvmlDevice, now: float) -> tuple[Reading, ...]:
    library = nvml._nvml
    ids = [
        (library.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, _ALL_LINKS),
        (library.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, _ALL_LINKS),
    ]
    sent, received = nvml._field_values(device, ids)
    return nvml._rate(device, "nvlink_tx", now, sent * _KIB), nvml._rate(device, "nvlink_rx", now, received * _KIB)


def _ecc(nvml: Nvml, device: NvmlDevice, now: float) -> tuple[Reading, ...]:
    library = nvml._nvml

    def read() -> tuple[int, ...]:
        kinds = (library.NVML_MEMORY_ERROR_TYPE_CORRECTED, library.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
        return tuple(
            int(library.nvmlDeviceGetTotalEccErrors(device.handle, kind, library.NVML_VOLATILE_ECC)) for kind in kinds
        )

    corrected, uncorrected = nvml._slowly(device, "ecc", now, read)
    return corrected, uncorrected


def _gpm(nvml: Nvml, device: NvmlDevice, now: float) -> tuple[Reading, ...]:
    """GPM metrics are differences of two samples: the first call returns None."""
    library = nvml._nvml
    ids = (
        library.NVML_GPM_METRIC_SM_UTIL,
        library.NVML_GPM_METRIC_SM_OCCUPANCY,
        library.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
        library.NVML_GPM_METRIC_FP32_UTIL,
        library.NVML_GPM_METRIC_DRAM_BW_UTIL,
    )
    first = device._gpm is None
    if device._gpm is None:
        owner = device.handle
        if device.parent_uuid is not None:
            owner = library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device.handle)
        if not library.nvmlGpmQueryDeviceSupport(owner).isSupportedDevice:
            raise library.NVMLError(library.NVML_ERROR_NOT_SUPPORTED)
        device._gpm = [library.nvmlGpmSampleAlloc(), library.nvmlGpmSampleAlloc()]
    older, newer = device._gpm
    if device.parent_uuid is not None:
        parent = library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device.handle)
        library.nvmlGpmMigSampleGet(parent, device.gpu_instance_id, newer)
    else:
        library.nvmlGpmSampleGet(device.handle, newer)
    device._gpm = [newer, older]
    if first:
        return (None,) * len(ids)
    request = library.c_nvmlGpmMetricsGet_t()
    request.version = library.NVML_GPM_METRICS_GET_VERSION
    request.numMetrics = len(ids)
    request.sample1, request.sample2 = older, newer
    for slot, metric in enumerate(ids):
        request.metrics[slot].metricId = metric
    library.nvmlGpmMetricsGet(request)
    return tuple(
        float(request.metrics[slot].value) if request.metrics[slot].nvmlReturn == 0 else None
        for slot in range(len(ids))
    )


_READERS: tuple[tuple[tuple[str, ...], Callable[[Nvml, NvmlDevice, float], tuple[Reading, ...]]], ...] = (
    (("gpu_utilization_pct", "memory_utilization_pct"), _utilization),
    (("memory_used_bytes", "memory_total_bytes"), _memory),
    (("sm_clock_mhz",), _sm_clock),
    (("memory_clock_mhz",), _memory_clock),
    (("throttle_reasons",), _throttle_reasons),
    (("power_w",), _power),
    (("energy_j",), _energy),
    (("temperature_c",), _temperature),
    (("pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s"), _pcie),
    (("nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s"), _nvlink),
    (("ecc_corrected", "ecc_uncorrected"), _ecc),
    (
        ("gpm_sm_utilization_pct", "gpm_sm_occupancy_pct", "gpm_tensor_pct", "gpm_fp32_pct", "gpm_dram_pct"),
        _gpm,
    ),
)
