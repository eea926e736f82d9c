"""What the schemas of model files have in common."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from dconnet.io.parts import LARGEST

Weight: TypeAlias = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Scale: TypeAlias = Annotated[float, Meta(gt=0.0, le=LARGEST)]
NotNegative: TypeAlias = Annotated[float, Meta(ge=0.0, le=LARGEST)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object of the file, with exactly these fields."""
