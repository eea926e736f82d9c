"""The estimators: what they return, how they start and stop, and how they work with the rest of scikit-learn."""

import pickle
from pkgutil import resolve_name

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from dconnet import DCONClassifier, DCONRegressor, Network, PaperAlgorithm, Problem, Status
from dconnet.convex.reference import Reference
from dconnet.training.descent import Descent

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.abs(X[:, 0]) + X[:, 1]
LABELS = np.array(["left", "middle", "right"])[np.digitize(X[:, 0], [-0.5, 0.5])]


def regressor(**changes):
    return DCONRegressor(**({"n_hidden": 4, "gamma": 0.3, "scale": False, "tol": 1e-4, "random_state": 0} | changes))


def classifier(**changes):
    return DCONClassifier(**({"n_hidden": 3, "gamma": 0.3, "scale": False, "tol": 1e-3, "random_state": 0} | changes))


class TestRegressor:
    def test_fitted_attributes_describe_the_network(self):
        model = regressor().fit(X, Y)
        problem = Problem(X, Y, 0.3)
        assert model.status_ is Status.CONVERGED
        assert model.network_.W.shape == (4, 3)
        assert model.objective_ == problem.objective(model.network_)
        assert model.n_iter_ == len(model.history_) - 1
        assert 0.0 <= model.stationarity_ < 1e-3
        assert str(model.n_iter_) in model.message_
        np.testing.assert_array_equal(model.predict(X), model.network_.predict(X))
        assert model.score(X, Y) > 0.9

    def test_starts_from_a_given_network(self):
        start = Network(RNG.normal(size=(4, 3)), RNG.normal(size=4), RNG.normal(size=4))
        model = regressor(init=start).fit(X, Y)
        assert model.history_.objective[0] == pytest.approx(Problem(X, Y, 0.3).objective(start), rel=1e-12)

    def test_warm_start_continues_the_last_fit(self):
        with pytest.warns(ConvergenceWarning, match="Raise max_epochs"):
            model = regressor(warm_start=True, max_epochs=2).fit(X, Y)
        reached = model.objective_
        model.set_params(max_epochs=1000).fit(X, Y)
        assert model.history_.objective[0] == pytest.approx(reached, rel=1e-12)
        assert model.objective_ < reached

    def test_given_validation_data_are_recorded_and_used(self):
        recorded = regressor().fit(X, Y, X_val=X[:9], y_val=Y[:9])
        expected = np.mean((Y[:9] - recorded.predict(X[:9])) ** 2)
        assert recorded.history_.validation_mse[-1] == pytest.approx(expected)
        noise = np.random.default_rng(5).normal(size=9)
        stopped = regressor(gamma=1e-4, early_stopping=True, n_iter_no_change=2).fit(X, Y, X_val=X[:9], y_val=noise)
        assert stopped.status_ is Status.EARLY_STOPPED
        error = np.mean((noise - stopped.predict(X[:9])) ** 2)
        assert error == pytest.approx(stopped.history_.validation_mse.min())

    def test_integer_weights_equal_repeated_rows(self):
        weight = np.arange(60) % 3
        weighted = regressor().fit(X, Y, sample_weight=weight)
        repeated = regressor().fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight))
        assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-8)
        np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-5, atol=1e-7)

    def test_pickles_and_clones(self):
        model = regressor(algorithm=PaperAlgorithm(solver=Reference(tol=1e-9)), max_epochs=3, tol=1.0).fit(X, Y)
        restored = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(restored.predict(X), model.predict(X))
        assert restored.history_.objective.tolist() == model.history_.objective.tolist()
        assert clone(model).get_params()["algorithm"].solver == Reference(tol=1e-9)

    def test_verbose_shows_progress(self, capsys):
        regressor(algorithm="paper", verbose=2, max_epochs=2, tol=10.0).fit(X, Y)
        assert "RegLoss" in capsys.readouterr().out
        regressor(algorithm="paper", verbose=1, max_epochs=2, tol=10.0).fit(X, Y)
        assert "RegLoss" in capsys.readouterr().err
        regressor(algorithm="paper", max_epochs=2, tol=10.0).fit(X, Y)
        assert capsys.readouterr() == ("", "")

    def test_interrupt_keeps_the_network_and_is_raised_again(self, monkeypatch):
        interrupt_at(monkeypatch, epoch=3)
        model = regressor()
        with pytest.raises(KeyboardInterrupt, match="Interrupted"):
            model.fit(X, Y)
        assert model.status_ is Status.INTERRUPTED
        assert model.objective_ < model.history_.objective[0]
        assert model.score(X, Y) > 0.0

    def test_predict_before_fit(self):
        with pytest.raises(NotFittedError):
            regressor().predict(X)

    def test_warnings_point_to_the_line_that_called_fit(self):
        with pytest.warns(ConvergenceWarning) as caught:
            regressor(max_epochs=1).fit(X, Y)
        assert [warning.filename for warning in caught] == [__file__]

    def test_a_refused_warm_start_leaves_the_estimator_unchanged(self):
        model = regressor(warm_start=True).fit(X, Y)
        before = model.predict(X)
        with pytest.raises(ValueError, match="expecting 3 features"):
            model.fit(X[:, :2], Y)
        np.testing.assert_array_equal(model.predict(X), before)

    @pytest.mark.parametrize("bad", [{"sample_weight": -np.ones(60)}, {"X_val": X[:5]}])
    def test_a_failed_fit_leaves_the_estimator_unchanged(self, bad):
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        model = regressor().fit(frame, Y)
        before = model.predict(frame)
        with pytest.raises(ValueError, match=r"negative|together"):
            model.fit(frame[["c", "b", "a"]], Y, **bad)
        np.testing.assert_array_equal(model.predict(frame), before)
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame[["c", "b", "a"]])

    @pytest.mark.parametrize(
        ("y_val", "weight"),
        [
            (np.array([1.0, None, 2.0], dtype=object), None),
            (np.full(3, 1e200), None),
            (np.ones(3), [-1.0, 1.0, 1.0]),
        ],
    )
    def test_bad_validation_data_are_refused(self, y_val, weight):
        with pytest.raises(ValueError, match=r"NaN|overflow|negative"):
            regressor(early_stopping=True).fit(X, Y, X_val=X[:3], y_val=y_val, sample_weight_val=weight)

    def test_problems_are_those_of_the_fit(self):
        data = X.copy()
        model = regressor().fit(data, Y).set_params(gamma=5.0)
        (problem,) = model.problems(data, Y)
        data[:] = 0.0
        assert problem.gamma == 0.3
        assert problem.objective(model.network_) == pytest.approx(model.objective_)

    @pytest.mark.parametrize(
        "where", ["dconnet.training.descent.Descent.init", "dconnet.estimators.layer.stationarity"]
    )
    def test_an_interrupt_outside_of_the_epochs_keeps_what_was_reached(self, monkeypatch, where):
        calls, plain = [], resolve_name(where)

        def interrupted(*args, **kwargs):
            calls.append(1)
            if len(calls) == 1:
                raise KeyboardInterrupt
            return plain(*args, **kwargs)

        monkeypatch.setattr(where, interrupted)
        model = regressor()
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, Y)
        assert np.isfinite(model.predict(X)).all()
        assert len(model.stationarities_) == 1

    def test_an_error_in_the_certificate_leaves_the_estimator_unchanged(self, monkeypatch):
        model = regressor().fit(X, Y)
        before = dict(vars(model))

        def fail(*_):
            raise RuntimeError("no certificate")

        monkeypatch.setattr("dconnet.estimators.layer.stationarity", fail)
        with pytest.raises(RuntimeError, match="no certificate"):
            model.fit(X[:, :2], Y)
        assert vars(model) == before

    def test_one_epoch_is_singular(self):
        assert Status.CONVERGED.message(1, "step 0").startswith("Converged after 1 epoch:")
        assert Status.CONVERGED.message(2, "step 0").startswith("Converged after 2 epochs:")

    def test_validation_data_have_weights(self):
        weight = np.arange(20.0)
        model = regressor().fit(X, Y, X_val=X[:20], y_val=Y[:20], sample_weight_val=weight)
        expected = np.average((Y[:20] - model.predict(X[:20])) ** 2, weights=weight)
        assert model.history_.validation_mse[-1] == pytest.approx(expected)
        with pytest.raises(ValueError, match="needs X_val and y_val"):
            regressor().fit(X, Y, sample_weight_val=weight)
        with pytest.raises(ValueError, match=r"weights are zero|non-zero"):  # ours, or a later scikit-learn's
            regressor().fit(X, Y, X_val=X[:20], y_val=Y[:20], sample_weight_val=np.zeros(20))


def interrupt_at(monkeypatch, epoch):
    step = Descent.step
    calls = []

    def interrupted(self, state):
        calls.append(1)
        if len(calls) == epoch:
            raise KeyboardInterrupt
        step(self, state)

    monkeypatch.setattr(Descent, "step", interrupted)


class TestClassifier:
    def test_the_largest_output_wins(self):
        model = classifier().fit(X, LABELS)
        assert model.classes_.tolist() == ["left", "middle", "right"]
        assert len(model.networks_) == 3
        outputs = np.column_stack([network.predict(X) for network in model.networks_])
        np.testing.assert_array_equal(model.predict(X), model.classes_[outputs.argmax(axis=1)])
        np.testing.assert_array_equal(model.decision_function(X), outputs)
        assert model.score(X, LABELS) > 0.85

    def test_each_network_is_a_regression_on_plus_and_minus_one(self):
        model = classifier().fit(X, LABELS)
        for label, network, objective in zip(model.classes_, model.networks_, model.objective_, strict=True):
            problem = Problem(X, np.where(label == LABELS, 1.0, -1.0), 0.3)
            assert objective == pytest.approx(problem.objective(network), rel=1e-12)

    def test_warm_start_needs_the_same_classes(self):
        model = classifier(warm_start=True).fit(X, LABELS)
        model.fit(X, LABELS)
        before = model.predict(X)
        with pytest.raises(ValueError, match="needs the classes"):
            model.fit(X, np.where(X[:, 0] > 0.0, "yes", "no"))
        np.testing.assert_array_equal(model.predict(X), before)

    @pytest.mark.parametrize("fraction", [0.1, 0.3])
    def test_early_stopping_keeps_the_only_member_of_a_class(self, fraction):
        labels = LABELS.copy()
        labels[7] = "rare"
        model = classifier(early_stopping=True, validation_fraction=fraction, gamma=0.01).fit(X, labels)
        assert model.classes_.tolist() == ["left", "middle", "rare", "right"]
        assert all(np.isfinite(history.validation_mse).all() for history in model.histories_)
        # With no row of its own in training, the network of the class would be minus one everywhere.
        assert model.networks_[2].predict(X[[7]])[0] > -0.9

    @pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
    def test_missing_labels_are_refused(self, missing):
        labels = LABELS.astype(object)
        labels[3] = missing
        with pytest.raises(ValueError, match="missing class labels"):
            classifier().fit(X, labels)

    def test_early_stopping_of_too_small_classes_is_refused(self):
        with pytest.raises(ValueError, match="too small to set aside"):
            classifier(early_stopping=True).fit(X[:6], np.arange(6) % 5)

    def test_one_class_is_an_error(self):
        with pytest.raises(ValueError, match="one class"):
            classifier().fit(X, np.ones(60))

    def test_interrupt_leaves_a_whole_classifier(self, monkeypatch):
        interrupt_at(monkeypatch, epoch=3)
        model = classifier()
        with pytest.raises(KeyboardInterrupt, match="Interrupted"):
            model.fit(X, LABELS)
        assert [status.name for status in model.statuses_] == ["INTERRUPTED"] * 3
        assert model.score(X, LABELS) > 0.4
