"""Chromium without a window, for tests of the report."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest


def tool(variable, *names):
    """The path of a program, or a skipped test that says what is missing."""
    found = os.environ.get(variable) or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(names)} is installed: the page cannot be tried in a browser")
    return found


@contextmanager
def chromium(folder, *, width=1200, height=900, dark=False):
    """A browser with a profile of its own that may not go anywhere."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium, which drives the browser, is not installed")
    browser, driver = tool("CHROME", "chromium", "google-chrome"), tool("CHROMEDRIVER", "chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--force-prefers-reduced-motion",
        f"--window-size={width},{height}",
        f"--user-data-dir={folder}",
        *(["--blink-settings=preferredColorScheme=0"] if dark else []),
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    page = webdriver.Chrome(options=options, service=service)
    try:
        yield page
    finally:
        page.quit()


def opened(browser, folder, page, name="report.html"):
    """Open the text of a page as a file."""
    path = Path(folder) / name
    path.write_text(page, encoding="utf-8")
    browser.get(path.as_uri())
    return browser
