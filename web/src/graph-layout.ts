// Arranges a graph in a worker of its own, a slice at a time, so that the page stays quick meanwhile.
import iterate from "graphology-layout-forceatlas2/iterate.js";

export interface LayoutTask { nodes: Float32Array; edges: Float32Array; settings: object; seconds: number; /** How often the page is shown how far it is. */ shownMs: number }

self.onmessage = (event: MessageEvent<LayoutTask>) => {
  const { nodes, edges, settings, seconds, shownMs } = event.data;
  const start = performance.now();
  let isLast = false;
  while (!isLast) {
    const slice = performance.now() + shownMs;
    do iterate(settings, nodes, edges); while (performance.now() < slice);
    const share = (performance.now() - start) / (1000 * seconds);
    isLast = share >= 1;
    self.postMessage({ nodes: nodes.slice(), share, isLast });
  }
};
