# A few words to remember. Each one installs what it needs first.

PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help demo up test test-all check crash bench lock clean

help:  ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' Makefile

demo: .venv/ready  ## the whole story on real data: flights in, a Delta table, SQL, and back
	@$(BIN)/python -m infra.demo

up: .venv/ready  ## a broker on 127.0.0.1:9092, a compactor and the admin plane
	@$(BIN)/lakelog up

test: .venv/ready  ## the tests (architecture, twins, journeys, short crash suite)
	@$(BIN)/python -m pytest -q -m "not slow"

test-all: .venv/ready  ## the tests with their long forms
	@$(BIN)/python -m pytest -q

check: .venv/ready  ## format, lint, types, import contracts
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/lint-imports

crash: .venv/ready  ## the long crash suite: kill -9 at every named point and at random
	@LAKELOG_CRASH_HITS=$${LAKELOG_CRASH_HITS:-20} LAKELOG_CRASH_KILLS=$${LAKELOG_CRASH_KILLS:-40} \
	LAKELOG_CRASH_CUTS=$${LAKELOG_CRASH_CUTS:-20} $(BIN)/python -m pytest -q tests/crash

bench: .venv/ready  ## figures beside Apache Kafka, on this machine, in one run
	@$(BIN)/python -m infra.bench

lock: .venv/ready  ## resolve the pins again into requirements.lock
	@infra/lock.sh

clean:  ## remove what was made
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis lakelog-data bench-results

.venv/ready: requirements.lock pyproject.toml infra/setup.sh
	@PYTHON=$(PYTHON) infra/setup.sh
