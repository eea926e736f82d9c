"""Models in files: a trained network with everything that a prediction needs.

The file is JSON and holds names and numbers only, so it is safe to load from anyone. `dconnet.io.codec`
defines its schema and checks every entry.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dconnet._arrays import FloatArray, frozen_copy
from dconnet._text import printable
from dconnet.export.chain import Affine, ClassifierChain, Exported
from dconnet.export.methods import Exportable
from dconnet.io.files import written_whole
from dconnet.io.parts import LARGEST, Label, Scaling, Score, Setting, Training, check, check_classes
from dconnet.io.tables import matched_columns, require_columns, text_names
from dconnet.model.calibration import Calibration
from dconnet.model.coordinates import Coordinates
from dconnet.model.network import Network, refuse_overflow
from dconnet.model.stack import Stack
from dconnet.model.targets import Targets

if TYPE_CHECKING:
    from dconnet.encoding.matrix import TableEncoding
    from dconnet.io.ensemble import SavedEnsemble

__all__ = ["SavedModel", "Scaling", "Score", "Training", "load_model", "save_model"]

FORMAT = "dconnet-model"
VERSION = 1
TABLE_VERSION = 3  # with the preparation of the table
OUTPUTS_VERSION = 4  # with networks of several outputs
MAX_BYTES = 32 * 2**20  # about 1.5 million weights; the worst file of this size takes 35 times as much memory


@dataclass(frozen=True, slots=True, eq=False)
class SavedModel(Exportable):
    """A trained model as it stands in a model file.

    Attributes
    ----------
    feature_names : tuple of str
        Names of the features, in the order of the columns of X.
    target_name : str
        Name of the target.
    networks : tuple of Network
        One network, or one for each class if there are more than two classes that do not share one.
    trainings : tuple of Training
        How the training of each network ended.
    feature_scaling : Scaling
        Scaling of the features, applied before the networks.
    target_scaling : Scaling of a column for each target
        Scaling of the target of a regressor, undone in its predictions.
    classes : tuple of labels or None
        Strings, numbers or booleans for a classifier; None for a regressor.
    settings : mapping
        Parameters of the estimator; a gamma that it has chosen itself is given as a number.
    scores : mapping of str to Score
        Scores on parts of the data, such as "train" and "test".
    encoding : TableEncoding or None
        The preparation of a table with text, dates or gaps, before the scaling, which is then that of its columns;
        None for features that are numbers.
    target_names : tuple of str
        Names of several targets; empty if there is one.
    calibration : Calibration or None
        How the outputs of a classifier become probabilities; None for a regressor, and in files of dconnet 0.2.
    class_weights : tuple of float or None
        What the training rows of each class counted, if the classifier had a ``class_weight``.
    coordinates : Coordinates or None
        The standardised columns that an estimator with ``scale=True`` has measured its inputs by; None without it, and
        in files of dconnet 0.2.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from dconnet import DCONRegressor
    >>> from dconnet.io.model_file import load_model, save_model
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
    classes: tuple[Label, ...] | None = None
    settings: Mapping[str, Setting] = field(default_factory=dict)
    scores: Mapping[str, Score] = field(default_factory=dict)
    encoding: TableEncoding | None = None
    target_names: tuple[str, ...] = ()
    calibration: Calibration | None = None
    class_weights: tuple[float, ...] | None = None
    coordinates: Coordinates | None = None

    def __post_init__(self) -> None:
        n_features = len(self.feature_names)
        check(n_features > 0, "there must be at least one feature")
        check(len(set(self.feature_names)) == n_features, "the feature names must differ")
        if self.encoding is not None:
            n_coded = len(self.encoding.schema.columns)
            check(n_coded == n_features, f"{n_coded} columns are coded, but there are {n_features} features")
            n_features = self.encoding.n_columns
        n_scaled = len(self.feature_scaling.mean)
        check(n_scaled == n_features, f"{n_scaled} features are scaled, but there are {n_features} features")
        n_targets = self.targets.n_targets
        check(
            len(self.target_names) in (0, n_targets) and len(set(self.target_names)) == len(self.target_names),
            f"the names of {n_targets} targets must differ, got {len(self.target_names)}",
        )
        for score in self.scores.values():
            check(len(score.each) in (0, n_targets), f"{len(score.each)} targets are scored, but there are {n_targets}")
        n_scaled = len(self.target_scaling.mean)
        check(n_scaled == n_targets, f"{n_scaled} targets are scaled, but there are {n_targets} targets")
        for network in self.networks:
            check(
                network.n_features == n_features,
                f"a network has {network.n_features} inputs, but there are {n_features} features",
            )
        if self.classes is not None:
            check_classes(self.classes)
        if self.class_weights is not None:
            check(len(self.class_weights) == len(self.classes or ()), "every class needs its weight, and no other")
        if self.coordinates is not None:
            n_measured = len(self.coordinates.mean)
            check(n_measured == n_features, f"{n_measured} features are measured, but there are {n_features} features")
        needed, n_outputs = self.targets.n_networks, [network.n_outputs for network in self.networks]
        check(len(self.networks) == needed, f"{needed} network(s) needed, got {len(self.networks)}")
        n_columns = self.targets.n_columns
        check(sum(n_outputs) == n_columns, f"{n_columns} outputs are needed, but the networks have {n_outputs}")
        check(
            len(self.trainings) == needed,
            f"each network needs one training summary, got {len(self.trainings)} for {needed}",
        )

    @property
    def kind(self) -> str:
        """``"regressor"`` or ``"classifier"``."""
        return "regressor" if self.classes is None else "classifier"

    @property
    def targets(self) -> Targets:
        """The coding of the target: which class each network stands for, and what the outputs predict."""
        n_outputs = self.networks[0].n_outputs if len(self.networks) == 1 else 1
        return Targets(self.classes, n_targets=1 if self.classes else n_outputs, shared=n_outputs > 1)

    @property
    def names_of_targets(self) -> tuple[str, ...]:
        """The name of each target; several without names are numbered."""
        n_targets = self.targets.n_targets
        if self.target_names or n_targets == 1:
            return self.target_names or (self.target_name,)
        return tuple(f"{self.target_name}{k}" for k in range(n_targets))

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the columns that the networks see: the features, or what the encoding makes of them."""
        return self.feature_names if self.encoding is None else tuple(self.encoding.names(self.feature_names))

    @property
    def column_kinds(self) -> tuple[str, ...]:
        """What each column of the training was: "number", "date", "category" or "text"."""
        if self.encoding is None:
            return ("number",) * len(self.feature_names)
        return tuple(column.kind for column in self.encoding.schema.columns)

    @property
    def of_inputs(self) -> SavedModel:
        """The same model for a table that is encoded already: the features are those of ``input_names``."""
        return self if self.encoding is None else replace(self, feature_names=self.input_names, encoding=None)

    def inputs(self, X: Any) -> FloatArray:
        """What the networks see of every row of ``X``, before the scaling, of shape (n_samples, n_inputs)."""
        if self.encoding is None:
            return self._checked(X)
        return self.encoding.read(matched_columns(X, self.feature_names))

    def outputs(self, X: ArrayLike) -> FloatArray:
        """Outputs of the networks for every row of ``X``, of shape (n_samples, n_outputs).

        Raises
        ------
        OverflowError
            If an output is too large for a floating-point number.
        """
        inputs = self.inputs(X)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = self.feature_scaling.apply(inputs)
            return refuse_overflow(np.column_stack([network.predict(scaled) for network in self.networks]))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the target of every row of ``X``.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Features in their own units. The columns of a DataFrame are matched with ``feature_names`` by name, in any
            order, and other columns are ignored. Arrays, and DataFrames whose column names are not text, must have
            the columns in the order of ``feature_names``.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_targets)
            Numbers for a regressor; for a classifier, the class of the largest output.

        Raises
        ------
        ValueError
            If a column is missing, only some column names are text, or X has another shape or is not numeric and
            finite.
        OverflowError
            If a prediction is too large for a floating-point number.
        """
        predicted = self.targets.predictions(self.outputs(X))
        if self.classes is not None:
            return predicted
        with np.errstate(over="ignore"):
            return refuse_overflow(self.target_scaling.undo(predicted))

    def _exported(self) -> Exported:
        """The model for features in their own units; names that only number the features are left out."""
        if self.encoding is not None:
            raise ValueError(
                "The networks see what the preparation of the table makes of its columns, and an export holds no such "
                "preparation. Export model.of_inputs, which takes the columns of model.inputs(table) by the names in "
                "model.input_names."
            )
        numbered = tuple(f"x{i}" for i in range(len(self.feature_names)))
        names = () if self.feature_names == numbered else self.feature_names
        chain = Stack(False, (self.networks,)).chain()
        chain = chain.scaled_inputs(self.feature_scaling.mean, self.feature_scaling.scale)
        if self.classes is not None:
            scores, known = chain.with_names(names, self.targets.positives), self.calibration
            logits = None if known is None else Affine.diagonal(known.slope, known.offset, scores.n_outputs)
            return ClassifierChain(scores, self.classes, logits)
        scaling = self.target_scaling
        return chain.then(Affine.diagonal(scaling.scale, scaling.mean, chain.n_outputs)).with_names(
            names, self.names_of_targets
        )

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Predict the probabilities of the classes of every row of ``X``.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Features, as for `predict`.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Probabilities, in the order of ``classes``.

        Raises
        ------
        ValueError
            If the model is a regressor, or its file is of a dconnet without probabilities.
        """
        if self.classes is None:
            raise ValueError(f"There are no classes: {self.target_name} is a number.")
        if self.calibration is None:
            raise ValueError("The model was saved by a dconnet without probabilities: fit it again.")
        return self.calibration.probabilities(self.outputs(X))

    def _checked(self, X: ArrayLike) -> FloatArray:
        names = text_names(X)
        if names is not None:
            return self._matched(X, names)
        array = frozen_copy(X, name="X", ndim=2)
        if array.shape[1] != len(self.feature_names):
            raise ValueError(f"X has {array.shape[1]} columns, but the model has {len(self.feature_names)} features.")
        return array

    def _matched(self, frame: Any, names: list[str]) -> FloatArray:
        """The columns of a DataFrame in the order of the features."""
        require_columns("X", names, self.feature_names)
        columns = [frozen_copy(frame[name], name=f"Column {name!r} of X", ndim=1) for name in self.feature_names]
        return np.column_stack(columns)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        feature_names: Sequence[str] | None = None,
        target_name: str | Sequence[str] | None = None,
        feature_scaling: Scaling | None = None,
        target_scaling: Scaling | None = None,
        encoding: TableEncoding | None = None,
    ) -> SavedModel:
        """Make a model of a fitted `DCONRegressor` or `DCONClassifier`.

        Parameters
        ----------
        estimator : DCONRegressor or DCONClassifier
            A fitted estimator.
        feature_names : sequence of str, optional
            By default the names seen during fit, or x0, x1, ... if there were none.
        target_name : str or sequence of str, optional
            Name of the target, or of each of several; of one name for several, they are numbered. By default the names
            seen during fit, or y if there were none.
        feature_scaling, target_scaling : Scaling, optional
            Scaling of the data before fit, by default none. For a fitted StandardScaler, it is
            ``Scaling(scaler.mean_, scaler.scale_)``.
        encoding : TableEncoding, optional
            Preparation of the table before fit and scaling: ``encoder.encoding_`` of a fitted `TableEncoder`.
        """
        from sklearn.utils.validation import check_is_fitted

        from dconnet.estimators import DCONClassifier, DCONRegressor

        if not isinstance(estimator, (DCONRegressor, DCONClassifier)):
            raise TypeError(
                "A model file holds a DCONRegressor, a DCONClassifier or one of the auto estimators, not a "
                f"{type(estimator).__name__}. For a pipeline that scales, pass its last step, and the scaling before "
                "it as feature_scaling. For layer-wise networks and whole pipelines, use save_estimator."
            )
        check_is_fitted(estimator)
        n_features, classes = int(estimator.n_features_in_), estimator.targets_.classes
        seen: Sequence[str] = getattr(estimator, "feature_names_in_", [f"x{i}" for i in range(n_features)])
        if encoding is not None:
            seen = [column.name for column in encoding.schema.columns]
        if target_name is None:
            target_name = _target_names_seen(estimator)
        return cls(
            feature_names=tuple(map(str, seen if feature_names is None else feature_names)),
            target_name=target_name if isinstance(target_name, str) else ", ".join(target_name),
            target_names=_target_names(target_name, estimator.targets_.n_targets),
            networks=estimator.networks_,
            trainings=_trainings(estimator),
            feature_scaling=Scaling.identity(n_features) if feature_scaling is None else feature_scaling,
            target_scaling=Scaling.identity(estimator.targets_.n_targets) if target_scaling is None else target_scaling,
            classes=None if classes is None else tuple(classes.tolist()),
            settings={name: _plain(value) for name, value in estimator._settings.items()},
            encoding=encoding,
            calibration=getattr(estimator, "calibration_", None),
            class_weights=_class_weights(estimator),
            coordinates=_coordinates(estimator),
        )

    def to_estimator(self) -> Any:
        """The fitted estimator of this model, for scikit-learn's tools, certificates, or more training.

        Returns
        -------
        estimator
            A `DCONRegressor` or `DCONClassifier` with the parameters of ``settings``. If tables or features are
            prepared, a Pipeline of `TableEncoder` or StandardScaler and the network; if the target is scaled, a
            TransformedTargetRegressor around it. Each is fitted, and predicts as this model.

        Notes
        -----
        ``gamma`` is the number that was used, also if it was chosen, and the histories have RegLoss alone. Of a
        parameter that was an object, a file knows the name only: there is a warning, and the parameter has its default
        value. Names of the features that are just x0, x1, ... are not given to the estimator.

        Raises
        ------
        ValueError
            If the file does not tell gamma, or not what the shrinkage was on.

        Examples
        --------
        >>> import numpy as np
        >>> from dconnet import DCONRegressor
        >>> from dconnet.io.model_file import SavedModel, Scaling
        >>> X = np.linspace(10, 20, 30).reshape(-1, 1)
        >>> scaling = Scaling.of(X)
        >>> estimator = DCONRegressor(3, tol=1e-3, random_state=0).fit(scaling.apply(X), np.abs(X[:, 0] - 15.0))
        >>> model = SavedModel.from_estimator(estimator, feature_scaling=scaling)
        >>> again = model.to_estimator()
        >>> [type(step).__name__ for _, step in again.steps]
        ['StandardScaler', 'DCONRegressor']
        >>> bool(np.array_equal(again.predict(X), model.predict(X)))
        True
        """
        from dconnet.io.restored import estimator_of

        return estimator_of(self)

    def with_scores(self, scores: Mapping[str, Score]) -> SavedModel:
        """The same model with these scores."""
        return replace(self, scores=dict(scores))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file, whole or not at all.

        Raises
        ------
        OSError
            If the file cannot be written.
        ValueError
            If the model holds numbers that a model file cannot hold.
        """
        from dconnet.io.codec import encode

        write_model(encode(self), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, max_bytes: int | None = MAX_BYTES) -> SavedModel:
        """Read a model file.

        Parameters
        ----------
        path : str or path-like
            The model file.
        max_bytes : int or None
            Largest size of a file that is read; None for no limit.

        Raises
        ------
        OSError
            If the file cannot be read.
        ValueError
            If it is not a valid model file, or too large; the message names the file and the fault.
        """
        model = load_model(path, max_bytes=max_bytes)
        if not isinstance(model, SavedModel):
            raise ValueError(f"{Path(path).name} holds an auto estimator: read it with load_model.")
        return model


def save_model(
    estimator: Any,
    path: str | os.PathLike[str],
    *,
    feature_names: Sequence[str] | None = None,
    target_name: str | Sequence[str] | None = None,
    feature_scaling: Scaling | None = None,
    target_scaling: Scaling | None = None,
) -> None:
    """Write a fitted estimator to a model file; see `SavedModel.from_estimator`.

    Auto estimators need no scaling; see `dconnet.io.ensemble.SavedEnsemble.from_estimator`.
    """
    from dconnet.estimators import AutoDCONClassifier, AutoDCONRegressor

    if isinstance(estimator, (AutoDCONRegressor, AutoDCONClassifier)):
        from dconnet.io.ensemble import SavedEnsemble

        if feature_scaling is not None or target_scaling is not None:
            raise ValueError(f"An {type(estimator).__name__} is fitted to the data as they are: save it unscaled.")
        target = "y" if target_name is None else target_name
        if not isinstance(target, str):
            raise ValueError(f"An {type(estimator).__name__} has one target, got the names {list(target)}.")
        names = None if feature_names is None else tuple(feature_names)
        SavedEnsemble.from_estimator(estimator, feature_names=names, target_name=target).save(path)
        return
    SavedModel.from_estimator(
        estimator,
        feature_names=feature_names,
        target_name=target_name,
        feature_scaling=feature_scaling,
        target_scaling=target_scaling,
    ).save(path)


def load_model(path: str | os.PathLike[str], *, max_bytes: int | None = MAX_BYTES) -> SavedModel | SavedEnsemble:
    """Read a model file.

    Parameters
    ----------
    path : str or path-like
        The model file.
    max_bytes : int or None
        Largest size of a file that is read; None for no limit.

    Returns
    -------
    SavedModel or SavedEnsemble
        A network, or an auto estimator. Both predict.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is not a valid model file, or too large; the message names the file and the fault.
    """
    from dconnet.io.codec import decode

    path = Path(path)
    try:
        return decode(_read(path, max_bytes))
    except ValueError as error:
        raise ValueError(f"Cannot load the model file {path.name}: {printable(error):.250}") from error


def write_model(text: str, path: str | os.PathLike[str]) -> None:
    """Write the text of a model file, whole or not at all, with a warning if it is large."""
    if len(text) > MAX_BYTES:
        warnings.warn(
            f"{os.fspath(path)} has {len(text)} bytes. Load it with max_bytes={len(text)} (--max-bytes {len(text)} "
            "on the command line).",
            stacklevel=3,
        )
    with written_whole(path) as file:
        file.write(text)


def _read(path: Path, max_bytes: int | None) -> bytes:
    """The content of a file, unless it is too large to be read."""
    with path.open("rb") as file:
        if max_bytes is None:
            return file.read()
        size = os.fstat(file.fileno()).st_size  # 0 for a pipe
        content = file.read(max_bytes + 1) if size <= max_bytes else b""
    if max(size, len(content)) > max_bytes:
        raise ValueError(
            f"it has more than {max_bytes} bytes. If you trust it, load it with a larger max_bytes (--max-bytes on the "
            "command line)."
        )
    return content


# --- from an estimator ---


def _target_names_seen(estimator: Any) -> str | tuple[str, ...]:
    """The names of the targets in the fit, or y."""
    seen = tuple(getattr(estimator, "target_names_in_", ("y",)))
    return seen[0] if len(seen) == 1 else seen


def _target_names(given: str | Sequence[str], n_targets: int) -> tuple[str, ...]:
    """The names of several targets; those of one name are numbered."""
    if n_targets == 1:
        check(isinstance(given, str), "one target has one name")
        return ()
    return tuple(f"{given}{k}" for k in range(n_targets)) if isinstance(given, str) else tuple(map(str, given))


def _trainings(estimator: Any) -> tuple[Training, ...]:
    scale = estimator._units.output_scale
    figures = zip(estimator.solutions_, estimator.objectives_, estimator.stationarities_, strict=True)
    return tuple(
        Training(
            status=solution.status,
            message=solution.message,
            objective=float(objective),
            stationarity=float(stationarity) if np.isfinite(stationarity) else None,
            objectives=tuple(solution.history.objective.tolist()),
            gamma=float(estimator.gamma_),
            output_scale=None if scale is None else tuple(scale.tolist()),
        )
        for solution, objective, stationarity in figures
    )


def _class_weights(estimator: Any) -> tuple[float, ...] | None:
    weights = getattr(estimator, "_class_weights", None)
    if weights is None:
        return None
    return tuple(weights.of_rows(estimator.targets_.classes).tolist())


def _coordinates(estimator: Any) -> Coordinates | None:
    """What the inputs were measured by, unless it is beyond the numbers of a file."""
    known: Coordinates | None = estimator._units.coordinates
    is_small = known is not None and max(np.abs(known.mean).max(), known.scale.max()) <= LARGEST
    return known if is_small else None


def _plain(value: object) -> Setting:
    """A setting as the file can hold it: a configured object is represented by the name of its class."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value if isinstance(value, (str, bool, int, float)) or value is None else type(value).__name__
