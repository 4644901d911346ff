# Two commands are enough on a fresh machine with Python 3.11, make and git: `make demo` and `make test`.
PYTHON ?= python3.11
PYTHON := $(shell command -v $(PYTHON) || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
BENCH_DATA ?=

.PHONY: demo test test-all smoke lint types imports reference plugins picture docs bench browser soak mutants clients mcp-clients frameworks integrations lock release clean

# Tests start memsync many hundred times: each start would compile all of it if the environment forbade bytecode.
export PYTHONDONTWRITEBYTECODE :=

# Only what a lock file names is installed, its hash is compared, and nothing is built but memsync itself, without network.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps
LOCKED := $(PIP) --require-hashes --requirement

$(VENV)/.installed: pyproject.toml requirements.txt
	$(PYTHON) tools/lock.py --check
	$(PYTHON) -m venv "$(VENV)"
	$(LOCKED) requirements.txt
	$(PIP) --no-index --no-build-isolation --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.txt
	$(LOCKED) requirements-dev.txt
	$(BIN)/python -m pip check
	touch $@

# Renew the lock files after a change of dependencies in pyproject.toml; UPGRADE=1 takes the newest version of everything.
lock:
	$(PYTHON) tools/lock.py $(if $(UPGRADE),--upgrade)

# Commit and tag a release, and build its files into dist/, all on this machine; prints how to publish them. REPOSITORY is
# owner/name on GitHub, if git's origin does not say it.
release: $(VENV)/.installed
	$(BIN)/python tools/release.py $(VERSION) $(if $(REPOSITORY),--repository $(REPOSITORY))

demo: $(VENV)/.installed
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh tools/demo.sh

# SEED=N, which a run prints, draws the same again. DAY=2028-02-29 runs them as if it were that day. VENV=.venv-3.13
# PYTHON=python3.13 takes another Python.
RUN := $(if $(DAY),--day=$(DAY)) $(if $(SEED),--hypothesis-seed=$(SEED))
# Runs the tests with mypy beside them, which takes a tenth of their time; prints what mypy says after them.
BESIDE_TYPES = @said=$$(mktemp); $(BIN)/mypy > "$$said" 2>&1 & types=$$!; $(BIN)/pytest $(1) $(RUN); tests=$$?; \
	wait $$types; types=$$?; echo "mypy: $$(cat "$$said")"; rm "$$said"; exit $$((tests | types))

# A few drawn cases of each enumeration, and some of the tests that are slow, start daemons or need PostgreSQL.
test: lint imports
	$(call BESIDE_TYPES,--sample)

# Every case, as CI runs it, but of the longest enumerations only a part, drawn anew in each run. A test that costs over
# 2 s of CPU fails unless it is marked slow; `pytest --dearest=20` names the dearest.
test-all: lint imports
	$(call BESIDE_TYPES,--limit-cost)

# Twenty tests from all rooms: enough to see that a Python works at all.
smoke: $(VENV)/.installed-dev
	$(BIN)/pytest -m smoke $(RUN)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

imports: $(VENV)/.installed-dev
	$(BIN)/lint-imports

# Write docs/operations.md and docs/results.schema.json anew, from the declarations of the operations.
reference: $(VENV)/.installed-dev
	PYTHONPATH=. $(BIN)/python tools/reference.py

# Write the plugins of agents into integrations/, from memsync/agents/plugin_files.py.
plugins: $(VENV)/.installed-dev
	PYTHONPATH=. $(BIN)/python tools/integrations.py

# Draw docs/session.svg and docs/page.png anew, from real runs on a copy of memory-files. Needs chromium (make browser).
picture: $(VENV)/.installed-dev
	PYTHONPATH=. $(BIN)/python tools/picture.py

# Build docs/ as pages in site/, with tools of its own environment, and fail if a page would load from another machine.
docs: $(VENV)-docs/.installed
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/python -m mkdocs build --strict
	$(PYTHON) tools/offline.py site
	@echo "To read them with the search: $(PYTHON) -m http.server --bind 127.0.0.1 --directory site"

$(VENV)-docs/.installed: tools/docs.txt
	$(PYTHON) -m venv "$(VENV)-docs"
	$(VENV)-docs/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement tools/docs.txt
	touch $@

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks $(if $(BENCH_DATA),--data $(BENCH_DATA))

# The pages in a real browser. `make test` also does this where chromium is installed; here playwright brings one if not.
browser: $(VENV)/.installed-dev
	command -v chromium > /dev/null || $(BIN)/python -m playwright install --with-deps --only-shell chromium
	$(BIN)/pytest tests/web/test_browser.py

SOAK_MINUTES ?= 10
LONGEST := tests/convergence/test_planted_bugs.py tests/faults/test_planted_database_bugs.py \
	tests/faults/test_move_killed.py tests/faults/test_forget_killed.py tests/search/test_past.py

# Long runs of what the tests run short: random worlds, faults and power losses of the database, kills of the daemon.
soak: $(VENV)/.installed-dev
	$(BIN)/python -m tests.convergence.soak --minutes $(SOAK_MINUTES) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.faults.soak_database $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.faults.soak_daemon $(if $(SEED),--seed $(SEED))
	$(BIN)/pytest --every $(LONGEST)

# Faults planted in a copy of the package, one at a time: which do the tests find? ROOM=search,sync and SEED=2 choose;
# KEEP=1 traces again only what test files were changed. What is known already is in .mutants/.
mutants: $(VENV)/.installed-dev
	$(BIN)/python -m tests.mutants.run $(if $(ROOM),--room $(ROOM)) $(if $(SEED),--seed $(SEED)) $(if $(KEEP),--keep-traces)

# The real programs of agents against a scripted model on loopback: over a gigabyte of packages from PyPI and npm, kept in
# ~/.cache/memsync-clients. ONLY=codex,gemini chooses; RECORD=tests/agents/recorded renews what the tests have of them.
clients: $(VENV)/.installed-dev
	$(BIN)/python -m tests.clients.run $(if $(ONLY),--only $(ONLY)) $(if $(RECORD),--record $(RECORD))

# The clients of MCP's official SDK, each version from 1.9 to the newest, and its conformance tests. ONLY=sdk chooses.
mcp-clients: $(VENV)/.installed-dev
	$(BIN)/python -m tests.clients.mcp $(if $(ONLY),--only $(ONLY))

# memsync's wheel beside frameworks of agents, each in an environment of its own, resolved by uv. ONLY=crewai chooses.
frameworks: $(VENV)/.installed-dev
	$(BIN)/python -m tests.clients.frameworks $(if $(ONLY),--only $(ONLY))

# The adapters of memsync/integrations in the own tests of their frameworks, the newest from PyPI. ARGS=anthropic chooses.
integrations: $(VENV)/.installed-dev
	$(BIN)/python tools/frameworks.py $(ARGS)

clean:
	rm -rf .mutants .venv .venv-* site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
