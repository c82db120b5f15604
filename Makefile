# Everything is run from here; CI calls nothing else.
# Debian's own before another one in PATH: the images run it, and one built without optimization takes a seventh more CPU.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3.11) python3.11)
VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help up demo test check bench compose-test newest-test storm migrate ci lock clean

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

up: $(STAMP) ## the whole stack on this machine, without containers, until Ctrl-C
	@exec $(RUN) -m deploy.local up

demo: $(STAMP) ## the stack, and one real job through it: an image of text to a verified webhook
	@exec $(RUN) -m deploy.local.demo

test: $(STAMP) ## every test, with a real PostgreSQL, RabbitMQ and Triton
	@$(RUN) -m deploy.local prepare --tests
	@exec $(RUN) -m pytest -q $(ARGS)

check: $(STAMP) ## formatting, lint, types, layers, dead code
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/vulture

bench: $(STAMP) ## measures the stack, tells which aims are reached; JSON in benchmarks/results
	@$(RUN) -m deploy.local prepare
	@exec $(RUN) -m benchmarks $(ARGS)

compose-test: $(STAMP) ## the compose stack on a Docker engine of its own, built from nothing (root, ten minutes)
	@exec $(RUN) -m deploy.compose.rehearsal

newest-test: $(STAMP) ## unit and integration tests on PostgreSQL 17, RabbitMQ 4 and Python 3.13, in a container (root)
	@exec $(RUN) -m deploy.compose.rehearsal.newest

storm: $(STAMP) ## minutes of load while everything is killed, frozen and restarted; then every promise is checked
	@$(RUN) -m deploy.local prepare
	@exec $(RUN) -m tests.storm $(ARGS)

migrate: $(STAMP) ## brings the database of CHARONIA_DATABASE_URL to the newest schema
	@exec $(RUN) -m common.migrate

ci: check test ## what a submission must pass

LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links pyproject.toml

lock: ## requirements.txt anew from pyproject.toml, and of it what each image needs (needs uv)
	$(LOCK) --all-extras -o requirements.txt
	for service in gateway dispatcher notifier; do \
	  $(LOCK) --extra $$service -c requirements.txt -o deploy/compose/requirements/$$service.txt; done

clean: ## removes what make has made, data of the stacks included
	rm -rf $(VENV) .charonia .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis *.egg-info

$(STAMP): requirements.txt
	@command -v $(PYTHON) >/dev/null || { echo "needs $(PYTHON)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ]; then \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv; \
	  else false; fi || { echo "run as root: apt-get install python3-venv (or make PYTHON=... with another 3.11)"; exit 1; }; }
	@echo "Installing Python packages into $(VENV)."
	@rm -f $(VENV)/bin/python* # links to another interpreter would stay
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	@touch $@
