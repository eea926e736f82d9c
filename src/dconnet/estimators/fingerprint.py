"""What must be the same for a fit to go on from a checkpoint: parameters and data, as plain values and hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet.estimators.data import Rows
from dconnet.model.network import Network
from dconnet.model.rows import blocks

# Parameters that may differ: what is shown, by how many threads, and limits, which may be raised.
NOT_COMPARED = frozenset({"verbose", "n_jobs", "max_epochs", "max_seconds"})


def fingerprint(
    parameters: Mapping[str, Any], rows: Rows, validation: Rows | None, starts: Iterable[Network]
) -> dict[str, Any]:
    """The parameters that matter, and hashes of the data and of the networks of an earlier fit to start from."""
    return {
        **fingerprint_of_parameters(parameters, starts),
        "X": hashed(rows.X),
        "y": hashed(rows.Y),
        "sample_weight": hashed(rows.weight),
        "the validation data": None if validation is None else hashed(validation.X, validation.Y, validation.weight),
    }


def fingerprint_of_parameters(parameters: Mapping[str, Any], starts: Iterable[Network]) -> dict[str, Any]:
    """The parameters that matter, and hashes of the networks of an earlier fit to start from."""
    networks = list(starts)
    compared = {name: described(value) for name, value in parameters.items() if name not in NOT_COMPARED}
    return compared | {"the network of the last fit": described(networks) if networks else None}


def described(value: object) -> Any:
    """A value in the form of JSON that is the same in another process."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return described(value.item())
    if isinstance(value, Network):
        return hashed(value.W, value.b, value.alpha, np.asarray(value.intercept))
    if isinstance(value, np.ndarray) and value.dtype != object:
        return hashed(value)
    if isinstance(value, (list, tuple, np.ndarray)):
        return [described(entry) for entry in value]
    if isinstance(value, dict):
        return [[described(key), described(entry)] for key, entry in value.items()]
    # A configured solver or a splitter has a text that tells all of it; that of another object would hold an address.
    return repr(value) if is_dataclass(value) or hasattr(value, "split") else type(value).__qualname__


def hashed(*arrays: NDArray[Any]) -> dict[str, str]:
    """A hash of shapes, types and bits, block by block."""
    total = hashlib.blake2b(digest_size=16)
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode())
        whole = np.atleast_1d(array)
        for rows in blocks(len(whole)):
            total.update(np.ascontiguousarray(whole[rows]).tobytes())
    return {"hash": total.hexdigest()}
