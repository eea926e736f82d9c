"""The page: what the templates are given, and the file that is written."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from dconnet import __version__
from dconnet._text import printable
from dconnet.inspection.ensemble import EnsembleExamination
from dconnet.inspection.examination import Examination
from dconnet.inspection.report.ensemble import ensemble_parts
from dconnet.inspection.report.figures import convergence_figure, network_figure, prediction_figure
from dconnet.inspection.report.inputs import influences
from dconnet.inspection.report.predictions import Confusion, Predictions
from dconnet.inspection.report.summary import plain_lines
from dconnet.persistence.files import written_whole

if TYPE_CHECKING:
    from jinja2 import Environment

# Longer lists of names are cut off, and the remaining names counted.
MAX_LISTED = 30


def write_report(examination: Examination | EnsembleExamination, path: str | os.PathLike[str]) -> None:
    """Write the report as one HTML file.

    The file is written completely or not at all.

    Parameters
    ----------
    examination : Examination or EnsembleExamination
        The model and its results on a table, from `dconnet.inspection.examination.examine`, or
        `dconnet.inspection.ensemble.examine_ensemble`.
    path : path
        The file to write.

    Raises
    ------
    ImportError
        If Jinja2 or Matplotlib is missing.
    OSError
        If the file cannot be written.
    """
    page = report_page(examination)
    with written_whole(path) as file:
        file.write(page)


def report_page(examination: Examination | EnsembleExamination) -> str:
    """Return the report as the text of an HTML page."""
    if isinstance(examination, EnsembleExamination):
        return (
            _environment()
            .get_template("ensemble.html")
            .render(
                version=__version__,
                examination=examination,
                model=examination.model,
                scores=_scores(examination),
                **ensemble_parts(examination),
            )
        )
    template = _environment().get_template("report.html")
    model, predictions = examination.model, Predictions.of(examination)
    inputs = influences(model, examination.X, examination.y)
    return template.render(
        version=__version__,
        examination=examination,
        model=model,
        predictions=predictions,
        scores=_scores(examination),
        confusion=None if model.classes is None else Confusion.of(predictions, model.classes),
        prediction_figure=None if model.classes is not None else prediction_figure(predictions, model.target_name),
        inputs=inputs,
        network_figure=network_figure(examination, [entry.feature for entry in inputs]),
        convergence_figure=convergence_figure(examination),
        plain_lines=plain_lines(examination),
    )


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
        loader=PackageLoader("dconnet.inspection.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _number, "percent": _percent, "listed": _listed}
    return environment


def _finalize(value: object) -> object:
    """Remove control characters from a value; the output of a macro is left alone, since its values were treated."""
    return value if hasattr(value, "__html__") else printable(value)


def _number(value: float | None, form: str = ".4g") -> str:
    if value is None or value != value:
        return "unknown"
    if form.endswith("g") and 10.0 ** int(form[1:-1]) <= abs(value) < 1e9:
        form = ".0f"  # 52600 is easier to read than 5.26e+04
    return format(value, form)


def _percent(share: float | None) -> str:
    return "–" if share is None or share != share else f"{100.0 * share:.1f} %"


def _listed(values: Any) -> str:
    names = [str(value) for value in values]
    rest = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f" and {rest} more" if rest > 0 else "")
