"""Text from anywhere, made fit to be shown."""

from __future__ import annotations


def printable(value: object) -> str:
    """Text without the control characters that would steer a terminal or spoil a document."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in str(value))
