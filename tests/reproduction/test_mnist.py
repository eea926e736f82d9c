"""The parts of the MNIST experiment that need no data."""

import numpy as np
import pytest

from reproduction import mnist
from reproduction.datasets import Images
from reproduction.store import scratch_file


def make_images(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    return Images(rng.random((n_rows, 4)), rng.integers(10, size=n_rows).astype(np.uint8))


@pytest.fixture
def parts():
    return mnist.MnistParts(make_images(40), make_images(15, 1), make_images(15, 2))


@pytest.mark.peers
def test_adam_learns_all_digits_at_once_as_one_after_the_other(parts):
    pytest.importorskip("torch")
    cell = mnist.Cell("subset", 10, "adam", (5e-3, 0.9, 8, 1e-3))
    settings = mnist.Settings(n_hidden=3, adam_epochs=30, patience=2)
    networks, epochs = mnist.TRAINERS["adam"](cell, settings, parts)
    start = mnist.xavier(4, 3, np.random.default_rng(settings.seed))
    for digit, (network, ended) in enumerate(zip(networks, epochs, strict=True)):
        member = mnist.adam.Member(5e-3, 0.9, 8, 1e-3)
        data = [(part.X, part.signs(digit)) for part in (parts.training, parts.validation)]
        schedule = mnist.adam.Schedule(30, 2, watch_penalty=True)
        (alone,) = mnist.adam.train([member], start, *data, schedule, settings.seed)
        assert alone.epochs == ended
        np.testing.assert_allclose(network.W, alone.network.W, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_algorithm_1_resumes_from_the_checkpoint_of_its_cell(parts, tmp_path):
    cell = mnist.Cell("subset", 10, "paper", (0.5,))
    few, many = (mnist.Settings(n_hidden=2, paper_epochs=epochs) for epochs in (2, 5))
    alone, _ = mnist.TRAINERS["paper"](cell, many, parts)
    with scratch_file(tmp_path / "cell.checkpoint") as scratch:
        mnist.TRAINERS["paper"](cell, few, parts)
        assert scratch.exists()
        resumed, epochs = mnist.TRAINERS["paper"](cell, many, parts)
    assert max(epochs) == 5
    for one, other in zip(alone, resumed, strict=True):
        np.testing.assert_array_equal(one.W, other.W)
