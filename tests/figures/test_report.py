"""The report: which runs are in which figure, what is missing, and that nothing but text comes from names."""

from __future__ import annotations

import base64
import os
import platform
import re
import shlex
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path

import pytest
from rich.console import Console

import mfec as package
from mfec.algorithms import RunConfig
from mfec.cli import main
from mfec.config import EnvConfig
from mfec.experiments.train import train
from mfec.figures.match_rates import draw_match_rates
from mfec.figures.report.missing import missing_curves
from mfec.figures.report.page import write_report
from mfec.figures.report.selection import select
from mfec.figures.table import write_table
from mfec.run_directory import RunDirectory

from .run_files import baseline, evaluated, mfec, vae, write_evaluated, write_evaluations, write_run

GAMES = [(1000, 3.0), (2000, 5.0), (3000, 10.0)]
SHARES = [{"frames": 3000, "exact_match_rate": 0.25, "exact_match_rate_chosen": 0.5}]
MP4 = b"\x00\x00\x00\x18ftypisom" + bytes(100) + b"moov" + bytes(100)  # as much of one as is looked at


@dataclass
class Page(HTMLParser):
    """A page taken apart: texts and attributes by element, and what is in each section."""

    text: str
    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=dict)
    sections: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.section = ""
        self.feed(self.text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag == "section":
            self.section = dict(attrs)["id"]
        if tag not in {"img", "link", "meta", "source"}:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag  # elements end in the order in which they began

    def handle_data(self, data):
        for tag in set(self.open):
            self.texts[tag][-1] += data
        self.sections[self.section] = self.sections.get(self.section, "") + data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def commands(self, section: str) -> list[str]:
        """The lines of commands in a section."""
        part = re.search(rf'<section id="{section}".*?</section>', self.text, re.DOTALL)[0]
        return [
            line for block in re.findall(r'<pre class="commands">.*?</pre>', part) for line in Page(block).texts["code"]
        ]


def report(path: Path, **options: object) -> Page:
    """That of all runs below a directory."""
    runs = [RunDirectory(file.parent) for file in sorted(path.rglob("config.toml"))]
    return Page(write_report(runs, path / "report.html", **options).read_text(encoding="utf-8"))


def content(uri: str) -> bytes:
    return base64.b64decode(uri.partition(";base64,")[2])


def paths(runs: list[RunDirectory]) -> list[str]:
    return [run.path.name for run in runs]


# -- Which runs are drawn ---------------------------------------------------------------------------------------------


def test_every_figure_is_of_its_own_runs(tmp_path):
    for k in (3, 11):
        write_run(tmp_path / f"vae-{k}", vae("qbert", k=k), GAMES, SHARES)
    write_run(tmp_path / "projected", mfec("qbert"), GAMES, SHARES)
    write_run(tmp_path / "dqn", baseline("dqn"), GAMES)
    found = select([RunDirectory(tmp_path / name) for name in ("vae-3", "vae-11", "projected", "dqn")])
    assert [(line.label, line.runs[0].path.name) for line in found.lines] == [
        ("MFEC, random projections", "projected"), ("MFEC, VAE", "vae-3"), ("MFEC, VAE", "vae-11"), ("DQN", "dqn"),
    ]  # fmt: skip
    assert [line.runs[0].path.name for line in found.curves] == ["projected", "vae-11", "dqn"]
    assert {name: [line.config.agent.k for line in lines] for name, lines in found.neighbours.items()} == {
        "vae": [3, 11]
    }
    page = report(tmp_path)
    assert [image["alt"].split(" ")[0] for image in page.all("img")] == ["Learning", "Score", "Bars"]
    assert page.texts["h4"] == ["MFEC, random projections", "MFEC, VAE, k = 3", "MFEC, VAE, k = 11", "DQN"]


def test_pictures_are_whole_and_their_numbers_are_those_of_the_figures(tmp_path):
    runs = [write_run(tmp_path / "a", mfec("qbert"), GAMES, SHARES)]
    page = report(tmp_path)
    pictures = [(image["src"], image) for image in page.all("img")]
    on_phones = [(image["srcset"], image) for image in page.all("source")]
    assert len(pictures) == len(on_phones) == 2
    for source, image in pictures + on_phones:
        svg = ElementTree.fromstring(content(source))
        wide, high = (float(side) for side in svg.get("viewBox").split()[2:])
        assert int(image["width"]) / int(image["height"]) == pytest.approx(wide / high, rel=0.02)
    saved = {link["download"]: content(link["href"]) for link in page.all("a") if "download" in link}
    assert list(saved) == ["figure1.csv", "match_rates.csv", "table.csv"]
    assert saved["match_rates.csv"] == draw_match_rates(runs, tmp_path / "m.csv").read_bytes()
    assert saved["table.csv"] == write_table(runs, tmp_path / "t.csv").read_bytes()


def test_one_k_is_drawn_whatever_it_is_and_of_several_the_papers(tmp_path):
    write_run(tmp_path / "a", mfec("qbert", k=3), GAMES)
    assert [line.config.agent.k for line in select([RunDirectory(tmp_path / "a")]).curves] == [3]
    write_run(tmp_path / "b", mfec("qbert", k=4), GAMES)
    write_run(tmp_path / "c", mfec("labyrinth_forage"), GAMES)
    write_run(tmp_path / "d", mfec("labyrinth_forage", k=11), GAMES)
    found = select([RunDirectory(tmp_path / name) for name in "abcd"])
    assert [(line.env, line.config.agent.k) for line in found.curves] == [("labyrinth_forage", 50)]
    said = report(tmp_path).sections["figure1"]
    assert "as none of their k is the paper's: MFEC, random projections in Q*bert." in said


def test_two_figures_may_share_runs(tmp_path):
    """As the grids of the paper's figures do; what has come furthest is shown."""
    write_run(tmp_path / "figure1", replace(vae("qbert"), total_frames=3000), GAMES)
    write_run(tmp_path / "figure2", vae("qbert"), [*GAMES, (4000, 1.0)])
    write_run(tmp_path / "third", vae("qbert"), GAMES[:1])
    found = select([RunDirectory(tmp_path / name) for name in ("figure1", "figure2", "third")])
    assert [paths(line.runs) for line in found.lines] == [["figure2"]]
    assert [(run.path.name, same.path.name) for run, same in found.repeated] == [
        ("figure1", "figure2"), ("third", "figure2"),
    ]  # fmt: skip
    page = report(tmp_path)
    assert "Left out, as another of the same seed and settings has come as far: 2 runs" in page.texts["summary"]


def test_a_run_that_played_other_games_is_no_repetition_but_a_seed_twice(tmp_path, capsys):
    write_run(tmp_path / "a", mfec("qbert"), GAMES)
    write_run(tmp_path / "b", mfec("qbert"), [*GAMES[:2], (3000, 11.0), (4000, 1.0)])
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "report.html")]) == 1
    said = f"mfec: {tmp_path / 'a'} and {tmp_path / 'b'} are both seed 0 of MFEC, random projections on qbert"
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize("other", [
    mfec("qbert", index="cells"), mfec("qbert", device="cuda"),
    replace(mfec("qbert", seed=1), environment=EnvConfig(n_envs=2)),
])  # fmt: skip
def test_what_differs_in_more_is_refused(tmp_path, capsys, other: RunConfig):
    write_run(tmp_path / "a", mfec("qbert", index="exact" if other.agent.index == "cells" else "auto"), GAMES)
    write_run(tmp_path / "b", other, GAMES)
    out = tmp_path / "report.html"
    assert main(["report", str(tmp_path), "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"mfec: {tmp_path / 'a'} and {tmp_path / 'b'} are both ")
    assert not out.exists()


def test_runs_that_have_only_begun_are_named_and_not_drawn(tmp_path):
    write_run(tmp_path / "a", mfec("qbert"), GAMES, SHARES)
    write_run(tmp_path / "b", mfec("qbert", seed=1), [], [{"frames": 1000}])
    write_run(tmp_path / "c", mfec("frostbite"), [])
    page = report(tmp_path)
    assert "In no figure, as no game is finished yet: 2 runs" in page.texts["summary"]
    assert "in Q*bert." in page.all("img")[0]["alt"]
    assert "1 seed, no game finished yet" in page.texts["span"]
    assert "1,000 of 10,000,000" in page.sections["runs"]


def test_without_any_game_there_is_a_report(tmp_path):
    write_run(tmp_path / "a", mfec("qbert"), [])
    page = report(tmp_path)
    assert page.all("img") == []
    assert page.sections["figure1"].startswith("Learning curvesNo run has finished a game yet.")
    for section, experiment in (("figure1", "figure1"), ("figure2", "figure2"), ("match_rates", "match_rates")):
        assert page.commands(section) == [f"mfec reproduce {experiment} --games qbert"]


@pytest.mark.parametrize("algorithm", ["mfec", "dqn"])
def test_in_an_environment_of_ones_own_no_grid_of_the_papers_is_advised(tmp_path, algorithm):
    own = mfec("CartPole-v1") if algorithm == "mfec" else baseline("dqn", "CartPole-v1")
    write_run(tmp_path / "a", replace(own, total_frames=50), [])
    page = report(tmp_path)
    assert "reproduce" not in "".join(page.commands("figure1") + page.commands("match_rates"))
    [more], [matches] = page.commands("figure1"), page.commands("match_rates")
    assert "mfec train CartPole-v1" in more
    assert "--total-frames 500" in more
    assert more.endswith(f"--resume --out {tmp_path / 'a'}")
    assert (matches == more) == (algorithm == "mfec")
    assert matches.startswith("mfec train CartPole-v1 ")
    assert "dqn" not in matches


def test_a_run_at_its_end_is_finished_and_tells_its_exact_matches(tmp_path):
    run = train(RunConfig("FrozenLake-v1", 50), tmp_path / "lake", console=Console(quiet=True))
    page = report(tmp_path)
    assert " of 50" not in page.sections["runs"]
    assert len(run.episodes()["frames"]) > 0
    assert page.commands("match_rates") == []
    assert len(page.all("img")) == 2


def test_a_figure_that_cannot_be_drawn_yet_says_why(tmp_path):
    write_run(tmp_path / "a", vae("qbert", k=3), [(1000, 1.0)])
    write_run(tmp_path / "b", vae("qbert", k=11), [(2000, 1.0)])
    said = report(tmp_path).sections["figure2"]
    assert f"cannot be drawn yet: {tmp_path / 'b'} has no finished game in its first 1,001,000 frames." in said


# -- Evaluations ------------------------------------------------------------------------------------------------------

ROWS = [(200_000, 40.0), (400_064, 60.0), (500_000, 70.0)]


def test_a_report_of_greedy_play_says_so_everywhere(tmp_path):
    runs = [
        write_evaluated(tmp_path / "a", vae("qbert"), ROWS),
        write_evaluated(tmp_path / "b", vae("qbert", k=3), ROWS),
    ]
    page = report(tmp_path, score="greedy")
    mean = "mean of 30 games of greedy play"
    first, second = page.texts["figcaption"]
    assert f"Score against frames: the {mean}, and over seeds, " in first
    assert "The games are all thirty starts, once each." in first
    assert "at the last evaluation that all runs of an environment have" in second
    assert f"Scores are the {mean}. The games are all thirty starts" in second
    assert f"Scores after so many frames: {mean}, ± standard error over seeds" in page.texts["caption"]
    assert f"Scores are the {mean}." in page.sections["scores"]
    assert "1 seed, last evaluation: 70.0" in page.texts["span"]
    assert "last evaluation" in page.texts["th"]
    assert "last 100 games" not in page.text
    assert "For these scores, a run must be evaluated while it trains: mfec train --evaluate-every 200000." in page.text
    saved = {link["download"]: content(link["href"]) for link in page.all("a") if "download" in link}
    assert saved["table.csv"] == write_table(runs[:1], tmp_path / "t.csv", score="greedy").read_bytes()
    assert saved["figure2.csv"].decode().splitlines()[1].startswith("qbert,vae,3,1500000,70,")
    plain = report(tmp_path)
    assert "greedy play" not in plain.text
    assert "--evaluate-every" not in plain.sections["figure1"]


def test_settings_of_evaluations_are_shown_whatever_the_score(tmp_path):
    write_evaluated(tmp_path / "a", mfec("qbert"), ROWS, epsilon=0.05)
    said = report(tmp_path).sections["runs"]
    assert "evaluate_every200,0000" in said
    assert "evaluate_epsilon0.050.0" in said


def test_runs_without_an_evaluation_are_named_and_have_no_score(tmp_path):
    write_evaluated(tmp_path / "a", mfec("qbert"), ROWS)
    write_run(tmp_path / "b", mfec("qbert", seed=1), GAMES, SHARES)
    write_run(tmp_path / "c", evaluated(mfec("frostbite")), GAMES)
    page = report(tmp_path, score="greedy")
    assert "In no figure of scores, as there is no evaluation yet: 2 runs" in page.texts["summary"]
    assert page.all("img")[0]["alt"].endswith("score against frames in Q*bert. Tables of scores follow.")
    assert page.all("img")[1]["alt"].startswith("Bars of the shares of exact matches")  # of training, as ever
    assert "1 seed, no evaluation yet" in page.texts["span"]
    assert "2 seeds, last evaluation: 70.0" in page.texts["span"]


def test_without_any_evaluation_there_is_a_report_that_says_how_to_make_some(tmp_path):
    write_run(tmp_path / "a", mfec("qbert", k=7), GAMES)
    page = report(tmp_path, score="greedy")
    for section in ("figure1", "scores"):
        assert "No run has an evaluation yet. To make some:" in page.sections[section]
        assert page.commands(section) == [
            "mfec train qbert --total-frames 10000000 --k 7 --embedding random_projection --evaluate-every 200000 "
            "--out runs/qbert-evaluated"
        ]


def test_seeds_that_were_never_evaluated_together_leave_a_report(tmp_path):
    write_evaluated(tmp_path / "a", mfec("qbert"), [(200_000, 1.0)])
    write_evaluated(tmp_path / "b", mfec("qbert", seed=1), [(400_000, 1.0)])
    assert "Figure 1 cannot be drawn yet: " in report(tmp_path, score="greedy").sections["figure1"]


def test_of_the_same_run_the_one_that_was_evaluated_is_shown(tmp_path):
    """However far another came without an evaluation."""
    further = [*GAMES, (4000, 1.0)]
    plain = write_run(tmp_path / "plain", mfec("qbert"), further)
    own = write_evaluations(write_run(tmp_path / "own", evaluated(mfec("qbert"), every=1000), GAMES), [(1000, 5.0)])
    assert [(run.path.name, same.path.name) for run, same in select([plain, own], score="greedy").repeated] == [
        ("plain", "own")
    ]
    assert [(run.path.name, same.path.name) for run, same in select([plain, own]).repeated] == [("own", "plain")]
    page = report(tmp_path, score="greedy")
    assert "Left out, as another of the same seed and settings was evaluated as far: 1 run" in page.texts["summary"]


def test_the_same_run_evaluated_otherwise_is_refused(tmp_path, capsys):
    for name, epsilon in (("a", 0.0), ("b", 0.05)):
        write_evaluated(tmp_path / name, mfec("qbert"), ROWS, epsilon=epsilon)
    command = ["report", str(tmp_path), "--out", str(tmp_path / "report.html")]
    assert main([*command, "--score", "greedy"]) == 1
    assert "differ in evaluate_epsilon 0.0 and evaluate_epsilon 0.05" in capsys.readouterr().err
    assert main(command) == 0


# -- What is missing --------------------------------------------------------------------------------------------------


def planned(capsys: pytest.CaptureFixture[str], command: str) -> set[tuple[str, ...]]:
    """Environment and algorithm of the runs that a command would make."""
    capsys.readouterr()
    assert main([*shlex.split(command)[1:], "--dry-run"]) == 0
    places = re.findall(r"--out runs/figure1/(\w+)/(\w+)/seed-\d", capsys.readouterr().out)
    assert places
    return set(places)


def test_the_commands_make_what_is_missing_of_the_papers_figure(tmp_path, capsys):
    there = [
        (mfec("qbert"), "mfec_random_projection"),
        (vae("frostbite"), "mfec_vae"), (baseline("dqn", "frostbite"), "dqn"),
        (mfec("labyrinth_forage"), "mfec_random_projection"), (baseline("a2c", "labyrinth_forage"), "a2c"),
    ]  # fmt: skip
    for number, (config, _) in enumerate(there):
        write_run(tmp_path / str(number), config, GAMES)
    every = planned(capsys, "mfec reproduce figure1")
    commands = report(tmp_path).commands("figure1")
    found = [planned(capsys, command) for command in commands]
    assert set().union(*found) == every - {(config.env, place) for config, place in there}
    assert sum(map(len, found)) == len(every) - len(there)


def test_a_full_figure_misses_nothing_and_another_is_not_the_papers(tmp_path, capsys):
    every = [
        config
        for env in ("ms_pacman", "space_invaders", "qbert", "frostbite", "river_raid")
        for config in (mfec(env), vae(env), *(baseline(name, env) for name in ("dqn", "prioritised_dqn", "a2c")))
    ]
    every += [
        config
        for env in ("labyrinth_forage", "labyrinth_forage_and_avoid", "labyrinth_double_t_maze")
        for config in (mfec(env), vae(env), baseline("a2c", env))
    ]
    runs = [write_run(tmp_path / str(number), config, GAMES) for number, config in enumerate(every)]
    assert missing_curves(select(runs).lines) == []
    write_run(tmp_path / "other" / "run", mfec("CartPole-v1"), GAMES)
    page = report(tmp_path / "other")
    assert page.commands("figure1") == []
    [command] = page.commands("figure2")
    assert command.startswith("mfec train CartPole-v1 --total-frames 10000000 --k 3 ")
    assert command.endswith(" --out runs/CartPole-v1-k-3")


# -- Settings and commands --------------------------------------------------------------------------------------------


def test_settings_that_differ_are_beside_their_defaults(tmp_path):
    config = replace(mfec("labyrinth_forage", gamma=0.5, device="cuda"), environment=EnvConfig(n_envs=8))
    write_run(tmp_path / "a", config, [])
    page = report(tmp_path)
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", page.text)]
    at = rows.index(["setting", "here", "default"])
    assert rows[at + 1 : at + 4] == [["device", "cuda", "cpu"], ["gamma", "0.5", "0.99"], ["n_envs", "8", "1"]]
    assert (tmp_path / "a" / "config.toml").read_text() in page.texts["code"]
    write_run(tmp_path / "b" / "c", baseline("a2c"), [])
    assert "All settings are the defaults." in report(tmp_path / "b").sections["runs"]


def test_a_seed_tells_how_far_it_came_and_the_command_that_made_it(tmp_path):
    for seed in (10, 2):
        config = replace(mfec("qbert", seed=seed, k=7), total_frames=3000 * seed)
        write_run(tmp_path / f"seed {seed}", config, GAMES, [{"frames": 6000}])
    page = report(tmp_path)
    commands = page.commands("runs")
    assert commands == [
        f"mfec train qbert --total-frames {frames} --k 7 --embedding random_projection --seed {seed}"
        for frames, seed in ((6000, 2), (30000, 10))
    ]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", page.text)]
    at = rows.index(["seed", "frames", "games", "last 100 games", "best game", "mfec", "directory"])
    assert rows[at + 1 : at + 3] == [
        ["2", "6,000", "3", "6.0", "10.0", package.__version__, str(tmp_path / "seed 2")],
        ["10", "6,000 of 30,000", "3", "6.0", "10.0", package.__version__, str(tmp_path / "seed 10")],
    ]
    assert page.texts["span"].count("2 seeds, last 100 games: 6.0 ± 0.0 (standard error)") == 1


def test_tables_have_every_number_of_the_table(tmp_path):
    run = write_run(tmp_path / "a", mfec("qbert"), [(10_000 * game, 100.0) for game in range(1, 301)])
    page = report(tmp_path)
    markdown = write_table([run], tmp_path / "table.md").read_text(encoding="utf-8").replace("\\*", "*")
    cells = {cell for line in markdown.splitlines() if line.startswith("|") for cell in line.strip("| ").split(" | ")}
    found = set(page.texts["td"]) | set(page.texts["th"])
    assert len(cells) > 30
    assert {cell.strip() for cell in cells if not set(cell) <= set("-: |")} <= found
    assert {"1M", "2M", "4M", "10M", "published", "12,500.4"} <= found
    assert any("Interquartile means" in caption for caption in page.texts["caption"])


def test_versions_are_those_of_this_machine(tmp_path):
    write_run(tmp_path / "a", mfec("qbert"), [])
    said = report(tmp_path).sections["versions"]
    for name, number in (("mfec", package.__version__), ("numpy", version("numpy")), ("torch", version("torch"))):
        assert f"{name}{number}" in said
    assert f"Python{platform.python_version()}" in said
    assert platform.platform() in said


# -- Videos -----------------------------------------------------------------------------------------------------------


def test_one_video_for_each_environment_and_algorithm(tmp_path):
    for name, config in {
        "a": mfec("qbert"), "b": mfec("qbert", seed=1), "c": mfec("qbert", k=3),
        "d": baseline("dqn"), "e": vae("qbert"),
    }.items():  # fmt: skip
        write_run(tmp_path / name, config, [])
    for name in "bcd":
        (tmp_path / name / "video.mp4").write_bytes(MP4 + name.encode())
    videos = report(tmp_path).all("video")
    assert [content(video["src"])[-1:] for video in videos] == [b"b", b"d"]  # of the paper's k, though c has one, too
    assert videos[0]["aria-label"] == "Q*bert: one game of MFEC, random projections, seed 1, after training"


def test_videos_stay_below_their_bound(tmp_path):
    for name, config in {"a": mfec("qbert"), "b": baseline("dqn"), "c": baseline("a2c")}.items():
        write_run(tmp_path / name, config, [])
        (tmp_path / name / "video.mp4").write_bytes(MP4 + bytes(1_500_000 if name == "b" else 500_000))
    page = report(tmp_path, max_video_mb=1.1)
    assert [len(content(video["src"])) // 500_000 for video in page.all("video")] == [1, 1]
    left_out = f"The video {tmp_path / 'b' / 'video.mp4'} (1.5 MB) is left out: it would bring the videos of this page"
    assert left_out + " above 1.1 MB (--max-video-mb)." in page.texts["p"]
    assert len(report(tmp_path, max_video_mb=0.9).all("video")) == 1  # all together


def test_what_is_no_whole_video_is_left_out(tmp_path):
    write_run(tmp_path / "a", mfec("qbert"), [])
    (tmp_path / "a" / "video.mp4").write_bytes(MP4.replace(b"moov", b"free"))
    page = report(tmp_path)
    assert page.all("video") == []
    assert f"The video {tmp_path / 'a' / 'video.mp4'} (1 kB) is left out: it is no whole MP4." in page.texts["p"]


def test_a_run_without_a_video_says_how_to_film_it(tmp_path):
    write_run(tmp_path / "a b", mfec("qbert"), [])
    assert "makes one" not in report(tmp_path).sections["runs"]
    (tmp_path / "a b" / "checkpoint").mkdir()
    (tmp_path / "a b" / "checkpoint" / "manifest.json").write_text("{}")
    run = RunDirectory(tmp_path / "a b")
    assert run.has_checkpoint
    command = shlex.join(["mfec", "evaluate", str(run.path), "--episodes", "1", "--video", str(run.video)])
    assert f"There is no video; {command} makes one." in report(tmp_path).texts["p"]


# -- Names ------------------------------------------------------------------------------------------------------------

HOSTILE = ["</style><script>alert(1)</script>", "<img src=x onerror=alert(1)>", '$\\nothing$"><b>']


@pytest.mark.parametrize("name", HOSTILE)
def test_names_and_settings_are_text(tmp_path, name):
    write_run(tmp_path / "plain", mfec("CartPole-v1", embedding="vae", vae="used"), GAMES, SHARES)
    plain = report(tmp_path / "plain", title="Plain")
    run = write_run(tmp_path / "runs" / name.replace("/", ""), mfec(name, embedding="vae", vae=name), GAMES, SHARES)
    page = report(tmp_path / "runs", title=name)
    assert [(tag, list(own)) for tag, own in page.elements] == [(tag, list(own)) for tag, own in plain.elements]
    assert page.texts["title"] == page.texts["h1"] == [name]
    assert name in page.texts["h3"]
    assert str(run.path) in page.texts["td"]
    assert name in page.texts["td"]
    assert any(shlex.quote(name) in line for line in page.commands("runs"))
    for image in page.all("img"):
        assert name in image["alt"]
        assert {
            part.tag.rpartition("}")[2] for part in ElementTree.fromstring(content(image["src"])).iter()
        }.isdisjoint({"script", "image", "foreignObject", "img"})


def test_a_folder_whose_name_is_no_text(tmp_path):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff<b>")
    write_run(Path(folder), mfec("qbert"), [])
    assert f"{tmp_path}/\\udcff<b>" in report(tmp_path).texts["td"]


def test_nothing_is_loaded_from_elsewhere(tmp_path):
    write_run(tmp_path / "a", mfec("qbert"), GAMES, SHARES)
    (tmp_path / "a" / "video.mp4").write_bytes(MP4)
    page = report(tmp_path)
    uses = [
        value for _, own in page.elements for name, value in own.items() if name in {"src", "href", "poster", "srcset"}
    ]
    assert len(uses) > 8
    assert all(value.startswith(("data:", "#")) for value in uses)
    assert not {"script", "iframe", "object", "embed", "form"} & {tag for tag, _ in page.elements}
    assert "@import" not in page.texts["style"][0]
    assert "url(" not in page.texts["style"][0]
    policy = next(meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


# -- The command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_where_the_page_is(tmp_path, capsys):
    write_run(tmp_path / "runs" / "a", mfec("qbert"), [])
    out = tmp_path / "new" / "page.html"
    assert main(["report", str(tmp_path / "runs"), "--out", str(out), "--title", "Ours"]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert Page(out.read_text(encoding="utf-8")).texts["h1"] == ["Ours"]


@pytest.mark.parametrize(("options", "message"), [
    (["--out", "report.pdf"], "cannot write report.pdf: a report ends in .html"),
    (["--max-video-mb", "-1"], "max_video_mb must be a number of megabytes, at least 0, not -1.0"),
    (["--max-video-mb", "nan"], "max_video_mb must be a number of megabytes, at least 0, not nan"),
])  # fmt: skip
def test_senseless_options_are_refused_in_a_sentence(tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "a", mfec("qbert"), GAMES)
    assert main(["report", "a", *options]) == 1
    assert capsys.readouterr().err == f"mfec: {message}\n"
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


def test_without_runs_there_is_no_report(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"mfec: there is no run in {tmp_path}")
