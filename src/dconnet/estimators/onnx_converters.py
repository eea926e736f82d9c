"""Converters for skl2onnx, so that it converts pipelines that end in an estimator of dconnet."""

from __future__ import annotations

from typing import Any

from dconnet.estimators.dcon import DCONClassifier, DCONRegressor
from dconnet.estimators.layerwise import LayerwiseDCONClassifier, LayerwiseDCONRegressor
from dconnet.export.chain import Affine, Chain, ClassifierChain
from dconnet.export.onnx import Graph, label_array

REGRESSORS = (DCONRegressor, LayerwiseDCONRegressor)
CLASSIFIERS = (DCONClassifier, LayerwiseDCONClassifier)
OPTIONS = {
    "zipmap": [True, False, "columns"],
    "nocl": [True, False],
    "output_class_labels": [False, True],
    "raw_scores": [True, False],
}


def register_onnx_converters() -> None:
    """Register converters for the estimators of dconnet with skl2onnx.

    The model computes in the precision of its inputs: in double precision if they are of type float64. Classifiers have
    the options ``zipmap``, ``nocl``, ``output_class_labels`` and ``raw_scores`` of skl2onnx. Classifiers without
    probabilities return the raw scores instead.

    Raises
    ------
    ImportError
        If skl2onnx is not installed.

    Examples
    --------
    >>> import numpy as np  # doctest: +SKIP
    >>> from sklearn.pipeline import make_pipeline  # doctest: +SKIP
    >>> from sklearn.preprocessing import StandardScaler  # doctest: +SKIP
    >>> from skl2onnx import to_onnx  # doctest: +SKIP
    >>> from dconnet import DCONRegressor  # doctest: +SKIP
    >>> from dconnet.estimators import register_onnx_converters  # doctest: +SKIP
    >>> X = np.linspace(-1, 1, 30).reshape(-1, 1)  # doctest: +SKIP
    >>> pipeline = make_pipeline(StandardScaler(), DCONRegressor(3, tol=1e-3, random_state=0))  # doctest: +SKIP
    >>> register_onnx_converters()  # doctest: +SKIP
    >>> model = to_onnx(pipeline.fit(X, np.abs(X[:, 0])), X)  # doctest: +SKIP
    >>> [output.name for output in model.graph.output]  # doctest: +SKIP
    ['variable']
    """
    try:
        from skl2onnx import update_registered_converter
        from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes
    except ModuleNotFoundError as error:
        raise ImportError("This export needs the package skl2onnx: pip install 'dconnet[onnx]'") from error
    for regressor in REGRESSORS:
        update_registered_converter(regressor, f"Dconnet{regressor.__name__}", _set_shape, _convert_regressor)
    for classifier in CLASSIFIERS:
        update_registered_converter(
            classifier,
            f"Dconnet{classifier.__name__}",
            calculate_linear_classifier_output_shapes,
            _convert_classifier,
            options=OPTIONS,
        )


def _set_shape(operator: Any) -> None:
    """Set the shape and the type of the predictions: the type of the inputs if it is a float, otherwise float32."""
    from skl2onnx.common.data_types import guess_tensor_type

    kind = type(guess_tensor_type(operator.inputs[0].type))
    shape = [operator.inputs[0].get_first_dimension(), operator.raw_operator.to_chain().n_outputs]
    operator.outputs[0].set_type(kind(shape))


def _convert_regressor(scope: Any, operator: Any, container: Any) -> None:
    graph, source = _begin_graph(scope, operator)
    graph.chain(source, operator.raw_operator.to_chain(), operator.outputs[0].full_name)
    _add_to_model(graph, scope, container)


def _convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    from skl2onnx.common.utils_classifier import get_label_classes

    estimator, (label, shares) = operator.raw_operator, operator.outputs
    graph, source = _begin_graph(scope, operator)
    exported: ClassifierChain = estimator._build_chain()
    scores = graph.chain(source, exported.scores)
    classes = tuple(get_label_classes(scope, estimator).tolist())
    graph.label(scores, exported, label_array(classes), label.full_name)
    if exported.logits is not None and not container.get_options(estimator, {"raw_scores": False})["raw_scores"]:
        graph.probabilities(scores, exported, shares.full_name)
    else:
        # As skl2onnx has it: two classes have a column each, the first with the opposite sign.
        columns = Affine([[-1.0], [1.0]], [0.0, 0.0]) if exported.is_binary else Affine.identity(len(classes))
        graph.chain(scores, Chain((columns,)), shares.full_name)
    _add_to_model(graph, scope, container)


def _begin_graph(scope: Any, operator: Any) -> tuple[Graph, str]:
    """Return an empty graph in the precision of the inputs, and the name of its input; integers are cast to float32."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
    from skl2onnx.proto import onnx_proto

    kind, source = operator.inputs[0].type, operator.inputs[0].full_name
    graph = Graph("float64" if isinstance(kind, DoubleTensorType) else "float32", scope.get_unique_variable_name)
    if not isinstance(kind, (DoubleTensorType, FloatTensorType)):
        source = graph.add("Cast", source, to=onnx_proto.TensorProto.FLOAT)
    return graph, source


def _add_to_model(graph: Graph, scope: Any, container: Any) -> None:
    """Add the constants and nodes of a graph to the model of skl2onnx."""
    from skl2onnx.proto import onnx_proto

    types = {"float64": "DOUBLE", "float32": "FLOAT", "int64": "INT64", "object": "STRING"}
    for name, values in graph.constants.items():
        kind = getattr(onnx_proto.TensorProto, types[values.dtype.name])
        container.add_initializer(name, kind, list(values.shape), values.ravel().tolist())
    for node in graph.nodes:
        name = scope.get_unique_operator_name(node.operator)
        container.add_node(node.operator, list(node.inputs), [node.output], name=name, **node.attributes)
