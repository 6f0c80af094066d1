"""Print the screening: greedy score after a million frames, mean over seeds, of every setting that was tried."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from mfec.command_line import as_arguments, options_of
from mfec.run_directory import find_runs
from mfec.statistics import mean

HERE = Path(__file__).parent
GAMES = ["ms_pacman", "space_invaders", "qbert", "frostbite", "river_raid"]
PUBLISHED = {"ms_pacman": 3802.7, "space_invaders": 2027.8, "qbert": 12500.4, "frostbite": 925.1, "river_raid": 4195.0}
FRAMES = 1_000_000
NO_SETTINGS = {"total-frames", "evaluate-every", "embedding", "index", "truncated"}  # or what `auto` stands for


def main() -> None:
    """One line for each setting; in brackets the number of seeds, last the mean over games relative to what was
    published after ten times as many frames, and the same without Frostbite, which is all or nothing."""
    scores: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for options, game, score in (*written_down(), *kept()):
        scores[options][game].append(score)
    print("| options | " + " | ".join(GAMES) + " | of published | without Frostbite |")
    print("| --- |" + " --- |" * (len(GAMES) + 2))
    lines = []
    for options, games in scores.items():
        if len(games) < len(GAMES):
            continue
        shares = {game: mean(own) / PUBLISHED[game] for game, own in games.items()}
        share, others = mean(list(shares.values())), mean([shares[game] for game in GAMES if game != "frostbite"])
        cells = [f"{mean(games[game]):,.0f} ({len(games[game])})" for game in GAMES]
        lines.append((share, f"| `{options}` | " + " | ".join(cells) + f" | {share:.2f} | {others:.2f} |"))
    for _, line in sorted(lines, reverse=True):
        print(line)


def written_down() -> Iterator[tuple[str, str, float]]:
    """Options, game and score of runs of which nothing else is kept."""
    with (HERE / "scores.csv").open() as file:
        for row in csv.DictReader(file):
            if int(row["frames"]) >= FRAMES:
                yield row["options"], row["game"], float(row["greedy"])


def kept() -> Iterator[tuple[str, str, float]]:
    """Options, game and score of the runs in `curves`."""
    for run in find_runs([HERE / "curves"]):
        config, evaluations = run.read_config(), run.evaluations()
        options = {name: value for name, value in options_of(config).items() if name not in NO_SETTINGS}
        if FRAMES in evaluations["frames"]:
            greedy = evaluations["mean"][evaluations["frames"].index(FRAMES)]
            yield " ".join(as_arguments(dict(sorted(options.items())))), config.env, greedy


if __name__ == "__main__":
    main()
