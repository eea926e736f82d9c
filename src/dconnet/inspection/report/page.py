"""The page of the report: the values of its template, and the file that is written."""

from __future__ import annotations

import os
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dconnet import __version__
from dconnet._files import write_atomically
from dconnet._text import printable
from dconnet.inspection.examination import Examination
from dconnet.inspection.report.classification import Confusion
from dconnet.inspection.report.figures import draw_convergence, draw_functions, draw_predictions
from dconnet.inspection.report.text import (
    encode_json,
    format_number,
    format_percent,
    list_names,
    security_policy,
    summarise_certificates,
)
from dconnet.inspection.report.what_if import build_what_if

if TYPE_CHECKING:
    from jinja2 import Environment

# The parts of the script of the page, in their order.
SCRIPTS = ("format", "network", "chart", "controls", "panel")


def write_report(examination: Examination, path: str | os.PathLike[str], *, with_rows: bool = True) -> None:
    """Write the report on an estimator as one HTML file, completely or not at all.

    Parameters
    ----------
    examination : Examination
        The estimator and its results on a table, from `dconnet.inspection.examine.examine`.
    path : path
        The file to write.
    with_rows : bool, default=True
        Whether the report on a network may contain rows of the data, to show those similar to a row in question.

    Raises
    ------
    ImportError
        If Jinja2 or Matplotlib is missing.
    OSError
        If the file cannot be written.
    """
    page = render_report(examination, with_rows=with_rows)
    with write_atomically(path) as file:
        file.write(page)


def render_report(examination: Examination, *, with_rows: bool = True) -> str:
    """Return the report as the text of an HTML page; see `write_report`."""
    environment = _environment()
    from markupsafe import Markup

    half_widths = examination.half_widths if examination.classes is None else None
    names, is_evaluated = examination.target_names, examination.is_evaluated
    members = [member for member in getattr(examination.model, "members_", []) if member["weight"] > 0.0]
    what_if = build_what_if(examination, half_widths, with_rows=with_rows)
    style, script = _read_source("style.css"), None
    if what_if is not None:
        parts = "\n".join(_read_source(f"what_if/{name}.js") for name in SCRIPTS)
        script = f'\n(() => {{\n"use strict";\n\n{parts}}})();\n'
    return environment.get_template("report.html").render(
        version=__version__,
        date=date.today().isoformat(),
        examination=examination,
        model=examination.model,
        scores=_list_scores(examination),
        target_scores={name: examination.score_rows(is_evaluated, k) for k, name in enumerate(names) if len(names) > 1},
        half_widths=half_widths,
        confusion=None if examination.classes is None else Confusion.of(examination),
        prediction_figures=draw_predictions(examination, half_widths),
        columns=_describe_columns(examination),
        function_figures=draw_functions(examination),
        convergence_figure=draw_convergence(examination),
        certificate_lines=summarise_certificates(examination) if examination.networks else [],
        members=sorted(members, key=lambda member: -member["weight"]),
        settings=_list_settings(examination),
        what_if=what_if,
        what_if_data=Markup(encode_json(what_if)),
        style=Markup(style),
        script=None if script is None else Markup(script),
        policy=Markup(security_policy(style, script)),
    )


def _list_scores(examination: Examination) -> dict[str, dict[str, float]]:
    """Return the scores of the model file, of the evaluated rows, and of all rows, by name."""
    scores = {f"{part} (from the model file)": score for part, score in examination.stored_scores.items()}
    scores[f"{examination.evaluated_rows} of {examination.source}"] = examination.score
    if not examination.is_auto and not examination.is_evaluated.all():
        every = np.ones_like(examination.is_evaluated)
        scores[f"all rows of {examination.source}"] = examination.score_rows(every)
    return scores


def _describe_columns(examination: Examination) -> list[dict[str, str]]:
    """Return what each column of the table is and how it was encoded; nothing for plain numbers."""
    described = getattr(examination.model if examination.is_auto else examination.encoder, "columns_", [])
    return [{**column, "column": name} for name, column in zip(examination.feature_names, described, strict=False)]


def _list_settings(examination: Examination) -> dict[str, Any]:
    """Return the parameters of the estimator that are set, and the gamma that it has chosen."""
    settings = {name: value for name, value in examination.model.get_params(deep=False).items() if value is not None}
    return settings | ({"gamma_": examination.model.gamma_} if hasattr(examination.model, "gamma_") else {})


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError("The HTML report needs Jinja2 and Matplotlib: pip install 'dconnet[report]'") from error
    # Names and labels may come from a model file of a stranger, so every value is escaped.
    environment = Environment(
        loader=PackageLoader("dconnet.inspection.report"),
        autoescape=True,
        undefined=StrictUndefined,
        # The values in the output of a macro are printable already.
        finalize=lambda value: value if hasattr(value, "__html__") else printable(value),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": format_number, "percent": format_percent, "listed": list_names}
    return environment


def _read_source(name: str) -> str:
    environment = _environment()
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]
