"""The model file: a trained network with all that a prediction needs, as JSON that is safe to load.

The file holds names, numbers and nothing that could be executed. Loading checks every entry, so that a file
from a stranger gives either a model or a ValueError that names the fault. Numbers keep all their digits.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dconnet._arrays import FloatArray, frozen_copy
from dconnet.model.network import Network
from dconnet.model.targets import Targets, winning_classes
from dconnet.persistence.files import written_whole
from dconnet.persistence.json import Entry, Scalar, check, shown
from dconnet.training.result import Status

FORMAT = "dconnet-model"
VERSION = 1

Setting: TypeAlias = Scalar | None


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """Shift and scale of columns, ``(x - mean) / scale``.

    Parameters
    ----------
    mean : array-like of shape (n_columns,)
        What is subtracted.
    scale : array-like of shape (n_columns,)
        What is divided by, positive.

    Examples
    --------
    >>> from dconnet.persistence.model_file import Scaling
    >>> scaling = Scaling.of([[1.0, 5.0], [3.0, 5.0]])
    >>> scaling.apply([[1.0, 5.0], [3.0, 6.0]])
    array([[-1.,  0.],
           [ 1.,  1.]])
    """

    mean: FloatArray
    scale: FloatArray

    def __init__(self, mean: ArrayLike, scale: ArrayLike) -> None:
        object.__setattr__(self, "mean", frozen_copy(mean, name="mean", ndim=1))
        object.__setattr__(self, "scale", frozen_copy(scale, name="scale", ndim=1))
        if len(self.mean) != len(self.scale):
            raise ValueError(f"mean has {len(self.mean)} entries, but scale has {len(self.scale)}.")
        if not np.all(self.scale > 0.0):
            raise ValueError("scale must be positive.")

    @classmethod
    def of(cls, values: ArrayLike) -> Scaling:
        """The scaling that standardises the columns of ``values``; constant columns get scale one."""
        values = np.asarray(values, dtype=np.float64)
        scale = values.std(axis=0)
        # Rounding gives a constant column a tiny spread, which must not be blown up to one.
        constant = (np.ptp(values, axis=0) == 0.0) | (scale == 0.0)
        return cls(values.mean(axis=0), np.where(constant, 1.0, scale))

    @classmethod
    def identity(cls, n_columns: int) -> Scaling:
        """The scaling that changes nothing."""
        return cls(np.zeros(n_columns), np.ones(n_columns))

    def apply(self, values: ArrayLike) -> FloatArray:
        """Standardise values, of shape (n_samples, n_columns)."""
        return (np.asarray(values, dtype=np.float64) - self.mean) / self.scale

    def undo(self, values: ArrayLike) -> FloatArray:
        """Bring standardised values back to their units."""
        return self.mean + self.scale * np.asarray(values, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Training:
    """How one network was reached.

    Attributes
    ----------
    status : Status
        Why the training stopped.
    message : str
        The sentence of the status, with its figures.
    objective : float
        RegLoss of the network, in the scaled units of the training.
    stationarity : float or None
        Distance from a stationary point; None if it is not known.
    objectives : tuple of float
        RegLoss after each epoch, the start included.
    """

    status: Status
    message: str
    objective: float
    stationarity: float | None
    objectives: tuple[float, ...]

    @property
    def recorded_epochs(self) -> int:
        """Number of epochs in the record; one that a limit or an interrupt cut short counts, too."""
        return max(len(self.objectives) - 1, 0)


@dataclass(frozen=True, slots=True)
class Score:
    """How well a model predicts some rows, in the units of the data. A measure that has no value is None."""

    rows: int
    mse: float | None = None
    r2: float | None = None
    accuracy: float | None = None

    @property
    def measures(self) -> dict[str, float]:
        """The measures that have a value, by name."""
        found = {"mse": self.mse, "r2": self.r2, "accuracy": self.accuracy}
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def of(cls, model: SavedModel, X: ArrayLike, y: NDArray[Any]) -> Score:
        """Score the predictions of ``model``: MSE and R² of a regressor, accuracy of a classifier."""
        predicted = model.predict(X)
        if model.classes is not None:
            return cls(rows=len(y), accuracy=float(np.mean(predicted == y)))
        with np.errstate(over="ignore"):
            mse, spread = float(np.mean((y - predicted) ** 2)), float(np.var(y))
        if not math.isfinite(mse):
            return cls(rows=len(y))
        return cls(rows=len(y), mse=mse, r2=1.0 - mse / spread if spread > 0.0 else None)


@dataclass(frozen=True, slots=True, eq=False)
class SavedModel:
    """A trained model as it stands in a model file.

    Attributes
    ----------
    feature_names : tuple of str
        Names of the inputs, in the order of the columns of X.
    target_name : str
        Name of what is predicted.
    networks : tuple of Network
        One network, or one a class if there are more than two classes.
    trainings : tuple of Training
        How each network was reached.
    feature_scaling : Scaling
        What is done to the inputs before the networks see them.
    target_scaling : Scaling of one column
        What is undone to the output of a regressor.
    classes : tuple of labels or None
        Strings, numbers or booleans for a classifier; None for a regressor.
    settings : mapping
        Parameters of the estimator.
    scores : mapping of str to Score
        Scores on parts of the data, such as "train" and "test".

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from dconnet import DCONRegressor
    >>> from dconnet.persistence.model_file import load_model, save_model
    >>> X = np.linspace(-1, 1, 30).reshape(-1, 1)
    >>> estimator = DCONRegressor(n_hidden=3, tol=1e-3, random_state=0).fit(X, np.abs(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(estimator, Path(folder) / "model.json")
    ...     model = load_model(Path(folder) / "model.json")
    >>> bool(np.array_equal(model.predict(X), estimator.predict(X)))
    True
    """

    feature_names: tuple[str, ...]
    target_name: str
    networks: tuple[Network, ...]
    trainings: tuple[Training, ...]
    feature_scaling: Scaling
    target_scaling: Scaling = field(default_factory=lambda: Scaling.identity(1))
    classes: tuple[Scalar, ...] | None = None
    settings: Mapping[str, Setting] = field(default_factory=dict)
    scores: Mapping[str, Score] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n_features = len(self.feature_names)
        check(n_features > 0, "there must be at least one feature")
        check(len(set(self.feature_names)) == n_features, "the feature names must differ")
        n_scaled = len(self.feature_scaling.mean)
        check(n_scaled == n_features, f"{n_scaled} features are scaled, but there are {n_features} features")
        check(len(self.target_scaling.mean) == 1, "the target scaling must have one column")
        for network in self.networks:
            check(
                network.n_features == n_features,
                f"a network has {network.n_features} inputs, but there are {n_features} features",
            )
        if self.classes is not None:
            _check_classes(self.classes)
        needed = 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)
        check(len(self.networks) == needed, f"{needed} network(s) needed, got {len(self.networks)}")
        check(
            len(self.trainings) == needed,
            f"each network needs one training summary, got {len(self.trainings)} for {needed}",
        )

    @property
    def targets(self) -> Targets:
        """The coding of the target."""
        return Targets(self.classes)

    @property
    def kind(self) -> str:
        """``"regressor"`` or ``"classifier"``."""
        return "regressor" if self.classes is None else "classifier"

    def outputs(self, X: ArrayLike) -> FloatArray:
        """What the networks give for every row of ``X``, of shape (n_samples, n_networks)."""
        scaled = self.feature_scaling.apply(self._checked(X))
        return np.column_stack([network.predict(scaled) for network in self.networks])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the target of every row of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs in their own units, in the order of ``feature_names``.

        Returns
        -------
        array of shape (n_samples,)
            Numbers of a regressor; of a classifier the class whose output is closest to one.
        """
        outputs = self.outputs(X)
        if self.classes is None:
            return self.target_scaling.undo(outputs[:, 0])
        predicted: NDArray[Any] = np.array(self.classes)[winning_classes(outputs)]
        return predicted

    def _checked(self, X: ArrayLike) -> FloatArray:
        array = frozen_copy(X, name="X", ndim=2)
        if array.shape[1] != len(self.feature_names):
            raise ValueError(f"X has {array.shape[1]} columns, but the model has {len(self.feature_names)} features.")
        return array

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        feature_names: Sequence[str] | None = None,
        target_name: str = "y",
        feature_scaling: Scaling | None = None,
        target_scaling: Scaling | None = None,
    ) -> SavedModel:
        """Take over a fitted `DCONRegressor` or `DCONClassifier`.

        Parameters
        ----------
        estimator : DCONRegressor or DCONClassifier
            A fitted estimator.
        feature_names : sequence of str, optional
            By default the names that the estimator saw, or x0, x1, ... if it saw none.
        target_name : str
            Name of what is predicted.
        feature_scaling, target_scaling : Scaling, optional
            What was done to the data before the estimator saw them; by default nothing. Of a scikit-learn
            StandardScaler it is ``Scaling(scaler.mean_, scaler.scale_)``.
        """
        from sklearn.utils.validation import check_is_fitted

        from dconnet.estimators import DCONClassifier, DCONRegressor

        if not isinstance(estimator, (DCONRegressor, DCONClassifier)):
            raise TypeError(
                f"A model file holds a DCONRegressor or DCONClassifier, not a {type(estimator).__name__}. "
                "Of a pipeline pass the last step, and the scaling before it as feature_scaling. "
                "Layer-wise networks have no model file; pickle can keep them."
            )
        check_is_fitted(estimator)
        is_classifier = isinstance(estimator, DCONClassifier)
        n_features = int(estimator.n_features_in_)
        seen = getattr(estimator, "feature_names_in_", [f"x{i}" for i in range(n_features)])
        return cls(
            feature_names=tuple(map(str, seen if feature_names is None else feature_names)),
            target_name=target_name,
            networks=estimator.networks_ if is_classifier else (estimator.network_,),
            trainings=_trainings(estimator, is_classifier),
            feature_scaling=Scaling.identity(n_features) if feature_scaling is None else feature_scaling,
            target_scaling=Scaling.identity(1) if target_scaling is None else target_scaling,
            classes=tuple(estimator.classes_.tolist()) if is_classifier else None,
            settings={name: _plain(value) for name, value in estimator.get_params(deep=False).items()},
        )

    def with_scores(self, scores: Mapping[str, Score]) -> SavedModel:
        """The same model with these scores."""
        return replace(self, scores=dict(scores))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file, whole or not at all."""
        content = _encoded(self)
        # One line an entry: short enough to look at, and not one line a number.
        entries = [f" {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in content.items()]
        with written_whole(path) as file:
            file.write("{\n" + ",\n".join(entries) + "\n}\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SavedModel:
        """Read a model file.

        Raises
        ------
        OSError
            If the file cannot be read.
        ValueError
            If it is not a valid model file; the message names the file and the fault.
        """
        path = Path(path)
        try:
            return _decoded(Entry.parse(path.read_bytes()))
        except ValueError as error:
            raise ValueError(f"Cannot load the model file {path.name}: {error}") from error


def save_model(
    estimator: Any,
    path: str | os.PathLike[str],
    *,
    feature_names: Sequence[str] | None = None,
    target_name: str = "y",
    feature_scaling: Scaling | None = None,
    target_scaling: Scaling | None = None,
) -> None:
    """Write a fitted estimator to a model file; see `SavedModel.from_estimator`."""
    SavedModel.from_estimator(
        estimator,
        feature_names=feature_names,
        target_name=target_name,
        feature_scaling=feature_scaling,
        target_scaling=target_scaling,
    ).save(path)


def load_model(path: str | os.PathLike[str]) -> SavedModel:
    """Read a model file; see `SavedModel.load`."""
    return SavedModel.load(path)


def _check_classes(classes: tuple[Scalar, ...]) -> None:
    kinds = {type(label) for label in classes}
    check(
        len(kinds) == 1 and kinds <= {str, bool, int, float},
        f"the classes must be all strings, all integers, all decimals or all booleans, got {classes!r}"[:300],
    )
    check(
        all(isinstance(label, str) or abs(label) < 2**63 for label in classes),
        "the classes must be finite and fit into 64 bits",
    )
    check(
        len(classes) >= 2 and len(set(classes)) == len(classes),
        "there must be at least two classes, all different",
    )


# --- from an estimator ---


def _trainings(estimator: Any, is_classifier: bool) -> tuple[Training, ...]:
    if is_classifier:
        found = (estimator.statuses_, estimator.messages_, estimator.histories_)
    else:
        found = ((estimator.status_,), (estimator.message_,), (estimator.history_,))
    figures = (np.atleast_1d(estimator.objective_), np.atleast_1d(estimator.stationarity_))
    return tuple(
        Training(
            status=status,
            message=message,
            objective=float(objective),
            stationarity=float(stationarity) if np.isfinite(stationarity) else None,
            objectives=tuple(history.objective.tolist()),
        )
        for status, message, history, objective, stationarity in zip(*found, *figures, strict=True)
    )


def _plain(value: object) -> Setting:
    """A setting as the file can hold it: a configured object is represented by the name of its class."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value if isinstance(value, (str, bool, int, float)) or value is None else type(value).__name__


# --- to and from JSON ---


def _encoded(model: SavedModel) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": model.kind,
        "features": {"names": list(model.feature_names), **_encoded_arrays(model.feature_scaling)},
        "target": _encoded_target(model),
        "settings": dict(model.settings),
        "scores": {part: {"rows": score.rows, **score.measures} for part, score in model.scores.items()},
        "trainings": [_encoded_training(training) for training in model.trainings],
        "networks": [_encoded_arrays(network) for network in model.networks],
    }


def _encoded_arrays(holder: Scaling | Network) -> dict[str, Any]:
    return {item.name: getattr(holder, item.name).tolist() for item in fields(holder)}


def _encoded_target(model: SavedModel) -> dict[str, Any]:
    if model.classes is not None:
        return {"name": model.target_name, "classes": list(model.classes)}
    return {"name": model.target_name, **_encoded_arrays(model.target_scaling)}


def _encoded_training(training: Training) -> dict[str, Any]:
    return {**asdict(training), "status": training.status.name}


def _checked_header(entry: Entry) -> Entry:
    """The entry itself, if it says that it is a model of the version that is read here."""
    header = entry.value if isinstance(entry.value, dict) else {}
    if header.get("format") != FORMAT:
        raise ValueError(f'it is not a model file: there is no entry "format": "{FORMAT}".')
    version = header.get("version")
    if type(version) is not int or version != VERSION:
        raise ValueError(
            f"its format has version {shown(version)}, but this dconnet reads version {VERSION}. "
            "A newer dconnet may read it: pip install --upgrade dconnet"
        )
    return entry


def _decoded(root: Entry) -> SavedModel:
    entry = _checked_header(root).members(
        "format", "version", "kind", "features", "target", "settings", "scores", "trainings", "networks"
    )
    kind = entry["kind"].text()
    if kind not in ("regressor", "classifier"):
        raise ValueError(f"kind must be regressor or classifier, got {shown(kind)}.")
    features = entry["features"].members("names", "mean", "scale")
    if kind == "classifier":
        target = entry["target"].members("name", "classes")
        classes = tuple(label.scalar() for label in target["classes"].items())
        target_scaling = Scaling.identity(1)
    else:
        target = entry["target"].members("name", "mean", "scale")
        classes = None
        target_scaling = _decoded_scaling(target)
    return SavedModel(
        feature_names=tuple(name.text() for name in features["names"].items()),
        target_name=target["name"].text(),
        networks=tuple(_decoded_network(network) for network in entry["networks"].items()),
        trainings=tuple(_decoded_training(training) for training in entry["trainings"].items()),
        feature_scaling=_decoded_scaling(features),
        target_scaling=target_scaling,
        classes=classes,
        settings={name: _decoded_setting(value) for name, value in entry["settings"].all_members().items()},
        scores={part: _decoded_score(score) for part, score in entry["scores"].all_members().items()},
    )


def _decoded_scaling(members: Mapping[str, Entry]) -> Scaling:
    mean, scale = members["mean"], members["scale"]
    check(len(mean.vector()) == len(scale.vector()), f"{mean.place} and {scale.place} differ in length")
    check(bool(np.all(scale.vector() > 0.0)), f"{scale.place} must be positive")
    return Scaling(mean.vector(), scale.vector())


def _decoded_network(entry: Entry) -> Network:
    members = entry.members("W", "b", "alpha")
    rows = [row.vector() for row in members["W"].items()]
    check(len(rows) > 0, f"{entry.place} has no neuron")
    check(len({len(row) for row in rows}) == 1, f"the rows of {members['W'].place} differ in length")
    try:
        return Network(W=np.array(rows), b=members["b"].vector(), alpha=members["alpha"].vector())
    except ValueError as error:
        raise ValueError(f"{entry.place}: {error}") from error


def _decoded_training(entry: Entry) -> Training:
    members = entry.members("status", "message", "objective", "stationarity", "objectives")
    status = members["status"].text()
    if status not in Status.__members__:
        raise ValueError(f"{members['status'].place} is not a known status: {shown(status)}.")
    stationarity = members["stationarity"]
    return Training(
        status=Status[status],
        message=members["message"].text(),
        objective=members["objective"].number(),
        stationarity=None if stationarity.value is None else stationarity.number(),
        objectives=tuple(members["objectives"].vector().tolist()),
    )


def _decoded_score(entry: Entry) -> Score:
    members = entry.members("rows", optional=("mse", "r2", "accuracy"))
    rows = members.pop("rows").count()
    return Score(rows, **{name: measure.number() for name, measure in members.items()})


def _decoded_setting(entry: Entry) -> Setting:
    return None if entry.value is None else entry.scalar()
