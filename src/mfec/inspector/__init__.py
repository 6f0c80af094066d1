"""The inspector: a page that shows, step by step, the memories that chose an agent's actions."""

PORT = 8437  # where it is served, unless told otherwise
MAX_MB = 14.0  # of a game in a file: mail takes 25, chats rarely less than 15
MISSING = "the page of mfec inspect needs the extra `inspect`: pip install 'mfec[inspect]'"
