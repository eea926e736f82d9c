"""``dconnet export``: a network or an ensemble for other libraries and languages."""

from __future__ import annotations

import argparse
from copy import copy
from pathlib import Path
from typing import Any

from dconnet.cli.shared import check_output, complain

SUFFIXES = {".onnx": "onnx", ".pt2": "torch", ".keras": "keras", ".c": "c", ".h": "c", ".py": "python"}
TARGETS = tuple(dict.fromkeys(SUFFIXES.values()))


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "export",
        help="write a model for another library or language",
        description="Write the network of a model file for another library or language: a model for ONNX Runtime, a "
        "program for torch.export.load, a file for keras.saving.load_model, or the source of a function in C99 or "
        "Python that needs nothing else. Inputs have the order of the features; inputs and outputs are in the units of "
        "the data. If the table held text, dates or missing values, the inputs are the columns of its TableEncoder. An "
        "ensemble can be written for ONNX Runtime and in C, if all columns are numbers.",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="model file written by dconnet fit")
    add("output", metavar="OUT", type=Path, help="file to write")
    add("--to", choices=TARGETS, help="what to write [default: by the ending of OUT]")
    add("--name", help="name of the function in C or Python [default: predict]")
    add("--probabilities", action="store_true", help="the probability of each class, not the outputs of the networks")
    add("--dtype", choices=("float64", "float32"), default="float64", help="precision of all numbers")
    add("--force", action="store_true", help="replace the output file if it exists")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the export."""
    from dconnet._files import write_bytes_atomically
    from dconnet.io.model_file import load

    output, target = options.output, options.to or SUFFIXES.get(options.output.suffix)
    if target is None:
        raise ValueError(
            f"The ending of {output} does not tell what to write. Name it with --to ({', '.join(TARGETS)})."
        )
    if options.name is not None and target not in ("c", "python"):
        raise ValueError(f"--name is about a function in C or Python, but the target is {target}. Leave it out.")
    if options.dtype == "float32" and target == "python":
        raise ValueError("Python computes in double precision. Leave --dtype out.")
    check_output(output, options.force)
    model = load(options.model)
    network = _find_network(model, target, options.dtype)
    if options.probabilities and not hasattr(network, "predict_proba"):
        raise ValueError("The model has no probabilities. Leave --probabilities out.")
    content = _render(network, target, options)
    with write_bytes_atomically(output) as file:
        file.write(content)
    if hasattr(model, "steps"):
        complain(
            "note",
            "The inputs are the columns of the TableEncoder, which dconnet.load(MODEL)[0].transform(table) computes.",
        )


def _find_network(model: Any, target: str, dtype: str) -> Any:
    from dconnet.estimators.auto_base import AutoEstimator
    from dconnet.export.chain import Exportable

    network: Any = model[-1] if hasattr(model, "steps") else model
    if isinstance(network, AutoEstimator) and (target not in ("onnx", "c") or dtype != "float64"):
        raise ValueError(
            "An ensemble can be exported only to onnx and c, in double precision. Train a network with dconnet fit "
            "--single, or with the method distil of an automatic model in Python."
        )
    if not isinstance(network, (AutoEstimator, Exportable)):
        raise ValueError("An encoder cannot be exported. Train a network with dconnet fit --single.")
    names = model.metadata_.feature_names
    inputs = names if network is model else model[:-1].get_feature_names_out(names)
    network = copy(network)
    network.feature_names_in_ = inputs
    return network


def _render(network: Any, target: str, options: argparse.Namespace) -> bytes:
    output, name = "probabilities" if options.probabilities else "raw", options.name or "predict"
    is_double = options.dtype == "float64"  # the default, and the only choice for ensembles
    if target == "onnx":
        settings = {} if is_double else {"dtype": options.dtype}
        proto = network.to_onnx(output="probabilities" if options.probabilities else None, **settings)
        return bytes(proto.SerializeToString())
    if target == "c":
        settings = {} if is_double else {"precision": "float"}
        return bytes(network.to_c(name, output=output, **settings).encode("ascii"))
    if target == "python":
        return bytes(network.to_python(name, output=output).encode("ascii"))
    chain = network.to_chain(output=output)
    if target == "torch":
        from dconnet.export.libraries import torch_file

        return torch_file(chain, options.dtype)
    from dconnet.export.libraries import keras_file

    return keras_file(chain, options.dtype)
