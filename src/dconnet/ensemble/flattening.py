"""Fitted ensembles on columns of numbers as plain arrays, for export."""

from __future__ import annotations

from typing import Any

import numpy as np

from dconnet._arrays import FloatArray
from dconnet._text import printable
from dconnet.encoding.columns import LARGEST
from dconnet.encoding.design import MAX_SHARE, Linear, Ramps
from dconnet.encoding.schema import Schema
from dconnet.ensemble.fold_fits import AnyFit, FoldFit
from dconnet.ensemble.output_transforms import (
    MAX_LOG_ODDS,
    MIN_SCORE,
    ClassScore,
    LogTarget,
    OutputTransform,
    TargetValue,
)
from dconnet.ensemble.prediction import Ensemble
from dconnet.export.chain import Affine, Chain, ClassifierChain
from dconnet.export.flat_ensemble import FlatDesign, FlatEnsemble, FlatNetworks, FlatSlots, FlatTrees

UNBOUNDED = float(np.finfo(np.float64).max)
CONTENTS = {"category": "categories", "date": "dates", "text": "text"}

Columns = dict[tuple[float, ...], int]  # place of each column of a design, by the entries of `FlatDesign`


def flatten_ensemble(
    ensemble: Ensemble, schema: Schema, feature_names: tuple[str, ...], classes: tuple[Any, ...] | None
) -> FlatEnsemble:
    """Return an ensemble as arrays; a ValueError names the first column of the table that does not hold numbers."""
    for column in schema.columns:
        if column.kind != "number":
            raise ValueError(
                f"Column {printable(column.name)!r} holds {CONTENTS[column.kind]}, and only an ensemble whose columns "
                "are all numbers can be exported. Leave the column out, or export the network that distil returns."
            )
    # The second field of a column marks missing values. Without fields, a member still needs an input to ignore.
    fields = [(j, k == 1) for j, own in enumerate(schema.columns) for k in range(len(own.fields(j)))] or [(0, True)]
    columns: Columns = {(0.0, 0.0, 0.0, 1.0, 0.0, 0.0): 0}
    folds = tuple(
        tuple(_flatten_fit(fit, len(fields), columns) for fit in fits)
        for fits in zip(*(family.folds for family in ensemble.fits), strict=True)
    )
    field, *others = np.array(list(columns)).T
    first = ensemble.fits[0].folds[0]
    n_columns = first.intercept.shape[1] if isinstance(first, FoldFit) else first.trees.roots.shape[1]
    scales = [_scale(transform) for family in ensemble.fits for transform in family.transforms]
    slots = np.array(scales).repeat(n_columns, axis=0).T
    combination = Affine(
        np.kron(ensemble.weights, np.eye(n_columns)),
        np.zeros(n_columns) if ensemble.intercepts is None else ensemble.intercepts,
    )
    scores = Chain((combination,))
    if classes is not None:
        scores = scores.with_names((), classes if n_columns > 1 else classes[1:])
    return FlatEnsemble(
        len(schema.columns),
        feature_names,
        np.array([j for j, _ in fields]),
        np.array([is_indicator for _, is_indicator in fields]),
        float(LARGEST),
        FlatDesign(field.astype(np.intp), *others),
        folds,
        FlatSlots(slots[0], slots[1], slots[2] > 0.0, *slots[3:]),
        scores if classes is None else ClassifierChain(scores, classes, Affine.identity(n_columns)),
    )


def _scale(transform: OutputTransform) -> tuple[float, ...]:
    """Return the entries of `FlatSlots` for one slot."""
    if isinstance(transform, TargetValue):
        return transform.low, transform.high, 0.0, 0.0, transform.low, transform.high
    if isinstance(transform, LogTarget):
        low, high = float(np.log(transform.low)), float(np.log(transform.high))
        return low, high, 0.0, transform.factor, transform.low, transform.high
    if isinstance(transform, ClassScore):
        return MIN_SCORE, 1.0 - MIN_SCORE, 1.0, 0.0, -UNBOUNDED, UNBOUNDED
    return -MAX_LOG_ODDS, MAX_LOG_ODDS, 0.0, 0.0, -UNBOUNDED, UNBOUNDED


def _flatten_fit(fit: AnyFit, n_fields: int, columns: Columns) -> FlatNetworks | FlatTrees:
    """Return networks or trees as arrays; append to ``columns`` what the networks need."""
    own = np.array(fit.coder.plain, dtype=np.intp)
    if isinstance(fit, FoldFit):
        U = fit.U.reshape(-1, *fit.U.shape[2:])
        keys = _design_columns(fit)
        if not keys:
            keys, U = [next(iter(columns))], np.concatenate([np.zeros_like(U), U], axis=1)
        places = np.array([columns.setdefault(key, len(columns)) for key in keys])
        return FlatNetworks(places, U, fit.alpha.reshape(len(U), -1), fit.intercept.ravel())
    trees = fit.trees
    left, right = trees.children.T.astype(np.intp)
    is_leaf = left == np.arange(len(left))
    goes_right, place = np.divmod(trees.columns, len(own))
    return FlatTrees(
        own[place] + n_fields * goes_right,
        np.where(is_leaf, trees.values, trees.thresholds),
        left,
        right,
        trees.roots.astype(np.intp),
        trees.baseline,
    )


def _design_columns(fit: FoldFit) -> list[tuple[float, ...]]:
    """Return the entries of `FlatDesign` for each column, in the order of the hidden weights."""
    pairs = sorted(zip(fit.coder.features, fit.coder.plain, strict=True), key=lambda pair: pair[0].kind)
    keys = list[tuple[float, ...]]()
    for feature, field in pairs:
        if isinstance(feature, Linear):
            keys.append((field, feature.fill, feature.center, feature.scale, -MAX_SHARE, MAX_SHARE))
            continue
        assert isinstance(feature, Ramps)
        # A ramp is zero before its bin and one after it; the outer ramps continue beyond their bins.
        low, high = np.zeros(feature.n_columns), np.ones(feature.n_columns)
        low[0], high[-1] = -MAX_SHARE, MAX_SHARE
        edges: FloatArray = feature.edges
        entries = np.column_stack([edges[:-1], np.diff(edges), low, high]).tolist()
        keys += [(field, feature.fill, *entry) for entry in entries]
    return keys
