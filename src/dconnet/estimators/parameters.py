"""Parameters of the estimators: allowed values and descriptions, each written once."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral, Real
from textwrap import indent
from typing import Any, TypeVar, dataclass_transform

from sklearn.utils._param_validation import Interval, StrOptions

from dconnet.model.network import Network
from dconnet.training.trainer import PaperAlgorithm

Estimator = TypeVar("Estimator", bound=type)


class Number(Interval):
    """An interval of numbers without True and False."""

    def is_satisfied_by(self, val: object) -> bool:
        """Return whether a value belongs to the interval."""
        return not isinstance(val, bool) and bool(super().is_satisfied_by(val))


COUNT = Number(Integral, 1, None, closed="left")
POSITIVE = Number(Real, 0, None, closed="neither")
JOBS = Number(Integral, None, None, closed="neither")
NOT_NEGATIVE = Number(Real, 0, None, closed="left")

# Parameters that do not change the fitted networks.
OBSERVING = frozenset({"callback", "checkpoint"})

CONSTRAINTS: dict[str, list[Any]] = {
    "quality": [StrOptions({"default", "high"})],
    "members": [StrOptions({"all", "networks"})],
    "n_hidden": [COUNT, StrOptions({"auto"})],
    "hidden_layer_sizes": ["array-like"],
    "gamma": [POSITIVE, StrOptions({"auto"}), "array-like"],
    "gamma of layers": [POSITIVE, "array-like"],
    "cv": ["cv_object"],
    "skip": ["boolean"],
    "lower_epochs": [COUNT, None],
    "scale": ["boolean"],
    "shrinkage": [NOT_NEGATIVE],
    "algorithm": [StrOptions({"accelerated", "paper"}), PaperAlgorithm],
    "max_epochs": [COUNT, None],
    "max_seconds": [Number(Real, 0, None, closed="right"), None],
    "max_evaluations": [COUNT, None],
    "tol": [NOT_NEGATIVE],
    "init": [StrOptions({"xavier"}), Network],
    "early_stopping": ["boolean"],
    "validation_fraction": [Number(Real, 0, 1, closed="neither")],
    "n_iter_no_change": [COUNT],
    "multi_class": [StrOptions({"ovr", "shared"})],
    "class_weight": [dict, StrOptions({"balanced"}), None],
    "warm_start": ["boolean"],
    "n_jobs": [JOBS, None],
    "callback": [callable, None],
    "checkpoint": [str, os.PathLike, None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}

DESCRIPTIONS = {
    "quality": """\
{"default", "high"}
"high" uses ten folds instead of five and drops no member early: a few per cent less error, for about three times the
time.""",
    "members": """\
{"all", "networks"}
"networks" leaves out the boosted trees.""",
    "n_hidden": """\
int or "auto"
Number of hidden neurons of each network. "auto" finds it by growth: neurons that lower RegLoss are added, neurons with
the same active rows are merged, and neurons that contribute nothing are removed, until no new neuron lowers RegLoss or,
with early stopping, the validation error no longer falls. With one or two features and up to 2000 different rows, the
network is then proved optimal among networks of all widths, up to ``tol``. With more features, growth ends when the gap
to the best network of any width is estimated to be at most the square root of ``tol``, relative to RegLoss, or when
RegLoss falls by less than that in three rounds; ``message_`` names the reason. With few rows and a small gamma, such a
network may have many neurons and fit noise. Growth has a limit on its work of about a minute, unless ``max_seconds`` or
``max_evaluations`` is given.""",
    "hidden_layer_sizes": """\
sequence of int
Number of neurons of each hidden layer, from bottom to top.""",
    "gamma": """\
float, "auto" or array-like of float
Strength of the data-weighted regularisation, in units of the standard deviation of y; with ``scale=False``, in the
units of the data. An array holds candidates: short fits with each of them are compared by cross-validation, and the
candidate of least squared error, summed over all networks, is used. A short fit runs L-BFGS from a random start for 200
evaluations of RegLoss. "auto" chooses among 0.001, 0.01, 0.03, 0.1, 0.3, 1 and 3.""",
    "gamma of layers": """\
float or sequence of float
Strength of the data-weighted regularisation in the units of the data, for all layers or for each.""",
    "cv": """\
int, splitter, iterable or None
Folds of the short fits that choose gamma and calibrate probabilities: a number of folds, a splitter of scikit-learn, or
pairs of training and test rows. A number gives random folds with nearly the same targets in each, and rows with equal
inputs in the same fold. None means 5.""",
    "cv of ensembles": """\
int, splitter, iterable or None
Folds: a number, a splitter of scikit-learn such as ``GroupKFold(5)``, or pairs of training and test rows. By default
five, and twice five for a regression of fewer than 1,000 rows. Members are trained on all rows outside a fold.""",
    "skip": """\
bool
Whether the layers above the first also receive the inputs. Check the predictions on enough validation data: weights
that only few rows determine can become very large this way, see the user guide.""",
    "lower_epochs": """\
int or None
Maximum number of epochs of the layers below the top. None trains them like the top layer.""",
    "algorithm": """\
{"accelerated", "paper"} or PaperAlgorithm
"paper" is Algorithm 1 of the reference; ``PaperAlgorithm(...)`` is the same with other settings. "accelerated" adds
joint steps on all weights, hops to lower minima and replacements for dead neurons between the sweeps over the neurons;
an epoch is one round of these.""",
    "scale": """\
bool
Whether the fit adapts to the units of the data: the start is drawn for standardised features, gamma is in units of the
standard deviation of y, and the network has an output intercept, the mean of y. The network is in the units of the
data; there is no need to standardise them. With False, the network has no output intercept, and X and y should be of
order one.""",
    "shrinkage": """\
float
Additional ridge penalty on the hidden weights; with ``scale=True``, on those of the standardised features. Try 0.01 to
10 if many columns are nearly dependent, such as pixels or rare categories. The solvers "admm" and "parallel" need
0. Zero gives the penalty of the paper.""",
    "max_epochs": """\
int or None
Maximum number of epochs of each network; of layer-wise networks, those of the top layer. None means no limit.""",
    "max_seconds": """\
float or None
Maximum wall time of the fit, from the checks of the data to the certificate. Whitening always runs; of the time left
after it, the choice of gamma and the calibration of probabilities take at most a third each, and folds that do not end
in this time are left out. All networks get the same share of the rest. A network without time left is its start with
the best output weights. If there is no time for the certificate, its stationarity is NaN. None means no limit.""",
    "max_evaluations": """\
int or None
Maximum number of evaluations of RegLoss and its gradient by the joint search of the accelerated algorithm, for each
network, up to the end of the current burst or hop; ``history_.evaluations`` counts them. Below 1200, the search is a
single run of L-BFGS, without a race of starts and without hops. With few evaluations and many rows, it begins on
subsets of the rows, and an evaluation on a subset counts by its share of the rows. The fit ends with a sweep over the
neurons, or, for more than 100,000 inputs, with the output weights alone. None means no limit.""",
    "tol": """\
float
Tolerance for convergence. The paper's algorithm has converged when an epoch moves the weights by at most ``tol``; the
accelerated one, when an epoch lowers RegLoss by at most the fraction ``tol`` and no more hops are left to try.""",
    "init": """\
"xavier" or Network
Initial weights: random, or a given network, whose output intercept is ignored.""",
    "early_stopping": """\
bool
Whether to stop each network when its error on validation data stops improving, and to keep the best network.""",
    "validation_fraction": """\
float
Fraction of the training data to set aside for early stopping if `fit` receives no validation data. For classifiers, the
split is stratified by class.""",
    "n_iter_no_change": """\
int
Number of epochs without improvement after which early stopping ends the training of a network.""",
    "multi_class": """\
{"ovr", "shared"}
With more than two classes, "ovr" trains a network for each class, one against the rest. "shared" trains one network
with an output for each class, so that all classes use the same ``n_hidden`` neurons.""",
    "class_weight": """\
dict, "balanced" or None
Weights of the classes, which multiply the sample weights. "balanced" gives all classes the same total weight:
``n_samples / (n_classes * np.bincount(y))``, where rows count by their sample weights. Probabilities are then those of
the weighted rows.""",
    "warm_start": """\
bool
Whether to continue from the networks of the previous call to `fit`; gamma and the output intercept
are chosen again.""",
    "warm_start of layers": """\
bool
Whether to keep the lower layers of the previous call to `fit` and continue with its top layer. If `hidden_layer_sizes`
has grown since, all its layers are kept and the new ones are added on top.""",
    "n_jobs": """\
int or None
Number of threads. They share the folds of the choice of gamma and the networks of the classes; if there are more
threads than networks, also the rows of each network, 4096 at a time. None means 1 outside a `joblib.parallel_config`,
and -1 all cores. The result does not depend on it.""",
    "callback": """\
callable or None
Called after each epoch with a `TrainingEpoch`: its number, label (the class or the layer), RegLoss, errors, seconds and
the network. If it returns True, all networks stop and are kept as they are. An exception ends the fit and leaves the
estimator unchanged.""",
    "checkpoint": """\
path or None
File to which the state of the fit is written once a minute, in NumPy's ``.npz`` format. If the process is killed, the
same call of `fit` resumes from there and gives the same network. The file stays, and with it the same call returns at
once.""",
    "random_state": """\
int, RandomState or None
Seed for the initial weights, the order of the neurons, and the validation split.""",
    "verbose": """\
int
1 shows a progress bar, 2 prints a line for each epoch.""",
    "max_seconds of ensembles": """\
float or None
Maximum wall time of `fit`. When it is over, no other fit begins, and fits that have not ended are dropped; a first fit
is always made, if only briefly and on a part of the rows. With a limit, the result depends on the speed of the machine;
without one, the same seed gives the same bits.""",
    "n_jobs of ensembles": """\
int or None
Number of threads; None means one, and -1 all cores. The result does not depend on it.""",
    "random_state of ensembles": """\
int, RandomState or None
Seed for the folds and the starts of the networks.""",
    "verbose of ensembles": """\
int
1 shows a progress bar with the time left.""",
}


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def parameters(estimator: Estimator) -> Estimator:
    """Let ``__init__`` take the annotated attributes of a class as parameters; it sets nothing else."""
    dataclass(eq=False, repr=False, kw_only=True)(estimator)
    return estimator


def documented(attributes: str = "", **other: str) -> Callable[[Estimator], Estimator]:
    """Return a class decorator that fills in the docstring, and the constraints that scikit-learn checks.

    It replaces ``{parameters}`` by a numpydoc section about the parameters of ``__init__``, in the order of
    ``DESCRIPTIONS``, and ``{attributes}`` by ``attributes``. ``other`` maps the name of a parameter to the key of a
    description that differs from its name.
    """

    def describe(estimator: Any) -> Any:
        signature, entries = inspect.signature(estimator).parameters, []
        estimator._parameter_constraints = {}
        for name in sorted(signature, key=list(DESCRIPTIONS).index):
            key, default = other.get(name, name), signature[name].default
            estimator._parameter_constraints[name] = CONSTRAINTS.get(key, CONSTRAINTS[name])
            kind, _, text = DESCRIPTIONS[key].partition("\n")
            shown = f'"{default}"' if isinstance(default, str) else str(default)
            entries.append(f"{name} : {kind}, default={shown}\n{indent(text, '    ')}")
        section = indent("\n".join(["Parameters", "----------", *entries]), "    ")
        text = estimator.__doc__.replace("    {parameters}", section)
        estimator.__doc__ = text.replace("{attributes}", attributes)
        return estimator

    return describe
