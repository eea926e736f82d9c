"""Ensembles on data: rows of the training are found again and predicted out of fold, and the report shows it."""

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import log_loss, r2_score

from dconnet import AutoDCONClassifier, AutoDCONRegressor
from dconnet.ensemble import families
from dconnet.inspection.ensemble import examine_ensemble, examine_rows
from dconnet.inspection.report import report_page, write_report
from dconnet.inspection.report.ensemble import Residuals, ensemble_parts
from dconnet.inspection.report.reliability import Reliability
from dconnet.inspection.split import split_rows
from dconnet.io.ensemble import SavedEnsemble
from dconnet.io.model_file import Score
from dconnet.io.tables import Frame, Table

N_ROWS, SEED = 140, 3


def make_table(n_rows=N_ROWS, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n_rows))
    town = rng.choice(["Ulm", "Bonn", "<b>Kiel</b>"], n_rows)
    y = np.abs(a) + np.where(town == "Ulm", 2.0, 0.0) + 0.3 * rng.normal(size=n_rows)
    kinds = np.array(["low", "middle", "high"])[np.digitize(y, [0.8, 2.0])]
    columns = (a, np.where(b > 1.5, np.nan, b), town.astype(object), y, kinds.astype(object))
    return Table(("a", "b", "town", "y", "kind"), columns, "houses.csv")


FEATURES = ("a", "b", "town")


@pytest.fixture(scope="module")
def table():
    return make_table()


@pytest.fixture(scope="module")
def regressor(table):
    estimator = AutoDCONRegressor(random_state=SEED).fit(table.frame(FEATURES), table.column("y"))
    return estimator, SavedEnsemble.from_estimator(estimator, feature_names=FEATURES, target_name="y")


@pytest.fixture(scope="module")
def classifier(table):
    estimator = AutoDCONClassifier(random_state=SEED).fit(table.frame(FEATURES), table.labels("kind"))
    return estimator, SavedEnsemble.from_estimator(estimator, feature_names=FEATURES, target_name="kind")


class TestExamination:
    def test_rows_of_the_training_are_predicted_out_of_fold(self, table, regressor):
        estimator, model = regressor
        found = examine_ensemble(model, table)
        assert found.is_trained_on.all()
        np.testing.assert_allclose(found.predicted, estimator.oof_prediction_, rtol=1e-12)
        assert found.score.r2 == pytest.approx(r2_score(table.column("y"), estimator.oof_prediction_))
        assert found.sentence.startswith("The 140 rows of houses.csv are those that the model was trained on.")

    def test_so_are_their_probabilities(self, table, classifier):
        estimator, model = classifier
        found = examine_ensemble(model, table)
        assert found.is_trained_on.all()
        np.testing.assert_allclose(found.probabilities, estimator.oof_prediction_, rtol=1e-9)
        assert found.score.accuracy == pytest.approx(estimator.oof_score_)

    @pytest.mark.parametrize("target", ["y", "kind"])
    def test_rows_of_no_fold_are_left_out(self, table, target, monkeypatch):
        monkeypatch.setattr(families, "TWO_FOLDS", 100)
        is_class = target == "kind"
        y = table.labels("kind") if is_class else table.column("y")
        estimator = (AutoDCONClassifier if is_class else AutoDCONRegressor)(random_state=SEED)
        estimator.fit(table.frame(FEATURES), y)
        model = SavedEnsemble.from_estimator(estimator, feature_names=FEATURES, target_name=target)
        found = examine_ensemble(model, table)
        said = estimator.oof_prediction_
        known = np.isfinite(said if said.ndim == 1 else said[:, 0])
        assert (len(found.y), found.n_left_out) == (28, 112)
        assert found.is_trained_on.all()
        own = found.predicted if found.probabilities is None else found.probabilities
        np.testing.assert_allclose(own, said[known], rtol=1e-9)
        assert found.sentence.endswith("Another 112 rows are left out here: all networks were trained on them.")

    @pytest.mark.parametrize("target", ["y", "kind"])
    def test_held_out_rows_are_told_apart(self, table, target):
        is_class = target == "kind"
        y = table.labels("kind") if is_class else table.column("y")
        train, test = split_rows(y, 40, SEED, is_class)
        X = table.frame(FEATURES)
        estimator = (AutoDCONClassifier if is_class else AutoDCONRegressor)(random_state=SEED)
        estimator.fit(X.rows(train), y[train])
        model = SavedEnsemble.from_estimator(estimator, feature_names=FEATURES, target_name=target)
        model = model.with_scores({"test": Score.of(model, X.rows(test), y[test])})
        found = examine_ensemble(model, table)
        assert np.flatnonzero(~found.is_trained_on).tolist() == sorted(test.tolist())
        np.testing.assert_array_equal(found.predicted[test], estimator.predict(X.rows(test)))
        assert "100 of the 140 rows of houses.csv" in found.sentence
        assert "The others were held out" in found.sentence

    def test_other_rows_are_predicted_by_all_networks(self, regressor, classifier):
        other = make_table(seed=1)
        for estimator, model in (regressor, classifier):
            found = examine_ensemble(model, other)
            assert not found.is_training_data
            np.testing.assert_array_equal(found.predicted, estimator.predict(other.frame(FEATURES)))
            assert "are not those that the model was trained on" in found.sentence

    def test_without_a_seed_the_folds_are_not_known(self, table, regressor):
        _, model = regressor
        bare = SavedEnsemble.from_estimator(AutoDCONRegressor().fit(table.frame(FEATURES), table.column("y")))
        assert not examine_rows(bare, table.frame(FEATURES), table.column("y")).is_training_data
        fewer = table.frame(FEATURES).rows(np.arange(100))
        assert not examine_rows(model, fewer, table.column("y")[:100]).is_training_data

    def test_unknown_classes_and_missing_columns_are_named(self, table, classifier):
        _, model = classifier
        labels = table.column("kind").copy()
        labels[0] = "odd"
        with pytest.raises(ValueError, match="classes that the model does not know: odd"):
            examine_ensemble(model, replace(table, columns=(*table.columns[:4], labels)))
        with pytest.raises(ValueError, match="has no column 'kind'"):
            examine_ensemble(model, Table(table.names[:4], table.columns[:4]))


class TestNumbers:
    def test_reliability_is_that_of_scikit_learn(self):
        rng = np.random.default_rng(0)
        given = rng.random(500)
        happened = rng.random(500) < given
        found = Reliability.between(given, happened, np.where(happened, given, 1.0 - given))
        seen, mean = calibration_curve(happened, given, n_bins=10)
        np.testing.assert_allclose(found.seen, seen)
        np.testing.assert_allclose(found.given, mean)
        assert found.counts.sum() == 500
        assert found.log_loss == pytest.approx(log_loss(happened, given))

    def test_log_loss_of_several_classes(self, table, classifier):
        estimator, model = classifier
        found = examine_ensemble(model, table)
        reliability = Reliability.of(found.probabilities, found.y, model.classes)
        expected = log_loss(table.labels("kind"), estimator.oof_prediction_, labels=estimator.classes_)
        assert reliability.log_loss == pytest.approx(expected)
        assert reliability.counts.sum() == 3 * N_ROWS

    def test_the_interval_holds_its_share(self, table, regressor):
        estimator, model = regressor
        residuals = Residuals.of(examine_ensemble(model, table))
        X = table.frame(FEATURES)
        low, high = estimator.predict_interval(X, 0.9)
        np.testing.assert_allclose(high - low, 2.0 * residuals.half_width)
        assert 0.9 <= residuals.share_inside <= 0.93

    def test_entropy_is_the_loss_of_the_shares(self, table, classifier):
        _, model = classifier
        labels = table.labels("kind")
        confusion = ensemble_parts(examine_ensemble(model, table))["confusion"]
        classes, counts = np.unique(labels, return_counts=True)
        shares = np.tile(counts / N_ROWS, (N_ROWS, 1))
        assert confusion.entropy == pytest.approx(log_loss(labels, shares, labels=classes))
        assert confusion.counts.sum() == N_ROWS


class Tags(HTMLParser):
    """The tags of a page, which must be closed in order."""

    VOID = ("meta", "img", "br")

    def __init__(self, page):
        super().__init__()
        self.open, self.count = [], {}
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


class TestReport:
    @pytest.mark.parametrize("kind", ["regressor", "classifier"])
    @pytest.mark.parametrize("seed", [0, 1], ids=["training", "other"])
    def test_pages(self, request, kind, seed):
        _, model = request.getfixturevalue(kind)
        page = report_page(examine_ensemble(model, make_table(seed=seed)))
        assert page.startswith("<!DOCTYPE html>")
        assert Tags(page).count["img"] == 2
        for member in model.estimator.members_:
            assert (f"{member['weight']:.3f}" in page) or member["weight"] == 0.0
        for column in model.estimator.columns_:
            assert column["treatment"] in page
        assert ("Confusion matrix" in page) == (kind == "classifier")
        assert ("90 % interval" in page) == (kind == "regressor")

    def test_figures_are_svg_and_the_same_each_time(self, table, regressor):
        _, model = regressor
        pages = [report_page(examine_ensemble(model, table)) for _ in range(2)]
        assert pages[0] == pages[1]
        for figure in re.findall(r"base64,([A-Za-z0-9+/=]+)", pages[0]):
            assert b"<svg" in base64.b64decode(figure)

    def test_names_are_escaped(self, table, tmp_path):
        frame = table.frame(FEATURES)
        odd = Frame(("<script>", "$b$", "\x1btown"), frame.values)
        estimator = AutoDCONRegressor(random_state=0, max_seconds=1e-6).fit(odd, table.column("y"))
        model = SavedEnsemble.from_estimator(estimator, feature_names=odd.columns, target_name="<i>y")
        write_report(examine_rows(model, odd, table.column("y")), tmp_path / "report.html")
        page = (tmp_path / "report.html").read_text()
        assert "<script>" not in page
        assert "&lt;script&gt;" in page
        assert "<i>y" not in page
        assert "\x1b" not in page

    def test_many_columns(self):
        rng = np.random.default_rng(0)
        X = Frame(tuple(f"f{i}" for i in range(25)), tuple(rng.normal(size=(25, 80))))
        y = X["f0"].to_numpy()
        estimator = AutoDCONRegressor(random_state=0, max_seconds=1e-6).fit(X, y)
        model = SavedEnsemble.from_estimator(estimator, feature_names=X.columns)
        parts = ensemble_parts(examine_rows(model, X, y))
        assert "Of the 25 columns, the 20 most important ones are shown." in parts["importance_figure"].caption
        assert len(parts["columns"]) == 25
