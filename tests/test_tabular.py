"""The benchmark of predictions on tables: scores, splits and the comparison of methods."""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, r2_score, roc_auc_score

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
datasets, page, runs, scores, standings = (
    import_module(f"tables.{name}") for name in ("datasets", "page", "runs", "scores", "standings")
)
Store = import_module("reproduction.store").Store


@pytest.mark.parametrize("n_classes", [2, 4])
def test_scores_of_probabilities_agree_with_scikit_learn(n_classes):
    rng = np.random.default_rng(0)
    y, probabilities = rng.integers(n_classes, size=200), rng.dirichlet(np.ones(n_classes), size=200)
    found = scores.compute_scores(y, probabilities)
    curve = probabilities[:, 1] if n_classes == 2 else probabilities
    assert found["loss"] == pytest.approx(log_loss(y, probabilities))
    assert found["auc"] == pytest.approx(roc_auc_score(y, curve, multi_class="ovr"))
    assert found["wrong"] == np.mean(probabilities.argmax(axis=1) != y)


def test_scores_of_numbers_and_bounds():
    y, predicted = np.random.default_rng(0).normal(size=(2, 100))
    found = scores.compute_scores(y, predicted)
    assert found["loss"] == pytest.approx(1.0 - r2_score(y, predicted))
    assert found["mae"] == pytest.approx(np.abs(y - predicted).mean())
    classes = np.array([0, 1])
    assert scores.loss(classes, np.array([[0.0, 1.0], [1.0, 0.0]])) == pytest.approx(-np.log(1e-6))
    assert scores.loss(classes, np.eye(2)) > 0.0
    with pytest.raises(ValueError, match="finite"):
        scores.compute_scores(classes, np.array([0.0, np.nan]))


def test_halves_have_equal_size_and_no_common_origin():
    assert len(datasets.BY_NAME) == len(datasets.DATASETS)
    origins = {}
    for dataset in datasets.DATASETS:
        origins.setdefault((dataset.task, dataset.kind), {}).setdefault(dataset.half, set()).add(dataset.origin)
    for halves in origins.values():
        choosing, reporting = halves[datasets.CHOOSING], halves[datasets.REPORTING]
        assert not choosing & reporting
        assert len(choosing) - len(reporting) in (0, 1)


def test_splits_are_disjoint_repeatable_and_stratified():
    iris = datasets.BY_NAME["iris"]
    (training, table, y), (again, *_), (other, *_) = (runs.split_table(iris, split) for split in (3, 3, 4))
    both, whole = pd.concat([training.table, table]), datasets.load("iris")[0]
    pd.testing.assert_frame_equal(*(t.sort_values(list(t), ignore_index=True) for t in (both, whole)))
    pd.testing.assert_frame_equal(training.table, again.table)
    assert not training.table.equals(other.table)
    assert np.ptp(np.bincount(y)) <= 1


# Critical values of the two-tailed Nemenyi test at 0.05: Demšar, Statistical comparisons of classifiers over multiple
# data sets, JMLR 7 (2006), table 5.
@pytest.mark.parametrize(("n_methods", "quantile"), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)])
def test_critical_difference_agrees_with_published_values(n_methods, quantile):
    found = standings.critical_difference(n_methods, 30)
    assert found == pytest.approx(quantile * np.sqrt(n_methods * (n_methods + 1) / 180), rel=1e-3)


@pytest.fixture
def store(tmp_path):
    """Results in which ours has half the loss of the forest, and twice that of CatBoost on all but one dataset."""
    filled = Store(tmp_path, "cells")
    filled.claim(runs.Settings())
    for name, split in [("iris", 0), ("iris", 1), ("wine", 0), ("DS4", 0), ("DS7", 0), ("DS9", 0)]:
        losses = {"dconnet": 0.2, "forest": 0.4, "catboost": 0.4 if name == "DS4" else 0.1, "linear": 0.5}
        for method, loss in losses.items():
            result = {"loss": loss * (1 + split), "cpu": 2.0 * loss, "version": "1.0"}
            filled.write(runs.Cell(name, split, method), result)
    filled.write(runs.Cell("DS1", 0, "linear"), {"error": "ValueError: no"})
    return filled


def test_comparison_and_ranks_count_every_dataset_once(store):
    found, failures = standings.load_outcomes(store)
    hardest, *_, easiest = standings.compare_all(found, "dconnet")
    assert (hardest.rival, easiest.rival) == ("catboost", "linear")
    assert hardest.ratio == pytest.approx(2.0 ** (3 / 5))
    assert hardest.ratio_without_hard == hardest.median == pytest.approx(2.0)
    assert (standings.count_wins(hardest.sets), standings.count_wins(hardest.pairs)) == ("1 / 4", "1 / 5")
    assert failures == ["DS1, split 0, linear: ValueError: no"]
    ranks = standings.Ranks.of(found, ["dconnet", "catboost", "linear"])
    assert len(ranks.by_set) == 5
    assert ranks.means.to_dict() == {"catboost": 1.2, "dconnet": 1.8, "linear": 3.0}
    assert ranks.cliques == [(1.2, 1.8), (1.8, 3.0)]


def test_the_page_shows_all_tables_and_pictures(store, tmp_path):
    page.write_page(store, tmp_path / "page", "dconnet")
    text = (tmp_path / "page" / "standings.md").read_text(encoding="utf-8")
    assert "| catboost | 2 | 2.000 | 2.000 | 2.000 | 0 / 2 | 0 / 2 |" in text
    pictures = {"ranks.png", "sets-regression.png", "sets-classification.png", "times.png"}
    sheets = {"losses-regression.csv", "losses-classification.csv"}
    assert {path.name for path in (tmp_path / "page").iterdir()} == {"standings.md"} | pictures | sheets


@pytest.mark.parametrize(("dataset", "method"), [("iris", "histogram"), ("diabetes", "linear")])
def test_a_cell_is_computed(dataset, method):
    result = runs.run(runs.Cell(dataset, 0, method))
    assert 0.0 < result["loss"] < 1.0
    assert result["cpu"] > 0.0


def test_the_page_of_the_documentation_follows_from_the_stored_cells(tmp_path, monkeypatch):
    stored = Path(__file__).parents[1] / "docs" / "tabular"
    if not stored.is_dir():
        pytest.skip("the documentation is not part of this distribution")
    monkeypatch.setattr(page.Picture, "save", lambda self, folder: None)
    page.write_page(Store(stored, "cells"), tmp_path / "tabular", "dconnet", links="tabular/")
    assert (tmp_path / "tabular" / "standings.md").read_text() == (stored / "standings.md").read_text()
