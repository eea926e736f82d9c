"""Bindings of the kernel: one thread at a time, signals, arrays without copies, and the largest number of rows."""

import os
import signal
from threading import Barrier, Thread, Timer

import numpy as np
import pytest

from dconnet import Problem, _native
from dconnet.convex.native import pad_rows
from dconnet.model.problem import MOST_ROWS

N_ROWS, RANK, N_HIDDEN = 3000, 4, 5
RNG = np.random.default_rng(0)
Q = np.linalg.qr(RNG.normal(size=(N_ROWS, RANK)))[0]
Y = RNG.normal(size=(N_ROWS, 1))
CALLS = 100_000  # per thread, more than enough for a collision


def weights():
    rng = np.random.default_rng(1)
    return rng.normal(size=(N_HIDDEN, RANK)), rng.normal(size=(N_HIDDEN, 1))


def explorer(**arrays):
    given = {"design": pad_rows(Q), "y": Y} | arrays
    options = {"starts": 1, "samples": 0, "burst": True, "hop": "none", "stalled": 0.01, "patience": 1}
    options |= {"revive": False, "seed": 0}
    return _native.Explorer(columns=RANK, gamma=0.1, n_hidden=N_HIDDEN, **given, **options)


def objective(**arrays):
    return _native.Objective(columns=RANK, gamma=0.1, n_hidden=N_HIDDEN, **({"design": pad_rows(Q), "y": Y} | arrays))


def sweep(team=None, **given):
    arguments = {"design": pad_rows(Q), "columns": RANK} | given
    return _native.Sweep(n_hidden=N_HIDDEN, n_outputs=1, team=team, **arguments)


def solver(**given):
    return _native.Solver(**({"design": pad_rows(Q), "columns": RANK} | given))


def sign_search():
    rng = np.random.default_rng(2)
    n_neurons, n_inputs = 80, 12  # so large that a search takes far longer than a test
    low = np.concatenate([np.zeros(n_inputs), np.full(n_neurons, -9.0)])
    high = np.concatenate([np.ones(n_inputs), np.full(n_neurons, 9.0)])
    G, alpha = rng.normal(size=(n_neurons, n_inputs)), rng.normal(size=n_neurons)
    return _native.SignSearch(G, np.zeros(n_neurons), alpha, np.zeros(n_inputs), low, high, np.zeros_like(low))


def sweep_arguments():
    V, alpha = weights()
    order = np.arange(N_HIDDEN, dtype=np.uintp)
    limits = {"max_dca_iterations": 5, "max_solver_iterations": 100, "seconds": np.inf}
    numbers = {"gamma": 0.1, "net_split": True, "tolerance": 1e-10}
    return {"y": Y, "alpha": alpha, "order": order, "V": V} | limits | numbers


def solver_arguments():
    linear, slope = np.ones(RANK), np.ones(N_ROWS)
    numbers = {"curvature": 1.0, "gamma": 0.1, "tolerance": 1e-10, "start_value": 0.0, "share": 0.0}
    arrays = {"linear": linear, "slope": slope, "v": np.zeros(RANK), "multipliers": np.zeros(N_ROWS)}
    return arrays | numbers | {"max_iterations": 100}


def output_arguments():
    return dict(zip(("V", "alpha"), weights(), strict=True))


def explorer_arguments():
    return {"evaluations": 20, "seconds": np.inf} | output_arguments()


# --- one thread at a time ---

KERNELS = {
    "Solver": (solver, lambda kernel: kernel.solve(**solver_arguments())),
    "Sweep": (sweep, lambda kernel: kernel.run(**sweep_arguments())),
    "Objective": (objective, lambda kernel: kernel.solve_output_weights(**output_arguments())),
    "Explorer": (explorer, lambda kernel: kernel.explore(**explorer_arguments())),
    "SignSearch": (sign_search, lambda kernel: kernel.run(1e-3, 0.0, 0.0, 0.0)),
}


def run_at_once(calls, n_calls=CALLS):
    """Run the calls in threads, over and over, until one of them fails; return the errors."""
    errors: list[Exception] = []
    begin = Barrier(len(calls))

    def work(call):
        begin.wait()
        for _ in range(n_calls):
            if errors:
                return
            try:
                call()
            except Exception as error:
                errors.append(error)

    threads = [Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


@pytest.mark.parametrize("name", KERNELS)
def test_an_object_in_use_by_another_thread_raises_an_error(name):
    make, call = KERNELS[name]
    kernel = make()
    errors = run_at_once([lambda: call(kernel)] * 2)
    assert {type(error) for error in errors} == {RuntimeError}
    assert "in use by another thread" in str(errors[0])
    call(kernel)  # the object is free again


@pytest.mark.parametrize("shared", ["state", "team", "team of a new object"])
def test_threads_must_not_share_states_or_teams(shared):
    team = _native.Team(2)
    search, first, second = explorer(), sweep(team), sweep(team)
    calls = {
        "state": [lambda: search.explore(**explorer_arguments()), search.state],
        "team": [lambda: first.run(**sweep_arguments()), lambda: second.run(**sweep_arguments())],
        "team of a new object": [lambda: first.run(**sweep_arguments()), lambda: sweep(team)],
    }
    assert {type(error) for error in run_at_once(calls[shared])} == {RuntimeError}


# --- signals ---


class SignalError(Exception):
    pass


def local_sweep():
    kernel, arguments = sweep(), sweep_arguments()
    return lambda: kernel.run(**arguments | {"V": weights()[0]})


class RemoteRows:
    """Rows that answer as if they were in another process."""

    def __init__(self):
        self.objective = objective()

    def sums(self, kind, question):
        return self.objective.block_sums(kind, question, 0)[2].sum(axis=0)

    def rows(self, numbers):
        return pad_rows(Q)[numbers], Y[numbers]


def remote_explorer():
    options = (1, 0, True, "perturb", 0.01, 10**9, False, 0, N_ROWS * RANK)
    kernel = _native.Explorer(RemoteRows(), N_ROWS, RANK, 1, float(np.vdot(Y, Y)), 0.1, N_HIDDEN, *options)
    V, alpha = weights()
    return lambda: kernel.explore(10**9, np.inf, V, alpha)


@pytest.mark.parametrize("make", [local_sweep, remote_explorer])
def test_a_signal_ends_a_call(make):
    def interrupt(*_):
        raise SignalError

    previous = signal.signal(signal.SIGUSR1, interrupt)
    try:
        for delay in np.linspace(0.03, 0.2, 5):
            call = make()
            timer = Timer(delay, os.kill, (os.getpid(), signal.SIGUSR1))
            timer.start()
            with pytest.raises(SignalError):
                [call() for _ in range(CALLS)]
            timer.join()
    finally:
        signal.signal(signal.SIGUSR1, previous)


# --- arrays ---


DESIGN_AND_Y = {"design": pad_rows(Q), "y": Y}
# Functions of the kernel, valid arguments, and the names of arrays that they write to or keep.
CALLS_WITH_ARRAYS = {
    "Solver": (lambda: solver, lambda: {"design": pad_rows(Q)}, ["design"]),
    "Solver.solve": (lambda: solver().solve, solver_arguments, ["v", "multipliers"]),
    "Sweep": (lambda: sweep, lambda: {"design": pad_rows(Q)}, ["design"]),
    "Sweep.run": (lambda: sweep().run, sweep_arguments, ["V"]),
    "Objective": (lambda: objective, lambda: DESIGN_AND_Y, ["design", "y"]),
    "Objective.solve_output_weights": (lambda: objective().solve_output_weights, output_arguments, ["alpha"]),
    "Explorer": (lambda: explorer, lambda: DESIGN_AND_Y, ["design", "y"]),
    "Explorer.explore": (lambda: explorer().explore, explorer_arguments, ["V", "alpha"]),
}


def read_only(array):
    frozen = array.copy()
    frozen.flags.writeable = False
    return frozen


FORMS = {
    "float32": lambda array: array.astype(np.float32),
    "strided": lambda array: np.repeat(array, 2, axis=-1)[..., ::2],
    "other byte order": lambda array: array.astype(">f8"),
    "list": lambda array: array.tolist(),
    "another dimension": lambda array: array[None],
    "read-only": read_only,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CALLS_WITH_ARRAYS)
def test_arrays_that_are_written_or_kept_are_never_copied(name, form):
    make, make_arguments, uncopied = CALLS_WITH_ARRAYS[name]
    function, arguments = make(), make_arguments()
    function(**arguments)
    for array in uncopied:
        if form == "read-only" and array in ("design", "y"):
            continue
        with pytest.raises(TypeError, match="incompatible function arguments"):
            function(**arguments | {array: FORMS[form](arguments[array])})


# --- rows ---


def test_a_problem_refuses_too_many_rows():
    assert MOST_ROWS == 2**32 - 1
    X = np.broadcast_to(np.zeros((1, 2)), (MOST_ROWS + 1, 2))  # a copy would need 64 GB
    with pytest.raises(ValueError, match="X has 4,294,967,296 rows"):
        Problem(X, np.broadcast_to(0.0, MOST_ROWS + 1), 0.1)
