# From a fresh clone: `make demo`, `make test`, `make lab` or `make lint`. Each sets up .venv once, at the locked
# versions of constraints.txt, with no more than it needs, and runs; the next call only runs.
#
#   make test ARGS="-k ring -x"         more arguments, here for pytest
#   make demo PYTHON=python3.13         another interpreter, 3.11 to 3.13, for a new .venv
#
# On Linux the default file of torch carries CUDA and weighs gigabytes. Where a package index with CPU files of torch
# is at hand, name it to pip first (PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS or pip's own configuration): 2.13.0+cpu
# satisfies the lock and counts as newer than 2.13.0, so pip takes it.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3.11 python3; do $$p -c '' 2>/dev/null && { echo $$p; break; }; done)
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt
WORKERS ?= 2
ARGS ?=

# The extras each target installs.
EXTRAS_demo := plot,fast
EXTRAS_test := batch,hf,fast,nemo,coreml,test
EXTRAS_lab := batch,fast
EXTRAS_notebooks := batch,fast,coreml

.PHONY: demo test test-slow lab notebooks lint clean

demo: $(VENV)/.demo
	$(BIN)/vrt demo $(ARGS)

# One thread a worker: two workers then use two cores, and sums keep one order.
test: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

test-slow: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) -m slow $(ARGS)

lab: $(VENV)/.lab
	$(BIN)/jupyter lab $(or $(ARGS),notebooks/00-start-here.ipynb)

# Every notebook anew, at default parameters: a diff afterwards is a change in a result.
notebooks: $(VENV)/.notebooks
	$(BIN)/vrt run --all $(ARGS)
	$(BIN)/python -m vrt.lab.gallery notebooks data/pictures

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

clean:
	rm -rf $(VENV)

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "vrt needs Python 3.11 to 3.13 and found none; install one or say make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(not (3, 11) <= v < (3, 14) and \
	  "vrt needs Python 3.11 to 3.13, $(PYTHON) is %d.%d; say for example: make PYTHON=python3.12" % v[:2])'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.lint: constraints.txt | $(VENV)/bin/python
	$(PIP) ruff
	@touch $@

# The build backend is locked too, so the project itself is built without isolation.
$(VENV)/.base: constraints.txt | $(VENV)/bin/python
	$(PIP) torch hatchling
	@touch $@

$(VENV)/.demo $(VENV)/.test $(VENV)/.lab $(VENV)/.notebooks: $(VENV)/.%: $(VENV)/.base pyproject.toml
	$(PIP) --no-build-isolation -e '.[$(EXTRAS_$*)]'
	@touch $@
