"""The families of short fits, and which of them suit the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.encoding.coder import FEW_LEVELS, Coding
from dconnet.encoding.columns import Field

GAMMAS = (1e-4, 1e-3, 0.03, 0.3)
CLASS_GAMMAS = (1e-3, 0.03, 0.3, 1.0)
# From this many rows on, wider and longer fits pay; and from that many, two gammas do.
MANY_ROWS, VERY_MANY_ROWS = 3_000, 10_000
# From this many classes on, networks are narrower.
MANY_CLASSES = 6
# The logarithm of the target is learnt, too, if its outer quantiles are this far apart.
LOG_SPREAD = 3.0


@dataclass(frozen=True, slots=True)
class Family:
    """Fits that share all but gamma and the random start.

    Attributes
    ----------
    name : str
    coding : Coding
        How the fields are coded.
    shrinkage : float
        Penalty on the weights of the standardised columns, as in `Problem`.
    n_hidden, evaluations : int
        Neurons, and evaluations of the loss.
    gammas : tuple of float
    log_target : bool
        Whether the logarithm of the target is learnt.
    """

    name: str
    coding: Coding
    shrinkage: float
    n_hidden: int
    evaluations: int
    gammas: tuple[float, ...]
    log_target: bool = False


def _has_many_levels(fields: Sequence[Field]) -> bool:
    return any(field.n_levels > FEW_LEVELS for field in fields)


def spreads(y: FloatArray) -> bool:
    """Whether a target is positive, and so spread that its logarithm is worth learning."""
    if y.min() <= 0.0:
        return False
    low, high = np.quantile(y, [0.01, 0.99])
    return bool(high >= LOG_SPREAD * low)


def regression_families(fields: Sequence[Field], y: FloatArray) -> list[Family]:
    """The families for a regression, the most useful first."""
    many, hybrid = len(y) > MANY_ROWS, _has_many_levels(fields)
    linear = Family("linear", Coding(), 0.0, *((100, 400) if many else (50, 200)), GAMMAS)
    ramps = Family("ramps", Coding(6), 0.3, 50, 150 if many else 100, GAMMAS)
    knots = Family("knots", Coding(16, every_value=True), 1.0, *((20, 100) if many else (30, 60)), GAMMAS)
    families = [knots, linear, ramps]
    if spreads(y):
        families.append(replace(knots, name="knots of log", log_target=True))
    if hybrid:
        families.append(replace(ramps, name="ramps by target", coding=Coding(6, by_target=True)))
        families.append(replace(linear, name="linear by target", coding=Coding(by_target=True)))
    else:
        families.append(replace(linear, name="smooth", shrinkage=0.3))
    if len(y) > VERY_MANY_ROWS:
        families = [replace(family, gammas=(1e-3, 0.03)) for family in families]
    return families


def classification_families(fields: Sequence[Field], n_rows: int, n_classes: int) -> list[Family]:
    """The families for a classification, the most useful first."""
    n_hidden = 20 if n_classes >= MANY_CLASSES else 50
    hybrid = _has_many_levels(fields)
    ramps = Family("ramps", Coding(6, by_target=hybrid), 0.3, n_hidden, 100, CLASS_GAMMAS)
    linear = Family("linear", Coding(by_target=hybrid), 0.0, n_hidden, 200, CLASS_GAMMAS)
    families = [ramps, linear]
    if any(field.is_category for field in fields):
        families.append(
            Family("knots", Coding(16, every_value=True, by_target=hybrid), 1.0, min(n_hidden, 30), 60, CLASS_GAMMAS)
        )
    return families
