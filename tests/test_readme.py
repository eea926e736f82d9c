"""The README's programs run, and print what it shows."""

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.parametrize("n", [0, 1])
def test_programs(n):
    text = README.read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", text, flags=re.DOTALL)
    assert len(programs) == 2
    program, expected = programs[n]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(program, {})
    assert printed.getvalue() == expected
