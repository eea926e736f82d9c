"""Raw files are found, downloaded and checked; nothing here needs a network."""

import hashlib
import io
import sys
import zipfile
from functools import partial
from pathlib import Path

import pytest

from reproduction.datasets import data_home
from reproduction.datasets.files import RawFile, obtain

CONTENT = b"1,2,3\n"
FILE = RawFile("folder/table.data", hashlib.sha256(CONTENT).hexdigest(), ("first", "second"))


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "."), content)
    return buffer.getvalue()


def fetch_from(answers, url):
    if url not in answers:
        raise OSError("no route to host")
    return answers[url]


def test_home_is_the_given_folder_then_the_variable_then_the_cache(monkeypatch):
    monkeypatch.setenv("DCONNET_DATA", "from the variable")
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert data_home("given") == Path("given")
    assert data_home() == Path("from the variable")
    monkeypatch.delenv("DCONNET_DATA")
    assert data_home() == Path("cache/dconnet")


@pytest.mark.parametrize(
    "answers",
    [
        {"second": CONTENT},
        {"first": b"<html>moved</html>", "second": CONTENT},
        {"first": zipped(readme="hello", table__data=CONTENT)},
        {"first": zipped(table__data=b"another file of that name"), "second": CONTENT},
        {"first": zipped(inner__zip=zipped(table__data=CONTENT))},
    ],
)
def test_downloads(tmp_path, answers):
    path = obtain(FILE, tmp_path, partial(fetch_from, answers))
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]
    assert obtain(FILE, tmp_path, None) == path  # not downloaded again
    path.write_bytes(b"1,2,4\n")
    with pytest.raises(ValueError, match="not the published file"):
        obtain(FILE, tmp_path, None)
    assert path.read_bytes() == b"1,2,4\n"


def test_a_failed_download_names_the_addresses_and_the_remedy(tmp_path, monkeypatch):
    with pytest.raises(OSError, match=r"first: not the published file.*second: no route.*DCONNET_DATA"):
        obtain(FILE, tmp_path, partial(fetch_from, {"first": b"wrong"}))
    assert not list(tmp_path.rglob("*.data*"))
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match="needs pooch: pip install pooch"):
        obtain(FILE, tmp_path)
