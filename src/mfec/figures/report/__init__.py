"""The report: figures, tables, settings, commands and videos of runs, in one HTML file."""

TITLE = "Model-free episodic control"
MAX_VIDEO_MB = 20.0  # of all videos of a page together
