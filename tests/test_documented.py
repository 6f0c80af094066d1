"""Every command and every block of Python in README and docs, at a small scale, in the order of its page.

A page is followed in one empty folder. Budgets are cut, and what this machine cannot do (a GPU, a cluster, a window, a
package index) is not done but read: such a command must at least be one that the program takes.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mfec.cli import commands_for, main
from mfec.cli.reading import read_command

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
# Run word by word in tests/algorithms/test_extending.py, which installs the package that they need.
ELSEWHERE = {"docs/extending.md"}
PROGRAMS = ("mfec", "make", "pip", "python", ".venv/bin/pytest")
FRAMES = 3000  # of a run: random games of Q*bert end after 1,400
SMALL = {
    "--total-frames": FRAMES, "--evaluate-every": FRAMES, "--evaluate-games": 2, "--n-envs": 2, "--episodes": 2,
    "--frames": 400, "--vae-frames": 400, "--vae-steps": 3, "--steps": 3, "--jobs": 2,
    "--seconds": 2,
}  # fmt: skip
ONLY_READ = ("play", "--launcher", "--ray-address")  # a window, a cluster
NEEDED = [
    "train qbert --out runs/qbert",
    "train qbert --seed 1 --out runs/other",
    "train CartPole-v1 --out runs/cartpole",
]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def commands_of(text: str) -> list[list[str]]:
    """The commands in the indented blocks of a page, as arguments; a line that ends in a backslash goes on."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S).replace("\\\n", " ")
    lines = [line for line in re.findall(r"^    (\S.*)$", text, flags=re.M) if line.split()[0] in PROGRAMS]
    found = [shlex.split(part, comments=True) for line in lines for part in line.split(" && ")]
    return [arguments for arguments in found if arguments[0] in PROGRAMS]


def blocks_of(text: str) -> list[str]:
    """The fenced blocks of Python."""
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)


def files_of(text: str) -> dict[str, str]:
    """The blocks that a page wants in a file: those after a line that ends with the file's name."""
    return dict(re.findall(r"`(\w+\.py)`[^\n`]*:\n\n```python\n(.*?)^```$", text, flags=re.M | re.S))


def small(arguments: Sequence[str]) -> list[str]:
    """The arguments of a command of ours with its budgets cut, and without the GPU."""
    if arguments[:2] == ["mfec", "reproduce"] and "--dry-run" not in arguments:  # its runs alone, and they are many
        out = arguments[arguments.index("--out") + 1]
        few = "--games qbert --algorithms mfec --embeddings random_projection --seeds 2 --no-video --total-frames"
        return [*arguments[:3], *few.split(" "), str(FRAMES), "--out", out]
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        if word in SMALL:
            kept += [word, str(min(SMALL[word], float(next(words).replace("_", "")))).removesuffix(".0")]
        elif word == "--device":
            next(words)
        else:
            kept.append(word)
    if "--seeds" in kept:  # the first two
        begin = kept.index("--seeds") + 1
        end = next((at for at in range(begin, len(kept)) if kept[at].startswith("--")), len(kept))
        kept[begin + 2 : end] = []
    return [*kept, *defaults_for(kept)]


def defaults_for(kept: Sequence[str]) -> list[str]:
    """What a command needs beside what the page gives, to be small."""
    own: dict[tuple[str, ...], dict[str, str]] = {
        ("mfec", "train"): {"--total-frames": str(FRAMES), "--no-video": ""},
        ("mfec", "vae", "train"): {"--frames": "400", "--steps": "3"},
        ("mfec", "vae", "show"): {"--frames": "400"},
        ("mfec", "check"): {"--seconds": "2"},
    }  # fmt: skip
    added: list[str] = []
    for beginning, options in own.items():
        if tuple(kept[: len(beginning)]) == beginning and "--help" not in kept:
            for option, value in options.items():
                if option not in kept:
                    added += [option, value] if value else [option]
    if "vae" in kept and "--embedding" in kept and "--vae" not in kept:
        added += ["--vae-frames", "400", "--vae-steps", "3"]
    return added


def follow(arguments: list[str]) -> None:
    """Do what the command says, or as much of it as can be done here."""
    program, *rest = arguments
    check: Callable[[list[str]], None] = {
        "mfec": _mfec, "make": _make, "pip": _pip, "python": _script, ".venv/bin/pytest": _pytest,
    }[program]  # fmt: skip
    check(rest)


def _mfec(rest: list[str]) -> None:
    arguments = small(["mfec", *rest])[1:]
    serves = arguments[:1] == ["inspect"] and "--export" not in arguments
    if serves or any(word in arguments for word in ONLY_READ):
        read_command(commands_for(arguments), arguments)
        return
    if "--out" in arguments and arguments[0] in ("train", "reproduce", "vae") and "--resume" not in arguments:
        shutil.rmtree(arguments[arguments.index("--out") + 1], ignore_errors=True)  # of an earlier line of the page
    try:
        status = main(arguments)
    except SystemExit as end:  # of --help
        status = end.code or 0
    assert status == 0, shlex.join(arguments)


def _make(rest: list[str]) -> None:
    done = subprocess.run(["make", "--dry-run", "-C", str(ROOT), *rest], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _pip(rest: list[str]) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = re.findall(r"(?:\.|mfec)\[([\w,-]+)\]", " ".join(rest))
    assert rest[0] == "install"
    assert {extra for group in named for extra in group.split(",")} <= set(extras)


def _script(rest: list[str]) -> None:
    if rest[0] == "-m":
        assert importlib.util.find_spec(rest[1])
        return
    options = {word.partition("=")[0] for word in rest if word.startswith("--")}
    done = subprocess.run([sys.executable, str(ROOT / rest[0]), "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert options <= set(re.findall(r"--[\w-]+", done.stdout)), rest


def _pytest(rest: list[str]) -> None:
    assert all((ROOT / path).exists() for path in rest if not path.startswith("-"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with the results that pages draw, and runs that they take as there."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "results", tmp_path / "results", symlinks=True)
    return tmp_path


@pytest.mark.slow("trains, draws and films what all pages do")
@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_commands_of_a_page_work(page: Path, folder: Path):
    whole = page.read_text("utf-8")
    commands = [] if name_of(page) in ELSEWHERE else commands_of(whole)
    for name, source in files_of(whole).items():
        (folder / name).write_text(source)
    text = " ".join(map(" ".join, commands))
    for run in NEEDED:
        if run.rpartition(" ")[2] in text and f"mfec {run}" not in text:
            follow(["mfec", *run.split()])
    for arguments in commands:
        follow(arguments)


@pytest.mark.slow("trains what all pages do")
@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page.read_text("utf-8"))], ids=name_of)
def test_the_python_of_a_page_works(page: Path, folder: Path):
    if name_of(page) in ELSEWHERE:
        return
    names: dict[str, Any] = {"__name__": "page"}
    blocks = blocks_of(page.read_text("utf-8"))
    for run in NEEDED:
        if f"{run.rpartition(' ')[2]}/checkpoint" in "".join(blocks):
            follow(["mfec", *run.split()])
    for block in blocks:
        block = re.sub(r"(total_frames=|learn\()[\d_]+", rf"\g<1>{FRAMES}", block)
        block = re.sub(r"(evaluate_every=)[\d_]+", rf"\g<1>{FRAMES}", block)
        block = block.replace(', device="cuda"', "")
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(block, name_of(page), "exec"), names)


def test_pages_have_what_is_tested():
    commands = [arguments for page in PAGES for arguments in commands_of(page.read_text("utf-8"))]
    assert len(commands) > 100
    assert {arguments[0] for arguments in commands} == set(PROGRAMS)
    assert sum(len(blocks_of(page.read_text("utf-8"))) for page in PAGES) > 8


@pytest.mark.parametrize(
    ("given", "cut"),
    [
        ("mfec train qbert --total-frames 1000000 --seeds 0 1 2 --device cuda --out runs/q",
         "mfec train qbert --total-frames 3000 --seeds 0 1 --out runs/q --no-video"),
        ("mfec evaluate runs/q --episodes 20 --random", "mfec evaluate runs/q --episodes 2 --random"),
        ("mfec train --help", "mfec train --help"),
    ],
)  # fmt: skip
def test_budgets_are_cut(given: str, cut: str):
    assert small(given.split()) == cut.split()
