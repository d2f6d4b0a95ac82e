"""Debian's chromium, headless, over a pipe: opens a file, runs JavaScript in it, and tells what went wrong.

    with Browser() as browser:
        page = browser.open(path)                  # waits until the page is drawn
        page.value("document.title")
        page.contrast(["accent"])                  # how well text and colours can be told from what is behind them
    page.problems                              # what was written to the console, thrown or requested from elsewhere
        page.screenshot(path, width=1280, height=900, dark=True)

The protocol is Chrome's DevTools protocol; messages end with a null byte.
"""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find():
    """The browser's path, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


CONTRAST = """(colours => {
  const rgba = text => [...text.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
  const linear = v => v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
  const light = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const page = rgba(getComputedStyle(document.body).backgroundColor);
  const behind = e => {
    const own = e && getComputedStyle(e);
    const stripes = own ? own.backgroundImage.match(/rgba?\\([^)]*\\)/g) : null;
    if (stripes && !e.classList.contains("hatch")) return stripes.map(rgba);
    const colour = own ? rgba(own.backgroundColor) : page;
    return colour[3] > 0.5 ? [colour] : behind(e.parentElement);
  };
  let least = [99, ""];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement, shown = texts.currentNode.data.trim();
    if (!shown || !e.getClientRects().length) continue;
    const style = getComputedStyle(e), ink = rgba(e.closest("svg") ? style.fill : style.color);
    for (const ground of behind(e)) if (ratio(ink, ground) < least[0]) least = [ratio(ink, ground), shown.slice(0, 40)];
  }
  const probe = document.body.appendChild(document.createElement("i"));
  const named = Object.fromEntries(colours.map(name => {
    probe.style.backgroundColor = `var(--${name})`;
    return [name, ratio(rgba(getComputedStyle(probe).backgroundColor), page)];
  }));
  probe.remove();
  return {text: least, named};
})(%s)"""


class Browser:
    SECONDS = 120  # a loaded machine takes a while to start it

    def __enter__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to, self.write = os.pipe()
        self.read, back = os.pipe()
        # The browser reads from descriptor 3 and writes to 4.
        command = f'exec "$0" "$@" 3<&{to} 4>&{back}'
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
                 "--no-first-run", "--disable-background-networking", f"--user-data-dir={self.profile.name}", "about:blank"]
        self.process = subprocess.Popen(["sh", "-c", command, find(), *flags], pass_fds=(to, back), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to)
        os.close(back)
        self.number, self.bytes, self.events = 0, b"", []
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.write)
        os.close(self.read)
        self.profile.cleanup()

    def message(self, end):
        while b"\0" not in self.bytes:
            if not select.select([self.read], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError("the browser does not answer")
            more = os.read(self.read, 1 << 16)
            if not more:
                raise AssertionError(f"the browser ended with {self.process.wait()}")
            self.bytes += more
        text, self.bytes = self.bytes.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, session=None, **parameters):
        self.number += 1
        wanted = self.number
        message = {"id": wanted, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write, data):]
        end = time.monotonic() + self.SECONDS
        while True:
            answer = self.message(end)
            if answer.get("id") == wanted:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def open(self, path, dark=False):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        return Page(self, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"], path, dark)


class Page:
    def __init__(self, browser, session, path, dark):
        self.browser, self.session, self.url = browser, session, pathlib.Path(path).resolve().as_uri()
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
        begin = time.monotonic()
        self.call("Page.navigate", url=self.url)
        while self.value("document.readyState") != "complete" or self.value("location.href") != self.url:
            if time.monotonic() > begin + browser.SECONDS:
                raise AssertionError(f"{path} is not drawn")
            time.sleep(0.05)
        self.seconds = time.monotonic() - begin

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def value(self, expression):
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, f"{expression}: {done['exceptionDetails']}"
        return done["result"].get("value")

    def contrast(self, colours):
        """The least contrast (WCAG 2) of any text to what is behind it, with the text; and of the named colours to the page."""
        return self.value(CONTRAST % json.dumps(colours))

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text="\r" if key == "Enter" else "",
                      windowsVirtualKeyCode=13 if key == "Enter" else 0)

    @property
    def problems(self):
        self.value("1")  # what happened before has been told
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, told = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                found.append(told["exceptionDetails"].get("exception", {}).get("description") or told["exceptionDetails"]["text"])
            elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning"):
                found.append(f"console: {told['args']}")
            elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
                found.append(f"log: {told['entry']['text']}")
            elif method == "Network.requestWillBeSent" and told["request"]["url"] not in (self.url, "data:,"):
                found.append(f"request: {told['request']['url'][:200]}")
        return found

    def screenshot(self, path, width=1280, height=None):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height or 900, deviceScaleFactor=1, mobile=False)
        if height is None:
            height = min(12000, self.value("document.documentElement.scrollHeight"))
            self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        time.sleep(0.5)
        shot = self.call("Page.captureScreenshot", format="png")
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))
