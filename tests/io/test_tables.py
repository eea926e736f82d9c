"""Reading, checking and writing tables."""

import builtins
import datetime
import decimal
import io
import os
import re
import stat
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from dconnet.io import tables
from dconnet.io.files import written_whole
from dconnet.io.tables import Table, read_table, write_csv


@pytest.fixture
def csv_file(tmp_path):
    def write(content):
        path = tmp_path / "data.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return write


def refusal(function, *arguments, **options):
    """The message of the ValueError that the call must raise."""
    with pytest.raises(ValueError, match=r".") as caught:
        function(*arguments, **options)
    return str(caught.value)


class TestCsv:
    @pytest.mark.parametrize(
        "content",
        [
            "a,b\n1,2.5\n-3e2,4\n",
            "a;b\n1;2.5\n-3e2;4\n",
            "a\tb\n1\t2.5\n-3e2\t4\n",
            "\ufeffa,b\r\n1,2.5\r\n-3e2,4\r\n",
            '"a","b"\n"1","2.5"\n"-3e2","4"\n',
            '"a", "b"\n1, 2.5\n-3e2, "4"\n',
            " a , b \n 1 , 2.5 \n -3e2 , 4 \n",
            "a,b\n\n1,2.5\n\n\n-3e2,4\n\n",
            "a,b\n1,2.5\n-3e2,4",
        ],
        ids=["comma", "semicolon", "tab", "BOM-CRLF", "quoted", "spaced-quotes", "spaces", "blank", "no-end"],
    )
    def test_reads_what_is_written_in_many_ways(self, csv_file, content):
        table = read_table(csv_file(content))
        assert table.names == ("a", "b")
        np.testing.assert_array_equal(table.numeric(["a", "b"]), [[1.0, 2.5], [-300.0, 4.0]])

    def test_columns_are_taken_in_the_order_asked_for(self, csv_file):
        table = read_table(csv_file("a,b,c\n1,2,3\n"))
        np.testing.assert_array_equal(table.numeric(["c", "a"]), [[3.0, 1.0]])

    def test_one_column_needs_no_delimiter(self, csv_file):
        assert read_table(csv_file("x\n1\n2\n")).names == ("x",)

    def test_other_delimiters_inside_quotes_do_not_count(self, csv_file):
        table = read_table(csv_file('"a,b,c";d\n"x,y,z";1\n'))
        assert table.names == ("a,b,c", "d")

    def test_delimiter_is_the_one_under_which_rows_agree(self, csv_file):
        table = read_table(csv_file("size, m; price\n1;2\n3;4\n"))
        assert table.names == ("size, m", "price")

    def test_quoted_line_breaks_and_quotes(self, csv_file):
        table = read_table(csv_file('a,b\n"x\ny",1\n"say ""z""",q\n'))
        assert table.labels("a").tolist() == ["x\ny", 'say "z"']
        assert "line 4" in refusal(table.numeric, ["b"])

    def test_whole_numbers_can_be_column_names(self, csv_file):
        assert read_table(csv_file("0,1\n0.5,2\n")).names == ("0", "1")

    def test_underscores_are_not_digit_groups(self, csv_file):
        table = read_table(csv_file("a\n1_0\n"))
        assert not table.is_numeric("a")
        assert "'1_0' is not a number" in refusal(table.numeric, ["a"])

    def test_text_that_follows_many_numbers_keeps_its_digits(self, csv_file, monkeypatch):
        monkeypatch.setattr(tables, "CHUNK_ROWS", 2)
        table = read_table(csv_file("a,b,c\n01,1,\n02,2,\n03,3,\nx,4,7\n"))
        assert table.labels("a").tolist() == ["01", "02", "03", "x"]
        assert table.is_numeric("b")
        assert table.numeric(["b"]).ravel().tolist() == [1.0, 2.0, 3.0, 4.0]
        assert "line 2, column 'c': the value is missing (3 such cells" in refusal(table.numeric, ["c"])

    def test_chunks_do_not_change_what_is_read(self, csv_file, monkeypatch):
        path = csv_file("a,b\n" + "".join(f"{i},{i * 0.1!r}\n" for i in range(25)))
        whole = read_table(path)
        monkeypatch.setattr(tables, "CHUNK_ROWS", 7)
        pieces = read_table(path)
        np.testing.assert_array_equal(pieces.numeric(["a", "b"]), whole.numeric(["a", "b"]))
        np.testing.assert_array_equal(pieces.lines, np.arange(25) + 2)

    def test_floats_are_read_exactly(self, csv_file):
        values = np.random.default_rng(0).normal(size=50) * 10.0 ** np.arange(-25, 25)
        table = read_table(csv_file("a\n" + "\n".join(map(repr, values.tolist()))))
        assert table.numeric(["a"]).ravel().tolist() == values.tolist()

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("", "data.csv is empty. Its first line must name the columns."),
            ("\n\n", "data.csv is empty. Its first line must name the columns."),
            ("a,b\n", "data.csv has no rows below its column names."),
            ("a,b,a,b\n1,2,3,4\n", "data.csv has more than one column named 'a', 'b'. Give each"),
            ("a,b\n1,2\n3\n", "data.csv, line 3: 1 cells, but the first line names 2 columns."),
            ("a,b\n1,2\n\n3,4,5\n", "data.csv, line 4: 3 cells, but the first line names 2 columns."),
            (",a\n0,1\n", "data.csv: column 1 has no name in the first line. Name it or take it out (pandas"),
            ("5.1,3.5\n4.9,3.0\n", "data.csv: the first line holds numbers. It must name the columns."),
            ('a,b\n1,2\n"3,4\n', "data.csv, line 3: not a row of a CSV file (unexpected end of data)."),
            (b"\xff\xfea\x00", "data.csv is not UTF-8 text. Save it as CSV in UTF-8."),
            (b"a,b\n1,caf\xe9\n", "data.csv is not UTF-8 text. Save it as CSV in UTF-8."),
        ],
    )
    def test_unreadable_files_are_refused_with_reason(self, csv_file, content, message):
        assert refusal(read_table, csv_file(content)).startswith(message)

    def test_missing_file(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            read_table(tmp_path / "none.csv")


class TestNumeric:
    @pytest.mark.parametrize(
        ("cell", "fault"),
        [
            ("red", "'red' is not a number. Encode the column as numbers"),
            ("1,5", "'1,5' has a comma. Write decimals with a point, and thousands without a separator"),
            ("", "the value is missing. Fill in the column or delete the row"),
            ("  ", "the value is missing. Fill in the column or delete the row"),
            ("nan", "the value is missing. Fill in the column or delete the row"),
            ("-inf", "-inf is not a finite number. Correct the column or delete the row"),
            ("1e999", "inf is not a finite number. Correct the column or delete the row"),
        ],
    )
    def test_faulty_cells_are_named_with_a_remedy(self, csv_file, cell, fault):
        table = read_table(csv_file(f"a;b c\n1;2\n3;{cell}\n"))
        expected = f"data.csv, line 3, column 'b c': {fault}"
        assert refusal(table.numeric, ["a", "b c"]) == f"{expected}, or leave it out with --drop 'b c'."
        assert refusal(table.numeric, ["a", "b c"], needed=True) == f"{expected}."

    def test_long_cells_are_shortened(self, csv_file):
        message = refusal(read_table(csv_file(f"a\n{'x' * 500}\n")).numeric, ["a"])
        assert "…" in message
        assert len(message) < 200

    def test_missing_columns_are_named(self, csv_file):
        table = read_table(csv_file("a,b\n1,2\n"))
        assert refusal(table.numeric, ["a", "c"]) == "data.csv has no column 'c'. Its columns are 'a', 'b'."
        assert "has no columns 'c', 'd'." in refusal(table.require, ["c", "a", "d"])
        assert "has no column 'c'" in refusal(table.column, "c")

    def test_long_lists_of_columns_are_shortened(self, csv_file):
        names = ",".join(f"c{i}" for i in range(100))
        table = read_table(csv_file(names + "\n" + ",".join("1" * 100) + "\n"))
        assert "and 80 more" in refusal(table.require, ["x"])

    def test_kind_of_columns(self, csv_file):
        table = read_table(csv_file("a,b,c\n1,x,1\n,2,y\n3,3,3\n"))
        assert [table.is_numeric(name) for name in table.names] == [True, False, False]
        assert [table.share_of_numbers(name) for name in table.names] == [1.0, 2 / 3, 2 / 3]

    @pytest.mark.parametrize(
        ("cells", "message"),
        [
            (("1", "NA", "2", "3O"), "line 5, column 'a': '3O' is not a number. Encode"),
            (("1;5", "2;5", "3", "NA"), "line 2, column 'a': '1;5' has a comma (2 such cells in this column). Write"),
            (("2024-02-29", "?", "2024-02-28", "May"), "line 5, column 'a': 'May' is not a date. Write all dates as"),
            (("2024-02-29", "2024-02-28", "2024-02-30"), "line 4, column 'a': '2024-02-30' is not a date. Write"),
        ],
    )
    def test_slips(self, csv_file, cells, message):
        rows = [f'"{cell}",1'.replace(";", ",") for cell in cells]
        found = refusal(read_table(csv_file("\n".join(["a,b", *rows]))).refuse_slips, "a")
        assert message in found.replace("1,5", "1;5")

    @pytest.mark.parametrize("cells", ["1 2 NA", "01 02 03", "a b 3", "2024-02-29 NA ?", "NA NA ?"])
    def test_no_slips(self, csv_file, cells):
        read_table(csv_file("a,b\n" + "".join(f"{cell},1\n" for cell in cells.split()))).refuse_slips("a")


class TestLabels:
    def test_whole_numbers_are_integers(self, csv_file):
        labels = read_table(csv_file("a\n1\n2.0\n-3\n")).labels("a")
        assert labels.dtype == np.int64
        assert labels.tolist() == [1, 2, -3]

    def test_other_numbers_are_text(self, csv_file):
        assert read_table(csv_file("a\n1\n2.5\n")).labels("a").tolist() == ["1.0", "2.5"]
        assert read_table(csv_file("a\n1\n1e300\n")).labels("a").tolist() == ["1.0", "1e+300"]

    def test_whole_numbers_that_float64_merges_are_refused(self, csv_file):
        with pytest.raises(ValueError, match=r"beyond 2\*\*53.*as text"):
            read_table(csv_file("a\n9007199254740992\n9007199254740993\n17\n")).labels("a")

    @pytest.mark.parametrize("rows_between", [0, tables.CHUNK_ROWS])
    def test_codes_with_leading_zeros_are_text(self, csv_file, rows_between):
        table = read_table(csv_file("a,b\n" + "1,0.5\n" * (1 + rows_between) + " 01 ,00.5\n00,-01\n0,1\n"))
        assert sorted(set(table.labels("a").tolist())) == ["0", "00", "01", "1"]
        assert not table.is_numeric("a")
        assert table.numeric(["a", "b"])[-3:].tolist() == [[1.0, 0.5], [0.0, -1.0], [0.0, 1.0]]

    def test_text_is_stripped(self, csv_file):
        assert read_table(csv_file("a,b\n yes ,1\nno,2\n")).labels("a").tolist() == ["yes", "no"]

    @pytest.mark.parametrize("others", ["yes", "1"])
    def test_missing_labels_are_refused(self, csv_file, others):
        table = read_table(csv_file(f"a,b\n{others},1\n,2\n"))
        assert refusal(table.labels, "a").startswith("data.csv, line 3, column 'a': the value is missing.")


class TestParquet:
    @pytest.fixture
    def parquet_file(self, tmp_path):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        def write(**columns):
            path = tmp_path / "data.parquet"
            pq.write_table(pa.table(columns), path)
            return path

        return write

    def test_numbers_of_every_kind(self, parquet_file):
        table = read_table(
            parquet_file(
                i=[1, 2],
                f=[0.1, 0.2],
                b=[True, False],
                d=[decimal.Decimal("1.25"), decimal.Decimal("2.50")],
                s=["3", "4.5"],
            )
        )
        matrix = table.numeric(["i", "f", "b", "d", "s"])
        np.testing.assert_array_equal(matrix, [[1, 0.1, 1, 1.25, 3], [2, 0.2, 0, 2.5, 4.5]])

    def test_text_and_categories_are_labels(self, parquet_file):
        import pyarrow as pa

        table = read_table(parquet_file(s=["u", "v"], c=pa.array(["p", "q"]).dictionary_encode()))
        assert table.labels("s").tolist() == ["u", "v"]
        assert table.labels("c").tolist() == ["p", "q"]

    @pytest.mark.parametrize(
        ("cell", "fault"),
        [
            (None, "the value is missing"),
            (float("nan"), "the value is missing"),
            (datetime.date(2020, 1, 2), "datetime.date(2020, 1, 2) is not a number"),
            ("", "the value is missing"),
            (b"1", "b'1' is not a number"),
        ],
    )
    def test_faulty_cells_are_named_by_row(self, parquet_file, cell, fault):
        import pyarrow as pa

        whole = 1.0 if isinstance(cell, float) or cell is None else cell
        first = "1" if cell == "" else whole
        path = parquet_file(a=pa.array([first, cell]))
        message = refusal(read_table(path).numeric, ["a"])
        row = 1 if "not a number" in fault else 2
        assert message.startswith(f"data.parquet, row {row}, column 'a': {fault}")

    def test_column_of_nothing(self, parquet_file):
        assert "the value is missing" in refusal(read_table(parquet_file(a=[None, None])).numeric, ["a"])

    def test_other_files_are_refused(self, tmp_path):
        pytest.importorskip("pyarrow")
        path = tmp_path / "data.parquet"
        path.write_text("a,b\n1,2\n")
        assert refusal(read_table, path).startswith("data.parquet is not a Parquet file that can be read: ")

    def test_missing_file(self, tmp_path):
        pytest.importorskip("pyarrow")
        with pytest.raises(FileNotFoundError, match=re.escape("none.pq")):
            read_table(tmp_path / "none.pq")

    def test_without_pyarrow_the_error_names_the_package(self, tmp_path, monkeypatch):
        real_import = builtins.__import__

        def without_pyarrow(name, *arguments, **options):
            if name.startswith("pyarrow"):
                raise ImportError(name)
            return real_import(name, *arguments, **options)

        monkeypatch.setattr(builtins, "__import__", without_pyarrow)
        (tmp_path / "data.parquet").write_bytes(b"PAR1")
        with pytest.raises(ImportError, match=re.escape("pip install 'dconnet[parquet]'")):
            read_table(tmp_path / "data.parquet")


def test_columns_must_agree_with_names():
    with pytest.raises(ValueError, match="every name needs one column"):
        Table(("a", "b"), (np.zeros(2), np.zeros(3)))
    with pytest.raises(ValueError, match="every name needs one column"):
        Table(("a", "b"), (np.zeros(2),))


# Names and cells may hold anything, but they are stripped, and NumPy drops null characters at the end of text.
WORDS = (st.text() | st.sampled_from(['"', 'say "x", y', "a\nb", "a\rb", "a;b", "a\tb", "\x00x", "0", "1_0"])).filter(
    lambda text: text.strip() and not text.strip().endswith("\x00")
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, 5e-324, 1.7976931348623157e308]
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(
    names=st.lists(WORDS, min_size=1, max_size=4, unique_by=str.strip),
    words=st.lists(WORDS, min_size=1, max_size=5),
    numbers=st.lists(NUMBERS, min_size=5, max_size=5),
)
@example(names=["a;b;c", "d"], words=["x;y;z"], numbers=[0.0] * 5)  # under semicolons, every row has three cells
@example(names=["a\tb\tc", "d;e"], words=["x\ty\tz"], numbers=[0.0] * 5)
def test_what_is_written_is_read_back(names, words, numbers, tmp_path):
    assume(not names[0].startswith("\ufeff"))  # at the start of a file it is a byte order mark
    assume(not all(tables._is_number(name.strip()) for name in names))  # which would be a row of data
    words.append("word")  # not numbers alone, which are read as numbers
    numbers = numbers[: len(words)]
    words = words[: len(numbers)]
    columns = [words if position % 2 == 0 else numbers for position in range(len(names))]
    write_csv(tmp_path / "out.csv", names, columns)
    table = read_table(tmp_path / "out.csv")
    assert table.names == tuple(name.strip() for name in names)
    for position, name in enumerate(table.names):
        if position % 2:
            assert table.numeric([name]).tobytes() == np.array(numbers).tobytes()
        elif not table.is_numeric(name):
            assert table.labels(name).tolist() == [word.strip() for word in words]


class TestPipes:
    CONTENT = b"a;b\n" + b"".join(b"%d;%d\n" % (i, i * i) for i in range(20_000))

    @staticmethod
    def piped(content):
        """The path of a pipe that holds the content."""
        reading, writing = os.pipe()

        def write():
            with os.fdopen(writing, "wb") as file:
                file.write(content)

        threading.Thread(target=write, daemon=True).start()
        return reading

    @pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
    def test_a_pipe_is_read_like_a_file(self):
        reading = self.piped(self.CONTENT)
        table = read_table(f"/dev/fd/{reading}")
        os.close(reading)
        np.testing.assert_array_equal(table.numeric(["b"]).ravel(), np.arange(20_000.0) ** 2)
        assert table.lines[-1] == 20_001

    def test_a_dash_is_the_standard_input(self, monkeypatch):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,2\n3,x\n")))
        table = read_table("-")
        assert table.names == ("a", "b")
        assert refusal(table.numeric, ["b"]).startswith("standard input, line 3, column 'b': 'x' is not a number.")

    @pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
    def test_parquet_is_recognised_by_its_beginning(self):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        buffer = io.BytesIO()
        pq.write_table(pa.table({"a": [1.0, 2.0]}), buffer)
        reading = self.piped(buffer.getvalue())
        assert read_table(f"/dev/fd/{reading}").numeric(["a"]).ravel().tolist() == [1.0, 2.0]
        os.close(reading)


class TestWriting:
    def test_round_trip(self, tmp_path):
        numbers = np.random.default_rng(1).normal(size=20).tolist()
        words = [f'word "{i}", and\nmore' for i in range(20)]
        write_csv(tmp_path / "out.csv", ["number", "word"], [numbers, words])
        table = read_table(tmp_path / "out.csv")
        assert table.numeric(["number"]).ravel().tolist() == numbers
        assert table.labels("word").tolist() == words

    def test_columns_of_unequal_length_leave_nothing_behind(self, tmp_path):
        with pytest.raises(ValueError, match="zip"):
            write_csv(tmp_path / "out.csv", ["a", "b"], [[1, 2], [1]])
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
    def test_a_failure_keeps_the_earlier_file(self, tmp_path, failure):
        path = tmp_path / "out.csv"
        path.write_text("before")

        def columns():
            yield 1
            raise failure

        with pytest.raises(failure):
            write_csv(path, ["a"], [columns()])
        assert path.read_text() == "before"
        assert list(tmp_path.iterdir()) == [path]

    def test_the_file_appears_only_when_it_is_whole(self, tmp_path):
        path = tmp_path / "out.txt"
        with written_whole(path) as file:
            file.write("half")
            file.flush()
            assert not path.exists()
        assert path.read_text() == "half"

    def test_links_stay_links(self, tmp_path):
        target, link = tmp_path / "target.txt", tmp_path / "link.txt"
        target.write_text("before")
        link.symlink_to(target)
        with written_whole(link) as file:
            file.write("after")
        assert link.is_symlink()
        assert target.read_text() == "after"

    @pytest.mark.skipif(os.name != "posix", reason="permissions and devices of POSIX")
    def test_permissions_are_those_of_any_new_file(self, tmp_path):
        with written_whole(tmp_path / "out.txt") as file:
            file.write("")
        (tmp_path / "other.txt").write_text("")
        modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("out.txt", "other.txt")}
        assert len(modes) == 1

    @pytest.mark.skipif(os.name != "posix", reason="permissions and devices of POSIX")
    def test_devices_are_written_to_and_not_replaced(self):
        with written_whole(os.devnull) as file:
            file.write("gone")
        assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)

    def test_errors_name_the_file_that_was_asked_for(self, tmp_path):
        with (
            pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path / "none" / "out.txt"))),
            written_whole(tmp_path / "none" / "out.txt"),
        ):
            pass
        with pytest.raises(IsADirectoryError), written_whole(tmp_path):
            pass


class TestFrames:
    def typed(self, cells, kind=None):
        column = np.empty(len(cells), dtype=object)
        column[:] = cells
        return Table(("a",), (column,)).frame(["a"], None if kind is None else [kind])["a"].to_numpy()

    @pytest.mark.parametrize("gap", [None, "NA", "n/a", "NaN", "null", "?", "-"])
    def test_numbers_with_gaps(self, gap):
        np.testing.assert_array_equal(self.typed(["1.5", gap, "-2e3"]), [1.5, np.nan, -2000.0])

    @pytest.mark.parametrize("gap", [None, "NA", "null"])
    def test_dates_with_gaps(self, gap):
        found = self.typed(["2020-02-29", gap, "2021-01-01 10:30"])
        assert found.dtype == "datetime64[s]"
        assert found.tolist() == [datetime.datetime(2020, 2, 29), None, datetime.datetime(2021, 1, 1, 10, 30)]

    @pytest.mark.parametrize(
        "cells", [["a", "NA"], ["1", "x"], ["01", "1"], ["2020-01-01", "x"], ["2020-04-31"], ["20-1-1"], ["NA", None]]
    )
    def test_text_stays_text(self, cells):
        assert self.typed(cells).tolist() == cells

    def test_columns_are_what_they_were(self):
        assert self.typed(["NA", "1", "2020-01-01"], "category").tolist() == ["NA", "1", "2020-01-01"]
        assert self.typed(["NA", "NA"], "category").tolist() == ["NA", "NA"]
        assert np.isnan(self.typed(["NA", None], "number")).all()
        assert self.typed(["NA", "x"], "number").tolist() == [None, "x"]
        assert np.isnan(self.typed(["NA"], "date")).all()

    def test_numbers_and_other_objects_stay(self):
        days = [datetime.date(2020, 1, 1), None]
        assert self.typed(days).tolist() == days
        table = Table(("a", "b"), (np.array([1.0, np.nan]), np.array([2.0, 3.0])))
        frame = table.frame(["b", "a"])
        assert frame.columns == ("b", "a")
        assert frame.shape == (2, 2)
        np.testing.assert_array_equal(frame.rows(np.array([1]))["a"].to_numpy(), [np.nan])
        with pytest.raises(ValueError, match="has no column 'c'"):
            table.frame(["c"])
