"""Families of short fits, and the families that suit a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.encoding.coder import FEW_LEVELS, Coding
from dconnet.encoding.schema import Field

# Strengths of regularisation, for targets that are scaled to a range of one.
GAMMAS = (1e-4, 1e-3, 0.03, 0.3)
CLASS_GAMMAS = (1e-3, 0.03, 1.0)
# Numbers of rows above which networks are wider and trained longer, two gammas or one are enough, and two folds of ten
# are held out.
WIDER, TWO_GAMMAS, ONE_GAMMA, TWO_FOLDS = 3_000, 10_000, 50_000, 200_000
# Number of classes from which networks are narrower.
MANY_CLASSES = 6
# The logarithm of the target is learnt as well if the ratio of its 99 % and 1 % quantiles is at least this.
LOG_SPREAD = 3.0


@dataclass(frozen=True, slots=True)
class Family:
    """Short fits that differ only in gamma and the random start.

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
        True if the networks learn the logarithm of the target.
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


def suits_logarithm(y: FloatArray) -> bool:
    """Return whether a target is positive and spans a range wide enough for its logarithm."""
    if y.min() <= 0.0:
        return False
    low, high = np.quantile(y, [0.01, 0.99])
    return bool(high >= LOG_SPREAD * low)


def count_folds(n_rows: int, quality: str) -> tuple[int, int]:
    """Return the number of folds, and how many of them are held out in turn."""
    if n_rows > TWO_FOLDS:
        return 10, 4 if quality == "high" else 2
    number = min(10 if quality == "high" else 5, n_rows)
    return number, number


def _choose_gammas(gammas: tuple[float, ...], n_rows: int) -> tuple[float, ...]:
    # With many rows, networks of different gammas differ less.
    return gammas[1:2] if n_rows > ONE_GAMMA else gammas[1:3] if n_rows > TWO_GAMMAS else gammas


def choose_regression_families(fields: Sequence[Field], y: FloatArray) -> list[Family]:
    """Return the families for a regression, the most useful first."""
    many, gammas = len(y) > WIDER, _choose_gammas(GAMMAS, len(y))
    # Shrinkage is a prior that does not fade with more rows: small tables need it, large ones do better without it.
    linear = Family("linear", Coding(), *((0.0, 100, 400) if many else (0.3, 50, 200)), gammas)
    ramps = Family("ramps", Coding(6), 0.3, 50, 150 if many else 100, gammas)
    knots = Family("knots", Coding(16, every_value=True), 1.0, *((20, 100) if many else (30, 60)), gammas)
    families = [knots, linear, ramps]
    if suits_logarithm(y):
        families.append(replace(knots, name="knots of log", log_target=True))
    if _has_many_levels(fields):
        families.append(replace(ramps, name="ramps by target", coding=Coding(6, by_target=True)))
        families.append(replace(linear, name="linear by target", coding=Coding(by_target=True), shrinkage=0.0))
    return families


def choose_classification_families(fields: Sequence[Field], n_rows: int, n_classes: int) -> list[Family]:
    """Return the families for a classification, the most useful first."""
    many, by_target = n_classes >= MANY_CLASSES, _has_many_levels(fields)
    gammas = CLASS_GAMMAS[1:] if many or n_rows > TWO_GAMMAS else CLASS_GAMMAS
    n_hidden = 20 if many else 50
    ramps = Family("ramps", Coding(6, by_target=by_target), 0.3, n_hidden, 100, gammas)
    linear = Family("linear", Coding(by_target=by_target), 3.0, n_hidden, 200, gammas)
    knots = Family("knots", Coding(16, every_value=True, by_target=by_target), 1.0, min(n_hidden, 30), 60, gammas)
    has_categories = any(field.is_category for field in fields)
    return [ramps, linear, knots] if has_categories else [ramps, linear]
