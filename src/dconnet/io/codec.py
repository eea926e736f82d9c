"""The model file as JSON: its schema, checked by msgspec, and the way from a model to its text and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from dconnet.io.encodings import EncodingEntry, encoding_entries, encoding_of
from dconnet.io.entries import Count, Entry, NotNegative, Scale, Weight
from dconnet.io.model_file import FORMAT, OUTPUTS_VERSION, TABLE_VERSION, VERSION, SavedModel
from dconnet.io.parts import Label, Scaling, Score, Setting, Training
from dconnet.model.calibration import Calibration
from dconnet.model.coordinates import Coordinates
from dconnet.model.network import Network
from dconnet.training.result import Status

if TYPE_CHECKING:
    from dconnet.io.ensemble import SavedEnsemble

# Files of auto estimators have a version of their own, by which a dconnet that knows none of them says so.
ENSEMBLE_VERSION = 2
ENSEMBLES = ("auto-regressor", "auto-classifier")


class _Header(Struct):
    """What tells whether a file can be read here; other entries are ignored."""

    format: Any = None
    version: Any = None
    kind: Any = None

    @property
    def is_ensemble(self) -> bool:
        """Whether the file claims to hold an auto estimator."""
        return self.kind in ENSEMBLES


class _Scaling(Entry, frozen=True):
    mean: list[Weight]
    scale: list[Scale]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.scale):
            raise ValueError("`mean` and `scale` differ in length")


class _Features(_Scaling, frozen=True):
    names: list[str]


class _Number(_Scaling, frozen=True):
    name: str
    names: list[str] | UnsetType = UNSET  # of several targets


class Class(Entry, frozen=True):
    """A target with classes."""

    name: str
    classes: list[Label]


class _TargetScore(Entry, frozen=True):
    """The score of one of several targets."""

    mse: float | UnsetType = UNSET
    r2: float | UnsetType = UNSET


class ScoreEntry(_TargetScore, frozen=True, kw_only=True):
    """A score, with the measures that have a value."""

    rows: Count
    accuracy: float | UnsetType = UNSET
    log_loss: float | UnsetType = UNSET
    each: list[_TargetScore] | UnsetType = UNSET

    def score(self) -> Score:
        """The score that the entry stands for."""
        entries = msgspec.to_builtins(self)
        each = tuple(Score(rows=self.rows, **own) for own in entries.pop("each", ()))
        return Score(**entries, each=each)


class _Training(Entry, frozen=True):
    status: str
    message: str
    objective: float
    stationarity: float | None
    objectives: list[float]
    gamma: Scale | UnsetType = UNSET  # files of dconnet 0.2 have neither this nor the intercept of a network
    output_scale: list[Scale] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.status not in Status.__members__:
            raise ValueError(f"Unknown status {self.status!r:.40}")


class _Network(Entry, frozen=True):
    W: Annotated[list[list[Weight]], Meta(min_length=1)]
    b: list[Weight]
    alpha: list[Weight | list[Weight]]  # lists for a network with several outputs
    intercept: Weight | list[Weight] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if len({len(row) for row in self.W}) > 1:
            raise ValueError("the rows of `W` differ in length")
        if len({len(row) if isinstance(row, list) else None for row in self.alpha}) > 1 or [] in self.alpha:
            raise ValueError("the entries of `alpha` differ in their number of outputs, or have none")
        if not len(self.W) == len(self.b) == len(self.alpha):
            raise ValueError("`W`, `b` and `alpha` differ in length")


class _Calibration(Entry, frozen=True):
    slope: Scale
    offset: Weight


class _Model(Entry, frozen=True, kw_only=True, tag_field="kind"):
    format: Literal["dconnet-model"]
    version: Literal[1, 3, 4]
    features: _Features
    encoding: EncodingEntry | UnsetType = UNSET  # with version 3
    coordinates: _Scaling | UnsetType = UNSET  # not in files of dconnet 0.2, nor without scale=True
    settings: dict[str, Setting]
    scores: dict[str, ScoreEntry]
    trainings: list[_Training]
    networks: list[_Network]


class _Regressor(_Model, frozen=True, kw_only=True, tag="regressor"):
    target: _Number


class _Classifier(_Model, frozen=True, kw_only=True, tag="classifier"):
    target: Class
    calibration: _Calibration | UnsetType = UNSET  # not in files of dconnet 0.2
    class_weights: list[NotNegative] | UnsetType = UNSET


def encode(model: SavedModel) -> str:
    """The text of the model file.

    Raises
    ------
    ValueError
        If the text could not be read back, as with a weight beyond `LARGEST`.
    """
    content = {
        "format": FORMAT,
        "version": _version(model),
        "kind": model.kind,
        "features": {"names": list(model.feature_names), **_lists(model.feature_scaling)},
        **({} if model.encoding is None else {"encoding": encoding_entries(model.encoding)}),
        "target": {
            "name": model.target_name,
            **({"names": list(model.target_names)} if model.target_names else {}),
            **(_lists(model.target_scaling) if model.classes is None else {"classes": list(model.classes)}),
        },
        "settings": dict(model.settings),
        "scores": {part: score.to_dict() for part, score in model.scores.items()},
        **({} if model.calibration is None else {"calibration": asdict(model.calibration)}),
        **({} if model.class_weights is None else {"class_weights": list(model.class_weights)}),
        **({} if model.coordinates is None else {"coordinates": _lists(model.coordinates)}),
        "trainings": [_training_entries(training) for training in model.trainings],
        "networks": [_network_entries(network) for network in model.networks],
    }
    return written(content)


def written(content: dict[str, Any], read: Callable[[bytes], object] | None = None) -> str:
    """The entries of a model file as its text.

    Raises
    ------
    ValueError
        If the text could not be read back.
    """
    # json and not msgspec, which writes NaN as null. A line for each entry keeps the file readable.
    entries = [f" {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in content.items()]
    text = "{\n" + ",\n".join(entries) + "\n}\n"
    try:
        (read or decode)(text.encode())
    except ValueError as error:
        raise ValueError(f"The model cannot be saved: {error}") from error
    return text


def decode(content: bytes) -> SavedModel | SavedEnsemble:
    """The model that the content of a model file describes.

    Raises
    ------
    ValueError
        If it is not a valid model file; the message names the faulty entry.
    """
    try:
        header = msgspec.json.decode(content, type=_Header)
        _check_header(header)
        if header.kind == "estimator":
            raise ValueError("it holds an estimator: read it with dconnet.io.estimators.load_estimator.")
        if header.is_ensemble:
            return _decode_ensemble(content)
        found = msgspec.json.decode(content, type=_Regressor | _Classifier)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        refuse(error)
    # msgspec keeps the last of two members of the same name, and what it kept has fewer members than the file.
    if count_members(content) != count_members(msgspec.json.encode(found)):
        raise ValueError("it has two members of the same name.")
    target_scaling, classes = _target(found.target)
    return SavedModel(
        feature_names=tuple(found.features.names),
        target_name=found.target.name,
        target_names=_target_names(found.target),
        networks=tuple(Network(**msgspec.to_builtins(network)) for network in found.networks),
        trainings=tuple(map(_training, found.trainings)),
        feature_scaling=Scaling(found.features.mean, found.features.scale),
        target_scaling=target_scaling,
        classes=classes,
        settings=found.settings,
        scores={part: entry.score() for part, entry in found.scores.items()},
        encoding=None if found.encoding is UNSET else encoding_of(found.encoding, found.features.names),
        calibration=_calibration(found),
        class_weights=_class_weights(found),
        coordinates=_coordinates(found),
    )


def _lists(scaling: Scaling | Coordinates) -> dict[str, Any]:
    return {item.name: getattr(scaling, item.name).tolist() for item in fields(scaling)}


def _network_entries(network: Network) -> dict[str, Any]:
    entries = {name: getattr(network, name).tolist() for name in ("W", "b", "alpha")}
    return entries | ({"intercept": np.asarray(network.intercept).tolist()} if np.any(network.intercept) else {})


def _training_entries(training: Training) -> dict[str, Any]:
    entries = asdict(training) | {"status": training.status.name}
    unknown = {name for name in ("gamma", "output_scale") if entries[name] is None}
    return {name: value for name, value in entries.items() if name not in unknown}


def _version(model: SavedModel) -> int:
    """The lowest version of the format that holds the model."""
    if any(network.alpha.ndim == 2 for network in model.networks):
        return OUTPUTS_VERSION
    return VERSION if model.encoding is None else TABLE_VERSION


def _target_names(found: _Number | Class) -> tuple[str, ...]:
    return () if isinstance(found, Class) or isinstance(found.names, UnsetType) else tuple(found.names)


def _target(found: _Number | Class) -> tuple[Scaling, tuple[Label, ...] | None]:
    if isinstance(found, Class):
        return Scaling.identity(1), tuple(found.classes)
    return Scaling(found.mean, found.scale), None


def _calibration(found: _Regressor | _Classifier) -> Calibration | None:
    if isinstance(found, _Regressor) or found.calibration is UNSET:
        return None
    return Calibration(found.calibration.slope, found.calibration.offset)


def _class_weights(found: _Regressor | _Classifier) -> tuple[float, ...] | None:
    if isinstance(found, _Regressor) or isinstance(found.class_weights, UnsetType):
        return None
    return tuple(found.class_weights)


def _coordinates(found: _Model) -> Coordinates | None:
    if isinstance(found.coordinates, UnsetType):
        return None
    return Coordinates(np.array(found.coordinates.mean), np.array(found.coordinates.scale))


def _training(found: _Training) -> Training:
    entries = msgspec.to_builtins(found)
    scale = None if isinstance(found.output_scale, UnsetType) else tuple(found.output_scale)
    read = {"status": Status[found.status], "objectives": tuple(found.objectives), "output_scale": scale}
    return Training(**entries | read)


def _decode_ensemble(content: bytes) -> SavedEnsemble:
    from dconnet.io.ensemble_codec import decode as decode_ensemble

    return decode_ensemble(content)


def _check_header(header: _Header) -> None:
    if header.format != FORMAT:
        raise ValueError(f'it is not a model file: there is no entry "format": "{FORMAT}".')
    known = (ENSEMBLE_VERSION,) if header.is_ensemble else (VERSION, TABLE_VERSION, OUTPUTS_VERSION)
    if header.kind == "estimator":
        known = (TABLE_VERSION,)
    if type(header.version) is not int or header.version not in known:
        raise ValueError(
            f"its format has version {header.version!r:.40}, but this dconnet reads version "
            f"{' or '.join(map(str, known))}. A newer dconnet may read it: pip install --upgrade dconnet"
        )


def refuse(error: Exception) -> NoReturn:
    """Raise a ValueError that says what is wrong with the file."""
    if isinstance(error, msgspec.ValidationError):
        raise ValueError(f"it is not a valid model file: {error}.") from error
    if isinstance(error, UnicodeDecodeError):
        raise ValueError("it is not text in UTF-8.") from error
    if isinstance(error, RecursionError):
        raise ValueError("its entries are nested too deeply.") from error
    raise ValueError(f"it is not JSON ({error}).") from error


def count_members(content: bytes) -> int:
    """Number of ``"name": value`` pairs in JSON: the colons outside of strings."""
    outside = content.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2]
    return sum(part.count(b":") for part in outside)
