"""Tables in files: dialects, encodings, formats, errors, and what is written."""

import bz2
import gzip
import io
import lzma
import os
import threading

import numpy as np
import pandas as pd
import pytest

from dconnet.io.table_files import read_table, write_table

PLAIN = "name,size\nAnn,1.5\n\nBob,\n"
EXPECTED = [["Ann", "1.5"], ["Bob", ""]]


def write(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", "|"),
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace(",", " , "),
        '"name","size"\n"Ann",1.5\n"Bob",""\n',
        PLAIN.encode("utf-8-sig"),
        PLAIN.encode("utf-16"),
        gzip.compress(PLAIN.encode(), mtime=0),
        bz2.compress(PLAIN.encode()),
        lzma.compress(PLAIN.encode()),
    ],
)
def test_dialects_encodings_and_compressions_are_detected(content, tmp_path):
    table = read_table(write(tmp_path / "table", content))
    assert table.columns.tolist() == ["name", "size"]
    assert table.to_numpy().tolist() == EXPECTED


def test_separator_encoding_and_decimal_comma_can_be_named(tmp_path):
    path = write(
        tmp_path / "table.csv", "größe:menge, in kg\n-1,5:2,25e3\n1.000:a,b\n1.234.567,5:0.5\n".encode("latin-1")
    )
    table = read_table(path, separator=":", encoding="latin-1", decimal=",")
    assert table.columns.tolist() == ["größe", "menge, in kg"]
    assert table.to_numpy().tolist() == [["-1.5", "2.25e3"], ["1000", "a,b"], ["1234567.5", "0.5"]]


def test_quoted_cells_hold_separators_and_lines(tmp_path):
    table = read_table(write(tmp_path / "t.csv", 'a,b\n"1,\n""2""",x;y\n3,4\n'))
    assert table.to_numpy().tolist() == [['1,\n"2"', "x;y"], ["3", "4"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        ("a,b\n", "no rows"),
        ("a,b\n1,2\n3\n", "line 3: 1 cell, but the first line has 2 names"),
        ("# by hand\na,b\n1,2\n", "line 2: 2 cells, but the first line has 1 name. Delete the comments"),
        ("a,b\n1,2\n# end\n", "line 3: 1 cell.* Delete the comments"),
        ("a,b\n1,2,3\n4,5\n", "line 2: 3 cells"),
        ('a,b\n1,2\n"3"x,4\n', "line 3"),
        ("a,\n1,2\n", "column 2 has no name"),
        ("5.1,3.5\n4.9,3.0\n", "first line has numbers"),
        ("a,b,a\n1,2,3\n", "several columns named 'a'"),
        ("größe\n1\n".encode("latin-1"), "--encoding"),
        (b"a\n\x00\n", "NUL"),
        (gzip.compress(PLAIN.encode(), mtime=0)[:20], "cannot be read"),
        (b"PAR1 but no table", "cannot be read|Parquet"),
        (b"PK\x03\x04 but no workbook", "cannot be read|zip"),
    ],
)
def test_invalid_tables_are_refused(content, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_table(write(tmp_path / "table.csv", content))


def test_standard_input_and_pipes_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PLAIN.encode())))
    assert read_table("-").to_numpy().tolist() == EXPECTED
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(PLAIN,))
    writer.start()
    assert read_table(pipe).to_numpy().tolist() == EXPECTED
    writer.join()


@pytest.mark.parametrize("kind", ["parquet", "excel"])
def test_typed_formats_keep_their_types(kind, tmp_path):
    pytest.importorskip({"parquet": "pyarrow", "excel": "openpyxl"}[kind])
    table = pd.DataFrame({"n": [1.5, np.nan], "t": ["NA", "01"], "d": pd.to_datetime(["2026-01-01", "2026-01-02"])})
    path = tmp_path / "table.bin"
    if kind == "parquet":
        table.to_parquet(path)
    else:
        table.to_excel(path.with_suffix(".xlsx"), index=False)
        path = path.with_suffix(".xlsx")
    found = read_table(path)
    assert found["t"].tolist() == ["NA", "01"]
    assert found["n"].isna().tolist() == [False, True]
    assert found["d"].dtype.kind == "M"


def test_written_tables_are_read_back(tmp_path):
    rows = {"a, b": [0.1 + 0.2, -1e300, 5e-324], "ü": ["x,y", 'q"', "line\nbreak"]}
    write_table(tmp_path / "t.csv", pd.DataFrame(rows))
    table = read_table(tmp_path / "t.csv")
    assert table["a, b"].astype(float).tolist() == rows["a, b"]
    assert table["ü"].tolist() == rows["ü"]
