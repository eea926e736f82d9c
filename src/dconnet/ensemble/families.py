"""Families of networks and of boosted trees, and the families that suit a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.encoding.coder import FEW_LEVELS, Coding
from dconnet.encoding.schema import Field
from dconnet.ensemble.screening import Screening

# Strengths of regularisation, for targets that are scaled to a range of one.
GAMMAS = (1e-4, 1e-3, 0.03, 0.3)
CLASS_GAMMAS = (1e-3, 0.03, 1.0)
# Numbers of rows above which networks are wider and trained longer, two gammas are enough, and one gamma is enough and
# two folds of ten are held out.
WIDER, TWO_GAMMAS, ONE_GAMMA = 3_000, 10_000, 50_000
# Number of rows below which the rows of a regression are dealt to folds twice; classifications gain nothing by it.
FEW_ROWS = 1_000
# Number of classes from which networks are narrower.
MANY_CLASSES = 6
# The logarithm of the target is learnt as well if the ratio of its 99 % and 1 % quantiles is at least this.
LOG_SPREAD = 3.0
# A table with more than MAX_FIELDS fields is wide: families use only the best fields, so that rows times fields is at
# most about MAX_CELLS, but at least MIN_FIELDS of them.
MAX_FIELDS, MIN_FIELDS, MAX_CELLS = 200, 50, 100_000
# If at most MAX_ASSOCIATED of at least NOISY fields are associated with the target, some families use only these.
NOISY, MAX_ASSOCIATED = 20, 0.5
# Leaves of boosted trees and rounds of boosting: in general, and for a regression with more than WIDER rows. With more
# than ONE_GAMMA rows, large trees find interactions, and small trees sums of curves.
TREE_SIZE, MANY_ROWS_SIZE, LARGE_TREE_SIZE, SMALL_TREE_SIZE = (15, 100), (15, 400), (31, 200), (7, 800)


@dataclass(frozen=True, slots=True)
class Family:
    """Short fits of networks that differ only in gamma and the random start.

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
    screening : Screening or None
        Which fields are used; None for all.
    """

    name: str
    coding: Coding
    shrinkage: float
    n_hidden: int
    evaluations: int
    gammas: tuple[float, ...]
    log_target: bool = False
    screening: Screening | None = None

    @property
    def settings(self) -> tuple[str, ...]:
        """What distinguishes the members, in words."""
        size = f"{self.n_hidden} neurons, {self.evaluations} evaluations"
        return tuple(f"gamma {gamma:g}, {size}" for gamma in self.gammas)

    @property
    def cost(self) -> float:
        """The work of a fit, in arbitrary units."""
        return float(self.n_hidden * self.evaluations * len(self.gammas))


@dataclass(frozen=True, slots=True)
class TreeFamily:
    """Boosted trees.

    Attributes
    ----------
    name : str
    n_leaves, n_rounds : int
        Leaves of a tree, and rounds of boosting.
    screening : Screening or None
        Which fields are used; None for all.
    """

    name: str
    n_leaves: int
    n_rounds: int
    screening: Screening | None = None

    log_target: ClassVar[bool] = False

    @property
    def settings(self) -> tuple[str, ...]:
        """What distinguishes the members, in words."""
        return (f"{self.n_rounds} rounds, trees of {self.n_leaves} leaves",)

    @property
    def cost(self) -> float:
        """The work of a fit, in arbitrary units."""
        return 10.0 * self.n_leaves * self.n_rounds


@dataclass(frozen=True, slots=True)
class ConstantFamily:
    """The mean of the target: the member with most of the weight if no column predicts the target."""

    name: ClassVar[str] = "constant"
    settings: ClassVar[tuple[str, ...]] = ("mean of the target",)
    cost: ClassVar[float] = 0.0
    log_target: ClassVar[bool] = False


AnyFamily = Family | TreeFamily | ConstantFamily


def _screen(
    families: list[Family | TreeFamily], n_rows: int, n_fields: int, n_associated: int
) -> list[Family | TreeFamily]:
    """Restrict families to the best fields of a wide table, and add strict copies of two if most fields are noise."""
    most, strict = int(np.clip(MAX_CELLS // n_rows, MIN_FIELDS, MAX_FIELDS)), list[Family | TreeFamily]()
    if n_fields >= NOISY and n_associated <= MAX_ASSOCIATED * n_fields:
        strict = [
            replace(family, name=f"{family.name} screened", screening=Screening(most, is_strict=True))
            for family in families
            if family.name in ("linear", "ramps")
        ]
    if n_fields > MAX_FIELDS:
        families = [replace(family, screening=Screening(most)) for family in families]
    return families + strict


def _has_many_levels(fields: Sequence[Field]) -> bool:
    return any(field.n_levels > FEW_LEVELS for field in fields)


def suits_logarithm(y: FloatArray) -> bool:
    """Return whether a target is positive and spans a range wide enough for its logarithm."""
    if y.min() <= 0.0:
        return False
    low, high = np.quantile(y, [0.01, 0.99])
    return bool(high >= LOG_SPREAD * low)


def count_folds(n_rows: int, quality: str, *, is_regression: bool) -> tuple[int, int, int]:
    """Return the number of folds, how many of them are held out in turn, and how often the rows are dealt."""
    if n_rows > ONE_GAMMA:
        return 10, 4 if quality == "high" else 2, 1
    number = min(10 if quality == "high" else 5, n_rows)
    return number, number, 2 if is_regression and n_rows < FEW_ROWS else 1


def _choose_trees(n_rows: int, *, is_regression: bool) -> list[TreeFamily]:
    if n_rows > ONE_GAMMA:
        return [TreeFamily("boosting", *LARGE_TREE_SIZE), TreeFamily("boosting of small trees", *SMALL_TREE_SIZE)]
    return [TreeFamily("boosting", *(MANY_ROWS_SIZE if is_regression and n_rows > WIDER else TREE_SIZE))]


def _choose_gammas(gammas: tuple[float, ...], n_rows: int) -> tuple[float, ...]:
    # With many rows, networks of different gammas differ less.
    return gammas[1:2] if n_rows > ONE_GAMMA else gammas[1:3] if n_rows > TWO_GAMMAS else gammas


def choose_regression_families(fields: Sequence[Field], y: FloatArray, n_associated: int) -> list[AnyFamily]:
    """Return the families for a regression, the most useful first.

    ``n_associated`` is the number of fields that are associated with the target.
    """
    # Numbers of neurons are multiples of sixteen, which fill the widest vectors of a processor.
    many, gammas = len(y) > WIDER, _choose_gammas(GAMMAS, len(y))
    # Shrinkage is a prior that does not fade with more rows: small tables need it, large ones do better without it.
    # With very many rows, longer fits gain more than wider networks.
    size = (48, 800) if len(y) > ONE_GAMMA else (96, 400) if many else (48, 200)
    linear = Family("linear", Coding(), 0.0 if many else 0.3, *size, gammas)
    ramps = Family("ramps", Coding(6), 0.3, 48, 150 if many else 100, gammas)
    knots = Family("knots", Coding(16, every_value=True), 1.0, 32, 100 if many else 60, gammas)
    families: list[Family | TreeFamily] = [ramps, linear]
    if many:  # with fewer rows, boosted trees do the same as well
        families.append(knots)
    if suits_logarithm(y):
        families.append(replace(knots, name="knots of log", log_target=True))
    if _has_many_levels(fields):
        families.append(replace(ramps, name="ramps by target", coding=Coding(6, by_target=True)))
        families.append(replace(linear, name="linear by target", coding=Coding(by_target=True), shrinkage=0.0))
    if fields:
        families += _choose_trees(len(y), is_regression=True)
    return [*_screen(families, len(y), len(fields), n_associated), ConstantFamily()]


def choose_classification_families(
    fields: Sequence[Field], n_rows: int, n_classes: int, n_associated: int
) -> list[AnyFamily]:
    """Return the families for a classification, the most useful first.

    ``n_associated`` is the number of fields that are associated with the target.
    """
    many, by_target = n_classes >= MANY_CLASSES, _has_many_levels(fields)
    gammas = CLASS_GAMMAS[1:] if many or n_rows > TWO_GAMMAS else CLASS_GAMMAS
    ramps = Family("ramps", Coding(6, by_target=by_target), 0.3, 16 if many else 48, 100, gammas)
    linear = Family("linear", Coding(by_target=by_target), 3.0, 32 if many else 48, 200, gammas)
    if n_rows > ONE_GAMMA:  # one gamma each, and longer fits
        ramps, linear = replace(ramps, gammas=gammas[1:]), replace(linear, gammas=gammas[:1], evaluations=400)
    families: list[Family | TreeFamily] = [ramps, linear]
    if fields:
        families += _choose_trees(n_rows, is_regression=False)
    return [*_screen(families, n_rows, len(fields), n_associated)]
