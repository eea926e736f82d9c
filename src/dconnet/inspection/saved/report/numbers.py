"""Numbers as the report writes them."""

from __future__ import annotations


def number(value: float | None, form: str = ".4g") -> str:
    """A number in a format, or that it is not known.

    Examples
    --------
    >>> from dconnet.inspection.saved.report.numbers import number
    >>> number(52600.3), number(0.000123456), number(None)
    ('52600', '0.0001235', 'unknown')
    """
    if value is None or value != value:
        return "unknown"
    if form.endswith("g") and 10.0 ** int(form[1:-1]) <= abs(value) < 1e9:
        form = ".0f"  # 52600 is easier to read than 5.26e+04
    return format(value, form)


def percent(share: float | None) -> str:
    """A share in per cent.

    Examples
    --------
    >>> from dconnet.inspection.saved.report.numbers import percent
    >>> percent(0.123), percent(None)
    ('12.3 %', '–')
    """
    return "–" if share is None or share != share else f"{100.0 * share:.1f} %"
