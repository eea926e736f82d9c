"""The certificate in plain sentences, for all networks of a model together."""

from __future__ import annotations

from collections.abc import Sequence

from dconnet._text import no_network_is_better, per_cent
from dconnet.certificates.certificate import PAYS, Certificate, Line
from dconnet.inspection.saved.examination import Examination


def plain_lines(examination: Examination) -> list[Line]:
    """Return name, value and meaning of the main figures; of several networks, the least and the largest value."""
    found = [finding.certificate for finding in examination.findings]
    return [
        _loss_line(examination, found),
        (
            "stationarity",
            _span([each.stationarity.norm for each in found], ".1e"),
            "How far the weights are from a point at which the training can make no more progress; 0 is such a point.",
        ),
        _minima_line(found),
        _dead_line(found),
        _gap_line(found),
        _width_line(found),
    ]


def _span(values: Sequence[float], form: str) -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def _loss_line(examination: Examination, found: Sequence[Certificate]) -> Line:
    stored = "The model file has the same value."
    if not examination.is_training_data:
        values = _span([finding.stored_objective for finding in examination.findings], ".4g")
        stored = f"On the training data it was {values}."
    mse = _span([each.mse for each in found], ".4g")
    meaning = (
        f"What the training minimises: the mean squared error ({mse}, scaled units) plus a penalty on the weights."
    )
    return "RegLoss", _span([each.objective for each in found], ".4g"), f"{meaning} {stored}"


def _minima_line(found: Sequence[Certificate]) -> Line:
    minima, neurons = sum(each.local.count("local minimum") for each in found), sum(each.n_hidden for each in found)
    meaning = "No small change to the weights of a single neuron lowers RegLoss."
    if minima < neurons:
        meaning = "Neurons that no small change to their own weights improves. For the others, this was not shown."
    return "neurons at a local minimum", f"{minima} of {neurons}", meaning


def _dead_line(found: Sequence[Certificate]) -> Line:
    dead = sum(int(each.dead.sum()) for each in found)
    meaning = "These neurons do not contribute to the predictions. A smaller n_hidden would do."
    return "dead neurons", str(dead), meaning if dead else "Every neuron contributes to the predictions."


def _gap_line(found: Sequence[Certificate]) -> Line:
    gap, proved = max(each.gap.relative_gap for each in found), all(each.gap.exact for each in found)
    meaning = f"{no_network_is_better(gap, proved)}."
    if not proved:
        meaning += f" What is proved is {per_cent(max(each.gap.proved_gap for each in found))}."
    return "global gap", f"{_span([100.0 * each.gap.relative_gap for each in found], '.3g')} %", meaning


def _width_line(found: Sequence[Certificate]) -> Line:
    name, open_ended = "room for more neurons", sum(each.gap.correlation > 1.0 + PAYS for each in found)
    if open_ended:
        value = "yes" if len(found) == 1 else f"in {open_ended} of {len(found)} networks"
        return (
            name,
            value,
            "One more neuron would lower RegLoss. Whether it also predicts new rows better is not known.",
        )
    if all(each.gap.exact for each in found):
        return name, "no", "No additional neuron can lower RegLoss."
    return name, "none found", "No additional neuron was found that lowers RegLoss."
