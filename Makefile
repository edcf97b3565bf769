# The project's verbs; `make` alone lists them. GNU make 3.81 (the one of macOS) and Python 3.11 or newer are enough.
# Everything is installed into .venv from requirements/*.txt, whose hashes pip checks. ARGS passes options on:
#     make serve ARGS='--listen 127.0.0.1:0 --topic orders:3'
#     make test ARGS='-k varint'

VENV := .venv
# The first of these that is new enough creates the environment. PYTHON=... selects another one.
PYTHONS := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11)
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check --quiet install
LOCKED := $(PIP) --require-hashes

# The number of test processes. Tests spend much of their time waiting for clients, so two cores can run four processes.
# Each process can start a Kafka or a Spark. ARGS=-n0 uses a single process, which --pdb requires.
PROCESSES := 4

# The folder for temporary files in memory, if 8 GiB are free there. Brokers wait for the disk more than for anything
# else.
MEMORY = $(shell { cat /proc/meminfo /proc/mounts; df -k /dev/shm; } 2>/dev/null | awk \
  '$$1 == "MemAvailable:" { memory = $$2 } $$2 == "/dev/shm" && $$4 !~ /noexec/ { runs = 1 } \
   $$6 == "/dev/shm" && $$4 > 8388608 && memory > 8388608 && runs { print $$6 }')

# Each file is resolved under the pins of the files before it, so that all fit into one environment.
LOCKS := core build test lint bench spark s3 control lab security containers browser docs tools zookeeper registry registry-clients release binary lock old-client kafka-python-2 kafka-python-2-0 kafka-python-2-2 aiokafka-0-7 spark-4-0 confluent-kafka-1 spark-4-1
# These are installed into folders of their own, since they contain older versions of kafka-python, aiokafka or PySpark.
APART := old-client kafka-python-2 kafka-python-2-0 kafka-python-2-2 aiokafka-0-7 spark-4-0
# The tests install these: they build the librdkafka of the first, and the second is large.
BUILT := confluent-kafka-1 spark-4-1

# Scripts in a virtual environment contain its path, so a copied or moved checkout must create its own.
MADE := $(VENV)/.made$(subst /,-,$(subst $() ,_,$(CURDIR)))

# Use the pyright in the wheel on the Node.js in the wheel. It does not look for a newer version and fetches nothing.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export PYRIGHT_PYTHON_GLOBAL_NODE := 0
unexport PYRIGHT_PYTHON_FORCE_VERSION PYRIGHT_PYTHON_PYLANCE_VERSION PYRIGHT_PYTHON_NODE_VERSION

# Each run starts hundreds of Pythons. With this variable, which container images set, each of them compiles all
# modules.
unexport PYTHONDONTWRITEBYTECODE

.NOTPARALLEL:
.PHONY: help setup serve check test torture suites lint format weight bench docs pages clients dist binary packages image lock clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.dev ## Install into .venv what serve, test, torture, suites, lint, format and bench need
	@echo "setup: $(VENV) is ready"

serve: $(VENV)/.core ## Run the broker on 127.0.0.1:9092 (ARGS: options of `minibroker serve`)
	@MINIBROKER_VERB='make serve' exec $(VENV)/bin/minibroker serve $(ARGS)

check: lint ## Run lint and the quick tests of the broker, which need neither Java nor another toolchain
check: CHOSEN := --hypothesis-profile check -m 'not slow and not toolchain and not torture' \
  tests/broker tests/suites tests/test_*.py tests/storage tests/protocol \
  $(addprefix --ignore tests/broker/,grade page terminal trace)
# These tests rarely wait.
check: PROCESSES := 3

test: $(VENV)/.dev ## Run all tests but those marked `torture`, in four processes (ARGS: options of pytest)
test: CHOSEN := -m 'not torture'
# The tests of the image take a container engine: one that answers, or one of their own.
test: ENGINE := tests/docker/engine.sh

check test:
	@engine=; made=; memory=$(MEMORY); \
	end() { [ -z "$$engine" ] || $(ENGINE) stop; rm -rf $$made; }; \
	trap end EXIT; trap 'exit 130' INT TERM; \
	[ -z "$(ENGINE)" ] || engine=$$($(ENGINE) start </dev/null); \
	if [ -z "$$TMPDIR" ] && [ -n "$$memory" ]; then TMPDIR=$$(mktemp -d $$memory/minibroker-XXXXXX) && export TMPDIR && \
	  made=$$TMPDIR; fi; \
	$(VENV)/bin/pytest --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder \
	  --durations 25 --durations-min 1 $(CHOSEN) $(ARGS)

torture: $(VENV)/.dev ## Run all tests with all rows, then kill brokers, clients and streams (ARGS=--help lists the parts)
	@$(VENV)/bin/python -m tests.torture $(ARGS)

suites: $(VENV)/.dev ## Run the Kafka tests of other Python projects, unchanged (ARGS=--help lists what can be chosen)
	@$(VENV)/bin/python -m tests.suites $(ARGS)

# The subjects of the newest commits are checked if there is a history, which an archive does not have. Pyright, which
# takes longer than all of these and has no cache, is a part of `make torture`.
lint: $(VENV)/.dev ## Run ruff, mypy, import-linter and proselint, check commit subjects; report all that fail
	@failed=; check() { title=$$1; shift; echo "== $$title"; "$$@" || failed="$$failed, $$title"; }; \
	check "ruff rules" $(VENV)/bin/ruff check --quiet --output-format concise; \
	check "ruff format" $(VENV)/bin/ruff format --check --quiet --output-format concise; \
	check mypy $(VENV)/bin/mypy; \
	check import-linter $(VENV)/bin/lint-imports; \
	check proselint $(VENV)/bin/proselint check --config .proselintrc.json $(wildcard *.md) tests/README.md docs/*.md docs/lessons/*.md; \
	subjects() { [ ! -e .git ] || git log --no-merges -n 50 --format=%s 2>/dev/null | \
	  awk 'length > 72 { print "more than 72 characters: " $$0; long = 1 } END { exit long }'; }; \
	check "commit subjects" subjects; \
	[ -z "$$failed" ] || { echo "lint failed: $${failed#, }" >&2; exit 1; }

format: $(VENV)/.dev ## Format the code and mend what ruff can mend
	@$(VENV)/bin/ruff check --quiet --fix-only
	@$(VENV)/bin/ruff format

weight: $(VENV)/.dev ## Count lines, files and kinds of functions, and list the largest circles of imports
	@$(VENV)/bin/python -m tests.weight

bench: $(VENV)/.dev ## Measure the broker beside its peers (ARGS=--help lists what can be chosen)
	@$(VENV)/bin/python -m benchmarks $(ARGS)

# The pages are staged in the layout of the repository, so that links between sources also work on the site.
docs: $(VENV)/.docs ## Build the documentation site into build/site; a broken link is an error
	@rm -rf build/docs && mkdir -p build/docs/tests
	@cp -R $(wildcard *.md LICENSE docs docker examples) build/docs/ && cp tests/README.md build/docs/tests/
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --clean

pages: $(VENV)/.core ## Turn the pages to published names or to an address of releases (ARGS=--published, ARGS='--address URL')
	@$(VENV)/bin/python -m binary.pages $(ARGS)

clients: $(VENV)/.dev ## Write the types of the answers in clients/ from the OpenAPI document (needs Maven, gofmt and rustfmt)
	@$(VENV)/bin/python -m clients.generate

# The wheel is built from the source archive, as by a user who has only the archive. SIGNING_KEY=FILE, a private key of
# ssh-keygen, signs the checksums.
dist: $(VENV)/.release ## Build wheel and source archive into dist, check them as a package index does, and try both
	@rm -rf dist
	@$(VENV)/bin/python -m build --no-isolation --outdir dist . >/dev/null
	@$(VENV)/bin/twine check --strict dist/*
	@$(VENV)/bin/python -m tests.distribution dist $(SIGNING_KEY)

binary: $(VENV)/.core ## Build the program that needs no Python into dist, for this platform (SIGNING_KEY=FILE as for dist)
	@$(VENV)/bin/python -m binary.build dist $(SIGNING_KEY)

packages: $(VENV)/.core ## Build the packages of other languages into dist, around what `make binary` has built (for npm and Maven only if these are installed)
	@$(VENV)/bin/python -m binary.packages dist

image: $(VENV)/.core ## Build the container image into build/image without an engine, as an archive (as root)
	@$(VENV)/bin/python -m tests.docker.building

lock: $(VENV)/.lock ## Resolve requirements/*.txt again from pyproject.toml (ARGS=--upgrade takes newer versions)
	@set -e; constraints=; for name in $(LOCKS); do \
	  if [ $$name = core ]; then extra=; else extra="--extra $$name"; fi; \
	  case " $(APART) $(BUILT) " in *" $$name "*) constraints="--constraint requirements/core.txt --no-config";; esac; \
	  $(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	    --no-python-downloads --system-certs --custom-compile-command "make lock" $$extra $$constraints $(ARGS) \
	    --output-file requirements/$$name.txt pyproject.toml; \
	  constraints="$$constraints --constraint requirements/$$name.txt"; \
	done

clean: ## Remove .venv, build products and caches
	@rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(MADE):
	@for python in $(PYTHONS); do \
	  if $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "setup: $(VENV), $$($$python --version)" >&2; \
	    $$python -m venv --clear $(VENV) && touch $@; exit; \
	  fi; \
	done; \
	echo "minibroker needs Python 3.11 or newer with its venv module, and found none among: $(PYTHONS)." >&2; \
	echo "Install one (Debian and Ubuntu: python3 and python3-venv) or name it: make PYTHON=/path/to/python3" >&2; \
	exit 1

# The project is installed in editable mode without build isolation, since its build requirements are pinned like all
# others.
$(VENV)/.core: $(MADE) requirements/core.txt requirements/build.txt pyproject.toml minibroker/__init__.py
	@echo "setup: the broker and what it needs" >&2
	@$(LOCKED) -r requirements/core.txt -r requirements/build.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.core $(patsubst %,requirements/%.txt,test lint bench spark s3 control security tools zookeeper lab registry registry-clients containers browser $(APART))
	@echo "setup: what tests, lint and benchmarks need; PySpark is large" >&2
	@$(LOCKED) -r requirements/test.txt -r requirements/lint.txt -r requirements/bench.txt -r requirements/spark.txt \
	  -r requirements/s3.txt -r requirements/control.txt -r requirements/security.txt -r requirements/tools.txt \
	  -r requirements/zookeeper.txt -r requirements/lab.txt -r requirements/registry.txt \
	  -r requirements/registry-clients.txt -r requirements/containers.txt -r requirements/browser.txt
	@rm -rf $(addprefix $(VENV)/,$(APART)); made=; \
	for name in $(APART); do \
	  $(LOCKED) --no-build-isolation --use-pep517 --target $(VENV)/$$name -r requirements/$$name.txt & made="$$made $$!"; \
	done; \
	for each in $$made; do wait $$each || exit; done
	@$(VENV)/bin/pytest --collect-only -qq >/dev/null || true # compiles all tests, or each process of a run would
	@touch $@

$(VENV)/.docs: $(MADE) requirements/docs.txt
	@echo "setup: what the documentation needs" >&2
	@$(LOCKED) -r requirements/docs.txt
	@touch $@

$(VENV)/.release: $(VENV)/.core requirements/release.txt
	@echo "setup: what checks archives before they are published" >&2
	@$(LOCKED) -r requirements/release.txt
	@touch $@

$(VENV)/.lock: $(MADE) requirements/lock.txt
	@echo "setup: what writes the lock files" >&2
	@$(LOCKED) -r requirements/lock.txt
	@touch $@
