"""Where runs run: in processes of this machine, some of them as a fleet on its GPU, or on a Ray cluster."""
