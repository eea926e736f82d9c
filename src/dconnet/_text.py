"""Text for messages and reports."""

from __future__ import annotations

import math


def printable(value: object) -> str:
    """Return text without control characters, which could change a terminal or break a document."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in str(value))


def count(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 row" or "2 rows"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def per_cent(share: float) -> str:
    """Return a share as a percentage with two digits, rounded up because it is an upper bound, such as "0.3 %"."""
    if share <= 0.0:
        return "0 %"
    percent = max(100.0 * share, 1e-6)
    n_decimals = max(1 - math.floor(math.log10(percent)), 0)
    text = f"{math.ceil(round(percent * 10.0**n_decimals, 6)) / 10.0**n_decimals:.{n_decimals}f}"
    return f"{text.rstrip('0').rstrip('.') if n_decimals else text} %"


def no_network_is_better(share: float, proved: bool) -> str:
    """Return the meaning of a relative gap to networks of all widths, in words."""
    known = "It is proved that" if proved else "It is estimated, not proved, that"
    return f"{known} no network of this kind, however wide, has a RegLoss lower by more than {per_cent(share)}"
