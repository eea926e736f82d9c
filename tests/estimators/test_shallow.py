"""The estimators: what they return, how they start and stop, and how they work with the rest of scikit-learn."""

import pickle
from pkgutil import resolve_name

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

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

    def test_same_seed_same_network_other_seed_other_network(self):
        first, again, other = (regressor(random_state=s).fit(X, Y).network_.parameters for s in (0, 0, 1))
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_starts_from_a_given_network(self):
        start = Network(RNG.normal(size=(4, 3)), RNG.normal(size=4), RNG.normal(size=4))
        model = regressor(init=start).fit(X, Y)
        assert model.history_.objective[0] == pytest.approx(Problem(X, Y, 0.3).objective(start), rel=1e-12)

    def test_warm_start_goes_on_where_the_last_fit_ended(self):
        with pytest.warns(ConvergenceWarning, match="Raise max_epochs"):
            model = regressor(warm_start=True, max_epochs=2).fit(X, Y)
        reached = model.objective_
        model.set_params(max_epochs=1000).fit(X, Y)
        assert model.history_.objective[0] == pytest.approx(reached, rel=1e-12)
        assert model.objective_ < reached

    def test_without_warm_start_a_second_fit_starts_anew(self):
        model = regressor()
        first = model.fit(X, Y).network_.parameters
        np.testing.assert_array_equal(first, model.fit(X, Y).network_.parameters)

    def test_early_stopping_sets_data_aside(self):
        model = regressor(gamma=1e-4, early_stopping=True, n_iter_no_change=2, validation_fraction=0.3).fit(X, Y)
        assert model.status_ in (Status.EARLY_STOPPED, Status.CONVERGED)
        assert np.isfinite(model.history_.validation_mse).all()

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

    def test_frames_keep_their_feature_names(self):
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        model = regressor().fit(frame, Y)
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        np.testing.assert_array_equal(model.predict(frame), regressor().fit(X, Y).predict(X))
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame[["c", "b", "a"]])

    def test_pickles_and_clones(self):
        model = regressor(algorithm=PaperAlgorithm(solver=Reference(tol=1e-9)), max_epochs=3, tol=1.0).fit(X, Y)
        restored = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(restored.predict(X), model.predict(X))
        assert restored.history_.objective.tolist() == model.history_.objective.tolist()
        assert clone(model).get_params()["algorithm"].solver == Reference(tol=1e-9)

    def test_works_in_a_pipeline_and_a_grid_search(self):
        data, target = load_diabetes(return_X_y=True)
        pipeline = make_pipeline(StandardScaler(), regressor(tol=1e-2))
        search = GridSearchCV(pipeline, {"dconregressor__gamma": [1.0, 100.0]}, cv=3)
        assert search.fit(data, scale(target)).best_score_ > 0.1

    def test_all_backends_are_reachable_by_name(self):
        reached = [
            regressor(algorithm=PaperAlgorithm(solver=solver), max_epochs=1, tol=10.0).fit(X, Y).objective_
            for solver in ("native", "reference")
        ]
        assert reached[0] == pytest.approx(reached[1], rel=1e-9)

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

    def test_attributes_come_in_tuples_of_one_as_well(self):
        model = regressor().fit(X, Y)
        assert model.networks_ == (model.network_,)
        assert model.histories_ == (model.history_,)
        assert model.statuses_ == (model.status_,)
        assert model.messages_ == (model.message_,)
        assert model.objectives_.tolist() == [model.objective_]
        assert model.stationarities_.tolist() == [model.stationarity_]
        assert [solution.network for solution in model.solutions_] == [model.network_]

    def test_warnings_point_to_the_line_that_called_fit(self):
        with pytest.warns(ConvergenceWarning) as caught:
            regressor(max_epochs=1).fit(X, Y)
        assert [warning.filename for warning in caught] == [__file__]

    def test_a_fit_cut_by_the_clock_says_so_once(self):
        with pytest.warns(ConvergenceWarning, match="Stopped by max_seconds") as caught:
            regressor(max_seconds=1e-9).fit(X, Y)
        assert len(caught) == 1

    def test_an_interrupt_ends_a_grid_search(self, monkeypatch):
        interrupt_at(monkeypatch, epoch=3)
        with pytest.raises(KeyboardInterrupt):
            GridSearchCV(regressor(), {"gamma": [0.1, 1.0]}, cv=2).fit(X, Y)

    def test_a_refused_warm_start_leaves_the_estimator_as_it_was(self):
        model = regressor(warm_start=True).fit(X, Y)
        before = model.predict(X)
        with pytest.raises(ValueError, match="expecting 3 features"):
            model.fit(X[:, :2], Y)
        np.testing.assert_array_equal(model.predict(X), before)

    @pytest.mark.parametrize("bad", [{"sample_weight": -np.ones(60)}, {"X_val": X[:5]}])
    def test_a_failed_fit_leaves_the_estimator_as_it_was(self, bad):
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        model = regressor().fit(frame, Y)
        before = model.predict(frame)
        with pytest.raises(ValueError, match=r"negative|together"):
            model.fit(frame[["c", "b", "a"]], Y, **bad)
        np.testing.assert_array_equal(model.predict(frame), before)
        with pytest.raises(ValueError, match="feature names"):
            model.predict(frame[["c", "b", "a"]])

    def test_a_failed_first_fit_leaves_it_unfitted(self):
        model = regressor()
        with pytest.raises(ValueError, match="negative"):
            model.fit(X, Y, sample_weight=-np.ones(60))
        with pytest.raises(NotFittedError):
            model.predict(X)
        with pytest.raises(NotFittedError):
            model.problems(X, Y)

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

    def test_two_classes_need_one_network(self):
        labels = np.where(X[:, 0] > 0.0, "yes", "no")
        model = classifier().fit(X, labels)
        assert len(model.networks_) == 1
        assert model.decision_function(X).shape == (60,)
        np.testing.assert_array_equal(model.predict(X) == "yes", model.decision_function(X) > 0.0)
        assert model.score(X, labels) > 0.9

    def test_iris(self):
        data, target = load_iris(return_X_y=True)
        assert classifier().fit(scale(data), target).score(scale(data), target) > 0.93

    def test_integer_weights_equal_repeated_rows(self):
        weight = np.arange(60) % 3
        weighted = classifier().fit(X, LABELS, sample_weight=weight)
        repeated = classifier().fit(np.repeat(X, weight, axis=0), np.repeat(LABELS, weight))
        np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), rtol=1e-5, atol=1e-6)

    def test_warm_start_needs_the_same_classes(self):
        model = classifier(warm_start=True).fit(X, LABELS)
        model.fit(X, LABELS)
        before = model.predict(X)
        with pytest.raises(ValueError, match="same classes"):
            model.fit(X, np.where(X[:, 0] > 0.0, "yes", "no"))
        np.testing.assert_array_equal(model.predict(X), before)

    def test_unknown_validation_labels_are_refused(self):
        with pytest.raises(ValueError, match=r"did not have: 'nowhere'\. Known classes: 'left', 'middle', 'right'\."):
            classifier().fit(X, LABELS, X_val=X[:3], y_val=["left", "nowhere", "right"])

    @pytest.mark.parametrize("fraction", [0.1, 0.3])
    def test_early_stopping_keeps_the_only_member_of_a_class(self, fraction):
        labels = LABELS.copy()
        labels[7] = "rare"
        model = classifier(early_stopping=True, validation_fraction=fraction, gamma=0.01).fit(X, labels)
        assert model.classes_.tolist() == ["left", "middle", "rare", "right"]
        assert all(np.isfinite(history.validation_mse).all() for history in model.histories_)
        # With no row of its own in training, the network of the class would be minus one everywhere.
        assert model.networks_[2].predict(X[[7]])[0] > -0.9

    @pytest.mark.parametrize("seed", range(4))
    def test_early_stopping_keeps_the_only_row_of_a_class_that_counts(self, seed):
        labels, weight = LABELS.copy(), np.ones(60)
        labels[[7, 8]], weight[8] = "rare", 0.0
        parameters = {"early_stopping": True, "validation_fraction": 0.5, "gamma": 0.01, "random_state": seed}
        model = classifier(**parameters).fit(X, labels, sample_weight=weight)
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

    def test_early_stopping_works_for_each_class(self):
        model = classifier(early_stopping=True, gamma=1e-3, n_iter_no_change=2, validation_fraction=0.3).fit(X, LABELS)
        assert all(np.isfinite(history.validation_mse).all() for history in model.histories_)

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


def test_warnings_point_to_the_call_of_fit():
    X = np.linspace(-1.0, 1.0, 30).reshape(-1, 1)
    with pytest.warns(ConvergenceWarning, match="max_epochs") as caught:
        DCONRegressor(3, gamma=0.1, max_epochs=1, tol=0.0, random_state=0).fit(X, np.abs(X[:, 0]))
    assert caught[0].filename == __file__
