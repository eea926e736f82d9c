"""Text from anywhere, made fit to be shown."""

from __future__ import annotations

import math


def printable(value: object) -> str:
    """Text without the control characters that would steer a terminal or spoil a document."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in str(value))


def per_cent(share: float) -> str:
    """A share that is a bound, in per cent, rounded up to two digits and written out: "0.3 %"."""
    if share <= 0.0:
        return "0 %"
    percent = max(100.0 * share, 1e-6)
    digits = max(1 - math.floor(math.log10(percent)), 0)
    text = f"{math.ceil(round(percent * 10.0**digits, 6)) / 10.0**digits:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if digits else text} %"


def no_network_is_better(share: float, proved: bool) -> str:
    """What a relative gap to the networks of all widths means."""
    known = "It is proved that" if proved else "It is estimated, not proved, that"
    return f"{known} no network of this kind, however wide, has a RegLoss lower by more than {per_cent(share)}"
