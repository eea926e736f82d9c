"""The data of the paper: nine tables of the UCI archive and MNIST, from raw files with known checksums."""

from reproduction.datasets.files import CATALOGUE, TABLES, data_home, is_present
from reproduction.datasets.mnist import Images, load_mnist
from reproduction.datasets.uci import (
    ALL_LAGS,
    Choices,
    Dataset,
    Parts,
    Split,
    load_dataset,
    load_scaled,
    split_rows,
)

__all__ = [
    "ALL_LAGS",
    "CATALOGUE",
    "TABLES",
    "Choices",
    "Dataset",
    "Images",
    "Parts",
    "Split",
    "data_home",
    "is_present",
    "load_dataset",
    "load_mnist",
    "load_scaled",
    "split_rows",
]
