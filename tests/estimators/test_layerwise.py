"""Layer-wise networks: inputs and starts of a layer, and RegLoss that never rises from layer to layer."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from dconnet import LayerwiseDCONClassifier, LayerwiseDCONRegressor, Problem, Status
from dconnet.training.descent import Descent
from tolerances import ROUNDING

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, size=(80, 2))
RADIUS = np.linalg.norm(X, axis=1)
Y = np.cos(4.0 * RADIUS)
LABELS = np.array(["inner", "middle", "outer"])[np.digitize(RADIUS, [0.6, 0.9])]
NEW = RNG.uniform(-2.0, 2.0, size=(30, 2))


def regressor(**changes):
    settings = {"hidden_layer_sizes": (5, 4), "gamma": 0.1, "tol": 1e-4, "lower_epochs": 2, "random_state": 0}
    return LayerwiseDCONRegressor(**(settings | changes))


def classifier(**changes):
    settings = {"hidden_layer_sizes": (4, 3), "gamma": 0.1, "tol": 1e-3, "lower_epochs": 2, "random_state": 0}
    return LayerwiseDCONClassifier(**(settings | changes))


@pytest.mark.parametrize("changes", [{}, {"skip": True}, {"gamma": (0.01, 0.5)}], ids=["plain", "skip", "gammas"])
def test_fitted_attributes_describe_the_layers(changes):
    model = regressor(**changes).fit(X, Y)
    bottom, top = model.networks_
    hidden = np.maximum(X @ bottom.W.T + bottom.b, 0.0)
    features = np.column_stack([hidden, X]) if "skip" in changes else hidden
    np.testing.assert_allclose(model.predict(X), top.predict(features), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(model.transform(X) @ top.alpha, model.predict(X), rtol=1e-12, atol=1e-14)
    lower, upper = changes.get("gamma", (0.1, 0.1))
    expected = [Problem(X, Y, lower).objective(bottom), Problem(features, Y, upper).objective(top)]
    np.testing.assert_allclose(model.objectives_, expected, rtol=ROUNDING)
    assert model.objective_ == model.objectives_[-1]
    assert model.statuses_ == (Status.EPOCH_LIMIT, Status.CONVERGED)
    assert model.n_iter_ == len(model.histories_[1]) - 1
    assert 0.0 <= model.stationarity_ < 1e-2


@pytest.mark.filterwarnings("ignore:Stopped after:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("changes", [{}, {"skip": True}, {"algorithm": "paper", "max_epochs": 10}])
@pytest.mark.parametrize("seed", range(3))
def test_another_layer_never_raises_regloss(changes, seed):
    weight = np.random.default_rng(seed).integers(0, 3, size=80)
    model = regressor(hidden_layer_sizes=(4, 2, 3), random_state=seed, **changes).fit(X, Y, sample_weight=weight)
    assert np.all(np.diff(model.objectives_) <= 0.0)
    starts = [history.objective[0] for history in model.histories_]
    assert np.all(starts[1:] <= model.objectives_[:-1] * (1.0 + ROUNDING))
    for history in model.histories_:
        assert np.all(np.diff(history.objective) <= ROUNDING * history.objective[:-1])


def test_the_order_of_rows_changes_no_bit_and_upper_layers_change_no_lower_ones():
    order = np.random.default_rng(4).permutation(80)
    first, again = regressor().fit(X, Y), regressor().fit(X[order], Y[order])
    three, other = regressor(hidden_layer_sizes=(5, 4, 3)).fit(X, Y), regressor(random_state=1).fit(X, Y)
    for one, two in [*zip(first.networks_, again.networks_, strict=True), (first.networks_[0], three.networks_[0])]:
        np.testing.assert_array_equal(one.parameters, two.parameters)
    assert not np.array_equal(first.networks_[1].parameters, other.networks_[1].parameters)


def test_warm_start_continues_the_top_layer_and_adds_new_ones():
    with pytest.warns(ConvergenceWarning, match=r"Raise max_epochs.*1 of 2 networks"):  # lower_epochs is intended
        model = regressor(warm_start=True, max_epochs=1).fit(X, Y)
    bottom, reached = model.networks_[0], model.objective_
    model.set_params(max_epochs=1000).fit(X, Y)
    assert model.networks_[0] is bottom
    assert model.histories_[1].objective[0] == pytest.approx(reached, rel=1e-12)
    assert model.objective_ < reached
    networks = model.networks_
    model.set_params(hidden_layer_sizes=(5, 4, 3)).fit(X, Y)
    assert model.networks_[:2] == networks
    assert model.objectives_[2] <= model.objectives_[1]
    with pytest.raises(ValueError, match="6 neurons and 2 inputs are needed"):
        model.set_params(hidden_layer_sizes=(6, 4, 3)).fit(X, Y)


def test_early_stopping_restores_the_best_top_layer():
    noise = np.random.default_rng(5).normal(size=30)
    model = regressor(early_stopping=True, n_iter_no_change=2, gamma=1e-4).fit(X, Y, X_val=NEW, y_val=noise)
    error = np.mean((noise - model.predict(NEW)) ** 2)
    assert error == pytest.approx(model.histories_[1].validation_mse.min())
    held_out = regressor(early_stopping=True, n_iter_no_change=2, validation_fraction=0.3).fit(X, Y)
    assert all(np.isfinite(history.validation_mse).all() for history in held_out.histories_)


@pytest.mark.parametrize("epoch", [1, 2, 3, 4])
def test_an_interrupt_leaves_a_whole_network_that_a_warm_start_continues(monkeypatch, epoch):
    record, calls = Descent.record, []

    def interrupted(self, state, validation):
        record(self, state, validation)
        calls.append(1)
        if len(calls) == epoch:
            raise KeyboardInterrupt

    monkeypatch.setattr(Descent, "record", interrupted)
    model = regressor(hidden_layer_sizes=(5, 4, 3), warm_start=True)
    with pytest.raises(KeyboardInterrupt, match="Interrupted"):
        model.fit(X, Y)
    n_complete = (epoch - 1) // 2  # two epochs in each lower layer
    assert model.statuses_ == (Status.EPOCH_LIMIT,) * n_complete + (Status.INTERRUPTED,) * (3 - n_complete)
    assert np.all(np.diff(model.objectives_) <= 0.0)
    assert np.isfinite(model.predict(X)).all()
    assert model.fit(X, Y).statuses_ == (Status.EPOCH_LIMIT, Status.EPOCH_LIMIT, Status.CONVERGED)


@pytest.mark.parametrize("skip", [False, True])
def test_classifiers_see_the_neurons_of_all_classes(skip):
    model = classifier(skip=skip).fit(X, LABELS)
    hidden = np.column_stack([network.hidden(X) for network in model.networks_[0]] + skip * [X])
    outputs = np.column_stack([network.predict(hidden) for network in model.networks_[1]])
    np.testing.assert_array_equal(model.predict(X), model.classes_[outputs.argmax(axis=1)])
    np.testing.assert_allclose(model.decision_function(X), outputs, rtol=1e-9, atol=1e-12)
    assert model.transform(X).shape == (80, 9)
    assert model.score(X, LABELS) > 0.9
    assert model.objectives_.shape == (2, 3)
    assert np.all(np.diff(model.objectives_, axis=0) <= 0.0)
    bottom = Problem(X, np.where(LABELS == "middle", 1.0, -1.0), 0.1)
    assert model.objectives_[0, 1] == pytest.approx(bottom.objective(model.networks_[0][1]), rel=ROUNDING)
    two = classifier(skip=skip).fit(X, np.where(RADIUS > 0.8, "far", "near"))
    assert [len(layer) for layer in two.networks_] == [1, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_layer_sizes": 20}, "'hidden_layer_sizes' parameter"),
        *(({"hidden_layer_sizes": sizes}, "a positive integer for each layer") for sizes in ((), (3, 0), (3, 2.5))),
        ({"gamma": (0.1, 0.1, 0.1)}, "one for each of 2 layers"),
        ({"gamma": "strong"}, "'gamma' parameter"),
        *(({"gamma": gamma}, "positive finite number in every layer") for gamma in ((0.1, 0.0), [True, 0.1])),
        ({"lower_epochs": 0}, "'lower_epochs' parameter"),
    ],
)
@pytest.mark.parametrize("make", [regressor, classifier])
def test_invalid_parameters_are_refused(make, changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes).fit(X, LABELS if make is classifier else Y)
