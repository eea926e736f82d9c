"""``dconnet inspect``: what a model file holds, and what its networks reach on a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dconnet._text import printable
from dconnet.cli import ensemble
from dconnet.cli.shared import (
    USER_ERROR,
    ForceOption,
    MaxBytesOption,
    ModelArgument,
    check_output,
    complain,
    load,
    print_score,
    shortened,
    user_errors,
)

if TYPE_CHECKING:
    from dconnet._arrays import FloatArray
    from dconnet.inspection.saved.ensemble import EnsembleExamination
    from dconnet.inspection.saved.examination import Examination
    from dconnet.io.ensemble import SavedEnsemble
    from dconnet.io.model_file import SavedModel
    from dconnet.model.network import Network


def inspect(
    model: ModelArgument,
    data: Annotated[
        Path | None, typer.Option(metavar="DATA", help="Table on which to examine the model; - for standard input.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="HTML file of the report. [default: report.html]")
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Repeat the training on DATA to record every step of it.")
    ] = False,
    rows: Annotated[
        bool,
        typer.Option("--rows/--no-rows", help="Whether the report on a network holds rows of DATA, for comparison."),
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with all neurons and features.")] = False,
    force: ForceOption = False,
    max_bytes: MaxBytesOption = None,
) -> None:
    """Show what a model file holds and, with --data, what the model reaches on a table.

    Of a network, the strength of a neuron is |alpha| |w|; that of a feature is the sum of |alpha w| over the neurons.

    With --data, the certificate of a network on these data is printed, or how well an ensemble predicts them, and a
    report with plots is written to an HTML file.
    """
    with user_errors():
        if data is None and (output is not None or replay):
            raise ValueError("--output and --replay are about a table. Name the table with --data.")
        path = Path("report.html") if output is None else output
        if data is not None:
            check_output(path, force)
        loaded = load(model, max_bytes)
        found = None if data is None else _examined(loaded, data, replay)
        obstacle = None if found is None else _write_report(found, path, rows)
        report = path if obstacle is None else None
        if as_json:
            _print_json(loaded, found, report)
        else:
            _print_model(loaded, found)
            if found is not None:
                _print_examination(found)
            if report is not None and found is not None:
                typer.echo(f"The report is in {report}.")
        if obstacle is not None:
            complain("No report", obstacle)
            if output is not None:
                raise typer.Exit(USER_ERROR)


def _examined(model: SavedModel | SavedEnsemble, data: Path, replay: bool) -> Examination | EnsembleExamination:
    from dconnet.io.model_file import SavedModel
    from dconnet.io.tables import read_table

    if isinstance(model, SavedModel):
        from dconnet.inspection.saved.examination import examine

        return examine(model, read_table(data), repeat=replay)
    if replay:
        raise ValueError("--replay is about a single network, but the model is an ensemble.")
    from dconnet.inspection.saved.ensemble import examine_ensemble

    return examine_ensemble(model, read_table(data))


def _write_report(found: Examination | EnsembleExamination, path: Path, with_rows: bool) -> ImportError | None:
    """Write the report, or return the error that names the package that it lacks."""
    try:
        from dconnet.inspection.saved.report import write_report

        write_report(found, path, with_rows=with_rows)
    except ImportError as error:
        return error
    return None


def _print_json(
    model: SavedModel | SavedEnsemble, found: Examination | EnsembleExamination | None, report: Path | None
) -> None:
    summary = _summary(model, found)
    if found is not None:
        summary["examination"] = {**found.to_dict(), "report": None if report is None else str(report)}
    typer.echo(json.dumps(summary, indent=2, allow_nan=False))


def _print_examination(found: Examination | EnsembleExamination) -> None:
    typer.echo(f"\n{printable(found.sentence)}")
    for finding in getattr(found, "findings", ()):
        typer.echo(f"\n{finding.certificate.report()}")
    typer.echo()
    print_score("all rows", found.score, _names_of_targets(found.model))


def _summary(model: SavedModel | SavedEnsemble, found: Examination | EnsembleExamination | None) -> dict[str, Any]:
    """What `inspect --json` prints."""
    return {
        "kind": model.kind,
        "target": model.target_name,
        **({"targets": list(targets)} if len(targets := _names_of_targets(model)) > 1 else {}),
        "classes": None if model.classes is None else list(model.classes),
        "features": list(model.feature_names),
        "settings": dict(model.settings),
        "scores": {part: score.to_dict() for part, score in model.scores.items()},
        **_parts(model, found),
    }


def _parts(model: SavedModel | SavedEnsemble, found: Examination | EnsembleExamination | None) -> dict[str, Any]:
    """The networks of a model, or what an ensemble has in their place."""
    from dconnet.inspection.saved.examination import Examination
    from dconnet.io.model_file import SavedModel

    if not isinstance(model, SavedModel):
        return ensemble.summary(model)
    seen = found if isinstance(found, Examination) else None
    return {"networks": [_network_summary(model, seen, index) for index in range(len(model.networks))]}


def _network_summary(model: SavedModel, found: Examination | None, index: int) -> dict[str, Any]:
    network, training = model.networks[index], model.trainings[index]
    neurons, features = _strengths(network)
    positives = model.targets.positives
    return {
        "class": None if positives is None or model.targets.shared else positives.tolist()[index],
        "n_hidden": network.n_hidden,
        **({"n_outputs": network.n_outputs} if network.n_outputs > 1 else {}),
        "dead_neurons": count_dead(network) if found is None else int(found.findings[index].certificate.dead.sum()),
        "status": training.status.name,
        "message": training.message,
        "recorded_epochs": training.recorded_epochs,
        "objective": training.objective,
        "first_objective": training.objectives[0] if training.objectives else None,
        "stationarity": training.stationarity,
        "strongest_neurons": _ranked("neuron", range(network.n_hidden), neurons),
        "strongest_features": _ranked("feature", model.input_names, features),
    }


def count_dead(network: Network) -> int:
    """Number of neurons that contribute nothing, whatever the input."""
    from dconnet.model.piecewise import active_neurons

    return network.n_hidden - int(active_neurons(network).sum())


def _strengths(network: Network) -> tuple[FloatArray, FloatArray]:
    """Strength |alpha_l| |w_l| of each neuron, and Σ_l |alpha_l w_lk| of each feature."""
    import numpy as np

    from dconnet._arrays import safe_norm
    from dconnet.model.piecewise import output_strengths

    slopes = output_strengths(network.alpha)[:, None] * np.abs(network.W)  # (n_hidden, n_features)
    return np.array([safe_norm(row) for row in slopes]), slopes.sum(axis=0)


def _ranked(kind: str, names: Sequence[object], strengths: FloatArray) -> list[dict[str, Any]]:
    order = sorted(range(len(names)), key=lambda i: -strengths[i])
    return [{kind: names[i], "strength": float(strengths[i])} for i in order]


def _print_model(model: SavedModel | SavedEnsemble, found: Examination | EnsembleExamination | None) -> None:
    typer.echo(f"{model.kind} of {printable(model.target_name)} with {len(model.feature_names)} features")
    typer.echo(f"features: {shortened(model.feature_names)}")
    if model.classes is not None:
        typer.echo(f"classes: {shortened(model.classes)}")
    settings = [f"{name}={value}" for name, value in model.settings.items() if value is not None]
    typer.echo(f"settings: {shortened(settings, limit=50)}")
    for part, score in model.scores.items():
        print_score(part, score, _names_of_targets(model))
    parts = _parts(model, found)
    for label, network in zip(_labels(model), parts.get("networks", ()), strict=True):
        _print_network(label, network)
    if "members" in parts:
        ensemble.print_parts(parts)


def _names_of_targets(model: SavedModel | SavedEnsemble) -> tuple[str, ...]:
    """The name of each target; an ensemble has one."""
    names: tuple[str, ...] = getattr(model, "names_of_targets", (model.target_name,))
    return names


def _labels(model: SavedModel | SavedEnsemble) -> list[str]:
    """What to call each network; nothing for an ensemble."""
    from dconnet.io.model_file import SavedModel

    return model.targets.labels if isinstance(model, SavedModel) else []


def _print_network(label: str, network: dict[str, Any]) -> None:
    of = f" for {label}" if label else ""
    first, stationarity = network["first_objective"], network["stationarity"]
    typer.echo(f"\nnetwork{of}: {network['n_hidden']} neurons, {network['dead_neurons']} of them dead")
    typer.echo(f"  {network['status'].lower()}: {printable(network['message'])}")
    start = "" if first is None else f" (from {first:.6g} at the start)"
    typer.echo(f"  RegLoss {network['objective']:.6g}{start}")
    typer.echo(f"  stationarity {'unknown' if stationarity is None else f'{stationarity:.2e}'}")
    for kind in ("neuron", "feature"):
        ranked = network[f"strongest_{kind}s"]
        listed = [f"{entry[kind]} ({entry['strength']:.3g})" for entry in ranked[:5]]
        typer.echo(f"  strongest {kind}s: {shortened(listed)}")
