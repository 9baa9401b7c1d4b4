"""The system's Chromium, and the pictures of the README: `python -m tests.reporting.chromium results/demo docs`."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

EXECUTABLE = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = "no Chromium here: install Debian's package chromium to test the page in a browser"
# As root there is no sandbox; and it has no business of its own on the network.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=EXECUTABLE, args=ARGUMENTS)
        yield browser
        browser.close()


def drawn(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_selector("html[data-drawn]")


def screenshots(report: Path, folder: Path) -> None:
    """The two pictures of the README."""
    from PIL import Image

    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1000, "height": 900}, color_scheme="light")
        drawn(page, report.resolve().as_uri())
        page.locator("#timeline").screenshot(path=folder / "report-light.png")
        page.close()
        page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
        drawn(page, report.resolve().as_uri())
        page.evaluate("document.getElementById('curves').scrollIntoView({behavior: 'instant'})")
        page.screenshot(path=folder / "report-dark-phone.png")
        page.close()
    for name in ("report-light", "report-dark-phone"):  # few colours: half the bytes
        path = folder / f"{name}.png"
        Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)


if __name__ == "__main__":
    from tfcsr.reporting.report import write_report

    screenshots(write_report(sys.argv[1]), Path(sys.argv[2]))
