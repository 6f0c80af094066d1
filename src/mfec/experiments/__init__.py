"""Runs: training with a run directory, evaluation, several seeds side by side."""
