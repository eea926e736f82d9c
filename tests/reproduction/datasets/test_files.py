"""Raw files are found, downloaded and checked; nothing here needs a network."""

import hashlib
import io
import re
import sys
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reproduction.datasets import CATALOGUE, data_home
from reproduction.datasets.files import RawFile, is_present, obtain

CONTENT = b"1,2,3\n"
FILE = RawFile("folder/table.data", hashlib.sha256(CONTENT).hexdigest(), ("first", "second"))


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "."), content)
    return buffer.getvalue()


def answering(**answers):
    """A download that knows some addresses and fails for all others."""

    def fetch(url):
        if url not in answers:
            raise OSError("no route to host")
        return answers[url]

    return fetch


def never(url):
    raise AssertionError(f"asked for {url}")


def test_home_is_the_given_folder_then_the_variable_then_the_cache(monkeypatch):
    monkeypatch.setenv("DCONNET_DATA", "from the variable")
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert data_home("given") == Path("given")
    assert data_home() == Path("from the variable")
    monkeypatch.delenv("DCONNET_DATA")
    assert data_home() == Path("cache/dconnet")


def test_a_file_that_is_there_is_not_downloaded(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / FILE.path).write_bytes(CONTENT)
    assert obtain(FILE, tmp_path, never) == tmp_path / FILE.path


def test_a_changed_file_is_refused_and_left_alone(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / FILE.path).write_bytes(b"1,2,4\n")
    with pytest.raises(ValueError, match="not the published file"):
        obtain(FILE, tmp_path, never)
    assert (tmp_path / FILE.path).read_bytes() == b"1,2,4\n"


@pytest.mark.parametrize(
    "answers",
    [
        {"first": CONTENT},
        {"second": CONTENT},
        {"first": b"<html>moved</html>", "second": CONTENT},
        {"first": zipped(readme="hello", table__data=CONTENT)},
        {"first": zipped(table__data=b"another file of that name"), "second": CONTENT},
        {"first": zipped(inner__zip=zipped(table__data=CONTENT))},
    ],
)
def test_downloads(tmp_path, answers):
    path = obtain(FILE, tmp_path, answering(**answers))
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]
    assert obtain(FILE, tmp_path, never) == path


def test_a_failed_download_says_where_it_looked_and_what_to_do(tmp_path):
    with pytest.raises(OSError, match=r"first: not the published file.*second: no route.*DCONNET_DATA"):
        obtain(FILE, tmp_path, answering(first=b"wrong"))
    assert not list(tmp_path.rglob("*.data*"))


def test_without_pooch_the_error_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=re.escape("needs pooch: pip install pooch")):
        obtain(FILE, tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / FILE.path).write_bytes(CONTENT)
    assert obtain(FILE, tmp_path) == tmp_path / FILE.path


def test_download_from_a_server(tmp_path):
    pytest.importorskip("pooch")
    served, home = tmp_path / "served", tmp_path / "home"
    served.mkdir()
    (served / "table.zip").write_bytes(zipped(table__data=CONTENT))
    handler = partial(Quiet, directory=served)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        file = RawFile(FILE.path, FILE.sha256, (f"{address}/gone.zip", f"{address}/table.zip"))
        assert obtain(file, home).read_bytes() == CONTENT
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def test_a_dataset_is_present_only_with_all_its_files(tmp_path):
    files = [tmp_path / file.path for file in CATALOGUE["MNIST"].files]
    files[0].parent.mkdir()
    for path in files:
        assert not is_present("MNIST", tmp_path)
        path.touch()
    assert is_present("MNIST", tmp_path)


def test_the_catalogue_is_sound():
    files = [file for entry in CATALOGUE.values() for file in entry.files]
    assert len({file.path for file in files}) == len(files) == 13
    assert all(len(bytes.fromhex(file.sha256)) == 32 for file in files)
    assert all(url.startswith("https://") and " " not in url for file in files for url in file.urls)
