"""Checkpoints: whole or not at all, every damage noticed, nothing run."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from mfec import MFEC, EpisodicMemory, checkpoint
from mfec.checkpoint import CheckpointError, read_checkpoint, write_checkpoint

from .waiting import PATIENCE

STATE = {"name": "é", "numbers": [1, 2.5, -1e-300], "nested": {"none": None, "yes": True}, "large": 2**127}
TENSORS: dict[str, dict[str, Any]] = {
    "memory": {"states": np.arange(12, dtype=np.float32).reshape(4, 3), "empty": np.zeros((0, 5), np.int64)},
    "embedding": {"weights": np.linspace(0, 1, 50).astype(np.float32), "flag": np.array([True, False])},
}


def save(path: Path, number: int = 0) -> None:
    """A checkpoint that can be told from others by its number."""
    tensors = {**TENSORS, "memory": {**TENSORS["memory"], "number": np.array([number])}}
    write_checkpoint(path, kind="test", state={**STATE, "number": number}, tensors=tensors)


def loads_as(path: Path, number: int) -> bool:
    state, tensors = read_checkpoint(path, kind="test")
    return bool(state["number"] == number and tensors["memory"]["number"].tolist() == [number])


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir())


def sign(path: Path, **changes: Any) -> None:
    """Change the manifest as a stranger could, with a right checksum."""
    body = {**json.loads((path / "manifest.json").read_text()), **changes}
    body = {key: value for key, value in body.items() if key != "sha256" and value is not ...}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    (path / "manifest.json").write_text(json.dumps({**body, "sha256": digest}))


def entry_of(file: Path) -> dict[str, Any]:
    data = file.read_bytes()
    return {"file": file.name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


# -- Round trip -------------------------------------------------------------------------------------------------------


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "new" / "deep", kind="test", state=STATE, tensors=TENSORS)
    state, tensors = read_checkpoint(str(tmp_path / "new" / "deep"), kind="test")
    assert state == STATE
    assert tensors.keys() == TENSORS.keys()
    for name, arrays in TENSORS.items():
        assert tensors[name].keys() == arrays.keys()
        for key, array in arrays.items():
            assert tensors[name][key].dtype == array.dtype
            assert tensors[name][key].shape == array.shape
            assert tensors[name][key].tobytes() == array.tobytes()


def test_arrays_that_are_views_are_written_as_they_look(tmp_path: Path) -> None:
    whole = np.arange(24).reshape(4, 6)
    write_checkpoint(tmp_path, kind="test", state={}, tensors={"a": {"cut": whole[::2, ::-3], "turned": whole.T}})
    read = read_checkpoint(tmp_path, kind="test")[1]["a"]
    assert read["cut"].tolist() == whole[::2, ::-3].tolist()
    assert read["turned"].tolist() == whole.T.tolist()


def test_files_are_json_and_safetensors_and_only_the_latest_stay(tmp_path: Path) -> None:
    for number in range(3):
        save(tmp_path, number)
        assert loads_as(tmp_path, number)
        assert len(names(tmp_path)) == 3
    assert {Path(name).suffix for name in names(tmp_path)} == {".json", ".safetensors"}


def test_other_files_in_the_directory_are_left_alone(tmp_path: Path) -> None:
    mine = ["notes.txt", "curve.csv", "weights.safetensors", "events-3.log", "policy-3.safetensors", "letter-1.draft"]
    for name in mine:
        (tmp_path / name).write_text("mine")
    save(tmp_path, 1)
    save(tmp_path, 2)
    assert loads_as(tmp_path, 2)
    assert [name for name in mine if not (tmp_path / name).exists()] == []


def test_the_checkpoint_of_an_agent_holds_its_memory(tmp_path: Path) -> None:
    """A peer saved the projection alone; what had been learned was gone."""
    agent = MFEC("FrozenLake-v1", embedding="random_projection", dim=8, capacity=1000, seed=0).learn(200)
    assert len(agent.memory) > 10
    agent.save(tmp_path)
    loaded = MFEC.load(tmp_path)
    assert loaded.memory.settings() == agent.memory.settings()
    for name, tensor in agent.memory.tensors().items():
        assert loaded.memory.tensors()[name].tobytes() == tensor.tobytes()
    assert loaded.embedding(np.arange(16)).tobytes() == agent.embedding(np.arange(16)).tobytes()


# -- Saving that does not come to its end -----------------------------------------------------------------------------


def save_and_die(path: Path, number: int, call: str, calls_before: int) -> None:
    """Save in a process that is killed in place of one of its system calls."""

    def dying(*arguments: Any) -> None:
        nonlocal calls_before
        if calls_before == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        calls_before -= 1
        real(*arguments)

    real = getattr(os, call)
    child = os.fork()
    if child == 0:
        setattr(os, call, dying)
        save(path, number)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_killed_while_saving_the_old_checkpoint_stays(tmp_path: Path, call: str, first: bool) -> None:
    """Killed in place of each of the system calls for data files and manifest, one after the other."""
    for number in (1, 2, 3):
        path = tmp_path / str(number)
        if not first:
            save(path, 0)
        save_and_die(path, number, call, number - 1)
        if first:
            with pytest.raises(CheckpointError, match="holds no checkpoint"):
                read_checkpoint(path, kind="test")
        else:
            assert loads_as(path, 0)
            assert len(names(path)) > 3
        save(path, 7)
        assert loads_as(path, 7)
        assert len(names(path)) == 3  # what the killed process left is gone


class Interrupted(BaseException):
    """Such as a second Ctrl-C."""


def test_interrupted_after_the_rename_the_new_checkpoint_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 0)

    def replace_and_stop(draft: Path, file: Path) -> None:
        real(draft, file)
        if file.name == "manifest.json":
            raise Interrupted

    real = os.replace
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace_and_stop)
        with pytest.raises(Interrupted):
            save(tmp_path, 1)
    assert loads_as(tmp_path, 1)
    save(tmp_path, 2)
    assert loads_as(tmp_path, 2)
    assert len(names(tmp_path)) == 3


@pytest.mark.parametrize("fails", [1, 2, 3, 4])
def test_a_sync_that_fails_leaves_a_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    """Two data files, the manifest, and last the directory, when the new manifest is in place already."""
    save(tmp_path, 0)
    calls = 0

    def fsync(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == fails:
            raise OSError(5, "Input/output error")
        real(descriptor)

    real = os.fsync
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        try:
            save(tmp_path, 1)
            saved = True
        except CheckpointError as error:
            assert "Input/output error" in str(error)  # noqa: PT017
            saved = False
    state, tensors = read_checkpoint(tmp_path, kind="test")
    assert state["number"] == tensors["memory"]["number"].tolist()[0]
    assert state["number"] in ((1,) if saved else (0, 1))
    assert fails == 4 or state["number"] == 0


def limited(path: Path, limit: int) -> str:
    """Save in a process whose files may not grow beyond `limit` bytes; what it printed."""
    program = f"""
        import resource, signal, sys
        import numpy as np
        from mfec.checkpoint import CheckpointError, write_checkpoint
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
        state = {{"number": 1, "long": "x" * 20_000}}
        tensors = {{"memory": {{"number": np.array([1])}}, "large": {{"zeros": np.zeros(10_000)}}}}
        try:
            write_checkpoint(sys.argv[1], kind="test", state=state, tensors=tensors)
            print("saved")
        except CheckpointError as error:
            print("CheckpointError:", error)
    """
    command = [sys.executable, "-B", "-c", textwrap.dedent(program), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
@pytest.mark.parametrize("limit", [100, 10_000])
def test_on_a_full_disk_the_last_good_checkpoint_stays(tmp_path: Path, limit: int) -> None:
    save(tmp_path, 0)
    before = names(tmp_path)
    said = limited(tmp_path, limit)
    assert said.startswith(f"CheckpointError: cannot save {tmp_path}")
    assert "File too large" in said
    assert "the last good checkpoint is kept" in said
    assert loads_as(tmp_path, 0)
    assert names(tmp_path) == before  # the disk is full: half-written files must not stay


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
def test_on_a_full_disk_the_first_save_says_that_nothing_is_kept(tmp_path: Path) -> None:
    said = limited(tmp_path / "new", 10_000)
    assert "nothing is kept" in said
    assert "the last good checkpoint" not in said


def test_a_file_in_the_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(CheckpointError, match=r"cannot save .*taken.*nothing is kept"):
        save(tmp_path / "taken")
    with pytest.raises(CheckpointError, match=r"taken.* holds no checkpoint"):
        read_checkpoint(tmp_path / "taken", kind="test")
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_state_that_json_cannot_hold_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 0)
    with pytest.raises((CheckpointError, TypeError)):
        write_checkpoint(tmp_path, kind="test", state={"object": object()}, tensors=TENSORS)
    assert loads_as(tmp_path, 0)
    save(tmp_path, 1)
    assert len(names(tmp_path)) == 3


# -- Others who look at it --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_the_umask_says_who_may_read_it(tmp_path: Path, mask: int) -> None:
    """safetensors leaves its files to their owner alone."""
    before = os.umask(mask)
    try:
        save(tmp_path)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o666 & ~mask}


def test_replaced_while_it_is_read_the_new_one_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the manifest and the data files it speaks of."""
    save(tmp_path, 1)
    loads = 0

    def opened(directory: Path, file: checkpoint.File) -> Any:
        nonlocal loads
        loads += 1
        if loads == 1:
            save(tmp_path, 2)
        return real(directory, file)

    real = checkpoint._open
    monkeypatch.setattr(checkpoint, "_open", opened)
    assert loads_as(tmp_path, 2)


def test_a_file_that_is_gone_from_a_checkpoint_that_stands_is_an_error(tmp_path: Path) -> None:
    save(tmp_path)
    next(tmp_path.glob("memory-*")).unlink()
    with pytest.raises(CheckpointError, match=r"memory-1\.safetensors is missing"):
        read_checkpoint(tmp_path, kind="test")


def test_whoever_reads_while_another_saves_again_and_again_reads_a_whole_one(tmp_path: Path) -> None:
    save(tmp_path, 0)
    over = threading.Event()

    def replace_often() -> None:
        for number in range(1, 21):
            save(tmp_path, number)
        over.set()

    writer = threading.Thread(target=replace_often)
    writer.start()
    numbers = []
    while not over.is_set():
        state, tensors = read_checkpoint(tmp_path, kind="test")
        assert tensors["memory"]["number"].tolist() == [state["number"]]
        numbers.append(state["number"])
    writer.join()
    assert numbers == sorted(numbers)


# -- Damage -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def saved_memory(tmp_path: Path) -> Path:
    memory = EpisodicMemory(2, 3, capacity=20, k=2)
    rng = np.random.default_rng(0)
    memory.write(rng.standard_normal((30, 3)), rng.integers(0, 2, 30), rng.standard_normal(30))
    memory.save(tmp_path / "saved")
    return tmp_path / "saved"


def test_every_flipped_bit_is_noticed(saved_memory: Path) -> None:
    for name in names(saved_memory):
        file = saved_memory / name
        good = file.read_bytes()
        for position in np.unique(np.linspace(0, len(good) - 2, 150).astype(int)).tolist():
            broken = bytearray(good)
            broken[position] ^= 1 << position % 8
            file.write_bytes(broken)
            with pytest.raises(CheckpointError) as error:
                EpisodicMemory.load(saved_memory)
            assert name in str(error.value), (position, str(error.value))
        file.write_bytes(good)
    assert len(EpisodicMemory.load(saved_memory)) > 0


@given(st.data())
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_every_replaced_byte_is_noticed(saved_memory: Path, data: st.DataObject) -> None:
    """Blanks between the parts of the manifest mean nothing: swapped for others, the content must still be whole."""
    name = data.draw(st.sampled_from(names(saved_memory)))
    file = saved_memory / name
    good = file.read_bytes()
    position = data.draw(st.integers(0, len(good) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != good[position]))
    blanks = b" \t\r\n"
    file.write_bytes(good[:position] + bytes([byte]) + good[position + 1 :])
    try:
        loaded = EpisodicMemory.load(saved_memory)
        assert name == "manifest.json"
        assert good[position] in blanks
        assert byte in blanks
        assert len(loaded) == 30
    except CheckpointError as error:
        assert name in str(error)  # noqa: PT017
    finally:
        file.write_bytes(good)


def test_a_truncated_or_longer_file_is_noticed(saved_memory: Path) -> None:
    for name in names(saved_memory):
        file = saved_memory / name
        good = file.read_bytes()
        body = good.rstrip()  # the newline at the end of the manifest may go
        for broken in (b"", good[:1], good[: len(good) // 2], body[:-1], good + b"x", good + good):
            file.write_bytes(broken)
            with pytest.raises(CheckpointError) as error:
                EpisodicMemory.load(saved_memory)
            assert name in str(error.value)
        file.write_bytes(good)


def test_a_missing_file_is_named(saved_memory: Path) -> None:
    for name in names(saved_memory):
        good = (saved_memory / name).read_bytes()
        (saved_memory / name).unlink()
        with pytest.raises(CheckpointError) as error:
            EpisodicMemory.load(saved_memory)
        assert name in str(error.value)
        assert "missing" in str(error.value)
        (saved_memory / name).mkdir()
        with pytest.raises(CheckpointError, match=name):
            EpisodicMemory.load(saved_memory)
        (saved_memory / name).rmdir()
        (saved_memory / name).write_bytes(good)


def test_no_directory_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"nowhere holds no checkpoint: manifest\.json is missing"):
        read_checkpoint(tmp_path / "nowhere", kind="test")
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        read_checkpoint(tmp_path, kind="test")


# -- Strangers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    "{}", "[]", "null", "3", '"mfec checkpoint"', '{"format": "other"}', '{"format": ["mfec checkpoint"]}',
    '{"name": "package", "version": "1.0.0"}', "not JSON", "[" * 100_000, "9" * 10_000, "\x00", "",
])  # fmt: skip
def test_foreign_json_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        read_checkpoint(tmp_path, kind="test")


@pytest.mark.parametrize("version", [0, 3, "1", None, [1]])
def test_another_format_version_is_refused(tmp_path: Path, version: Any) -> None:
    save(tmp_path)
    sign(tmp_path, version=version)
    with pytest.raises(CheckpointError, match=r"manifest\.json has format version .* reads 1 and 2"):
        read_checkpoint(tmp_path, kind="test")


def test_a_checkpoint_of_version_1_is_read(saved_memory: Path) -> None:
    """It has one file for each name, with all entries."""
    before = EpisodicMemory.load(saved_memory).tensors()
    sign(saved_memory, version=1)
    after = EpisodicMemory.load(saved_memory).tensors()
    assert {name: own.tobytes() for name, own in after.items()} == {name: own.tobytes() for name, own in before.items()}


def test_a_manifest_without_its_checksum_is_refused(tmp_path: Path) -> None:
    save(tmp_path)
    body = json.loads((tmp_path / "manifest.json").read_text())
    del body["sha256"]
    (tmp_path / "manifest.json").write_text(json.dumps(body))
    with pytest.raises(CheckpointError, match=r"manifest\.json is damaged"):
        read_checkpoint(tmp_path, kind="test")


def test_another_kind_is_refused(tmp_path: Path, saved_memory: Path) -> None:
    with pytest.raises(CheckpointError, match="the checkpoint of a 'memory', not of a 'agent'"):
        MFEC.load(saved_memory)
    save(tmp_path)
    with pytest.raises(CheckpointError, match="the checkpoint of a 'test', not of a 'memory'"):
        EpisodicMemory.load(tmp_path)


def test_foreign_safetensors_are_refused(saved_memory: Path) -> None:
    [file] = saved_memory.glob("*.safetensors")
    save_file({"weights": np.ones(3)}, file)
    with pytest.raises(CheckpointError, match=file.name):
        EpisodicMemory.load(saved_memory)
    sign(saved_memory, files={"memory": entry_of(file)})
    with pytest.raises(CheckpointError, match="no complete memory"):
        EpisodicMemory.load(saved_memory)


@pytest.mark.parametrize("data", [b"", b"not safetensors", b"\xff" * 64, (10).to_bytes(8, "little") + b"{}"])
def test_files_that_are_no_safetensors_are_refused(saved_memory: Path, data: bytes) -> None:
    [file] = saved_memory.glob("*.safetensors")
    file.write_bytes(data)
    sign(saved_memory, files={"memory": entry_of(file)})
    with pytest.raises(CheckpointError, match=f"{file.name} cannot be read"):
        EpisodicMemory.load(saved_memory)


@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3"])
def test_numbers_that_numpy_lacks_are_refused(saved_memory: Path, dtype: str) -> None:
    [file] = saved_memory.glob("*.safetensors")
    size = 4 if dtype == "BF16" else 2
    header = json.dumps({"states": {"dtype": dtype, "shape": [2], "data_offsets": [0, size]}}).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * size)
    sign(saved_memory, files={"memory": entry_of(file)})
    with pytest.raises(CheckpointError):
        EpisodicMemory.load(saved_memory)


@pytest.mark.parametrize("changes", [
    {"files": ...}, {"state": ...}, {"files": []}, {"files": None}, {"files": {"memory": None}},
    {"files": {"memory": {}}}, {"files": {"memory": []}}, {"files": {"memory": {"file": 3, "bytes": 1, "sha256": ""}}},
    {"files": {"memory": {"file": "", "bytes": 1, "sha256": ""}}}, {"files": {}},
    {"state": None}, {"state": []}, {"state": {}}, {"state": [1]},
])  # fmt: skip
def test_a_signed_manifest_that_lacks_parts_is_refused(saved_memory: Path, changes: dict[str, Any]) -> None:
    sign(saved_memory, **changes)
    with pytest.raises(CheckpointError):
        EpisodicMemory.load(saved_memory)


@pytest.mark.parametrize("how", ["relative", "absolute", "nested", "parent"])
def test_a_manifest_cannot_name_files_elsewhere(tmp_path: Path, saved_memory: Path, how: str) -> None:
    [inside] = saved_memory.glob("*.safetensors")
    outside = tmp_path / "outside.safetensors"
    outside.write_bytes(inside.read_bytes())
    (saved_memory / "nested").mkdir()
    (saved_memory / "nested" / "deep.safetensors").write_bytes(inside.read_bytes())
    name = {
        "relative": "../outside.safetensors",
        "absolute": str(outside),
        "nested": "nested/deep.safetensors",
        "parent": "..",
    }[how]
    sign(saved_memory, files={"memory": {**entry_of(inside), "file": name}})
    with pytest.raises(CheckpointError):
        EpisodicMemory.load(saved_memory)


# -- Pickle -----------------------------------------------------------------------------------------------------------


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


@pytest.mark.parametrize("protocol", [0, pickle.HIGHEST_PROTOCOL])
def test_a_pickle_is_refused_and_not_run(tmp_path: Path, saved_memory: Path, protocol: int) -> None:
    trace = tmp_path / "trace"
    bomb = pickle.dumps(Bomb(trace), protocol)
    pickle.loads(bomb)
    assert trace.exists()  # it works
    trace.unlink()

    [file] = saved_memory.glob("*.safetensors")
    file.write_bytes(bomb)
    with pytest.raises(CheckpointError, match=file.name):
        EpisodicMemory.load(saved_memory)
    sign(saved_memory, files={"memory": entry_of(file)})
    with pytest.raises(CheckpointError, match=file.name):
        EpisodicMemory.load(saved_memory)
    (saved_memory / "manifest.json").write_bytes(bomb)
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        EpisodicMemory.load(saved_memory)
    assert not trace.exists()


def test_object_arrays_are_not_written(tmp_path: Path) -> None:
    """They could only be pickled."""
    save(tmp_path, 0)
    with pytest.raises((CheckpointError, TypeError, ValueError, KeyError)):
        write_checkpoint(tmp_path, kind="test", state={}, tensors={"a": {"objects": np.array([object()])}})
    assert loads_as(tmp_path, 0)
