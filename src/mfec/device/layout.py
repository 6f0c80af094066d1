"""The layout of states on a device."""

PAGE = 4096  # entries of one action that are allocated together
WAITING = 8  # states of a run that wait at most for a look-up to take them along
BLOCK = 32  # entries that lie number by number, so that 32 threads read 32 entries side by side
