"""The VAE as an embedding: the same bits however observations arrive, kept, brought back, and without torch."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces

from mfec.embeddings import make_embedding, restore_embedding
from mfec.embeddings.vae import NEEDS_TORCH, VAE, Architecture, EncoderError, inference
from mfec.embeddings.vae.networks import as_pictures, costs
from mfec.memory import EpisodicMemory

from .making import SMALL, make_networks, make_vae, noise_frames, write_vae

ATARI = Architecture((84, 84))


@pytest.fixture(scope="module")
def atari() -> VAE:
    """The paper's networks with first weights."""
    return make_vae(ATARI)


@pytest.fixture(scope="module")
def atari_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_vae(tmp_path_factory.mktemp("atari"), ATARI)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> VAE:
    """A small one with its decoder."""
    return VAE.load(write_vae(tmp_path_factory.mktemp("small")))


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


# -- States -----------------------------------------------------------------------------------------------------------


def test_states_are_64_numbers_in_float32(atari: VAE) -> None:
    states = atari(noise_frames(2, ATARI))
    assert (atari.name, atari.dim, atari.observation_shape) == ("vae", 64, (84, 84))
    assert states.dtype == np.float32
    assert states.shape == (2, 64)
    assert atari(noise_frames(0, ATARI)).shape == (0, 64)
    assert not np.array_equal(states[0], states[1])


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_state_has_the_same_bits_alone_and_anywhere_in_a_batch(atari: VAE, threads: None, n_threads: int) -> None:
    frames = noise_frames(7, ATARI)
    torch.set_num_threads(1)
    expected = [atari(frame[None]).tobytes() for frame in frames]
    torch.set_num_threads(n_threads)
    for order in (range(7), range(6, -1, -1), [3, 3, 0], [5]):
        states = atari(frames[list(order)])
        assert [state.tobytes() for state in states] == [expected[i] for i in order]
    fresh = make_vae(ATARI)(frames)
    assert [state.tobytes() for state in fresh] == expected
    assert torch.get_num_threads() == n_threads


def test_states_are_what_the_module_makes(atari: VAE) -> None:
    frames = noise_frames(7, ATARI)
    with torch.inference_mode():
        posterior = make_networks(ATARI)[0](torch.from_numpy(frames)[:, None].float() / 255.0)
    np.testing.assert_allclose(atari(frames), posterior.numpy(), rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("shape", [(4, 60, 55), (60, 55, 3)], ids=["stack", "colours"])
def test_stacks_and_colours_are_encoded_as_the_module_does(shape: tuple[int, ...]) -> None:
    architecture = Architecture(shape, (3, 4, 3, 4), hidden=6, latents=3)
    frames = noise_frames(3, architecture)
    pictures = torch.from_numpy(frames.transpose(0, 3, 1, 2) if shape[-1] == 3 else frames).float() / 255.0
    with torch.inference_mode():
        posterior = make_networks(architecture)[0](pictures)
    np.testing.assert_allclose(make_vae(architecture)(frames), posterior.numpy(), rtol=0.0, atol=1e-5)


def test_layout_does_not_matter_and_observations_are_left_alone() -> None:
    vae, frames = make_vae(), noise_frames(6)
    kept = frames.copy()
    states = vae(frames)
    unwritable = frames.copy()
    unwritable.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns of arrays that it may not write to
        for same in (np.asfortranarray(frames), np.repeat(frames, 2, axis=0)[::2], unwritable):
            assert vae(same).tobytes() == states.tobytes()
    assert frames.tobytes() == kept.tobytes()


def test_states_returned_before_do_not_change() -> None:
    vae, frames = make_vae(), noise_frames(2)
    first = vae(frames[:1])
    kept = first.copy()
    vae(frames[1:])
    assert first.tobytes() == kept.tobytes()


@pytest.mark.parametrize(
    ("observations", "said"),
    [
        (np.zeros((2, 52, 52), np.float32), "not float32 of shape (52, 52)"),
        (np.zeros((2, 52, 52), np.int64), "not int64 of shape (52, 52)"),
        (np.zeros((2, 52, 53), np.uint8), "not uint8 of shape (52, 53)"),
        (np.zeros((2, 52 * 52), np.uint8), "not uint8 of shape (2704,)"),
        (np.zeros((52, 52), np.uint8), "not uint8 of shape (52,)"),
        (np.zeros((2, 1, 52, 52), np.uint8), "not uint8 of shape (1, 52, 52)"),
    ],
    ids=["float", "int64", "size", "flat", "single", "map"],
)
def test_other_observations_are_refused(whole: VAE, observations: np.ndarray, said: str) -> None:
    for use in (whole, whole.reconstruct, whole.costs):
        with pytest.raises(
            ValueError, match=f"^{re.escape('this encoder takes uint8 observations of shape (52, 52), ' + said)}$"
        ):
            use(observations)


def test_environments_with_other_observations_are_refused(whole: VAE) -> None:
    whole.check_fits(np.dtype(np.uint8), (52, 52))
    own = make_vae()
    for vae, whose in ((whole, f"the encoder in {whole.source}"), (own, "this encoder")):
        for dtype, shape in ((np.dtype(np.float32), (52, 52)), (np.dtype(np.uint8), (52, 52, 3))):
            with pytest.raises(EncoderError) as caught:
                vae.check_fits(dtype, shape)
            assert str(caught.value) == (
                f"{whose} takes uint8 observations of shape (52, 52), the environment has {dtype} of shape {shape}"
            )


# -- Decoded ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(52, 52), (57, 54), (3, 52, 53), (52, 53, 3)], ids=["grey", "uneven", "stack", "colours"]
)
def test_reconstructions_are_the_decoder_s_means_for_the_encoder_s(tmp_path: Path, shape: tuple[int, ...]) -> None:
    architecture = Architecture(shape, (3, 4, 3, 4), hidden=6, latents=3)
    frames = noise_frames(5, architecture)
    encoder, decoder = make_networks(architecture)
    with torch.inference_mode():
        pictures = as_pictures(torch.from_numpy(frames), architecture)
        expected = decoder(encoder(pictures)[:, :3])[0].numpy()
    found = VAE.load(write_vae(tmp_path, architecture)).reconstruct(frames)
    assert found.dtype == np.float32
    assert found.shape == frames.shape
    if shape[-1] == 3:
        found = found.transpose(0, 3, 1, 2)
    np.testing.assert_allclose(found, expected.reshape(found.shape), rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("minibatch", [4, 250])
def test_costs_are_the_means_of_the_networks_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minibatch: int
) -> None:
    vae = VAE.load(write_vae(tmp_path, scale=2.0))
    monkeypatch.setattr(inference, "MINIBATCH", minibatch)
    frames = noise_frames(10)
    for seed in (0, 5):
        noise = torch.from_numpy(np.random.default_rng(seed).standard_normal((10, 3), np.float32))
        with torch.inference_mode():
            own = costs(*make_networks(scale=2.0), as_pictures(torch.from_numpy(frames), SMALL), noise)
        found = vae.costs(frames, seed=seed)
        assert all(isinstance(cost, float) for cost in found)
        assert found == pytest.approx([each.mean().item() for each in own], rel=1e-5)
    assert vae.costs(frames) == vae.costs(frames, seed=0)
    assert vae.costs(frames, seed=1)[0] != vae.costs(frames, seed=2)[0]
    assert vae.costs(frames, seed=1)[1] == vae.costs(frames, seed=2)[1], "no noise in it"


def test_without_files_there_is_no_decoder() -> None:
    for use in (make_vae().reconstruct, make_vae().costs):
        with pytest.raises(EncoderError, match=r"^this VAE has no decoder: only VAE\.load can find one$"):
            use(noise_frames(1))


# -- Kept and brought back --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(57, 54), (3, 52, 53), (52, 53, 3)], ids=["uneven", "stack", "colours"])
def test_it_comes_back_from_its_tensors_bit_for_bit(shape: tuple[int, ...]) -> None:
    vae = make_vae(Architecture(shape, (3, 4, 3, 5), hidden=6, latents=2))
    frames = noise_frames(4, vae.architecture)
    restored = restore_embedding("vae", vae.tensors())
    assert isinstance(restored, VAE)
    assert restored.architecture == vae.architecture
    assert restored.digest == vae.digest
    assert restored(frames).tobytes() == vae(frames).tobytes()
    assert {name: tensor.tobytes() for name, tensor in restored.tensors().items()} == {
        name: tensor.tobytes() for name, tensor in vae.tensors().items()
    }


def test_tensors_of_another_architecture_do_not_come_back() -> None:
    tensors = make_vae().tensors()
    tensors["layers"] = tensors["layers"] + 1
    with pytest.raises(ValueError, match="its encoder's tensors are not those of its architecture"):
        VAE.restore(tensors)


@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
def test_it_can_be_sent_to_another_process(whole: VAE, used: bool) -> None:
    frames = noise_frames(3)
    vae = VAE.load(whole.source)
    if used:
        vae(frames), vae.costs(frames)
    sent = pickle.dumps(vae)
    assert b"torch" not in sent
    received = pickle.loads(sent)
    assert (received.source, received.device, received.architecture) == (whole.source, "cpu", SMALL)
    assert received(frames).tobytes() == whole(frames).tobytes()
    assert received.costs(frames) == whole.costs(frames)


def test_digests_are_equal_for_equal_encoders_alone(whole: VAE) -> None:
    same = [make_vae(), make_vae(), whole, whole.on("cpu"), VAE.restore(whole.tensors())]
    assert len({vae.digest for vae in same}) == 1
    tensors = make_vae().tensors()
    tensors["posterior.bias"] = np.nextafter(tensors["posterior.bias"], np.float32(1))
    one_row_more = Architecture((53, 52), SMALL.channels, SMALL.hidden, SMALL.latents)
    assert one_row_more.encoder_shapes() == SMALL.encoder_shapes()
    others = [make_vae(seed=1), VAE.restore(tensors), make_vae(one_row_more)]
    assert len({vae.digest for vae in (whole, *others)}) == 4


# -- In use -----------------------------------------------------------------------------------------------------------


def test_a_memory_finds_the_states_that_were_written() -> None:
    vae, frames = make_vae(), noise_frames(30)
    memory = EpisodicMemory(n_actions=2, dim=vae.dim, capacity=20, k=1)
    states = vae(frames)
    memory.write(states[:20], actions=np.arange(20) % 2, returns=np.arange(20.0))
    estimates = memory.estimate(np.concatenate([vae(frame[None]) for frame in frames[:20]]))
    own = np.arange(20), np.arange(20) % 2
    assert estimates.exact[own].all()
    assert not estimates.exact[own[0], 1 - own[1]].any()
    assert estimates.values[own].tolist() == list(range(20))
    estimates = memory.estimate(vae(frames[20:]))
    assert not estimates.exact.any()
    for i, values in enumerate(estimates.values):
        squared = np.square(states[:20].astype(np.float64) - states[20 + i]).sum(1)
        nearest = [float(2 * squared[action::2].argmin() + action) for action in (0, 1)]
        assert values.tolist() == nearest


def test_it_is_made_for_an_environment_by_the_name_of_its_directory(whole: VAE) -> None:
    space = spaces.Box(0, 255, (52, 52), np.uint8)
    for name in ("vae", "auto"):
        vae = make_embedding(name, space, 64, np.random.SeedSequence(0), str(whole.source))
        assert isinstance(vae, VAE)
        assert vae.digest == whole.digest
    with pytest.raises(EncoderError, match=r"the environment has uint8 of shape \(52, 53\)$"):
        make_embedding("vae", spaces.Box(0, 255, (52, 53), np.uint8), 64, np.random.SeedSequence(0), str(whole.source))


# -- Without torch ----------------------------------------------------------------------------------------------------


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_torch_is_imported_when_it_first_encodes(atari_directory: Path) -> None:
    run(f"""
import sys
import mfec
assert "torch" not in sys.modules, "by the package"
from mfec import VAE
assert "torch" not in sys.modules, "by the name"
import pickle, numpy as np
vae = VAE.load({str(atari_directory)!r})
vae.dim, vae.digest, vae.tensors(), VAE.restore(vae.tensors()), pickle.loads(pickle.dumps(vae)), vae.on("cuda")
vae.check_fits(np.dtype(np.uint8), (84, 84))
assert "torch" not in sys.modules, "by a VAE that encodes nothing"
vae(np.zeros((1, 84, 84), np.uint8))
assert "torch" in sys.modules
assert "triton" not in sys.modules
""")


def test_missing_torch_is_an_error_that_names_the_extra(atari_directory: Path) -> None:
    assert "mfec[torch]" in NEEDS_TORCH
    run(f"""
import sys
sys.modules["torch"] = None
import numpy as np
from mfec import VAE
vae = VAE.load({str(atari_directory)!r})
frames = np.zeros((1, 84, 84), np.uint8)
for use in (vae, vae.reconstruct, vae.costs, VAE.restore(vae.tensors())):
    try:
        use(frames)
    except ImportError as error:
        assert str(error) == "the VAE needs the extra `torch`: pip install 'mfec[torch]'", error
    else:
        raise AssertionError("no error")
""")
