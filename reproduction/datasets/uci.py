"""The nine tables, from raw file to scaled training, validation and test parts, as the paper describes it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from reproduction.datasets.files import data_home, get_entry, obtain

if TYPE_CHECKING:
    import pandas as pd

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
ALL_LAGS = (1, 2, 3, 4, 5)


@dataclass(frozen=True, slots=True)
class Choices:
    """Choices that the paper leaves open about its tables.

    Attributes
    ----------
    facebook_target : str
        Target of DS5. The paper names none, but drops the three summands of "Total Interactions".
    building_target : {"V-10", "V-9"}
        Target of DS6: construction costs, as in the paper, or sales price. The other column is dropped.
    building_lags : tuple of int
        Time lags of DS6 whose economic variables are features. The paper names lag 4. Its printed ratios between
        linear regression, lasso and ridge regression agree with the 27 features of lag 4 alone, not with all lags.
    scaler_fit : {"all", "training"}
        Rows that fit the scalers: all rows before the split, as the paper describes it, or the training part.
    """

    facebook_target: str = "Total Interactions"
    building_target: str = "V-10"
    building_lags: tuple[int, ...] = (4,)
    scaler_fit: str = "all"

    def __post_init__(self) -> None:
        if self.scaler_fit not in ("all", "training"):
            raise ValueError(f"scaler_fit must be 'all' or 'training', got {self.scaler_fit!r}.")
        if self.building_target not in ("V-9", "V-10"):
            raise ValueError(f"building_target must be 'V-9' or 'V-10', got {self.building_target!r}.")
        if not self.building_lags or not set(self.building_lags) <= set(ALL_LAGS):
            raise ValueError(f"building_lags must be some of 1 to 5, got {self.building_lags!r}.")


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Features ``X`` (n_samples, n_features) and target ``y`` (n_samples,) before scaling, with their names."""

    X: FloatArray
    y: FloatArray
    feature_names: tuple[str, ...]
    target_name: str

    @classmethod
    def of(cls, frame: pd.DataFrame, target: str) -> Dataset:
        """Take one column as target and all others as features."""
        if target not in frame:
            raise ValueError(f"There is no column {target!r}. Choose one of {', '.join(map(str, frame))}.")
        features = frame.drop(columns=target)
        X, y = (np.ascontiguousarray(part.to_numpy(dtype=np.float64)) for part in (features, frame[target]))
        return cls(X, y, tuple(map(str, features)), target)


def load_dataset(name: str, home: str | os.PathLike[str] | None = None, choices: Choices | None = None) -> Dataset:
    """Return one of the nine tables ("DS1" to "DS9") after the paper's preprocessing, without scaling.

    Examples
    --------
    >>> from reproduction.datasets import load_dataset
    >>> load_dataset("DS0")
    Traceback (most recent call last):
    ...
    ValueError: There is no dataset 'DS0'. Choose one of DS1, DS2, DS3, DS4, DS5, DS6, DS7, DS8, DS9, MNIST.
    """
    if get_entry(name).name not in _READERS:
        raise ValueError("MNIST is not a table: use load_mnist.")
    return _loaded(name, data_home(home), choices or Choices())


def load_scaled(
    name: str, home: str | os.PathLike[str] | None = None, choices: Choices | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return features and target of a whole table, scaled as in the paper."""
    data = load_dataset(name, home, choices)
    return scale(data.X, data.y, data.X, data.y)


def scale(X: FloatArray, y: FloatArray, X_fit: FloatArray, y_fit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scale features by median and quartiles, and the target onto [0, 1], with scalers fitted on given rows."""
    from sklearn.preprocessing import MinMaxScaler, RobustScaler

    target = MinMaxScaler().fit(y_fit[:, None])
    return RobustScaler().fit(X_fit).transform(X), target.transform(y[:, None])[:, 0]


Part = tuple[FloatArray, FloatArray]
Rows = NDArray[np.intp]


def split_rows(n_rows: int, number: int) -> tuple[Rows, Rows, Rows]:
    """Return the rows for training (80 %), validation (10 %) and test (10 %); the number of the split is its seed.

    Examples
    --------
    >>> from reproduction.datasets import split_rows
    >>> [len(rows) for rows in split_rows(100, number=0)]
    [80, 10, 10]
    """
    from sklearn.model_selection import train_test_split

    training, rest = train_test_split(np.arange(n_rows), test_size=0.2, random_state=number)
    validation, test = train_test_split(rest, test_size=0.5, random_state=number)
    return training, validation, test


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The three parts of a dataset, each a pair of features and target."""

    training: Part
    validation: Part
    test: Part


@dataclass(frozen=True, slots=True)
class Split:
    """One of the random splits of a table; its number is its seed."""

    dataset: str
    number: int

    def load(self, home: str | os.PathLike[str] | None = None, choices: Choices | None = None) -> Parts:
        """Return the scaled parts."""
        chosen = choices or Choices()
        data = load_dataset(self.dataset, home, chosen)
        rows = split_rows(len(data.y), self.number)
        fit_on = rows[0] if chosen.scaler_fit == "training" else np.arange(len(data.y))
        X, y = scale(data.X, data.y, data.X[fit_on], data.y[fit_on])
        training, validation, test = ((X[part], y[part]) for part in rows)
        return Parts(training, validation, test)


@lru_cache(maxsize=32)
def _loaded(name: str, home: Path, choices: Choices) -> Dataset:
    (file,) = get_entry(name).files
    data = _READERS[name](obtain(file, home), choices)
    data.X.flags.writeable = data.y.flags.writeable = False  # the cache returns the same arrays again
    return data


def _pandas() -> Any:
    try:
        import openpyxl  # noqa: F401  (pandas reads xlsx files with it)
        import pandas as pd
    except ImportError as error:
        raise ImportError("The paper's tables need pandas and openpyxl: pip install pandas openpyxl") from error
    return pd


def _read_plain(path: Path, names: str, drop: str = "", **options: Any) -> Dataset:
    """Read a table without header; the last of the names that is not dropped is the target."""
    columns = names.split()
    frame = _pandas().read_csv(path, names=columns, **options).drop(columns=drop.split())
    return Dataset.of(frame, frame.columns[-1])


def computer_hardware(path: Path, choices: Choices) -> Dataset:
    """Read DS1 without vendor, model and the performance that the original article estimated."""
    return _read_plain(path, "VENDOR MODEL MYCT MMIN MMAX CACH CHMIN CHMAX PRP ERP", drop="VENDOR MODEL ERP")


def forest_fires(path: Path, choices: Choices) -> Dataset:
    """Read DS2 with months and days as numbers, and the logarithm of one plus the area."""
    frame = _pandas().read_csv(path)
    frame["month"] = frame["month"].map(MONTHS.index) + 1
    frame["day"] = frame["day"].map(DAYS.index) + 1
    frame["area"] = np.log1p(frame["area"])
    return Dataset.of(frame, "area")


def stock_portfolio(path: Path, choices: Choices) -> Dataset:
    """Read DS3: the weights of the portfolios and their normalised annual return, four periods one below the other."""
    pd = _pandas()
    periods = ["1st period", "2nd period", "3rd period", "4th period"]
    sheets = pd.read_excel(path, sheet_name=periods, header=1)
    frame = pd.concat([sheet.dropna(how="all") for sheet in sheets.values()], ignore_index=True)
    frame.columns = frame.columns.str.strip()
    weights = ["Large B/P", "Large ROE", "Large S/P", "Large Return Rate in the last quarter"]
    columns = [*weights, "Large Market Value", "Small systematic Risk", "Annual Return.1"]
    return Dataset.of(frame[columns], "Annual Return.1")


def yacht_hydrodynamics(path: Path, choices: Choices) -> Dataset:
    """Read DS4 without the prismatic coefficient, which the paper drops for missing values (this file has none)."""
    names = "buoyancy prismatic length-displacement beam-draught length-beam Froude resistance"
    return _read_plain(path, names, drop="prismatic", sep=r"\s+")


def facebook_metrics(path: Path, choices: Choices) -> Dataset:
    """Read DS5: complete rows, the type one-hot, without the summands of the total interactions."""
    pd = _pandas()
    frame = pd.read_csv(path, sep=";").dropna().drop(columns=["comment", "like", "share"])
    return Dataset.of(pd.get_dummies(frame, columns=["Type"], dtype=float), choices.facebook_target)


def residential_building(path: Path, choices: Choices) -> Dataset:
    """Read DS6: eight project variables, nineteen economic ones for each chosen lag, and one of the two outputs."""
    frame = _pandas().read_excel(path, header=1)
    project = [f"V-{number}" for number in range(1, 9)]
    # pandas appends .1, .2 and so on to equal names: the fourth lag has .3.
    ends = ["" if lag == 1 else f".{lag - 1}" for lag in choices.building_lags]
    economic = [f"V-{number}{end}" for end in ends for number in range(11, 30)]
    return Dataset.of(frame[[*project, *economic, choices.building_target]], choices.building_target)


def real_estate_valuation(path: Path, choices: Choices) -> Dataset:
    """Read DS7 without the number of the row."""
    return Dataset.of(_pandas().read_excel(path).drop(columns="No"), "Y house price of unit area")


def fish_toxicity(path: Path, choices: Choices) -> Dataset:
    """Read DS8."""
    return _read_plain(path, "CIC0 SM1_Dz(Z) GATS1i NdsCH NdssC MLOGP LC50", sep=";")


def aquatic_toxicity(path: Path, choices: Choices) -> Dataset:
    """Read DS9."""
    return _read_plain(path, "TPSA(Tot) SAacc H-050 MLOGP RDCHI GATS1p nN C-040 LC50", sep=";")


_READERS: dict[str, Callable[[Path, Choices], Dataset]] = {
    "DS1": computer_hardware,
    "DS2": forest_fires,
    "DS3": stock_portfolio,
    "DS4": yacht_hydrodynamics,
    "DS5": facebook_metrics,
    "DS6": residential_building,
    "DS7": real_estate_valuation,
    "DS8": fish_toxicity,
    "DS9": aquatic_toxicity,
}
