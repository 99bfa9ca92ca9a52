// An answer's Markdown as elements: headings, lists, tables, code, emphasis, and a mark for every [1].
// Raw HTML, links and pictures stay the text that they are, since what a document says must not act.
import { el } from "./dom.js";

const FENCE = /^\s*(`{3,}|~{3,})/, HEADING = /^(#{1,6})\s+(.*)$/, RULE = /^\s*([-*_])(\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/, QUOTE = /^\s*>\s?(.*)$/, BETWEEN = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const INLINE = /`([^`\n]+)`|\*\*(?=\S)([^\n]*?\S)\*\*|(?<![\w*])\*(?=[^\s*])([^*\n]*[^\s*])\*(?![\w*])|\[(\d+)\]/g;

// Returns nodes; `mark` is given the number and its place in the text, and returns an element or null.
export function render(text, mark) {
  const lines = [];
  for (let at = 0; at <= text.length;) {
    const end = text.indexOf("\n", at), stop = end < 0 ? text.length : end;
    lines.push({ text: text.slice(at, stop), at });
    at = stop + 1;
  }
  const nodes = [];
  let n = 0;
  while (n < lines.length) {
    const [node, next] = block(lines, n, mark);
    if (node) nodes.push(node);
    n = next;
  }
  return nodes;
}

function block(lines, n, mark) {
  const { text, at } = lines[n];
  if (!text.trim()) return [null, n + 1];
  const fence = text.match(FENCE);
  if (fence) return code(lines, n, fence[1]);
  const heading = text.match(HEADING);
  if (heading) return [el("h4", null, inline(heading[2], at + text.length - heading[2].length, mark)), n + 1];
  if (RULE.test(text)) return [el("hr"), n + 1];
  if (ITEM.test(text)) return list(lines, n, mark);
  if (text.includes("|") && BETWEEN.test(lines[n + 1]?.text ?? "") && lines[n + 1].text.includes("|")) return table(lines, n, mark);
  if (QUOTE.test(text)) return run(lines, n, mark, "blockquote", (line) => line.match(QUOTE)?.[1]);
  return run(lines, n, mark, "p", (line, first) => first || !begins(line) ? line : undefined);
}

const begins = (line) => !line.trim() || [FENCE, HEADING, RULE, ITEM, QUOTE].some((form) => form.test(line));

function code(lines, n, fence) {
  let end = n + 1;
  while (end < lines.length && !lines[end].text.trim().startsWith(fence)) end++;
  return [el("pre", null, lines.slice(n + 1, end).map((line) => line.text).join("\n")), end + 1];
}

function run(lines, n, mark, tag, take) {
  const node = el(tag);
  let next = n;
  for (; next < lines.length; next++) {
    const { text, at } = lines[next], said = take(text, next === n);
    if (said === undefined) break;
    if (next > n) node.append("\n");
    node.append(...inline(said, at + text.length - said.length, mark));
  }
  return [node, next];
}

// Items may be apart by empty lines; what is indented below one belongs to it.
function list(lines, n, mark) {
  const [, indent, sign] = lines[n].text.match(ITEM), isNumbered = /\d/.test(sign);
  const node = el(isNumbered ? "ol" : "ul");
  let next = n;
  while (next < lines.length) {
    const { text, at } = lines[next], item = text.match(ITEM);
    if (!text.trim()) {
      const after = lines[next + 1]?.text ?? "";
      if (!ITEM.test(after) && !/^\s{2,}\S/.test(after)) break;
      next += 1;
    } else if (item && item[1].length > indent.length + 1 && node.lastChild) {
      const [below, end] = list(lines, next, mark);
      node.lastChild.append(below);
      next = end;
    } else if (item && item[1].length >= indent.length && /\d/.test(item[2]) === isNumbered) {
      node.append(el("li", isNumbered ? { value: parseInt(item[2], 10) } : null,
        inline(item[3], at + text.length - item[3].length, mark)));
      next += 1;
    } else if (!item && /^\s{2,}\S/.test(text) && node.lastChild) {
      node.lastChild.append("\n", ...inline(text.trim(), at + text.length - text.trimStart().length, mark));
      next += 1;
    } else break;
  }
  return [node, next];
}

function table(lines, n, mark) {
  const row = ({ text, at }, tag) => el("tr", null, cells(text, at).map((cell) => el(tag, null, inline(cell.text, cell.at, mark))));
  let end = n + 2;
  while (end < lines.length && lines[end].text.includes("|")) end++;
  return [el("div", { class: "scroll" }, el("table", null, el("thead", null, row(lines[n], "th")),
    el("tbody", null, lines.slice(n + 2, end).map((line) => row(line, "td"))))), end];
}

function cells(text, at) {
  const found = [];
  let from = text.search(/\S/) + (text.trim().startsWith("|") ? 1 : 0);
  for (const part of text.slice(from).trimEnd().replace(/\|$/, "").split("|")) {
    found.push({ text: part.trim(), at: at + from + part.length - part.trimStart().length });
    from += part.length + 1;
  }
  return found;
}

function inline(text, at, mark) {
  const parts = [];
  let last = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, codeText, strong, weak, id] = match, from = at + match.index;
    let node;
    if (codeText !== undefined) node = el("code", null, codeText);
    else if (strong !== undefined) node = el("strong", null, inline(strong, from + 2, mark));
    else if (weak !== undefined) node = el("em", null, inline(weak, from + 1, mark));
    else node = mark(id, from);
    if (!node) continue;
    parts.push(text.slice(last, match.index), node);
    last = match.index + whole.length;
  }
  parts.push(text.slice(last));
  return parts.filter((part) => part !== "");
}
