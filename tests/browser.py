"""Headless Chromium for tests of the report."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest


def find_program(variable, *names):
    """Return the path of a program, or skip the test."""
    found = os.environ.get(variable) or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(names)} is installed")
    return found


@contextmanager
def chromium(folder):
    """Start a browser whose profile is in a folder."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    browser = find_program("CHROME", "chromium", "google-chrome")
    driver = find_program("CHROMEDRIVER", "chromedriver")
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
        "--window-size=1200,900",
        f"--user-data-dir={folder}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    page = webdriver.Chrome(options=options, service=service)
    try:
        yield page
    finally:
        page.quit()


def open_page(browser, folder, page):
    """Open the text of a page as a file in a folder."""
    path = Path(folder) / "report.html"
    path.write_text(page, encoding="utf-8")
    browser.get(path.as_uri())
    return browser
