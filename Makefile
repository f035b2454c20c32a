# Everything from a bare machine: each target first makes the virtual environment if it is not there or out of date.
#
#   make demo        trains an English-to-Turkish translator in about two minutes and shows what it learnt
#   make test        runs the tests; `make test-slow` runs those too that train for minutes
#   make lint        checks style and imports with ruff
#   make bench       measures training speed beside the library's own models, as ratios
#   make cards       fails if a card in model_cards/ is not what its run under $(RUNS) says; ARGS=--rewrite writes it again
#   make venv        only the virtual environment
#   make clean       removes it
#
# Overridable: PYTHON (which interpreter), VENV (where to), ARGS (more words for the command), and PIP_ARGS (more words for
# pip: on Linux give it the index of CPU builds that PyTorch's installation page names,
# `make demo PIP_ARGS="--extra-index-url <that address>"`, and the 0.2 GB CPU build of torch is taken, not the CUDA build).

VENV ?= .venv
RUNS ?= runs
ARGS ?=
PIP_ARGS ?=
WORKERS ?= 2

FITS := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c '$(FITS)' 2>/dev/null && { echo $$p; exit; }; done; echo python3)

BIN := $(VENV)/bin
STAMP := $(VENV)/.regard-installed

.PHONY: venv test test-slow demo lint bench cards clean
.DEFAULT_GOAL := test

venv: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c '$(FITS)' 2>/dev/null || { \
		echo "regard needs Python 3.11, 3.12 or 3.13, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1 | head -1):" \
			"name another one, as in 'make demo PYTHON=python3.12'." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "'$(PYTHON) -m venv' failed: on Debian and Ubuntu, install the package python3-venv." >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(PIP_ARGS) -e '.[test]'
	@touch $@

# One thread a worker: the tests are small, and threads that outnumber the cores slow one another down.
test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) -m "not slow" $(ARGS)

test-slow: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) $(ARGS)

demo: $(STAMP)
	$(BIN)/python -m regard demo $(ARGS)

lint: $(STAMP)
	$(BIN)/python -m ruff check .

bench: $(STAMP)
	$(BIN)/python -m regard.benchmarks $(ARGS)

# A card reads only what its run recorded, so rendering it again trains nothing.
cards: $(STAMP)
	$(BIN)/python -m regard card $(RUNS) --check $(ARGS)

clean:
	rm -rf $(VENV)
