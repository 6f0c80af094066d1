"""Whole games of a policy: how they are played, by whom, and what they came to."""

from mfec.evaluation.player import AgentPlayer
from mfec.evaluation.whole_games import AtRandom, Player, WholeGames
from mfec.interface import Evaluation

__all__ = ["AgentPlayer", "AtRandom", "Evaluation", "Player", "WholeGames"]
