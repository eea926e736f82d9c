"""The coding of targets: columns of numbers, and back to predictions."""

import numpy as np
import pytest

from dconnet.model.targets import Targets


def test_a_regression_has_its_target_as_the_only_column():
    targets = Targets()
    np.testing.assert_array_equal(targets.columns([1, 2.5]), [[1.0], [2.5]])
    np.testing.assert_array_equal(targets.predictions([[1.0], [2.5]]), [1.0, 2.5])
    assert targets.n_columns == 1
    assert targets.labels == [""]


@pytest.mark.parametrize("classes", [["a", "b"], [0, 1], [False, True], ["x", "y", "z"], [1.5, 2.5, 9.0, 11.0]])
def test_columns_predict_the_labels_that_they_code(classes):
    targets = Targets(classes)
    labels = np.array(classes * 3)
    assert targets.columns(labels).shape == (len(labels), targets.n_columns)
    np.testing.assert_array_equal(targets.predictions(targets.columns(labels)), labels)


def test_two_classes_need_one_column_for_the_second():
    targets = Targets(["no", "yes"])
    assert targets.n_columns == 1
    assert targets.labels == ["class yes"]


@pytest.mark.parametrize(("classes", "labels"), [(["a", "b", "c"], ["d"]), ([0, 1], ["0", "1"]), ([0, 1, 2], [0.5])])
def test_unknown_labels_are_refused(classes, labels):
    with pytest.raises(ValueError, match="classes that the training data did not have"):
        Targets(classes).columns(np.array(labels))


def test_classes_are_those_of_rows_that_count():
    targets = Targets.of_labels(np.array(["b", "a", "c"]), np.array([1.0, 2.0, 0.0]))
    assert targets.classes.tolist() == ["a", "b"]


def test_a_single_class_is_named_in_plain_text():
    with pytest.raises(ValueError, match="only one class: 'cat'"):
        Targets.of_labels(np.array(["cat", "cat"]), np.ones(2))


@pytest.mark.parametrize("targets", [Targets(), Targets(["a", "b"])])
def test_targets_have_one_dimension(targets):
    columns = np.array([[0.0], [1.0]]) if targets.classes is None else np.array([["a"], ["b"]])
    assert targets.columns(columns).shape == (2, 1)
    with pytest.raises(ValueError, match=r"one dimension, got shape \(2, 2\)"):
        targets.columns(np.hstack([columns, columns]))


def test_text_and_numbers_look_different_in_messages():
    with pytest.raises(ValueError, match=r"did not have: '0'\. Known classes: 0, 1\."):
        Targets([0, 1]).columns(["0"])


def test_the_empty_class_has_a_label():
    assert Targets(["", "a", "b"]).labels == ["class ''", "class a", "class b"]
    assert Targets(["\0", ""]).names == ["''"]
