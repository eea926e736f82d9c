"""Every kind of column of every kind of table becomes the numbers that it stands for, or an error that names it."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dconnet.encoding.columns import LARGEST, MIN_GAPS, MISSING, Schema, date_parts, is_missing, raw_columns, slip_of

N = 30
EAST = timezone(timedelta(hours=5))


def column(values, **kinds):
    """The one column of a table of pandas, and the fields that it becomes."""
    return fitted(pd.DataFrame({"c": pd.Series(values, **kinds)}))


def fitted(table):
    raws = raw_columns(table)
    schema = Schema.of(raws)
    return schema.columns[0], schema.read(raws).values


def repeated(*values):
    return list(values) * (N // len(values))


# --- numbers ---


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"])
def test_numbers_of_all_types_of_numpy_are_numbers(dtype):
    kind, (values,) = column(np.arange(N, dtype=dtype))
    assert (kind.kind, kind.treatment) == ("number", "as it is")
    np.testing.assert_array_equal(values, np.arange(N))


@pytest.mark.parametrize(
    ("values", "kinds", "numbers"),
    [
        (repeated(1, None, 3), {"dtype": "Int64"}, [1, np.nan, 3]),
        (repeated(1.5, None, 3), {"dtype": "Float64"}, [1.5, np.nan, 3]),
        (repeated(True, None, False), {"dtype": "boolean"}, [1, np.nan, 0]),
        (repeated(1, None, 3), {"dtype": "int64[pyarrow]"}, [1, np.nan, 3]),
        (repeated(True, None, False), {"dtype": object}, [1, np.nan, 0]),
        (repeated(np.True_, None, np.False_), {"dtype": object}, [1, np.nan, 0]),
        (repeated(Decimal("1.5"), None, Decimal(2)), {"dtype": object}, [1.5, np.nan, 2]),
        (repeated(Decimal("1.5"), Decimal("NaN"), Decimal(2)), {"dtype": object}, [1.5, np.nan, 2]),
        (repeated(np.float32(1.5), np.float32("nan"), 2), {"dtype": object}, [1.5, np.nan, 2]),
        (repeated("1", "", " 2.5 "), {}, [1, np.nan, 2.5]),
        (repeated("1e3", None, 2), {"dtype": object}, [1000, np.nan, 2]),
        (repeated(timedelta(hours=6), None, timedelta(2)), {"dtype": object}, [0.25, np.nan, 2]),
        (repeated(np.timedelta64(6, "h"), None, np.timedelta64(2, "D")), {"dtype": object}, [0.25, np.nan, 2]),
        (pd.to_timedelta(repeated("6h", None, "2D")), {}, [0.25, np.nan, 2]),
    ],
)
def test_missing_numbers_are_nan_and_have_an_indicator(values, kinds, numbers):
    kind, (read, gaps) = column(values, **kinds)
    assert kind.kind == "number"
    assert kind.treatment == "median for 10 missing values, and an indicator"
    np.testing.assert_array_equal(read[:3], numbers)
    np.testing.assert_array_equal(gaps, np.isnan(read))


def test_few_gaps_have_no_indicator():
    kind, values = column([*range(N), *[np.nan] * (MIN_GAPS - 1)])
    assert len(values) == 1
    assert kind.treatment == "median for 4 missing values"


def test_sparse_columns_are_numbers():
    kind, (values,) = column(pd.arrays.SparseArray(np.arange(N) % 3 * 1.0))
    assert kind.kind == "number"
    np.testing.assert_array_equal(values, np.arange(N) % 3)


@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
def test_infinity_is_refused_by_the_name_of_the_column(infinite):
    with pytest.raises(ValueError, match=r"Column 'c' of X contains infinity.*put NaN"):
        column([1.0, infinite])


@pytest.mark.parametrize("value", [10**400, Decimal("1e999")])
def test_numbers_beyond_all_floats_are_refused(value):
    with pytest.raises(ValueError, match="Column 'c' of X"):
        column([value, 1], dtype=object)


def test_huge_numbers_have_finite_differences():
    _, (values,) = column([1.7e308, -1.7e308, 1e300])
    assert values.tolist() == [LARGEST, -LARGEST, 1e300]
    assert np.isfinite(values[0] - values[1])


def test_integers_that_floats_cannot_tell_apart_are_constant():
    assert column(np.arange(N) + 2**60)[0].treatment == "dropped: constant"
    _, (values,) = column((np.arange(N) + 2**54) * 2**8)
    assert len(np.unique(values)) > N / 4


def test_subnormal_numbers_are_read():
    _, (values,) = column(np.arange(N) * 5e-324)
    assert len(np.unique(values)) == N


def test_complex_numbers_are_refused():
    with pytest.raises(ValueError, match=r"Complex data not supported: column 'c'"):
        column(np.arange(3) * 1j)


# --- categories ---


@pytest.mark.parametrize(
    ("values", "kinds", "levels"),
    [
        (repeated("a", None, "b"), {}, {"a", "b", MISSING}),
        (repeated("a", None, "b"), {"dtype": "string"}, {"a", "b", MISSING}),
        (repeated("a", None, "b"), {"dtype": object}, {"a", "b", MISSING}),
        (repeated("a", None, "b"), {"dtype": "category"}, {"a", "b", MISSING}),
        (repeated("a", "  ", "b"), {}, {"a", "b", MISSING}),
        (repeated(1, 2, 3), {"dtype": "category"}, {"1", "2", "3"}),
        (repeated(1, None, 3.5), {"dtype": "category"}, {"1", "3.5", MISSING}),
        (repeated(1, "a", None), {"dtype": object}, {"1", "a", MISSING}),
        (repeated(b"a", b"b"), {"dtype": object}, {"b'a'", "b'b'"}),
        (repeated(time(1, 2), None, time(3)), {"dtype": object}, {"01:02:00", "03:00:00", MISSING}),
        (repeated("1", "inf", "2"), {}, {"1", "inf", "2"}),
        (repeated("1", "two", "2"), {}, {"1", "two", "2"}),
    ],
)
def test_text_and_mixtures_are_levels_with_one_for_what_is_missing(values, kinds, levels):
    kind, (codes,) = column(values, **kinds)
    assert (kind.kind, kind.treatment) == ("category", f"{len(levels)} levels")
    assert set(kind.levels) == levels
    assert kind.counts == (N // len(levels),) * len(levels)
    np.testing.assert_array_equal(codes, np.tile(codes[: len(levels)], N // len(levels)))


def test_levels_are_ordered_by_their_rows_and_then_by_name():
    kind, (codes,) = column(["b", "c", "c", "a", "c", "a", "b"])
    assert (kind.levels, kind.counts) == (("c", "a", "b"), (3, 2, 2))
    assert codes.tolist() == [2, 0, 0, 1, 0, 1, 2]


def test_levels_that_are_new_or_missing_only_later_are_nan():
    schema = Schema.of(raw_columns(pd.DataFrame({"c": ["a", "b", "a"]})))
    (codes,) = schema.read(raw_columns(pd.DataFrame({"c": ["new", None, "b"]}))).values
    np.testing.assert_array_equal(codes, [np.nan, np.nan, 1])


def test_categories_of_integers_are_the_same_when_gaps_made_them_floats():
    schema = Schema.of(raw_columns(pd.DataFrame({"c": pd.Series([1, 2, 3, 1], dtype="category")})))
    (codes,) = schema.read(raw_columns(pd.DataFrame({"c": [1.0, np.nan, 3.0]}))).values
    np.testing.assert_array_equal(codes, [0, np.nan, 2])


def test_text_with_a_value_of_its_own_in_nearly_every_row_is_dropped():
    kind, values = column([f"id {i}" for i in range(N)])
    assert kind.treatment == "dropped: nearly every row has a value of its own"
    assert values == ()


def test_very_many_levels_are_read():
    kind, (codes,) = column(np.repeat([f"level {i}" for i in range(100_000)], 2))
    assert kind.treatment == "100000 levels"
    assert len(np.unique(codes)) == 100_000


@pytest.mark.parametrize("cell", [{"a": 1}, [1, 2], {1}, (1, 2), np.arange(2)])
def test_cells_with_parts_are_refused_by_the_name_of_the_column(cell):
    with pytest.raises(TypeError, match=r"Column 'c' of X holds \w+s\. .*a column of each of their parts"):
        column([cell, cell, cell], dtype=object)


@pytest.mark.parametrize("dtype", [pl.Struct({"a": pl.Int64}), pl.Array(pl.Int64, 2), pl.List(pl.Int64)])
def test_structs_and_arrays_of_polars_are_refused_by_the_name_of_the_column(dtype):
    cell = {"a": 1} if dtype == pl.Struct else [1, 2]
    with pytest.raises(TypeError, match=r"Column 'c' of X holds .*a column of each of their parts"):
        fitted(pl.DataFrame({"c": pl.Series([cell, cell], dtype=dtype)}))


# --- dates ---


def test_dates_become_days_day_of_year_hour_and_weekday():
    kind, values = column(pd.date_range("2019-12-30", periods=N, freq="7h"))
    parts = dict(zip(kind.parts, values, strict=True))
    stamps = pd.date_range("2019-12-30", periods=N, freq="7h")
    np.testing.assert_allclose(parts["day"], (stamps - pd.Timestamp(0)) / pd.Timedelta(days=1), rtol=1e-15)
    np.testing.assert_array_equal(parts["day of year"], stamps.day_of_year)
    np.testing.assert_array_equal(parts["hour"], stamps.hour)
    np.testing.assert_array_equal(np.array(kind.weekdays)[parts["weekday"].astype(int)], stamps.day_of_week)
    assert list(kind.weekday_counts) == sorted(kind.weekday_counts, reverse=True)


def test_weekdays_that_never_came_have_no_level():
    kind, _ = column(pd.to_datetime(repeated("2024-01-06", "2024-01-07", "2024-01-07")))  # a Saturday and Sundays
    assert (kind.weekdays, kind.weekday_counts) == ((6, 5), (20, 10))
    schema = Schema((kind,))
    monday = raw_columns(pd.DataFrame({"c": pd.to_datetime(["2024-01-06", "2024-01-08", None])}))
    codes = schema.read(monday).values[kind.parts.index("weekday")]
    np.testing.assert_array_equal(codes, [1, np.nan, np.nan])


def test_dates_that_are_missing_have_an_indicator():
    kind, values = column(pd.to_datetime(repeated("2024-01-01", None)))
    assert (kind.kind, kind.parts) == ("date", ("missing",))
    np.testing.assert_array_equal(values[0], np.arange(N) % 2)


def test_time_zones_are_those_of_the_moment():
    berlin = pd.date_range("2020-06-01", periods=N, freq="7h", tz="Europe/Berlin")
    for moments in (berlin, berlin.tz_convert("Asia/Tokyo"), list(berlin.to_pydatetime())):
        np.testing.assert_array_equal(column(moments)[1], column(berlin.tz_convert("UTC").tz_localize(None))[1])


@pytest.mark.parametrize(
    "moments",
    [
        [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)],
        [datetime(1, 1, 1, tzinfo=EAST), datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=5)))],
        [date(1, 1, 1), date(9999, 12, 31)],
        np.array(["0001-01-01", "9999-12-31"], dtype="datetime64[s]"),
        np.array(["-290000-01-01", "290000-12-31"], dtype="datetime64[s]"),
    ],
)
def test_dates_far_away_are_read(moments):
    kind, values = column(moments, dtype=None if isinstance(moments, np.ndarray) else object)
    assert kind.kind == "date"
    assert np.isfinite(values).all()
    assert np.diff(values[0])[0] > 3_000_000


def test_parts_of_dates_before_the_epoch():
    moment = datetime(1969, 7, 20, 20, 17, 40)
    parts = date_parts(np.array([moment, "NaT"], dtype="datetime64[s]"))
    assert parts["day"][0] == (moment.replace(tzinfo=UTC).timestamp() / 86400)
    assert (parts["weekday"][0], parts["day of year"][0]) == (moment.weekday(), moment.timetuple().tm_yday)
    assert parts["hour"][0] == pytest.approx(20 + 17 / 60 + 40 / 3600)
    assert all(np.isnan(values[1]) for part, values in parts.items() if part != "missing")


def test_periods_are_the_dates_at_their_beginning():
    periods = pd.period_range("2020-01", periods=N, freq="M")
    np.testing.assert_array_equal(column(periods)[1], column(periods.to_timestamp())[1])


# --- what has no use ---


@pytest.mark.parametrize("values", [[7] * N, ["a"] * N, [None] * N, [np.nan] * N, [pd.Timestamp(2020, 1, 1)] * N])
def test_columns_that_do_not_vary_are_dropped(values):
    assert column(values)[0].treatment == "dropped: constant"


def test_columns_that_repeat_others_are_dropped_even_under_the_same_name():
    table = pd.DataFrame([[1, 2, 1, "x"], [3, 2, 3, "y"], [4, 5, 4, "x"]], columns=["a", "a", "a", "b"])
    treatments = [kind.treatment for kind in Schema.of(raw_columns(table)).columns]
    assert treatments == ["as it is", "as it is", "dropped: the same as a", "2 levels"]


def test_a_category_is_not_the_same_as_the_numbers_of_its_levels():
    schema = Schema.of(raw_columns(pd.DataFrame({"n": [0, 0, 0, 1, 1, 2], "c": list("aaabbc")})))
    assert [kind.kind for kind in schema.columns] == ["number", "category"]
    assert "dropped" not in schema.columns[1].treatment


# --- other types in new rows ---

TABLE = pd.DataFrame({"n": np.arange(N), "t": repeated("a", "b"), "d": pd.date_range("2020", periods=N)})


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("n", "text", "Column 'n' of X holds numbers, but also 'text'"),
        ("n", pd.Timestamp(2020, 1, 1), "Column 'n' of X held numbers in the training, and now holds dates"),
        ("n", np.inf, "Column 'n' of X contains infinity"),
        ("d", 1.5, "Column 'd' of X holds dates, but also 1.5"),
        ("d", "1.5.2020", "Column 'd' of X holds dates, but also '1.5.2020'"),
    ],
)
def test_columns_of_another_kind_in_new_rows_are_refused_by_name(name, values, message):
    schema = Schema.of(raw_columns(TABLE))
    with pytest.raises(ValueError, match=message):
        schema.read(raw_columns(TABLE.assign(**{name: values})))


def test_new_rows_may_miss_everything():
    schema = Schema.of(raw_columns(TABLE))
    values = schema.read(raw_columns(pd.DataFrame({"n": [None], "t": [None], "d": [None]}))).values
    assert np.isnan(values).all()


def test_numbers_may_come_as_text():
    schema = Schema.of(raw_columns(TABLE))
    np.testing.assert_array_equal(
        schema.read(raw_columns(TABLE.assign(n=TABLE["n"].astype(str)))).values[0], TABLE["n"]
    )


# --- all kinds of tables ---

CELLS = {
    "integer": repeated(1, None, 3),
    "number": repeated(1.5, 2.5, None),
    "bool": repeated(True, None, False),
    "text": repeated("a", None, "b"),
    "date": repeated(date(2020, 1, 1), None, date(2021, 5, 1)),
    "moment": repeated(datetime(2020, 1, 1), None, datetime(2021, 1, 1, 3)),
    "time": repeated(time(1), time(2), None),
    "span": repeated(timedelta(1), None, timedelta(hours=3)),
    "decimal": repeated(Decimal("1.5"), None, Decimal(2)),
    "bytes": repeated(b"a", b"b"),
    "nothing": repeated(None),
}


def tables():
    """The same cells in all kinds of tables."""
    objects = np.array([[cells[i] for cells in CELLS.values()] for i in range(N)], dtype=object)
    yield pd.DataFrame(CELLS)
    yield pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in CELLS.items()})
    yield pl.DataFrame(CELLS)
    yield pa.table(CELLS)
    yield pa.RecordBatch.from_pydict(CELLS)
    yield pa.concat_tables([pa.table(CELLS).slice(0, 7), pa.table(CELLS).slice(7)])
    yield objects
    yield objects.tolist()


def test_the_same_cells_are_read_alike_from_all_kinds_of_tables():
    first, *others = [fitted_all(table) for table in tables()]
    assert sum("dropped" in treatment for _, treatment in first[0]) == 1
    for kinds, values in others:
        assert kinds == first[0]
        np.testing.assert_array_equal(values, first[1])


def fitted_all(table):
    raws = raw_columns(table)
    schema = Schema.of(raws)
    return [(kind.kind, kind.treatment) for kind in schema.columns], schema.read(raws).values


def test_what_one_kind_of_table_taught_reads_another():
    every = list(tables())
    schema = Schema.of(raw_columns(every[0]))
    expected = schema.read(raw_columns(every[0])).values
    for table in every[1:]:
        np.testing.assert_array_equal(schema.read(raw_columns(table)).values, expected)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"c": pd.Series(repeated("a", "b", None), dtype="category")}),
        pl.DataFrame({"c": pl.Series(repeated("a", "b", None), dtype=pl.Categorical)}),
        pl.DataFrame({"c": pl.Series(repeated("a", "b", None), dtype=pl.Enum(["a", "b"]))}),
        pa.table({"c": pa.array(repeated("a", "b", None)).dictionary_encode()}),
    ],
)
def test_categories_of_all_tables_keep_what_is_missing(table):
    kind, (codes,) = fitted(table)
    assert set(kind.levels) == {"a", "b", MISSING}
    assert [kind.levels[int(code)] for code in codes[:3]] == ["a", "b", MISSING]


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"c": pd.Series(repeated(1, 2, 3), dtype="category")}),
        pa.table({"c": pa.array(repeated(1, 2, 3)).dictionary_encode()}),
    ],
)
def test_categories_of_numbers_are_categories(table):
    assert fitted(table)[0].kind == "category"


def test_columns_of_the_same_name_are_told_apart():
    for table in (
        pd.DataFrame([[1, 2], [3, 5]], columns=["a", "a"]),
        pa.table([pa.array([1, 3]), pa.array([2, 5])], names=["a", "a"]),
    ):
        raws = raw_columns(table)
        assert [raw.name for raw in raws] == ["a", "a"]
        np.testing.assert_array_equal(Schema.of(raws).read(raws).values, [[1, 3], [2, 5]])


@pytest.mark.parametrize(
    "value", [None, np.nan, np.float32("nan"), pd.NA, pd.NaT, "", " ", np.datetime64("NaT"), Decimal("NaN")]
)
def test_what_is_missing(value):
    assert is_missing(value)


@pytest.mark.parametrize("value", [0, 0.0, False, "nan", np.datetime64("2020"), Decimal(0), b"", date(1, 1, 1)])
def test_what_is_not_missing(value):
    assert not is_missing(value)


def test_iso_dates_as_text_are_dates():
    texts = np.array(["2024-05-31", "2023-01-01", None, "2024-05-31T12:00"], dtype=object)[:, None]
    moments = np.array(["2024-05-31", "2023-01-01", "NaT", "2024-05-31T12:00"], dtype="datetime64[s]")[:, None]
    columns, same = raw_columns(texts), raw_columns(moments)
    schema = Schema.of(columns)
    assert schema.columns[0].kind == "date"
    for own, other in zip(schema.read(columns).values, Schema.of(same).read(same).values, strict=True):
        np.testing.assert_array_equal(own, other)


def test_a_slip_among_numbers_is_found():
    texts = np.array(["1.5", "2", "oops", None, "7"], dtype=object)[:, None]
    assert slip_of(raw_columns(texts)[0]) == "oops"
    assert slip_of(raw_columns(np.array([["a"], ["b"], ["1"]], dtype=object))[0]) is None
    assert slip_of(raw_columns(np.ones((3, 1)))[0]) is None


def test_copies_of_rows_are_told_from_rows_that_look_alike():
    rng = np.random.default_rng(0)
    once = rng.normal(size=(100, 2))
    once[3, 1] = np.nan
    columns = raw_columns(np.tile(once, (2, 1)))
    groups = Schema.of(columns).read(columns).copies()
    np.testing.assert_array_equal(groups[:100], groups[100:])
    assert len(np.unique(groups)) == 100
    far_apart = np.column_stack([once[:, 0], np.where(once[:, 1] > 0.0, 1e18, 2e18), rng.integers(5, size=100)])
    columns = raw_columns(far_apart)  # sums of such numbers lose the small ones
    assert Schema.of(columns).read(columns).copies() is None
    few = raw_columns(rng.integers(3, size=(200, 2)).astype(float))
    assert Schema.of(few).read(few).copies() is None
    different = raw_columns(once)
    assert Schema.of(different).read(different).copies() is None
