"""What two fits must share to be the same."""

import numpy as np


def bits(model):
    """Return the networks, histories without their times, statuses and messages of a fitted estimator."""
    found = []
    for solution in (solution for layer in model._layers for solution in layer):
        record = solution.history.to_dict()
        record.pop("seconds")
        found += [solution.network.parameters.tobytes(), np.asarray(solution.network.intercept).tobytes()]
        found += [np.array(list(record.values())).tobytes(), solution.status, solution.message]
    return found
