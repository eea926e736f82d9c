"""Tables in files: CSV, Parquet and Excel in, CSV out.

Cells of CSV files stay text: `dconnet.encoding.columns` alone infers their types, so that codes such as 01 do not
become numbers on the way.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dconnet._files import write_atomically
from dconnet._text import count, printable

if TYPE_CHECKING:
    import pandas as pd

STANDARD_INPUT = "-"
SEPARATORS = (",", ";", "\t", "|")
# Records that decide on the separator.
N_SNIFFED = 20
BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
DECOMPRESS: dict[bytes, Callable[[bytes], bytes]] = {
    b"\x1f\x8b": gzip.decompress,
    b"BZh": bz2.decompress,
    b"\xfd7zXZ\x00": lzma.decompress,
}
PARQUET, EXCEL = b"PAR1", b"PK\x03\x04"


def read_table(
    path: str | os.PathLike[str],
    *,
    separator: str | None = None,
    encoding: str | None = None,
    decimal: str = ".",
) -> pd.DataFrame:
    """Read a CSV, Parquet or Excel file.

    The content decides on the format and the compression of a CSV file (gzip, bzip2 or xz), not the name. The path may
    be a pipe; "-" is the standard input. All cells of a CSV file are text without surrounding blanks; missing cells are
    empty. The separator is by default the comma, semicolon, tab or bar that splits the first lines into the most cells,
    equally many in each, and the encoding UTF-8, or that of the byte order mark. If the decimal mark is not a point,
    points may separate thousands.

    Raises OSError if the file cannot be read, ValueError with the line if it is no such table, and ImportError if a
    package for the format is missing.
    """
    pandas = _import_pandas()
    is_standard_input = str(path) == STANDARD_INPUT
    source = "The standard input" if is_standard_input else Path(path).name
    if is_standard_input and sys.stdin is None:
        raise ValueError("The standard input is closed. Name a file.")
    content = sys.stdin.buffer.read() if is_standard_input else Path(path).read_bytes()
    try:
        if content.startswith(PARQUET):
            table = pandas.read_parquet(io.BytesIO(content))
        elif content.startswith(EXCEL):
            table = pandas.read_excel(io.BytesIO(content), keep_default_na=False, na_values=[""])
            table.columns = pandas.Index([str(name).strip() for name in table.columns])
        else:
            table = _read_csv(content, source, separator, encoding, decimal)
    except ImportError as error:
        extra, kind = ("parquet", "Parquet") if content.startswith(PARQUET) else ("excel", "Excel")
        raise ImportError(
            f"{kind} files need another package. Install it with pip install 'dconnet[{extra}]'."
        ) from error
    except Exception as error:  # of several packages, for damaged files
        if isinstance(error, ValueError) and str(error).startswith(source):
            raise
        raise ValueError(f"{source} cannot be read: {error}. Save the table again, for example as CSV.") from error
    require_columns(table, list(table.columns), source)
    if len(table) == 0 or table.shape[1] == 0:
        raise ValueError(f"{source} has no rows below the column names. Add some.")
    return table


def require_columns(table: pd.DataFrame, names: Iterable[str], source: str = "The table") -> None:
    """Raise a ValueError unless each name is that of exactly one column."""
    counts, names = Counter(table.columns), list(names)
    missing = [name for name in names if name not in counts]
    if missing:
        raise ValueError(f"{source} has no column {_quote(missing)}. Its columns are {_quote(list(table.columns))}.")
    repeated = [name for name in dict.fromkeys(names) if counts[name] > 1]
    if repeated:
        raise ValueError(f"{source} has several columns named {_quote(repeated)}. Give each column its own name.")


def write_table(path: str | os.PathLike[str] | IO[str], table: pd.DataFrame) -> None:
    """Write a table as CSV: to an open stream, or to a file that is replaced when the new one is complete."""
    if isinstance(path, (str, os.PathLike)):
        with write_atomically(path) as file:
            table.to_csv(file, index=False, lineterminator="\n")
    else:
        table.to_csv(path, index=False, lineterminator="\n")


def _import_pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("Tables need pandas. Install it with pip install 'dconnet[cli]'.") from error
    return pandas


def _quote(names: Sequence[object], limit: int = 20) -> str:
    text = ", ".join(repr(printable(name)) for name in names[:limit])
    return text if len(names) <= limit else f"{text} and {len(names) - limit} more"


# --- CSV ---


def _read_csv(content: bytes, source: str, separator: str | None, encoding: str | None, decimal: str) -> pd.DataFrame:
    """Read all cells as text with the standard library, whose errors have lines; pandas would fill up short rows."""
    for magic, decompress in DECOMPRESS.items():
        if content.startswith(magic):
            content = decompress(content)
    detected = next((name for mark, name in BYTE_ORDER_MARKS.items() if content.startswith(mark)), "utf-8")
    try:
        text = content.decode(encoding or detected)
    except LookupError as error:
        raise ValueError(f"{source}: there is no encoding {encoding!r}. Use another, such as latin-1.") from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{source} is not {encoding or detected} text. Name its encoding, for example with --encoding latin-1."
        ) from error
    if "\0" in text:
        raise ValueError(f"{source} holds NUL characters, so it is no CSV file. Save the table as CSV in UTF-8.")
    separator = separator or _find_separator(text)
    rows, lines = _split_records(text, separator, source)
    if not rows:
        raise ValueError(f"{source} is empty. Its first line must have the column names.")
    names = rows.pop(0)
    for line, row in zip(lines[1:], rows, strict=True):
        if len(row) != len(names):
            has_comment = any(cells[0].startswith("#") for cells in (names, row))
            raise ValueError(
                f"{source}, line {line}: {count(len(row), 'cell')}, but the first line has "
                f"{count(len(names), 'name')}. {'Delete the comments.' if has_comment else 'Correct the row.'}"
            )
    if "" in names:
        raise ValueError(
            f"{source}: column {names.index('') + 1} has no name in the first line. Name it, or leave it out "
            "(pandas: to_csv(..., index=False))."
        )
    # Whole numbers alone may well be names, such as years; 5.1, 3.5 are a row of data.
    if all(map(_is_number, names)) and not all(name.isdecimal() for name in names):
        raise ValueError(f"{source}: the first line has numbers. Put the column names there.")
    table = _import_pandas().DataFrame(rows, columns=names, dtype=object)
    if decimal != ".":
        number = re.compile(rf"([+-]?(?:\d{{1,3}}(?:\.\d{{3}})+|\d*))(?:{re.escape(decimal)}(\d+(?:[eE][+-]?\d+)?))?")
        table = table.map(lambda cell: _write_plainly(number.fullmatch(cell)) or cell).astype(object)
    return table


def _write_plainly(found: re.Match[str] | None) -> str | None:
    """Return a number without points between thousands, and with a decimal point; None if it is none."""
    if found is None:
        return None
    whole, fraction = found[1].replace(".", ""), found[2]
    return whole if fraction is None else f"{whole}.{fraction}"


def _split_records(
    text: str, separator: str, source: str, limit: int | None = None
) -> tuple[list[list[str]], list[int]]:
    """Return the cells of each record that is not blank, and the line on which it begins."""
    rows: list[list[str]] = []
    lines: list[int] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True)
    line = 1
    try:
        for cells in reader:
            if cells:
                rows.append([cell.strip() for cell in cells])
                lines.append(line)
                if len(rows) == limit:
                    break
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{source}, line {line}: {error}. Correct the quotes of this row.") from error
    return rows, lines


def _find_separator(text: str) -> str:
    """Return the separator that splits the first records into equally many cells, and into the most."""

    def quality(separator: str) -> tuple[bool, int]:
        try:
            widths = [len(cells) for cells in _split_records(text, separator, "", N_SNIFFED)[0]]
        except ValueError:  # a quoted cell ends before another character: not the separator
            return False, 0
        return len(set(widths)) == 1 and widths[0] > 1, widths[0] if widths else 0

    return max(SEPARATORS, key=quality)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
