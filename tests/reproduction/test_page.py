"""The tables and the sentences of the page follow from the stored cells.

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
from reproduction.page import Picture
from tolerances import ROUNDING

DOCS = Path(__file__).parents[2] / "docs"
STORED = DOCS / "reproduction"
DATASETS = [f"DS{k}" for k in range(1, 10)]
WIDTHS = (10, 20, 30)
GRID = [(dataset, width) for dataset in DATASETS for width in WIDTHS]

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
        found = {place: [] for place in GRID}
        for (dataset, width, split, method), result in sorted(networks.items(), key=lambda item: item[0]):
            rival = networks.get((dataset, width, split, theirs))
            if method == ours and rival is not None:
                found[dataset, width].append(rival[part] / result[part] - 1.0)
        return {place: np.array(values) for place, values in found.items() if values}

    return over


def ahead(improvements):
    """Return the combinations whose median is above zero."""
    return [place for place, values in improvements.items() if np.median(values) > 0.0]


def test_the_page_is_what_the_stored_cells_give(tmp_path, monkeypatch):
    monkeypatch.setattr(Picture, "save", lambda self, folder: None)
    folder = tmp_path / "reproduction"
    folder.mkdir()
    for path in [*STORED.glob("*.jsonl"), *STORED.glob("*.md")]:
        shutil.copy(path, folder)
    made = render(folder)
    assert made.read_text(encoding="utf-8") == (DOCS / "reproduction.md").read_text(encoding="utf-8")
    for path in folder.glob("*.csv"):
        # The last digits of geometric means depend on the version of NumPy.
        pd.testing.assert_frame_equal(
            pd.read_csv(path), pd.read_csv(STORED / path.name), rtol=ROUNDING, atol=ROUNDING, obj=path.name
        )


def test_signs_that_differ_from_the_paper(page, improvement):
    ours = {place: values.mean() for place, values in improvement("paper", "adam", "test").items()}
    rows = printed.IMPROVEMENTS["adam"]
    theirs = {(dataset, width): rows[dataset][1][k][0] for dataset in DATASETS for k, width in enumerate(WIDTHS)}
    # A printed 0.00 has no sign.
    places = [place for place in GRID if ours[place] * theirs[place] < 0.0 and abs(theirs[place]) > 0.005]
    assert len(places) == 4
    for place in places:
        assert f"{ours[place]:.2f}, printed {theirs[place]:.2f}" in page


def test_medians_of_table_1(page, improvement):
    counts = {
        (method, part): len(ahead(improvement(method, "adam", part)))
        for method in ("paper", "accelerated")
        for part in ("training", "test")
    }
    assert (
        f"Algorithm 1 is ahead of Adam in {counts['paper', 'training']} of 27 combinations on training data, but only "
        f"in {counts['paper', 'test']} of 27 on test data; the accelerated algorithm in "
        f"{counts['accelerated', 'training']} and {counts['accelerated', 'test']}."
    ) in page
    test = improvement("paper", "adam", "test")
    median = np.median([np.median(values) for values in test.values()])
    assert f"the median over all combinations is {median:.2f}" in page
    assert f"by {np.median(test['DS6', 20]):.2f} and {np.median(test['DS9', 30]):.2f}, DS6 with 20 and DS9" in page


def test_one_split_of_ds1(page, networks):
    ratios = [
        networks["DS1", 20, k, "adam"]["training"] / networks["DS1", 20, k, "paper"]["training"] for k in range(30)
    ]
    assert f"Adam's training error there is {max(ratios):.0f} times that of Algorithm 1" in page


def test_errors_on_ds5(page, networks):
    adam = [[networks["DS5", width, k, "adam"]["training"] for k in range(30)] for width in (10, 20)]
    medians, largest = ([of(errors) for errors in adam] for of in (np.median, np.max))
    assert (f"(medians {medians[0]:.4f} and {medians[1]:.4f}, largest {largest[0]:.2f} and {largest[1]:.2f})") in page


def test_gammas_on_ds6(page, networks, improvement):
    gammas = np.array([networks["DS6", 30, k, "paper"]["gamma"] for k in range(30)])
    training, test = (improvement("paper", "adam", part)["DS6", 30] for part in ("training", "test"))
    strong, middle, weak, weakest = (gammas == gamma for gamma in (1e-2, 1e-3, 1e-4, 1e-5))
    assert (
        f"is {np.median(training[strong]):.2f} where it is 0.01 ({strong.sum()} splits), "
        f"{np.median(training[middle]):.1f} for 0.001 ({middle.sum()})"
    ) in page
    medians = [np.median(test[some]) for some in (strong, middle, weak, weakest)]
    assert "test data is {:.2f}, {:.2f}, {:.2f} and {:.2f}".format(*medians) in page


def test_controls(page, networks, improvement):
    def wins(ours, theirs, part="test"):
        return len(ahead(improvement(ours, theirs, part)))

    assert f"L-BFGS is ahead of Adam in {wins('lbfgs', 'adam')} of 27 combinations" in page
    assert f"Algorithm 1 is ahead of L-BFGS in {wins('paper', 'lbfgs')} of 27 by medians" in page
    assert f"predicts better in {wins('accelerated', 'lbfgs')} of them" in page
    assert "on eight of nine datasets, by medians (all but DS1), and predict better on five" in page
    assert (wins("restart", "paper", "training"), wins("restart", "paper")) == (8, 5)
    penalties = [found["penalty"] for (*_, method), found in networks.items() if method == "matched"]
    n_strongest = sum(penalty > 1e-4 for penalty in penalties)  # 0.01 over the root of the rows
    assert f"it chooses the strongest of the four in {n_strongest} of {len(penalties)} fits" in page
    n_cells = sum(map(len, improvement("net", "paper", "training").values()))
    assert f"({n_cells} cells of the net split)" in page


def test_algorithm_one_with_four_epochs_of_all_images(page):
    [result] = stored("mnist-epochs", "method").values()
    assert result["epochs"] == [4] * 10
    assert f"{result['test']:.3f} on test images, and {result['validation']:.3f} on validation images" in page
    lines = (STORED / "mnist.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    cells = [record for record in map(json.loads, lines) if record["cell"]["images"] == "complete"]
    adams = [record["result"] for record in cells if record["cell"]["method"] == "adam"]
    adam = np.array(max(adams, key=lambda found: found["validation"])["training"])
    behind = adam / np.array(result["training"]) - 1.0
    assert f"every digit ({behind.max():.2f} to {behind.min():.2f})" in page


def combined(values, how):
    """Over all combinations: the median of medians, or the geometric mean minus one."""
    if how == "median":
        return float(np.median([np.median(one) for one in values]))
    return float(np.expm1(np.mean([np.mean(np.log1p(one)) for one in values])))


def test_baselines(page, networks):
    baselines = stored("baselines", "dataset", "split", "model")

    def improvements(model):
        """The improvements of Algorithm 1 on test data, a list for each combination."""
        return [
            [baselines[d, k, model]["test"] / networks[d, n, k, "paper"]["test"] - 1.0 for k in range(30)]
            for d, n in GRID
        ]

    def count_wins(found):
        return [sum(np.median(values) > 0.0 for values in one) for one in found]

    found = [improvements(model) for model in ("MLP", "gradient boosting", "XGBoost", "LightGBM")]
    geometric, medians = ([combined(one, how) for one in found] for how in ("geometric", "median"))
    strong, linear = count_wins(found), count_wins(map(improvements, ("linear", "lasso", "ridge")))
    assert (
        f"the geometric means are {max(geometric):.2f} to {min(geometric):.2f}, the medians {max(medians):.2f} to "
        f"{min(medians):.2f}, and it is ahead in {min(strong)} to {max(strong)} of 27 combinations."
    ) in page
    assert f"Against linear models it is ahead in {min(linear)} or {max(linear)}." in page


def test_laws_of_decay(page):
    fits = stored("convergence", "dataset", "n_hidden")
    laws = {place: law_of(found) for place, found in fits.items()}
    power = {place for place, law in laws.items() if law.name == "power"}
    open_ended = {place for place, found in fits.items() if found["status"] != "CONVERGED"}
    assert f"power law describes {len(power)} of 27 fits better" in page
    assert f"The {len(open_ended)} fits that had not converged after 20,000 epochs are all among them." in page
    clear = [place for place in open_ended if laws[place].power_misfit < 0.5 * laws[place].exponential_misfit]
    assert f"{len(clear)} of these with less than half the misfit" in page


def percent(cells, name):
    """Return the least and largest share of the visits."""
    shares = [100.0 * found[name] / found["visits"] for found in cells]
    return min(shares), max(shares)


def test_assumptions(page):
    found = stored("assumptions", "decomposition", "dataset", "n_hidden")
    paper, net = ([cell for key, cell in found.items() if key[0] == split] for split in ("paper", "net"))
    least, largest = percent(paper, "not_local")
    assert (
        f"Assumption 2 fails in {least:.0f} to {largest:.0f} per cent of the visits, and Assumption 4 in as many"
        in page
    )
    assert (
        f"in {least:.0f} to {largest:.0f} per cent of the visits to a neuron the DCA ends where RegLoss still" in page
    )
    assert f"Assumption 2 fails in no more than {percent(net, 'not_local')[1]:.0f} per cent" in page
    assert f"Assumption 4 in no more than {percent(net, 'technical')[1]:.0f}, exactly where" in page
    failures, visits = (sum(cell[name] for cell in found.values()) for name in ("not_ended", "visits"))
    assert f"Assumption 3 failed {failures} times in {visits:,} visits" in page


def test_solvers(page):
    found = stored("solvers", "solver")
    ours, admm = found["native",], found["admm",]
    assert f"RegLoss is lower with ADMM ({admm['objective'][-1]:.4f} against {ours['objective'][-1]:.4f})" in page
    assert f"a little lower ({admm['test']:.3f} against {ours['test']:.3f})" in page
    assert f"It took {admm['seconds']:.0f} seconds where our own took {ours['seconds']:.0f}." in page


def test_run_times(page):
    sizes = stored("runtime", "n_samples", "n_features").values()
    seconds = [found["seconds"] for found in sizes]
    assert f"Its 30 epochs take {min(seconds):.3f} to {max(seconds):.2f} seconds." in page
    arrive = [np.array(found["adam_seconds"])[found["adam_reached"]] for found in sizes]
    ratios = [some.min() / one for some, one in zip(arrive, seconds, strict=True) if len(some)]
    assert f"In {len(ratios)} of 36 sizes a member of Adam's grid comes as low" in page
    assert f"takes {min(ratios):.1f} to {max(ratios):.0f} times as long as Algorithm 1" in page
    assert f"In the other {36 - len(ratios)} none does." in page
    lower = sum(found["accelerated_mse"] < found["mse"] for found in sizes)
    assert f"ends lower in {lower} of the 36" in page


def test_overparameterised(page):
    found = stored("overparameterised", "n_hidden", "method")
    seconds = (found[8192, method]["cell_seconds"] for method in ("paper", "adam"))
    assert "at 8192 neurons they took {:.0f} seconds, Adam {:.0f}".format(*seconds) in page
