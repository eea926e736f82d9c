"""Every copy of the version number agrees with pyproject.toml."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import dconnet

ROOT = Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def test_all_copies_of_the_version_agree():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", citation, flags=re.MULTILINE) == [VERSION]
    assert dconnet.__version__ == version("dconnet") == VERSION
