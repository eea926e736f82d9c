"""The page: what the templates are given, and the file that is written."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from dconnet import __version__
from dconnet._text import printable
from dconnet.inspection.saved.ensemble import EnsembleExamination
from dconnet.inspection.saved.examination import Examination
from dconnet.inspection.saved.report.embedding import json_block, security_policy
from dconnet.inspection.saved.report.ensemble import ensemble_parts
from dconnet.inspection.saved.report.figures import Picture, convergence_figure, network_figures, prediction_figures
from dconnet.inspection.saved.report.inputs import influences
from dconnet.inspection.saved.report.numbers import number, percent
from dconnet.inspection.saved.report.predictions import Confusion, Predictions
from dconnet.inspection.saved.report.reliability import Reliability, calibration_of, reliability_figure
from dconnet.inspection.saved.report.summary import plain_lines
from dconnet.inspection.saved.report.what_if import Interval, what_if
from dconnet.io.files import written_whole

if TYPE_CHECKING:
    from jinja2 import Environment

# Longer lists of names are cut off, and the remaining names counted.
MAX_LISTED = 30
# The script of the page, in the order of its parts.
SCRIPTS = ("format", "network", "chart", "panel")


def write_report(
    examination: Examination | EnsembleExamination, path: str | os.PathLike[str], *, with_rows: bool = True
) -> None:
    """Write the report as one HTML file.

    The file is written completely or not at all.

    Parameters
    ----------
    examination : Examination or EnsembleExamination
        The model and its results on a table, from `dconnet.inspection.saved.examination.examine`, or
        `dconnet.inspection.saved.ensemble.examine_ensemble`.
    path : path
        The file to write.
    with_rows : bool, default=True
        Whether the report on a network may hold some rows of the data, to show those that are like a row in question.

    Raises
    ------
    ImportError
        If Jinja2 or Matplotlib is missing.
    OSError
        If the file cannot be written.
    """
    page = report_page(examination, with_rows=with_rows)
    with written_whole(path) as file:
        file.write(page)


def report_page(examination: Examination | EnsembleExamination, *, with_rows: bool = True) -> str:
    """Return the report as the text of an HTML page; see `write_report`."""
    if isinstance(examination, EnsembleExamination):
        return _rendered("ensemble.html", examination, script=None, **ensemble_parts(examination))
    return _rendered("report.html", examination, script=_script(), **_network_parts(examination, with_rows))


def _network_parts(examination: Examination, with_rows: bool) -> dict[str, Any]:
    """What the report on single networks needs."""
    from markupsafe import Markup

    model, predictions = examination.model, Predictions.of(examination)
    of_table = examination.of_table
    encoding = None if of_table is None else of_table.encoding
    inputs = influences(model, examination.X, examination.y, None if encoding is None else encoding.sources)
    is_classifier = model.classes is not None
    ranking = [i for entry in inputs for i in entry.inputs]
    found = what_if(examination, predictions, ranking, with_rows=with_rows)
    return {
        "predictions": predictions,
        "confusion": None if model.classes is None else Confusion.of(predictions, model.classes),
        "prediction_figures": _prediction_figures(examination, predictions),
        "inputs": inputs,
        "columns": (model if of_table is None else of_table).feature_names,
        "network_figures": network_figures(examination, ranking),
        "convergence_figure": convergence_figure(examination),
        "plain_lines": plain_lines(examination),
        "what_if": found,
        "what_if_data": Markup(json_block(found)),
        "interval": None if is_classifier else Interval.of(predictions),
    }


def _prediction_figures(examination: Examination, predictions: Predictions) -> list[Picture]:
    """Observed over predicted values and residuals; of classes, whether probabilities mean what they say, if known."""
    model, judged = examination.model, predictions.judged
    if model.classes is None:
        return prediction_figures(predictions, model.names_of_targets)
    calibration = calibration_of(model)
    if calibration is None:
        return []
    probabilities = calibration.probabilities(model.outputs(examination.X[judged]))
    return [reliability_figure(Reliability.of(probabilities, examination.y[judged], model.classes))]


def _rendered(template: str, examination: Examination | EnsembleExamination, script: str | None, **parts: Any) -> str:
    """A page with its style, its script and the policy that allows these alone."""
    environment = _environment()
    from markupsafe import Markup

    style = _source("style.css")
    return environment.get_template(template).render(
        version=__version__,
        examination=examination,
        model=examination.model,
        scores=_scores(examination),
        style=Markup(style),
        script=None if script is None else Markup(script),
        policy=Markup(security_policy(style, script)),
        **parts,
    )


def _script() -> str:
    """The parts of the script, in a scope of their own."""
    parts = "\n".join(_source(f"what_if/{name}.js") for name in SCRIPTS)
    return f'\n(() => {{\n"use strict";\n\n{parts}}})();\n'


def _source(name: str) -> str:
    """A file beside the templates, as it is."""
    environment = _environment()
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _scores(examination: Examination | EnsembleExamination) -> dict[str, Any]:
    """The scores in the model file, and that on all rows of the data."""
    names = {"train": "training"}
    stored = {
        f"{names.get(part, part)} (from the model file)": score for part, score in examination.model.scores.items()
    }
    return {**stored, f"all rows of {examination.source}": examination.score}


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError("The HTML report needs Jinja2 and Matplotlib: pip install 'dconnet[report]'") from error
    # Names and labels may come from a stranger's model file, so every value is escaped.
    environment = Environment(
        loader=PackageLoader("dconnet.inspection.saved.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "percent": percent, "listed": _listed}
    return environment


def _finalize(value: object) -> object:
    """Remove control characters from a value; the output of a macro is left alone, since its values were treated."""
    return value if hasattr(value, "__html__") else printable(value)


def _listed(values: Any) -> str:
    names = [str(value) for value in values]
    rest = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f" and {rest} more" if rest > 0 else "")
