"""Tables in the forms that the methods need: with categories, with texts, or as numbers alone."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

MAX_ONE_HOT = 50  # categories with a column of their own; rarer ones share a column
GAP = "missing"


def simplify(table: pd.DataFrame) -> pd.DataFrame:
    """Return numbers and texts alone, under names that all packages accept.

    A date becomes its day, the day of the year, the hour and, as a text, the day of the week.
    """
    parts: dict[str, pd.Series] = {}
    for position, (_, column) in enumerate(table.items()):
        name = f"c{position}"
        if pd.api.types.is_datetime64_any_dtype(column):
            parts[name] = (column - pd.Timestamp("2000-01-01")) / pd.Timedelta(days=1)
            parts[f"{name}year"] = column.dt.day_of_year
            parts[f"{name}hour"] = column.dt.hour
            parts[f"{name}week"] = column.dt.day_name()
        elif pd.api.types.is_numeric_dtype(column):
            parts[name] = column.astype(float)
        else:
            parts[name] = column.astype(object).where(column.notna(), None)
    return pd.DataFrame(parts, index=table.index)


def text_columns(table: pd.DataFrame) -> list[str]:
    """Return the columns of a simplified table that are not numbers."""
    return [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]


@dataclass(frozen=True)
class CategoryEncoder:
    """Texts as pandas categories; categories that are unknown or too rare become missing values."""

    dtypes: dict[str, pd.CategoricalDtype]

    @classmethod
    def fit(cls, table: pd.DataFrame, *, max_categories: int | None = None, min_rows: int = 1) -> CategoryEncoder:
        """Learn the most frequent categories of each column, each with at least ``min_rows`` rows."""
        rows = simplify(table)
        counts = {name: rows[name].value_counts() for name in text_columns(rows)}
        return cls(
            {name: pd.CategoricalDtype(sorted(c.index[c >= min_rows][:max_categories])) for name, c in counts.items()}
        )

    def __call__(self, table: pd.DataFrame) -> pd.DataFrame:
        """Encode a table; drop columns without any known category."""
        rows = simplify(table)
        for name, dtype in self.dtypes.items():
            rows[name] = pd.Categorical(rows[name].where(rows[name].isin(dtype.categories), None), dtype=dtype)
        return rows.drop(columns=[name for name, dtype in self.dtypes.items() if dtype.categories.empty])


def fill_missing_texts(table: pd.DataFrame) -> pd.DataFrame:
    """Return a simplified table in which a missing text is a text, too."""
    rows = simplify(table)
    return rows.assign(**{name: rows[name].fillna(GAP).astype(str) for name in text_columns(rows)})


@dataclass(frozen=True)
class GapFiller:
    """Texts as texts, medians instead of missing numbers, and indicator columns for them."""

    medians: pd.Series
    with_gaps: list[str]

    @classmethod
    def fit(cls, table: pd.DataFrame) -> GapFiller:
        """Learn the medians and the columns with gaps."""
        rows = fill_missing_texts(table)
        return cls(rows.median(numeric_only=True), [name for name in rows if rows[name].isna().any()])

    def __call__(self, table: pd.DataFrame) -> pd.DataFrame:
        """Fill a table."""
        rows = fill_missing_texts(table)
        gaps = rows[self.with_gaps].isna().astype(float).add_suffix("gap")
        return pd.concat([rows.fillna(self.medians), gaps], axis=1)


def make_numeric_encoder() -> Pipeline:
    """Return a transformer to standardised numbers, indicators of missing values, and one-hot columns."""
    gaps = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    one_hot = OneHotEncoder(max_categories=MAX_ONE_HOT, handle_unknown="infrequent_if_exist", sparse_output=False)
    columns = make_column_transformer(
        (gaps, make_column_selector(dtype_include="number")),
        (one_hot, make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(FunctionTransformer(fill_missing_texts), columns)
