"""A headless Chromium, to see what a user sees."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from torchx_core.testing import wait_until

__all__ = ["Page", "browse", "missing"]

PAGE_TIMEOUT_S = 60.0


def missing() -> str:
    """Return what is not installed, or nothing."""
    return "" if shutil.which("chromium") and shutil.which("chromedriver") else "chromium or chromedriver"


class Page:
    """What the browser shows."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        """Go there."""
        self.driver.get(url)

    @property
    def text(self) -> str:
        """Everything that can be read on the page."""
        return str(self.driver.find_element(By.TAG_NAME, "body").text)

    def wait_for(self, *texts: str) -> str:
        """Wait until the page shows all of these; return all it shows."""

        def there() -> str:
            shown = self.text
            return shown if all(text in shown for text in texts) else ""

        return wait_until(there, PAGE_TIMEOUT_S)

    def click(self, text: str) -> None:
        """Press the button that says so, as soon as there is one."""
        self._first(f"//button[contains(., '{text}')]").click()

    def scroll_to(self, text: str) -> None:
        """Have what says so in the middle of the window."""
        self.run(
            "arguments[0].scrollIntoView({block: 'center'})",
            self._first(f"//*[text()[contains(., '{text}')]]"),
        )

    def choose(self, option: str) -> None:
        """Choose an option from the only list on the page that one can type into."""
        field = self._first("//input[@role='combobox']")
        field.click()
        field.send_keys(option)
        self._first(f"//*[@role='option'][contains(., '{option}')]").click()

    def _first(self, path: str) -> WebElement:
        return wait_until(lambda: next(iter(self.driver.find_elements(By.XPATH, path)), None), PAGE_TIMEOUT_S)

    def resize(self, width: int, height: int = 1000, *, dark: bool = False) -> None:
        """Be a window of that size, of somebody who prefers dark or light pages."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Be in the page's only frame, as soon as there is one."""
        self.driver.switch_to.frame(self._first("//iframe"))
        try:
            yield
        finally:
            self.driver.switch_to.default_content()

    def run(self, script: str, *args: object) -> Any:
        """Run JavaScript on the page, and return what it returns."""
        return self.driver.execute_script(script, *args)

    def complaints(self) -> list[str]:
        """Return what the browser has to say against the page: errors, refused scripts, failed requests."""
        entries: list[dict[str, object]] = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [str(entry["message"]) for entry in entries]

    def links(self) -> dict[str, str]:
        """Return where each link with a text leads."""
        found = self.driver.find_elements(By.TAG_NAME, "a")
        return {a.text: a.get_attribute("href") or "" for a in found if a.text}

    def picture(self, file: Path) -> None:
        """Take a screenshot."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(file))


@contextmanager
def browse(folder: Path) -> Iterator[Page]:
    """Start a browser that keeps its files in the folder."""
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1400,1000",
        f"--user-data-dir={folder}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield Page(driver)
    finally:
        driver.quit()
