# `make demo`, `make check` and `make test` need Python 3.11 or newer and make, nothing else (`make test` chromium, too).
PYTHON ?= python3
BIN := .venv/bin
DEMO := runs/demo
# One worker for each core; a file's tests stay together, since they share what they have trained.
PYTEST := $(BIN)/pytest --numprocesses auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder
# Tests start many processes, which would compile the sources to bytecode again each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo check test chromium docs linkcheck clean

demo: .venv/core
	@echo "Q*bert with the tuned recipe (gamma 0.99, k 50, inverse-distance weights, whole games as episodes); the paper's settings are those without --recipe tuned"
	$(BIN)/mfec train qbert --recipe tuned --total-frames 300000 --seed 0 --out $(DEMO) --resume --no-video
	$(BIN)/mfec evaluate $(DEMO) --starts all --random --video $(DEMO)/video.mp4
	@echo "learning curve: $(DEMO)/curve.png"

# The inner loop: style, types, and the parts that need neither torch nor a browser. An import of torch is an error there.
check: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers 2
	$(PYTEST) --light tests

test: .venv/test chromium
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers 2
	$(PYTEST)

# Tests of pages look at them with chromium: the one that is there, or on Debian and its like a new one, if root asks.
chromium:
	@command -v chromium > /dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null \
		&& apt-get update --quiet=2 \
		&& DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends chromium; } \
		|| { echo "tests of pages need chromium: install it ('apt-get install chromium' as root, on Debian) so that" \
		"'chromium' is on the PATH, or leave those tests out: $(BIN)/pytest -m 'not browser'" >&2; exit 1; }

docs: .venv/docs
	$(BIN)/python -m sphinx --fresh-env --fail-on-warning --keep-going --quiet -c docs . docs/_build/html
	@echo "front page: docs/_build/html/index.html"

# Asks other sites, so it is no part of the above.
linkcheck: .venv/docs
	$(BIN)/python -m sphinx --builder linkcheck --quiet -c docs . docs/_build/linkcheck

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is %d.%d" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv

.venv/core: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[atari]'
	@touch $@

.venv/test: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[atari,play,tensorboard,test,vizdoom]'
	@touch $@

.venv/docs: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@

clean:
	rm -rf .venv docs/_build build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
