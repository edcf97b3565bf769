"""Debian's Chromium, or another one, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from tests.clients.toolchains import missing
from tests.patience import PATIENCE_S

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS: Final = (
    "--no-sandbox",  # tests may run as root, and load nothing but the lab
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser with a profile of its own. Skips where there is none; with CI set that is a failure."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        missing("no Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_FLAGS)
        yield browser
        browser.close()


class Window:
    """A window that collects what goes wrong in it.

    Attributes:
        page: Playwright's page.
        troubles: errors of scripts, of the console, and of files that could not be loaded.
    """

    def __init__(
        self, browser: Browser, url: str, *, scheme: str = "light", width: int = 1280, height: int = 720
    ) -> None:
        self.url = url
        self.page: Page = browser.new_page(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce",
        )
        self.page.set_default_timeout(PATIENCE_S * 1000)
        self.troubles: list[str] = []
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", self._hear)

    def open(self, path: str) -> Page:
        """Go to an address of the lab."""
        self.page.goto(self.url + path)
        self.page.get_by_role("heading", level=1).wait_for()
        return self.page

    def picture(self, name: str) -> None:
        """Write a picture for the documentation where LAB_PICTURES names a folder."""
        folder = os.environ.get("LAB_PICTURES")
        if folder:
            self.page.screenshot(path=Path(folder) / f"{name}.png")

    def check_accessibility(self) -> None:
        """AssertionError if axe-core finds anything."""
        found = Axe().run(self.page).response["violations"]
        lines = [
            f"{each['id']}: {node['html'][:200]} {node['failureSummary']}" for each in found for node in each["nodes"]
        ]
        assert not lines, "\n".join(lines)

    def close(self) -> None:
        """AssertionError if anything has gone wrong."""
        self.page.close()
        assert not self.troubles, self.troubles

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.troubles.append(message.text)
