// Parts of libraries that bring no types.
declare module "graphology-layout-forceatlas2/iterate.js" {
  export default function iterate(settings: object, nodes: Float32Array, edges: Float32Array): void;
}
declare module "graphology-layout-forceatlas2/helpers.js" {
  import type Graph from "graphology";
  interface Matrices { nodes: Float32Array; edges: Float32Array }
  const helpers: {
    graphToByteArrays(graph: Graph, weight: (edge: string, attributes: object) => number): Matrices;
    assignLayoutChanges(graph: Graph, nodes: Float32Array): void;
  };
  export default helpers;
}
