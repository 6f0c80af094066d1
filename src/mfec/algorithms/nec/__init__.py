"""Neural Episodic Control (Pritzel et al., 2017): an embedding that learns by gradient through the memory."""
