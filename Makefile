# Every target makes what it needs: a virtual environment in .venv, and the packages in it.

PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
SOURCES := pyproject.toml CMakeLists.txt $(wildcard native/*)
# An editable installation knows the files that were there when it was made: where others are, it is made anew.
FILES := $(shell find src -name '*.py' -o -name '*.html' -o -name '*.css' -o -name '*.js' | sort | cksum | cut -d' ' -f1)

.PHONY: demo test coverage test-oldest oldest sanitize kernel venv lint format bench race tabular reproduce docs doctest wheel clean

demo: .venv/.installed-report-$(FILES) ## Train on an embedded dataset and write a report, a picture and the models
	$(BIN)/python examples/demo.py

test: .venv/.installed-dev-$(FILES) ## Run all tests
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 $(PYTEST_ARGS)

coverage: PYTEST_ARGS += --cov --cov-report=term
coverage: test ## Run all tests and report which lines of src they leave out; too many are an error

oldest: .venv-oldest/.installed ## The environment with the oldest versions of the dependencies

# Left out is what other versions of the dependencies hardly change: long tests of the kernel, which is the same library, and
# of the mathematics on top of it, which calls little more than array operations. The tests of estimators, certificates,
# reports and the command line go through the same modules.
KERNEL_AND_MATHEMATICS := $(addprefix tests/,native conformance training convex/test_hard_programmes.py test_properties.py \
	test_instruction_set.py estimators/test_threads.py estimators/test_checkpoint.py estimators/test_defaults.py \
	paper/datasets/test_published_data.py)

# scikit-learn 1.6 asks estimators that take no sparse data, too, for one check with them; later versions do not.
test-oldest: oldest ## Run the tests with the oldest versions of the dependencies, without solvers and torch
	$(ONE_THREAD) .venv-oldest/bin/python -m pytest -n 2 tests $(KERNEL_AND_MATHEMATICS:%=--ignore=%) -k "not equivalence_on_sparse_data" $(PYTEST_ARGS)

sanitize: .venv/.installed-dev-$(FILES) ## Test the C++ kernel alone, watched for bad memory access and undefined behaviour
	$(BIN)/cmake -S . -B build/sanitize -DDCONNET_KERNEL_TESTS=ON -DDCONNET_SANITIZE=ON -DDCONNET_WERROR=ON
	$(BIN)/cmake --build build/sanitize --parallel 2
	$(BIN)/ctest --test-dir build/sanitize --output-on-failure

kernel: .venv/.installed-dev-$(FILES) ## Test the C++ kernel alone as another compiler builds it: make kernel CXX=clang++
	CXX="$(CXX)" $(BIN)/cmake --fresh -S . -B build/kernel -DDCONNET_KERNEL_TESTS=ON -DDCONNET_WERROR=ON -DCMAKE_BUILD_TYPE=Release
	$(BIN)/cmake --build build/kernel --parallel 2
	$(BIN)/ctest --test-dir build/kernel --verbose

venv: .venv/.installed-dev-$(FILES) ## The environment for developers

lint: .venv/.installed-dev-$(FILES) ## Format check, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/.installed-dev-$(FILES)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/.installed-dev-$(FILES) ## Races against peers, as ratios in one run
	$(ONE_THREAD) $(BIN)/python benchmarks/run.py $(BENCH_ARGS)

race: .venv/.installed-dev-$(FILES) ## The accelerated algorithm against other optimisers of the same loss; goes on where it was stopped
	$(ONE_THREAD) $(BIN)/python benchmarks/race.py $(RACE_ARGS)

tabular: .venv/.installed-benchmark-$(FILES) ## Predictions on tables against boosted trees and others; goes on where it was stopped
	$(ONE_THREAD) $(BIN)/python benchmarks/tabular.py $(TABULAR_ARGS)

reproduce: .venv/.installed-reproduce-$(FILES) ## The experiments of the paper; takes hours and goes on where it was stopped
	$(BIN)/python -m reproduction all --page docs/reproduction.md $(REPRODUCE_ARGS)

# The environment for developers serves for the documentation as well, where it is there.
DOCS_ENVIRONMENT := $(or $(wildcard .venv/.installed-dev-$(FILES)),.venv/.installed-docs-$(FILES))

# Both read the pages into the same trees, so that the second finds them read.
docs: $(DOCS_ENVIRONMENT) ## Build the documentation, warnings are errors
	$(BIN)/sphinx-build -W --keep-going -d docs/_build/doctrees -b html docs docs/_build/html

doctest: $(DOCS_ENVIRONMENT) ## Run the examples of the documentation
	$(BIN)/sphinx-build -W --keep-going -q -d docs/_build/doctrees -b doctest docs docs/_build/doctest

# A wheel for the stable ABI, which serves Python 3.12 and all later versions, needs one of them to be built. That a
# name is on the PATH does not mean that it can be run.
runs = $(shell $(1) -c 'import sys; print(sys.executable)' 2>/dev/null)
WHEEL_PYTHON ?= $(or $(call runs,python3.12),$(call runs,python3.13),$(call runs,python3.14),$(PYTHON))

wheel: ## Build sdist and wheel in dist, and test them in an environment without a compiler
	PYTHON="$(WHEEL_PYTHON)" .ci/wheel

clean:
	rm -rf .venv .venv-oldest build dist demo-output benchmark-output docs/_build docs/generated docs/gallery .coverage*

.venv/bin/python:
	$(PYTHON) -m venv .venv

# Warnings of the compiler are errors for developers only.
.venv/.installed-%-$(FILES): .venv/bin/python $(SOURCES)
	$(BIN)/python $(PIP_INSTALL) -e '.[$*]' $(if $(filter dev docs,$*),--config-settings cmake.define.DCONNET_WERROR=ON)
	touch $@

.venv-oldest/.installed: .ci/oldest.txt $(SOURCES) $(shell git ls-files src 2>/dev/null)
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python $(PIP_INSTALL) --config-settings build-dir=build/oldest -c .ci/oldest.txt '.[parquet,paper,report]' pytest pytest-xdist pytest-timeout hypothesis polars
	touch $@
