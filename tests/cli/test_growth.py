"""A network that grows, from the command line to the report."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dconnet._text import no_network_is_better, per_cent
from dconnet.cli import app
from dconnet.io.model_file import load_model


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    table.assign(y=table["a"].abs() + 0.1 * rng.normal(size=60)).to_csv("table.csv", index=False)


def test_the_message_tells_what_is_proved_and_the_report_too():
    found = run("fit", "table.csv", "--target", "y", "--n-hidden", "auto", "--gamma", 0.1, "--test-fraction", 0)
    assert found.exit_code == 0, found.output
    sentence = "It is proved that no network of this kind, however wide, has a RegLoss lower by more than"
    assert sentence in " ".join(found.output.split())
    model = load_model("model.json")
    assert model.settings["n_hidden"] == "auto"
    table = pd.read_csv("table.csv")
    restored = model.to_estimator().predict(table[["a", "b"]])
    np.testing.assert_allclose(restored, model.predict(table[["a", "b"]].to_numpy()), rtol=1e-9)
    found = run("inspect", "model.json", "--data", "table.csv", "--output", "report.html")
    assert found.exit_code == 0, found.output
    assert sentence in " ".join(Path("report.html").read_text(encoding="utf-8").split())


@pytest.mark.parametrize("width", ["0", "-3", "many", "2.5"])
def test_other_widths_are_refused(width):
    found = run("fit", "table.csv", "--target", "y", "--n-hidden", width)
    assert found.exit_code == 2
    assert "neither a positive integer nor auto" in " ".join(found.output.split())


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0 %"),
        (1e-12, "0.000001 %"),
        (2.71e-7, "0.000028 %"),
        (0.003, "0.3 %"),
        (0.5741, "58 %"),
        (0.07, "7 %"),
        (1.0, "100 %"),
    ],
)
def test_bounds_are_rounded_up(share, text):
    assert per_cent(share) == text
    assert no_network_is_better(share, proved=True).endswith(f"lower by more than {text}")
