"""The tables and the sentences of the page follow from the stored cells.

The cells are read from their files and averaged here, not by the functions that write the page.
"""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
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


def text_of(path):
    return " ".join(path.read_text(encoding="utf-8").split())


@pytest.fixture(scope="module")
def page():
    """The whole page in one line."""
    return text_of(DOCS / "reproduction.md")


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


def number_or_text(entry):
    try:
        return float(entry)
    except ValueError:
        return entry


def assert_same_table(one, other):
    """The last digits of geometric means depend on the version of NumPy."""
    rows, others = (list(csv.reader(path.read_text(encoding="utf-8").splitlines())) for path in (one, other))
    for row, stored_row in zip(rows, others, strict=True):
        for entry, stored_entry in zip(map(number_or_text, row), map(number_or_text, stored_row), strict=True):
            if isinstance(stored_entry, float):
                stored_entry = pytest.approx(stored_entry, rel=ROUNDING, abs=ROUNDING, nan_ok=True)
            assert entry == stored_entry, (one.name, stored_row)


def test_the_page_is_what_the_stored_cells_give(tmp_path, monkeypatch):
    monkeypatch.setattr(Picture, "save", lambda self, folder: None)
    folder = tmp_path / "reproduction"
    folder.mkdir()
    for path in [*STORED.glob("*.jsonl"), *STORED.glob("*.md")]:
        shutil.copy(path, folder)
    made = render(folder, tmp_path / "reproduction.md")
    assert made.read_text(encoding="utf-8") == (DOCS / "reproduction.md").read_text(encoding="utf-8")
    for path in folder.glob("*.csv"):
        assert_same_table(path, STORED / path.name)


@pytest.fixture(scope="module")
def paper_means():
    """The printed improvements over Adam, on training and on test data, by dataset and width."""
    rows = printed.IMPROVEMENTS["adam"]
    return [
        {(dataset, width): rows[dataset][part][k][0] for dataset in DATASETS for k, width in enumerate(WIDTHS)}
        for part in range(2)
    ]


def other_signs(ours, theirs):
    """Return where the signs differ; 0.00 has no sign."""
    return {place for place in GRID if ours[place] * theirs[place] < 0.0 and abs(theirs[place]) > 0.005}


def test_signs_on_training_data(improvement, paper_means):
    ours = {place: values.mean() for place, values in improvement("paper", "adam", "training").items()}
    assert min(ours.values()) > 0.0
    assert other_signs(ours, paper_means[0]) == {("DS7", 10)}
    assert all(abs(paper_means[0]["DS7", width]) <= 0.01 for width in WIDTHS)  # a tie


def test_signs_on_test_data(page, improvement, paper_means):
    ours = {place: values.mean() for place, values in improvement("paper", "adam", "test").items()}
    places = [("DS5", 30), ("DS6", 30), ("DS7", 10), ("DS9", 10)]
    assert other_signs(ours, paper_means[1]) == set(places)
    first, *others = (f"{ours[place]:.2f}, printed {paper_means[1][place]:.2f}" for place in places)
    assert f"DS5 with 30 neurons (ours {first}), DS6 with 30 ({others[0]}), DS7 with 10 ({others[1]})" in page
    assert f"DS9 with 10 ({others[2]})" in page


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
    everywhere = [(dataset, width) for dataset in ("DS1", "DS4", "DS5") for width in WIDTHS]
    assert set(ahead(test)) == {*everywhere, ("DS6", 20), ("DS9", 30)}
    assert f"by {np.median(test['DS6', 20]):.2f} and {np.median(test['DS9', 30]):.2f}, DS6 with 20 and DS9" in page


def test_sizes_on_training_data(improvement, paper_means):
    ours = {place: values.mean() for place, values in improvement("paper", "adam", "training").items()}
    factors = {place: ours[place] / paper_means[0][place] for place in GRID if place[0] != "DS7"}
    for datasets, limit in ((("DS2", "DS3", "DS8"), 2.0), (("DS1", "DS4"), 4.0)):
        assert all(1.0 / limit < factors[place] < limit for place in factors if place[0] in datasets)
    assert all(factors["DS9", width] < 1.0 for width in WIDTHS)


def test_one_split_of_ds1(page, networks):
    ratios = [
        networks["DS1", 20, k, "adam"]["training"] / networks["DS1", 20, k, "paper"]["training"] for k in range(30)
    ]
    assert f"Adam's training error there is {max(ratios):.0f} times that of Algorithm 1" in page
    assert sorted(ratios)[-2] < 10.0


def test_errors_on_ds5(page, networks):
    adam = [[networks["DS5", width, k, "adam"]["training"] for k in range(30)] for width in (10, 20)]
    medians, largest = ([of(errors) for errors in adam] for of in (np.median, np.max))
    assert (f"(medians {medians[0]:.4f} and {medians[1]:.4f}, largest {largest[0]:.2f} and {largest[1]:.2f})") in page
    linear = stored("baselines", "split", "dataset", "model")
    for width in WIDTHS:
        for split in range(30):
            ours = networks["DS5", width, split, "paper"]["training"]
            assert ours < linear[split, "DS5", "linear"]["training"]


def test_gammas_on_ds6(page, networks, improvement):
    gammas = np.array([networks["DS6", 30, k, "paper"]["gamma"] for k in range(30)])
    training, test = (improvement("paper", "adam", part)["DS6", 30] for part in ("training", "test"))
    strong, middle, weak, weakest = ((gammas == gamma) for gamma in (1e-2, 1e-3, 1e-4, 1e-5))
    assert (
        f"is {np.median(training[strong]):.2f} where it is 0.01 ({strong.sum()} splits), "
        f"{np.median(training[middle]):.1f} for 0.001 ({middle.sum()})"
    ) in page
    assert min(np.median(training[some]) for some in (weak, weakest)) > 100.0
    assert weak.sum() == weakest.sum() == 3
    medians = [np.median(test[some]) for some in (strong, middle, weak, weakest)]
    assert "test data is {:.2f}, {:.2f}, {:.2f} and {:.2f}".format(*medians) in page
    for width in WIDTHS:
        quartiles = np.quantile([networks["DS6", width, k, "adam"]["training"] for k in range(30)], [0.25, 0.75])
        assert quartiles[1] / quartiles[0] < 1.6


def test_lbfgs(page, improvement):
    places = {part: improvement("lbfgs", "adam", part) for part in ("training", "test")}
    assert set(places["training"]) == {(dataset, width) for dataset in DATASETS for width in WIDTHS}
    assert all(len(values) == 30 for values in places["training"].values())
    assert len(ahead(places["training"])) == len(ahead(improvement("accelerated", "lbfgs", "training"))) == 27
    assert ahead(improvement("paper", "lbfgs", "training")) == [("DS7", 30)]
    assert f"L-BFGS is ahead of Adam in {len(ahead(places['test']))} of 27 combinations" in page
    test = improvement("paper", "lbfgs", "test")
    assert f"Algorithm 1 is ahead of L-BFGS in {len(ahead(test))} of 27 by medians" in page
    assert f"predicts better in {len(ahead(improvement('accelerated', 'lbfgs', 'test')))} of them" in page
    assert combined(test.values(), "geometric") < 0.0
    without = [values for (dataset, _), values in test.items() if dataset != "DS4"]
    assert combined(without, "geometric") > 0.0  # "because of DS4"


def test_restarts(page, improvement):
    training, test = (improvement("restart", "paper", part) for part in ("training", "test"))
    assert set(training) == {(dataset, 10) for dataset in DATASETS}
    assert all(len(values) == 3 for values in training.values())
    assert set(training) - set(ahead(training)) == {("DS1", 10)}
    assert "on eight of nine datasets, by medians (all but DS1), and predict better on five" in page
    assert len(ahead(test)) == 5
    net = improvement("net", "paper", "training")
    assert 0.9 < combined(training.values(), "geometric") / combined(net.values(), "geometric") < 1.0  # "nearly"


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


def test_matched_penalties_and_the_net_split(page, networks, improvement):
    penalties = {key: found["penalty"] for key, found in networks.items() if key[3] == "matched"}
    strongest = [key for key, penalty in penalties.items() if penalty > 1e-4]  # 0.01 over the root of the rows
    assert f"it chooses the strongest of the four in {len(strongest)} of {len(penalties)} fits" in page
    assert len(ahead(improvement("paper", "matched", "training"))) == 7  # "seven of nine"
    net = improvement("net", "paper", "training")
    assert len(ahead(net)) == len(net) == 9
    assert f"({sum(map(len, net.values()))} cells of the net split)" in page


def combined(values, how):
    """Over all combinations: the median of medians, or the geometric mean minus one."""
    if how == "median":
        return float(np.median([np.median(one) for one in values]))
    return float(np.expm1(np.mean([np.mean(np.log1p(one)) for one in values])))


@pytest.fixture(scope="module")
def over_baselines(networks):
    """Improvements on test data over every baseline, a list for each combination."""
    found = stored("baselines", "dataset", "split", "model")
    models = {model for _, _, model in found}

    def over(ours):
        return {
            model: [
                [found[d, k, model]["test"] / networks[d, n, k, ours]["test"] - 1.0 for k in range(30)] for d, n in GRID
            ]
            for model in models
        }

    return over


LINEAR = {"linear", "lasso", "ridge"}
STRONG = {"MLP", "gradient boosting", "XGBoost", "LightGBM"}


def test_baselines(page, over_baselines):
    found = over_baselines("paper")
    geometric, medians = ([combined(found[model], how) for model in STRONG] for how in ("geometric", "median"))
    wins = {model: sum(np.median(values) > 0.0 for values in found[model]) for model in found}
    strong, linear = ([wins[model] for model in names] for names in (STRONG, LINEAR))
    assert (
        f"the geometric means are {max(geometric):.2f} to {min(geometric):.2f}, the medians {max(medians):.2f} to "
        f"{min(medians):.2f}, and it is ahead in {min(strong)} to {max(strong)} of 27 combinations."
    ) in page
    assert f"Against linear models it is ahead in {min(linear)} or {max(linear)}." in page
    assert all(np.mean([np.mean(values) for values in found[model]]) > 0.0 for model in found)


def test_baselines_and_the_accelerated_algorithm(over_baselines):
    found = over_baselines("accelerated")
    assert all(combined(values, "geometric") > 0.0 for values in found.values())
    assert {model for model, values in found.items() if combined(values, "median") > 0.0} == LINEAR


@pytest.mark.parametrize("average", [np.mean, np.median])
def test_best_methods_by_dataset(networks, average):
    found = stored("baselines", "dataset", "split", "model")
    errors = {}
    for dataset in DATASETS:
        for model in {model for _, _, model in found}:
            errors[dataset, model] = average([found[dataset, k, model]["test"] for k in range(30)])
        for method in ("paper", "accelerated", "adam"):
            fits = [[networks[dataset, width, k, method] for width in WIDTHS] for k in range(30)]
            chosen = [min(split, key=lambda fit: fit["validation"]) for split in fits]
            errors[dataset, method] = average([fit["test"] for fit in chosen])
    first = {d: min((model for place, model in errors if place == d), key=lambda m: errors[d, m]) for d in DATASETS}
    assert {dataset for dataset in DATASETS if first[dataset] == "accelerated"} == {"DS4", "DS5"}
    others = {first[dataset] for dataset in DATASETS} - {"accelerated"}
    assert others <= STRONG | LINEAR | ({"kernel ridge"} if average is np.median else set())


def test_laws_of_decay(page):
    fits = stored("convergence", "dataset", "n_hidden")
    laws = {place: law_of(found) for place, found in fits.items()}
    power = {place for place, law in laws.items() if law.name == "power"}
    open_ended = {place for place, found in fits.items() if found["status"] != "CONVERGED"}
    assert open_ended < power
    assert f"power law describes {len(power)} of 27 fits better" in page
    assert f"The {len(open_ended)} fits that had not converged after 20,000 epochs are all among them." in page
    clear = [place for place in open_ended if laws[place].power_misfit < 0.5 * laws[place].exponential_misfit]
    assert f"{len(clear)} of these with less than half the misfit" in page
    slow = {place for place in power if laws[place].exponent < 0.1}
    assert slow == {("DS4", 30), ("DS6", 30), ("DS7", 10)}


def test_last_subgradients():
    fits = stored("convergence", "dataset", "n_hidden")
    last = {place: found["subgradient"][-1] for place, found in fits.items()}
    ended = [last[place] for place, found in fits.items() if found["status"] == "CONVERGED"]
    assert 2e-8 <= min(ended) <= max(ended) <= 6.5e-6
    others = {place: last[place] for place, found in fits.items() if found["status"] != "CONVERGED"}
    assert all(3.5e-6 <= value <= 3e-4 for (dataset, _), value in others.items() if dataset != "DS4")
    assert all(0.001 <= value <= 0.015 for (dataset, _), value in others.items() if dataset == "DS4")


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
    assert np.allclose(percent(paper, "technical"), (least, largest), atol=0.5)
    assert f"Assumption 2 fails in no more than {percent(net, 'not_local')[1]:.0f} per cent" in page
    assert f"Assumption 4 in no more than {percent(net, 'technical')[1]:.0f}, exactly where" in page
    assert all(cell["technical"] == cell["concave"] for cell in net)
    failures, visits = (sum(cell[name] for cell in found.values()) for name in ("not_ended", "visits"))
    assert f"Assumption 3 failed {failures} times in {visits:,} visits" in page
    assert {key[1] for key, cell in found.items() if cell["missing_rank"]} == {"DS5"}


def test_solvers(page):
    found = stored("solvers", "solver")
    ours, admm = found["native",], found["admm",]
    assert f"RegLoss is lower with ADMM ({admm['objective'][-1]:.4f} against {ours['objective'][-1]:.4f})" in page
    assert f"a little lower ({admm['test']:.3f} against {ours['test']:.3f})" in page
    assert f"It took {admm['seconds']:.0f} seconds where our own took {ours['seconds']:.0f}." in page
    weights = [np.array(one["weights"]) for one in (admm, ours)]
    assert 0.9 < np.linalg.norm(weights[0] - weights[1]) / np.linalg.norm(weights[1]) < 1.1  # as long as they are


def test_run_times(page):
    sizes = stored("runtime", "n_samples", "n_features").values()
    seconds = [found["seconds"] for found in sizes]
    assert f"Its 30 epochs take {min(seconds):.3f} to {max(seconds):.2f} seconds." in page
    arrive = [np.array(found["adam_seconds"])[found["adam_reached"]] for found in sizes]
    ratios = [some.min() / one for some, one in zip(arrive, seconds, strict=True) if len(some)]
    assert f"In {len(ratios)} of 36 sizes a member of Adam's grid comes as low" in page
    assert f"takes {min(ratios):.1f} to {max(ratios):.0f} times as long as Algorithm 1" in page
    assert {len(some) for some in arrive} == set(range(6))  # one to five, or none
    assert f"In the other {36 - len(ratios)} none does." in page
    lower = sum(found["accelerated_mse"] < found["mse"] for found in sizes)
    assert f"ends lower in {lower} of the 36" in page


def test_overparameterised(page):
    found = stored("overparameterised", "n_hidden", "method")
    widths = {width for width, _ in found}
    for width in widths:
        assert found[width, "paper"]["curve"][1] < found[width, "adam"]["training"]
    seconds = (found[max(widths), method]["cell_seconds"] for method in ("paper", "adam"))
    assert "at 8192 neurons they took {:.0f} seconds, Adam {:.0f}".format(*seconds) in page


def test_orders_of_the_proximal_point_algorithm():
    for (q,), found in stored("proximal", "q").items():
        mean, spread = printed.PROXIMAL_ORDERS[q]
        assert abs(found["mean"] - mean) < spread
