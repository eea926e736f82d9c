"""The version is that of pyproject.toml, wherever else it stands."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import dconnet

ROOT = Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def test_of_the_package():
    assert dconnet.__version__ == VERSION


def test_of_the_installed_distribution():
    assert version("dconnet") == VERSION


def test_of_the_citation():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", text, flags=re.MULTILINE) == [VERSION]
