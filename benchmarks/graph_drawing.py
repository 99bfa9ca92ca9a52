"""Draws 20,000 entities and 40,000 relations in headless Chromium, by the processor alone, and drags them about.

A service gives the page; its body of the graph is made in the browser, so that only the page is measured. The mouse
goes round in sweeps of 900 by 600 pixels for four seconds, once while the entities are arranged and once afterwards; a
frame is one that the browser shows. Needs `chromium`, `chromedriver` and `selenium`.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from tests.browser.browser import start_browser
from tests.serving import serving

from benchmarks.registry import Options
from benchmarks.report import Figure, Findings

__all__ = ["TITLE", "run"]

TITLE = "Moving a large graph in the page"

_LEAST_FRAMES = 30.0
_MOST_SECONDS = 3.0
_GRAPH = """
(() => {
  const [real, count, kinds] = [window.fetch, %d, ["person", "concept", "location", "organization", "artifact"]];
  let state = 1;
  const random = () => { state = (state * 16807) %% 2147483647; return state / 2147483647; };
  const graph = () => {
    const nodes = { name: [], type: [], degree: new Array(count).fill(0), created_at: [] };
    const edges = { source: [], target: [], weight: [] };
    for (let n = 0; n < count; n += 1) {
      nodes.name.push(`Entity ${n}`); nodes.type.push(n %% 5); nodes.created_at.push(n);
    }
    while (edges.source.length < 2 * count) {
      const one = Math.floor(random() * count);
      const near = Math.floor(one / 200) * 200 + Math.floor(random() * 200);
      const other = Math.min(count - 1, random() < 0.8 ? near : Math.floor(random() ** 3 * count));
      if (one === other) continue;
      edges.source.push(one); edges.target.push(other); edges.weight.push(1);
      nodes.degree[one] += 1; nodes.degree[other] += 1;
    }
    return { types: kinds, nodes, edges, is_truncated: false };
  };
  const headers = { "Content-Type": "application/json" };
  window.fetch = async (at, how) =>
    String(at).includes("api/v1/graph") ? new Response(JSON.stringify(graph()), { headers }) : real(at, how);
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
    count = 2_000 if options.quick else 20_000
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "kb") as serve:
        browser = start_browser(Path(folder) / "profile")
        try:
            drawn, meanwhile, after = _measure(browser, serve(), count)
        finally:
            browser.quit()
    return Findings(
        (
            Figure("opened until drawn", drawn, "s", at_most=_MOST_SECONDS),
            Figure("dragged while arranged", meanwhile, "frames/s", at_least=_LEAST_FRAMES),
            Figure("dragged afterwards", after, "frames/s", at_least=_LEAST_FRAMES),
        ),
        (f"{count:,} entities, {2 * count:,} relations.",),
    )


def _measure(browser: Any, address: str, count: int) -> tuple[float, float, float]:
    browser.size(1280, 900)
    browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _GRAPH % count})
    browser.driver.set_script_timeout(60)
    start = time.monotonic()
    browser.open(f"{address}/page/#/graph")
    browser.find(".sigma[data-drawn=true]")
    drawn = time.monotonic() - start
    browser.find(".sigma[data-arranging=true]")
    meanwhile = browser.driver.execute_async_script(_DRAG, 4_000)
    browser.find(".sigma[data-arranging=false]")
    return drawn, meanwhile, browser.driver.execute_async_script(_DRAG, 4_000)
