"""What tests do in a browser, in few words, on top of selenium."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["Browser", "missing_parts", "start_browser"]

T = TypeVar("T")

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--enable-unsafe-swiftshader",  # WebGL, drawn by the processor
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-prefers-reduced-motion",
    "--window-size=1280,900",
)
_PATIENCE_SECONDS = 90.0


def missing_parts() -> list[str]:
    """Return what is not installed of what a browser needs."""
    programs = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return programs + ([] if importlib.util.find_spec("selenium") else ["selenium"])


class Browser:
    """One window of a browser.

    Args:
        driver: Selenium's.
    """

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, address: str) -> None:
        """Go to an address."""
        self.driver.get(address)

    def forget(self) -> None:
        """Drop what pages have kept and what the log holds."""
        self.driver.get("about:blank")
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        self.size(1280, 900)
        self.errors()

    def prefer(self, language: str, scheme: str) -> None:
        """Have pages told of a language and a colour scheme that a person prefers."""
        agent = self.script("return navigator.userAgent")
        told = {"userAgent": agent, "acceptLanguage": language}
        self.driver.execute_cdp_cmd("Emulation.setUserAgentOverride", told)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def size(self, width: int, height: int) -> None:
        """Let the window be as large as this."""
        told = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", told)

    def find(self, selector: str) -> Any:
        """Return the first element that shows, waiting for it."""
        return self.wait(lambda: next((e for e in self.all(selector) if e.is_displayed()), None), selector)

    def all(self, selector: str) -> list[Any]:
        """Return all elements that match a CSS selector, or a path that begins with `//`."""
        return self.driver.find_elements("xpath" if selector.startswith(("//", "(")) else "css selector", selector)

    def button(self, text: str) -> Any:
        """Return the button with this text or name, waiting for it."""
        return self.find(f"//button[normalize-space()={_quoted(text)} or @aria-label={_quoted(text)}]")

    def write(self, selector: str, text: str) -> None:
        """Put a text into a field, in place of what is there."""
        field = self.find(selector)
        field.clear()
        field.send_keys(text)

    def choose(self, selector: str, text: str) -> None:
        """Choose the option of a list that has this text, or whose text begins with it."""
        field = self.find(selector)
        field.find_element("xpath", f".//option[starts-with(normalize-space(), {_quoted(text)})]").click()

    def wait_text(self, selector: str, text: str) -> Any:
        """Wait for an element to hold a text."""
        return self.wait(
            lambda: next((e for e in self.all(selector) if e.is_displayed() and text in e.text), None),
            f"{selector} with {text!r}",
        )

    def wait(self, condition: Callable[[], T | None], what: str) -> T:
        """Wait until something is there and return it."""
        from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
        from selenium.webdriver.support.wait import WebDriverWait

        waiting = WebDriverWait(self.driver, _PATIENCE_SECONDS, 0.1, (StaleElementReferenceException,))
        try:
            return waiting.until(lambda _: condition())  # pyright: ignore[reportArgumentType, reportReturnType]
        except TimeoutException:
            shown = self.driver.find_element("css selector", "body").text
            raise AssertionError(f"no {what}; the page says:\n{shown:.2000}\n{self.errors()}") from None

    def script(self, text: str, *arguments: Any) -> Any:
        """Return what a script returns."""
        return self.driver.execute_script(text, *arguments)

    def errors(self) -> list[str]:
        """Return what the browser complained of since it was last asked: policy, scripts, failed requests."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def screenshot(self, path: Path) -> None:
        """Write what is seen to a PNG file."""
        self.driver.save_screenshot(str(path))

    def quit(self) -> None:
        """Close it."""
        self.driver.quit()


def start_browser(profile: Path) -> Browser:
    """Return a browser with a profile of its own."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*_FLAGS, f"--user-data-dir={profile}", "--lang=en"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return Browser(Chrome(options=options, service=Service(shutil.which("chromedriver"))))


def _quoted(text: str) -> str:
    return f'"{text}"' if '"' not in text else f"'{text}'"
