"""Fitted estimators in files, alone or in pipelines of known steps: what is saved loads back as an estimator.

The file is JSON and holds names and numbers only. Objects are of a closed table of kinds, and nothing in the file
decides what is imported or called. Of scikit-learn's transformers, the file keeps the parameters and the public fitted
attributes; `dconnet.io.steps` makes the rest anew, so that a file outlives changes inside of scikit-learn.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_selector
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dconnet import estimators
from dconnet._text import printable
from dconnet.convex.native import Native
from dconnet.convex.reference import Reference
from dconnet.estimators.auto import AutoDCONClassifier, AutoDCONRegressor
from dconnet.estimators.base import DCONEstimator
from dconnet.estimators.data import ClassWeights
from dconnet.estimators.table_encoder import TableEncoder
from dconnet.estimators.units import Units
from dconnet.io import vectorizer
from dconnet.io.codec import _check_header, _Header, count_members, refuse, written
from dconnet.io.encodings import EncodingEntry, encoding_entries, encoding_of
from dconnet.io.ensemble import KINDS, Fitted, SavedEnsemble
from dconnet.io.entries import Entry
from dconnet.io.model_file import FORMAT, MAX_BYTES, TABLE_VERSION, _read, write_model
from dconnet.io.objects import Packed
from dconnet.io.steps import SEEN, STEPS
from dconnet.io.values import Kind, Reader, Writer
from dconnet.model.calibration import Calibration
from dconnet.model.coordinates import Coordinates
from dconnet.model.network import Network
from dconnet.model.stack import Stack
from dconnet.model.targets import Targets
from dconnet.training.result import Epoch, History, Solution, Status

KIND = "estimator"
# Records of the parameters of the last fit, in which an object that has no place in a file is no fault.
RECORDS = ("_fitted_params", "_settings")
# A function is code, and a file must not decide where files are written.
NOT_KEPT = ("_sklearn_version", "_skl_callbacks", "callback", "checkpoint")


class _EstimatorFile(Entry, frozen=True, kw_only=True):
    format: Literal["dconnet-model"]
    version: Literal[3]
    kind: Literal["estimator"]
    packages: dict[str, str]
    objects: list[Any]


def save_estimator(estimator: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator, or a pipeline of known steps, to a file from which it loads back.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator of this package, or a Pipeline, ColumnTransformer or TransformedTargetRegressor that is made
        of these and of `TableEncoder`, StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, SimpleImputer,
        OneHotEncoder, OrdinalEncoder and FunctionTransformer, and of skrub's TableVectorizer if no column went through
        an encoder of texts.
    path : str or path-like
        The file, which is written whole or not at all.

    Raises
    ------
    TypeError
        If there is a step or a parameter that a file cannot hold; the message names it.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from dconnet import DCONRegressor
    >>> from dconnet.io.estimators import load_estimator, save_estimator
    >>> X = np.linspace(-1, 1, 30).reshape(-1, 1)
    >>> model = make_pipeline(StandardScaler(), DCONRegressor(3, tol=1e-3, random_state=0)).fit(X, np.abs(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_estimator(model, Path(folder) / "model.json")
    ...     again = load_estimator(Path(folder) / "model.json")
    >>> bool(np.array_equal(again.predict(X), model.predict(X)))
    True
    >>> again[-1].status_.name
    'CONVERGED'
    """
    if not isinstance(estimator, BaseEstimator):
        raise TypeError(f"save_estimator takes a fitted estimator, not a {type(estimator).__name__}.")
    check_is_fitted(estimator)
    writer = Writer(_kinds(), _unknown)
    writer.value(estimator, type(estimator).__name__)
    content = {
        "format": FORMAT,
        "version": TABLE_VERSION,
        "kind": KIND,
        "packages": _packages(),
        "objects": writer.objects,
    }
    write_model(written(content, _decoded), path)


def load_estimator(path: str | os.PathLike[str], *, max_bytes: int | None = MAX_BYTES) -> Any:
    """Read an estimator that `save_estimator` has written.

    Files that `save_model` or ``dconnet fit`` have written are read, too; see `SavedModel.to_estimator` for what those
    of networks know.

    Parameters
    ----------
    path : str or path-like
        The file.
    max_bytes : int or None
        Largest size of a file that is read; None for no limit.

    Returns
    -------
    estimator
        The fitted estimator, with its parameters and fitted attributes.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is not such a file, or too large; the message names the file and the fault.
    """
    path = Path(path)
    try:
        return _decoded(_read(path, max_bytes))
    except ValueError as error:
        raise ValueError(f"Cannot load the estimator of {path.name}: {printable(error):.300}") from error


def _packages() -> dict[str, str]:
    """Who has written the file, for people."""
    import sklearn

    import dconnet

    return {"dconnet": dconnet.__version__, "scikit-learn": sklearn.__version__}


def _decoded(content: bytes) -> Any:
    try:
        header = msgspec.json.decode(content, type=_Header)
        if header.format == FORMAT and header.kind != KIND:
            return _of_model_file(content)
        _check_header(header)
        found = msgspec.json.decode(content, type=_EstimatorFile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        refuse(error)
    if count_members(content) != count_members(msgspec.json.encode(found)):
        raise ValueError("it has two members of the same name.")
    needs_skrub = any(isinstance(each, dict) and each.get("kind") in vectorizer.NAMES for each in found.objects)
    reader = Reader(_kinds_with_skrub() if needs_skrub else _own_kinds())
    try:
        reader.objects(found.objects)
    except RecursionError as error:
        refuse(error)
    if not reader.made or not isinstance(reader.made[-1], BaseEstimator):
        raise ValueError("its last object is no estimator.")
    try:
        check_is_fitted(reader.made[-1])
    except NotFittedError as error:
        raise ValueError("its estimator is not fitted.") from error
    return reader.made[-1]


def _of_model_file(content: bytes) -> Any:
    from dconnet.io.codec import decode

    model = decode(content)
    return model.to_estimator()


def _unknown(item: Any, place: str) -> TypeError:
    name = f"{type(item).__module__}.{type(item).__qualname__}"
    if isinstance(item, BaseEstimator):
        known = ", ".join(sorted(kind for kind in _kinds() if issubclass(_kinds()[kind].cls, BaseEstimator)))
        return TypeError(
            f"A model file cannot hold the step {name} ({place}). It can hold {known}. TableEncoder prepares tables "
            "of all kinds; for other steps, use skops.io.dump, or pickle for files of your own."
        )
    return TypeError(f"A model file cannot hold a {name} ({place}). Use a plain value, or skops.io.dump or pickle.")


# --- the kinds of objects ---


def _kinds() -> Mapping[str, Kind]:
    """All kinds; those of skrub where it was imported, without which there is none of its objects."""
    return _kinds_with_skrub() if "skrub" in sys.modules else _own_kinds()


@cache
def _kinds_with_skrub() -> Mapping[str, Kind]:
    known = vectorizer.kinds()
    return {**_own_kinds(), **known, "TableVectorizer": _or_unfitted(known["TableVectorizer"])}


@cache
def _own_kinds() -> Mapping[str, Kind]:
    own = {cls.__name__: _estimator_kind(cls) for cls in _own_estimators() if issubclass(cls, DCONEstimator)}
    return {
        **{
            cls.__name__: _data_kind(cls)
            for cls in (Network, Solution, Targets, Units, Coordinates, Stack, Calibration, ClassWeights)
        },
        **{cls.__name__: _data_kind(cls) for cls in (Native, Reference)},
        "History": Kind(History, _columns_of, _history),
        "Status": Kind(Status, lambda status: {"name": status.name}, lambda own: Status[own["name"]]),
        "RandomState": Kind(np.random.RandomState, _state_of, _random_state),
        **{
            cls.__name__: Kind(cls, vars, partial(_made_of_parameters, cls))
            for cls in (KFold, StratifiedKFold, make_column_selector)
        },
        **{
            name: _or_unfitted(kind)
            for name, kind in {
                **own,
                **{cls.__name__: _auto_kind(cls) for cls in (AutoDCONRegressor, AutoDCONClassifier)},
                "TableEncoder": Kind(TableEncoder, _encoder_fields, _encoder),
                **STEPS,
            }.items()
        },
    }


def _or_unfitted(kind: Kind) -> Kind:
    """The same for estimators that are not fitted, as those that a ColumnTransformer was given."""

    def fields_of(estimator: Any) -> Mapping[str, Any]:
        try:
            check_is_fitted(estimator)
        except NotFittedError:
            return {"unfitted": _kept(estimator.get_params(deep=False))}
        return kind.fields(estimator)

    def made(own: dict[str, Any]) -> Any:
        return _without_paths(kind.cls(**own["unfitted"])) if list(own) == ["unfitted"] else kind.made(own)

    return kind if kind.cls is Pipeline else Kind(kind.cls, fields_of, made)


def _kept(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """What a file keeps of these: all but what belongs to the process and the machine of a fit."""
    return {name: value for name, value in attributes.items() if name not in NOT_KEPT}


def _without_paths(estimator: Any) -> Any:
    """The estimator without a checkpoint: a file must not decide where files are written."""
    if hasattr(estimator, "checkpoint"):
        estimator.checkpoint = None
    return estimator


def _own_estimators() -> list[type]:
    public = (getattr(estimators, name) for name in estimators.__all__)
    return [each for each in public if isinstance(each, type) and issubclass(each, BaseEstimator)]


def _data_kind(cls: type) -> Kind:
    """A dataclass, which checks its fields."""
    assert is_dataclass(cls)
    names = [each.name for each in fields(cls)]
    return Kind(cls, lambda item: {name: getattr(item, name) for name in names}, lambda own: cls(**own))


def _columns_of(history: History) -> dict[str, Any]:
    """A history as columns, which are shorter than epochs."""
    return {name: np.array(values) for name, values in history.to_dict().items()}


def _history(own: dict[str, Any]) -> History:
    columns = [values.tolist() for values in own.values()]
    return History([Epoch(**dict(zip(own, row, strict=True))) for row in zip(*columns, strict=True)])


def _state_of(generator: np.random.RandomState) -> dict[str, Any]:
    name, keys, place, has_gauss, gauss = generator.get_state(legacy=True)
    return {"name": name, "keys": keys, "place": place, "has_gauss": has_gauss, "gauss": gauss}


def _random_state(own: dict[str, Any]) -> np.random.RandomState:
    made = np.random.RandomState()
    if not 0 <= own["place"] <= 624:
        raise ValueError("the place lies outside of the numbers")
    made.set_state(("MT19937", own["keys"], own["place"], own["has_gauss"], own["gauss"]))
    return made


def _made_of_parameters(cls: Callable[..., Any], own: dict[str, Any]) -> Any:
    return cls(**own)


# --- the estimators with networks ---


def _estimator_kind(cls: type[DCONEstimator]) -> Kind:
    return Kind(cls, _state, partial(_restored, cls))


def _state(estimator: DCONEstimator) -> dict[str, Any]:
    state = _kept(vars(estimator))
    for record in RECORDS:
        if record in state:
            state[record] = {name: _if_plain(value) for name, value in state[record].items()}
    return state


def _if_plain(value: Any) -> Any:
    """The value, or the name of its class if a file cannot hold it."""
    try:
        Writer(_kinds(), _unknown).value(value, "")
    except TypeError:
        return type(value).__name__
    return value


def _restored(cls: type[DCONEstimator], state: dict[str, Any]) -> DCONEstimator:
    estimator: DCONEstimator = cls()
    names = set(estimator.get_params(deep=False))
    strange = [name for name in state if name not in names and _is_of_class(cls, name)]
    if strange:
        raise ValueError(f"it has no attribute {strange[0]!r:.40}")
    estimator.__dict__.update(state)
    _without_paths(estimator)._validate_params()
    _check_networks(estimator)
    return estimator


def _is_of_class(cls: type, name: str) -> bool:
    """Whether a name is that of a method or a property, which no attribute may hide."""
    own = getattr(cls, name, None)
    return callable(own) or isinstance(own, property) or not name.isidentifier()


def _check_networks(estimator: DCONEstimator) -> None:
    """Raise a ValueError unless the networks fit the features and the target."""
    solutions, targets = estimator.solutions_, estimator.targets_
    if not all(isinstance(solution, Solution) and isinstance(solution.network, Network) for solution in solutions):
        raise ValueError("its solutions hold no networks")
    outputs = sum(solution.network.n_outputs for solution in solutions)
    if targets.classes is not None and outputs != targets.n_columns:
        raise ValueError(f"{targets.n_columns} outputs are needed, but there are {outputs}")
    n_features = estimator.n_features_in_
    if type(n_features) is not int or n_features < 1:
        raise ValueError("there must be at least one feature")
    estimator._outputs(np.zeros((1, n_features)))  # which checks the sizes of all layers


# --- the auto estimators ---


def _auto_kind(cls: type) -> Kind:
    return Kind(cls, _auto_fields, partial(_auto, cls))


def _auto_fields(estimator: Any) -> dict[str, Any]:
    packed = KINDS.pack(Fitted.of(estimator))
    seen = {
        name: getattr(estimator, name) for name in (*SEEN, "oof_prediction_", "classes_") if hasattr(estimator, name)
    }
    return {
        "params": estimator.get_params(deep=False),
        "packed": msgspec.json.encode(packed).decode(),
        **seen,
    }


def _auto(cls: type, own: dict[str, Any]) -> Any:
    fitted = KINDS.unpack(msgspec.json.decode(own.pop("packed"), type=Packed))
    classes: Any = own.get("classes_")
    n_columns = len(fitted.schema.columns)
    saved = SavedEnsemble.restored(
        fitted,
        {},
        None if cls is AutoDCONRegressor else tuple(classes.tolist()),
        feature_names=tuple(map(str, range(n_columns))),
        target_name="y",
    )
    estimator = saved.estimator
    estimator.set_params(**own.pop("params"))
    estimator._validate_params()
    if own["n_features_in_"] != n_columns or set(own) - {*SEEN, "oof_prediction_", "classes_"}:
        raise ValueError("it has other attributes")
    estimator.__dict__.update(own)
    return estimator


# --- the encoder of tables ---


def _encoder_fields(encoder: TableEncoder) -> dict[str, Any]:
    return {
        "params": encoder.get_params(deep=False),
        "names": [column.name for column in encoder.encoding_.schema.columns],
        "encoding": encoding_entries(encoder.encoding_),
        **{name: getattr(encoder, name) for name in SEEN if hasattr(encoder, name)},
        "output": getattr(encoder, "_sklearn_output_config", {}).get("transform"),
    }


def _encoder(own: dict[str, Any]) -> TableEncoder:
    encoder = TableEncoder(**own["params"])
    encoder._validate_params()
    entry = msgspec.convert(own["encoding"], EncodingEntry)
    encoder.encoding_ = encoding_of(entry, own["names"])
    encoder.columns_ = encoder.encoding_.describe()
    if own["n_features_in_"] != len(own["names"]):
        raise ValueError("every feature needs a column")
    encoder.__dict__.update({name: own[name] for name in SEEN if name in own})
    if own["output"] is not None:
        encoder.set_output(transform=own["output"])
    return encoder


__all__ = ["load_estimator", "save_estimator"]
