"""Every kind of column of every kind of table gets its type, or an error that names the column."""

import io
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dconnet.encoding.columns import MISSING, find_invalid_row, is_missing, read_columns, read_target
from dconnet.encoding.schema import Schema, split_dates

N = 30
EAST = timezone(timedelta(hours=5))


def column(values, **kinds):
    """Return the fitted column of a DataFrame of one column, and the values of its fields."""
    schema, values = fit(pd.DataFrame({"c": pd.Series(values, **kinds)}))
    return schema.columns[0], values


def fit(table):
    raws = read_columns(table)
    schema = Schema.fit(raws)
    return schema, schema.read(raws).values


def repeat(*values):
    return list(values) * (N // len(values))


# --- numbers ---


@pytest.mark.parametrize("dtype", ["i1", "i8", "u1", "u8", "f2", "f8", "Sparse[float]"])
def test_numbers_of_all_dtypes(dtype):
    kind, (values,) = column(pd.Series(np.arange(N)).astype(dtype))
    assert (kind.kind, kind.treatment) == ("number", "as it is")
    np.testing.assert_array_equal(values, np.arange(N))


@pytest.mark.parametrize(
    ("values", "kinds", "numbers"),
    [
        (repeat(1, None, 3), {"dtype": "Int64"}, [1, np.nan, 3]),
        (repeat(1.5, None, 3), {"dtype": "Float64"}, [1.5, np.nan, 3]),
        (repeat(True, None, False), {"dtype": "boolean"}, [1, np.nan, 0]),
        (repeat(1, None, 3), {"dtype": "int64[pyarrow]"}, [1, np.nan, 3]),
        (repeat(np.True_, None, False), {"dtype": object}, [1, np.nan, 0]),
        (repeat(Decimal("1.5"), Decimal("NaN"), Decimal(2)), {"dtype": object}, [1.5, np.nan, 2]),
        (repeat(np.float32(1.5), np.float32("nan"), 2), {"dtype": object}, [1.5, np.nan, 2]),
        (repeat(timedelta(hours=6), None, np.timedelta64(2, "D")), {"dtype": object}, [0.25, np.nan, 2]),
        (pd.to_timedelta(repeat("6h", None, "2D")), {}, [0.25, np.nan, 2]),
        (repeat("1", "", " 2.5 "), {}, [1, np.nan, 2.5]),
        (repeat("1e3", None, 2), {"dtype": object}, [1000, np.nan, 2]),
        (repeat("0.5", "NA", "-0"), {}, [0.5, np.nan, 0]),
        (repeat("1", "?", "+2."), {}, [1, np.nan, 2]),
        (repeat("True", None, "FALSE"), {}, [1, np.nan, 0]),
    ],
)
def test_missing_numbers_are_nan_and_have_an_indicator(values, kinds, numbers):
    kind, (read, gaps) = column(values, **kinds)
    assert (kind.kind, kind.treatment) == ("number", "median for 10 missing values, and an indicator")
    np.testing.assert_array_equal(read[:3], numbers)
    np.testing.assert_array_equal(gaps, np.isnan(read))


@pytest.mark.parametrize("value", [np.inf, -np.inf, "inf", "-1e999", 10**400, Decimal("1e999"), 1j])
def test_values_without_a_finite_float_are_refused_by_name(value):
    with pytest.raises(ValueError, match=r"olumn 'c' of X"):
        column([value, 1], dtype=None if isinstance(value, (float, complex)) else object)


@pytest.mark.parametrize(
    ("cells", "numbers", "treatment"),
    [
        (["12.3%", "4 %", "-1%"], [12.3, 4, -1], "without %"),
        (["12.345%", "4%", "-1.000%"], [12.345, 4, -1], "without %"),
        (["12,345%", "4%", "-1,000%"], [12.345, 4, -1], "without %, decimal comma"),
        (["$1,200", "-$5", "$1,234,567.5"], [1200, -5, 1234567.5], "without $"),
        (["$ 3", "4", "$ 0.5"], [3, 4, 0.5], "without $"),
        (["€ 1.200,50", "€ 3", "€ ,5"], [1200.5, 3, 0.5], "without €, decimal comma"),
        (["5 EUR", "1 200,5 EUR", "0 EUR"], [5, 1200.5, 0], "without EUR, decimal comma"),
        (["1,5", "1.234,5", "-2"], [1.5, 1234.5, -2], "decimal comma"),
        (["1,234,567", "12", "3.5"], [1234567, 12, 3.5], "as it is"),
        (["1'200.5", "1\u00a0200", "2"], [1200.5, 1200, 2], "as it is"),
        (["1,200", "3", "45,000"], [1200, 3, 45000], "comma between thousands (assumed)"),
        (["$1.200", "$3", "$4.500"], [1.2, 3, 4.5], "without $, comma between thousands (assumed)"),
        (["0,123", "1,200", "3"], [0.123, 1.2, 3], "decimal comma"),
    ],
)
def test_numbers_with_marks_are_read(cells, numbers, treatment):
    kind, (values,) = column(repeat(*cells))
    assert (kind.kind, kind.treatment) == ("number", treatment)
    np.testing.assert_array_equal(values[:3], numbers)
    one_by_one = [kind.read(read_columns(pd.DataFrame({"c": [cell]}))[0])[0].item() for cell in cells]
    assert one_by_one == numbers


@pytest.mark.parametrize(
    ("cells", "row"),
    [
        (["12%", "3", "4%"], 1),  # 3 may be 300 %
        (["$3", "$4", "€5"], 2),
        (["1,5", "2.5", "2,5"], 1),
        (["1,2,3", "1,3,4", "2,2,2"], None),
        (["$01", "$02", "$03"], None),
        (["+-3%", "-+4%", "5"], None),
        (["$3$", "$4$", "$5$"], None),
    ],
)
def test_marked_numbers_that_do_not_fit_together_are_text(cells, row):
    raw = read_columns(pd.DataFrame({"c": repeat(*cells)}))[0]
    assert Schema.fit([raw]).columns[0].kind == "category"
    assert find_invalid_row(raw) == row


@pytest.mark.parametrize(
    ("trained", "new"),
    [("12%", 12.0), ("12%", "12"), ("12", "12%"), ("$5", "€5"), ("1,5", "2.5"), ("1,234,567", "1,5"), ("560", "1,200")],
)
def test_new_numbers_in_another_format_are_refused(trained, new):
    schema, _ = fit(pd.DataFrame({"c": [trained, trained.replace("5", "7").replace("2", "3")] * 5}))
    with pytest.raises(ValueError, match=r"Column 'c' of X (held|holds) "):
        schema.read(read_columns(pd.DataFrame({"c": [new]})))


@pytest.mark.parametrize("first", [2**60, 10**20, -(10**20)])
@pytest.mark.parametrize("form", [int, str])
def test_whole_numbers_that_floats_cannot_tell_apart_are_categories(first, form):
    ids = [form(first + i) for i in range(3)]
    kind, (codes,) = column(repeat(*ids))
    assert set(kind.levels) == set(map(str, ids))
    assert len(np.unique(codes)) == 3
    assert column([form(first + i) for i in range(N)])[0].treatment.startswith("dropped: nearly every row")


# --- categories ---


@pytest.mark.parametrize(
    ("values", "kinds", "levels"),
    [
        (repeat("a", None, "b"), {}, {"a", "b", MISSING}),
        (repeat("a", None, "b"), {"dtype": "string"}, {"a", "b", MISSING}),
        (repeat("a", "  ", "b"), {"dtype": "category"}, {"a", "b", MISSING}),
        (repeat("a", "NA", "b"), {}, {"a", "NA", "b"}),
        (repeat("NA", "?"), {}, {"NA", "?"}),
        (repeat(1, None, 3.5), {"dtype": "category"}, {"1", "3.5", MISSING}),
        (repeat(1, "a", None), {"dtype": object}, {"1", "a", MISSING}),
        (repeat(b"a", b"b"), {"dtype": object}, {"b'a'", "b'b'"}),
        (repeat(time(1, 2), None, time(3)), {"dtype": object}, {"01:02:00", "03:00:00", MISSING}),
        (repeat("1", "two", "2"), {}, {"1", "two", "2"}),
    ],
)
def test_text_and_mixtures_are_levels(values, kinds, levels):
    kind, (codes,) = column(values, **kinds)
    assert (kind.kind, kind.treatment) == ("category", f"{len(levels)} levels")
    assert set(kind.levels) == levels
    assert kind.counts == (N // len(levels),) * len(levels)
    np.testing.assert_array_equal(codes, np.tile(codes[: len(levels)], N // len(levels)))


@pytest.mark.parametrize("codes", [["01", "1", "001"], ["1_0", "10", "2"], ["+07", "7", "8"]])
def test_codes_stay_text(codes):
    kind, _ = column(repeat(*codes))
    assert set(kind.levels) == set(codes)
    assert find_invalid_row(read_columns(pd.DataFrame({"c": ["01", "2", "3"]}))[0]) is None


def test_unknown_and_newly_missing_levels_are_nan():
    schema, _ = fit(pd.DataFrame({"c": pd.Series([1, 2, 3, 1], dtype="category")}))
    (codes,) = schema.read(read_columns(pd.DataFrame({"c": [1.0, np.nan, 3.0, 7.0]}))).values
    np.testing.assert_array_equal(codes, [0, np.nan, 2, np.nan])


def test_nested_cells_are_refused_by_name():
    tables = [pd.DataFrame({"c": pd.Series([cell] * 3, dtype=object)}) for cell in ({"a": 1}, [1], {1}, np.arange(2))]
    tables += [
        pl.DataFrame({"c": [{"a": 1}] * 2}),
        pl.DataFrame({"c": pl.Series([[1, 2]], dtype=pl.Array(pl.Int64, 2))}),
    ]
    for table in tables:
        with pytest.raises(TypeError, match=r"Column 'c' of X holds \w+"):
            fit(table)


# --- dates ---


def test_dates_become_day_day_of_year_hour_and_weekday():
    stamps = pd.date_range("2019-12-30", periods=N, freq="7h")
    kind, values = column(stamps)
    parts = dict(zip(kind.parts, values, strict=True))
    np.testing.assert_allclose(parts["day"], (stamps - pd.Timestamp(0)) / pd.Timedelta(days=1), rtol=1e-15)
    np.testing.assert_array_equal(parts["day of year"], stamps.day_of_year)
    np.testing.assert_array_equal(parts["hour"], stamps.hour)
    np.testing.assert_array_equal(np.array(kind.weekdays)[parts["weekday"].astype(int)], stamps.day_of_week)
    assert list(kind.weekday_counts) == sorted(kind.weekday_counts, reverse=True)


def test_weekdays_outside_the_training_have_no_level():
    kind, _ = column(pd.to_datetime(repeat("2024-01-06", "2024-01-07", "2024-01-07")))  # a Saturday and Sundays
    assert (kind.weekdays, kind.weekday_counts) == ((6, 5), (20, 10))
    monday = read_columns(pd.DataFrame({"c": pd.to_datetime(["2024-01-06", "2024-01-08", None])}))
    codes = Schema((kind,)).read(monday).values[kind.parts.index("weekday")]
    np.testing.assert_array_equal(codes, [1, np.nan, np.nan])


def test_missing_dates_have_an_indicator():
    kind, values = column(pd.to_datetime(repeat("2024-01-01", None)))
    assert (kind.kind, kind.parts) == ("date", ("missing",))
    np.testing.assert_array_equal(values[0], np.arange(N) % 2)


def zoned_tables():
    """Return times with a time zone in all kinds of tables."""
    berlin = pd.date_range("2020-06-01", periods=N, freq="7h", tz="Europe/Berlin")
    moments = list(berlin.to_pydatetime())
    return [
        pd.DataFrame({"c": berlin}),
        pd.DataFrame({"c": berlin.astype("timestamp[us, tz=Europe/Berlin][pyarrow]")}),
        pd.DataFrame({"c": pd.Series(moments, dtype=object)}),
        pd.DataFrame({"c": [moment.isoformat() for moment in moments]}),
        pl.DataFrame(
            {"c": pl.Series([moment.astimezone(UTC) for moment in moments]).dt.convert_time_zone("Europe/Berlin")}
        ),
        pa.table({"c": pa.array(moments, pa.timestamp("us", "Europe/Berlin"))}),
    ]


def test_times_with_a_zone_are_converted_to_utc_in_all_kinds_of_tables():
    first, *others = zoned_tables()
    expected = column(first["c"].dt.tz_convert("UTC").dt.tz_localize(None))[1]
    for table in (first, *others):
        schema, values = fit(table)
        assert schema.columns[0].treatment.endswith("in UTC")
        np.testing.assert_array_equal(values, expected)


def test_time_zones_in_the_training_alone_or_in_new_rows_alone_are_refused():
    zoned = zoned_tables()
    naive = pd.DataFrame({"c": pd.date_range("2020-06-01", periods=N, freq="7h")})
    plain = [naive, naive.astype(str), naive.astype(object), pl.DataFrame(naive), naive.assign(c=naive["c"].dt.date)]
    for trained, others, message in (
        (zoned[0], plain, "Column 'c' of X held times with a time zone.* Add"),
        (naive, zoned, "Column 'c' of X held times without a time zone.* Remove"),
    ):
        schema, _ = fit(trained)
        assert np.isnan(schema.read(read_columns(pd.DataFrame({"c": [None]}))).values[0]).all()
        for table in others:
            with pytest.raises(ValueError, match=message):
                schema.read(read_columns(table))
    for cells in (["2024-01-01", "2024-01-01T00:00Z"], [datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=EAST)]):
        with pytest.raises(ValueError, match="Column 'c' of X mixes times"):
            column(cells, dtype=object)


@pytest.mark.parametrize(
    ("cells", "order", "days"),
    [
        (["03/14/2024", "04/01/2024"], "month first", [date(2024, 3, 14), date(2024, 4, 1)]),
        (["14/03/2024", "1/4/2024"], "day first", [date(2024, 3, 14), date(2024, 4, 1)]),
        (["14.03.2024", "2024-04-01"], "day first", [date(2024, 3, 14), date(2024, 4, 1)]),
        (["2024/03/14", "2024/4/1"], "year first", [date(2024, 3, 14), date(2024, 4, 1)]),
        (["03/04/2024", "05/06/2024"], "month first (assumed)", [date(2024, 3, 4), date(2024, 5, 6)]),
        (["03.04.2024", "05.06.2024"], "day first (assumed)", [date(2024, 4, 3), date(2024, 6, 5)]),
        (["03/03/2024", "05/05/2024"], "month first", [date(2024, 3, 3), date(2024, 5, 5)]),
    ],
)
def test_written_dates_are_read_in_the_order_that_fits(cells, order, days):
    kind, values = column(repeat(*cells))
    assert (kind.kind, kind.treatment.split(", ")[-1]) == ("date", order)
    np.testing.assert_array_equal(values[0][:2], [(day - date(1970, 1, 1)).days for day in days])


def test_written_times_and_dates_of_another_order():
    kind, values = column(repeat("03/14/2024 9:30 pm", "03/15/2024 12:05:30 AM"))
    np.testing.assert_allclose(values[kind.parts.index("hour")][:2], [21.5, 5.5 / 60.0])
    with pytest.raises(ValueError, match="holds dates with the month first, but also '25/12/2024'"):
        kind.read(read_columns(pd.DataFrame({"c": ["25/12/2024"]}))[0])
    for cells in (["14/03/24", "15/03/24"], ["03/14/2024", "14/03/2024"], ["31/02/2024", "1/3/2024"]):
        assert column(repeat(*cells))[0].kind == "category"


@pytest.mark.parametrize(
    "dates",
    [
        [datetime(1, 1, 1, tzinfo=EAST), datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=5)))],
        [date(1, 1, 1), date(9999, 12, 31)],
        np.array(["-290000-01-01", "290000-12-31"], dtype="datetime64[s]"),
    ],
)
def test_distant_dates(dates):
    kind, values = column(dates, dtype=None if isinstance(dates, np.ndarray) else object)
    assert kind.kind == "date"
    assert np.isfinite(values).all()
    assert np.diff(values[0])[0] > 3_000_000


def test_dates_before_1970():
    moment = datetime(1969, 7, 20, 20, 17, 40)
    parts = split_dates(np.array([moment, "NaT"], dtype="datetime64[s]"))
    assert parts["day"][0] == (moment.replace(tzinfo=UTC).timestamp() / 86400)
    assert (parts["weekday"][0], parts["day of year"][0]) == (moment.weekday(), moment.timetuple().tm_yday)
    assert parts["hour"][0] == pytest.approx(20 + 17 / 60 + 40 / 3600)
    assert all(np.isnan(values[1]) for part, values in parts.items() if part != "missing")


# --- columns without information ---


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        *((value, "constant") for value in (7, "a", "?", pd.Timestamp(2020, 1, 1))),
        *((value, "all values are missing") for value in (None, "", np.nan)),
    ],
)
def test_constant_and_empty_columns_are_dropped(value, reason):
    assert column([value] * N)[0].treatment == f"dropped: {reason}"


def test_copies_and_unique_text_are_dropped():
    table = pd.DataFrame([[1, 2, 1, "x"], [3, 2, 3, "y"], [4, 5, 4, "x"]], columns=["a", "a", "a", "b"])
    treatments = [kind.treatment for kind in fit(table)[0].columns]
    assert treatments == ["as it is", "as it is", "dropped: the same as a", "2 levels"]
    kind, values = column([f"id {i}" for i in range(N)])
    assert kind.treatment == "dropped: nearly every row has a value of its own"
    assert values == ()
    schema, _ = fit(pd.DataFrame({"n": [0, 0, 0, 1, 1, 2], "c": list("aaabbc")}))
    assert [kind.treatment for kind in schema.columns] == ["as it is", "3 levels"]  # equal codes, other meaning


# --- new rows ---

TABLE = pd.DataFrame({"n": np.arange(N), "t": repeat("a", "b"), "d": pd.date_range("2020", periods=N)})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n", "text", "Column 'n' of X holds numbers, but also 'text'"),
        ("n", "1_0", "Column 'n' of X holds numbers, but also '1_0'"),
        ("n", pd.Timestamp(2020, 1, 1), "Column 'n' of X held numbers in the training and holds dates"),
        ("n", np.inf, "Column 'n' of X contains infinity.* in row 1"),
        ("d", 1.5, "Column 'd' of X holds dates, but also 1.5"),
        ("d", "1.5.2020", "Column 'd' of X holds dates, but also '1.5.2020'"),
    ],
)
def test_cells_of_another_type_in_new_rows_are_refused(name, value, message):
    schema, _ = fit(TABLE)
    with pytest.raises(ValueError, match=message):
        schema.read(read_columns(TABLE.assign(**{name: value})))


def test_new_rows_may_be_missing_or_text():
    schema, expected = fit(TABLE)
    for nothing in (None, "NA"):
        values = schema.read(read_columns(pd.DataFrame({"n": [nothing], "t": [None], "d": [nothing]}))).values
        assert np.isnan(values).all()
    np.testing.assert_array_equal(schema.read(read_columns(TABLE.astype(str))).values, expected)


# --- all kinds of tables ---

CELLS = {
    "integer": repeat(1, None, 3),
    "number": repeat(1.5, 2.5, None),
    "bool": repeat(True, None, False),
    "text": repeat("a", None, "b"),
    "date": repeat(date(2020, 1, 1), None, date(2021, 5, 1)),
    "moment": repeat(datetime(2020, 1, 1), None, datetime(2021, 1, 1, 3)),
    "time": repeat(time(1), time(2), None),
    "span": repeat(timedelta(1), None, timedelta(hours=3)),
    "decimal": repeat(Decimal("1.5"), None, Decimal(2)),
    "bytes": repeat(b"a", b"b"),
    "nothing": repeat(None),
}


def tables():
    """Return the same cells in all kinds of tables."""
    objects = np.array([[cells[i] for cells in CELLS.values()] for i in range(N)], dtype=object)
    return [
        pd.DataFrame(CELLS),
        pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in CELLS.items()}),
        pl.DataFrame(CELLS),
        pa.table(CELLS),
        pa.RecordBatch.from_pydict(CELLS),
        pa.concat_tables([pa.table(CELLS).slice(0, 7), pa.table(CELLS).slice(7)]),
        objects,
        objects.tolist(),
    ]


def test_equal_cells_give_equal_fields_in_all_kinds_of_tables():
    first, *others = tables()
    schema, expected = fit(first)
    assert [kind.kind for kind in schema.columns].count("number") == 6
    for table in others:
        own, values = fit(table)
        assert [kind.treatment for kind in own.columns] == [kind.treatment for kind in schema.columns]
        np.testing.assert_array_equal(values, expected)
        np.testing.assert_array_equal(schema.read(read_columns(table)).values, expected)


def test_csv_text_gives_the_fields_of_the_typed_table():
    cells = {name: CELLS[name] for name in ("integer", "number", "bool", "text", "date", "moment", "decimal")}
    typed = pd.DataFrame(cells)
    text = pd.read_csv(io.StringIO(typed.to_csv(index=False)), dtype=str, keep_default_na=False)
    (schema, expected), (own, values) = fit(typed), fit(text)
    assert own.columns == schema.columns
    np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"c": pd.Series(repeat("1", "2", None), dtype="category")}),
        pl.DataFrame({"c": pl.Series(repeat("1", "2", None), dtype=pl.Categorical)}),
        pl.DataFrame({"c": pl.Series(repeat("1", "2", None), dtype=pl.Enum(["1", "2"]))}),
        pa.table({"c": pa.array(repeat(1, 2, None)).dictionary_encode()}),
    ],
)
def test_declared_categories_keep_missing_values(table):
    schema, (codes,) = fit(table)
    assert [schema.columns[0].levels[int(code)] for code in codes[:3]] == ["1", "2", MISSING]


def test_missing_values():
    decimals = Decimal("NaN"), Decimal("sNaN")
    for value in (None, np.nan, np.float32("nan"), pd.NA, pd.NaT, "", " ", np.datetime64("NaT"), *decimals):
        assert is_missing(value)
    for value in (0, 0.0, False, "nan", np.datetime64("2020"), Decimal(0), b"", date(1, 1, 1)):
        assert not is_missing(value)


@pytest.mark.parametrize(
    ("cells", "row"),
    [
        (["1.5", "2", "oops", None, "7"], 2),
        (["1,5", "2,5", "3", "?", "x"], 4),
        (["$1,234.50", "$2", "€3"], 2),
        (["14/03/2024", "15/03/2024", "soon"], 2),
        (["1.2.3", "1.2.4", "10-20"], None),
        (["2024-01-01", "NA", "2024-02-30", "2024-03-01"], 2),
        (["a", "b", "1"], None),
        (["1", "NA", "2"], None),
    ],
)
def test_cells_that_make_text_of_numbers_or_dates_are_found(cells, row):
    assert find_invalid_row(read_columns(np.array(cells, dtype=object)[:, None])[0]) == row


def test_duplicate_rows_form_groups():
    rng = np.random.default_rng(0)
    once = rng.normal(size=(100, 2))
    once[3, 1] = np.nan

    def groups(table):
        raws = read_columns(table)
        return Schema.fit(raws).read(raws).duplicate_groups()

    twice = groups(np.tile(once, (2, 1)))
    np.testing.assert_array_equal(twice[:100], twice[100:])
    assert len(np.unique(twice)) == 100
    # Sums of numbers so far apart would lose the small ones.
    far_apart = np.column_stack([once[:, 0], np.where(once[:, 1] > 0.0, 1e18, 2e18), rng.integers(5, size=100)])
    for table in (once, far_apart, rng.integers(3, size=(200, 2)).astype(float)):
        assert groups(table) is None


# --- targets ---


@pytest.mark.parametrize(
    ("cells", "task", "expected"),
    [
        (["1.5", "2", "-1e3"], None, np.array([1.5, 2.0, -1000.0])),
        (["$1,250.50", "$2"], None, np.array([1250.5, 2.0])),
        (["12%", "7%"], "classification", np.array(["12%", "7%"])),
        (["0", "1", "1"], None, np.array([0, 1, 1])),
        ([1.0, 0.0], None, np.array([1, 0])),
        ([0, 1], "regression", np.array([0.0, 1.0])),
        ([0.5, 1], None, np.array([0.5, 1.0])),
        ([7, 7], None, np.array([7.0, 7.0])),
        ([1, 2, 3], None, np.array([1.0, 2.0, 3.0])),
        (["1", "2", "1.0"], "classification", np.array([1, 2, 1])),
        ([1.0, 2.0], "classification", np.array([1, 2])),
        (["1.5", "2"], "classification", np.array(["1.5", "2"])),
        (["01", "1", "001"], None, np.array(["01", "1", "001"])),
        (["1_0", "10"], "classification", np.array(["1_0", "10"])),
        (["9007199254740993", "1"], "classification", np.array(["9007199254740993", "1"])),
        (["yes", "no"], None, np.array(["yes", "no"])),
        ([True, False], None, np.array(["True", "False"])),
        (["1", "2", "NA"], "classification", np.array(["1", "2", "NA"])),
    ],
)
def test_targets(cells, task, expected):
    found = read_target(np.array(cells, dtype=object), "y", task)
    assert found.dtype.kind == expected.dtype.kind
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("cells", "task", "message"),
    [
        (["1", None, "3"], None, "Target 'y', row 2: the value is missing"),
        (["a", "", "b"], "classification", "Target 'y', row 2: the value is missing"),
        (["1", "2", "x"], None, "row 3: 'x' is not a number.*classification"),
        (["1", "2", "NA"], None, "row 3: 'NA' is not a number"),
        (["1,5", "2,5", "3.5"], None, "row 3: '3.5' is not a number"),
        (["a", "b", "c"], "regression", "row 1: 'a' is not a number.*--task classification"),
        (["1", "inf"], "regression", "row 2: 'inf' is not a finite number"),
    ],
)
def test_invalid_targets_are_named_by_row(cells, task, message):
    with pytest.raises(ValueError, match=message):
        read_target(cells, "y", task)
