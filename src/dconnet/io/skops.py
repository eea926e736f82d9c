"""The types of this package that a skops file may hold.

skops trusts the types of scikit-learn and NumPy. A package cannot add its own; the user names them when loading a file.
"""

from __future__ import annotations

from dconnet.io.stored_estimators import registry
from dconnet.training.result import Epoch, Status

#: For ``skops.io.load(file, trusted=TRUSTED)``: the estimators of this package, and the classes of their attributes.
TRUSTED = sorted(
    f"{kind.__module__}.{kind.__name__}"
    for kind in (*registry().forms, Epoch, Status)
    if kind.__module__.startswith("dconnet.")
)
