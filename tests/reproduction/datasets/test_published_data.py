"""What must hold on the nine datasets of the paper: monotone loss and block-wise optimality."""

import numpy as np
import pytest

from dconnet import Problem
from dconnet.certificates import stationarity
from dconnet.convex.backend import get_backend
from dconnet.training.dc import SPLITS, NeuronProblem
from dconnet.training.descent import Descent, Options
from dconnet.training.initialization import xavier
from dconnet.training.sweep import make_sweep
from reproduction.datasets import TABLES
from shared_data import load, needs_data

pytestmark = needs_data


def descend(problem, *, n_hidden, **options):
    rng = np.random.default_rng(0)
    start = xavier(problem.X.shape[1], n_hidden, rng)
    return Descent(problem, get_backend("native"), Options(**options), rng).run(start)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(("gamma", "n_hidden"), [(1e-5, 10), (1e-3, 20), (1e-1, 10), (10.0, 5)])
def test_regloss_never_rises(name, split, gamma, n_hidden):
    history = descend(Problem(*load(name), gamma), split=split, n_hidden=n_hidden, max_epochs=8).history
    assert np.all(np.diff(history.objective) <= 1e-13 * history.objective[:-1])
    assert history.total("refused") == 0
    assert history.total("unsolved") == 0


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("split", SPLITS)
def test_last_neuron_of_an_epoch_is_optimal_for_its_programme(name, split):
    """Each DCA ends at a fixed point: KKT of the majoriser, and no further decrease by an independent solver."""
    problem = Problem(*load(name), 1e-2)
    white = problem.whitened
    rng = np.random.default_rng(0)
    start = xavier(problem.X.shape[1], 5, rng)
    for last in range(5):
        order = np.roll(np.arange(5), -1 - last)
        V, alpha = white.whiten(start), start.alpha
        sweep = make_sweep(white, get_backend("native"), 5, split, max_dca_iter=1000)
        sweep.run(V, alpha, order, seconds=np.inf)
        betas = SPLITS[split](white.y, np.maximum(white.preactivations(V), 0.0), alpha, last)
        neuron = NeuronProblem(white.Q, *betas, float(alpha[last]) ** 2, problem.gamma)
        v = V[last]
        programme = neuron.majoriser(neuron.not_negative(v, white.Q @ v))
        exact = get_backend("reference").prepare(white.Q).solve(programme)
        assert exact.kkt_residual(programme) < 1e-9
        assert programme.value(v) - programme.value(exact.v) <= 1e-9 * (abs(programme.value(v)) + programme.magnitude)


@pytest.mark.parametrize("name", TABLES)
def test_converged_networks_satisfy_the_conditions_of_every_block(name):
    problem = Problem(*load(name), 10.0)
    solution = descend(problem, split="net", n_hidden=3, max_epochs=3000, tol=1e-7)
    assert solution.status.name == "CONVERGED"
    assert stationarity(problem, solution.network).norm < 1e-5
