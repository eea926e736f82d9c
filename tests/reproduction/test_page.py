"""The tables and the verdicts of the page follow from the stored cells.

The cells are read from their files and averaged here, not by the functions that write the page.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from reproduction import printed
from reproduction.commands import render
from reproduction.convergence import law_of
from reproduction.mnist import IMAGES
from reproduction.page import Picture
from tolerances import ROUNDING

DOCS = Path(__file__).parents[2] / "docs"
STORED = DOCS / "reproduction"
WIDTHS = (10, 20, 30)
GRID = [(f"DS{k}", width) for k in range(1, 10) for width in WIDTHS]

pytestmark = pytest.mark.skipif(not STORED.is_dir(), reason="the documentation is not part of this distribution")


def stored(name, *key):
    """Return the results of an experiment by these fields of their cells."""
    lines = (STORED / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    records = [json.loads(line) for line in lines]
    return {tuple(record["cell"][field] for field in key): record["result"] for record in records}


@pytest.fixture(scope="module")
def page():
    """The whole page in one line."""
    return " ".join((DOCS / "reproduction.md").read_text(encoding="utf-8").split())


@pytest.fixture(scope="module")
def networks():
    """Table 1 and its controls, by dataset, width, split and method."""
    key = ("dataset", "n_hidden", "split", "method")
    return stored("table1", *key) | stored("controls", *key)


@pytest.fixture(scope="module")
def improvement(networks):
    """The improvements of one method over another, by dataset and width, on the splits that both have."""

    def over(ours, theirs, part):
        found = {}
        for (dataset, width, split, method), result in sorted(networks.items(), key=lambda item: item[0]):
            rival = networks.get((dataset, width, split, theirs))
            if method == ours and rival is not None:
                found.setdefault((dataset, width), []).append(rival[part] / result[part] - 1.0)
        return {place: np.array(values) for place, values in found.items()}

    return over


def count_ahead(improvements):
    """Return in how many combinations the median is above zero."""
    return sum(float(np.median(values)) > 0.0 for values in improvements.values())


def geometric(improvements):
    return float(np.expm1(np.mean([np.mean(np.log1p(values)) for values in improvements.values()])))


def median(improvements):
    return float(np.median([np.median(values) for values in improvements.values()]))


def test_the_page_is_what_the_stored_cells_give(tmp_path, monkeypatch):
    monkeypatch.setattr(Picture, "save", lambda self, folder: None)
    folder = tmp_path / "reproduction"
    folder.mkdir()
    for path in [*STORED.glob("*.jsonl"), *STORED.glob("*.md")]:
        shutil.copy(path, folder)
    assert render(folder).read_text(encoding="utf-8") == (DOCS / "reproduction.md").read_text(encoding="utf-8")
    for path in folder.glob("*.csv"):
        # The last digits of geometric means depend on the version of NumPy.
        pd.testing.assert_frame_equal(
            pd.read_csv(path), pd.read_csv(STORED / path.name), rtol=ROUNDING, atol=ROUNDING, obj=path.name
        )


def test_table_1(page, improvement):
    training, test = (improvement("paper", "adam", part) for part in ("training", "test"))
    assert (
        f"ahead of Adam in {count_ahead(training)} of 27 combinations on training data and in {count_ahead(test)} of "
        f"27 on test data"
    ) in page
    assert f"geometric means are {geometric(training):.2f} and {geometric(test):.2f}" in page
    assert f"medians {median(training):.2f} and {median(test):.2f}" in page
    for part, (name, found) in enumerate({"training": training, "test": test}.items()):
        means = {place: values.mean() for place, values in found.items()}
        by_width = [np.mean([means[place] for place in GRID if place[1] == width]) for width in WIDTHS]
        theirs = {(d, n): printed.IMPROVEMENTS["adam"][d][part][WIDTHS.index(n)] for d, n in GRID}
        average = printed.IMPROVEMENTS["adam"][printed.AVERAGE][part]
        texts = [", ".join(f"{value:.2f}" for value in values) for values in (by_width, [pair[0] for pair in average])]
        assert f"{texts[0]} on {name} data (printed {texts[1]})" in page
        # A printed 0.00 has no sign.
        other = [p for p in GRID if means[p] * theirs[p][0] < 0.0 and abs(theirs[p][0]) > 0.005]
        assert f"{len(other)} of 27 signs differ on {name} data" in page
        ratio = np.median([found[place].std(ddof=1) / theirs[place][1] for place in GRID])
        assert f"{ratio:.1f} times the printed ones on {name} data" in page


def test_controls(page, improvement):
    def wins(ours, theirs, part="test"):
        return count_ahead(improvement(ours, theirs, part))

    training = 27 - wins("paper", "lbfgs", "training")
    assert f"fits the training data better than Algorithm 1 in {training} of 27 combinations" in page
    assert f"Algorithm 1 predicts better than L-BFGS in {wins('paper', 'lbfgs')} of 27" in page
    for name, rival in (("long", "adam"), ("last", "adam"), ("net", "paper"), ("restart", "paper")):
        found = improvement(name, rival, "training")
        n_fits = sum(map(len, found.values()))
        assert f"{geometric(found) + 1.0:.2f} in geometric mean over {n_fits} fits" in page
        if rival == "adam":
            ahead = improvement("paper", name, "training")
            assert f"{n_fits} fits. Algorithm 1 stays ahead in {count_ahead(ahead)} of {len(ahead)}" in page


def test_baselines(page, networks):
    baselines = stored("baselines", "dataset", "split", "model")

    def improvements(model):
        """The improvements of Algorithm 1 on test data."""
        found = {}
        for (dataset, width, split, method), result in networks.items():
            if method == "paper":
                ratio = baselines[dataset, split, model]["test"] / result["test"]
                found.setdefault((dataset, width), []).append(ratio - 1.0)
        return found

    strong = [improvements(model) for model in ("MLP", "gradient boosting", "XGBoost", "LightGBM")]
    linear = [count_ahead(improvements(model)) for model in ("linear", "lasso", "ridge")]
    medians, counts = {f"{median(one):.2f}" for one in strong}, [count_ahead(one) for one in strong]
    assert f"{min(counts)} to {max(counts)} of 27, with a median of {' or '.join(medians)} against each" in page
    assert f"linear models it is ahead in {min(linear)} of 27" in page
    assert len(set(linear)) == 1


def test_convergence(page):
    found = stored("convergence", "dataset", "n_hidden")
    ended = [one["epochs"] for one in found.values() if one["status"] == "CONVERGED"]
    power = sum(law_of(one).name == "power" for one in found.values())
    assert f"{len(ended)} of 27 fits converged, after {min(ended):,} to {max(ended):,} epochs" in page
    assert f"A power law describes {power} of 27 fits better" in page
    orders = [one["order"] for one in found.values()]
    assert f"orders over all epochs are {min(orders):.3f} to {max(orders):.3f}" in page
    last = [one["printed"][-1] for one in found.values() if one["status"] == "CONVERGED"]
    assert f"between {min(last):.0e} and {max(last):.0e} as printed" in page
    below = sum(one["dcon_mse"][-1] < one["adam_mse"][-1] for one in found.values())
    assert f"below Adam after 30 epochs in {below} of 27" in page


def test_assumptions(page):
    found = stored("assumptions", "decomposition", "dataset", "n_hidden")
    for split, name in (("paper", "the paper's split"), ("net", "the net split")):
        cells = [cell for key, cell in found.items() if key[0] == split]
        shares = [[100.0 * cell[count] / cell["visits"] for cell in cells] for count in ("not_local", "technical")]
        texts = [f"{min(some):.1f} to {max(some):.1f}" for some in shares]
        assert (
            f"With {name}, Assumption 2 fails in {texts[0]} per cent of the visits and Assumption 4 in {texts[1]}"
            in page
        )
    failures, visits = (sum(cell[name] for cell in found.values()) for name in ("not_ended", "visits"))
    assert f"Assumption 3 failed {failures} times in {visits:,} visits" in page


def test_mnist(page):
    found = {}
    lines = (STORED / "mnist.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    for record in map(json.loads, lines):
        cell = record["cell"]
        found.setdefault((cell["images"], cell["side"], cell["method"]), []).append(record["result"])
    for images, name in (("subset", "subset"), ("complete", "complete set")):
        ours, adam = (max(found[images, 10, method], key=lambda one: one["validation"]) for method in ("paper", "adam"))
        ahead = sum(np.array(adam["training"]) > ours["training"])
        printed_errors, _ = printed.MNIST[images, "paper"]
        as_low = sum(np.round(ours["training"], 2) <= printed_errors)
        assert f"On the {name} Algorithm 1 is ahead of our Adam on {ahead} of 10 digits" in page
        assert f"at or below the printed one on {as_low}" in page
        assert f"accuracy {ours['test']:.3f} against {adam['test']:.3f}" in page


def test_solvers(page):
    curves = {solver: found["objective"][1:] for (solver,), found in stored("solvers", "solver").items()}
    for name, curve in curves.items():
        if name != "admm":
            assert ", ".join(f"{value:.4f}" for value in curve) in page


def test_run_times(page):
    sizes = stored("runtime", "n_samples", "n_features").values()
    arrive = [np.array(found["adam_seconds"])[found["adam_reached"]] for found in sizes]
    ratios = [some.min() / found["seconds"] for some, found in zip(arrive, sizes, strict=True) if len(some)]
    assert f"In {len(ratios)} of the 36 sizes some members arrive" in page
    assert f"takes {min(ratios):.1f} to {max(ratios):.0f} times as long as Algorithm 1" in page
    lower = sum(found["accelerated_mse"] < found["mse"] for found in sizes)
    assert f"ends lower in {lower} of the 36" in page


def test_over_regularised(page):
    found = stored("overregularised", "dataset", "gamma")
    for dataset in ("DS1", "DS7"):
        epochs = [one["epochs"] for (name, _), one in sorted(found.items()) if name == dataset]
        rises = sum(np.diff(epochs) > 0)
        assert f"{rises} of the 9 steps on {dataset}" in page


@pytest.mark.parametrize("baseline", printed.IMPROVEMENTS)
@pytest.mark.parametrize("part", [0, 1])
def test_printed_averages_follow_from_the_printed_numbers(baseline, part):
    table = printed.IMPROVEMENTS[baseline]
    rows = np.array([columns[part] for name, columns in table.items() if name != printed.AVERAGE])
    assert rows.shape == (9, 3, 2)
    # Each number is rounded to two digits, the average once more.
    np.testing.assert_allclose(rows.mean(axis=0), table[printed.AVERAGE][part], atol=0.0101)


@pytest.mark.parametrize("images", IMAGES)
def test_printed_improvements_of_mnist_follow_from_the_errors(images):
    (adam, adam_accuracy), (dcon, dcon_accuracy) = (printed.MNIST[images, method] for method in ("adam", "paper"))
    errors, accuracy = printed.MNIST_IMPROVEMENTS[images]
    np.testing.assert_allclose(np.array(adam) / dcon - 1.0, errors, atol=0.0051)
    assert dcon_accuracy / adam_accuracy - 1.0 == pytest.approx(accuracy, abs=0.0051)
