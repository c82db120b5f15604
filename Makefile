# Everything is run from here; CI calls nothing else.
# Debian's own before another one in PATH: the images run it, and one built without optimization takes a seventh more CPU.
PYTHON ?= $(firstword $(wildcard /usr/bin/python3.11) python3.11)
VENV := .venv
unexport PYTHONDONTWRITEBYTECODE # without caches, each worker of the tests compiles all of them, for 12 s
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.installed

# A value as one word of the shell, whatever is in it, and a list of them.
quote = '$(subst ','\'',$(1))'
quote_each = $(foreach word,$(1),$(call quote,$(word)))

# A misspelled variable would have no effect, so it is an error: SCOPE in place of SCOPES would be a key for more.
# A make below another one has its variables, too, so only the first one looks.
GIVEN := $(foreach name,$(if $(filter 0,$(MAKELEVEL)),$(.VARIABLES)),$(if $(filter command,$(origin $(name))),$(name)))
MISTAKE := $(if $(GIVEN),$(shell $(PYTHON) -m deploy.local.variables --given $(call quote_each,$(GIVEN)) --targets $(call quote_each,$(MAKECMDGOALS))))
$(if $(MISTAKE),$(error $(MISTAKE)))

.DEFAULT_GOAL := help
.PHONY: help up demo demo-llm key reload restart run test test-fast check docs dist bench bundle bundle-test images compose-test newest-test storm cluster-storm upgrade-test mutants migrate ci lock clean screenshots

help: ## lists the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

up: $(STAMP) ## the whole stack on this machine, without containers, until Ctrl-C
	@exec $(RUN) -m deploy.local up

demo: $(STAMP) ## the stack, a real job and a pipeline through it: an image of text to a verified webhook
	@exec $(RUN) -m deploy.local.demo

demo-llm: $(STAMP) ## the stack with a small language model, asked by the package openai: a response to a verified webhook
	@exec $(RUN) -m deploy.local.demo.language

key: $(STAMP) ## an API key of the running stack: make key TENANT=acme SCOPES="submit read" MODEL="ocr*" NAME=reports
	@exec $(RUN) -m deploy.local key $(if $(NAME),--name=$(call quote,$(NAME))) $(if $(TENANT),$(call quote,$(TENANT))) $(call quote_each,$(SCOPES)) $(if $(MODEL),--model $(call quote_each,$(MODEL)))

reload: $(STAMP) ## loads a model of the running stack, again if it is loaded: make reload MODEL=ocr
	@exec $(RUN) -m deploy.local reload $(if $(MODEL),$(call quote,$(MODEL)))

restart: $(STAMP) ## a service of the running stack, with the code as it is: make restart SERVICE=gateway
	@exec $(RUN) -m deploy.local restart $(if $(SERVICE),$(call quote,$(SERVICE)))

run: $(STAMP) ## a service in this terminal, for a debugger; start the others with make up GATEWAYS=0: make run SERVICE=gateway
	@exec $(RUN) -m deploy.local run $(if $(SERVICE),$(call quote,$(SERVICE)))

# Most tests wait, so there are more workers than cores. A file stays with one worker, which has servers of its own.
SIDE_BY_SIDE := -n 4 --dist loadfile --no-loadscope-reorder --durations=10

test: $(STAMP) ## every test, with a real PostgreSQL, RabbitMQ and Triton
	@$(RUN) -m deploy.local prepare --tests
	@exec $(RUN) -m pytest -q $(SIDE_BY_SIDE) $(ARGS)

test-fast: $(STAMP) ## unit tests, and integration tests that need no Triton, in two minutes
	@$(RUN) -m deploy.local prepare --tests
	@exec $(RUN) -m pytest -q $(SIDE_BY_SIDE) -m "not triton" $(ARGS)

screenshots: $(STAMP) ## takes the pictures of the console in docs/images again
	@$(RUN) -m deploy.local prepare --tests
	@UPDATE_SCREENSHOTS=1 exec $(RUN) -m pytest -q tests/acceptance/console/test_screenshots.py

check: $(STAMP) ## formatting, lint, types, layers, dead code
	@$(RUN) -m deploy.local prepare --checks
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	cd client && ../$(RUN) -m mypy && ../$(VENV)/bin/lint-imports
	tsc --project console/tsconfig.json
	$(VENV)/bin/vulture

docs: $(STAMP) ## the site of the docs in build/docs; writes the generated parts of docs/reference first
	@$(RUN) -m deploy.docs
	@$(RUN) -m zensical build --strict

dist: $(STAMP) ## the client's wheel and sdist in build/dist
	@rm -rf client/build build/dist && mkdir -p build/dist
	@cd client && $(abspath $(RUN)) -c 'from setuptools import build_meta as b; b.build_sdist("../build/dist"); b.build_wheel("../build/dist")' --quiet >/dev/null
	@rm -rf client/build client/*.egg-info && ls build/dist

bench: $(STAMP) ## measures the stack, tells which aims are reached; JSON in benchmarks/results
	@$(RUN) -m deploy.local prepare
	@exec $(RUN) -m benchmarks $(ARGS)

bundle: $(STAMP) ## archives in build/bundle that install the stack without a network (Debian 12, a quarter of an hour)
	@exec $(RUN) -m deploy.bundle

bundle-test: $(STAMP) ## installs the bundle without a network: here, in a bare Debian 12 and a bare Debian 13 (root)
	@test -f build/bundle/SHA256SUMS || $(RUN) -m deploy.bundle
	@exec $(RUN) -m deploy.bundle.rehearsal

images: $(STAMP) ## the images of the services, for a registry: make images ARGS="--repository=registry.example.com/charonia"
	@exec $(RUN) -m deploy.compose.images $(ARGS)

compose-test: $(STAMP) ## the compose stack, and a pod of each kind, on a Docker engine of its own (root, a quarter of an hour)
	@exec $(RUN) -m deploy.compose.rehearsal

newest-test: $(STAMP) ## unit and integration tests on PostgreSQL 17, RabbitMQ 4 and Python 3.13, in a container (root)
	@exec $(RUN) -m deploy.compose.rehearsal.newest

storm: $(STAMP) ## minutes of load while everything is killed, frozen and restarted; then every promise is checked
	@$(RUN) -m deploy.local prepare
	@exec $(RUN) -m tests.storm $(ARGS)

cluster-storm: $(STAMP) ## the storm on three RabbitMQ nodes and PostgreSQL with a standby, while single nodes fail (root)
	@$(RUN) -m deploy.local prepare --tests
	@exec $(RUN) -m tests.cluster_storm $(ARGS)

upgrade-test: $(STAMP) ## replaces the services of the last release by this tree's, one after the other, under load
	@$(RUN) -m deploy.local prepare
	@exec $(RUN) -m tests.upgrade $(ARGS)

mutants: $(STAMP) ## puts seeded bugs into copies of the code; a named test must catch each (twenty minutes)
	@$(RUN) -m deploy.local prepare --tests
	@exec $(RUN) -m tests.mutants $(ARGS)

migrate: $(STAMP) ## brings the database of CHARONIA_DATABASE_URL to the newest schema
	@exec $(RUN) -m common.postgres.migrate

LAST_RELEASE = $(shell sed -n 's/^commit = "\(.*\)"/\1/p' deploy/last_release.toml)

ci: $(STAMP) ## everything that CI runs; the storm on a cluster needs root
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target check docs # each needs one core for most of its time
	@$(MAKE) --no-print-directory test
	@if git cat-file -e $(LAST_RELEASE); then $(MAKE) --no-print-directory upgrade-test; \
	  else echo "upgrade-test was left out: this clone has no commit $(LAST_RELEASE)"; fi
	@$(MAKE) --no-print-directory cluster-storm ARGS="--seed 23 --minutes 0.5 --faults 5"

LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links
PEERS := benchmarks/peers/requirements

lock: ## requirements.txt anew from pyproject.toml, and of it what each image, the bundle and the benchmarks' peer need (needs uv)
	$(LOCK) pyproject.toml --all-extras -o requirements.txt
	$(LOCK) $(PEERS).in -c requirements.txt -o $(PEERS).txt
	for service in gateway dispatcher notifier; do \
	  $(LOCK) pyproject.toml --extra $$service -c requirements.txt -o deploy/compose/requirements/$$service.txt; done
	$(LOCK) deploy/compose/requirements/s3.in -o deploy/compose/requirements/s3.txt
	$(LOCK) pyproject.toml --extra gateway --extra dispatcher --extra notifier deploy/bundle/requirements.in \
	  -c requirements.txt -o deploy/bundle/requirements.txt

clean: ## removes what make has made, data of the stacks included
	rm -rf $(VENV) .charonia .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .cache build *.egg-info

# What a first run installs besides the Python packages. Targets that need no stack install no more than those.
up demo demo-llm bench storm upgrade-test: INSTALL := --stack
test test-fast cluster-storm mutants ci screenshots: INSTALL := --stack --tests

$(STAMP): requirements.txt client/pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) was not found; install Python 3.11, or run: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m deploy.local.install --venv $(VENV) $(INSTALL)
