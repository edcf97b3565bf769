"""Chromium, from Debian or elsewhere, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, sync_playwright

from tests.clients.toolchains import missing
from tests.patience import PATIENCE_S

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS: Final = (
    "--no-sandbox",  # Tests can run as root, and load only the lab.
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_LAYOUTS: Final = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]


def in_each_layout(width: int, scheme: str) -> pytest.MarkDecorator:
    """Return the parameters of a test that runs in all layouts.

    `make test` runs only this layout, and `make torture` all.
    """
    taken = (width, scheme)
    layouts = [pytest.param(*layout, marks=() if layout == taken else pytest.mark.torture) for layout in _LAYOUTS]
    return pytest.mark.parametrize(("width", "scheme"), layouts)


@contextmanager
def launched() -> Iterator[Browser]:
    """Yield a browser with a new profile. Skip the test if there is no browser, or fail it if CI is set."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        missing("no Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_FLAGS)
        yield browser
        browser.close()


class Window:
    """A browser window that collects errors.

    A browser has only one window, since loading the lab in a new window takes about a second of CPU more. Each test
    loads the lab again. A test that changes more than the URL closes the page or its context, and the next test opens
    another.

    Attributes:
        page: Playwright's page.
        troubles: Errors of scripts and of the console, and files that could not be loaded.
    """

    def __init__(
        self, browser: Browser, url: str, *, scheme: str = "light", width: int = 1280, height: int = 720
    ) -> None:
        self.url = url
        context = next(iter(browser.contexts), None) or browser.new_context(reduced_motion="reduce")
        self.page: Page = next(iter(context.pages), None) or context.new_page()
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        self.page.set_default_timeout(PATIENCE_S * 1000)
        self.troubles: list[str] = []
        self.page.on("pageerror", self._catch)
        self.page.on("console", self._hear)

    def open(self, path: str) -> Page:
        """Open a path of the lab."""
        self.page.goto(self.url + path)
        self.page.get_by_role("heading", level=1).wait_for()
        return self.page

    def picture(self, name: str) -> None:
        """Save a screenshot for the documentation if LAB_PICTURES names a folder."""
        folder = os.environ.get("LAB_PICTURES")
        if folder:
            self.page.screenshot(path=Path(folder) / f"{name}.png")

    def check_accessibility(self) -> None:
        """Check the page with axe-core.

        Raises:
            AssertionError: axe-core has found a problem.
        """
        violations = Axe().run(self.page).response["violations"]
        lines = [
            f"{each['id']}: {node['html'][:200]} {node['failureSummary']}"
            for each in violations
            for node in each["nodes"]
        ]
        assert not lines, "\n".join(lines)

    def close(self) -> None:
        """Replace the lab with an empty page.

        Raises:
            AssertionError: Errors were collected.
        """
        self.page.goto("about:blank")
        self.page.remove_listener("pageerror", self._catch)
        self.page.remove_listener("console", self._hear)
        self.page.context.clear_permissions()
        assert not self.troubles, self.troubles

    def _catch(self, error: Error) -> None:
        self.troubles.append(str(error))

    def _hear(self, message: ConsoleMessage) -> None:
        # A page that was open before may still report its own broker, which has stopped.
        is_of_this_page = message.location["url"].startswith(self.url)
        if message.type in {"error", "warning"} and is_of_this_page:
            self.troubles.append(message.text)
