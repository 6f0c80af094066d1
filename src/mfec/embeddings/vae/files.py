"""Files of a VAE: `encoder.safetensors` and `decoder.safetensors`, each with its architecture and a checksum."""

from __future__ import annotations

import difflib
import hashlib
import json
from dataclasses import asdict, fields
from importlib import resources
from operator import index
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from mfec.canonical_names import canonical_name
from mfec.embeddings.vae.architecture import Architecture
from mfec.errors import MfecError
from mfec.files import whole_file

Part = Literal["encoder", "decoder"]
Tensors = dict[str, NDArray[Any]]
VERSION = "1"
KEY = "mfec"


class EncoderError(MfecError):
    """An encoder that is not there, is damaged, or does not fit."""


def shipped_names() -> list[str]:
    """Names of the encoders that come with the package."""
    return sorted(file.parent.name for file in _shipped().glob("*/encoder.safetensors"))


def encoder_name(vae: str) -> str:
    """The name of a shipped encoder in its canonical spelling (`ms_pacman` for `mspacman`); a directory unchanged."""
    name = canonical_name(vae)
    return name if name in shipped_names() and (name == vae or not Path(vae).exists()) else vae


def find_files(name: str | Path) -> Path:
    """The directory of an encoder, given the name of a shipped one, a directory, or a file in it."""
    if isinstance(name, str) and encoder_name(name) in shipped_names():
        return _shipped() / encoder_name(name)
    path = Path(name)
    if path.is_file():
        path = path.parent
    for place in (path, path / "vae"):  # a run that made its own encoder has it in `vae`
        if (place / "encoder.safetensors").is_file():
            return place
    if path.is_dir():
        raise EncoderError(f"{path} holds no encoder.safetensors: `mfec vae train` writes one")
    near = difflib.get_close_matches(str(name), shipped_names(), n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else f"; these ship: {', '.join(shipped_names())}"
    raise EncoderError(f"there is no encoder {str(name)!r}, neither a directory nor one that ships{hint}")


def write_network(directory: Path, part: Part, tensors: Tensors, architecture: Architecture) -> Path:
    """Write one of the two networks, atomically."""
    whole = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    described = json.dumps(asdict(architecture))
    about = {
        "format": f"mfec vae {part}",
        "version": VERSION,
        "architecture": described,
        "sha256": _sha256(described, whole),
    }
    file = directory / f"{part}.safetensors"
    with whole_file(file, durable=True) as draft:
        save_file(whole, draft, metadata={KEY: json.dumps(about)})  # one key, since the order of several varies
    return file


def read_network(directory: Path, part: Part) -> tuple[Architecture, Tensors]:
    """Read one of the two networks as float32; every name, shape and byte is checked."""
    file = directory / f"{part}.safetensors"
    if not file.is_file():
        raise EncoderError(f"{directory} holds no {file.name}")
    try:
        with safe_open(file, framework="np") as stored:
            about = _about(stored.metadata() or {})
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise EncoderError(f"{file} is damaged: {error}") from None
    if about.get("format") != f"mfec vae {part}":
        raise EncoderError(f"{file} is not the {part} of a VAE that `mfec vae train` wrote")
    if about.get("version") != VERSION:
        raise EncoderError(f"{file} has format version {about.get('version')!r}, this program reads {VERSION!r}")
    try:
        architecture = _parse(about["architecture"])
    except (KeyError, TypeError, ValueError) as error:
        raise EncoderError(f"{file} is damaged: its architecture cannot be read ({error})") from None
    wanted = architecture.encoder_shapes() if part == "encoder" else architecture.decoder_shapes()
    if {name: tensor.shape for name, tensor in tensors.items()} != wanted:
        raise EncoderError(f"{file} is damaged: its tensors are not those of its architecture")
    if _sha256(about["architecture"], tensors) != about.get("sha256"):
        raise EncoderError(f"{file} is damaged: its checksum does not match")
    if not all(np.isfinite(tensor).all() for tensor in tensors.values()):
        raise EncoderError(f"{file} cannot be used: some of its weights are not finite")
    return architecture, {name: tensor.astype(np.float32) for name, tensor in tensors.items()}


def _shipped() -> Path:
    return Path(str(resources.files("mfec.embeddings.vae") / "shipped"))


def _about(metadata: dict[str, str]) -> dict[str, Any]:
    """What `write_network` wrote beside the tensors; empty if another program wrote the file."""
    try:
        about = json.loads(metadata.get(KEY, "{}"))
    except ValueError:
        return {}
    return about if isinstance(about, dict) else {}


def _parse(text: str) -> Architecture:
    """The architecture that `write_network` wrote down."""
    values = json.loads(text)
    if not isinstance(values, dict) or set(values) != {field.name for field in fields(Architecture)}:
        raise ValueError("it has other settings than this program knows")
    return Architecture(
        observation_shape=tuple(map(index, values["observation_shape"])),
        channels=tuple(map(index, values["channels"])),
        hidden=index(values["hidden"]),
        latents=index(values["latents"]),
    )


def _sha256(described: str, tensors: Tensors) -> str:
    digest = hashlib.sha256(described.encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].tobytes())
    return digest.hexdigest()
