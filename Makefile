# Every target makes what it needs: a virtual environment in .venv, and the packages in it.

PYTHON ?= python3
BIN := .venv/bin
SOURCES := pyproject.toml CMakeLists.txt $(wildcard native/*)

.PHONY: demo test sanitize venv lint format bench race reproduce docs clean

demo: .venv/.installed-demo ## Train on an embedded dataset and write a picture and the model
	$(BIN)/python examples/demo.py

test: .venv/.installed-dev ## Run all tests
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 $(PYTEST_ARGS)

sanitize: .venv/.installed-dev ## Test the C++ kernel alone, watched for bad memory access and undefined behaviour
	$(BIN)/cmake -S . -B build/sanitize -DDCONNET_SANITIZE=ON
	$(BIN)/cmake --build build/sanitize --target kernel_test search_test --parallel 2
	build/sanitize/kernel_test
	build/sanitize/search_test

venv: .venv/.installed-dev ## The environment for developers

lint: .venv/.installed-dev ## Format check, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/.installed-dev ## Races against peers, as ratios in one run
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python benchmarks/run.py $(BENCH_ARGS)

race: .venv/.installed-dev ## The accelerated algorithm against other optimisers of the same loss; goes on where it was stopped
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python benchmarks/race.py $(RACE_ARGS)

reproduce: .venv/.installed-reproduce ## The experiments of the paper; takes hours and goes on where it was stopped
	$(BIN)/dconnet reproduce all --results docs/reproduction --page docs/reproduction.md $(REPRODUCE_ARGS)

docs: .venv/.installed-docs ## Build the documentation, warnings are errors
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf .venv build demo-output benchmark-output docs/_build docs/generated docs/gallery

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.installed-demo: .venv/bin/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[plot]'
	touch $@

.venv/.installed-dev: .venv/bin/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

.venv/.installed-reproduce: .venv/bin/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[reproduce]'
	touch $@

.venv/.installed-docs: .venv/bin/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@
