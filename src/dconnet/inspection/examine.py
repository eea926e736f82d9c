"""Evaluate a fitted estimator on a table: predictions, scores, importances, and a certificate of each network."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted

from dconnet._arrays import FloatArray
from dconnet.certificates import certificate
from dconnet.estimators import TableEncoder
from dconnet.inspection.examination import (
    AUTO,
    NETWORKS,
    SAME_OBJECTIVE,
    Examination,
    NetworkExamination,
    agree,
    score_predictions,
)
from dconnet.inspection.importance import rank_features, shuffle_features
from dconnet.inspection.replay import replay as repeat_fit
from dconnet.inspection.split import split_rows
from dconnet.io.model_file import metadata_of
from dconnet.model.network import Network

# Errors out of fold that agree to this share belong to the same rows.
SAME_ERROR = 1e-6
# RegLoss and its derivatives contain products of four values, which must be finite.
LARGEST_VALUE = 1e70


def examine(estimator: Any, X: Any, y: ArrayLike, *, source: str = "the data", replay: bool = False) -> Examination:
    """Evaluate a fitted estimator on a table.

    Training rows are recognised: by RegLoss, or by the error out of fold of an auto estimator. If the ``metadata_`` of
    the estimator has scores of training and test rows, as ``dconnet fit`` stores them, the test rows of the same table
    are found again by their seed, and count as held out.

    Parameters
    ----------
    estimator : DCON*, LayerwiseDCON*, AutoDCON* or Pipeline
        A fitted estimator. After preprocessing steps other than `TableEncoder`, the features are the outputs of these
        steps.
    X : DataFrame or array-like of shape (n_rows, n_features)
        The features.
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
        The target. Class labels may be text where the estimator has numbers.
    source : str
        Where the table comes from, for texts.
    replay : bool
        Repeat the fit to record the network of every epoch. This needs the training rows, and a single hidden layer.

    Raises
    ------
    TypeError
        If the estimator is not one of dconnet.
    ValueError
        If the table does not match the estimator, or the fit cannot be repeated.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import DCONRegressor
    >>> from dconnet.inspection.examine import examine
    >>> X = np.linspace(-1, 1, 30).reshape(-1, 1)
    >>> model = DCONRegressor(n_hidden=3, tol=1e-3, random_state=0).fit(X, np.abs(X[:, 0]))
    >>> found = examine(model, X, np.abs(X[:, 0]))
    >>> found.is_training_data, bool(found.score["r2"] > 0.99)
    (True, True)
    """
    examination = _predict(estimator, X, y, source)
    if replay and not examination.is_single_layer:
        raise ValueError(f"The fit of {type(examination.model).__name__} cannot be repeated. Leave out replay.")
    if not examination.is_auto:
        return _examine_networks(examination, replay)
    importances = rank_features(examination.model.feature_importances_)
    return replace(_use_out_of_fold_predictions(examination), importances=importances)


def _predict(estimator: Any, X: Any, y: ArrayLike, source: str) -> Examination:
    """Take the estimator apart, check the target, and predict all rows, of which none is known to be trained on."""
    model = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    if not isinstance(model, (*AUTO, *NETWORKS)):
        raise TypeError(
            f"A fitted estimator of dconnet is needed, or a pipeline that ends in one, not a {type(model).__name__}."
        )
    check_is_fitted(model)
    metadata, encoder = metadata_of(estimator), None
    feature_names, input_names = metadata.feature_names, metadata.feature_names
    if isinstance(estimator, Pipeline):
        steps = estimator[:-1]
        input_names = _names_after(steps, feature_names)
        if len(steps) == 1 and isinstance(steps[0], TableEncoder) and isinstance(model, NETWORKS):
            encoder = steps[0]
        else:
            feature_names, X = input_names, steps.transform(X)
            estimator = model
    if is_classifier(model):
        labels = _match_labels(y, model.classes_)
    else:
        labels = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
        _check_size(metadata.target_names, labels)
    check_consistent_length(X, labels)
    inputs = None
    if isinstance(model, NETWORKS):
        inputs = np.asarray(X if encoder is None else encoder.transform(X), np.float64)
        _check_size(input_names, inputs)
    return Examination(
        estimator=estimator,
        model=model,
        encoder=encoder,
        source=source,
        X=X,
        inputs=inputs,
        y=labels,
        predictions=estimator.predict(X),
        probabilities=estimator.predict_proba(X) if hasattr(estimator, "predict_proba") else None,
        is_training_row=np.zeros(len(labels), dtype=np.bool_),
        is_evaluated=np.ones(len(labels), dtype=np.bool_),
        feature_names=feature_names,
        target_names=metadata.target_names,
        input_names=input_names,
        stored_scores={part: dict(scores) for part, scores in metadata.scores.items()},
    )


def _check_size(names: Sequence[str], values: FloatArray) -> None:
    for name, column in zip(names, values.reshape(len(values), -1).T, strict=True):
        largest = column[np.abs(column).argmax()]
        if not abs(largest) <= LARGEST_VALUE:
            raise ValueError(f"Column {name!r} contains {largest:g}, which is too large. Correct or drop the row.")


def _names_after(steps: Any, names: Sequence[str]) -> tuple[str, ...]:
    known = None if hasattr(steps[0], "feature_names_in_") else np.array(names, dtype=object)
    return tuple(map(str, steps.get_feature_names_out(known)))


def _match_labels(y: ArrayLike, classes: NDArray[Any]) -> NDArray[Any]:
    """Return the labels as the estimator has them; a label may be a number in one place and text in the other."""
    known = {str(label): label for label in classes.tolist()}
    if classes.dtype.kind in "iuf":  # 1, 1.0, "1" and "1.0" are the same label
        known |= {text: label for label in classes.tolist() for text in (f"{float(label)}", f"{label:.17g}")}
    labels = [str(label) for label in np.asarray(y, dtype=object).ravel().tolist()]
    unknown = sorted(set(labels) - set(known))
    if unknown:
        raise ValueError(
            f"The target has classes that the model was not trained on: {', '.join(unknown[:5])}. The classes of the "
            f"model are {', '.join(map(str, classes[:20]))}."
        )
    return np.array([known[label] for label in labels], dtype=classes.dtype)


def _candidate_training_rows(examination: Examination) -> Iterator[NDArray[np.intp]]:
    """Yield rows that may be those of the fit, in its order: the training part of ``dconnet fit``, then all rows."""
    y, seed = examination.y, examination.model.random_state
    n_test = int(examination.stored_scores.get("test", {}).get("n_rows", 0))
    if 0 < n_test < len(y) - 1 and isinstance(seed, (int, np.integer)) and 0 <= seed < 2**32:
        rows = split_rows(y, n_test, int(seed), examination.classes is not None)[0]
        yield from (np.sort(rows), rows)
    yield np.arange(len(y))


# --- auto estimators ---


def _use_out_of_fold_predictions(examination: Examination) -> Examination:
    """Predict training rows out of fold; rows of no fold are not evaluated."""
    oof = examination.model.oof_prediction_
    is_in_fold = np.isfinite(oof.reshape(len(oof), -1)[:, 0])
    for rows in _candidate_training_rows(examination):
        if len(rows) != len(oof) or not _is_out_of_fold(examination, rows[is_in_fold], oof[is_in_fold]):
            continue
        own, found = rows[is_in_fold], oof[is_in_fold]
        predictions, probabilities = examination.predictions.copy(), examination.probabilities
        predictions[own] = found if probabilities is None else examination.model.classes_[found.argmax(axis=1)]
        if probabilities is not None:
            probabilities = probabilities.copy()
            probabilities[own] = found
        is_training_row, is_evaluated = examination.is_training_row.copy(), examination.is_evaluated.copy()
        is_training_row[rows], is_evaluated[rows] = True, is_in_fold
        return replace(
            examination,
            predictions=predictions,
            probabilities=probabilities,
            is_training_row=is_training_row,
            is_evaluated=is_evaluated,
        )
    return examination


def _is_out_of_fold(examination: Examination, rows: NDArray[np.intp], oof: FloatArray) -> bool:
    """Return True if predictions out of fold have the error of the fit on these rows.

    The features must be those of the fit, too. Then the ensemble, which was trained on the rows, has a smaller error.
    """
    y, model = examination.y[rows], examination.model
    if examination.probabilities is None:
        r2, own = (score_predictions(y, values).get("r2", 0.0) for values in (oof, examination.predictions[rows]))
        return agree(r2, model.oof_score_, SAME_ERROR) and own >= r2 - SAME_ERROR
    loss, own = (
        score_predictions(y, y, values, model.classes_)["log_loss"] for values in (oof, examination.probabilities[rows])
    )
    return agree(loss, model.oof_log_loss_, SAME_ERROR) and own <= loss * (1.0 + SAME_ERROR)


# --- networks ---


def _examine_networks(examination: Examination, replay: bool) -> Examination:
    """Find the training rows, certify each network, and compute permutation importances."""
    model, y = examination.model, examination.y
    fitted_objectives = np.atleast_1d(model.objective_).tolist()
    for rows in _candidate_training_rows(examination):
        inputs = _fitted_inputs(examination, rows)
        problems = model.problems(inputs, y[rows])
        objectives = [p.objective(solution.network) for p, solution in zip(problems, model.solutions_, strict=True)]
        is_training_data = all(map(partial(agree, tolerance=SAME_OBJECTIVE), objectives, fitted_objectives))
        if is_training_data:
            break
    else:
        problems = model.problems(examination.X if examination.encoder is None else examination.inputs, y)
    if replay and not is_training_data:
        raise ValueError(
            f"A fit can be repeated on its training rows only, and those of {examination.source} are other rows."
        )
    trajectories = repeat_fit(model, inputs, y[rows]) if replay else [None] * len(problems)
    networks = [
        NetworkExamination(
            name,
            solution,
            objective,
            certificate(
                problem,
                solution.network,
                objectives=solution.history.objective if is_training_data else None,
                trajectory=trajectory,
                label=label,
            ),
            trajectory,
        )
        for problem, solution, name, label, objective, trajectory in zip(
            problems,
            model.solutions_,
            model.targets_.names,
            model.targets_.labels,
            fitted_objectives,
            trajectories,
            strict=True,
        )
    ]
    is_training_row = examination.is_training_row.copy()
    is_training_row[rows] = is_training_data
    encoder, n_inputs = examination.encoder, len(examination.input_names)
    sources = np.arange(n_inputs) if encoder is None else encoder.encoding_.sources
    bottom = model.networks_ if examination.is_single_layer else model.networks_[0]
    bottom = [bottom] if isinstance(bottom, Network) else bottom
    assert examination.inputs is not None
    return replace(
        examination,
        is_training_row=is_training_row,
        is_evaluated=np.ones(len(y), dtype=np.bool_) if is_training_row.all() else ~is_training_row,
        networks=tuple(networks),
        importances=shuffle_features(model, bottom, examination.inputs, y, sources),
    )


def _fitted_inputs(examination: Examination, rows: NDArray[np.intp]) -> Any:
    """Return the inputs of rows as the networks saw them in a fit: means of the target are those of other rows."""
    encoder, inputs = examination.encoder, examination.inputs
    if encoder is None:
        return _safe_indexing(examination.X, rows)
    assert inputs is not None
    if not encoder.encoding_.coder.means:
        return inputs[rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the user has seen the warnings of `fit`
        return np.asarray(clone(encoder).fit_transform(_safe_indexing(examination.X, rows), examination.y[rows]))
