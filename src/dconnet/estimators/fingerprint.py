"""Fingerprints of fits: parameters and data that must be equal for a fit to resume from a checkpoint."""

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

# Parameters that may differ: output, threads, and limits, which may be raised.
NOT_COMPARED = frozenset({"verbose", "n_jobs", "max_epochs", "max_seconds"})


def fingerprint(
    parameters: Mapping[str, Any], rows: Rows, validation: Rows | None, starts: Iterable[Network]
) -> dict[str, Any]:
    """Return the compared parameters, and hashes of the data and of the networks to start from."""
    return {
        **fingerprint_of_parameters(parameters, starts),
        "X": hashed(rows.X),
        "y": hashed(rows.Y),
        "sample_weight": hashed(rows.weight),
        "the validation data": None if validation is None else hashed(validation.X, validation.Y, validation.weight),
    }


def fingerprint_of_parameters(parameters: Mapping[str, Any], starts: Iterable[Network]) -> dict[str, Any]:
    """Return the compared parameters, and hashes of the networks to start from."""
    networks = list(starts)
    compared = {name: described(value) for name, value in parameters.items() if name not in NOT_COMPARED}
    return compared | {"the network of the last fit": described(networks) if networks else None}


def described(value: object) -> Any:
    """Return a value that JSON can represent and that is the same in another process."""
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
    # The text of a configured solver or a splitter holds all its settings; that of other objects holds an address.
    return repr(value) if is_dataclass(value) or hasattr(value, "split") else type(value).__qualname__


def hashed(*arrays: NDArray[Any]) -> dict[str, str]:
    """Return a hash of shapes, types and bits."""
    total = hashlib.blake2b(digest_size=16)
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode())
        whole = np.atleast_1d(array)
        for rows in blocks(len(whole)):
            total.update(np.ascontiguousarray(whole[rows]).tobytes())
    return {"hash": total.hexdigest()}
