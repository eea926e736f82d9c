"""The model file of an auto estimator: its schema for msgspec, encoding and decoding."""

from __future__ import annotations

import msgspec

from dconnet.io.codec import ENSEMBLE_VERSION, Class, ScoreEntry, count_members, refuse, written
from dconnet.io.ensemble import KINDS, Fitted, SavedEnsemble
from dconnet.io.entries import Entry
from dconnet.io.model_file import FORMAT
from dconnet.io.objects import ObjectEntry, Packed
from dconnet.io.parts import Setting


class _Number(Entry, frozen=True):
    name: str


class _Ensemble(Entry, frozen=True, tag_field="kind"):
    format: str
    version: int
    features: list[str]
    settings: dict[str, Setting]
    scores: dict[str, ScoreEntry]
    objects: list[ObjectEntry]
    blocks: list[bytes]


class _Regressor(_Ensemble, frozen=True, tag="auto-regressor"):
    target: _Number


class _Classifier(_Ensemble, frozen=True, tag="auto-classifier"):
    target: Class


def encode(model: SavedEnsemble) -> str:
    """The text of the model file.

    Raises
    ------
    ValueError
        If the text could not be read back.
    """
    try:
        packed = msgspec.to_builtins(KINDS.pack(Fitted.of(model.estimator)))
    except (TypeError, ValueError) as error:
        raise ValueError(f"The model cannot be saved: {error}") from error
    classes = {} if model.classes is None else {"classes": list(model.classes)}
    content = {
        "format": FORMAT,
        "version": ENSEMBLE_VERSION,
        "kind": f"auto-{model.kind}",
        "features": list(model.feature_names),
        "target": {"name": model.target_name, **classes},
        "settings": model.settings,
        "scores": {part: score.to_dict() for part, score in model.scores.items()},
        **packed,
    }
    return written(content)


def decode(content: bytes) -> SavedEnsemble:
    """The model that the content of a model file describes, whose header has been checked.

    Raises
    ------
    ValueError
        If it is not a valid model file; the message names the faulty entry.
    """
    try:
        found = msgspec.json.decode(content, type=_Regressor | _Classifier)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        refuse(error)
    if count_members(content) != count_members(msgspec.json.encode(found)):
        raise ValueError("it has two members of the same name.")
    try:
        fitted = KINDS.unpack(Packed(found.objects, found.blocks))
        if not isinstance(fitted, Fitted):
            raise ValueError("its last object is no ensemble.")
        return SavedEnsemble.restored(
            fitted,
            found.settings,
            tuple(found.target.classes) if isinstance(found, _Classifier) else None,
            feature_names=tuple(found.features),
            target_name=found.target.name,
            scores={part: entry.score() for part, entry in found.scores.items()},
        )
    except ValueError as error:
        raise ValueError(f"it is not a valid model file: {error}") from error
