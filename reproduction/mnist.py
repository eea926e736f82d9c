"""MNIST, one digit against all others: training error a digit, and test accuracy of the ten networks together."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet.estimators import DCONClassifier
from dconnet.model.network import Network
from dconnet.model.problem import Problem
from dconnet.training.initialization import xavier
from reproduction import adam, lbfgs, printed
from reproduction.datasets import Images, load_mnist
from reproduction.experiment import Experiment, Findings
from reproduction.fits import GAMMAS, LABELS
from reproduction.page import MISSING, Section, Sheet, Table, number
from reproduction.store import Result, checkpoint

DIGITS = tuple(range(10))
IMAGES = ("subset", "complete")
IMAGE_NAMES = {"subset": "10,000 images", "complete": "all images"}
# Methods for images of 10 times 10 pixels, and for larger ones.
SMALL_METHODS = ("adam", "paper", "accelerated", "lbfgs")
LARGE_METHODS = ("accelerated", "shrinkage")


@dataclass(frozen=True, order=True)
class Cell:
    """All ten digits with one method and one set of hyper-parameters.

    ``side`` is the number of pixels along each side; the method "shrinkage" is the accelerated algorithm on all pixels.
    ``parameters`` are gamma and the shrinkage, or learning rate, decay rate, batch size and penalty of Adam.
    """

    images: str
    side: int
    method: str
    parameters: tuple[float, ...]


@dataclass(frozen=True)
class Plan:
    """Which cells to compute; Algorithm 1 has the paper's grid of gamma, the others a stronger one."""

    images: tuple[str, ...] = IMAGES
    sides: tuple[int, ...] = (10, 28)
    methods: tuple[str, ...] = ("adam", "paper", "accelerated", "shrinkage", "lbfgs")
    gammas: tuple[float, ...] = (1e-2, 1e-1, 1.0)
    paper_gammas: tuple[float, ...] = GAMMAS
    shrinkages: tuple[float, ...] = (1.0, 10.0)
    learning_rates: tuple[float, ...] = adam.LEARNING_RATES
    beta1s: tuple[float, ...] = adam.BETA1S
    batch_sizes: tuple[int, ...] = adam.BATCH_SIZES
    penalties: tuple[float, ...] = adam.PENALTIES


@dataclass(frozen=True)
class Settings:
    """Data and limits.

    Attributes
    ----------
    n_hidden : int
        Neurons per digit, which the paper does not state.
    subset_rows : int
        Training images of the subset.
    validation_fraction : float
        Share of the 60,000 images that chooses the hyper-parameters.
    components : int
        Principal components of images of 28 times 28 pixels. Pixels that are nearly always white make the design
        nearly rank-deficient, and its weakest directions, which the penalty hardly restricts, harm predictions.
    seconds_a_digit, pixels_seconds_a_digit : float
        Limits of the accelerated algorithm for each digit, without and with shrinkage.
    paper_epochs : int
        Limit of Algorithm 1 for each digit.
    """

    n_hidden: int = 30
    subset_rows: int = 10_000
    validation_fraction: float = 0.3
    components: int = 100
    seconds_a_digit: float = 8.0
    pixels_seconds_a_digit: float = 20.0
    paper_epochs: int = 1000
    lbfgs_evaluations: int = 400
    tol: float = 1e-5
    adam_epochs: int = 1000
    patience: int = 10
    watch_penalty: bool = True
    seed: int = 0


def cells(plan: Plan) -> list[Cell]:
    """Return the grids of all methods; large images, which the paper has not, are for the accelerated algorithm."""
    alone: list[tuple[float, ...]] = [(gamma,) for gamma in plan.gammas]
    grids: dict[str, list[tuple[float, ...]]] = {
        "adam": list(itertools.product(plan.learning_rates, plan.beta1s, plan.batch_sizes, plan.penalties)),
        "paper": [(gamma,) for gamma in plan.paper_gammas],
        "accelerated": alone,
        "lbfgs": alone,
        "shrinkage": list(itertools.product(plan.gammas, plan.shrinkages)),
    }
    return [
        Cell(images, side, method, parameters)
        for images, side, method in itertools.product(plan.images, plan.sides, plan.methods)
        if method in (LARGE_METHODS if side > 10 else SMALL_METHODS)
        for parameters in grids[method]
    ]


@dataclass(frozen=True, eq=False)
class MnistParts:
    """Training, validation and test images after the preprocessing."""

    training: Images
    validation: Images
    test: Images


def load_parts(cell: Cell, settings: Settings, home: Path) -> MnistParts:
    """Split, then scale every pixel onto [0, 1], or take principal components, or all pixels with shrinkage."""
    known, test = load_mnist(cell.side, home)
    order = np.random.default_rng(settings.seed).permutation(len(known.digits))
    n_training = round((1.0 - settings.validation_fraction) * len(order))
    training, validation = order[:n_training], order[n_training:]
    if cell.images == "subset":
        training = training[: settings.subset_rows]
    parts = [known[training], known[validation], test]
    if cell.method == "shrinkage":  # shrinkage needs pixels of one scale
        return MnistParts(*parts)
    X = [part.X for part in parts]
    X = _components(X, settings.components) if cell.side > 10 else _min_max(X)
    return MnistParts(*(Images(x, part.digits) for x, part in zip(X, parts, strict=True)))


def _min_max(parts: list[FloatArray]) -> list[FloatArray]:
    from sklearn.preprocessing import MinMaxScaler

    scaler = MinMaxScaler().fit(parts[0])
    return [scaler.transform(X) for X in parts]


def _components(parts: list[FloatArray], number: int) -> list[FloatArray]:
    """Return the scores of the first principal components of the training images."""
    mean = parts[0].mean(axis=0)
    covariance = (parts[0] - mean).T @ (parts[0] - mean) / len(parts[0])
    directions = np.linalg.eigh(covariance)[1][:, ::-1][:, :number]
    return [np.ascontiguousarray((X - mean) @ directions) for X in parts]


def run(cell: Cell, settings: Settings, home: Path) -> Result:
    """Train ten networks; return training errors, and accuracies of the network with the output closest to one."""
    parts = load_parts(cell, settings, home)
    began = time.perf_counter()
    networks, epochs = TRAINERS[cell.method](cell, settings, parts)
    seconds = time.perf_counter() - began
    outputs = {
        name: np.column_stack([network.predict(getattr(parts, name).X) for network in networks])
        for name in ("training", "validation", "test")
    }
    return {
        "seconds": seconds,
        "training": np.mean((outputs["training"] - parts.training.all_signs) ** 2, axis=0).tolist(),
        "validation": _accuracy(outputs["validation"], parts.validation.digits),
        "test": _accuracy(outputs["test"], parts.test.digits),
        "epochs": epochs,
    }


Networks = tuple[Sequence[Network], list[int]]


def _train_dcon(cell: Cell, settings: Settings, parts: MnistParts) -> Networks:
    gamma, *shrinkage = cell.parameters
    options: dict[str, Any] = {"gamma": gamma, "scale": False, "random_state": settings.seed}
    if cell.method == "paper":
        options |= {"algorithm": "paper", "max_epochs": settings.paper_epochs, "checkpoint": checkpoint()}
    else:
        seconds = settings.pixels_seconds_a_digit if shrinkage else settings.seconds_a_digit
        options |= {"shrinkage": sum(shrinkage), "tol": settings.tol, "max_seconds": len(DIGITS) * seconds}
    model = DCONClassifier(settings.n_hidden, **options).fit(parts.training.X, parts.training.digits)
    return model.networks_, [len(history) - 1 for history in model.histories_]


def _train_lbfgs(cell: Cell, settings: Settings, parts: MnistParts) -> Networks:
    """Run L-BFGS for each digit from the start of Adam."""
    X, start = parts.training.X, _start(parts, settings)
    runs = [
        lbfgs.train(Problem(X, parts.training.signs(digit), cell.parameters[0]), start, settings.lbfgs_evaluations)
        for digit in DIGITS
    ]
    return [one.network for one in runs], [one.evaluations for one in runs]


def _start(parts: MnistParts, settings: Settings) -> Network:
    return xavier(parts.training.X.shape[1], settings.n_hidden, np.random.default_rng(settings.seed))


def _train_adam(cell: Cell, settings: Settings, parts: MnistParts) -> Networks:
    """Train one member of the grid for all ten digits at once."""
    rate, beta1, batch_size, penalty = cell.parameters
    members = [adam.Member(rate, beta1, int(batch_size), penalty)] * len(DIGITS)
    start = _start(parts, settings)
    data = [(part.X, part.all_signs) for part in (parts.training, parts.validation)]
    schedule = adam.Schedule(settings.adam_epochs, settings.patience, watch_penalty=settings.watch_penalty)
    trained = adam.train(members, start, data[0], data[1], schedule, settings.seed)
    return [one.network for one in trained], [one.epochs for one in trained]


TRAINERS = {
    "accelerated": _train_dcon,
    "shrinkage": _train_dcon,
    "paper": _train_dcon,
    "lbfgs": _train_lbfgs,
    "adam": _train_adam,
}


def _accuracy(outputs: FloatArray, digits: NDArray[np.uint8]) -> float:
    """Return the share of the images whose digit has the output closest to one, the rule of the paper.

    The estimators predict the class with the largest output, which differs only where an output is above one.
    """
    return float(np.mean(np.abs(outputs - 1.0).argmin(axis=1) == digits))


def show(findings: Findings, section: Section) -> None:
    """Show the tables of the paper, with our rows below the printed ones."""
    results = findings.results()
    header = ("", *map(str, DIGITS), "accuracy", "seconds", "chosen", "out of")
    for images in IMAGES:
        rows = [
            *_printed_rows(images),
            *_rows({cell: found for cell, found in results.items() if cell.images == images}),
        ]
        section.parts.append(
            Table(f"Training MSE of each digit, and test accuracy, {IMAGE_NAMES[images]}:", header, rows)
        )
    digits = (f"digit {k}" for k in DIGITS)
    header = ("images", "side", "method", "parameters", *digits, "validation", "test", "seconds")
    section.sheets = [Sheet("mnist", header, list(_lines(results)))]


def _printed_rows(images: str) -> Iterator[list[str]]:
    unknown = [MISSING] * 3
    for method, name in (("adam", "Adam"), ("paper", "DCON")):
        errors, accuracy = printed.MNIST[images, method]
        yield [f"printed: {name}", *map(number, errors), number(accuracy), *unknown]
    errors, accuracy = printed.MNIST_IMPROVEMENTS[images]
    yield ["printed: improvement", *map(number, errors), number(accuracy), *unknown]


Kind = tuple[int, str]  # the size of the images, and the method


def _rows(results: dict[Cell, Result]) -> Iterator[list[str]]:
    """Yield a row for each size of the images and method, and the improvement over Adam of the same size."""
    kinds = dict.fromkeys((cell.side, cell.method) for cell in sorted(results))
    chosen = {kind: chosen_cell(results, kind) for kind in kinds}
    for kind, cell in chosen.items():
        result, name = results[cell], f"{cell.side}x{cell.side}, {LABELS[cell.method]}"
        parameters = " ".join(f"{value:g}" for value in cell.parameters)
        tried = sum((other.side, other.method) == kind for other in results)
        figures = (number(result["test"], 4), f"{result['seconds']:.0f}", parameters, str(tried))
        yield [name, *map(number, result["training"]), *figures]
        rival = chosen.get((cell.side, "adam"))
        if rival is not None and rival != cell:
            yield [f"{name}: improvement", *_improvements(result, results[rival]), *[MISSING] * 3]


def chosen_cell(results: dict[Cell, Result], kind: Kind) -> Cell:
    """Return the cell whose hyper-parameters have the best accuracy on validation images."""
    found = [cell for cell in results if (cell.side, cell.method) == kind]
    return max(found, key=lambda cell: results[cell]["validation"])


def _improvements(ours: Result, theirs: Result) -> list[str]:
    pairs = zip(theirs["training"], ours["training"], strict=True)
    return [*(number(their / our - 1.0) for their, our in pairs), number(ours["test"] / theirs["test"] - 1.0)]


def _lines(results: dict[Cell, Result]) -> Iterator[list[object]]:
    for cell in sorted(results):
        found = results[cell]
        parameters = " ".join(f"{value:g}" for value in cell.parameters)
        figures = (found["validation"], found["test"], found["seconds"])
        yield [cell.images, cell.side, cell.method, parameters, *found["training"], *figures]


EXPERIMENT = Experiment(
    name="mnist",
    title="Table 2: MNIST",
    cell_type=Cell,
    plan=Plan(),
    quick_plan=Plan(
        ("subset",), gammas=(0.1, 1.0), paper_gammas=(1e-2,), learning_rates=(5e-3,), beta1s=(0.9,), batch_sizes=(64,)
    ),
    settings=Settings(),
    quick_settings=Settings(
        subset_rows=2000,
        seconds_a_digit=0.5,
        pixels_seconds_a_digit=0.5,
        paper_epochs=1,
        adam_epochs=10,
        lbfgs_evaluations=50,
    ),
    cells=cells,
    datasets=lambda plan: ("MNIST",),
    run=run,
    show=show,
)
