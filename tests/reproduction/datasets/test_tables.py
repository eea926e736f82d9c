"""Reading the nine tables and MNIST: made-up raw files of the same form, and the real ones if they are installed."""

import gzip

import numpy as np
import pytest

from reproduction.datasets import CATALOGUE, TABLES, Choices, Split, load_dataset, load_mnist, load_scaled, split_rows
from reproduction.datasets.mnist import averages, read_idx
from reproduction.datasets.uci import (
    aquatic_toxicity,
    computer_hardware,
    facebook_metrics,
    fish_toxicity,
    residential_building,
    yacht_hydrodynamics,
)
from shared_data import HOME, needs_data

pd = pytest.importorskip("pandas")
pytest.importorskip("openpyxl")
CHOICES = Choices()


def written(path, text):
    path.write_text(text, newline="")
    return path


def test_facebook_metrics(tmp_path):
    header = "Page total likes;Type;Paid;Lifetime Engaged Users;comment;like;share;Total Interactions\n"
    rows = "10;Photo;0;178;4;79;17;100\n20;Status;1;1457;5;130;29;164\n30;Photo;;177;0;66;14;80\n40;Link;1;7;1;;1;2\n"
    path = written(tmp_path / "raw", (header + rows).replace("\n", "\r\n"))
    data = facebook_metrics(path, CHOICES)
    assert data.feature_names == ("Page total likes", "Paid", "Lifetime Engaged Users", "Type_Photo", "Type_Status")
    np.testing.assert_array_equal(data.X, [[10, 0, 178, 1, 0], [20, 1, 1457, 0, 1]])
    np.testing.assert_array_equal(data.y, [100, 164])
    other = facebook_metrics(path, Choices(facebook_target="Lifetime Engaged Users"))
    np.testing.assert_array_equal(other.y, [178, 1457])
    assert "Total Interactions" in other.feature_names
    with pytest.raises(ValueError, match=r"no column 'reach'.*Total Interactions"):
        facebook_metrics(path, Choices(facebook_target="reach"))


def test_residential_building(tmp_path):
    economic = [f"V-{number}" for number in range(11, 30)]
    header = ["START YEAR", *(f"V-{number}" for number in range(1, 9)), *5 * economic, "V-9", "V-10"]
    values = [81, *range(1, 9), *(100 * lag + number for lag in range(1, 6) for number in range(11, 30)), 9000, 10000]
    path = tmp_path / "raw.xlsx"
    pd.DataFrame([["titles", *[None] * (len(header) - 1)], header, values]).to_excel(path, header=False, index=False)
    data = residential_building(path, CHOICES)
    np.testing.assert_array_equal(data.X[0], [*range(1, 9), *range(411, 430)])
    np.testing.assert_array_equal(data.y, [10000])
    two = residential_building(path, Choices(building_target="V-9", building_lags=(1, 5)))
    np.testing.assert_array_equal(two.X[0], [*range(1, 9), *range(111, 130), *range(511, 530)])
    np.testing.assert_array_equal(two.y, [9000])


@pytest.mark.parametrize(
    ("reader", "text", "X", "y"),
    [
        (computer_hardware, "adviser,32/60,125,256,6000,256,16,128,198,199", [125, 256, 6000, 256, 16, 128], 198),
        (yacht_hydrodynamics, "-2.3 0.568 4.78 3.99 3.17 0.125 0.11 \n\n", [-2.3, 4.78, 3.99, 3.17, 0.125], 0.11),
        (fish_toxicity, "0;1;2;3;4;5;6\r\n", range(6), 6),
        (aquatic_toxicity, "0;1;2;3;4;5;6;7;8\r\n", range(8), 8),
    ],
)
def test_plain_tables(tmp_path, reader, text, X, y):
    data = reader(written(tmp_path / "raw", text), CHOICES)
    np.testing.assert_allclose(data.X, [X])
    np.testing.assert_allclose(data.y, [y])


def test_invalid_choices_are_refused():
    for wrong in ({"scaler_fit": "test"}, {"building_target": "V-1"}, {"building_lags": (6,)}, {"building_lags": ()}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Choices(**wrong)
    with pytest.raises(ValueError, match="side must lie between 1 and 28"):
        load_mnist(29)


def test_idx_files(tmp_path):
    images, wrong = tmp_path / "images.gz", tmp_path / "wrong.gz"
    header = b"".join(number.to_bytes(4, "big") for number in (2051, 2, 2, 3))
    images.write_bytes(gzip.compress(header + bytes(range(12))))
    wrong.write_bytes(gzip.compress(b"text"))
    np.testing.assert_array_equal(read_idx(images), np.arange(12).reshape(2, 2, 3))
    with pytest.raises(ValueError, match="not an idx file"):
        read_idx(wrong)


def test_averages_keep_the_ink():
    for after in (1, 7, 10, 28):
        weights = averages(28, after)
        np.testing.assert_allclose(weights.sum(axis=1), 1.0)
        np.testing.assert_allclose(weights.sum(axis=0), after / 28)


def test_splits_are_disjoint_and_repeatable():
    parts = split_rows(209, 3)
    assert [len(part) for part in parts] == [167, 21, 21]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(209))
    for one, same, other in zip(parts, split_rows(209, 3), split_rows(209, 4), strict=True):
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, other)


# Means of the raw targets as the descriptions of the files give them.
TARGET_MEANS = {"DS1": 105.6220, "DS4": 10.4954, "DS6": 232.6478, "DS7": 37.9802, "DS8": 4.0644, "DS9": 4.6584}


@needs_data
@pytest.mark.parametrize("name", TABLES)
def test_real_tables_have_the_published_shapes_and_means(name):
    data, entry = load_dataset(name, HOME), CATALOGUE[name]
    assert data.X.shape == (entry.rows, entry.columns)
    assert np.isfinite(data.X).all()
    assert data.y.mean() == pytest.approx(TARGET_MEANS.get(name, data.y.mean()), abs=5e-5)


@needs_data
@pytest.mark.parametrize("rows", ["all", "training"])
def test_scalers_learn_from_the_chosen_rows(rows):
    chosen = Split("DS7", 0).load(HOME, Choices(scaler_fit=rows)).training
    X, y = load_scaled("DS7", HOME) if rows == "all" else chosen
    np.testing.assert_allclose(np.median(X, axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.subtract(*np.percentile(X, [75, 25], axis=0)), 1.0)
    np.testing.assert_allclose([y.min(), y.max()], [0.0, 1.0], atol=1e-12)
    assert (np.abs(np.median(chosen[0], axis=0)).max() > 1e-3) == (rows == "all")


@needs_data
def test_real_mnist():
    training, test = load_mnist(10, HOME)
    assert (training.X.shape, test.X.shape) == ((60_000, 100), (10_000, 100))
    assert training.X.mean() == pytest.approx(0.13066, abs=1e-5)  # that of the pixels: averages keep the ink
    np.testing.assert_array_equal(training.digits[:10], [5, 0, 4, 1, 9, 2, 1, 3, 1, 4])
    assert np.sum(training.signs(3) == 1.0) == 6131
