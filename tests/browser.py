"""Headless Chromium for tests of the report."""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

# Frames come from timers: while a page waits for a real frame, Chromium's virtual time would run out.
PROBE = (
    "<script>window.requestAnimationFrame = (draw) => setTimeout(draw, 16);"
    "window.problems = []; addEventListener('error', (event) => problems.push(event.message));"
    "addEventListener('unhandledrejection', (event) => problems.push(String(event.reason)));</script>"
)
REPORT = (
    "<script type='module'>const found = {value: null, problems}; "
    "try { found.value = await (async () => { %s })(); } catch (error) { problems.push(String(error.stack)); } "
    "const box = document.createElement('textarea'); box.id = 'found'; box.textContent = JSON.stringify(found); "
    "document.body.append(box);</script></body>"
)


def evaluate(page, script, folder):
    """Open a page and return what the body of a function in JavaScript returns; the page must not have errors.

    The policy of the page is removed, because it would refuse the script. Skip the test without a browser.
    """
    browser = os.environ.get("CHROME") or shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("neither chromium nor google-chrome is installed")
    page, n_policies = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', lambda _: PROBE, page)
    assert n_policies == 1
    path = Path(folder) / "report.html"
    path.write_text(page.replace("</body>", REPORT % script), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    options += ["--window-size=1200,900", "--virtual-time-budget=20000", f"--user-data-dir={folder}/profile"]
    done = subprocess.run([browser, *options, "--dump-dom", path.as_uri()], capture_output=True, text=True, check=True)
    found = json.loads(html.unescape(re.search(r'<textarea id="found">(.*?)</textarea>', done.stdout, re.DOTALL)[1]))
    assert found["problems"] == []
    return found["value"]
