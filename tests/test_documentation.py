"""README and pages: programs run and print what is shown, quoted races agree with stored runs, versions agree."""

import contextlib
import io
import json
import re
import shlex
import tomllib
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import dconnet
from dconnet.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
STORED = DOCS / "benchmarks"
needs_docs = pytest.mark.skipif(not STORED.is_dir(), reason="the documentation is not part of this distribution")


@pytest.mark.parametrize("n", [0, 1])
def test_programs(n):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", text, flags=re.DOTALL)
    assert len(programs) == 2
    program, expected = programs[n]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(program, {})
    assert printed.getvalue() == expected


def agree(shown, printed):
    """Return whether a line of a page is like a printed one: equal words and counts, other numbers up to 20 %.

    The last epochs of a fit, and its time, depend on the processor.
    """
    left_out = r"(?<=Trained in )\S+|(?<=Converged after )\d+|(?<=relative decrease )\S+|,|\.(?=\s|$)"
    words, others = (re.sub(left_out, " ", line).split() for line in (shown, printed))

    def are_alike(word, other):
        if word.isdigit() and other.isdigit():
            return word == other
        try:
            return float(word) == pytest.approx(float(other), rel=0.2, abs=1e-9)
        except ValueError:
            return word == other

    return len(words) == len(others) and all(map(are_alike, words, others))


@needs_docs
@pytest.mark.slow  # it trains and compares all kinds of models
def test_commands_print_what_the_page_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = read_page("command-line.md")
    exec(re.search(r"```python\n(.*?)```", page, flags=re.DOTALL)[1], {})
    commands = re.findall(r"^\$ dconnet ([^\n]*)\n((?:(?!\$ |```).*\n)*)", page, flags=re.MULTILINE)
    assert len(commands) == 8
    for command, shown in commands:
        if ".onnx" in command and find_spec("onnx") is None:
            continue
        arguments, _, n_lines = command.partition(" | head -n ")
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(arguments))
        assert not ended.value.code
        found = capsys.readouterr()
        printed = [line for line in (found.err + found.out).splitlines() if line.strip()][: int(n_lines or 1000)]
        lines = [line for line in shown.splitlines() if line.strip()]
        if command.startswith("compare"):  # CPU seconds are last
            printed, lines = ([line.rpartition(" ")[0] for line in each] for each in (printed, lines))
            lines = [line or "..." for line in lines]
        for line in lines:
            if line != "...":
                place = next((i for i, other in enumerate(printed) if agree(line, other)), None)
                assert place is not None, f"dconnet {command} does not print {line!r}, but {printed}"
                printed = printed[place + 1 :]


def test_all_copies_of_the_version_agree():
    given = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", citation, flags=re.MULTILINE) == [given]
    assert dconnet.__version__ == version("dconnet") == given


# --- races ---


def read_page(name):
    return (DOCS / name).read_text(encoding="utf-8")


def geometric(ratios):
    return float(np.exp(np.mean(np.log(ratios))))


def read_contests(name):
    """Return RegLoss of every runner at every mark, by dataset, width and gamma."""
    found = {}
    for record in map(json.loads, (STORED / name).read_text(encoding="utf-8").splitlines()[1:]):
        key = tuple(record["cell"][field] for field in ("dataset", "n_hidden", "gamma"))
        found.setdefault(key, {})[record["cell"]["runner"]] = record["result"]["regloss"]
    return found


def ratios_of(found, champion, rival, mark=0):
    return np.array([losses[champion][mark] / losses[rival][mark] for losses in found.values()])


def summarise(ratios):
    """Return wins, ties and losses, geometric mean, median, and the number of losses by more than 5 %."""
    wins, losses = int(np.sum(ratios < 0.999)), int(np.sum(ratios > 1.001))
    tally = f"{wins} / {len(ratios) - wins - losses} / {losses}"
    return [tally, f"{geometric(ratios):.3f}", f"{np.median(ratios):.3f}", str(int(np.sum(ratios > 1.05)))]


RIVALS = {
    "kernel": "the kernel's own L-BFGS",
    "scipy-brisk": "SciPy's L-BFGS-B, brisk",
    "scipy": "SciPy's L-BFGS-B",
}


@needs_docs
def test_races():
    found = read_contests("race.jsonl")
    assert len(found) == 135
    lines = read_page("accelerated.md").splitlines()
    pairs = [(champion, rival, RIVALS[rival]) for champion in ("defaults", "accelerated") for rival in RIVALS]
    for champion, rival, name in [*pairs, ("accelerated", "defaults", "default settings")]:
        end = f"| {name} | " + " | ".join(summarise(ratios_of(found, champion, rival))) + " |"
        assert any(line.endswith(end) for line in lines), end


@needs_docs
def test_races_against_algorithm_1_and_adam():
    found = read_contests("race-paper-adam.jsonl")
    assert len(found) == 45
    for rival in ("paper", "adam"):
        for mark, name in enumerate(("0.25 s", "1 s")):
            row = f"| {name} | " + " | ".join(summarise(ratios_of(found, "accelerated", rival, mark))) + " |"
            assert row in read_page("accelerated.md")
    portfolio = {key: losses for key, losses in found.items() if key[0] == "DS3"}
    assert ratios_of(portfolio, "accelerated", "paper", 1).min() > 0.98
    assert ratios_of(portfolio, "accelerated", "adam", 1).min() > 0.995


@needs_docs
def test_readme_quotes_the_races():
    found = read_contests("race.jsonl")
    text = " ".join(read_page("../README.md").split())
    ratios = {rival: ratios_of(found, "defaults", rival) for rival in RIVALS}
    wins, _, ties, _, losses = summarise(ratios["kernel"])[0].split()
    lower = {rival: 100.0 * (1.0 - geometric(some)) for rival, some in ratios.items()}
    assert f"in {wins} of 135 contests, tied in {ties} and higher in {losses}: {lower['kernel']:.0f} % lower" in text
    assert f"{100.0 * (1.0 - np.median(ratios['kernel'])):.0f} % in the median" in text
    assert f"Against SciPy's L-BFGS-B it was {lower['scipy']:.0f} % lower" in text
