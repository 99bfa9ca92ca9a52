// Markdown as HTML that cannot do anything: raw HTML stays text, links lead out only by http, pictures are not fetched,
// and the result is sanitized once more. Numbers of citations become buttons; formulas and code are dressed up later.
import DOMPurify from "dompurify";
import { Marked, type TokenizerAndRendererExtension } from "marked";

// Characters of private use, which no text of a document keeps: a citation's place in the text, and a quote's ends.
const AT = "\uE000";
const END = "\uE001";
export const QUOTE_START = "\uE010";
export const QUOTE_END = "\uE011";
const PRIVATE = /[\uE000\uE001\uE010\uE011]/g;
const PLACES = new RegExp(`${AT}\\d+${END}`, "g");

export const escapeHtml = (text: string) =>
  text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

const cite: TokenizerAndRendererExtension = {
  name: "cite",
  level: "inline",
  start: (text) => text.indexOf(AT) < 0 ? undefined : text.lastIndexOf("[", text.indexOf(AT)),
  tokenizer(text) {
    const found = new RegExp(`^\\[(\\d+)\\]${AT}(\\d+)${END}`).exec(text);
    return found ? { type: "cite", raw: found[0], id: found[1], at: found[2] } : undefined;
  },
  renderer: (token) =>
    `<button type="button" class="cite" data-ref="${token.id}" data-at="${token.at}">${token.id}</button>`,
};

function formula(name: string, level: "block" | "inline", start: RegExp, whole: RegExp): TokenizerAndRendererExtension {
  return {
    name,
    level,
    start: (text) => { const found = start.exec(text); return found ? found.index : undefined; },
    tokenizer(text) {
      const found = whole.exec(text);
      const tex = found?.slice(1).find(Boolean);
      return found && tex ? { type: name, raw: found[0], tex: tex.trim() } : undefined;
    },
    renderer: (token) => {
      const tag = level === "block" ? "div" : "span";
      return `<${tag} class="math math-${level}">${escapeHtml(token.tex as string)}</${tag}>`;
    },
  };
}

const isAddress = (href: string) => /^https?:\/\//i.test(href);

const marked = new Marked({
  gfm: true,
  extensions: [
    cite,
    formula("mathBlock", "block", /\$\$|\\\[/, /^(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])(?:\n|$)/),
    formula("mathInline", "inline", /\$|\\\(/, /^(?:\$\$([^$\n]+)\$\$|\$([^\s$](?:[^$\n]*[^\s$])?)\$(?!\d)|\\\(([^\n]+?)\\\))/),
  ],
  renderer: {
    html: (token) => escapeHtml(token.text),
    heading(token) {
      // Below the headings of the page.
      const level = Math.min(6, token.depth + 2);
      return `<h${level}>${this.parser.parseInline(token.tokens)}</h${level}>\n`;
    },
    link(token) {
      if (!isAddress(token.href)) return escapeHtml(token.raw);
      const inner = this.parser.parseInline(token.tokens);
      return `<a href="${escapeHtml(token.href)}" target="_blank" rel="noopener noreferrer nofollow">${inner}</a>`;
    },
    image: (token) => escapeHtml(token.raw),
    code(token) {
      const kind = (token.lang ?? "").split(/\s/)[0] ?? "";
      return `<pre><code data-lang="${escapeHtml(kind)}">${escapeHtml(token.text)}\n</code></pre>\n`;
    },
    checkbox: (token) => (token.checked ? "☑ " : "☐ "),
  },
});

const TAGS = ["a", "b", "blockquote", "br", "button", "code", "del", "div", "em", "h3", "h4", "h5", "h6", "hr", "i", "li", "ol", "p",
  "pre", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul", "s", "sub", "sup"];
const ATTRIBUTES = ["href", "target", "rel", "class", "type", "start", "align", "data-ref", "data-at", "data-lang"];

const clean = (html: string) =>
  DOMPurify.sanitize(html, { ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ATTRIBUTES, ALLOW_DATA_ATTR: false });

/** Renders the Markdown of a document; the marks of a quote may be in it. */
export const renderDocument = (text: string) => clean(marked.parse(text, { async: false }));

/** Renders an answer; `[n]` for a known reference becomes a button that knows its place (in code points). */
export function renderAnswer(text: string, known: ReadonlySet<string>): string {
  const plain = text.replace(PRIVATE, "");
  const placed = plain.replace(/\[(\d+)\]/g, (whole, id: string, at: number) =>
    known.has(id) ? `${whole}${AT}${codePoints(plain, at)}${END}` : whole);
  // A number stays on the line of what it stands for.
  return clean(marked.parse(placed, { async: false }).replace(PLACES, "").replaceAll(' <button type="button" class="cite"', '\u00a0<button type="button" class="cite"'));
}

/** The place in code points, as the service counts, of a place in UTF-16. */
export const codePoints = (text: string, place: number) => {
  let count = place;
  for (let at = 0; at < place; at += 1) {
    const code = text.charCodeAt(at);
    if (code >= 0xd800 && code <= 0xdbff) count -= 1;
  }
  return count;
};

/** The other way round. */
export function utf16(text: string, points: number): number {
  let at = 0;
  for (let count = 0; count < points && at < text.length; count += 1) {
    const code = text.charCodeAt(at);
    at += code >= 0xd800 && code <= 0xdbff ? 2 : 1;
  }
  return at;
}

const LINE_HEAD = /^[ \t]*(?:(?:#{1,6}|[-*+]|\d+[.)]|>)[ \t]+|\|[ \t]*)*/;

/** Puts the marks of a quote into Markdown so that they do not break its structure. */
export function markQuote(text: string, start: number, end: number): string {
  while (start < end && /\s/.test(text[start] ?? "")) start += 1;
  while (end > start && /[\s|]/.test(text[end - 1] ?? "")) end -= 1;
  const lineStart = text.lastIndexOf("\n", start - 1) + 1;
  const head = LINE_HEAD.exec(text.slice(lineStart))![0];
  let from = Math.max(start, lineStart + head.length);
  if (text.startsWith("```", from)) from = text.indexOf("\n", from) + 1 || from;
  if (from >= end) return text;
  return text.slice(0, from) + QUOTE_START + text.slice(from, end) + QUOTE_END + text.slice(end);
}

/** Turns the marks of a quote in rendered text into `mark` elements; returns the first. */
export function showQuote(root: HTMLElement): HTMLElement | null {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const nodes: Text[] = [];
  while (walker.nextNode()) nodes.push(walker.currentNode as Text);
  let inside = false;
  let first: HTMLElement | null = null;
  for (const node of nodes) {
    const parts = node.data.split(/([\uE010\uE011])/);
    if (parts.length === 1 && !inside) continue;
    const made: Node[] = [];
    for (const part of parts) {
      if (part === QUOTE_START || part === QUOTE_END) inside = part === QUOTE_START;
      else if (part && inside && part.trim()) {
        const mark = document.createElement("mark");
        mark.textContent = part;
        first ??= mark;
        made.push(mark);
      } else if (part) made.push(document.createTextNode(part));
    }
    node.replaceWith(...made);
  }
  return first;
}

/** Colours code and sets formulas, by libraries that are read only when a text needs them. */
export async function dress(root: HTMLElement) {
  const codes = [...root.querySelectorAll<HTMLElement>("pre code[data-lang]")].filter((node) => node.dataset.lang);
  const formulas = [...root.querySelectorAll<HTMLElement>(".math")];
  const work: Promise<unknown>[] = [];
  if (codes.length) work.push(import("./highlight").then(({ highlight }) => codes.forEach(highlight)));
  if (formulas.length) work.push(import("./formulas").then(({ typeset }) => formulas.forEach(typeset)));
  await Promise.all(work);
}
