"""The device that holds states and searches them: a GPU, or the CPU through the same code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mfec.config import DeviceName
from mfec.device.channel import Channel, DeviceEncoder, DeviceError, Found

if TYPE_CHECKING:
    from mfec.device.engine import Engine

__all__ = [
    "Channel",
    "DeviceEncoder",
    "DeviceError",
    "Found",
    "device_name",
    "free_on_device",
    "open_channel",
    "start_engine",
]


def start_engine(device: str) -> Engine:
    """An engine on `cpu` or `cuda`; an error that says what is missing where there is none."""
    try:
        import torch
    except ImportError:
        raise ImportError("the device needs the extra `torch`: pip install 'mfec[torch]'") from None
    if device == "cuda" and not torch.cuda.is_available():
        built = "finds no GPU" if torch.version.cuda else "was built without CUDA"
        raise DeviceError(f"device 'cuda' needs an NVIDIA GPU, and torch {torch.__version__} {built} on this machine")
    from mfec.device.engine import Engine

    return Engine(device)


def device_name(device: DeviceName | Channel) -> DeviceName:
    """The name of a device that is given by its name or by the way to it."""
    return device if isinstance(device, str) else device.device


def free_on_device() -> int:
    """Bytes of the GPU that are free."""
    start_engine("cuda")
    import torch

    free, _ = torch.cuda.mem_get_info()
    return int(free)


def open_channel(device: str) -> Channel:
    """A run's own way to a device in this process."""
    engine = start_engine(device)  # says what is missing before anything imports torch
    from mfec.device.local import LocalChannel

    return LocalChannel(engine)
