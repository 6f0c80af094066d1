"""Files: whole or not at all, whatever ends their writing, and readable by whom the umask says."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from mfec.errors import MfecError
from mfec.files import WriteError, check_writable, whole_file, write_whole


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir())


def begin_and_die(path: Path) -> None:
    """A process that is killed in the middle of a file."""
    child = os.fork()
    if child == 0:
        with whole_file(path) as draft:
            draft.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


# -- Whole ------------------------------------------------------------------------------------------------------------


def test_a_file_appears_when_it_is_whole(tmp_path):
    file = tmp_path / "new" / "deep" / "page.html"
    with whole_file(file) as draft:
        draft.write_text("half")
        assert not file.exists()
        assert (draft.parent, draft.suffix) == (file.parent, ".html")  # programs go by the ending
    assert file.read_text() == "half"
    write_whole(file, "whole: é\n")
    write_whole(str(file.with_name("other")), b"\x00")
    assert file.read_bytes() == "whole: é\n".encode()
    assert names(file.parent) == ["other", "page.html"]
    longest = tmp_path / ("x" * 250 + ".html")
    write_whole(longest, "whole")
    assert longest.read_text() == "whole"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_whatever_ends_its_writing_the_file_stays_as_it_was(tmp_path, error):
    for file in (tmp_path / "old", tmp_path / "new"):
        write_whole(tmp_path / "old", "before")
        with pytest.raises(error), whole_file(file) as draft:  # noqa: PT012
            draft.write_text("half")
            raise error
        assert names(tmp_path) == ["old"]
        assert (tmp_path / "old").read_text() == "before"


def test_what_a_killed_process_has_left_goes_with_the_next_file(tmp_path):
    write_whole(tmp_path / "file", "before")
    begin_and_die(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "before"
    assert len(names(tmp_path)) == 2
    write_whole(tmp_path / "another", "whole")
    assert names(tmp_path) == ["another", "file"]


def test_two_that_write_the_same_file_do_not_mix(tmp_path):
    file = tmp_path / "file"
    with whole_file(file) as first, whole_file(file) as second:
        first.write_text("first")
        second.write_text("second")
        assert first != second
    assert file.read_text() == "first"  # which became the file last
    assert names(tmp_path) == ["file"]


def test_what_only_looks_like_a_draft_is_left_alone(tmp_path):
    for name in (".draft", ".draft-elsewhere-1-1-file", "file.draft"):
        (tmp_path / name).write_text("mine")
    write_whole(tmp_path / "file", "whole")
    assert len(names(tmp_path)) == 4


def test_through_a_link_its_file_is_written(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "file")
    write_whole(tmp_path / "link", "whole")
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "there") == ["file"]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_the_umask_says_who_may_read_it(tmp_path, mask):
    before = os.umask(mask)
    try:
        with whole_file(tmp_path / "file") as draft:
            draft.unlink()
            draft.touch(0o600)  # as some libraries leave their files
        write_whole(tmp_path / "file", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~mask


# -- Places where no file can be --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "why"), [
    ("taken/file", "taken is no directory"),
    ("taken/deep/file", "taken is no directory"),
    ("folder", "it is a directory"),
    ("pipe", "it is no plain file"),
    ("x" * 300, "File name too long"),
])  # fmt: skip
def test_where_no_file_can_be_a_sentence_says_so_before_anything_is_done(tmp_path, name, why):
    (tmp_path / "taken").touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MfecError) as error:
        check_writable(tmp_path / name)
    assert str(error.value).startswith(f"cannot write {tmp_path / name}: ")
    assert str(error.value).endswith(why)


def test_where_a_file_can_be_nothing_is_left(tmp_path):
    (tmp_path / "old").write_text("mine")
    for name in ("old", "new", "deep/er/new"):
        check_writable(tmp_path / name)
    assert names(tmp_path) == ["old"]
    assert (tmp_path / "old").read_text() == "mine"


def test_an_error_names_the_file_and_not_its_draft(tmp_path):
    (tmp_path / "taken").touch()
    with pytest.raises(WriteError) as early:
        write_whole(tmp_path / "taken" / "file", "")
    with pytest.raises(OSError, match="cannot write ") as late, whole_file(tmp_path / "file") as draft:  # noqa: PT012
        draft.write_text("half")
        raise OSError(28, "No space left on device", str(draft))
    assert str(early.value) == f"cannot write {tmp_path / 'taken' / 'file'}: {tmp_path / 'taken'} is no directory"
    assert str(late.value) == f"cannot write {tmp_path / 'file'}: No space left on device"
    assert names(tmp_path) == ["taken"]
