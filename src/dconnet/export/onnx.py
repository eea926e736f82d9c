"""ONNX models."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dconnet._files import write_bytes_atomically
from dconnet.export.chain import Affine, Chain, ClassifierChain, Exported, dtype_name

if TYPE_CHECKING:
    from onnx import ModelProto

# Versions of 2021, which old runtimes support. ONNX Runtime has every operator used here in double precision.
OPSET = 15
IR_VERSION = 8
INT64 = 7  # TensorProto.INT64

INPUT, REGRESSION, LABEL, PROBABILITIES, SCORES = "X", "variable", "label", "probabilities", "scores"


class Node(NamedTuple):
    """An operator of a graph, with the names of its inputs and of its output."""

    operator: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Any]


@dataclass(slots=True)
class Graph:
    """Nodes and constants of a graph, for `to_onnx` and for the converters of skl2onnx."""

    dtype: str
    make_unique: Callable[[str], str]  # returns a name that the graph does not have yet, given a proposal
    nodes: list[Node] = field(default_factory=list)  # in the order of evaluation
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)  # arrays of text hold objects

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        name = self.make_unique(operator.lower()) if output is None else output
        self.nodes.append(Node(operator, inputs, name, attributes))
        return name

    def constant(self, name: str, values: NDArray[Any]) -> str:
        """Add an array, and return its name."""
        unique = self.make_unique(name)
        self.constants[unique] = values
        return unique

    def chain(self, source: str, chain: Chain, output: str | None = None) -> str:
        """Add a chain, and return the name of its output."""
        weights = chain.weights(self.dtype)
        for place, (W, b) in enumerate(weights, start=1):
            is_last = place == len(weights)
            own = output if is_last and not chain.softmax else None
            names = self.constant(f"W{place}", W), self.constant(f"b{place}", b)
            # The attributes are the defaults but for transB; some readers need to see them all.
            source = self.add("Gemm", source, *names, output=own, alpha=1.0, beta=1.0, transB=1)
            if not is_last:
                source = self.add("Relu", source)
        return self.add("Softmax", source, output=output, axis=1) if chain.softmax else source

    def label(self, scores: str, exported: ClassifierChain, labels: NDArray[Any], output: str) -> None:
        """Add the label of the predicted class."""
        if exported.is_binary:
            zero = self.constant("zero", np.zeros(1, dtype=self.dtype))
            flags = self.add("Cast", self.add("Greater", scores, zero), to=INT64)
            winner = self.add("Reshape", flags, self.constant("shape", np.array([-1])))
        else:
            winner = self.add("ArgMax", scores, axis=1, keepdims=0)
        self.add("Gather", self.constant("classes", labels), winner, output=output)

    def probabilities(self, scores: str, exported: ClassifierChain, output: str) -> None:
        """Add the probabilities of all classes, from the scores."""
        same = Chain((Affine.identity(exported.scores.n_outputs),))
        self.chain(scores, ClassifierChain(same, exported.classes, exported.logits).probabilities, output)


def label_array(classes: tuple[Any, ...]) -> NDArray[Any]:
    """Return class labels as text, as int64 for whole numbers and booleans, or as float64 for other numbers."""
    if all(isinstance(label, str) for label in classes):
        return np.array(classes, dtype=object)
    if not all(isinstance(label, (int, float, np.number, np.bool_)) for label in classes):
        raise ValueError(f"Class labels must be text or numbers for ONNX, got {list(classes)[:5]!r}.")
    numbers = np.array(classes)
    whole = numbers.astype(np.int64)
    return whole if np.array_equal(whole, numbers) else numbers.astype(np.float64)


def to_onnx(
    exported: Exported,
    path: str | os.PathLike[str] | None = None,
    *,
    output: str | None = None,
    dtype: object = "float64",
) -> ModelProto:
    """Return an ONNX model, and write it to ``path`` if there is one.

    Names and shapes of inputs and outputs are those of the models that skl2onnx makes: see `Exportable.to_onnx`. The
    names of the features are in the metadata, as a list in JSON.
    """
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise ImportError("This export needs the package onnx: pip install 'dconnet[onnx]'") from error
    used: Counter[str] = Counter()

    def make_unique(name: str) -> str:
        used[name] += 1
        return name if used[name] == 1 else f"{name}_{used[name]}"

    graph = Graph(dtype_name(dtype), make_unique)
    n_features, outputs = _build(graph, exported, output)
    number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(graph.dtype))
    label_types = {"O": onnx.TensorProto.STRING, "i": onnx.TensorProto.INT64, "f": onnx.TensorProto.DOUBLE}
    made = onnx.helper.make_graph(
        [
            onnx.helper.make_node(node.operator, list(node.inputs), [node.output], name=node.output, **node.attributes)
            for node in graph.nodes
        ],
        "dconnet",
        [onnx.helper.make_tensor_value_info(INPUT, number, ["n_samples", n_features])],
        [
            onnx.helper.make_tensor_value_info(
                name, number if labels is None else label_types[labels.dtype.kind], ["n_samples", *sizes]
            )
            for name, labels, sizes in outputs
        ],
        [onnx.numpy_helper.from_array(values, name) for name, values in graph.constants.items()],
    )
    opset = onnx.helper.make_opsetid("", OPSET)
    model: ModelProto = onnx.helper.make_model(made, opset_imports=[opset], producer_name="dconnet")
    model.ir_version = IR_VERSION
    scores = exported.scores if isinstance(exported, ClassifierChain) else exported
    if scores.feature_names:
        onnx.helper.set_model_props(model, {"feature_names": json.dumps(scores.feature_names)})
    onnx.checker.check_model(model, full_check=True)
    if path is not None:
        with write_bytes_atomically(path) as file:
            file.write(model.SerializeToString())
    return model


Output = tuple[str, NDArray[Any] | None, list[int]]


def _build(graph: Graph, exported: Exported, output: str | None) -> tuple[int, list[Output]]:
    """Build the graph; return the number of features, and of each output its name, its labels if any, and its shape."""
    if output not in (None, "raw", "probabilities"):
        raise ValueError(f"output must be 'raw' or 'probabilities', got {output!r}.")
    if isinstance(exported, Chain):
        if output == "probabilities":
            raise ValueError("Only classifiers have probabilities: use output='raw'.")
        graph.chain(INPUT, exported, REGRESSION)
        return exported.n_features, [(REGRESSION, None, [exported.n_outputs])]
    with_probabilities = output == "probabilities" or (output is None and exported.logits is not None)
    labels, n_scores = label_array(exported.classes), exported.scores.n_outputs
    scores = graph.chain(INPUT, exported.scores, None if with_probabilities else SCORES)
    graph.label(scores, exported, labels, LABEL)
    if with_probabilities:
        graph.probabilities(scores, exported, PROBABILITIES)
    beside: Output = (PROBABILITIES, None, [len(labels)]) if with_probabilities else (SCORES, None, [n_scores])
    return exported.scores.n_features, [(LABEL, labels, []), beside]
