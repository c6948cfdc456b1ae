"""chromium.py - a real browser, without a window, that stories drive. SPDX-License-Identifier: Apache-2.0

The browser is Debian's package chromium. It speaks the DevTools protocol over two pipes: JSON messages with a NUL
behind each."""
import base64
import fcntl
import shutil

from harness import *

FLAGS = ["--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage",
         "--no-first-run", "--no-default-browser-check", "--disable-extensions", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
         "--disable-features=Translate,OptimizationHints,MediaRouter", "--force-color-profile=srgb", "--mute-audio"]


def high(fd):
    """The same pipe by a number that no redirection below uses."""
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD, 10)
    os.close(fd)
    return copy


class Chromium(Process):
    def __init__(self, story):
        program = shutil.which("chromium")
        if not program:
            raise Skip("chromium is not installed: run scripts/tools chromium")
        self.story, self.name = story, "chromium"
        self.log_path = story.path("chromium.log")
        self.log_file = open(self.log_path, "wb")
        there, self.out = map(high, os.pipe())
        self.back, here = map(high, os.pipe())
        home = story.path("chromium")
        with story.starting:
            self.process = subprocess.Popen(
                ["bash", "-c", f'exec 3<&{there} 4>&{here}; exec "$@"', "chromium", program, *FLAGS,
                 f"--user-data-dir={home}"], pass_fds=(there, here), stdin=subprocess.DEVNULL,
                stdout=self.log_file, stderr=self.log_file, env={**own_env(), "HOME": home})
            story.processes.append(self)
        os.close(there)
        os.close(here)
        self.rest, self.number, self.events, self.answers = b"", 0, [], {}

    def read(self, until):
        """Takes messages until until() is true; its value."""
        end = time.monotonic() + PATIENCE
        while not (value := until()):
            if not select.select([self.back], [], [], max(0, end - time.monotonic()))[0]:
                raise Wrong("the browser does not answer")
            more = os.read(self.back, 1 << 20)
            if not more:
                raise Wrong(f"the browser has ended: {self.log()[-2000:]}")
            *whole, self.rest = (self.rest + more).split(b"\0")
            for message in map(json.loads, whole):
                if "id" in message:
                    self.answers[message["id"]] = message
                else:
                    self.events.append(message)
        return value

    def call(self, method, session=None, **params):
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        answer = self.read(lambda: self.answers.pop(number, None))
        if "error" in answer:
            raise Wrong(f"{method} fails: {answer['error']}")
        return answer["result"]

    def open(self, url, **how):
        return Tab(self, url, **how)


class Tab:
    def __init__(self, browser, url, width=1280, height=900, dark=False):
        self.browser = browser
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.looks(width, height, dark)
        self.go(url)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def events(self, *methods):
        """What has happened so far."""
        self.call("Runtime.evaluate", expression="0")    # all earlier events come before its answer
        return [event["params"] for event in self.browser.events
                if event.get("sessionId") == self.session and event["method"] in methods]

    def go(self, url):
        before = len(self.events("Page.loadEventFired"))
        self.call("Page.navigate", url=url)
        wait_for(f"{url} is loaded", lambda: len(self.events("Page.loadEventFired")) > before)

    def looks(self, width, height=900, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme",
                                                           "value": "dark" if dark else "light"}])

    def run(self, script, **how):
        """The value of a JavaScript expression, which may be a promise."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, **how)
        if "exceptionDetails" in answer:
            raise Wrong(f"{script[:200]}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, what, script, **how):
        return wait_for(what, lambda: self.run(script), every=0.05, **how)

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText")

    def press(self, selector):
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def requests(self):
        return [event["request"]["url"] for event in self.events("Network.requestWillBeSent")]

    def complaints(self):
        """Errors and warnings of scripts, of the policy, and of requests that failed."""
        return [str(event.get("exceptionDetails") or event.get("entry") or event)
                for event in self.events("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
                if event.get("type") not in ("log", "info", "debug")
                and event.get("entry", {}).get("level") not in ("verbose", "info")]

    def body(self, path):
        """The body of the latest whole answer at this path."""
        urls = {event["requestId"]: event["response"]["url"] for event in self.events("Network.responseReceived")}
        whole = [event["requestId"] for event in self.events("Network.loadingFinished")
                 if urls.get(event["requestId"], "").endswith(path)]
        answer = self.call("Network.getResponseBody", requestId=whole[-1])
        return base64.b64decode(answer["body"]).decode() if answer["base64Encoded"] else answer["body"]

    def picture(self, name):
        """Writes a picture of the whole page into the story's folder (STORY_KEEP=1 keeps it)."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        with open(self.browser.story.path(name), "wb") as f:
            f.write(base64.b64decode(data))
