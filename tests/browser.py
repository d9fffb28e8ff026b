"""Opens pages in Debian's Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync "
    "--no-first-run"
)
Look = tuple[int, Literal["light", "dark"]]
LOOKS: list[Look] = [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")]
"""A phone and a desktop, each in the light and the dark color scheme."""


@contextmanager
def opened(file: Path, looks: list[Look]) -> Iterator[list[Any]]:
    """The page in one tab per look. Fails at the end if the page logged an error or asked for anything online."""
    from playwright.sync_api import sync_playwright

    troubles: list[str] = []
    requests: list[str] = []
    with sync_playwright() as playwright:
        # A timeout of 0 means none: a busy machine may take any time to start the browser or to load a page.
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS.split(), timeout=0)
        tabs = []
        for width, scheme in looks:
            tab = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
            tab.set_default_timeout(0)
            tab.on("console", lambda message: troubles.append(message.text))
            tab.on("pageerror", lambda error: troubles.append(str(error)))
            tab.on("requestfailed", lambda request: troubles.append(request.url))
            tab.on("request", lambda request: requests.append(request.url))
            tab.goto(file.resolve().as_uri())
            tabs.append(tab)
        yield tabs
        browser.close()
    assert troubles == []
    assert {url.split(":")[0] for url in requests} <= {"file", "data"}
