"""A saved model on data: which rows it was trained on, and what its networks reach on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet.certificates import Certificate, Trajectory, certificate
from dconnet.encoding.columns import raw_columns
from dconnet.encoding.matrix import TableEncoding
from dconnet.inspection.split import split_rows
from dconnet.io.model_file import SavedModel, Scaling, Score
from dconnet.io.tables import Fault, Frame, Table
from dconnet.model.coordinates import Coordinates
from dconnet.model.network import Network
from dconnet.model.problem import Problem

if TYPE_CHECKING:
    from dconnet.io.ensemble import SavedEnsemble

# RegLoss on the rows of the training agrees with the stored one to rounding; on other rows it does not.
SAME_OBJECTIVE = 1e-8

# Largest value in scaled units: RegLoss and its derivatives hold products of four, which must be finite.
LARGEST_VALUE = 1e70


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """What one network reaches on the rows examined, in the scaled units of the training.

    Attributes
    ----------
    label : str
        The class that the network speaks for, or nothing.
    stored_objective : float
        RegLoss that the model file holds, of the training.
    certificate : Certificate
        What is known about the network on the rows examined.
    trajectory : Trajectory or None
        The networks on the way, if the training was repeated.
    """

    label: str
    stored_objective: float
    certificate: Certificate
    trajectory: Trajectory | None = None

    @property
    def is_as_trained(self) -> bool:
        """Whether RegLoss is that of the training, to rounding."""
        return _same(self.certificate.objective, self.stored_objective)


@dataclass(frozen=True, slots=True, eq=False)
class Examination:
    """A saved model, the rows on which it is examined, and what was found.

    Attributes
    ----------
    model : SavedModel
        The model, for inputs that are encoded already.
    source : str
        Where the data come from.
    X : array of shape (n_rows, n_features)
        Inputs of all rows of the data, in their own units; encoded, if the model encodes tables.
    y : array of shape (n_rows,) or (n_rows, n_targets)
        Targets or class labels of all rows.
    rows : array of int, shape (n_examined,)
        The rows on which RegLoss and the certificate are computed.
    score : Score
        How well the model predicts all rows.
    findings : tuple of Finding
        One for each network.
    of_table : SavedModel or None
        The model as it was loaded, if it encodes tables.
    frame : Frame or None
        The columns of the table, if the model encodes tables.
    """

    model: SavedModel
    source: str
    X: FloatArray
    y: NDArray[Any]
    rows: NDArray[np.intp]
    score: Score
    findings: tuple[Finding, ...]
    of_table: SavedModel | None = None
    frame: Frame | None = None

    @property
    def is_training_data(self) -> bool:
        """Whether the rows examined are those of the training, as far as RegLoss can tell."""
        return all(finding.is_as_trained for finding in self.findings)

    @property
    def sentence(self) -> str:
        """On which rows the certificate is, and whether they are those of the training."""
        if not self.is_training_data:
            reason = "they are not the rows that the model was trained on."
            if self.model.settings.get("early_stopping") is True:
                reason += " Early stopping always sets some rows aside."
            return (
                f"RegLoss on the {len(self.rows)} rows of {self.source} differs from the stored one: {reason} The "
                "certificate is about RegLoss on these rows."
            )
        which = f"the {len(self.rows)} rows of {self.source}"
        if len(self.rows) < len(self.y):
            which = f"{len(self.rows)} of the {len(self.y)} rows of {self.source} (the training part)"
        return f"RegLoss on {which} agrees with the stored one: they are the rows that the model was trained on."

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        positives = self.model.targets.positives
        classes = [None] if positives is None or self.model.targets.shared else positives.tolist()
        return {
            "data": self.source,
            "rows": len(self.y),
            "examined_rows": len(self.rows),
            "is_training_data": self.is_training_data,
            "score": self.score.to_dict(),
            "networks": [
                {
                    "class": label,
                    "stored_objective": finding.stored_objective,
                    "certificate": finding.certificate.to_dict(),
                }
                for label, finding in zip(classes, self.findings, strict=True)
            ],
        }


def examine(model: SavedModel, table: Table, *, repeat: bool = False) -> Examination:
    """Examine a model on a table.

    If the table is the one that ``dconnet fit`` was given, the rows that it held out for the test are found and left
    out: the certificate is then about the loss that was minimised. Otherwise it is about the loss on all rows.

    Parameters
    ----------
    model : SavedModel
        The model.
    table : Table
        Data with the features and the target of the model.
    repeat : bool
        Whether to train once more, which gives the networks of all epochs. It needs the data of the training.

    Raises
    ------
    ValueError
        If a column is missing or not numeric, a value is too large for the model, a class is unknown, the file does not
        tell gamma, or the training cannot be repeated.
    """
    if model.encoding is not None:
        return _examine_encoded(model, table, repeat)
    X = table.numeric(model.feature_names, needed=True)
    table.require(model.names_of_targets)
    _refuse_too_large(table, model.feature_names, X, model.feature_scaling)
    return _examined(model, table.source, X, _target(model, table), lambda rows: X[rows], repeat)


def _examine_encoded(model: SavedModel, table: Table, repeat: bool) -> Examination:
    """The examination of a model that encodes tables, by what its networks see of the rows."""
    table.require(model.names_of_targets)
    frame, y = table.frame(model.feature_names, model.column_kinds), _target(model, table)

    def of_training(rows: NDArray[np.intp]) -> FloatArray:
        return _inputs_of_training(model, frame.rows(rows), y[rows])

    found = _examined(model.of_inputs, table.source, model.inputs(frame), y, of_training, repeat)
    return replace(found, of_table=model, frame=frame)


def _inputs_of_training(model: SavedModel, frame: Frame, y: NDArray[Any]) -> FloatArray:
    """What the networks saw of rows in the training: of means of the target, those of other rows."""
    from dconnet.estimators import TableEncoder

    encoding, seed = model.encoding, model.settings.get("random_state")
    if encoding is None or not encoding.coder.means or type(seed) is not int:
        return model.inputs(frame)
    encoder = TableEncoder(target_type="number" if model.classes is None else "class", random_state=seed)
    fields = encoding.schema.read(raw_columns(frame))
    return TableEncoding.of(encoding.coder.coding, encoding.schema, fields, encoder.target_columns(y, len(y)))[1]


def _target(model: SavedModel, table: Table) -> NDArray[Any]:
    if model.classes is not None:
        return known_labels(table.labels(model.target_name), model)
    names = model.names_of_targets
    y = table.numeric(names, needed=True)
    _refuse_too_large(table, names, y, model.target_scaling)
    return y[:, 0] if len(names) == 1 else y


def _examined(
    model: SavedModel,
    source: str,
    X: FloatArray,
    y: NDArray[Any],
    of_training: Callable[[NDArray[np.intp]], FloatArray],
    repeat: bool,
) -> Examination:
    """The examination of networks on their inputs; ``of_training`` gives those of rows as the training saw them."""
    trained_on = next(
        (rows for rows in _candidates(model, y) if _is_trained_on(model, of_training(rows), y[rows])), None
    )
    rows = np.arange(len(y)) if trained_on is None else trained_on
    inputs = X if trained_on is None else of_training(rows)
    trajectories: Sequence[Trajectory | None] = [None] * len(model.networks)
    if repeat:
        if trained_on is None:
            raise ValueError(f"The training can be repeated on its own data only, and {source} is other data.")
        trajectories = _repeated(model, inputs, y[rows])
    findings = _findings(model, _problems(model, inputs, y[rows]), trajectories, trained_on is not None)
    return Examination(model, source, X, y, rows, Score.of(model, X, y), findings)


def _refuse_too_large(table: Table, names: Sequence[str], values: FloatArray, scaling: Scaling) -> None:
    with np.errstate(over="ignore"):
        too_large = ~(np.abs(scaling.apply(values)) <= LARGEST_VALUE)
    for name, faulty in zip(names, too_large.T, strict=True):
        table.refuse(name, faulty, _too_large, needed=True)


def _too_large(cell: object) -> Fault:
    return f"{cell} is too large for this model", "Correct the column or delete the row"


def _findings(
    model: SavedModel, problems: list[Problem], trajectories: Sequence[Trajectory | None], is_training_data: bool
) -> tuple[Finding, ...]:
    found = []
    for k, (network, training) in enumerate(zip(model.networks, model.trainings, strict=True)):
        measured = certificate(
            problems[k],
            network,
            objectives=training.objectives if is_training_data else None,
            trajectory=trajectories[k],
            label=model.targets.labels[k],
        )
        found.append(Finding(model.targets.names[k], training.objective, measured, trajectories[k]))
    return tuple(found)


def _repeated(model: SavedModel, X: FloatArray, y: NDArray[Any]) -> tuple[Trajectory, ...]:
    """The training once more, from the settings of the model file."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from dconnet.estimators import DCONClassifier, DCONRegressor
    from dconnet.inspection.replay import check_same, record

    kind: Any = DCONRegressor if model.classes is None else DCONClassifier
    try:
        estimator = kind(**{"scale": False} | dict(model.settings))  # dconnet 0.2 knew no scale
    except TypeError as error:
        raise ValueError(f"The settings of the model file are not those of a {kind.__name__}: {error}.") from error
    targets = model.target_scaling.apply(y) if model.classes is None else y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the file says how the training ended
        trajectories = record(estimator, model.feature_scaling.apply(X), targets)
    check_same(model.networks, trajectories)
    return trajectories


def network_targets(model: SavedModel, y: NDArray[Any]) -> FloatArray:
    """What each output is trained on, of shape (n_samples, n_outputs), in the scaled units of the training."""
    return model.targets.columns(model.target_scaling.apply(y) if model.classes is None else y)


def in_data_units(model: SavedModel) -> tuple[list[Network], FloatArray]:
    """A network for each output as a function of unscaled inputs, and what has to be added to each output."""
    shift, scale = model.feature_scaling.mean, model.feature_scaling.scale
    outputs = [network.of_output(k) for network in model.networks for k in range(network.n_outputs)]
    mean, units = (
        np.broadcast_to(each, len(outputs)) for each in (model.target_scaling.mean, model.target_scaling.scale)
    )
    networks = [
        Network(n.W / scale, n.b - (n.W / scale) @ shift, n.alpha * unit, n.intercept * unit)
        for n, unit in zip(outputs, units.tolist(), strict=True)
    ]
    return networks, mean


def known_labels(labels: NDArray[Any], model: SavedModel | SavedEnsemble) -> NDArray[Any]:
    """Labels of a table as the model has them; the same label may be a number here and text there."""
    known = {str(label): label for label in model.classes or ()}
    by_number = {str(label): str(int(label)) for label in known.values() if isinstance(label, float) and label % 1 == 0}
    known |= {by_number[name]: label for name, label in known.items() if name in by_number}
    found = [str(label) for label in labels.tolist()]
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise ValueError(
            f"The column {model.target_name!r} holds classes that the model does not know: {', '.join(unknown[:5])}. "
            f"It knows: {', '.join(map(str, (model.classes or ())[:20]))}."
        )
    return np.array([known[label] for label in found])


def _number(model: SavedModel, name: str, default: float | None = None) -> float:
    """A setting of the training that RegLoss depends on."""
    value = model.settings.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"The model file does not tell the {name} of its training, without which there is no RegLoss.")
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(
            f"The {name} in the settings of the model file is too large for a floating-point number."
        ) from error


def _problems(model: SavedModel, X: FloatArray, y: NDArray[Any]) -> list[Problem]:
    """The training problem of each network, posed on these rows."""
    targets = network_targets(model, y)
    inputs, gamma = model.feature_scaling.apply(X), model.trainings[0].gamma
    shrinkage = _number(model, "shrinkage", default=0.0)  # files from before there was any do not tell it
    # The shrinkage is on standardised columns if the estimator has scaled them.
    is_scaled = shrinkage > 0.0 and model.settings.get("scale") is True
    given = (inputs, targets, _number(model, "gamma") if gamma is None else gamma)
    options: dict[str, Any] = {
        "shrinkage": shrinkage,
        "coordinates": Coordinates.of(inputs, np.ones(len(inputs))) if is_scaled else None,
        "copy": False,
    }
    if model.targets.shared:
        (network,), scale = model.networks, model.trainings[0].output_scale
        return [Problem(*given, intercept=network.intercept, output_scale=scale, **options)]
    return Problem.of_columns(*given, intercepts=np.array([network.intercept for network in model.networks]), **options)


def _candidates(model: SavedModel, y: NDArray[Any]) -> Iterator[NDArray[np.intp]]:
    """Rows that may be those of the training: the training part of ``dconnet fit`` if the file tells it, or all."""
    seed, train, test = model.settings.get("random_state"), model.scores.get("train"), model.scores.get("test")
    is_split = train is not None and test is not None and 0 < test.rows == len(y) - train.rows < len(y)
    if is_split and test is not None and type(seed) is int and 0 <= seed < 2**32:
        yield np.sort(split_rows(y, test.rows, seed, model.classes is not None)[0])
    yield np.arange(len(y))


def _is_trained_on(model: SavedModel, X: FloatArray, y: NDArray[Any]) -> bool:
    trained = zip(_problems(model, X, y), model.networks, model.trainings, strict=True)
    return all(_same(problem.objective(network), training.objective) for problem, network, training in trained)


def _same(objective: float, stored: float) -> bool:
    return abs(objective - stored) <= SAME_OBJECTIVE * abs(stored)
