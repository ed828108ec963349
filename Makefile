# Every task of this repository. `make help` lists them.
#
# Each target makes what it needs first: the environment is .venv, its exact versions are in
# constraints/, and it is made again only when a pyproject.toml or a constraints file changes.

PYTHON ?= python3
ENGINE ?= airflow
SCHEDULER ?= local_cwd
PYTEST_ARGS ?=
PYTEST_WORKERS ?= 3
BENCH_ARGS ?=
HOURS ?= 2
SEED ?= 1
ORACLE_ARGS ?=
ORACLE_BACKENDS ?= fake local_cwd local_docker slurm torchx:local_cwd
UPGRADE_FROM ?= HEAD~1
ORACLE_ENGINES ?= $(patsubst tests/oracle/engine_%.py,%,$(wildcard tests/oracle/engine_*.py))

BIN := .venv/bin
SLOW := "(slow or torch) and not deployment"
# What failed while other tests ran is run once more alone. What fails again is red; what passes is named, to be mended.
alone = { status=$$?; [ $$status -eq 1 ] || exit $$status; echo "What failed, once more, alone:"; \
  $(BIN)/pytest --last-failed --last-failed-no-failures none --maxfail 3 -rfEp $(1); }
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python
PROJECTS := pyproject.toml integrations/airflow/pyproject.toml integrations/prefect/pyproject.toml
ENGINES := airflow prefect
DEMO_STAMP = $(if $(filter $(ENGINE),$(ENGINES)),.venv/demo-$(ENGINE).stamp,$(error unknown ENGINE '$(ENGINE)'; known: $(ENGINES)))
# A cluster that answers is used as it is; what is installed is for one of the demo's own.
DEMO_CLUSTER = $(if $(filter slurm,$(SCHEDULER)),$(if $(shell sinfo --noheader 2>/dev/null),,slurm-cluster))
AIRFLOWS := 3.1 3.2
AIRFLOW_TESTS := $(addprefix tests/airflow_torchx/,decorators hooks operators sensors triggers test_engine.py \
  test_engine_triggers.py test_import_cost.py test_metrics.py test_mistakes.py test_options.py test_page.py test_provider.py)
AIRFLOW_DEPLOYMENT := tests/airflow_torchx/triggers/test_deployed.py
PREFECTS := 3.6 3.9
PREFECT_TESTS := tests/prefect_torchx $(addprefix --ignore tests/prefect_torchx/,test_artifact_page.py test_torchx_apps.py)
TORCHX := 0.7
# Left out are the tests of what only newer ones have: overlays, workspaces of a role, plugins found by their package.
TORCHX_TESTS := tests/torchx_core/compat --ignore tests/torchx_core/compat/test_torchx_apps.py \
  -k 'not attic and not names_are_those'
NEWER_SUITES := trixie sid
ENGINE_VERSION_TESTS := $(addprefix tests/torchx_core/schedulers/,docker slurm)
PACKAGES := $(wildcard torchx_core integrations/airflow/airflow_torchx integrations/prefect/prefect_torchx)

# Tools start the Python that is first on PATH (pyright, and the apps in the tests).
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Compiled once, when it is installed or first imported, whatever the caller's environment says: the tests start
# hundreds of processes, and Airflow or Prefect takes half of its import to compile.
export UV_COMPILE_BYTECODE := 1
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-slow oracle oracle-long oracle-engines oracle-mutants test-deployment test-airflow-versions test-prefect-versions test-torchx-release test-engine-versions test-upgrade \
        check format bench install format-check lint types imports declared spelling docs wheels sbom audit coverage constraints clean \
        docker-engine slurm-cluster celery-servers browser screenshots

# --- what most people want ------------------------------------------------------------------------

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: $(DEMO_STAMP) $(if $(filter local_docker,$(SCHEDULER)),docker-engine) $(DEMO_CLUSTER) ## train a model; ENGINE=airflow SCHEDULER=local_cwd
	ENGINE=$(ENGINE) SCHEDULER=$(SCHEDULER) $(BIN)/python demo/demo.py

test: .venv/dev.stamp docker-engine ## run the tests, except those marked slow or torch
	$(BIN)/pytest -n $(PYTEST_WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS) || $(call alone,$(PYTEST_ARGS))

test-slow: .venv/dev.stamp .venv/accelerate.stamp .venv-sinks/sinks.stamp .venv-lineage/beside.stamp docker-engine slurm-cluster ## run the tests marked slow or torch
	$(BIN)/pytest -n $(PYTEST_WORKERS) --dist loadfile -m $(SLOW) $(PYTEST_ARGS) || $(call alone,-m $(SLOW) $(PYTEST_ARGS))

test-deployment: .venv/dev.stamp .venv/accelerate.stamp .venv-sinks/sinks.stamp .venv-celery/beside.stamp .venv-kubernetes/beside.stamp .venv-runners/beside.stamp docker-engine slurm-cluster celery-servers browser ## run the tests of whole deployments, fifty minutes
	$(BIN)/pytest -m deployment $(PYTEST_ARGS)

test-airflow-versions: $(AIRFLOWS:%=.venv-airflow-%/dev.stamp) ## test the Airflow package with older Airflows
	@failed=0; for version in $(AIRFLOWS); do \
	  echo "Airflow $$version"; \
	  PATH=$(CURDIR)/.venv-airflow-$$version/bin:$$PATH python -m pytest -W ignore $(AIRFLOW_TESTS) $(PYTEST_ARGS) || failed=1; \
	  PATH=$(CURDIR)/.venv-airflow-$$version/bin:$$PATH python -m pytest -W ignore -m deployment $(AIRFLOW_DEPLOYMENT) $(PYTEST_ARGS) || failed=1; \
	done; exit $$failed

test-prefect-versions: $(PREFECTS:%=.venv-prefect-%/dev.stamp) ## test the Prefect package with the oldest and the newest Prefect
	@failed=0; for version in $(PREFECTS); do \
	  echo "Prefect $$version"; \
	  PATH=$(CURDIR)/.venv-prefect-$$version/bin:$$PATH python -m pytest -W ignore $(PREFECT_TESTS) $(PYTEST_ARGS) || failed=1; \
	done; exit $$failed

oracle: .venv/dev.stamp docker-engine ## attack every promise for five minutes; SEED=1 ORACLE_ARGS=
	PYTHONPATH=tests/support $(BIN)/python tests/oracle/run.py --seconds 280 --seed $(SEED) \
	  --backend local_cwd fake --weight fake=5 $(ORACLE_ARGS)

oracle-long: .venv/dev.stamp docker-engine ## the same for HOURS=2; SEED= decides which scenarios
	PYTHONPATH=tests/support $(BIN)/python tests/oracle/run.py --seconds $$(( $(HOURS) * 3600 )) --seed $(SEED) \
	  --backend $(ORACLE_BACKENDS) --weight fake=60 $(ORACLE_ARGS)
	PYTHONPATH=tests/support:tests/oracle ORACLE_FUZZ=1000000 $(BIN)/pytest --timeout 0 tests/oracle/test_fuzz_answers.py -k only_our_own

oracle-engines: .venv/dev.stamp ## the same with tasks of real engines for HOURS=2; ORACLE_ENGINES=airflow
	PYTHONPATH=tests/support $(BIN)/python tests/oracle/run.py --engine $(ORACLE_ENGINES) \
	  --seconds $$(( $(HOURS) * 3600 )) --seed $(SEED) $(ORACLE_ARGS)

oracle-mutants: .venv/dev.stamp docker-engine ## put bugs into copies of the product; the oracle must find each
	PYTHONPATH=tests/support $(BIN)/python tests/oracle/mutants.py $(ORACLE_ARGS)

test-torchx-release: .venv-torchx-$(TORCHX)/dev.stamp docker-engine ## test the bridge with TorchX's last release
	PATH=$(CURDIR)/.venv-torchx-$(TORCHX)/bin:$$PATH python -m pytest -W ignore -m 'deployment or not deployment' $(TORCHX_TESTS) $(PYTEST_ARGS)

test-engine-versions: $(NEWER_SUITES:%=.venv-debian-%/dev.stamp) ## test with Slurm, Docker and Python of newer Debian releases, as root
	@for suite in $(NEWER_SUITES); do \
	  echo "Debian $$suite"; \
	  tests/support/newer_debian.sh $$suite .venv-debian-$$suite/bin/python -m pytest -m "not torch and not deployment" \
	    -W ignore::hypothesis.errors.HypothesisWarning \
	    $(ENGINE_VERSION_TESTS) $(PYTEST_ARGS) || exit 1; \
	done

test-upgrade: .venv/dev.stamp docker-engine slurm-cluster ## upgrade beside running apps; UPGRADE_FROM=HEAD~1
	UPGRADE_FROM=$(UPGRADE_FROM) $(BIN)/pytest -m deployment tests/upgrade $(PYTEST_ARGS)

check: format-check lint types imports declared spelling test docs wheels ## all that must pass

format: .venv/dev.stamp ## format the code and fix what the linter can
	$(BIN)/ruff check --quiet --fix-only .
	$(BIN)/ruff format .

bench: .venv/bench.stamp .venv-peer/peer.stamp ## measure us, TorchX and the floor, interleaved
	$(BIN)/python -m benchmarks --peer-python .venv-peer/bin/python $(BENCH_ARGS)

install: .venv/dev.stamp ## make .venv with everything in it

# --- the parts of check ---------------------------------------------------------------------------

format-check: .venv/dev.stamp
	$(BIN)/ruff format --check .

lint: .venv/dev.stamp ## ruff
	$(BIN)/ruff check .

slurm-cluster: ## install what the Slurm tests need, on Debian as root
	@tests/support/install_slurm.sh

docker-engine: ## install what the Docker tests need, on Debian as root
	@tests/support/install_docker.sh

celery-servers: ## install Redis and PostgreSQL for the tests of CeleryExecutor, on Debian as root
	@tests/support/install_celery_servers.sh

screenshots: .venv/dev.stamp browser ## take the pictures of docs/pictures anew
	PYTHONPATH=tests/support $(BIN)/python docs/pictures/take.py

browser: ## install what the tests of pages need, on Debian as root
	@tests/support/install_chromium.sh

types: .venv/dev.stamp ## mypy strict, pyright, and every public name typed
	$(BIN)/mypy $(PACKAGES) $(wildcard tests dags demo benchmarks)
	$(BIN)/pyright
	$(BIN)/pyright --verifytypes torchx_core --ignoreexternal

imports: .venv/dev.stamp ## which module may import which
	$(BIN)/lint-imports --no-logo --no-cache

declared: .venv/dev.stamp ## imported = declared, for each distribution
	$(BIN)/deptry --no-ansi .
	cd integrations/airflow && deptry --no-ansi .
	cd integrations/prefect && deptry --no-ansi .

spelling: .venv/dev.stamp
	$(BIN)/codespell

docs: .venv/dev.stamp ## build docs/_build/html; warnings are errors
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs docs/_build/html

wheels: .venv/dev.stamp ## build the three wheels and try them away from the sources
	tests/wheels/try_wheels.sh

sbom: .venv/uv.stamp ## write into dist/sbom/ which packages each wheel in dist/ brings with it
	tests/wheels/write_sboms.sh

audit: .venv/uv.stamp ## look for known weaknesses of what is installed; asks a public database
	$(BIN)/uv tool run pip-audit --requirement constraints/dev.txt --no-deps --disable-pip

coverage: .venv/dev.stamp docker-engine ## run the tests under coverage, subprocesses included
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(PYTEST_ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# --- environments ---------------------------------------------------------------------------------

constraints: ## resolve the newest versions into constraints/dev.txt
	constraints/resolve.sh
	constraints/resolve_airflow.sh 3.1.8 2026-04-01
	constraints/resolve_airflow.sh 3.2.2 2026-06-15
	constraints/resolve_prefect.sh 3.6.27 2026-05-01
	constraints/resolve_prefect.sh 3.9.1
	constraints/resolve_apart.sh sinks.txt --group sinks --editable '.[mlflow,tensorboard,wandb]'
	constraints/resolve_apart.sh torchx-$(TORCHX).txt --group test-engine hypothesis --editable '.[cli]' torchx==$(TORCHX).0

clean: ## remove what make made
	rm -rf .venv .venv-peer .venv-sinks .venv-lineage .venv-celery .venv-kubernetes .venv-runners .venv-airflow-* .venv-prefect-* .venv-debian-* build dist docs/_build .coverage .coverage.*

.venv/uv.stamp:
	@constraints/make_venv.sh $(PYTHON) .venv
	@$(BIN)/python -m pip install -qq --constraint constraints/dev.txt uv
	@touch $@

.venv/dev.stamp: .venv/uv.stamp $(PROJECTS) constraints/dev.txt
	@echo "installing the project, its engines and its tools into .venv"
	@$(UV) --constraint constraints/dev.txt --group test --group lint --group docs --group bench \
	  --editable '.[cli,docker]' --editable integrations/airflow --editable integrations/prefect
	@touch $@

.venv/bench.stamp: .venv/dev.stamp constraints/bench-airflow.txt
	@echo "installing what is measured beside us into .venv"
	@$(UV) --constraint constraints/dev.txt --requirement constraints/bench-airflow.txt
	@touch $@

# PyTorch by pip: it also looks into the folders that its configuration names.
.venv/demo-%.stamp: .venv/uv.stamp $(PROJECTS) constraints/dev.txt constraints/demo.txt
	@echo "installing the project, $* and PyTorch into .venv"
	@$(UV) --constraint constraints/dev.txt --editable '.[docker]' --editable integrations/$*
	@$(BIN)/python -m pip install -qq --constraint constraints/dev.txt --requirement constraints/demo.txt
	@touch $@

.venv/accelerate.stamp: .venv/demo-airflow.stamp constraints/accelerate.txt
	@echo "installing accelerate into .venv"
	@$(UV) --constraint constraints/dev.txt --requirement constraints/accelerate.txt
	@touch $@

.venv-debian-%/dev.stamp: .venv/uv.stamp $(PROJECTS) constraints/dev.txt tests/support/newer_debian.sh
	@echo "installing the project into .venv-debian-$*"
	@tests/support/newer_debian.sh $* constraints/make_venv.sh python3 .venv-debian-$*
	@tests/support/newer_debian.sh $* $(BIN)/uv pip install --quiet --python .venv-debian-$*/bin/python \
	  --constraint constraints/dev.txt --group test --editable '.[cli,docker]'
	@touch $@

.venv-torchx-%/dev.stamp: .venv/uv.stamp pyproject.toml constraints/torchx-%.txt
	@echo "installing the project and TorchX $* into .venv-torchx-$*"
	@constraints/make_venv.sh $(PYTHON) .venv-torchx-$*
	@$(BIN)/uv pip install --quiet --python .venv-torchx-$*/bin/python --constraint constraints/torchx-$*.txt \
	  --group test-engine hypothesis torchx --editable '.[cli]'
	@touch $@

.venv-airflow-%/dev.stamp: .venv/uv.stamp $(PROJECTS) constraints/airflow-%.txt
	@echo "installing the project and Airflow $* into .venv-airflow-$*"
	@constraints/make_venv.sh $(PYTHON) .venv-airflow-$*
	@$(BIN)/uv pip install --quiet --python .venv-airflow-$*/bin/python --constraint constraints/airflow-$*.txt \
	  --group test-engine --editable . --editable integrations/airflow
	@touch $@

.venv-prefect-%/dev.stamp: .venv/uv.stamp $(PROJECTS) constraints/prefect-%.txt constraints/prefect-overrides.in
	@echo "installing the project and Prefect $* into .venv-prefect-$*"
	@constraints/make_venv.sh $(PYTHON) .venv-prefect-$*
	@$(BIN)/uv pip install --quiet --python .venv-prefect-$*/bin/python --constraint constraints/prefect-$*.txt \
	  --override constraints/prefect-overrides.in --group test-engine --editable . --editable integrations/prefect
	@touch $@

.venv-sinks/sinks.stamp: .venv/uv.stamp pyproject.toml constraints/sinks.txt
	@echo "installing the project and the clients of metric sinks into .venv-sinks"
	@constraints/make_venv.sh $(PYTHON) .venv-sinks
	@$(BIN)/uv pip install --quiet --python .venv-sinks/bin/python --constraint constraints/sinks.txt \
	  --group sinks --editable '.[mlflow,tensorboard,wandb]'
	@touch $@

.venv-%/beside.stamp: .venv/dev.stamp constraints/%.txt
	@echo "installing what $* needs into .venv-$*, beside what .venv has"
	@constraints/make_venv.sh $(PYTHON) .venv-$*
	@echo "import site; site.addsitedir('$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")')" \
	  >"$$(.venv-$*/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/dev.pth"
	@$(BIN)/uv pip install --quiet --python .venv-$*/bin/python --no-deps --requirement constraints/$*.txt
	@touch $@

.venv-peer/peer.stamp: constraints/bench.txt
	@echo "installing the peer into .venv-peer"
	@constraints/make_venv.sh $(PYTHON) .venv-peer
	@.venv-peer/bin/python -m pip install -qq --requirement constraints/bench.txt
	@touch $@
