"""The coding of targets: columns of numbers, and back to predictions."""

import numpy as np
import pytest

from dconnet.model.targets import Targets


@pytest.mark.parametrize("classes", [["a", "b"], [0, 1], [False, True], ["x", "y", "z"], [1.5, 2.5, 9.0, 11.0]])
def test_columns_predict_the_labels_that_they_code(classes):
    targets = Targets(classes)
    labels = np.array(classes * 3)
    assert targets.columns(labels).shape == (len(labels), 1 if len(classes) == 2 else len(classes))
    np.testing.assert_array_equal(targets.predictions(targets.columns(labels)), labels)


def test_a_regression_is_its_own_column():
    np.testing.assert_array_equal(Targets().columns([1, 2.5]), [[1.0], [2.5]])
    np.testing.assert_array_equal(Targets().predictions([[1.0], [2.5]]), [1.0, 2.5])


def test_labels_of_networks():
    assert Targets().labels == [""]
    assert Targets(["no", "yes"]).labels == ["class yes"]
    assert Targets(["", "a", "b"]).labels == ["class ''", "class a", "class b"]


def test_classes_need_a_positive_weight():
    targets = Targets.of_labels(np.array(["b", "a", "c"]), np.array([1.0, 2.0, 0.0]))
    assert targets.classes.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="only one class: 'cat'"):
        Targets.of_labels(np.array(["cat", "cat"]), np.ones(2))
    with pytest.raises(ValueError, match=r"float16\. Convert them"):
        Targets.of_labels(np.array([0, 1], dtype=np.float16), np.ones(2))


@pytest.mark.parametrize(("classes", "labels"), [(["a", "b", "c"], ["d"]), ([0, 1], ["0", "1"]), ([0, 1, 2], [0.5])])
def test_unknown_labels_are_refused(classes, labels):
    with pytest.raises(ValueError, match="classes that the training data did not have"):
        Targets(classes).columns(np.array(labels))


def test_one_target_has_one_dimension():
    assert Targets().columns([[0.0], [1.0]]).shape == (2, 1)
    with pytest.raises(ValueError, match=r"one dimension, got shape \(2, 2\)"):
        Targets().columns(np.zeros((2, 2)))
