"""The datasets of the paper: their files, checksums and addresses, and what the paper says about them."""

from __future__ import annotations

from dataclasses import dataclass

_UCI = "https://archive.ics.uci.edu/static/public"
_UCI_OLD = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_MNIST = ("https://storage.googleapis.com/cvdf-datasets/mnist", "https://ossci-datasets.s3.amazonaws.com/mnist")


@dataclass(frozen=True, slots=True)
class RawFile:
    """A file as its authors published it.

    Attributes
    ----------
    path : str
        Folder and name below the home of the data.
    sha256 : str
        Checksum of the file.
    urls : tuple of str
        Addresses to try in this order, of the file itself or of a zip archive that contains it.
    """

    path: str
    sha256: str
    urls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A dataset of the paper.

    Attributes
    ----------
    name, title : str
        DS1 to DS9 or MNIST, and a short description.
    rows, columns : int
        Number of samples and features after preprocessing with the default choices.
    target : str
        Name of the target.
    printed_columns : int or None
        The number of covariates in the paper's list of datasets.
    files : tuple of RawFile
        Files of the dataset.
    """

    name: str
    title: str
    rows: int
    columns: int
    target: str
    printed_columns: int | None
    files: tuple[RawFile, ...]


def _uci(folder: str, name: str, sha256: str, archive: str, old: str) -> tuple[RawFile, ...]:
    """The file of a UCI dataset, in the present archive or at its former address."""
    quoted = f"{_UCI_OLD}/{old}".replace(" ", "%20")
    return (RawFile(f"{folder}/{name}", sha256, (f"{_UCI}/{archive}.zip", quoted)),)


def _mnist(name: str, sha256: str) -> RawFile:
    return RawFile(f"MNIST/{name}", sha256, tuple(f"{server}/{name}" for server in _MNIST))


_ENTRIES = (
    Entry(
        "DS1",
        "Computer Hardware",
        209,
        6,
        "PRP",
        9,
        _uci(
            "DS1_computer_hardware",
            "machine.data",
            "c95f0e52fb8381a14a24aa7e9f4b50f72a08639ecfd8cc619ab779919dbd448b",
            "29/computer+hardware",
            "cpu-performance/machine.data",
        ),
    ),
    Entry(
        "DS2",
        "Forest Fires",
        517,
        12,
        "log(1 + area)",
        13,
        _uci(
            "DS2_forest_fires",
            "forestfires.csv",
            "0d6586a1fa52f55bef48578aef14eb97273f1e9330e1a53423df497a77065253",
            "162/forest+fires",
            "forest-fires/forestfires.csv",
        ),
    ),
    Entry(
        "DS3",
        "Stock Portfolio Performance",
        252,
        6,
        "Annual Return.1",
        12,
        _uci(
            "DS3_stock_portfolio",
            "stock portfolio performance data set.xlsx",
            "c943fcfaf6057e5f07865a0856ea9be1d5a0541ff7b386adc5cd9d5f80740021",
            "390/stock+portfolio+performance",
            "00390/stock portfolio performance data set.xlsx",
        ),
    ),
    Entry(
        "DS4",
        "Yacht Hydrodynamics",
        308,
        5,
        "residuary resistance",
        7,
        _uci(
            "DS4_yacht_hydrodynamics",
            "yacht_hydrodynamics.data",
            "00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1",
            "243/yacht+hydrodynamics",
            "00243/yacht_hydrodynamics.data",
        ),
    ),
    Entry(
        "DS5",
        "Facebook Metrics",
        495,
        18,
        "Total Interactions",
        19,
        _uci(
            "DS5_facebook_metrics",
            "dataset_Facebook.csv",
            "666ec82952b7ce90b464f5a87ec4f0fe92d9a63208f2fcb2d0443cb5f31c3f4c",
            "368/facebook+metrics",
            "00368/Facebook_metrics.zip",
        ),
    ),
    Entry(
        "DS6",
        "Residential Building",
        372,
        27,
        "V-10",
        105,
        _uci(
            "DS6_residential_building",
            "Residential-Building-Data-Set.xlsx",
            "7db0235d1dbdb95057c514c8dc6bd8040cdf86656d086dcdafe6c0b1e1624222",
            "437/residential+building+data+set",
            "00437/Residential-Building-Data-Set.xlsx",
        ),
    ),
    Entry(
        "DS7",
        "Real Estate Valuation",
        414,
        6,
        "Y house price of unit area",
        7,
        _uci(
            "DS7_real_estate_valuation",
            "Real estate valuation data set.xlsx",
            "597d72fcc6c0539e6035a033ddb387db48fff3fb1f3c98fee31fe081c64a9059",
            "477/real+estate+valuation+data+set",
            "00477/Real estate valuation data set.xlsx",
        ),
    ),
    Entry(
        "DS8",
        "QSAR Fish Toxicity",
        908,
        6,
        "LC50",
        7,
        _uci(
            "DS8_qsar_fish_toxicity",
            "qsar_fish_toxicity.csv",
            "ea70c73b8d4e5b77740861470dc036dd8cf0d6766354d1b247ce015c2dc71168",
            "504/qsar+fish+toxicity",
            "00504/qsar_fish_toxicity.csv",
        ),
    ),
    Entry(
        "DS9",
        "QSAR Aquatic Toxicity",
        546,
        8,
        "LC50",
        9,
        _uci(
            "DS9_qsar_aquatic_toxicity",
            "qsar_aquatic_toxicity.csv",
            "cee55fadc4b021d3ff1567612a7ac32d7e212845a4ca9eb3ef983b78e0c17856",
            "505/qsar+aquatic+toxicity",
            "00505/qsar_aquatic_toxicity.csv",
        ),
    ),
    Entry(
        "MNIST",
        "handwritten digits",
        60_000,
        784,
        "digit",
        None,
        (
            _mnist("train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
            _mnist("train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
            _mnist("t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
            _mnist("t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
        ),
    ),
)

CATALOGUE = {entry.name: entry for entry in _ENTRIES}

# The nine tables, without MNIST.
TABLES = tuple(name for name in CATALOGUE if name != "MNIST")


def entry_of(name: str) -> Entry:
    """The entry of a dataset.

    Raises
    ------
    ValueError
        If there is no such dataset; the message lists all names.
    """
    if name not in CATALOGUE:
        raise ValueError(f"There is no dataset {name!r}. Choose one of {', '.join(CATALOGUE)}.")
    return CATALOGUE[name]
