"""One small cell of every experiment on the real data, if they are installed."""

from dataclasses import replace

import numpy as np
import pytest

from reproduction import (
    assumptions,
    baselines,
    controls,
    convergence,
    fits,
    lbfgs,
    mnist,
    overparameterised,
    overregularised,
    runtime,
    solvers,
    table1,
)
from reproduction.datasets import Split
from shared_data import HOME, needs_data

pytestmark = [needs_data, pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")]
SMALL = {"max_epochs": 3, "accelerated_epochs": 1, "adam_epochs": 3}
QUICK = fits.FitSettings(**SMALL)


def test_table1_chooses_gamma_by_validation():
    result = table1.run(table1.Cell("DS1", 3, 0, "paper"), QUICK, HOME)
    parts = Split("DS1", 0).load(HOME)
    validation = {}
    for gamma in QUICK.gammas:
        model = fits.dcon(parts, 3, 0, "paper", gamma, QUICK)
        validation[gamma] = fits.mse(model.predict, parts.validation)
    assert result["validation"] == min(validation.values()) == validation[result["gamma"]]


def test_controls():
    settings = controls.Settings(**SMALL, lbfgs_evaluations=50)
    paper = table1.run(table1.Cell("DS1", 10, 0, "paper"), QUICK, HOME)
    found = {
        name: controls.run(table1.Cell("DS1", 10, 0, name), settings, HOME) for name in ("lbfgs", "net", "restart")
    }
    assert all(0.0 < one["training"] < 0.02 for one in found.values())  # zero has 0.03
    assert found["net"]["training"] != paper["training"]
    parts = Split("DS1", 0).load(HOME)
    start = fits.start_of(parts, 10, 0)
    trained = lbfgs.train(fits.Problem(*parts.training, found["lbfgs"]["gamma"]), start, 50)
    assert found["lbfgs"]["test"] == pytest.approx(fits.mse(trained.network.predict, parts.test))


@pytest.mark.peers
def test_adam_with_both_grids_of_penalties():
    pytest.importorskip("torch")
    settings, parts = controls.Settings(**SMALL), Split("DS1", 0).load(HOME)
    result = table1.run(table1.Cell("DS1", 3, 0, "adam"), QUICK, HOME)
    assert result["epochs"] == 3
    assert 0.0 < result["training"] < 10.0
    result = controls.run(table1.Cell("DS1", 3, 0, "matched"), settings, HOME)
    assert result["penalty"] in fits.matched_penalties(parts, settings)
    assert max(fits.matched_penalties(parts, settings)) == pytest.approx(0.01 / np.sqrt(167))


@pytest.mark.parametrize("decomposition", assumptions.DECOMPOSITIONS)
def test_assumptions(decomposition):
    settings = assumptions.Settings(**SMALL, watched_epochs=4)
    result = assumptions.run(assumptions.Cell("DS5", 5, decomposition), settings, HOME)
    assert 0 < result["visits"] <= 5 * result["epochs"] == 20
    assert result["technical"] >= result["concave"]
    assert result["missing_rank"] > 0  # DS5 has dependent features


@pytest.mark.parametrize("model", baselines.CANDIDATES)
def test_baselines(model):
    if model in ("XGBoost", "LightGBM"):
        pytest.importorskip(model.lower())
    result = baselines.run(baselines.Cell("DS1", 0, model), baselines.EXPERIMENT.settings, HOME)
    assert 0.0 < result["training"] < 0.01  # a constant has 0.018


@pytest.mark.peers
def test_convergence():
    pytest.importorskip("torch")
    settings = convergence.Settings(**SMALL, convergence_epochs=50)
    result = convergence.run(convergence.Cell("DS1", 10), settings, HOME)
    assert result["epoch"][-1] == result["epochs"] == 50
    assert len(result["epoch"]) == len(result["step_norm"]) == len(result["subgradient"])
    assert convergence.law_of(result, skip=1).name == "power"  # the first epochs of a slow descent
    assert len(result["dcon_mse"]) == len(result["adam_mse"]) == convergence.EARLY + 1
    assert result["dcon_mse"][0] == pytest.approx(result["adam_mse"][0])  # the same start
    assert np.all(np.diff(result["error"]) < 0.0)


@pytest.mark.peers
def test_overparameterised():
    pytest.importorskip("torch")
    settings = overparameterised.Settings(**SMALL, wide_epochs=2, wide_rounds=1, wide_adam_epochs=5)
    for method in ("paper", "adam"):
        result = overparameterised.run(overparameterised.Cell(400, method), settings, HOME)
        assert result["curve"][-1] < result["curve"][0]
        assert result["epochs"] == (2 if method == "paper" else 5)


def test_overregularised_networks_vanish():
    settings = replace(overregularised.EXPERIMENT.settings, n_hidden=3)
    result = overregularised.run(overregularised.Cell("DS7", 1e4), settings, HOME)
    y = Split("DS7", 0).load(HOME).training[1]
    assert result["status"] == "CONVERGED"
    assert result["training"] == pytest.approx(np.mean(y**2), rel=1e-3)


def test_mnist():
    settings = mnist.Settings(n_hidden=2, subset_rows=300, tol=1e-1)
    cell = mnist.Cell("subset", 10, "paper", (10.0,))
    parts = mnist.load_parts(cell, settings, HOME)
    rows = (parts.training, parts.validation, parts.test)
    assert [part.X.shape for part in rows] == [(n, 100) for n in (300, 18_000, 10_000)]
    networks, _ = mnist.TRAINERS["paper"](cell, settings, parts)
    outputs = np.column_stack([network.predict(parts.test.X) for network in networks])
    assert mnist._accuracy(outputs, parts.test.digits) > 0.2  # chance is 0.1


def test_all_solvers_descend_from_the_same_start():
    settings = solvers.Settings(n_hidden=2, gamma=1.0, rows=200, epochs=2)
    found = [solvers.run(solvers.Cell(3, name), settings, HOME) for name in solvers.SOLVERS]
    assert len({one["objective"][0] for one in found}) == 1
    assert all(one["objective"][-1] < 0.5 * one["objective"][0] for one in found)
    assert found[0]["unsolved"] == 0


@pytest.mark.peers
def test_runtime():
    pytest.importorskip("torch")
    settings = runtime.Settings(n_hidden=2, epochs=2, adam_epochs=2)
    result = runtime.run(runtime.Cell(50, 5), settings, HOME)
    assert len(result["adam_seconds"]) == len(result["adam_reached"]) == 36
    assert result["seconds"] > 0.0
    assert 0.0 < result["mse"] < 1.1
