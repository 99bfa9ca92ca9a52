// Arranges a graph in a worker of its own, a slice at a time, so that the page stays quick meanwhile.
import iterate from "graphology-layout-forceatlas2/iterate.js";

export interface LayoutTask { nodes: Float32Array; edges: Float32Array; settings: object; seconds: number; /** How often the page is shown how far it is. */ shownMs: number }

self.onmessage = (event: MessageEvent<LayoutTask>) => {
  const { nodes, edges, settings, seconds, shownMs } = event.data;
  const end = performance.now() + 1000 * seconds;
  let isLast = false;
  while (!isLast) {
    const slice = performance.now() + shownMs;
    do iterate(settings, nodes, edges); while (performance.now() < slice);
    isLast = performance.now() >= end;
    self.postMessage({ nodes: nodes.slice(), isLast });
  }
};
