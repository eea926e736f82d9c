"""The report on a model: one HTML page that needs nothing else, with its pictures inside."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from typing import Any

import numpy as np

from dconnet import __version__
from dconnet._text import printable
from dconnet.inspection.examination import Examination, Finding, in_data_units, network_targets
from dconnet.inspection.plotting import ConvergenceDisplay, NetworkDisplay, Run, style
from dconnet.persistence.files import written_whole
from dconnet.persistence.model_file import Score, Training

# Gives the letters in the pictures the size of those in the text.
REM_PER_INCH = 8.0

# Most entries that are listed; the rest is counted.
MAX_LISTED = 60

STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1.25rem 3rem; color: #222; background: #fff;
  font: 1rem/1.55 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.25rem 0 .6rem; padding-bottom: .25rem; border-bottom: 1px solid #ddd; }
p { margin: .5rem 0; max-width: 46rem; }
.lead { color: #555; }
.verdict { border-left: 4px solid #0072b2; background: #f3f7fa; padding: .6rem .9rem; margin: 1rem 0; max-width: none; }
.verdict.other { border-color: #d55e00; background: #fdf5ef; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; font-size: .94rem; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; white-space: nowrap; }
th, td { text-align: left; vertical-align: top; padding: .28rem 1.4rem .28rem 0; border-bottom: 1px solid #eee; }
th { font-weight: 500; color: #444; min-width: 9rem; }
th.part { padding-left: 1.2rem; font-weight: 400; }
thead th { border-bottom: 1px solid #bbb; min-width: 0; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 1rem 0; }
img { display: block; max-width: 100%; height: auto; }
figcaption { color: #555; font-size: .92rem; margin-top: .4rem; max-width: 46rem; }
footer { margin-top: 3rem; color: #666; font-size: .88rem; }
@media print { body { padding: 0; } h2, figure, table { break-inside: avoid; } }
"""


def write_report(examination: Examination, path: str | os.PathLike[str]) -> None:
    """Write the report as one HTML file, whole or not at all.

    Parameters
    ----------
    examination : Examination
        The model and what was found, from `dconnet.inspection.examination.examine`.
    path : path
        The file to write.

    Raises
    ------
    ImportError
        If Matplotlib is missing.
    OSError
        If the file cannot be written.
    """
    page = report_page(examination)
    with written_whole(path) as file:
        file.write(page)


def report_page(examination: Examination) -> str:
    """The report as the text of an HTML page."""
    model = examination.model
    title = f"{model.kind.capitalize()} of {_text(model.target_name)}"
    kind = "" if examination.is_training_data else " other"
    body = [
        f"<h1>{title}</h1>",
        f'<p class="lead">A one-hidden-layer ReLU network, examined on {_text(examination.source)}.</p>',
        f'<p class="verdict{kind}">{_text(examination.sentence)}</p>',
        "<h2>Certificate</h2>",
        *map(_certificate_table, examination.findings),
        "<h2>Convergence</h2>",
        _convergence_figure(examination),
        "<h2>Network</h2>",
        _network_figure(examination),
        "<h2>Model</h2>",
        _facts_table(examination),
        _scores_table(examination),
        f"<footer>Written by dconnet {__version__}.</footer>",
    ]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title} – dconnet report</title>",
            f"<style>{STYLE}</style>",
            "</head>",
            "<body>",
            "<main>",
            *body,
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


# --- text and tables ---


def _text(value: object) -> str:
    """Text from anywhere, safe in HTML."""
    return escape(printable(value))


def _number(value: float | None, form: str = ".6g") -> str:
    return "unknown" if value is None else format(value, form)


def _listed(values: Sequence[object]) -> str:
    text = ", ".join(_text(value) for value in values[:MAX_LISTED])
    return text if len(values) <= MAX_LISTED else f"{text} and {len(values) - MAX_LISTED} more"


def _rows_table(caption: str, rows: Iterable[tuple[str, str]]) -> str:
    """A table of names and values, which are HTML already."""
    cells = "\n".join(f'<tr><th scope="row">{name}</th><td>{value}</td></tr>' for name, value in rows)
    return f'<div class="scroll"><table>\n<caption>{caption}</caption>\n<tbody>\n{cells}\n</tbody>\n</table></div>'


def _columns_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a line of names on top and in front; all other cells are numbers."""
    titles = "".join(f'<th scope="col"{"" if i == 0 else _NUMBER}>{name}</th>' for i, name in enumerate(head))
    lines = "\n".join(
        f'<tr><th scope="row">{first}</th>' + "".join(f"<td{_NUMBER}>{cell}</td>" for cell in rest) + "</tr>"
        for first, *rest in rows
    )
    return (
        f'<div class="scroll"><table>\n<caption>{caption}</caption>\n<thead><tr>{titles}</tr></thead>\n'
        f"<tbody>\n{lines}\n</tbody>\n</table></div>"
    )


_NUMBER = ' class="number"'
_INDENTED = ' class="part"'


def _certificate_table(finding: Finding) -> str:
    """Name, value and meaning of all that is known about one network."""
    found, *others = finding.certificate.lines()
    agrees = "the same, as it should be on the data of the training" if finding.is_as_trained else "on other rows"
    stored = ("  stored by the training", _number(finding.stored_objective), agrees)
    cells = "\n".join(
        f'<tr><th scope="row"{_INDENTED if name.startswith(" ") else ""}>{_text(name.strip())}</th>'
        f"<td{_NUMBER}>{_text(value)}</td><td>{_text(meaning)}</td></tr>"
        for name, value, meaning in (found, stored, *others)
    )
    caption = (
        f"Network of {_text(finding.certificate.label)}" if finding.label else "In the scaled units of the training"
    )
    head = f'<th scope="col">quantity</th><th scope="col"{_NUMBER}>value</th><th scope="col">meaning</th>'
    return (
        f'<div class="scroll"><table>\n<caption>{caption}</caption>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{cells}\n</tbody>\n</table></div>"
    )


def _facts_table(examination: Examination) -> str:
    model = examination.model
    facts = [("kind", model.kind), ("target", _text(model.target_name))]
    if model.classes is not None:
        facts.append((f"classes ({len(model.classes)})", _listed(model.classes)))
    facts.append((f"features ({len(model.feature_names)})", _listed(model.feature_names)))
    facts.append(("hidden neurons", _listed([network.n_hidden for network in model.networks])))
    for finding, training in zip(examination.findings, model.trainings, strict=True):
        name = f"training of {_text(finding.label)}" if finding.label else "training"
        facts.append((name, _text(training.message)))
    settings = [f"{name} = {value}" for name, value in model.settings.items() if value is not None]
    facts.append(("settings", _listed(settings)))
    return _rows_table("What the model file holds", facts)


def _scores_table(examination: Examination) -> str:
    parts = {f"{part}, stored": score for part, score in examination.model.scores.items()}
    parts[f"all rows of {examination.source}"] = examination.score
    measures = ("accuracy",) if examination.model.classes is not None else ("mse", "r2")
    titles = {"mse": "MSE", "r2": "R²", "accuracy": "accuracy"}

    def row(part: str, score: Score) -> list[str]:
        return [_text(part), str(score.rows), *(_number(score.measures.get(name)) for name in measures)]

    head = ["", "rows", *(titles[name] for name in measures)]
    return _columns_table("Predictions, in the units of the data", head, [row(*part) for part in parts.items()])


# --- pictures ---


def _convergence_figure(examination: Examination) -> str:
    runs = [
        replace(_run(finding, training), label=f"class {finding.label}" if len(examination.findings) > 1 else "")
        for finding, training in zip(examination.findings, examination.model.trainings, strict=True)
        if training.recorded_epochs > 0
    ]
    if not runs:
        return "<p>The model file holds no record of the training.</p>"
    order = (
        "the estimated order of convergence: the slope of ln e at one epoch over ln e at the epoch before, where e is "
        "the distance of RegLoss from its last value."
    )
    if runs[0].stationarity is None:
        return _figure(ConvergenceDisplay(runs), f"RegLoss after each epoch, as the model file holds it, and {order}")
    caption = (
        "RegLoss, the norm of a subgradient of RegLoss and the distance between iterates by epoch, found by training"
    )
    return _figure(ConvergenceDisplay(runs), f"{caption} once more, and {order}")


def _run(finding: Finding, training: Training) -> Run:
    """The whole record if the training was repeated, else what the model file holds."""
    if finding.trajectory is None:
        return Run(objective=np.array(training.objectives))
    return Run.of_trajectory(finding.trajectory)


def _network_figure(examination: Examination) -> str:
    model, labels = examination.model, [finding.label for finding in examination.findings]
    networks, offset = in_data_units(model)
    is_regressor = model.classes is None
    targets = network_targets(model, examination.y)
    display = NetworkDisplay(
        networks,
        examination.X,
        model.target_scaling.undo(targets) if is_regressor else targets,
        feature_names=[printable(name) for name in model.feature_names],
        target_name=printable(model.target_name) if is_regressor else "network output",
        labels=None if is_regressor else [f"class {label}" for label in labels],
        offset=offset,
    )
    captions = {
        "curve": "The network over the data. Circles mark where a neuron bends it.",
        "map": "The network over the data, and the lines along which a neuron bends it.",
        "partial dependence": (
            "The mean prediction over all rows with one feature set to a value, for the features that move the output "
            "most. Marks at the bottom are the deciles of the feature: beyond them the curve rests on few rows."
        ),
    }
    return _figure(display, captions[display.kind_])


def _figure(display: ConvergenceDisplay | NetworkDisplay, caption: str) -> str:
    picture = base64.b64encode(_svg(display)).decode("ascii")
    width = REM_PER_INCH * display.figure_.get_figwidth()
    return (
        f'<figure>\n<img style="width: {width:.1f}rem" alt="{_text(display.alt_text)}" '
        f'src="data:image/svg+xml;base64,{picture}">\n'
        f"<figcaption>{_text(caption)}</figcaption>\n</figure>"
    )


def _svg(display: Any) -> bytes:
    """The picture as SVG, the same bytes for the same numbers."""
    import warnings

    with style():
        import matplotlib as mpl
        from matplotlib.figure import Figure

        figure, file = Figure(), io.BytesIO()
        with warnings.catch_warnings(), mpl.rc_context({"svg.hashsalt": "dconnet", "svg.fonttype": "path"}):
            # A name in a script that the font lacks is drawn as boxes; the page itself spells it out.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            display.plot(ax=figure)
            figure.savefig(file, format="svg", metadata={"Date": None})
        return file.getvalue()
