"""Tables as rivals want them: with native categories, with categories as text, or as numbers alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

Coded = Callable[[pd.DataFrame], pd.DataFrame]

# Levels that one-hot columns tell apart; the rarer ones share a column.
MOST_ONE_HOT = 50
GAP = "missing"


def plain(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers and texts alone, under names that all packages take.

    A date becomes its day, the day of the year, the hour and, as a text, the day of the week.
    """
    parts: dict[str, pd.Series] = {}
    for position, (_, column) in enumerate(table.items()):
        parts |= {f"c{position}{part}": values for part, values in _parts(column).items()}
    return pd.DataFrame(parts, index=table.index)


def _parts(column: pd.Series) -> dict[str, pd.Series]:
    if pd.api.types.is_datetime64_any_dtype(column):
        days = (column - pd.Timestamp("2000-01-01")) / pd.Timedelta(days=1)
        calendar = column.dt
        return {"": days, "year": calendar.day_of_year, "hour": calendar.hour, "week": calendar.day_name()}
    if pd.api.types.is_numeric_dtype(column):
        return {"": column.astype(float)}
    return {"": column.astype(object).where(column.notna(), None)}


def texts(table: pd.DataFrame) -> list[str]:
    """The columns of a plain table that are not numbers."""
    return [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]


@dataclass(frozen=True)
class Levels:
    """Texts as categories: the levels of the training table that are worth a name; all others count as missing.

    Attributes
    ----------
    known : dict
        The levels of each column; one without any is left out.
    """

    known: dict[str, pd.CategoricalDtype]

    @classmethod
    def of(cls, table: pd.DataFrame, *, most: int | None = None, least: int = 1) -> Levels:
        """Learn from a table the most frequent levels, each with at least so many rows."""
        ready = plain(table)
        counts = {name: ready[name].value_counts() for name in texts(ready)}
        return cls({name: pd.CategoricalDtype(sorted(c.index[c >= least][:most])) for name, c in counts.items()})

    def __call__(self, table: pd.DataFrame) -> pd.DataFrame:
        """Code a table."""
        ready = plain(table)
        for name, levels in self.known.items():
            ready[name] = pd.Categorical(ready[name].where(ready[name].isin(levels.categories), None), dtype=levels)
        return ready.drop(columns=[name for name, levels in self.known.items() if levels.categories.empty])


def with_texts(table: pd.DataFrame) -> pd.DataFrame:
    """A plain table in which a missing text is a text, too."""
    ready = plain(table)
    return ready.assign(**{name: ready[name].fillna(GAP).astype(str) for name in texts(ready)})


@dataclass(frozen=True)
class Filled:
    """Texts as texts and numbers without gaps: medians instead, and columns that say where some had gaps."""

    medians: pd.Series
    with_gaps: list[str]

    @classmethod
    def of(cls, table: pd.DataFrame) -> Filled:
        """Learn from a table."""
        ready = with_texts(table)
        return cls(ready.median(numeric_only=True), [name for name in ready if ready[name].isna().any()])

    def __call__(self, table: pd.DataFrame) -> pd.DataFrame:
        """Fill a table."""
        ready = with_texts(table)
        gaps = ready[self.with_gaps].isna().astype(float).add_suffix("gap")
        return pd.concat([ready.fillna(self.medians), gaps], axis=1)


def numbers() -> Pipeline:
    """Standardised numbers, with an indicator where some are missing, and one-hot columns."""
    gaps = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    levels = OneHotEncoder(max_categories=MOST_ONE_HOT, handle_unknown="infrequent_if_exist", sparse_output=False)
    columns = make_column_transformer(
        (gaps, make_column_selector(dtype_include="number")),
        (levels, make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(FunctionTransformer(with_texts), columns)
