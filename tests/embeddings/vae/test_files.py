"""Files of a VAE: what was written comes back, and what is not that is refused in one sentence."""

from __future__ import annotations

import json
import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from mfec.embeddings.vae import VAE, Architecture, EncoderError, files, shipped_names
from mfec.embeddings.vae.files import find_files, read_network, write_network

from .making import SMALL, make_networks, tensors_of, write_vae

Change = Callable[[dict[str, Any], dict[str, str]], None]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return write_vae(tmp_path / "own")


def rewrite(file: Path, change: Change) -> None:
    """The same file again, with other tensors or another description."""
    tensors = load_file(file)
    with safe_open(file, framework="np") as stored:
        about = json.loads(stored.metadata()["mfec"])
    change(tensors, about)
    save_file(tensors, file, metadata={"mfec": json.dumps(about)})


def refusal(directory: str | Path) -> str:
    """What is said of an encoder that cannot be used: one line."""
    with pytest.raises(EncoderError) as caught:
        VAE.load(directory)
    said = str(caught.value)
    assert "\n" not in said
    return said


# -- Written and read -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [SMALL, Architecture((4, 60, 55), (2, 3, 4, 5), 6, 2)], ids=["grey", "stack"])
def test_networks_come_back_as_they_were_written(tmp_path: Path, shape: Architecture) -> None:
    encoder, decoder = make_networks(shape)
    assert write_vae(tmp_path, shape) == find_files(tmp_path)
    for part, network in (("encoder", encoder), ("decoder", decoder)):
        architecture, tensors = read_network(tmp_path, part)
        assert architecture == shape
        assert {name: tensor.dtype for name, tensor in tensors.items()} == dict.fromkeys(tensors, np.float32)
        assert {name: tensor.tobytes() for name, tensor in tensors.items()} == {
            name: tensor.tobytes() for name, tensor in tensors_of(network).items()
        }


def test_the_files_have_the_mode_of_the_umask_and_no_draft_is_left(written: Path) -> None:
    assert sorted(file.name for file in written.iterdir()) == ["decoder.safetensors", "encoder.safetensors"]
    os.umask(umask := os.umask(0))
    assert {stat.S_IMODE(file.stat().st_mode) for file in written.iterdir()} == {0o666 & ~umask}


def test_tensors_that_do_not_lie_in_one_piece_are_written_as_they_read(tmp_path: Path) -> None:
    tensors = tensors_of(make_networks()[0])
    strided = {name: np.repeat(tensor, 2, axis=-1)[..., ::2] for name, tensor in tensors.items()}
    assert not strided["hidden.weight"].flags.c_contiguous
    write_network(tmp_path, "encoder", strided, SMALL)
    for name, tensor in read_network(tmp_path, "encoder")[1].items():
        assert tensor.tobytes() == tensors[name].tobytes()


def test_a_decoder_in_half_precision_is_read_as_float32(written: Path) -> None:
    halved = {name: tensor.astype(np.float16) for name, tensor in tensors_of(make_networks()[1]).items()}
    write_network(written, "decoder", halved, SMALL)
    for name, tensor in read_network(written, "decoder")[1].items():
        assert tensor.dtype == np.float32
        assert (tensor == halved[name]).all()
    assert VAE.load(written).reconstruct(np.zeros((1, 52, 52), np.uint8)).dtype == np.float32


# -- Found ------------------------------------------------------------------------------------------------------------


def test_a_directory_a_file_in_it_and_a_run_with_its_own_encoder_are_found(tmp_path: Path) -> None:
    own = write_vae(tmp_path / "run" / "vae")
    for name in (own, str(own), own / "encoder.safetensors", own / "decoder.safetensors", tmp_path / "run"):
        assert find_files(name) == own
        assert VAE.load(name).source == own


@pytest.fixture
def two_ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two encoders that ship, and a directory without any."""
    shipped = tmp_path / "shipped"
    write_vae(shipped / "ms_pacman")
    write_vae(shipped / "qbert", seed=1)
    (shipped / "unfinished").mkdir()
    monkeypatch.setattr(files, "_shipped", lambda: shipped)
    return shipped


def test_encoders_that_ship_are_found_by_name(two_ship: Path) -> None:
    assert shipped_names() == ["ms_pacman", "qbert"]
    assert VAE.load("qbert").source == two_ship / "qbert"
    assert VAE.load("qbert").digest == VAE.load(two_ship / "qbert").digest != VAE.load("ms_pacman").digest


def test_a_path_is_never_the_name_of_one_that_ships(
    two_ship: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = write_vae(tmp_path / "elsewhere" / "qbert", seed=2)
    monkeypatch.chdir(own.parent)
    assert find_files("qbert") == two_ship / "qbert"
    assert find_files(Path("qbert")) == Path("qbert")
    assert find_files("./qbert") == Path("qbert")


@pytest.mark.parametrize(("name", "meant"), [("qbret", "qbert"), ("pacman", "ms_pacman"), ("mspacmen", "ms_pacman")])
def test_a_name_that_is_nearly_right_is_answered_by_the_right_one(two_ship: Path, name: str, meant: str) -> None:
    assert refusal(name) == (
        f"there is no encoder '{name}', neither a directory nor one that ships; did you mean '{meant}'?"
    )


def test_another_name_is_answered_by_all_names(two_ship: Path) -> None:
    assert refusal("tetris") == (
        "there is no encoder 'tetris', neither a directory nor one that ships; these ship: ms_pacman, qbert"
    )


# -- Refused ----------------------------------------------------------------------------------------------------------


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert refusal(missing).startswith(f"there is no encoder '{missing}', neither a directory nor one that ships; ")


def test_a_directory_without_an_encoder_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"{tmp_path} holds no encoder.safetensors: `mfec vae train` writes one"


@pytest.mark.parametrize("kept", [0, 3, 8, 100, 0.5, -1], ids=str)
def test_a_truncated_file_is_refused(written: Path, kept: float) -> None:
    file = written / "encoder.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[: int(kept * len(whole)) if kept == 0.5 else int(kept)])
    assert refusal(written).startswith(f"{file} is damaged: ")


@pytest.mark.parametrize("bytes_", [np.random.default_rng(0).bytes(5000), b"\x00" * 5000, b"{}" * 50], ids=len)
def test_bytes_that_are_no_such_file_are_refused(written: Path, bytes_: bytes) -> None:
    file = written / "encoder.safetensors"
    file.write_bytes(bytes_)
    assert refusal(written).startswith(f"{file} is damaged: ")


@pytest.mark.parametrize("back", [1, 4, 1000])
def test_one_changed_bit_in_a_weight_is_refused(written: Path, back: int) -> None:
    file = written / "encoder.safetensors"
    whole = bytearray(file.read_bytes())
    assert len(whole) - back > 8 + struct.unpack("<Q", whole[:8])[0], "among the weights"
    whole[-back] ^= 1
    file.write_bytes(whole)
    assert refusal(written) == f"{file} is damaged: its checksum does not match"


def test_weights_that_changed_places_are_refused(written: Path) -> None:
    """Two biases of the same size."""

    def swap(tensors: dict[str, Any], _: dict[str, str]) -> None:
        names = "convolutions.1.bias", "convolutions.3.bias"
        tensors[names[0]], tensors[names[1]] = tensors[names[1]], tensors[names[0]]

    rewrite(written / "encoder.safetensors", swap)
    assert refusal(written).endswith("is damaged: its checksum does not match")


def test_a_file_of_tensors_that_is_not_ours_is_refused(written: Path) -> None:
    file = written / "encoder.safetensors"
    for metadata in (None, {"format": "pt"}, {"mfec": "no JSON"}, {"mfec": "[]"}):
        save_file({"weight": np.zeros(3, np.float32)}, file, metadata=metadata)
        assert refusal(written) == f"{file} is not the encoder of a VAE that `mfec vae train` wrote"


def test_a_decoder_in_the_place_of_an_encoder_is_refused(written: Path) -> None:
    file = written / "encoder.safetensors"
    (written / "decoder.safetensors").replace(file)
    assert refusal(written) == f"{file} is not the encoder of a VAE that `mfec vae train` wrote"


def test_an_unknown_version_is_refused(written: Path) -> None:
    file = written / "encoder.safetensors"
    rewrite(file, lambda _, metadata: metadata.update(version="2"))
    assert refusal(written) == f"{file} has format version '2', this program reads '1'"


def change_shape(tensors: dict[str, Any], _: dict[str, str]) -> None:
    tensors["hidden.weight"] = np.ascontiguousarray(tensors["hidden.weight"].T)


def leave_out(tensors: dict[str, Any], _: dict[str, str]) -> None:
    del tensors["posterior.bias"]


def add_one(tensors: dict[str, Any], _: dict[str, str]) -> None:
    tensors["more"] = np.zeros(1, np.float32)


def change_architecture(_: dict[str, Any], metadata: dict[str, str]) -> None:
    metadata["architecture"] = metadata["architecture"].replace('"hidden": 6', '"hidden": 7')


@pytest.mark.parametrize("change", [change_shape, leave_out, add_one, change_architecture])
def test_tensors_of_another_architecture_are_refused(written: Path, change: Change) -> None:
    file = written / "encoder.safetensors"
    rewrite(file, change)
    assert refusal(written) == f"{file} is damaged: its tensors are not those of its architecture"


def test_an_architecture_that_was_changed_is_refused_even_where_it_fits(written: Path) -> None:
    file = written / "encoder.safetensors"
    rewrite(file, lambda _, about: about.update(architecture=about["architecture"].replace("[52, 52]", "[53, 52]")))
    assert refusal(written) == f"{file} is damaged: its checksum does not match"


GOOD = {"observation_shape": [52, 52], "channels": [3, 4, 3, 4], "hidden": 6, "latents": 3}


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "[]",
        "7",
        "{}",
        json.dumps({**GOOD, "depth": 3}),
        json.dumps({**GOOD, "hidden": "6"}),
        json.dumps({**GOOD, "hidden": 6.0}),
        json.dumps({**GOOD, "hidden": None}),
        json.dumps({**GOOD, "channels": 3}),
        json.dumps({**GOOD, "channels": [3, 4, 3]}),
        json.dumps({**GOOD, "observation_shape": [10, 10]}),
    ],
)
def test_an_architecture_that_cannot_be_read_is_refused(written: Path, text: str) -> None:
    file = written / "encoder.safetensors"
    rewrite(file, lambda _, metadata: metadata.update(architecture=json.dumps(GOOD)))
    VAE.load(written)
    rewrite(file, lambda _, metadata: metadata.update(architecture=text))
    assert refusal(written).startswith(f"{file} is damaged: its architecture cannot be read (")


def test_a_file_without_an_architecture_is_refused(written: Path) -> None:
    rewrite(written / "encoder.safetensors", lambda _, metadata: metadata.pop("architecture") and None)
    assert "its architecture cannot be read" in refusal(written)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused(written: Path, number: float) -> None:
    tensors = tensors_of(make_networks()[0])
    tensors["posterior.bias"][2] = number
    file = write_network(written, "encoder", tensors, SMALL)
    assert refusal(written) == f"{file} cannot be used: some of its weights are not finite"


def test_a_missing_or_damaged_decoder_does_not_matter_until_it_is_needed(written: Path) -> None:
    frames = np.zeros((2, 52, 52), np.uint8)
    file = written / "decoder.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    vae = VAE.load(written)
    assert vae(frames).shape == (2, 6)
    with pytest.raises(EncoderError, match=r"decoder\.safetensors is damaged: "):
        vae.costs(frames)
    file.unlink()
    with pytest.raises(EncoderError) as caught:
        vae.reconstruct(frames)
    assert str(caught.value) == f"{written} holds no decoder.safetensors"


def test_the_decoder_of_another_encoder_is_refused(written: Path) -> None:
    shape = Architecture((52, 52), (3, 4, 3, 4), hidden=7, latents=3)
    write_network(written, "decoder", tensors_of(make_networks(shape)[1]), shape)
    with pytest.raises(EncoderError, match=r"holds the decoder of another encoder: their architectures differ$"):
        VAE.load(written).reconstruct(np.zeros((1, 52, 52), np.uint8))
