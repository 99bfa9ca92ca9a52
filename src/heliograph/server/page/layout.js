// Places for the nodes of a small graph: all push one another away, relations pull, and heat falls step by step.
const LENGTH = 90, PUSH = 6000, PULL = 0.04, CENTRE = 0.012;

export function place(nodes, around) {
  nodes.forEach((node, index) => {
    if (node.x !== undefined) return;
    const angle = index * 2.39996, radius = 30 + 8 * Math.sqrt(index);
    node.x = (around?.x ?? 0) + radius * Math.cos(angle);
    node.y = (around?.y ?? 0) + radius * Math.sin(angle);
  });
}

export function step(nodes, edges, heat) {
  for (const node of nodes) [node.dx, node.dy] = [-node.x * CENTRE, -node.y * CENTRE];
  for (let i = 0; i < nodes.length; i++) {
    for (let j = i + 1; j < nodes.length; j++) push(nodes[i], nodes[j]);
  }
  for (const { source, target } of edges) {
    const x = target.x - source.x, y = target.y - source.y, distance = Math.hypot(x, y) || 1;
    const force = PULL * (distance - LENGTH) / distance;
    source.dx += x * force; source.dy += y * force;
    target.dx -= x * force; target.dy -= y * force;
  }
  for (const node of nodes) {
    if (node.held) continue;
    const length = Math.hypot(node.dx, node.dy) || 1, far = Math.min(length, heat);
    node.x += node.dx / length * far;
    node.y += node.dy / length * far;
  }
}

function push(one, other) {
  const x = other.x - one.x || 0.1, y = other.y - one.y || 0.1, square = x * x + y * y;
  if (square > 160000) return;
  const force = PUSH / (square * Math.sqrt(square) + 100);
  one.dx -= x * force; one.dy -= y * force;
  other.dx += x * force; other.dy += y * force;
}
