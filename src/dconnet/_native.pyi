from typing import Protocol, overload

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray

AVX2: bool
FMA: bool
AVX512: bool
DCA_TOLERANCE: float
KINK_TOLERANCE: float
LEAST_KINK_NOISE: float
ROUNDING: float
SUFFICIENT_DECREASE: float
WALK_DECREASE: float

class Stop:
    def __init__(self) -> None: ...
    def set(self) -> None: ...
    def is_set(self) -> bool: ...

def watch(stop: Stop | None) -> None: ...

class Remote(Protocol):
    def sums(self, kind: int, input: FloatArray) -> FloatArray: ...
    def rows(self, numbers: NDArray[np.uintp]) -> tuple[FloatArray, FloatArray]: ...

class Team:
    def __init__(self, size: int) -> None: ...
    @property
    def size(self) -> int: ...

class Solver:
    def __init__(self, design: FloatArray, columns: int) -> None: ...
    def solve(
        self,
        linear: FloatArray,
        slope: FloatArray,
        curvature: float,
        gamma: float,
        tolerance: float,
        max_iterations: int,
        start_value: float,
        share: float,
        v: FloatArray,
        multipliers: FloatArray,
    ) -> tuple[int, bool, str]: ...

class Objective:
    def __init__(
        self, design: FloatArray, columns: int, y: FloatArray, gamma: float, n_hidden: int, team: Team | None = None
    ) -> None: ...
    def solve_output_weights(self, V: FloatArray, alpha: FloatArray) -> None: ...
    def block_sums(self, kind: int, input: FloatArray, first_leaf: int) -> tuple[list[int], list[int], FloatArray]: ...

class Explorer:
    @overload
    def __init__(
        self,
        design: FloatArray,
        columns: int,
        y: FloatArray,
        gamma: float,
        n_hidden: int,
        starts: int,
        samples: int,
        burst: bool,
        hop: str,
        stalled: float,
        patience: int,
        revive: bool,
        seed: int,
        team: Team | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        remote: Remote,
        rows: int,
        columns: int,
        n_outputs: int,
        target_square: float,
        gamma: float,
        n_hidden: int,
        starts: int,
        samples: int,
        burst: bool,
        hop: str,
        stalled: float,
        patience: int,
        revive: bool,
        seed: int,
        most_numbers: int,
        team: Team | None = None,
    ) -> None: ...
    def explore(
        self, evaluations: int, seconds: float, V: FloatArray, alpha: FloatArray
    ) -> tuple[int, int, int, int, int]: ...
    @property
    def settled(self) -> bool: ...
    def state(self) -> list[int]: ...
    def restore(self, state: list[int]) -> None: ...

class Sweep:
    def __init__(
        self, design: FloatArray, columns: int, n_hidden: int, n_outputs: int, team: Team | None = None
    ) -> None: ...
    def run(
        self,
        y: FloatArray,
        alpha: FloatArray,
        gamma: float,
        order: NDArray[np.uintp],
        net_split: bool,
        max_dca_iterations: int,
        max_solver_iterations: int,
        tolerance: float,
        seconds: float,
        V: FloatArray,
        kinks: FloatArray | None = None,
    ) -> tuple[int, int, int, int, int]: ...

LEAF: int

def predict(
    kinds: NDArray[np.uintp],
    columns: NDArray[np.uintp],
    n_places: NDArray[np.uintp],
    places: NDArray[np.uint32],
    shares: NDArray[np.float32],
    U: FloatArray,
    alpha: FloatArray,
    outputs: FloatArray,
) -> None: ...
def short_fits(
    kinds: NDArray[np.uintp],
    columns: NDArray[np.uintp],
    n_places: NDArray[np.uintp],
    places: NDArray[np.uint32],
    shares: NDArray[np.float32],
    from_white: FloatArray,
    weights: FloatArray,
    targets: FloatArray,
    which: NDArray[np.uintp],
    gammas: FloatArray,
    seeds: NDArray[np.uintp],
    evaluations: int,
    seconds: float,
    V: FloatArray,
    alpha: FloatArray,
) -> None: ...
def boost(
    X: FloatArray,
    target: FloatArray,
    weights: FloatArray,
    baseline: FloatArray,
    loss: int,
    n_leaves: int,
    max_depth: int,
    min_leaf: int,
    n_bins: int,
    learning_rate: float,
    leaf_penalty: float,
    seconds: float,
    columns: NDArray[np.int32],
    thresholds: FloatArray,
    children: NDArray[np.int32],
    values: FloatArray,
    roots: NDArray[np.int32],
) -> int: ...
def add_trees(
    columns: NDArray[np.int32],
    thresholds: FloatArray,
    children: NDArray[np.int32],
    values: FloatArray,
    roots: NDArray[np.int32],
    ends: NDArray[np.uintp],
    X: FloatArray,
    outputs: FloatArray,
) -> None: ...

class SignSearch:
    def __init__(
        self,
        G: FloatArray,
        g: FloatArray,
        alpha: FloatArray,
        slopes: FloatArray,
        low: FloatArray,
        high: FloatArray,
        step: FloatArray,
    ) -> None: ...
    def run(self, seconds: float, relative_gap: float, absolute_gap: float, offset: float) -> bool: ...
    @property
    def has_point(self) -> bool: ...
    @property
    def best(self) -> float: ...
    @property
    def bound(self) -> float: ...
    @property
    def point(self) -> list[float]: ...
    @property
    def nodes(self) -> int: ...
    @property
    def waiting(self) -> int: ...

def search_sphere(Q: FloatArray, r: FloatArray, floor: float, values: FloatArray, directions: FloatArray) -> None: ...

class ConeSearch:
    def __init__(self, Q: FloatArray, r: FloatArray) -> None: ...
    def try_point(self, v: FloatArray) -> None: ...
    def run(self, relative_gap: float, enough: float, most_parts: int, most_waiting: int, seconds: float) -> bool: ...
    @property
    def best(self) -> float: ...
    @property
    def bound(self) -> float: ...
    @property
    def point(self) -> list[float]: ...
    @property
    def parts(self) -> int: ...
