"""Figures and statistics: read run directories, draw."""
