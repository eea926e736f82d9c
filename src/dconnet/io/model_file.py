"""Fitted estimators in model files: JSON that holds no code, is checked completely, and replaces a file atomically."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dconnet import __version__
from dconnet._files import write_bytes_atomically
from dconnet.io.object_codec import Content, ObjectEntry, decode, encode
from dconnet.io.stored_estimators import ATTRIBUTES, check_prediction, registry, require

FORMAT, VERSION = "dconnet-model", 1


@dataclass(frozen=True, slots=True)
class Metadata:
    """Names, scores and origin of a model, as ``metadata_`` of the estimator that `dconnet.load` returns.

    Attributes
    ----------
    feature_names : tuple of str
        Columns of the table that the model takes, in their order.
    target_names : tuple of str
        Columns that the model predicts.
    scores : mapping of str to mapping of str to float
        Measures by part of the data, for example ``{"test": {"n_rows": 50, "r2": 0.9, "mse": 0.1}}``.
    version : str
        The version of dconnet that saved the model.
    created : str
        When the model was saved first, in UTC, such as "2026-01-31T12:00:00Z"; empty if it was never saved.
    description : str
        A text of your own.
    """

    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    version: str = __version__
    created: str = ""
    description: str = ""


def metadata_of(estimator: Any) -> Metadata:
    """Return ``metadata_`` of a fitted estimator, or metadata with the names that the estimator has seen in `fit`.

    Features without names are called x0, x1, ... and a target without a name y; several targets are y0, y1, ...
    """
    if hasattr(estimator, "metadata_"):
        return estimator.metadata_
    first, last = (estimator[0], estimator[-1]) if hasattr(estimator, "steps") else (estimator, estimator)
    features = getattr(first, "feature_names_in_", [f"x{j}" for j in range(first.n_features_in_)])
    targets = getattr(last, "target_names_in_", None)
    if targets is None:
        n_targets = getattr(getattr(last, "targets_", None), "n_targets", 1)
        targets = ["y"] if n_targets == 1 else [f"y{k}" for k in range(n_targets)]
    return Metadata(tuple(map(str, features)), tuple(map(str, targets)))


class _ModelFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: str
    version: int
    metadata: Metadata
    objects: list[ObjectEntry]
    blocks: list[bytes]


class _Header(msgspec.Struct, frozen=True):
    format: str
    version: int


def save(
    estimator: Any,
    path: str | os.PathLike[str],
    *,
    feature_names: Sequence[str] | None = None,
    target_names: Sequence[str] | None = None,
    scores: Mapping[str, Mapping[str, float]] | None = None,
    description: str | None = None,
) -> None:
    """Write a fitted estimator to a model file.

    The file is JSON without code. An existing file is replaced when the new one is complete. Parameters that a file
    cannot hold, such as a callback or an open RandomState, are stored as their defaults. The training data are not
    stored.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator of dconnet, or a `sklearn.pipeline.Pipeline` of them, such as a `TableEncoder` and a
        `DCONRegressor`. For pipelines with other steps use skops or joblib.
    path : path-like
        The file, for example "model.json".
    feature_names, target_names : sequence of str, optional
        Names for ``metadata_``. By default those that the estimator has seen in `fit`, or x0, x1, ... and y.
    scores : mapping of str to mapping of str to float, optional
        Measures by part of the data, such as ``{"test": {"r2": 0.9}}``.
    description : str, optional
        A text of your own.

    Raises
    ------
    ValueError
        If the estimator, or one of its parts, cannot be stored.
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import dconnet
    >>> X = np.linspace(-1, 1, 30).reshape(-1, 1)
    >>> model = dconnet.DCONRegressor(n_hidden=3, tol=1e-3, random_state=0).fit(X, np.abs(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dconnet.save(model, Path(folder) / "model.json", target_names=["height"])
    ...     loaded = dconnet.load(Path(folder) / "model.json")
    >>> bool(np.array_equal(loaded.predict(X), model.predict(X)))
    True
    >>> loaded.metadata_.target_names
    ('height',)
    """
    _check_supported(estimator)
    check_is_fitted(estimator)
    given: dict[str, Any] = {
        "feature_names": None if feature_names is None else tuple(map(str, feature_names)),
        "target_names": None if target_names is None else tuple(map(str, target_names)),
        "scores": None if scores is None else {part: dict(measures) for part, measures in scores.items()},
        "description": description,
    }
    known = metadata_of(estimator)
    metadata = replace(
        known,
        **{name: value for name, value in given.items() if value is not None},
        version=__version__,
        created=known.created or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    try:
        _check_metadata(metadata, estimator)
        content = encode(registry(), estimator)
    except ValueError as error:
        raise ValueError(f"The {type(estimator).__name__} cannot be saved: {error}.") from error
    file = _ModelFile(FORMAT, VERSION, metadata, content.objects, content.blocks)
    with write_bytes_atomically(path) as stream:
        stream.write(msgspec.json.encode(file))


def load(path: str | os.PathLike[str]) -> Any:
    """Read a fitted estimator from a model file; it predicts to the same bits as the estimator that was saved.

    The file is checked before anything is built from it, so that files of unknown origin are safe to load.

    Parameters
    ----------
    path : path-like
        A file that `save` or ``dconnet fit`` wrote.

    Returns
    -------
    estimator
        The fitted estimator or pipeline. Its attribute ``metadata_`` has the names of features and targets, scores,
        version and time.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is not a valid model file.
    """
    content = Path(path).read_bytes()
    try:
        return _decode(content)
    except ValueError as error:
        raise ValueError(f"{path} is not a valid model file: {error}.") from error


def _decode(content: bytes) -> Any:
    try:
        header = msgspec.json.decode(content, type=_Header)
        require(header.format == FORMAT, f"its format is {header.format!r:.40} and not {FORMAT!r}")
        require(
            header.version == VERSION,
            f"it has version {header.version} of the format, but dconnet {__version__} reads version {VERSION}",
        )
        file = msgspec.json.decode(content, type=_ModelFile)
        # msgspec keeps the last of two members of the same name: what it has kept then has fewer members.
        require(
            _count_members(content) == _count_members(msgspec.json.encode(file)),
            "a name is unknown or occurs twice in an object",
        )
        estimator = decode(registry(), Content(file.objects, file.blocks))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, MemoryError) as error:
        raise ValueError(str(error) or type(error).__name__) from error
    require(isinstance(estimator, (*ATTRIBUTES, Pipeline)), f"it holds a {type(estimator).__name__}, not an estimator")
    _check_metadata(file.metadata, estimator)
    check_prediction(estimator)
    estimator.metadata_ = file.metadata
    return estimator


def _check_supported(estimator: Any) -> None:
    steps = estimator.steps if type(estimator) is Pipeline else [("", estimator)]
    for name, step in steps:
        if type(step) not in ATTRIBUTES:
            where = f"The step {name!r} of the pipeline" if name else "The estimator"
            raise ValueError(
                f"{where} is a {type(step).__name__}, which a model file cannot hold. Save it with skops or joblib."
            )


def _check_metadata(metadata: Metadata, estimator: Any) -> None:
    first, last = (estimator[0], estimator[-1]) if isinstance(estimator, Pipeline) else (estimator, estimator)
    n_features, n_targets = first.n_features_in_, getattr(getattr(last, "targets_", None), "n_targets", 1)
    n_names = len(metadata.feature_names), len(metadata.target_names)
    require(n_names[0] == n_features, f"it has {n_features} features, but {n_names[0]} feature names")
    require(n_names[1] == n_targets, f"it has {n_targets} targets, but {n_names[1]} target names")
    measures = [value for own in metadata.scores.values() for value in own.values()]
    require(all(map(math.isfinite, measures)), "a score is not finite")


def _count_members(content: bytes) -> int:
    """Return the number of ``"name": value`` pairs in JSON, which is the number of colons outside of strings."""
    outside = content.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2]
    return sum(part.count(b":") for part in outside)
