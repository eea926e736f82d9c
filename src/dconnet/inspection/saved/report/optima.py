"""The inputs at which the prediction is largest or smallest, for the page to go to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dconnet._arrays import FloatArray
from dconnet._text import printable
from dconnet.inspection.saved.examination import Examination, in_data_units
from dconnet.inspection.saved.report.numbers import number
from dconnet.model.network import Network
from dconnet.optimisation import optimise

# Wall time for all searches together, how many there are at most, and the inputs of a network that is searched.
MAX_SECONDS, MAX_OPTIMA, MAX_INPUTS = 8.0, 10, 60

Entry = dict[str, Any]


def optima(examination: Examination, outputs: Sequence[str]) -> list[Entry]:
    """Return the optima of each output within the convex hull of the data, found by `dconnet.optimise`.

    Features whose values are whole numbers keep such values. Of a classifier, only the largest outputs are sought; of
    two classes, the smallest output speaks for the first. For an encoded table there are none.
    """
    model, X = examination.model, examination.X
    if examination.of_table is not None or X.shape[1] > MAX_INPUTS:
        return []
    networks, _ = in_data_units(model)
    searches = list(_searches(outputs, model.classes))[:MAX_OPTIMA]
    seconds = MAX_SECONDS / max(len(searches), 1)
    found = [_optimum(networks[k], X, k, sense, label, seconds) for k, sense, label in searches]
    return [entry for entry in found if entry is not None]


def _searches(outputs: Sequence[str], classes: Sequence[object] | None) -> Iterator[tuple[int, str, str]]:
    """Output, sense and what to call it."""
    names = [printable(label) or "''" for label in classes or ()]
    if len(names) == 2:
        yield 0, "max", f"Most clearly {names[1]}"
        yield 0, "min", f"Most clearly {names[0]}"
    elif classes is not None:
        for k, name in enumerate(names):
            yield k, "max", f"Largest output for {name}"
    else:
        for k, name in enumerate(outputs):
            which = f" {name}" if len(outputs) > 1 else " prediction"
            yield k, "max", f"Largest{which}"
            yield k, "min", f"Smallest{which}"


def _optimum(network: Network, X: FloatArray, k: int, sense: str, label: str, seconds: float) -> Entry | None:
    is_whole = np.all(np.round(X) == X, axis=0)
    bounds = list(zip(X.min(axis=0).tolist(), X.max(axis=0).tolist(), strict=True))
    found = optimise(
        network, bounds, integrality=is_whole.astype(int), sense=sense, near=X, rel_gap=1e-4, max_seconds=seconds
    )
    if found.x is None:
        return None
    proved = "proved to be the optimum" if found.status.is_optimal else f"within {number(100.0 * found.gap, '.2g')} %"
    note = f"within the convex hull of the data, {proved}"
    return {"label": label, "output": k, "values": found.x.tolist(), "note": note}
