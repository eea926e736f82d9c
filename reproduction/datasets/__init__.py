"""The data of the paper: nine tables of the UCI archive and MNIST, from raw files with known checksums."""

from reproduction.datasets.catalogue import CATALOGUE, TABLES
from reproduction.datasets.files import data_home
from reproduction.datasets.mnist import Images, load_mnist
from reproduction.datasets.splits import Parts, Split, split_rows
from reproduction.datasets.uci import Choices, Dataset, load_dataset, load_scaled

__all__ = [
    "CATALOGUE",
    "TABLES",
    "Choices",
    "Dataset",
    "Images",
    "Parts",
    "Split",
    "data_home",
    "load_dataset",
    "load_mnist",
    "load_scaled",
    "split_rows",
]
