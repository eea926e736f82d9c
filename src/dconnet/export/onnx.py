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
from dconnet.export.flat_ensemble import FlatEnsemble, FlatNetworks, FlatTrees

if TYPE_CHECKING:
    from onnx import ModelProto

# Versions of 2021, which old runtimes support. ONNX Runtime has every operator used here in double precision.
OPSET = 15
IR_VERSION = 8
FLOAT, INT64, DOUBLE = 1, 7, 11  # of TensorProto

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


def add_ensemble(graph: Graph, source: str, flat: FlatEnsemble) -> str:
    """Add an ensemble to a graph of double precision; return the name of the predictions of all slots."""

    def clip(name: str, low: Any, high: Any) -> str:
        raised = graph.add("Max", name, graph.constant("low", np.asarray(low)))
        return graph.add("Min", raised, graph.constant("high", np.asarray(high)))

    raw = graph.add("Gather", source, graph.constant("input", flat.input.astype(np.int64)), axis=1)
    is_missing, is_indicator = graph.add("IsNaN", raw), graph.constant("is_indicator", flat.is_indicator)
    clipped = clip(raw, -flat.largest, flat.largest)
    values = graph.add("Where", is_indicator, graph.add("Cast", is_missing, to=DOUBLE), clipped)
    gaps = graph.add("And", is_missing, graph.add("Not", is_indicator))
    ends = [graph.add("Where", gaps, graph.constant("end", np.array(end)), values) for end in (-np.inf, np.inf)]
    both = graph.add("Concat", *ends, axis=1)
    design, field = flat.design, graph.constant("field", flat.design.field.astype(np.int64))
    own = [graph.add("Gather", name, field, axis=1) for name in (gaps, values)]
    filled = graph.add("Where", own[0], graph.constant("fill", design.fill), own[1])
    moved = graph.add("Sub", filled, graph.constant("offset", design.offset))
    shares = clip(graph.add("Div", moved, graph.constant("width", design.width)), design.low, design.high)
    columns = graph.add("Cast", graph.add("Cast", shares, to=FLOAT), to=DOUBLE)

    slots, averages = flat.slots, []
    for groups in flat.folds:
        outputs = [
            _add_networks(graph, columns, group) if isinstance(group, FlatNetworks) else _add_trees(graph, both, group)
            for group in groups
        ]
        scaled = clip(graph.add("Concat", *outputs, axis=1), slots.output_low, slots.output_high)
        if slots.is_logit.any():
            odds = graph.add("Div", scaled, graph.add("Sub", graph.constant("one", np.ones(())), scaled))
            is_logit = graph.constant("is_logit", slots.is_logit)
            scaled = graph.add("Where", is_logit, graph.add("Log", odds), scaled)
        averages.append(scaled)
    average = graph.add("Div", graph.add("Sum", *averages), graph.constant("n_folds", np.array(float(len(averages)))))
    if slots.factor.any():
        powers = graph.add("Mul", graph.add("Exp", average), graph.constant("factor", slots.factor))
        average = graph.add("Where", graph.constant("is_logarithm", slots.factor > 0.0), powers, average)
    return clip(average, slots.low, slots.high)


def _add_networks(graph: Graph, columns: str, group: FlatNetworks) -> str:
    n_networks, _, n_hidden = group.U.shape
    W, b = np.concatenate(list(group.U[:, :-1]), axis=1), group.U[:, -1].ravel()
    own = graph.add("Gather", columns, graph.constant("inputs", group.inputs.astype(np.int64)), axis=1)
    hidden = graph.add("Relu", graph.add("Gemm", own, graph.constant("U", W), graph.constant("b", b)))
    shape = graph.constant("shape", np.array([0, n_networks, n_hidden]))  # zero keeps the number of rows
    terms = graph.add("Mul", graph.add("Reshape", hidden, shape), graph.constant("alpha", group.alpha))
    total = graph.add("ReduceSum", terms, graph.constant("axes", np.array([2])), keepdims=0)
    return graph.add("Sum", total, graph.constant("intercept", group.intercept))  # see _add_trees


def _add_trees(graph: Graph, both: str, group: FlatTrees) -> str:
    """Move all rows down all trees at once, one comparison after the other."""
    roots, children = group.roots.ravel(), np.column_stack([group.left, group.right]).astype(np.int64)
    number, child, two = (
        graph.constant("number", group.number),
        graph.constant("child", children.ravel()),
        graph.constant("two", np.array(2)),
    )
    values = graph.add("Gather", both, graph.constant("root_field", group.field[roots].astype(np.int64)), axis=1)
    nodes, thresholds = graph.constant("root", roots.astype(np.int64)), graph.constant("threshold", group.number[roots])
    depth = max(1, group.depth)
    # A constant without a use would make ONNX Runtime warn.
    field = graph.constant("field", group.field.astype(np.int64)) if depth > 1 else ""
    for step in range(depth):
        if step > 0:
            values = graph.add("GatherElements", both, graph.add("Gather", field, nodes), axis=1)
            thresholds = graph.add("Gather", number, nodes)
        is_right = graph.add("Cast", graph.add("Greater", values, thresholds), to=INT64)
        nodes = graph.add("Gather", child, graph.add("Add", graph.add("Mul", nodes, two), is_right))
    shape = graph.constant("shape", np.array([0, *group.roots.shape]))  # zero keeps the number of rows
    leaves = graph.add("Reshape", graph.add("Gather", number, nodes), shape)
    total = graph.add("ReduceSum", leaves, graph.constant("axes", np.array([1])), keepdims=0)
    # ONNX Runtime leaves out an Add of one number that is zero in single precision, such as 1e-50.
    return graph.add("Sum", total, graph.constant("baseline", group.baseline))


def to_onnx(
    exported: Exported | FlatEnsemble,
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
    head = exported.head if isinstance(exported, FlatEnsemble) else exported
    scores = head.scores if isinstance(head, ClassifierChain) else head
    inputs = exported if isinstance(exported, FlatEnsemble) else scores
    source = add_ensemble(graph, INPUT, exported) if isinstance(exported, FlatEnsemble) else INPUT
    outputs = _build(graph, source, head, output)
    number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(graph.dtype))
    label_types = {"O": onnx.TensorProto.STRING, "i": onnx.TensorProto.INT64, "f": onnx.TensorProto.DOUBLE}
    made = onnx.helper.make_graph(
        [
            onnx.helper.make_node(node.operator, list(node.inputs), [node.output], name=node.output, **node.attributes)
            for node in graph.nodes
        ],
        "dconnet",
        [onnx.helper.make_tensor_value_info(INPUT, number, ["n_samples", inputs.n_features])],
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
    if inputs.feature_names:
        onnx.helper.set_model_props(model, {"feature_names": json.dumps(inputs.feature_names)})
    onnx.checker.check_model(model, full_check=True)
    if path is not None:
        with write_bytes_atomically(path) as file:
            file.write(model.SerializeToString())
    return model


Output = tuple[str, NDArray[Any] | None, list[int]]


def _build(graph: Graph, source: str, exported: Exported, output: str | None) -> list[Output]:
    """Add what follows the source; return name, labels if any, and shape of each output."""
    if output not in (None, "raw", "probabilities"):
        raise ValueError(f"output must be 'raw' or 'probabilities', got {output!r}.")
    if isinstance(exported, Chain):
        if output == "probabilities":
            raise ValueError("Only classifiers have probabilities: use output='raw'.")
        graph.chain(source, exported, REGRESSION)
        return [(REGRESSION, None, [exported.n_outputs])]
    with_probabilities = output == "probabilities" or (output is None and exported.logits is not None)
    labels, n_scores = label_array(exported.classes), exported.scores.n_outputs
    scores = graph.chain(source, exported.scores, None if with_probabilities else SCORES)
    graph.label(scores, exported, labels, LABEL)
    if with_probabilities:
        graph.probabilities(scores, exported, PROBABILITIES)
    beside: Output = (PROBABILITIES, None, [len(labels)]) if with_probabilities else (SCORES, None, [n_scores])
    return [(LABEL, labels, []), beside]
