"""The package as a whole: imports that point one way, nothing that runs strangers' code, a wheel that works."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import mfec
from mfec.embeddings.vae import shipped_names

from .waiting import PATIENCE

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "mfec"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FILES = sorted(SOURCE.rglob("*.py"))

ABOVE = {"algorithms", "experiments", "figures", "inspector", "cli"}
BESIDE = {"agent", "callbacks", "evaluation", "history"}
FORBIDDEN = {
    "device": ABOVE | BESIDE | {"memory", "envs", "embeddings"},
    "memory": ABOVE | BESIDE | {"envs", "embeddings"},
    "envs": ABOVE | BESIDE | {"memory", "embeddings"},
    "embeddings": ABOVE | BESIDE | {"memory", "envs"},
    "history": ABOVE | {"agent", "callbacks", "evaluation", "memory", "envs", "embeddings"},
    "evaluation": ABOVE | {"agent", "callbacks", "history", "memory", "embeddings"},
    "callbacks": ABOVE | {"memory", "envs", "embeddings"},
    "agent": ABOVE | {"evaluation", "history"},
    "algorithms": {"cli", "experiments", "figures", "inspector", "evaluation", "history"},
    "experiments": {"cli", "figures", "inspector"},
    "figures": {"cli", "experiments", "inspector", "agent"},
    "inspector": {"cli", "experiments", "figures"},
    "cli": set[str](),
}


def room(file: Path) -> str:
    """The part of the package that a file belongs to: a directory, or a module at the top."""
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(file: Path) -> Iterator[str]:
    """Full names of all that a file imports, at its top, in its functions or for its types."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relative to itself"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_there_is_something_to_look_at():
    assert {file.parent.name for file in SOURCE.glob("*/__init__.py")} | {"agent"} == set(FORBIDDEN)
    assert "mfec.memory.EpisodicMemory" in set(imports(SOURCE / "agent.py"))


@pytest.mark.parametrize("name", FORBIDDEN)
def test_imports_point_one_way(name):
    own = [file for file in FILES if room(file) == name]
    assert own
    wrong = [
        f"{file.relative_to(SOURCE)} imports {imported}"
        for file in own
        for imported in imports(file)
        if imported.startswith("mfec.") and imported.split(".")[1] in FORBIDDEN[name]
    ]
    assert wrong == []


def test_nothing_imports_the_command_but_the_command():
    others = [file for file in FILES if room(file) != "cli"]
    assert [file.name for file in others if any(name.startswith("mfec.cli") for name in imports(file))] == [
        "__main__.py"
    ]


CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "time", "time_ns"}


def times(file: Path) -> Iterator[int]:
    """Lines of a test that read the clock, or give up after a number of seconds of their own."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            limits = [keyword.value for keyword in node.keywords if keyword.arg in ("timeout", "patience")]
            limits += node.args if node.func.attr in ("wait", "join", "acquire") else []
            numbers = [limit.value for limit in limits if isinstance(limit, ast.Constant)]
            if ast.unparse(node.func) in {f"time.{clock}" for clock in CLOCKS} or any(
                isinstance(number, int | float) and number >= 1 for number in numbers
            ):
                yield node.lineno


def test_no_test_asserts_a_time():
    """A busy machine is no defect: tests wait for events, and all give up after the `PATIENCE` of `waiting`."""
    tests = [file for file in sorted((ROOT / "tests").rglob("*.py")) if file != ROOT / "tests" / "waiting.py"]
    assert [f"{file.relative_to(ROOT)}:{line}" for file in tests for line in times(file)] == []


@pytest.mark.parametrize("imported", [
    {
        "mfec": ["mfec.agent", "numpy", "numba", "gymnasium"],
        "mfec.figures.learning_curves": ["mfec.agent", "mfec.experiments", "numba", "gymnasium", "matplotlib"],
        "mfec.envs": ["mfec.memory", "mfec.agent", "mfec.experiments", "numba", "ale_py"],
    },
    {
        "mfec.memory": ["mfec.envs", "mfec.agent", "mfec.embeddings", "mfec.experiments", "gymnasium", "rich", "tyro"],
        "mfec.agent": ["mfec.experiments", "mfec.figures", "mfec.cli", "rich", "tyro", "matplotlib", "ale_py", "torch"],
    },
], ids=list)  # fmt: skip
def test_what_an_import_brings_with_it(imported):
    """Not only by its own imports but by those of all it imports; one after the other in a process."""
    program = f"""
import importlib, sys
for module, absent in {imported!r}.items():
    importlib.import_module(module)
    print(module, [name for name in absent if name in sys.modules])
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    assert ended.stdout == "".join(f"{module} []\n" for module in imported), ended.stderr


def test_nothing_is_unpickled_or_evaluated():
    """A checkpoint or a configuration from a stranger must not run anything."""
    for file in FILES:
        names = set(imports(file))
        assert not any(name.split(".")[0] in {"pickle", "cloudpickle", "dill", "joblib", "marshal"} for name in names)
        assert not {"torch.load", "numpy.load"} & names
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in {"eval", "exec", "compile", "__import__"}, f"{file}:{node.lineno}"
                assert called not in {"np.load", "numpy.load", "torch.load"}, f"{file}:{node.lineno}"


def test_every_public_name_is_there():
    for name in mfec.__all__:
        assert getattr(mfec, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Unknown'"):
        mfec.Unknown  # noqa: B018


# -- Packaging --------------------------------------------------------------------------------------------------------


def test_the_version_is_said_once():
    assert mfec.__version__ == PROJECT["version"]


def test_types_are_published():
    assert (SOURCE / "py.typed").is_file()


def test_the_core_is_light_and_free_of_gpl():
    """ale-py is under the GPL, so it is an extra."""
    core = {requirement.split(">")[0].split("=")[0].split("<")[0] for requirement in PROJECT["dependencies"]}
    assert not core & {"ale-py", "torch", "opencv-python-headless", "tensorboard", "stable-baselines3"}
    assert any(requirement.startswith("ale-py") for requirement in PROJECT["optional-dependencies"]["atari"])
    assert PROJECT["license"] == "MIT"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of a copy of the sources, so that nothing is left among them."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(copy)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert built.returncode == 0, built.stdout + built.stderr
    [file] = out.glob("mfec-*.whl")
    return file


@pytest.mark.slow(reason="builds a wheel")
def test_the_wheel_holds_every_module_and_nothing_else_and_says_what_it_is(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = f"mfec-{mfec.__version__}.dist-info"
        metadata = archive.read(f"{info}/METADATA").decode()
        entry_points = archive.read(f"{info}/entry_points.txt").decode()
    assert {name for name in names if name.endswith(".py")} == {f"mfec/{file.relative_to(SOURCE)}" for file in FILES}
    assert "mfec/py.typed" in names
    assert {f"mfec/embeddings/vae/shipped/{game}/encoder.safetensors" for game in shipped_names()} <= names
    for kind in ("figures/published/*.csv", "figures/report/*.css", "experiments/presets/*.toml", "inspector/page/*"):
        own = {f"mfec/{file.relative_to(SOURCE)}" for file in SOURCE.glob(kind)}
        assert own
        assert own <= names
    assert {name.split("/")[0] for name in names} == {"mfec", info}
    assert f"\nVersion: {mfec.__version__}\n" in metadata
    assert "\nLicense-Expression: MIT\n" in metadata
    assert "mfec = mfec.cli:main" in entry_points


@pytest.mark.slow(reason="builds a wheel")
def test_the_command_runs_from_the_wheel(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    program = "import sys, mfec; print(mfec.__file__); from mfec.cli import main; sys.exit(main(sys.argv[1:]))"
    arguments = [
        "train",
        "FrozenLake-v1",
        "--total-frames",
        "50",
        "--capacity",
        "50",
        "--no-video",
        "--out",
        str(tmp_path / "run"),
    ]
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[0] == str(tmp_path / "installed" / "mfec" / "__init__.py")
    assert (tmp_path / "run" / "curve.png").exists()
