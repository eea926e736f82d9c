"""Ensembles of networks and trees on columns of numbers: one description as plain arrays, written as C or ONNX.

A prediction has five steps. Inputs become fields: numbers, or indicators of missing values. Fields become columns of a
design. Networks and trees of each fold compute outputs, one for each slot: a member and a column of the target. Outputs
are averaged over the folds, on the scale of the slot. An affine map of all slots gives targets or log-odds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import BoolArray, FloatArray, IndexArray
from dconnet._text import count
from dconnet.export.chain import Exported, select_output
from dconnet.export.source import c_body, c_function, c_tables, check_c_name, describe_in_c, format_numbers, wrap_items


@dataclass(frozen=True, slots=True, eq=False)
class FlatDesign:
    """Columns ``clip((value - offset) / width, low, high)``, rounded to single precision; ``fill`` replaces gaps."""

    field: IndexArray
    fill: FloatArray
    offset: FloatArray
    width: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class FlatNetworks:
    """ReLU networks on the same columns of the design, one for each slot.

    Attributes
    ----------
    inputs : array of int, of shape (n_inputs,)
        Columns of the design.
    U : array of shape (n_networks, n_inputs + 1, n_hidden)
        Hidden weights, the intercept last.
    alpha : array of shape (n_networks, n_hidden)
    intercept : array of shape (n_networks,)
    """

    inputs: IndexArray
    U: FloatArray
    alpha: FloatArray
    intercept: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class FlatTrees:
    """Sums of trees, one sum for each slot; a leaf is its own child.

    Attributes
    ----------
    field : array of int, of shape (n_nodes,)
        Field that a node compares, plus n_fields if missing values go to the right.
    number : array of shape (n_nodes,)
        Threshold of a node, or value of a leaf. A row goes to the right if its value is larger.
    left, right : arrays of int, of shape (n_nodes,)
    roots : array of int, of shape (n_rounds, n_slots)
    baseline : array of shape (n_slots,)
    """

    field: IndexArray
    number: FloatArray
    left: IndexArray
    right: IndexArray
    roots: IndexArray
    baseline: FloatArray

    @property
    def depth(self) -> int:
        """Number of comparisons until every row has reached a leaf."""
        nodes, depth = np.unique(self.roots), 0
        while np.any(self.left[nodes] != nodes):
            nodes, depth = np.unique(np.concatenate([self.left[nodes], self.right[nodes]])), depth + 1
        return depth


@dataclass(frozen=True, slots=True, eq=False)
class FlatSlots:
    """Scales of the slots: outputs are clipped, and perhaps become log-odds; averages perhaps become exponentials.

    ``output_low`` and ``output_high`` are bounds of outputs, ``low`` and ``high`` of predictions. ``factor`` is that of
    the exponential, and zero without one.
    """

    output_low: FloatArray
    output_high: FloatArray
    is_logit: BoolArray
    factor: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class FlatEnsemble:
    """An ensemble as arrays; see the module for the steps of a prediction.

    ``input`` is the input of each field, clipped to ±``largest``. Fields with ``is_indicator`` are one where the input
    is missing, and zero elsewhere. In each fold, the groups of ``folds`` fill the slots one after the other. ``head``
    maps the predictions of all slots to the outputs.
    """

    n_features: int
    feature_names: tuple[str, ...]
    input: IndexArray
    is_indicator: BoolArray
    largest: float
    design: FlatDesign
    folds: tuple[tuple[FlatNetworks | FlatTrees, ...], ...]
    slots: FlatSlots
    head: Exported


# The prefix NAME_ becomes the name of the function.
C_MEMBERS = """
static double NAME_clip(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

static void NAME_add(double *slots, int slot, double value)
{
    value = NAME_clip(value, NAME_slot_output_low[slot], NAME_slot_output_high[slot]);
    slots[slot] += NAME_slot_is_logit[slot] ? log(value / (1.0 - value)) : value;
}

static void NAME_members(const double *x, double *slots)
{
    double values[2 * NAME_n_fields], columns[NAME_n_columns], hidden[NAME_n_hidden], value;
    int i, j, k, node;

    for (i = 0; i < NAME_n_fields; i++) {
        value = x[NAME_field_input[i]];
        if (NAME_field_is_indicator[i])
            value = value != value ? 1.0 : 0.0;
        value = NAME_clip(value, -NAME_largest, NAME_largest);
        values[i] = value != value ? -HUGE_VAL : value;
        values[NAME_n_fields + i] = value != value ? HUGE_VAL : value;
    }
    for (i = 0; i < NAME_n_columns; i++) {
        j = NAME_column_field[i];
        value = values[j] < values[NAME_n_fields + j] ? NAME_column_fill[i] : values[j];
        value = (value - NAME_column_offset[i]) / NAME_column_width[i];
        columns[i] = (double)(float)NAME_clip(value, NAME_column_low[i], NAME_column_high[i]);
    }
    for (i = 0; i < NAME_n_slots; i++)
        slots[i] = 0.0;
    for (i = 0; i < NAME_n_networks; i++) {
        const int *inputs = NAME_network_inputs + NAME_network_first_input[i];
        const double *weights = NAME_network_weights + NAME_network_first_weight[i];
        const int width = NAME_network_n_hidden[i];

        for (k = 0; k < width; k++)
            hidden[k] = weights[k];
        for (j = 0; j < NAME_network_n_inputs[i]; j++) {
            weights += width;
            value = columns[inputs[j]];
            for (k = 0; k < width; k++)
                hidden[k] += value * weights[k];
        }
        weights += width;
        value = weights[width];
        for (k = 0; k < width; k++)
            value += hidden[k] > 0.0 ? weights[k] * hidden[k] : 0.0;
        NAME_add(slots, NAME_network_slot[i], value);
    }
    for (i = 0; i < NAME_n_sums; i++) {
        value = NAME_sum_baseline[i];
        for (j = 0; j < NAME_sum_n_rounds[i]; j++) {
            node = NAME_roots[NAME_sum_first_root[i] + j];
            while (NAME_node_left[node] != node)
                node = values[NAME_node_field[node]] > NAME_node_number[node] ? NAME_node_right[node]
                                                                              : NAME_node_left[node];
            value += NAME_node_number[node];
        }
        NAME_add(slots, NAME_sum_slot[i], value);
    }
    for (i = 0; i < NAME_n_slots; i++) {
        value = slots[i] / NAME_n_folds;
        value = NAME_slot_factor[i] > 0.0 ? NAME_slot_factor[i] * exp(value) : value;
        slots[i] = NAME_clip(value, NAME_slot_low[i], NAME_slot_high[i]);
    }
}
"""


def ensemble_to_c(flat: FlatEnsemble, name: str, output: str) -> str:
    """Return a function in C99, as `dconnet.export.source.to_c`; NaN is a missing input."""
    check_c_name(name)
    chain = select_output(flat.head, output)
    arrays, sizes = _c_arrays(flat)
    lines = describe_in_c(
        f"Ensemble of {count(sizes['n_networks'], 'network')} and {count(len(arrays['roots']), 'tree')}",
        flat.feature_names,
        chain.output_names,
    )
    lines += ["#include <math.h>", "", f"static const double {name}_largest = {flat.largest!r};", "enum {"]
    lines += [f"    {name}_{key} = {size}," for key, size in sizes.items()]
    lines[-1] = lines[-1].removesuffix(",")
    lines += ["};"]
    for key, values in arrays.items():
        values = np.zeros(1, dtype=values.dtype) if len(values) == 0 else values  # C has no empty arrays
        is_number = values.dtype.kind == "f"
        texts = format_numbers(values) if is_number else [str(int(value)) for value in values]
        lines += [f"static const {'double' if is_number else 'int'} {name}_{key}[{len(values)}] = {{"]
        lines += [f"    {wrap_items(texts, '    ')}", "};"]
    lines += [*c_tables(chain, name, "double"), C_MEMBERS.replace("NAME_", f"{name}_")]
    body = [f"    double slots[{name}_n_slots];", "", f"    {name}_members(x, slots);", "    {"]
    body += [f"    {line}" if line else "" for line in c_body(chain, name, "double", "slots")]
    return "\n".join(lines + c_function(chain, name, "double", flat.n_features, [*body, "    }"]))


def _c_arrays(flat: FlatEnsemble) -> tuple[dict[str, NDArray[Any]], dict[str, int]]:
    """Return the arrays of a source by name, with those of all groups joined, and the sizes that loops run over."""
    networks: list[tuple[int, ...]] = []
    sums: list[tuple[int, ...]] = []
    inputs, weights, roots, baselines = [np.zeros(0, np.intp)], [np.zeros(0)], [np.zeros(0, np.intp)], [np.zeros(0)]
    nodes: dict[str, list[NDArray[Any]]] = {
        key: [np.zeros(0, np.float64 if key == "number" else np.intp)] for key in ("field", "number", "left", "right")
    }
    n_inputs = n_weights = n_roots = n_nodes = 0
    for groups in flat.folds:
        slot = 0
        for group in groups:
            if isinstance(group, FlatNetworks):
                for U, alpha, intercept in zip(group.U, group.alpha, group.intercept, strict=True):
                    networks.append((slot, n_inputs, len(group.inputs), U.shape[1], n_weights))
                    weights.append(np.concatenate([U[-1], U[:-1].ravel(), alpha, [intercept]]))
                    n_weights, slot = n_weights + len(weights[-1]), slot + 1
                inputs.append(group.inputs)
                n_inputs += len(group.inputs)
                continue
            for own in group.roots.T:
                sums.append((slot, n_roots, len(own)))
                roots.append(own + n_nodes)
                n_roots, slot = n_roots + len(own), slot + 1
            baselines.append(group.baseline)
            for key, parts in nodes.items():
                parts.append(getattr(group, key) + (n_nodes if key in ("left", "right") else 0))
            n_nodes += len(group.number)
    network_table = np.array(networks, dtype=np.intp).reshape(-1, 5).T
    sum_table = np.array(sums, dtype=np.intp).reshape(-1, 3).T
    network_keys, sum_keys = ("slot", "first_input", "n_inputs", "n_hidden", "first_weight"), ("slot", "first_root")
    arrays: dict[str, NDArray[Any]] = {"field_input": flat.input, "field_is_indicator": flat.is_indicator}
    arrays |= {f"column_{key}": getattr(flat.design, key) for key in FlatDesign.__slots__}
    arrays |= {f"slot_{key}": getattr(flat.slots, key) for key in FlatSlots.__slots__}
    arrays |= {f"network_{key}": own for key, own in zip(network_keys, network_table, strict=True)}
    arrays |= {"network_inputs": np.concatenate(inputs), "network_weights": np.concatenate(weights)}
    arrays |= {f"sum_{key}": own for key, own in zip((*sum_keys, "n_rounds"), sum_table, strict=True)}
    arrays |= {"sum_baseline": np.concatenate(baselines), "roots": np.concatenate(roots)}
    arrays |= {f"node_{key}": np.concatenate(parts) for key, parts in nodes.items()}
    sizes = {"n_fields": len(flat.input), "n_columns": len(flat.design.field), "n_slots": len(flat.slots.low)}
    sizes |= {"n_folds": len(flat.folds), "n_networks": len(networks), "n_sums": len(sums)}
    return arrays, sizes | {"n_hidden": int(network_table[3].max(initial=1))}
