"""Layer-wise networks: what a layer sees, where it starts, and that another layer does not raise RegLoss."""

import inspect

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from dconnet import (
    DCONRegressor,
    LayerwiseDCONClassifier,
    LayerwiseDCONRegressor,
    Network,
    PaperAlgorithm,
    Problem,
    Status,
)
from dconnet.model.stack import Stack
from dconnet.training.continuation import continuation
from dconnet.training.descent import Descent
from tolerances import ROUNDING

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, size=(80, 2))
RADIUS = np.linalg.norm(X, axis=1)
Y = np.cos(4.0 * RADIUS)
LABELS = np.array(["inner", "middle", "outer"])[np.digitize(RADIUS, [0.6, 0.9])]
NEW = RNG.uniform(-2.0, 2.0, size=(30, 2))

NOT_CONVERGED = pytest.mark.filterwarnings("ignore:Stopped after:sklearn.exceptions.ConvergenceWarning")


def regressor(**changes):
    settings = {"hidden_layer_sizes": (5, 4), "gamma": 0.1, "tol": 1e-4, "lower_epochs": 2, "random_state": 0}
    return LayerwiseDCONRegressor(**(settings | changes))


def classifier(**changes):
    settings = {"hidden_layer_sizes": (4, 3), "gamma": 0.1, "tol": 1e-3, "lower_epochs": 2, "random_state": 0}
    return LayerwiseDCONClassifier(**(settings | changes))


def random_network(rng, n_hidden, n_features):
    W, b = rng.normal(size=(n_hidden, n_features)), rng.normal(size=n_hidden)
    return Network(W, b, rng.normal(size=n_hidden) * 10.0 ** rng.uniform(-2, 2, size=n_hidden))


def forward(networks, X, *, skip):
    """The definition, written out."""
    seen = X
    for network in networks[:-1]:
        hidden = np.maximum(seen @ network.W.T + network.b, 0.0)
        seen = np.column_stack([hidden, X]) if skip else hidden
    return seen, np.maximum(seen @ networks[-1].W.T + networks[-1].b, 0.0) @ networks[-1].alpha


class TestStack:
    @pytest.mark.parametrize("skip", [False, True])
    def test_output_weights_belong_to_their_neurons(self, skip):
        rng = np.random.default_rng(1)
        layer = tuple(random_network(rng, n_hidden, 2) for n_hidden in (3, 2, 4))
        stack = Stack(skip=skip, layers=(layer,))
        hidden = stack.features(X)[:, :9]
        for k, network in enumerate(layer):
            np.testing.assert_allclose(hidden @ stack.output_weights(k), network.predict(X), rtol=1e-12)
        assert stack.features(X).shape == (80, 11 if skip else 9)


class TestContinuation:
    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("skip", [False, True])
    def test_the_copy_repeats_the_network_below_for_no_more_penalty(self, seed, skip):
        rng = np.random.default_rng(seed)
        weight, below = rng.uniform(0.1, 3.0, size=80), random_network(rng, 6, 2)
        stack = Stack(skip=skip, layers=((below,),))
        problem = Problem(stack.features(X), Y, 0.3, weight)
        start = continuation(problem, below.alpha, 4, limit=0.0, rng=rng)  # no room for new neurons
        np.testing.assert_allclose(start.predict(stack.features(X)), below.predict(X), rtol=1e-10, atol=1e-10)
        assert problem.objective(start) <= Problem(X, Y, 0.3, weight).objective(below)
        assert start.n_hidden == 4


class TestRegressor:
    @pytest.mark.parametrize("skip", [False, True])
    def test_fitted_attributes_describe_the_layers(self, skip):
        model = regressor(skip=skip).fit(X, Y)
        seen, outputs = forward(model.networks_, X, skip=skip)
        np.testing.assert_allclose(model.predict(X), outputs, rtol=1e-12, atol=1e-14)
        top = Problem(seen, Y, 0.1)
        expected = [Problem(X, Y, 0.1).objective(model.networks_[0]), top.objective(model.networks_[1])]
        np.testing.assert_allclose(model.objectives_, expected, rtol=ROUNDING)
        assert model.objective_ == model.objectives_[-1]
        assert [network.W.shape for network in model.networks_] == [(5, 2), (4, 7 if skip else 5)]
        assert model.statuses_ == (Status.EPOCH_LIMIT, Status.CONVERGED)
        assert model.n_iter_ == len(model.histories_[1]) - 1
        assert 0.0 <= model.stationarity_ < 1e-2
        assert "Converged" in model.messages_[1]
        np.testing.assert_allclose(model.transform(X) @ model.networks_[1].alpha, outputs, rtol=1e-12, atol=1e-14)

    @NOT_CONVERGED
    @pytest.mark.parametrize("changes", [{}, {"skip": True}, {"algorithm": "paper", "max_epochs": 20}])
    @pytest.mark.parametrize("seed", range(3))
    def test_another_layer_never_raises_regloss(self, changes, seed):
        weight = np.random.default_rng(seed).integers(0, 3, size=80)
        model = regressor(hidden_layer_sizes=(4, 2, 3), random_state=seed, **changes).fit(X, Y, sample_weight=weight)
        assert np.all(np.diff(model.objectives_) <= 0.0)
        starts = [history.objective[0] for history in model.histories_]
        assert np.all(starts[1:] <= model.objectives_[:-1] * (1.0 + ROUNDING))
        for history in model.histories_:
            assert np.all(np.diff(history.objective) <= ROUNDING * history.objective[:-1])

    def test_depth_helps_where_the_target_depends_on_the_radius(self):
        """A shallow network with no fewer weights has several times the error, in training and on new data."""
        rng = np.random.default_rng(3)
        data = rng.uniform(-1.0, 1.0, size=(700, 4))
        target = np.cos(4.0 * np.linalg.norm(data, axis=1))
        deep = regressor(hidden_layer_sizes=(10, 10)).fit(data[:300], target[:300])
        shallow = DCONRegressor(30, gamma=0.01, tol=1e-4, random_state=0, scale=False).fit(data[:300], target[:300])
        n_weights = [sum(len(network.parameters) for network in nets) for nets in (deep.networks_, [shallow.network_])]
        assert n_weights[0] <= n_weights[1]
        errors = [np.mean((model.predict(data[300:]) - target[300:]) ** 2) for model in (deep, shallow)]
        assert errors[0] < 0.6 * errors[1]

    def test_an_upper_layer_changes_none_below(self):
        two, three = (regressor(hidden_layer_sizes=sizes).fit(X, Y) for sizes in ((5, 4), (5, 4, 3)))
        np.testing.assert_array_equal(two.networks_[0].parameters, three.networks_[0].parameters)

    def test_one_layer_is_a_shallow_network(self):
        model = regressor(hidden_layer_sizes=[5]).fit(X, Y)
        assert model.objective_ == pytest.approx(Problem(X, Y, 0.1).objective(model.networks_[0]), rel=ROUNDING)
        assert model.statuses_ == (Status.CONVERGED,)

    def test_each_layer_may_have_its_own_gamma(self):
        model = regressor(gamma=(0.01, 0.5)).fit(X, Y)
        seen, _ = forward(model.networks_, X, skip=False)
        expected = [
            Problem(X, Y, 0.01).objective(model.networks_[0]),
            Problem(seen, Y, 0.5).objective(model.networks_[1]),
        ]
        np.testing.assert_allclose(model.objectives_, expected, rtol=ROUNDING)

    def test_only_the_limit_that_was_not_meant_is_warned_of(self):
        with pytest.warns(ConvergenceWarning, match=r"Raise max_epochs.*1 of 2 networks"):
            regressor(max_epochs=1).fit(X, Y)

    def test_same_seed_same_networks_whatever_the_order_of_the_rows(self):
        order = np.random.default_rng(4).permutation(80)
        first = regressor().fit(X, Y)
        again, other = regressor().fit(X[order], Y[order]), regressor(random_state=1).fit(X, Y)
        for here, there in zip(first.networks_, again.networks_, strict=True):
            np.testing.assert_array_equal(here.parameters, there.parameters)
        assert not np.array_equal(first.networks_[1].parameters, other.networks_[1].parameters)

    def test_integer_weights_equal_repeated_rows(self):
        weight = np.arange(80) % 3
        weighted = regressor(skip=True).fit(X, Y, sample_weight=weight)
        repeated = regressor(skip=True).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight))
        np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-9, atol=1e-9)

    def test_warm_start_continues_the_top_layer(self):
        with pytest.warns(ConvergenceWarning, match="Raise max_epochs"):
            model = regressor(warm_start=True, max_epochs=1).fit(X, Y)
        bottom, reached = model.networks_[0], model.objective_
        model.set_params(max_epochs=1000).fit(X, Y)
        assert model.networks_[0] is bottom
        assert model.histories_[1].objective[0] == pytest.approx(reached, rel=1e-12)
        assert model.objective_ < reached

    def test_warm_start_puts_new_layers_on_top(self):
        model = regressor(warm_start=True).fit(X, Y)
        kept = model.networks_
        model.set_params(hidden_layer_sizes=(5, 4, 3)).fit(X, Y)
        assert model.networks_[:2] == kept
        assert model.objectives_[2] <= model.objectives_[1]
        with pytest.raises(ValueError, match="6 neurons and 2 inputs are needed"):
            model.set_params(hidden_layer_sizes=(6, 4, 3)).fit(X, Y)

    def test_validation_data_go_through_the_layers(self):
        model = regressor().fit(X, Y, X_val=NEW, y_val=np.ones(30))
        expected = np.mean((1.0 - model.predict(NEW)) ** 2)
        assert model.histories_[1].validation_mse[-1] == pytest.approx(expected)

    def test_early_stopping_restores_the_best_top_layer(self):
        noise = np.random.default_rng(5).normal(size=30)
        model = regressor(early_stopping=True, n_iter_no_change=2, gamma=1e-4).fit(X, Y, X_val=NEW, y_val=noise)
        error = np.mean((noise - model.predict(NEW)) ** 2)
        assert error == pytest.approx(model.histories_[1].validation_mse.min())
        held_out = regressor(early_stopping=True, n_iter_no_change=2, validation_fraction=0.3).fit(X, Y)
        assert all(np.isfinite(history.validation_mse).all() for history in held_out.histories_)

    @pytest.mark.parametrize("epoch", [1, 2, 3, 4])
    def test_an_interrupt_leaves_a_whole_network(self, monkeypatch, epoch):
        interrupt_at(monkeypatch, epoch)
        model = regressor(hidden_layer_sizes=(5, 4, 3), tol=1e-12)
        with pytest.raises(KeyboardInterrupt, match="Interrupted"):
            model.fit(X, Y)
        first = (epoch - 1) // 2  # two epochs in each lower layer
        assert model.statuses_ == (Status.EPOCH_LIMIT,) * first + (Status.INTERRUPTED,) * (3 - first)
        assert np.all(np.diff(model.objectives_) <= 0.0)
        assert np.isfinite(model.predict(X)).all()

    def test_after_an_interrupt_a_warm_start_trains_on(self, monkeypatch):
        with monkeypatch.context() as patch:
            interrupt_at(patch, 1)
            model = regressor(warm_start=True)
            with pytest.raises(KeyboardInterrupt):
                model.fit(X, Y)
        assert model.fit(X, Y).statuses_ == (Status.EPOCH_LIMIT, Status.CONVERGED)

    def test_predict_before_fit(self):
        for method in ("predict", "transform"):
            with pytest.raises(NotFittedError):
                getattr(regressor(), method)(X)


def interrupt_at(monkeypatch, epoch):
    record = Descent.record
    calls = []

    def interrupted(self, state, validation):
        record(self, state, validation)
        calls.append(1)
        if len(calls) == epoch:
            raise KeyboardInterrupt

    monkeypatch.setattr(Descent, "record", interrupted)


class TestClassifier:
    def test_the_largest_output_wins_and_sees_the_neurons_of_all(self):
        model = classifier().fit(X, LABELS)
        assert [len(layer) for layer in model.networks_] == [3, 3]
        hidden = np.column_stack([network.hidden(X) for network in model.networks_[0]])
        outputs = np.column_stack([network.predict(hidden) for network in model.networks_[1]])
        np.testing.assert_array_equal(model.predict(X), model.classes_[outputs.argmax(axis=1)])
        np.testing.assert_allclose(model.decision_function(X), outputs, rtol=1e-9, atol=1e-12)
        assert model.transform(X).shape == (80, 9)
        assert model.score(X, LABELS) > 0.9

    def test_another_layer_raises_regloss_of_no_class(self):
        model = classifier(hidden_layer_sizes=(3, 2, 2), skip=True).fit(X, LABELS)
        assert model.objectives_.shape == (3, 3)
        assert np.all(np.diff(model.objectives_, axis=0) <= 0.0)
        bottom = Problem(X, np.where(LABELS == "middle", 1.0, -1.0), 0.1)
        assert model.objectives_[0, 1] == pytest.approx(bottom.objective(model.networks_[0][1]), rel=ROUNDING)
        np.testing.assert_array_equal(model.objective_, model.objectives_[-1])
        assert model.stationarity_.shape == (3,)

    def test_two_classes_need_one_network_a_layer(self):
        labels = np.where(RADIUS > 0.8, "far", "near")
        model = classifier().fit(X, labels)
        assert [len(layer) for layer in model.networks_] == [1, 1]
        np.testing.assert_array_equal(model.predict(X) == "near", model.decision_function(X) > 0.0)
        assert model.score(X, labels) > 0.9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_layer_sizes": 20}, "'hidden_layer_sizes' parameter"),
        ({"hidden_layer_sizes": ()}, "a positive integer for each layer"),
        ({"hidden_layer_sizes": (3, 0)}, "a positive integer for each layer"),
        ({"hidden_layer_sizes": (3, 2.5)}, "a positive integer for each layer"),
        ({"gamma": (0.1, 0.1, 0.1)}, "one for each of 2 layers"),
        ({"gamma": "strong"}, "'gamma' parameter"),
        ({"gamma": (0.1, 0.0)}, "positive finite number in every layer"),
        ({"gamma": np.nan}, "'gamma' parameter"),
        ({"gamma": [True, 0.1]}, "positive finite number in every layer"),
        ({"gamma": np.array(0.1)}, "positive finite number in every layer"),
        ({"hidden_layer_sizes": [True, 2]}, "a positive integer for each layer"),
        ({"lower_epochs": 0}, "'lower_epochs' parameter"),
        ({"lower_epochs": 1.5}, "'lower_epochs' parameter"),
        ({"max_epochs": 0}, "'max_epochs' parameter"),
        ({"algorithm": "magic"}, "'algorithm' parameter"),
        ({"algorithm": PaperAlgorithm(solver="magic")}, "Unknown solver 'magic'"),
        ({"validation_fraction": 1.0}, "'validation_fraction' parameter"),
    ],
)
@pytest.mark.parametrize("make", [regressor, classifier])
def test_bad_parameters_are_named(make, changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes).fit(X, LABELS if make is classifier else Y)


@pytest.mark.parametrize("make", [LayerwiseDCONRegressor, LayerwiseDCONClassifier])
def test_the_parameters_of_the_shallow_estimator_carry_over(make):
    shallow, deep = (inspect.signature(cls).parameters for cls in (DCONRegressor, make))
    # As many as layers; every layer has a start of its own, and takes its data as they are. With shrinkage, RegLoss
    # could rise from layer to layer: the copy of a layer that the next one starts from has other weights.
    differing = {"n_hidden", "init", "gamma", "cv", "scale", "shrinkage"}
    assert {name: p.default for name, p in shallow.items() if name not in differing}.items() <= {
        name: p.default for name, p in deep.items()
    }.items()
