"""Every copy of the version number agrees with pyproject.toml."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import dconnet

ROOT = Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def test_package_version():
    assert dconnet.__version__ == VERSION


def test_distribution_version():
    assert version("dconnet") == VERSION


def test_citation_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", text, flags=re.MULTILINE) == [VERSION]
