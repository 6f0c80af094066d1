"""What the paper compares with: DQN, prioritised DQN and A2C, on Stable-Baselines3 (extra `baselines`)."""

from mfec.baselines.baseline import Baseline

__all__ = ["Baseline"]
