"""Print the screening: greedy score after a million frames, mean over seeds, of every setting that was tried."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

GAMES = ["ms_pacman", "space_invaders", "qbert", "frostbite", "river_raid"]
PUBLISHED = {"ms_pacman": 3802.7, "space_invaders": 2027.8, "qbert": 12500.4, "frostbite": 925.1, "river_raid": 4195.0}


def main() -> None:
    """One line for each setting; in brackets the number of seeds, last the mean over games relative to what was
    published after ten times as many frames."""
    scores: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with (Path(__file__).parent / "scores.csv").open() as file:
        for row in csv.DictReader(file):
            if int(row["frames"]) >= 1_000_000:
                scores[row["options"]][row["game"]].append(float(row["greedy"]))
    print("| options | " + " | ".join(GAMES) + " | of published |")
    print("| --- |" + " --- |" * (len(GAMES) + 1))
    lines = []
    for options, games in scores.items():
        means = {game: sum(own) / len(own) for game, own in games.items()}
        share = sum(means[game] / PUBLISHED[game] for game in GAMES) / len(GAMES)
        cells = [f"{means[game]:,.0f} ({len(games[game])})" for game in GAMES]
        lines.append((share, f"| `{options}` | " + " | ".join(cells) + f" | {share:.2f} |"))
    for _, line in sorted(lines, reverse=True):
        print(line)


if __name__ == "__main__":
    main()
