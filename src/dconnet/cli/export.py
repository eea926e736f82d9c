"""``dconnet export``: a network for other libraries and languages."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dconnet.cli.shared import ForceOption, MaxBytesOption, ModelArgument, check_output, complain, load, user_errors

if TYPE_CHECKING:
    from dconnet.io.model_file import SavedModel


class Target(StrEnum):
    """What a network can be exported to."""

    onnx = "onnx"
    torch = "torch"
    keras = "keras"
    c = "c"
    python = "python"


class DType(StrEnum):
    """Precision of weights, inputs and outputs."""

    float64 = "float64"
    float32 = "float32"


SUFFIXES = {
    ".onnx": Target.onnx,
    ".pt2": Target.torch,
    ".keras": Target.keras,
    ".c": Target.c,
    ".h": Target.c,
    ".py": Target.python,
}


def export(
    model: ModelArgument,
    output: Annotated[Path, typer.Argument(metavar="OUT", help="File to write.")],
    to: Annotated[
        Target | None,
        typer.Option("--to", help="What to write. [default: by the ending of OUT: .onnx, .pt2, .keras, .c, .py]"),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the function in C or Python. [default: predict]")] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="The probability of each class, not the outputs of the networks.")
    ] = False,
    dtype: Annotated[DType, typer.Option(help="Precision of weights, inputs and outputs.")] = DType.float64,
    force: ForceOption = False,
    max_bytes: MaxBytesOption = None,
) -> None:
    """Write the network of a model file for another library or language.

    The scaling of the data is included: inputs and outputs are in their own units, and the inputs are in the order of
    the features. If the table held text, dates or gaps, the inputs are the columns of numbers that it was turned into.
    ONNX models of classifiers give labels and, if there are any, probabilities; all others give numbers.

    OUT is, by target: a model for ONNX Runtime and others, a program for torch.export.load, a file for
    keras.saving.load_model, or the source of a function in C99 or Python that needs nothing else.
    """
    with user_errors():
        target = _target(output, to)
        if name is not None and target not in (Target.c, Target.python):
            raise ValueError(f"--name is about a function in C or Python, but the target is {target}.")
        if dtype is DType.float32 and target is Target.python:
            raise ValueError("Python computes in double precision: leave --dtype out.")
        check_output(output, force)
        network = _network(load(model, max_bytes))
        if probabilities and network.classes is None:
            raise ValueError(f"There are no classes: {network.target_name} is a number. Leave --probabilities out.")
        _write(_content(network.of_inputs, target, name or "predict", probabilities, dtype), output)
        if network.encoding is not None:
            complain("note", _note_on_inputs(network))


def _target(output: Path, to: Target | None) -> Target:
    if to is not None:
        return to
    if output.suffix not in SUFFIXES:
        raise ValueError(
            f"The ending of {output} does not tell what to write: name it with --to ({', '.join(Target)})."
        )
    return SUFFIXES[output.suffix]


def _network(model: Any) -> SavedModel:
    from dconnet.io.model_file import SavedModel

    if not isinstance(model, SavedModel):
        raise ValueError(
            "An ensemble cannot be exported, only a network. Train one with dconnet fit --single, or, from an ensemble "
            "of a number, with AutoDCONRegressor.distil in Python."
        )
    return model


def _note_on_inputs(model: SavedModel) -> str:
    return (
        "The preparation of the table is not exported: the inputs are the columns that it makes, "
        f"{len(model.input_names)} numbers for a row of {len(model.feature_names)} columns. In Python, "
        "load_model(MODEL).inputs(table) computes them, and input_names names them."
    )


def _content(model: SavedModel, target: Target, name: str, probabilities: bool, dtype: DType) -> bytes:
    output = "probabilities" if probabilities else "raw"
    if target is Target.onnx:
        proto = model.to_onnx(output="probabilities" if probabilities else None, dtype=dtype)
        return bytes(proto.SerializeToString())
    if target is Target.c:
        precision = "double" if dtype is DType.float64 else "float"
        return model.to_c(name, output=output, precision=precision).encode("ascii")
    if target is Target.python:
        return model.to_python(name, output=output).encode("ascii")
    chain = model.to_chain(output=output)
    if target is Target.torch:
        from dconnet.export.torch import torch_file

        return torch_file(chain, dtype)
    from dconnet.export.keras import keras_file

    return keras_file(chain, dtype)


def _write(content: bytes, output: Path) -> None:
    from dconnet.io.files import written_whole

    with written_whole(output) as file:
        file.buffer.write(content)
