"""Numbers and dates as people write them: "12.3%", "$1,200", "1.200,50 €", "14/03/2024 9:30 pm".

The format of a column is inferred once, on the training rows: a format fits if it reads every cell. If two formats fit
and read different values, as for "1,200" or "03/04/2024", the format is an assumption, which users are warned of.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

PER_CENT = "%"
MARK = r"%|[$€£¥₹]|USD|EUR|GBP|CHF|JPY|CNY|INR"
OTHER = {".": ",", ",": "."}  # the separator of thousands for each decimal mark
NUMBERS = {
    decimal: re.compile(
        rf"([+-]?)({MARK})?\s?([+-]?)"
        rf"((?:[1-9]\d{{0,2}}(?:[{other}'\s]\d{{3}})+|0|[1-9]\d*)(?:[{decimal}]\d*)?|[{decimal}]\d+)"
        rf"\s?({MARK})?"
    )
    for decimal, other in OTHER.items()
}
DATE_ORDERS = {"ymd": "year first", "mdy": "month first", "dmy": "day first"}
DATE = re.compile(
    r"(\d{1,4})([/.-])(\d{1,2})\2(\d{1,4})"
    r"(?:[ T]+(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?(?:\s?([ap])m)?)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class CellFormat:
    """How the cells of a column are written, if they are text; without arguments, plain numbers and ISO 8601 dates."""

    mark: str = ""  # percent sign or currency at each number
    decimal: str = ""  # mark of numbers whose thousands may be separated; empty for plain numbers such as 1200.5
    date_order: str = ""  # a key of `DATE_ORDERS` for dates such as 03/14/2024; empty for ISO 8601 alone
    has_zone: bool = False  # whether the dates have a time zone; they are converted to UTC
    is_assumed: bool = False  # whether the training cells fit another decimal mark or date order as well

    def __post_init__(self) -> None:
        if self.decimal not in ("", *OTHER) or self.date_order not in ("", *DATE_ORDERS):
            raise ValueError(f"there is no cell format {self.decimal!r:.40} {self.date_order!r:.40}")

    @property
    def notes(self) -> list[str]:
        """What was inferred, in words for users."""
        assumed = " (assumed)" if self.is_assumed else ""
        return [
            *([f"without {self.mark}"] if self.mark else []),
            *([f"decimal comma{assumed}"] if self.decimal == "," else []),
            *([f"comma between thousands{assumed}"] if self.decimal == "." and assumed else []),
            *([f"{DATE_ORDERS[self.date_order]}{assumed}"] if self.date_order else []),
            *(["in UTC"] if self.has_zone else []),
        ]

    def read_number(self, text: str) -> float | None:
        """Return the number in a cell, or None. A currency may be missing, but not a percent sign."""
        if not self.decimal:
            return None
        mark, number = read_marked_number(text, self.decimal)
        return number if mark == self.mark or (mark == "" and self.mark != PER_CENT) else None

    def explain_assumption(self, cells: Iterable[object]) -> str:
        """Return what was assumed although other readings fit all cells, with an example, and what to do about it."""
        texts = (cell.strip() for cell in cells if isinstance(cell, str))
        if self.date_order:
            example = next(text for text in texts if read_date(text, "mdy") != read_date(text, "dmy"))
            return (
                f"dates such as {example!r} are read with the {DATE_ORDERS[self.date_order]}, but no cell shows "
                "whether the day or the month is first. Write dates as 2024-03-14 to be sure."
            )
        example = next(text for text in texts if read_marked_number(text, ".") != read_marked_number(text, ","))
        return (
            f"{example!r} is read as {read_marked_number(example, '.')[1]:g}, but no cell shows whether the decimal "
            "mark is a point or a comma. Write plain numbers such as 1200.5 to be sure."
        )


PLAIN = CellFormat()


def read_marked_number(text: str, decimal: str) -> tuple[str, float | None]:
    """Return the mark and the number of a cell; the number is None if the cell is no number with this decimal mark."""
    found = NUMBERS[decimal].fullmatch(text.strip())
    if found is None:
        return "", None
    first_sign, before, second_sign, digits, after = found.groups("")
    if (first_sign and second_sign) or (before and after):
        return "", None
    plain = re.sub(rf"[{OTHER[decimal]}'\s]", "", digits).replace(decimal, ".")
    return before or after, float(first_sign + second_sign + plain)


def read_date(text: str, order: str = "") -> datetime | None:
    """Return the date in a cell, or None: ISO 8601, or numbers in the given order with a year of four digits."""
    text = text.strip()
    try:
        if text[4:5] + text[7:8] == "--":
            return datetime.fromisoformat(text)
        found = DATE.fullmatch(text) if order else None
        if found is None:
            return None
        first, _, second, third, hour, minute, seconds, half = found.groups()
        parts = dict(zip(order, (first, second, third), strict=True))
        if len(parts["y"]) != 4 or max(len(parts["m"]), len(parts["d"])) > 2 or (half and not 1 <= int(hour) <= 12):
            return None
        hours = int(hour or 0) if half is None else int(hour) % 12 + 12 * (half.lower() == "p")
        return datetime(int(parts["y"]), int(parts["m"]), int(parts["d"]), hours, int(minute or 0), int(seconds or 0))
    except ValueError:
        return None


def infer_number_format(texts: Collection[str]) -> CellFormat | None:
    """Return the format in which all cells are numbers with the same mark, or None."""
    marks = find_marks(texts)
    if len(marks) > 1:
        return None
    found: dict[str, list[float]] = {}
    for decimal in OTHER:
        read = CellFormat("".join(marks), decimal).read_number
        if all(read(text) is not None for text in texts):
            found[decimal] = [read(text) or 0.0 for text in texts]
    if not found:
        return None
    is_assumed = len(found) > 1 and found["."] != found[","]
    if is_assumed and marks == [PER_CENT]:  # not thousands of per cent
        return CellFormat(PER_CENT, min(found, key=lambda decimal: sum(map(abs, found[decimal]))))
    return CellFormat("".join(marks), next(iter(found)), is_assumed=is_assumed)


def find_marks(texts: Iterable[str]) -> list[str]:
    """Return the different marks in cells, most frequent first."""
    return [mark for mark, _ in Counter(mark for text in texts for mark in re.findall(MARK, text)).most_common()]


def infer_date_format(texts: Collection[str]) -> CellFormat | None:
    """Return the format in which all cells are dates, or None.

    If day and month can be exchanged, the month is first in dates with slashes and the day in others.
    """
    found = [order for order in ("", *DATE_ORDERS) if all(read_date(text, order) is not None for text in texts)]
    if not found or found[0] == "":
        return PLAIN if found else None
    if {"mdy", "dmy"} <= set(found):
        is_same = all(read_date(text, "mdy") == read_date(text, "dmy") for text in texts)
        return CellFormat(date_order="mdy" if "/" in next(iter(texts)) else "dmy", is_assumed=not is_same)
    return CellFormat(date_order=found[0])
