"""How states lie on a device."""

PAGE = 4096  # entries of one action that take room together
BLOCK = 32  # entries that lie number by number: a thread reads its entry beside its neighbours'
