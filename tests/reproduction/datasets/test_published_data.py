"""What must hold on the nine datasets of the paper: monotone loss and block-wise optimality."""

import numpy as np
import pytest

from dconnet import Problem
from dconnet.convex.programme import get_backend
from dconnet.training.dc import SPLITS
from dconnet.training.descent import Descent, Options
from dconnet.training.initialization import xavier
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
