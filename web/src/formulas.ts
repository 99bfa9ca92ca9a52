// Formulas, set by KaTeX; as elements and not as text, since the page allows no styles in markup.
import katex from "katex";
import "katex/dist/katex.min.css";

export function typeset(node: HTMLElement) {
  const tex = node.textContent ?? "";
  katex.render(tex, node, { displayMode: node.classList.contains("math-block"), throwOnError: false, trust: false, maxExpand: 200 });
}
