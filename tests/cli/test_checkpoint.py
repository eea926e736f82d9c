"""A training of the command line that goes on from its checkpoint."""

import numpy as np
import pytest
from typer.testing import CliRunner

from dconnet.cli import app
from dconnet.training.checkpoint import Checkpoint


@pytest.fixture
def command(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(40, 2))
    lines = ["a,b,y", *(f"{a},{b},{abs(a - 0.5) + b}" for a, b in X)]
    (tmp_path / "data.csv").write_text("\n".join(lines))

    def run(*options):
        paths = ["--checkpoint", str(tmp_path / "fit.checkpoint"), "-o", str(tmp_path / "model.json"), "--force"]
        given = ["fit", str(tmp_path / "data.csv"), "--target", "y", "--n-hidden", "2", *options, *paths]
        return CliRunner().invoke(app, given)

    return run


def test_the_same_command_goes_on(command, tmp_path):
    assert command().exit_code == 0
    model, state = (tmp_path / "model.json").read_text(), (tmp_path / "fit.checkpoint").read_bytes()
    assert Checkpoint(tmp_path / "fit.checkpoint").get("network 0.0").values["status"] == "CONVERGED"
    assert command().exit_code == 0
    assert (tmp_path / "model.json").read_text() == model
    assert (tmp_path / "fit.checkpoint").read_bytes() == state


def test_another_command_is_refused(command, tmp_path):
    assert command().exit_code == 0
    result = command("--tol", "0.1")
    assert result.exit_code == 2
    assert "belongs to another fit: tol was 1e-06 and is 0.1. Delete the file" in " ".join(result.output.split())
