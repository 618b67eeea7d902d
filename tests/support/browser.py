"""A real browser for the tests of pages: headless Chromium, driven through two pipes.

Source: Chrome DevTools Protocol (https://chromedevtools.github.io/devtools-protocol/). With
    ``--remote-debugging-pipe`` the browser reads commands from file descriptor 3 and writes answers
    and events to 4, each a JSON object that ends in a NUL byte.

Every wait has an end, and leaving the ``with`` block ends the browser and all its children.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 60.0
"""Seconds for one answer; a machine under load starts a browser slowly."""

_FLAGS = (
    "--headless",
    "--no-sandbox",  # in a container there is nobody to drop privileges to
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)

# Puts the pipes where the browser looks for them, in a process that has nothing at 3 and 4.
_START = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class BrowserError(Exception):
    """The browser refused a command, ended, or took too long."""


def executable() -> str:
    """Path of a Chromium; the test is skipped where none is installed."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("needs a browser: install the Debian package chromium")
    return found


@contextmanager
def browser() -> Iterator["Browser"]:
    """A browser with an empty profile of its own."""
    path = executable()
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile:
        one = Browser(path, Path(profile))
        try:
            yield one
        finally:
            one.close()


@dataclass
class Tab:
    """A page that was opened.

    requests: URLs that it asked for, itself apart.  errors: what the browser complained about,
    such as a script that the page's policy forbids.
    """

    browser: "Browser"
    target: str
    session: str
    url: str
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, which must be plain data."""
        answer = self.browser.command(
            "Runtime.evaluate",
            {"expression": expression, "returnByValue": True, "awaitPromise": True},
            self.session,
        )
        if "exceptionDetails" in answer:
            raise BrowserError(f"{expression[:200]}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def close(self) -> None:
        """Close the tab."""
        self.browser.command("Target.closeTarget", {"targetId": self.target})

    def screenshot(self) -> bytes:
        """The whole page, below the visible part too, as PNG."""
        size = self.evaluate(
            "({width: innerWidth, height: document.documentElement.scrollHeight, x: 0, y: 0})"
        )
        answer = self.browser.command(
            "Page.captureScreenshot",
            {"captureBeyondViewport": True, "clip": {**size, "scale": 1}},
            self.session,
        )
        return base64.b64decode(answer["data"])


class Browser:
    """One process of Chromium. profile: an empty folder."""

    def __init__(self, path: str, profile: Path) -> None:
        self.profile = profile
        to_browser, self._commands = _pipe()
        self._answers, from_browser = _pipe()
        self._buffer = b""
        self._events: list[dict[str, Any]] = []
        self._last = 0
        try:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", "-c", _START, str(to_browser), str(from_browser)),
                    *(path, *_FLAGS, f"--user-data-dir={profile}"),
                ],
                pass_fds=(to_browser, from_browser),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            os.close(self._commands)
            os.close(self._answers)
            raise
        finally:
            os.close(to_browser)
            os.close(from_browser)

    def open(self, page: Path, *, width: int, height: int = 900) -> Tab:
        """Load a file in a new tab of ``width`` x ``height`` CSS pixels; it is drawn afterwards."""
        url = page.resolve().as_uri()
        target = self.command("Target.createTarget", {"url": "about:blank"})["targetId"]
        attach = {"targetId": target, "flatten": True}
        session = self.command("Target.attachToTarget", attach)["sessionId"]
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", metrics, session)
        self.command("Page.enable", {}, session)
        self.command("Network.enable", {}, session)
        self.command("Log.enable", {}, session)
        tab = Tab(self, target, session, url)
        self._events.clear()
        answer = self.command("Page.navigate", {"url": url}, session)
        if "errorText" in answer:
            raise BrowserError(f"{url}: {answer['errorText']}")
        self._wait_for("Page.loadEventFired", session)
        self.settle(tab)
        return tab

    def settle(self, tab: Tab) -> None:
        """Wait for two frames, and note what the page has asked for until then."""
        tab.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))"
        )
        for event in self._events:
            if event["session"] != tab.session:
                continue
            params = event["params"]
            if event["method"] == "Network.requestWillBeSent":
                url = params["request"]["url"]
                # What a data: URL shows is in the page itself.
                if url != tab.url and not url.startswith("data:"):
                    tab.requests.append(url)
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
                tab.errors.append(params["entry"]["text"])
        self._events.clear()

    def command(
        self, method: str, params: dict[str, Any], session: str | None = None
    ) -> dict[str, Any]:
        """Send a command and return its result; BrowserError if it fails."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        self._write(json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._read(deadline, method)
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                found: dict[str, Any] = answer["result"]
                return found

    def close(self) -> None:
        """End the browser and its children, politely first."""
        with suppress(BrowserError):
            self.command("Browser.close", {})
        os.close(self._commands)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with suppress(ProcessLookupError):  # its session: children that are still there
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            os.close(self._answers)

    def _wait_for(self, method: str, session: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not any(e["method"] == method and e["session"] == session for e in self._events):
            self._read(deadline, method)

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._commands, data) :]
        except OSError:
            raise BrowserError("the browser has ended") from None

    def _read(self, deadline: float, what: str) -> dict[str, Any]:
        """The next message; an event is kept too."""
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                raise BrowserError(f"no answer to {what} in {PATIENCE:.0f} seconds")
            data = os.read(self._answers, 1 << 20)
            if not data:
                raise BrowserError(f"the browser has ended, waiting for {what}")
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            message["session"] = message.get("sessionId", "")
            self._events.append(message)
        return message


def _pipe() -> tuple[int, int]:
    """Reading and writing end, both at numbers above the two that the browser uses."""
    ends = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return high[0], high[1]
