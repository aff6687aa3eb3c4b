# A few words to remember. Each one installs what it needs first.

PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2
PURE := $(addprefix tests/broker/,protocol records log groups transactions topics fetching timing)
AT_ONCE := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo up test test-long test-all test-clients coverage check crash sim bench soak lint-infra fuzz-rest lock clean

help:  ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

demo: .venv/ready  ## the whole story on real data: flights in, a Delta table, SQL, and back
	@$(BIN)/python -m infra.demo

up: .venv/ready  ## a broker on 127.0.0.1:9092, a compactor and the admin plane
	@$(BIN)/lakelog up

test test-long test-all: export PYTHONDONTWRITEBYTECODE :=  # hundreds of programs are started

test: .venv/ready .venv/spark.jsa  ## the tests in their short form: of long stories that are alike, a share
	@$(BIN)/python -m pytest -q -m "not slow and not foreign" --stories share $(AT_ONCE) --ignore tests/benchmarks
	@$(BIN)/python -m pytest -q --stories share tests/benchmarks

test-long: .venv/ready .venv/spark.jsa  ## what make test leaves out: the other stories, and the long forms
	@$(BIN)/python -m pytest -q --stories rest $(AT_ONCE) --ignore tests/benchmarks
	@$(BIN)/python -m pytest -q --stories rest tests/benchmarks

test-all: .venv/ready .venv/spark.jsa  ## the tests with their long forms: both of the former
	@$(BIN)/python -m pytest -q $(AT_ONCE) --ignore tests/benchmarks
	@$(BIN)/python -m pytest -q tests/benchmarks

test-clients: .venv/ready  ## clients in Go, Java and others (each where its toolchain is); writes the README's table
	@$(BIN)/python -m pytest -q -m foreign -p no:xdist tests/clients tests/semantics; \
	ended=$$?; $(BIN)/python -m infra.clients_table && exit $$ended

coverage: .venv/ready  ## lines and branches of the pure core that its own tests run
	@$(BIN)/python -m coverage run -m pytest -q $(PURE)
	@$(BIN)/python -m coverage report --skip-covered

check: .venv/ready  ## format, lint, types, import contracts
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/lint-imports

crash: .venv/ready  ## the long crash suite: kill -9 at every named point and at random
	@LAKELOG_CRASH_HITS=$${LAKELOG_CRASH_HITS:-20} LAKELOG_CRASH_KILLS=$${LAKELOG_CRASH_KILLS:-40} \
	LAKELOG_CRASH_CUTS=$${LAKELOG_CRASH_CUTS:-20} $(BIN)/python -m pytest -q \
	--timeout 7200 -o faulthandler_timeout=7100 tests/crash

sim: .venv/ready  ## seeds of the simulation: SEEDS=1000 FIRST=0 SECONDS=3600, SEED=7 with its trace, or DEFECTS=20
	@$(BIN)/python -m tests.simulation

bench: .venv/ready  ## figures beside Apache Kafka, on this machine, in one run; ONLY=costs for some of them, ROUNDS=3 WARM=8
	@$(BIN)/python -m infra.bench --only "$(ONLY)" --rounds "$(or $(ROUNDS),3)" --warm "$(or $(WARM),8)"

soak: .venv/ready  ## memory under clients of three libraries on 404 topics, and each record counted; SECONDS=3600
	@$(BIN)/python -m infra.bench.mixed --seconds $(or $(SECONDS),3600)

lint-infra: .venv/ready  ## unit, image, compose file and manifests, each by its own tool
	@infra/lint.sh

fuzz-rest: .venv/ready  ## schemathesis over the OpenAPI document, EXAMPLES=100 an operation: no 5xx
	@infra/fuzz_rest.sh

lock: .venv/ready  ## resolve the pins again into requirements.lock
	@infra/lock.sh

clean:  ## remove what was made
	@rm -rf .venv .venv-lint .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .schemathesis \
	.coverage *.egg-info build dist lakelog-data bench-results spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -prune -exec rm -rf {} +

.venv/spark.jsa: .venv/ready
	@$(BIN)/python -m tests.support.spark_archive

.venv/ready: requirements.lock pyproject.toml infra/setup.sh
	@PYTHON=$(PYTHON) infra/setup.sh
