# SPDX-License-Identifier: Apache-2.0
# Every command of the README. `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet
INSTALL := $(PIP) install --constraint constraints.txt

.PHONY: help setup setup-dev demo kernels parity-kernels gpu-check test count-instructions test-cpp lint format clean test-hpc bench-netns kill-test learning-evidence parity fuzz hostile
help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 22

# Three steps, so that each is repeated only when what it is made from has changed.
$(VENV)/.packages: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) scikit-build-core cmake ninja setuptools wheel  # build back ends, ours and those of source packages
	$(INSTALL) --no-build-isolation --editable '.[pipeline]'
	touch $@

$(VENV)/.library: $(VENV)/.packages CMakeLists.txt $(shell find cuda -type f 2>/dev/null)
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.tools: $(VENV)/.packages
	$(INSTALL) --no-build-isolation --editable '.[pipeline,bench,nsight,dev]'
	touch $@

setup: $(VENV)/.library  ## make the virtual environment, build the library
setup-dev: $(VENV)/.library $(VENV)/.tools  ## the same with what tests, benchmarks and lint need

demo: setup  ## train an agent on the CPU, evaluate it, write results/report/index.html
	CUDA_VISIBLE_DEVICES= $(BIN)/snakemake --profile profiles/local --config 'kernels={"cuda_architectures": []}'

ARCHS ?= 80 90
MACHINE := registers for a lane's machine before room for more lanes (docs/cuda.md)
kernels: setup  ## compile the CUDA library, a folder for each of ARCHS="80 90"
	$(BIN)/python -m seed_hpc.cli kernels build --backend cuda --arch $(ARCHS) \
	  --output build/cuda$(if $(word 2,$(ARCHS)),,/sm_$(strip $(ARCHS))) \
	  --allow "begin_steps=$(MACHINE)" \
	  "run_frames=$(MACHINE)" "next_frames=$(MACHINE)" "reset_lanes=$(MACHINE)" \
	  "lanes_kernel=an environment's whole state is one thread's (docs/cuda.md)"

PARITY ?= --lanes 64 --steps 500
parity-kernels: setup-dev  ## the CUDA pool's kernels on the host against the CPU, all games (an hour; PARITY="--lanes 8 --steps 50 --sanitize")
	$(BIN)/python tests/pool/kernels_on_host.py $(PARITY)

gpu-check: setup-dev  ## build for this machine's GPU, compare it with the CPU, measure it: results/gpu
	PYTHONPATH=tests $(BIN)/python tests/gpu/check.py

test: setup-dev  ## the whole test suite
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-hpc: setup-dev  ## the pipeline on a Slurm cluster inside an Apptainer image, made here (root, Debian)
	SEED_HPC_TEST_CLUSTER=1 $(BIN)/python -m pytest tests/hpc -v --durations=15

KILLS ?= 50
kill-test: setup-dev  ## kill -9 a training run KILLS=50 times at random moments and resume it
	SEED_HPC_KILLS=$(KILLS) $(BIN)/python -m pytest tests/training/test_kill.py -v -s --timeout=0

RUNS ?=
learning-evidence: setup-dev  ## train and evaluate the recipes, write results/learning/evidence.md (hours; goes on where it stopped; RUNS="pong_ppo:1,2,3")
	PYTHONPATH=tests $(BIN)/python tests/training/learning_evidence.py $(RUNS)

count-instructions: setup-dev  ## instructions a frame (callgrind) against the baseline; REFRESH=1 stores new ones
	$(BIN)/python tests/machine/instruction_counts.py $(if $(REFRESH),--refresh)

bench-netns: setup-dev  ## grouped against flat gradient exchange over a slow link (root)
	$(BIN)/python tests/hpc/bench_netns.py

parity: setup-dev  ## every game against ale-py: machine, modes, vector environment (an hour of two cores)
	$(BIN)/python -m seed_hpc.cli parity --games all --frames 10000 --seeds 2 --json results/parity/machine.json
	$(BIN)/python -m seed_hpc.cli parity --games all --modes --json results/parity/modes.json
	$(BIN)/python -m seed_hpc.cli parity --games all --vector --lanes 8 --steps 2000 --json results/parity/vector.json

hostile:  ## 100,000 frames of two random cartridges of each type under sanitizers (an hour)
	cmake -S . -B build/sanitized -DSEED_BUILD_TESTS=ON -DSEED_SANITIZE=address,undefined \
	  -DSEED_LIBRARY_DIR=build/sanitized -DCMAKE_BUILD_TYPE=RelWithDebInfo
	cmake --build build/sanitized --target test_interpreters --parallel 2
	build/sanitized/cuda/tests/test_interpreters 18 100000

FUZZ_SECONDS ?= 600
fuzz:  ## hostile cartridges: libFuzzer with sanitizers (FUZZ_SECONDS=600; needs clang)
	cmake -S . -B build/fuzz -DCMAKE_CXX_COMPILER=clang++ -DSEED_BUILD_TESTS=ON -DSEED_BUILD_FUZZ=ON \
	  -DSEED_SANITIZE=address,undefined -DSEED_LIBRARY_DIR=build/fuzz -DCMAKE_BUILD_TYPE=RelWithDebInfo
	cmake --build build/fuzz --target fuzz_console --parallel 2
	mkdir -p build/fuzz/corpus
	build/fuzz/cuda/tests/fuzz_console -max_total_time=$(FUZZ_SECONDS) -max_len=16389 -timeout=20 build/fuzz/corpus

lint: setup-dev  ## every check that pre-commit runs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files 'cuda/*.h' 'cuda/*.cpp' 'cuda/*.cu' 'cuda/*.cuh')
	$(BIN)/snakefmt --check --line-length 120 Snakefile workflow
	$(BIN)/codespell

format: setup-dev  ## rewrite sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $$(git ls-files 'cuda/*.h' 'cuda/*.cpp' 'cuda/*.cu' 'cuda/*.cuh')

clean:  ## remove what a rule can make again (not results/)
	rm -rf build seed_hpc/_lib .snakemake $(VENV)/.library
