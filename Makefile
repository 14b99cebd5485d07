# Every target does its own set-up in .venv. uv is used when it is there, and not needed.
.DEFAULT_GOAL := help
.PHONY: help demo test check bench chaos-ingest lint lock clean
SHELL := /bin/bash

PYTHON ?= python3
UV := $(shell command -v uv 2>/dev/null)
BIN := .venv/bin

help:  ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: .venv/.run  ## the sandbox: make demo ARGS='--once "question"'
	@$(BIN)/citegram demo $(ARGS)

test: .venv/.dev  ## all tests
ifdef ARGS
	@$(BIN)/python -m pytest $(ARGS)
else
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not alone" && $(BIN)/python -m pytest -q -m alone
endif

check: lint  ## lint, types and the tests of the pure parts: seconds
	@$(BIN)/python -m pytest -q tests/rag_core tests/ingest tests/test_house.py

bench: .venv/.bench  ## side by side with rank-bm25, bm25s, SQLite, tantivy, qdrant-client, numpy: an hour with 1M posts
	@$(BIN)/python tests/bench/run.py --out $${OUT:-/tmp/citegram-bench} $(ARGS)

chaos-ingest: .venv/.dev  ## the bot killed with -9 a hundred times while posts come: is anything lost? A quarter of an hour
	@$(BIN)/python tests/chaos/ingest.py $(ARGS)

lint: .venv/.dev
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

lock:  ## renew the lock files (needs uv)
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --custom-compile-command "make lock" pyproject.toml -o requirements.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --custom-compile-command "make lock" pyproject.toml --group dev -c requirements.lock -o requirements-dev.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --custom-compile-command "make lock" pyproject.toml --group bench -c requirements-dev.lock -o requirements-bench.lock

clean:  ## remove the environment and the caches, never the data
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis

.venv/.run: requirements.lock pyproject.toml
	@$(call install,requirements.lock)
	@touch $@

.venv/.dev: requirements-dev.lock pyproject.toml
	@$(call install,requirements-dev.lock)
	@touch $@ .venv/.run

.venv/.bench: requirements-bench.lock pyproject.toml
	@$(call install,requirements-bench.lock)
	@touch $@ .venv/.run

ifdef UV
define install
echo "Setting up .venv (uv) ..." && \
([ -x $(BIN)/python ] || uv venv -q --python $(PYTHON) .venv) && \
uv pip install -q --python $(BIN)/python --require-hashes -r $(1) && \
uv pip install -q --python $(BIN)/python --no-deps -e .
endef
else
define install
echo "Setting up .venv (pip) ..." && \
($(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Citegram needs Python 3.11 or later: make PYTHON=python3.11 ..."; exit 1; }) && \
([ -x $(BIN)/python ] || $(PYTHON) -m venv .venv || { rm -rf .venv; echo "python3 -m venv failed: apt install python3-venv"; exit 1; }) && \
$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r $(1) && \
$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
endef
endif
