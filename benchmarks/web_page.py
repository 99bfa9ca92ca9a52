"""Opens the page in headless Chromium without a graphics card, asks 500 questions, and drags a large graph about.

A newcomer's first minute is that of `heliograph serve` on its defaults, with an empty folder and nothing cached: from a
click on the sample documents to an answer with citations to the first question that the page proposes, and until all
samples are read.

The first load is what `index.html` names, each file compressed. Interactive is the page when a question can be typed
and no task of 50 ms or more follows, with the processor slowed down four times; the median of five openings in a window
that has kept nothing. Memory is the heap after a collection, behind 100 and behind 500 questions of one conversation
each. The graph has 20,000 entities and 40,000 relations; its body is made in the browser, so that only the page is
measured. The mouse goes round in sweeps of 900 by 600 pixels for four seconds, once while the entities are arranged and
once afterwards; a frame is one that the browser shows. Needs `chromium`, `chromedriver` and `selenium`.
"""

from __future__ import annotations

import gzip
import json
import re
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from tests.browser.browser import start_browser
from tests.browser.test_page_under_strain import ASK_MANY
from tests.serving import ANSWER, serving

import heliograph.server
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from benchmarks.served import served
from heliograph.testing.fakes import FakeChatModel

__all__ = ["TITLE", "run"]

TITLE = "The page in a browser"

_LEAST_FRAMES = 30.0
_MOST_SECONDS = 3.0
_MOST_BYTES = 250_000
_MOST_INTERACTIVE_SECONDS = 1.5
_MOST_GROWTH_BYTES = 4_000_000
_MOST_FIRST_SECONDS = 60.0
_SLOWDOWN = 4
_OPENINGS = 5
_AT_ONCE = 20
_PAGE = Path(heliograph.server.__file__).parent / "page"
# Notes when a question can be typed, and when the last long task ended.
_WATCH = """
window.interactive = { typed: 0, busy: 0 };
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) window.interactive.busy = task.startTime + task.duration;
}).observe({ type: "longtask", buffered: true });
const look = () => {
  const field = document.getElementById("question");
  if (!field) return requestAnimationFrame(look);
  window.interactive.typed = performance.now();
};
requestAnimationFrame(look);
"""
# Answers for the graph with a body that is made already, so that only the page is measured.
_GIVE_GRAPH = """
(() => {
  const [real, body] = [window.fetch, %s];
  const headers = { "Content-Type": "application/json" };
  window.fetch = async (at, how) =>
    String(at).includes("api/v1/graph") ? new Response(body, { headers }) : real(at, how);
})();
"""
_DRAG = """
const [forMs, done] = arguments;
const canvas = document.querySelector(".sigma-mouse");
const { left, top, width, height } = canvas.getBoundingClientRect();
const [x, y] = [left + width / 2, top + height / 2];
const mouse = (kind, clientX, clientY) =>
  canvas.dispatchEvent(new MouseEvent(kind, { bubbles: true, clientX, clientY, button: 0 }));
mouse("mousedown", x, y);
const start = performance.now();
let frames = 0;
const step = () => {
  const passed = performance.now() - start;
  frames += 1;
  mouse("mousemove", x + 450 * Math.sin(passed / 300), y + 300 * Math.sin(passed / 430));
  if (passed < forMs) return requestAnimationFrame(step);
  mouse("mouseup", x, y);
  return done((1000 * frames) / passed);
};
requestAnimationFrame(step);
"""


def run(options: Options) -> Findings:
    """Measure in one window of 1280 by 900 pixels."""
    count, questions = (2_000, 20) if options.quick else (20_000, 100)
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "kb") as serve:
        address = f"{serve(FakeChatModel(ANSWER))}/page/"
        browser = start_browser(Path(folder) / "profile")
        try:
            browser.size(1280, 900)
            interactive = median(_open_slowly(browser, address) for _ in range(_OPENINGS))
            early, late = _ask(browser, address, questions)
            drawn, meanwhile, after = _draw(browser, address, count)
            cited, read = _begin(browser, Path(folder))
        finally:
            browser.quit()
    return Findings(
        (
            Figure("first load, compressed", _first_load_bytes(), "B", at_most=_MOST_BYTES),
            Figure("interactive, 4 times slowed", interactive, "s", at_most=_MOST_INTERACTIVE_SECONDS),
            Figure("heap growth behind five times the questions", late - early, "B", at_most=_MOST_GROWTH_BYTES),
            Figure("graph opened until drawn", drawn, "s", at_most=_MOST_SECONDS),
            Figure("dragged while arranged", meanwhile, "frames/s", at_least=_LEAST_FRAMES),
            Figure("dragged afterwards", after, "frames/s", at_least=_LEAST_FRAMES),
            Figure("empty workspace until a cited answer", cited, "s", at_most=_MOST_FIRST_SECONDS),
            Figure("empty workspace until all samples are read", read, "s"),
        ),
        (f"{count:,} entities, {2 * count:,} relations; {5 * questions} questions, a heap of {late / 1e6:.1f} MB.",),
    )


def _first_load_bytes() -> int:
    index = _PAGE / "index.html"
    named = re.findall(r'(?:src|href)="([^"]+)"', index.read_text("utf-8"))
    return sum(len(gzip.compress(path.read_bytes())) for path in (index, *(_PAGE / name for name in named)))


def _open_slowly(browser: Any, address: str) -> float:
    driver = browser.driver
    watch = driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _WATCH})
    driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    driver.execute_cdp_cmd("Emulation.setCPUThrottlingRate", {"rate": _SLOWDOWN})
    try:
        browser.open(address)
        browser.find("#question")
        time.sleep(1)  # long tasks that are still to come count as well
        noted = browser.script("return window.interactive")
    finally:
        driver.execute_cdp_cmd("Emulation.setCPUThrottlingRate", {"rate": 1})
        driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", watch)
    return max(noted.values()) / 1000


def _ask(browser: Any, address: str, count: int) -> tuple[float, float]:
    """Ask five times so many questions; return the bytes of the heap behind the first and the last of the rounds."""
    browser.open(address)
    browser.find("#question")
    browser.driver.set_script_timeout(600)
    used: list[float] = []
    for _ in range(5):
        # So few at once that the driver does not give up where the machine is busy.
        for _ in range(count // _AT_ONCE):
            browser.driver.execute_async_script(ASK_MANY, _AT_ONCE)
        browser.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        used.append(browser.driver.execute_cdp_cmd("Runtime.getHeapUsage", {})["usedSize"])
    return used[0], used[-1]


def _large_graph(count: int) -> dict[str, Any]:
    """Return a graph in groups of 200 entities, with relations between groups that lead to some more often."""
    random = Random(1)
    degrees = [0] * count
    sources, targets = list[int](), list[int]()
    while len(sources) < 2 * count:
        one = random.randrange(count)
        near = one // 200 * 200 + random.randrange(200)
        other = min(count - 1, near if random.random() < 0.8 else int(random.random() ** 3 * count))
        if one != other:
            sources.append(one)
            targets.append(other)
            degrees[one] += 1
            degrees[other] += 1
    return {
        "types": ["person", "concept", "location", "organization", "artifact"],
        "nodes": {
            "name": [f"Entity {number}" for number in range(count)],
            "type": [number % 5 for number in range(count)],
            "degree": degrees,
            "created_at": list(range(count)),
            "dated_at": list(range(count)),
        },
        "edges": {"source": sources, "target": targets, "weight": [1] * len(sources)},
        "is_truncated": False,
    }


def _draw(browser: Any, address: str, count: int) -> tuple[float, float, float]:
    script = _GIVE_GRAPH % json.dumps(json.dumps(_large_graph(count)))
    browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
    browser.open("about:blank")
    browser.driver.set_script_timeout(60)
    start = time.monotonic()
    browser.open(f"{address}#/graph")
    browser.find(".sigma[data-drawn=true]")
    drawn = time.monotonic() - start
    browser.find(".sigma[data-arranging=true]")
    meanwhile = browser.driver.execute_async_script(_DRAG, 4_000)
    browser.find(".sigma[data-arranging=false]")
    return drawn, meanwhile, browser.driver.execute_async_script(_DRAG, 4_000)


def _begin(browser: Any, folder: Path) -> tuple[float, float]:
    """Return the seconds from the click on the samples to the first cited answer, and until all of them are read."""
    with served(folder / "first", embedding={"cache_dir": str(folder / "cache")}) as server:
        browser.open(f"{server.address}/page/")
        samples = browser.find("//button[contains(., 'sample documents')]")
        start = time.monotonic()
        samples.click()
        browser.find(".examples button").click()
        browser.find(".answer .cite")
        cited = time.monotonic() - start
        browser.find("//nav//a[contains(., 'Documents')]").click()
        browser.find("#list")
        browser.wait(lambda: not browser.all("#work") or None, "the end of reading")
        return cited, time.monotonic() - start
