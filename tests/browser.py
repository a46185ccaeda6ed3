# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven through the DevTools protocol on a pipe: no driver, no port, no package."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

EXECUTABLES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_chromium():
    """Returns the browser's path, or None."""
    return next((path for name in EXECUTABLES if (path := shutil.which(name))), None)


class Browser:
    """One page of a headless browser that records console errors and requests."""

    def __init__(self, executable, timeout_s=60.0):
        self.timeout_s = timeout_s
        self.console_errors = []
        self.requests = []
        self._next_id = 0
        self._buffer = b""
        self._loaded = False
        self._profile = tempfile.mkdtemp(prefix="chromium-")
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()

        def use_pipe():
            # The protocol's descriptors are 3 (browser reads) and 4 (browser writes); copy first, they may overlap.
            reader, writer = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reader, 3)
            os.dup2(writer, 4)

        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        arguments += ["--no-first-run", "--disable-extensions", "--disable-component-update", "--disable-sync"]
        arguments += ["--disable-background-networking", f"--user-data-dir={self._profile}", "--remote-debugging-pipe"]
        self._process = subprocess.Popen(
            [executable, *arguments, "about:blank"],
            preexec_fn=use_pipe,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        targets = self.call("Target.getTargets", session=None)["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", session=None, targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        with contextlib.suppress(Exception):
            self.call("Browser.close", session=None)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method, session=..., **parameters):
        """Sends one command and returns its result; events that arrive meanwhile are recorded."""
        self._next_id += 1
        message = {"id": self._next_id, "method": method, "params": parameters}
        if session is ...:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        answer = self._wait(lambda reply: reply.get("id") == self._next_id, method)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, path: Path, width, height=900, dark=False):
        """Opens a local file at a window width (CSS pixels) and waits until it has loaded."""
        mobile = width < 500
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if mobile else 1,
            mobile=mobile,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._loaded = False
        if failure := self.call("Page.navigate", url=path.resolve().as_uri()).get("errorText"):
            raise RuntimeError(f"{path} cannot be opened: {failure}")
        if not self._loaded:
            self._wait(lambda _: self._loaded, "load event")
        time.sleep(0.3)  # Plots resize themselves in the next animation frames.

    def evaluate(self, expression):
        """Returns the value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def screenshot(self, path: Path):
        """Saves the whole page as PNG."""
        height = self.evaluate("document.documentElement.scrollHeight")
        width = self.evaluate("window.innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(picture["data"]))

    def _wait(self, wanted, what):
        deadline = time.monotonic() + self.timeout_s
        while True:
            message = self._receive(deadline, what)
            self._record(message)
            if wanted(message):
                return message

    def _receive(self, deadline, what):
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self._read, 1 << 20) if ready else b""
            if not chunk:
                raise TimeoutError(f"the browser did not answer to {what}")
            self._buffer += chunk
        text, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(text)

    def _record(self, message):
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.console_errors.append(parameters["exceptionDetails"].get("text", "exception"))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.console_errors.append(" ".join(str(argument.get("value")) for argument in parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.console_errors.append(parameters["entry"]["text"])
