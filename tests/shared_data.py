"""The nine regression datasets of the paper, where their raw files are at hand.

Set DCONNET_DATA to the folder with the files, or keep it at ../shared/datasets beside the repository.
"""

import os
from pathlib import Path

import pytest

from reproduction.datasets import ALL_LAGS, Choices, load_scaled

HOME = Path(os.environ.get("DCONNET_DATA", Path(__file__).parents[2] / "shared" / "datasets"))

needs_data = pytest.mark.skipif(
    not HOME.is_dir(), reason=f"the paper's datasets are not at {HOME.name}; set DCONNET_DATA to their folder"
)


def load(name):
    """Features and target, scaled as in the paper; DS6 with all its lags, whose columns are nearly dependent."""
    return load_scaled(name, HOME, Choices(building_lags=ALL_LAGS))
