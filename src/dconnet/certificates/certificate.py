"""All certificates of a trained network in one table."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dconnet._arrays import BoolArray
from dconnet._text import count, per_cent
from dconnet.certificates.convergence import (
    Condition,
    ConvergenceOrder,
    KLExponent,
    Trajectory,
    convergence_order,
    kl_exponent,
)
from dconnet.certificates.gap import GlobalGap, global_gap
from dconnet.certificates.stationarity import (
    LocalOptimality,
    Stationarity,
    Subgradient,
    dead_neurons,
    local_optimality,
    stationarity,
    subgradient,
)
from dconnet.model.network import Network
from dconnet.model.problem import Problem
from dconnet.model.theory import Constants

# Weights up to which the eigenvalues of the Hessian are computed; the work grows with their cube.
MAX_HESSIAN = 1500

# A correlation of a new neuron that exceeds one by less is rounding.
PAYS = 1e-9

# Properties that `Certificate.to_dict` adds to the fields of its parts.
DERIVED = {
    "stationarity": ["norm"],
    "critical": ["norm"],
    "subgradient": ["norm"],
    "local": ["verdicts"],
    "gap": ["gap", "relative_gap", "proved_gap", "kind", "sentence"],
    "constants": ["strong_convexity"],
    "kl": ["invertible", "negative", "holds"],
}

Line = tuple[str, str, str]  # name, value and meaning of one row of the report


@dataclass(frozen=True, slots=True, eq=False)
class Certificate:
    """Measured and proved properties of a network on its training problem."""

    label: str  # name of the network, for example its class
    n_hidden: int
    n_rows: int
    n_features: int
    objective: float  # RegLoss
    mse: float
    zero_objective: float  # RegLoss of the zero network
    stationarity: Stationarity  # distance from a stationary point, with the tangents that the DCA takes
    critical: Stationarity  # the same with the best tangents: distance from a limiting-critical point
    subgradient: Subgradient  # of RegLoss in the coordinates of the data
    local: LocalOptimality  # whether every neuron is a local minimiser of its own subproblem
    dead: BoolArray  # (n_hidden,), neurons that contribute nothing
    gap: GlobalGap  # distance from a lower bound for the networks of all widths
    kl: KLExponent | None  # conditions for linear convergence; None if the network has too many weights
    constants: Constants  # of the theory, in the coordinates of the data
    order: ConvergenceOrder | None = None  # estimated order of convergence, with a history
    decrease: Condition | None = None  # condition (H1), with a trajectory
    relative_error: Condition | None = None  # condition (H2), with a trajectory

    def report(self) -> str:
        """Return one table of plain text."""
        name = f" of {self.label}" if self.label else ""
        sizes = count(self.n_hidden, "neuron"), count(self.n_rows, "row"), count(self.n_features, "input")
        title = f"Certificate{name}: {', '.join(sizes)}"
        lines = self.lines()
        names, values = max(len(name) for name, _, _ in lines), max(len(value) for _, value, _ in lines)
        aligned = [f"{name:<{names}}  {value:>{values}}  {meaning}" for name, value, meaning in lines]
        return "\n".join([title, "", *aligned])

    def lines(self) -> list[Line]:
        """Return name, value and meaning of every row of the report."""
        share = self.objective / self.zero_objective if self.zero_objective > 0.0 else 0.0
        return [
            ("RegLoss", f"{self.objective:.6g}", f"{share:.3g} times that of the zero network"),
            ("MSE", f"{self.mse:.6g}", "on these rows"),
            *self._stationarity_lines(),
            *self._local_lines(),
            *self._gap_lines(),
            *self._kl_lines(),
            *self._theory_lines(),
        ]

    def _stationarity_lines(self) -> list[Line]:
        blocks = (
            f"worst neuron {self.stationarity.neurons.max():.1e}, output layer {self.stationarity.output_layer:.1e}"
        )
        limiting = int(np.count_nonzero(self.subgradient.limiting))
        proved = f"shortest subgradient of RegLoss; proved limiting for {limiting} of {self.n_hidden} neurons"
        return [
            ("stationarity", f"{self.stationarity.norm:.2e}", blocks),
            ("  in the paper's form", f"{self.subgradient.norm:.2e}", proved),
            ("  limiting-critical", f"{self.critical.norm:.2e}", "with the best tangents at concave kinks"),
        ]

    def _local_lines(self) -> list[Line]:
        verdicts = sorted(set(self.local.verdicts) - {"local minimum"})
        others = ", ".join(f"{self.local.count(verdict)} {verdict}" for verdict in verdicts)
        minima = f"{self.local.count('local minimum')} of {self.n_hidden}"
        meaning = f"neurons at a local minimum of their subproblem (tol {self.local.tol:g})"
        return [
            ("local minima", minima, f"{meaning}; {others}" if others else meaning),
            ("dead neurons", str(int(self.dead.sum())), "neurons that contribute nothing"),
        ]

    def _gap_lines(self) -> list[Line]:
        kind = "proved" if self.gap.exact else "an estimate, not proved"
        lines = [
            ("global gap", f"{100.0 * self.gap.relative_gap:.3g} %", f"of RegLoss lies above the lower bound; {kind}"),
            ("  lower bound", f"{self.gap.bound:.6g}", f"for networks of any width; {kind}"),
        ]
        if not self.gap.exact:
            lines.append(("  proved bound", f"{self.gap.proved_bound:.6g}", "a weaker bound that is proved"))
        meaning = "no network of this kind, however wide, has a RegLoss lower by more; proved"
        words = ("  in words", per_cent(self.gap.proved_gap), meaning)
        pays = "> 1: another neuron lowers RegLoss"
        if self.gap.correlation <= 1.0 + PAYS:
            pays = f"not above 1: no other neuron {'' if self.gap.exact else 'was found that '}lowers RegLoss"
        return [*lines, words, ("  new neuron", f"{self.gap.correlation:.6g}", pays)]

    def _kl_lines(self) -> list[Line]:
        if self.kl is None:
            return [("KL exponent 1/2", "not checked", "too many weights to compute the eigenvalues of the Hessian")]
        reasons = [f"{self.kl.at_zero} preactivations at zero"] if self.kl.at_zero else []
        reasons += [] if self.kl.invertible else ["Hessian singular"]
        reasons += [f"{len(self.kl.twins)} pairs of twin neurons"] if self.kl.twins else []
        verdict = "linear convergence" if self.kl.holds else "not shown: " + ", ".join(reasons)
        return [
            ("KL exponent 1/2", "yes" if self.kl.holds else "open", verdict),
            ("  eigenvalue nearest 0", f"{self.kl.smallest:.2e}", f"of the Hessian; {self.kl.negative} are negative"),
        ]

    def _theory_lines(self) -> list[Line]:
        constants = self.constants
        lines = [
            ("sigma_min(M)", f"{constants.sigma_min:.4g}", "smallest positive singular value of the design"),
            ("strong convexity", f"{constants.strong_convexity:.2e}", "modulus of g, 2 gamma sigma_min² / m"),
        ]
        if self.order is not None:
            lines.append(_order_line(self.order))
        lines += [_condition("(H1) constant a", self.decrease)] if self.decrease else []
        lines += [_condition("(H2) constant b", self.relative_error)] if self.relative_error else []
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return everything as lists, numbers and text for JSON; None for numbers that are not finite."""
        plain: dict[str, Any] = _plain(self)
        for part, names in DERIVED.items():
            if plain[part] is not None:
                plain[part] |= {name: _plain(getattr(getattr(self, part), name)) for name in names}
        return plain


def certificate(
    problem: Problem,
    network: Network,
    *,
    objectives: ArrayLike | None = None,
    trajectory: Trajectory | None = None,
    label: str = "",
    random_state: int = 0,
    improve: bool = False,
) -> Certificate:
    """Measure a network on its training problem.

    The RegLoss of every epoch, ``objectives``, adds the order of convergence. The ``trajectory`` that led to it adds
    the conditions of the theory. ``label`` names the network in the report, ``random_state`` seeds the search for the
    global gap, and ``improve`` spends the time of a fit on a better lower bound.
    """
    if objectives is None and trajectory is not None:
        objectives = trajectory.history.objective
    has_small_hessian = network.n_hidden * (network.n_features + 1 + network.n_outputs) <= MAX_HESSIAN
    return Certificate(
        label=label,
        n_hidden=network.n_hidden,
        n_rows=len(problem.X),
        n_features=problem.X.shape[1],
        objective=problem.objective(network),
        mse=problem.mse(network),
        zero_objective=problem.zero_objective,
        stationarity=stationarity(problem, network),
        critical=stationarity(problem, network, concave="best"),
        subgradient=subgradient(problem, network),
        local=local_optimality(problem, network),
        dead=dead_neurons(problem, network),
        gap=global_gap(problem, network, random_state=random_state, improve=improve),
        kl=kl_exponent(problem, network) if has_small_hessian else None,
        constants=problem.constants,
        order=None if objectives is None else convergence_order(objectives),
        decrease=None if trajectory is None else trajectory.sufficient_decrease(),
        relative_error=None if trajectory is None else trajectory.relative_error(),
    )


def certify(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    gamma: float | None = None,
    improve: bool = False,
) -> tuple[Certificate, ...]:
    """Certify every network of a fitted estimator, or a single network.

    A `Certificate` holds the distance from stationarity, local optimality of every neuron, a lower bound for networks
    of all widths, and the conditions for linear convergence. ``print(certificate.report())`` shows them in one table.

    Parameters
    ----------
    model : fitted DCON or layer-wise estimator, or Network
        For a layer-wise estimator, the networks of the top layer are certified.
    X, y : array-like of shape (n_samples, n_features) and (n_samples,)
        The training data. After early stopping, pass the training part without the validation rows.
    sample_weight : array-like of shape (n_samples,), optional
        The weights of the fit.
    gamma : float, optional
        Strength of the regularisation; required for a `Network`. An estimator brings its own.
    improve : bool, default=False
        Whether to spend the time of a fit on better lower bounds.

    Returns
    -------
    tuple of Certificate
        One for a regressor, a classifier of two classes or a network; otherwise one for each class.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import DCONRegressor, Network, certify
    >>> X = np.linspace(-1, 1, 30).reshape(-1, 1)
    >>> y = np.abs(X[:, 0])
    >>> model = DCONRegressor(n_hidden=4, gamma=0.1, random_state=0).fit(X, y)
    >>> (found,) = certify(model, X, y)
    >>> found.local.count("local minimum"), found.gap.kind
    (4, 'proved')
    >>> print(found.report().splitlines()[0])
    Certificate: 4 neurons, 30 rows, 1 input
    >>> (found,) = certify(Network(W=[[1.0]], b=[0.0], alpha=[1.0]), X, y, gamma=0.1)
    >>> found.stationarity.norm > 0.1  # half of the absolute value is not stationary
    True
    """
    if isinstance(model, Network):
        if gamma is None:
            raise ValueError("A Network does not store its regularisation. Pass gamma=...")
        problem = Problem(X, y, gamma, sample_weight, intercept=model.intercept)
        return (certificate(problem, model, improve=improve),)
    if gamma is not None:
        raise ValueError("gamma belongs to the fitted estimator. Pass it only with a Network.")
    if not hasattr(model, "problems"):
        raise TypeError(
            f"certify takes a fitted dconnet estimator or a Network, not a {type(model).__name__}. For a pipeline, "
            "pass its last step and the transformed data: pipeline[-1] and pipeline[:-1].transform(X)."
        )
    problems = model.problems(X, y, sample_weight)
    return tuple(
        certificate(problem, solution.network, objectives=solution.history.objective, label=label, improve=improve)
        for problem, solution, label in zip(problems, model.solutions_, model.targets_.labels, strict=True)
    )


def _order_line(order: ConvergenceOrder) -> Line:
    if np.isnan(order.all):
        return "convergence order", "unknown", "too few epochs"
    law = "" if order.decay.name == "unknown" else f"; the others decay by the {order.decay.name} law"
    return "convergence order", f"{order.all:.3f}", f"early epochs {order.early:.3f}{law}"


def _condition(name: str, condition: Condition) -> Line:
    proved = "none is proved for this algorithm"
    if not np.isnan(condition.theoretical):
        held = "held" if condition.holds else "did NOT hold"
        proved = f"measured; the theory gives {condition.theoretical:.2e}, which {held} in every epoch"
    return name, f"{condition.measured:.2e}", proved


def _plain(value: Any) -> Any:
    """Convert dataclasses, tuples and arrays to dicts, lists and numbers."""
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
