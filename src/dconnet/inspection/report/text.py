"""Numbers, names and certificates as text, and data inside a page that cannot become code."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from dconnet._text import no_network_is_better, per_cent
from dconnet.certificates.certificate import PAYS, Line
from dconnet.inspection.examination import Examination

# Longer lists of names are cut off, and the remaining names counted.
MAX_NAMES = 30


def format_number(value: float | None, form: str = ".4g") -> str:
    """Return a number as text; "unknown" if it is None or NaN."""
    if value is None or value != value:
        return "unknown"
    if form.endswith("g") and 10.0 ** int(form[1:-1]) <= abs(value) < 1e9:
        form = ".0f"  # 52600 is easier to read than 5.26e+04
    return format(value, form)


def format_percent(share: float | None) -> str:
    """Return a share in per cent, such as "12.3 %"; a dash if the share is None or NaN."""
    return "–" if share is None or share != share else f"{100.0 * share:.1f} %"


def list_names(values: Iterable[object]) -> str:
    """Return the first 30 names separated by commas, and the number of the others."""
    names = [str(value) for value in values]
    n_left = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {n_left} more" if n_left > 0 else "")


def security_policy(style: str, script: str | None) -> str:
    """Return a content security policy that allows one style sheet, one script and embedded images.

    Style sheet and script are identified by the hash of their content. An element that a name or a label brought into
    the page would not run, and neither would handlers and styles in attributes.
    """

    def hash_of(content: str) -> str:
        digest = hashlib.sha256(content.encode("utf-8")).digest()
        return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"

    policy = f"default-src 'none'; img-src data:; style-src {hash_of(style)}; base-uri 'none'; form-action 'none'"
    return policy if script is None else f"{policy}; script-src {hash_of(script)}"


def encode_json(data: Any) -> str:
    """Return JSON that cannot end the script element around it. All characters beyond ASCII are escaped."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def summarise_certificates(examination: Examination) -> list[Line]:
    """Return name, value and meaning of the main figures; with several networks, the smallest and the largest value."""
    found = [each.certificate for each in examination.networks]
    fitted = "RegLoss at the end of the fit was the same."
    if not examination.is_training_data:
        fitted = (
            f"On the training rows it was {_span([each.fitted_objective for each in examination.networks], '.4g')}."
        )
    n_minima, n_neurons = sum(each.local.count("local minimum") for each in found), sum(each.n_hidden for each in found)
    n_dead = sum(int(each.dead.sum()) for each in found)
    is_proved = all(each.gap.exact for each in found)
    gap = f"{no_network_is_better(max(each.gap.relative_gap for each in found), is_proved)}."
    if not is_proved:
        gap += f" What is proved is {per_cent(max(each.gap.proved_gap for each in found))}."
    return [
        (
            "RegLoss",
            _span([each.objective for each in found], ".4g"),
            f"What the fit minimises: the mean squared error ({_span([each.mse for each in found], '.4g')}) plus a "
            f"penalty on the weights. {fitted}",
        ),
        (
            "stationarity",
            _span([each.stationarity.norm for each in found], ".1e"),
            "How far the weights are from a point at which the fit can make no more progress; 0 is such a point.",
        ),
        (
            "neurons at a local minimum",
            f"{n_minima} of {n_neurons}",
            "No small change to the weights of a single neuron lowers RegLoss."
            if n_minima == n_neurons
            else "No small change to the weights of one of these neurons lowers RegLoss. For the others, this was not "
            "shown.",
        ),
        (
            "dead neurons",
            str(n_dead),
            "These neurons do not contribute to the predictions. A smaller n_hidden would do."
            if n_dead
            else "Every neuron contributes to the predictions.",
        ),
        ("global gap", f"{_span([100.0 * each.gap.relative_gap for each in found], '.3g')} %", gap),
        _summarise_width(sum(each.gap.correlation > 1.0 + PAYS for each in found), len(found), is_proved),
    ]


def _summarise_width(n_improvable: int, n_networks: int, is_proved: bool) -> Line:
    name = "room for more neurons"
    if n_improvable:
        value = "yes" if n_networks == 1 else f"in {n_improvable} of {n_networks} networks"
        return name, value, "One more neuron would lower RegLoss. It may or may not improve predictions of new rows."
    if is_proved:
        return name, "no", "No additional neuron can lower RegLoss."
    return name, "none found", "No additional neuron was found that lowers RegLoss."


def _span(values: Sequence[float], form: str) -> str:
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"
