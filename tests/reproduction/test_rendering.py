"""Pages from made-up results: the right numbers in the right places, and gaps said plainly."""

import csv
import itertools
from dataclasses import replace

import numpy as np
import pytest

from reproduction import (
    assumptions,
    baselines,
    controls,
    convergence,
    mnist,
    overparameterised,
    overregularised,
    printed,
    proximal,
    runtime,
    solvers,
    table1,
)
from reproduction.adam import full_grid
from reproduction.commands import render
from reproduction.experiment import NAMES, get_experiment
from reproduction.page import MISSING, Picture, Section, Table, mean_and_spread, with_spread
from reproduction.store import Store

pytest.importorskip("matplotlib")


def fill(folder, name, results, settings=None):
    store = Store(folder, name)
    store.claim(get_experiment(name).settings if settings is None else settings)
    for cell, result in results.items():
        store.write(cell, result)


def errors(training, validation=1.0, test=1.0):
    return {"training": training, "validation": validation, "test": test}


TABLE1 = {
    table1.Cell("DS1", 10, split, method): errors(training, test=training + 1.0)
    for method, values in {"adam": (4.0, 9.0, 5.0), "paper": (1.0, 3.0), "accelerated": (2.0,)}.items()
    for split, training in enumerate(values)
}


def section_of(folder, name):
    return get_experiment(name).section(folder)


def tables_of(section):
    return [part for part in section.parts if isinstance(part, Table)]


def test_table1(tmp_path):
    fill(tmp_path, "table1", TABLE1)
    section = section_of(tmp_path, "table1")
    paper_training = tables_of(section)[0]
    row = next(row for row in paper_training.rows if row[0] == "DS1")
    # 4 / 1 - 1 = 3 and 9 / 3 - 1 = 2; the third split has no DCON.
    assert row[1:3] == ["2.50 (0.71)", "3.69 (9.27)"]
    assert row[3] == MISSING
    paper_test = tables_of(section)[1].rows[0]
    assert paper_test[1] == with_spread(mean_and_spread([5 / 2 - 1, 10 / 4 - 1]))
    accelerated = tables_of(section)[2].rows[0]
    assert accelerated[1] == "1.00"
    summary = tables_of(section)[-1]
    assert summary.rows[0][:2] == ["Algorithm 1", "training"]
    assert summary.rows[0][2:] == ["2.50", "2.46", "2.50", "1 of 1"]  # the root of 4 times 3
    assert [row[0] for row in summary.rows[-2:]] == ["printed", "printed"]
    assert "6 of the 2430 cells" in section.parts[0]


def test_geometric_average():
    values = {("DS1", 10): [3.0, 0.0], ("DS2", 10): [-0.75], ("DS1", 20): [8.0, -0.5, -0.5]}
    comparison = table1.Comparison("adam", "paper", "test", values)
    found = comparison.averages(10)
    assert found.geometric == pytest.approx(np.sqrt(2.0 * 0.25) - 1.0)
    assert found.mean == pytest.approx((1.5 - 0.75) / 2)
    assert found.median == pytest.approx((1.5 - 0.75) / 2)
    assert (found.ahead, found.combinations) == (1, 2)
    # Ahead by the mean alone does not count.
    assert (comparison.averages().ahead, comparison.averages().combinations) == (1, 3)
    rows = {row[0]: row for row in comparison.rows}
    assert rows["geometric"][1:5] == ["-0.29", MISSING, "0.31", MISSING]  # the root of 1/2; the cube root of 9/4
    assert rows["median"][3] == "-0.50"


def test_baselines_are_compared_on_common_splits(tmp_path):
    fill(tmp_path, "table1", TABLE1)
    found = {
        baselines.Cell("DS1", split, "ridge"): errors(training, test=test) | {"chosen": "alpha=1"}
        for split, training, test in ((1, 6.0, 4.0), (2, 100.0, 50.0), (7, 1.0, 1.0))
    }
    fill(tmp_path, "baselines", found)
    section = section_of(tmp_path, "baselines")
    ridge = next(table for table in tables_of(section) if "over ridge" in table.caption and "training" in table.caption)
    assert ridge.rows[0][1:3] == ["1.00", "3.13 (1.10)"]  # split 1 alone: 6 / 3 - 1
    for errors_of in tables_of(section)[-2:]:
        assert errors_of.rows[0][list(errors_of.header).index("ridge")] == "27000"  # without split 7
        assert errors_of.rows[1][1:] == [MISSING] * (len(errors_of.header) - 1)
    summary = next(table for table in tables_of(section) if table.header[0] == "Algorithm 1 over")
    row = next(row for row in summary.rows if row[0] == "ridge")
    assert row[1:5] == ["1.00", "1.00", "1.00", "1 of 1"]
    assert row[5:] == ["0.00", "0.00", "0.00", "0 of 1"]  # 4 / 4 - 1


def test_controls_are_compared_with_the_cells_of_table_1(tmp_path):
    fill(tmp_path, "table1", TABLE1)
    found = {table1.Cell("DS1", 10, split, "lbfgs"): errors(2.0, test=1.0) for split in range(2)}
    fill(tmp_path, "controls", found)
    section = section_of(tmp_path, "controls")
    rows = {row[0]: row for row in tables_of(section)[0].rows}
    assert rows["L-BFGS over Adam"][1:3] == [2, "2.25"]  # 4 / 2 - 1 and 9 / 2 - 1
    assert rows["Algorithm 1 over L-BFGS"][2] == "0.33"  # 2 / 1 - 1 and 2 / 3 - 1
    assert "Algorithm 1, net split over Adam" not in rows
    medians = tables_of(section)[1]
    assert medians.rows[0][list(medians.header).index("L-BFGS over Adam")] == "2.25"


def test_scalers_are_compared_on_the_same_splits(tmp_path):
    fill(tmp_path, "table1", TABLE1)
    found = {table1.Cell("DS1", 10, 0, "adam"): errors(6.0, test=2.0), table1.Cell("DS1", 10, 0, "paper"): errors(2.0)}
    fill(tmp_path, "scalers", found)
    assert get_experiment("scalers").settings.scaler_fit == "training"
    summary, training, _ = tables_of(section_of(tmp_path, "scalers"))
    rows = {tuple(row[:3]): row[3:] for row in summary.rows}
    # Split 1, which Table 1 has, counts for neither.
    assert rows["Algorithm 1", "training", "all rows"][:2] == [1, "3.00"]  # 4 / 1 - 1
    assert rows["Algorithm 1", "training", "training rows"][:2] == [1, "2.00"]  # 6 / 2 - 1
    assert rows["Algorithm 1", "test", "training rows"][-1] == "1 of 1"  # 2 / 1 - 1
    assert rows["accelerated", "test", "training rows"] == [0, *[MISSING] * 4]
    assert training.rows[0][1:] == ["3.00", "2.00", MISSING, MISSING]


def test_few_splits_have_restarts():
    cells = controls.cells(controls.Plan())
    assert {cell.split for cell in cells if cell.method == "restart"} == set(range(5))
    assert {cell.split for cell in cells if cell.method == "lbfgs"} == set(range(30))


def test_assumptions_in_per_cent(tmp_path):
    figures = dict(zip(assumptions.COUNTS, (200, 100, 10, 2, 1, 30, 40), strict=True))
    result = {"gamma": 0.1, "epochs": 20, "missing_rank": 0} | figures
    fill(tmp_path, "assumptions", {assumptions.Cell("DS1", 10, "net"): result})
    (table,) = tables_of(section_of(tmp_path, "assumptions"))
    assert "the net split" in table.caption
    (row,) = table.rows
    assert row == ["DS1", 10, 200, "50.0", "5.0", "1.0", "0.5", "20.0", "15.0"]


def test_baselines_without_networks_say_so(tmp_path):
    fill(tmp_path, "baselines", {baselines.Cell("DS1", 0, "ridge"): errors(1.0) | {"chosen": ""}})
    assert any("missing" in part for part in section_of(tmp_path, "baselines").parts if isinstance(part, str))


def curves(status):
    return {
        "gamma": 0.01,
        "epochs": 40,
        "status": status,
        "order_early": None,
        "order": 1.0004,
        "epoch": [1, 2, 40],
        "step_norm": [1.0, 0.1, 1e-6],
        "subgradient": [1.0, 0.5, 1e-5],
        "error": [1.0, 0.1],
        "next_error": [0.1, 0.01],
        "dcon_mse": [1.0, 0.1],
        "adam_mse": [1.0, 0.9],
    }


def test_convergence(tmp_path):
    found = {convergence.Cell("DS1", 10): curves("CONVERGED"), convergence.Cell("DS3", 30): curves("EPOCH_LIMIT")}
    fill(tmp_path, "convergence", found)
    rows = {row[0]: row for row in tables_of(section_of(tmp_path, "convergence"))[0].rows}
    assert rows["DS1"][1:4] == ["40", MISSING, "1.000"]
    assert rows["DS3"][7] == "> 40"


def test_laws_of_decay_are_told_from_the_errors_that_were_kept(tmp_path):
    epochs = [int(k) for k in np.unique(np.geomspace(1, 5000, 60).round())]
    k = np.array([0, *epochs[:-1]])  # the last one stands for the limit, and has no error
    laws = {10: (1.0 + k) ** -0.7, 20: 0.99**k}
    found = {
        convergence.Cell("DS1", n): curves("EPOCH_LIMIT") | {"epoch": epochs, "error": errors.tolist()}
        for n, errors in laws.items()
    }
    found[convergence.Cell("DS1", 30)] = curves("CONVERGED")
    fill(tmp_path, "convergence", found)
    section = section_of(tmp_path, "convergence")
    row = tables_of(section)[1].rows[0]
    assert [row[1], row[4], row[7]] == ["power", "exponential", "unknown"]  # the last has too few epochs
    assert float(row[3]) == pytest.approx(0.7, abs=0.05)
    assert row[6] == MISSING
    sheet = {line[1]: dict(zip(section.sheets[0].header, line, strict=True)) for line in section.sheets[0].rows}
    assert sheet[20]["factor"] == pytest.approx(0.99, abs=1e-3)
    assert sheet[10]["subgradient"] == 1e-5
    assert sheet[10]["net_stationarity"] is None  # results from before it was computed


def digits(training, validation, test):
    return {"seconds": 12.4, "training": training, "validation": validation, "test": test, "epochs": [1] * 10}


def test_mnist_chooses_by_validation(tmp_path):
    found = {
        mnist.Cell("subset", 10, "accelerated", (0.1,)): digits([0.05] * 10, 0.95, 0.91),
        mnist.Cell("subset", 10, "accelerated", (1.0,)): digits([0.05] * 10, 0.94, 0.99),
    }
    fill(tmp_path, "mnist", found)
    subset, complete = ({row[0]: row for row in table.rows} for table in tables_of(section_of(tmp_path, "mnist")))
    assert subset["10x10, accelerated"][-4:] == ["0.9100", "12", "0.1", "2"]
    assert subset["printed: DCON"][1] == "0.02"
    assert complete["printed: Adam"][11] == "0.94"
    assert complete["printed: improvement"][5] == "1.50"
    assert "10x10, accelerated" not in complete
    assert "10x10, accelerated: improvement" not in subset  # there is no Adam to compare with


def test_mnist_improvements_are_over_the_chosen_adam(tmp_path):
    found = {
        mnist.Cell("subset", 10, "adam", (0.1, 0.9, 64, 0.01)): digits([0.02, 0.04] * 5, 0.95, 0.96),
        mnist.Cell("subset", 10, "adam", (0.2, 0.9, 64, 0.01)): digits([9.0] * 10, 0.94, 0.97),
        mnist.Cell("subset", 10, "paper", (0.01,)): digits([0.04, 0.02] * 5, 0.9, 0.912),
        mnist.Cell("subset", 28, "accelerated", (0.01,)): digits([0.01] * 10, 0.9, 0.99),
    }
    fill(tmp_path, "mnist", found)
    rows = {row[0]: row for row in tables_of(section_of(tmp_path, "mnist"))[0].rows}
    assert rows["10x10, Algorithm 1: improvement"][1:12] == ["-0.50", "1.00"] * 5 + ["-0.05"]
    assert "28x28, accelerated: improvement" not in rows  # Adam has no images of this size


def test_runtime(tmp_path):
    times = [2.0] + [3.0] * 34 + [0.5]
    found = {
        "mse": 0.1,
        "seconds": 0.1,
        "accelerated_mse": 0.05,
        "accelerated_seconds": 0.2,
        "adam_seconds": times,
        "adam_reached": [True] * 35 + [False],
    }
    none = found | {"adam_reached": [False] * 36}
    fill(tmp_path, "runtime", {runtime.Cell(50, 5): found, runtime.Cell(50, 10): none})
    rows = {row[0]: row for row in tables_of(section_of(tmp_path, "runtime"))[0].rows}
    assert rows["Adam, best seconds"][1:] == [1, "2", "2", "2"]  # the member with 0.5 s never got there
    assert rows["Adam, median seconds of those that arrive"][2] == "3"
    assert rows["Adam's best over Algorithm 1"][1:3] == [1, "20"]
    assert rows["Adam's total over Algorithm 1, cap included"][1:3] == [2, "1040"]
    assert len(full_grid()) == len(times)


def test_solvers_are_compared_with_our_own(tmp_path):
    figures = {"seconds": 12.3, "programmes": 7, "unsolved": 1, "refused": 0, "test": 0.95}
    found = {
        solvers.Cell(8, "native"): figures | {"objective": [1.0, 0.5], "weights": [3.0, 4.0]},
        solvers.Cell(8, "admm"): figures | {"objective": [1.0, 0.51], "weights": [3.0, 4.5]},
    }
    fill(tmp_path, "solvers", found)
    admm, native = tables_of(section_of(tmp_path, "solvers"))[0].rows
    assert admm[1:5] == ["admm", "0.51", "0.1", 7]
    assert native[3] == MISSING


def test_the_table_of_appendix_e(tmp_path):
    results = {
        proximal.Cell(q): proximal.run(proximal.Cell(q), proximal.Settings(n_starts=5), tmp_path) for q in (2, 6)
    }
    fill(tmp_path, "proximal", results)
    rows = tables_of(section_of(tmp_path, "proximal"))[0].rows
    assert [row[:2] for row in rows] == [[2, 3], [6, 11]]
    assert rows[0][3] == "2.9931 (0.0325)"
    assert float(rows[1][2].split()[0]) == pytest.approx(11, abs=0.5)


def test_overparameterised_networks_with_epochs_and_seconds(tmp_path):
    curve = {"epochs": 7, "cell_seconds": 12.34, "curve_epoch": [0.0, 1.0], "curve": [1.0, 0.5]}
    fill(tmp_path, "overparameterised", {overparameterised.Cell(512, "paper"): errors(0.25, test=0.5) | curve})
    (row,) = tables_of(section_of(tmp_path, "overparameterised"))[0].rows
    assert row == [512, "Algorithm 1", "0.25", "0.5", 7, "12.3"]


def everything(folder):
    fill(folder, "table1", TABLE1)
    fill(folder, "baselines", {baselines.Cell("DS1", 0, "ridge"): errors(1.0) | {"chosen": ""}})
    fill(folder, "convergence", {convergence.Cell("DS1", 10): curves("CONVERGED")})
    curve = {"epochs": 2, "cell_seconds": 3.0, "curve_epoch": [0.0, 1.0], "curve": [1.0, 0.5]}
    fill(folder, "overparameterised", {overparameterised.Cell(512, "adam"): errors(1.0) | curve})
    cells = itertools.product(("DS1", "DS7"), (0.1, 10.0))
    regularised = {overregularised.Cell(*cell): errors(1.0) | {"epochs": 3, "status": "CONVERGED"} for cell in cells}
    fill(folder, "overregularised", regularised, replace(get_experiment("overregularised").settings, max_epochs=7))


def test_the_page(tmp_path):
    everything(tmp_path)
    page = render(tmp_path, tmp_path / "docs.md")
    text = page.read_text()
    for name in NAMES:
        assert f"## {get_experiment(name).title}" in text
    assert "Not computed: none of its" in text  # MNIST and run times
    assert "max_epochs 7 in the place of 50000" in text
    for picture in ("convergence", "overparameterised", "overregularised"):
        assert f"({picture}.png)" in text
        assert (tmp_path / f"{picture}.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "overregularised.csv").open() as file:
        assert next(csv.reader(file)) == ["dataset", "gamma", "epochs", "status", "training", "test"]


@pytest.fixture
def without_pictures(monkeypatch):
    monkeypatch.setattr(Picture, "save", lambda self, folder: None)


@pytest.mark.usefixtures("without_pictures")
def test_the_page_is_the_same_from_packed_results(tmp_path):
    everything(tmp_path)
    before = render(tmp_path).read_text()
    for name in NAMES:
        Store(tmp_path, name).pack()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    assert render(tmp_path).read_text() == before


@pytest.mark.usefixtures("without_pictures")
def test_a_page_elsewhere_finds_its_pictures(tmp_path):
    results, docs = tmp_path / "docs" / "results", tmp_path / "docs"
    results.mkdir(parents=True)
    everything(results)
    assert "](results/convergence.png)" in render(results, docs / "page.md").read_text()


@pytest.mark.usefixtures("without_pictures")
def test_remarks_stand_where_they_belong(tmp_path):
    (tmp_path / "remarks.md").write_text("All in all.\n")
    (tmp_path / "mnist.md").write_text("About digits.\n")
    (tmp_path / "left.md").write_text("To be done.\n")
    text = render(tmp_path).read_text()
    assert text.index("All in all.") < text.index("## Table 1") < text.index("## MNIST") < text.index("About digits.")
    assert text.index("About digits.") < text.index("## Run times")
    assert text.endswith("To be done.\n")


def test_an_empty_section_has_only_its_status():
    section = Section("Title", ["Nothing."])
    assert section.markdown("") == "## Title\n\nNothing."


@pytest.mark.parametrize("baseline", printed.IMPROVEMENTS)
@pytest.mark.parametrize("part", [0, 1])
def test_printed_averages_are_those_of_the_printed_numbers(baseline, part):
    table = printed.IMPROVEMENTS[baseline]
    rows = np.array([columns[part] for name, columns in table.items() if name != printed.AVERAGE])
    assert rows.shape == (9, 3, 2)
    # Each number is rounded to two digits, the average once more.
    np.testing.assert_allclose(rows.mean(axis=0), table[printed.AVERAGE][part], atol=0.0101)


@pytest.mark.parametrize("images", mnist.IMAGES)
def test_printed_improvements_of_mnist_follow_from_the_errors(images):
    (adam, adam_accuracy), (dcon, dcon_accuracy) = (printed.MNIST[images, method] for method in ("adam", "paper"))
    errors, accuracy = printed.MNIST_IMPROVEMENTS[images]
    np.testing.assert_allclose(np.array(adam) / dcon - 1.0, errors, atol=0.0051)
    assert dcon_accuracy / adam_accuracy - 1.0 == pytest.approx(accuracy, abs=0.0051)
