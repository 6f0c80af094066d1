"""The device that keeps states and searches them: a GPU, or the CPU through the same code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mfec.config import DeviceName
from mfec.device.channel import Channel, DeviceEncoder, DeviceError, Response

if TYPE_CHECKING:
    from mfec.device.engine import Engine

__all__ = [
    "Channel",
    "DeviceEncoder",
    "DeviceError",
    "Response",
    "device_name",
    "free_on_device",
    "open_channel",
    "refuse_missing",
    "start_engine",
]


def start_engine(device: str) -> Engine:
    """An engine on `cpu` or `cuda`; the error says what is missing if there can be none."""
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
    """The name of a device, which is given by its name or by a channel to it."""
    return device if isinstance(device, str) else device.device


def free_on_device() -> int:
    """Bytes of the GPU that are free."""
    start_engine("cuda")
    import torch

    free, _ = torch.cuda.mem_get_info()
    return int(free)


def open_channel(device: str) -> Channel:
    """A channel to a device in this process."""
    engine = start_engine(device)  # says what is missing before anything imports torch
    from mfec.device.local import LocalChannel

    return LocalChannel(engine)


def refuse_missing(device: DeviceName) -> None:
    """An error that says what is missing where there is no torch, or no GPU for it."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise ImportError("this needs the extra `torch`: pip install 'mfec[torch]'") from None
    if device == "cuda":
        start_engine(device)
