// Elements made from data. Text is only ever set as text: nothing that comes from a document becomes markup.
import { t } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, String(value));
  }
  node.append(...children.flat().filter((child) => child != null && child !== false));
  return node;
}

export const el = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
export const svg = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);
export const button = (label, onclick, properties) => el("button", { type: "button", onclick, ...properties }, label);
export const field = (label, control) => el("label", null, el("span", null, label), " ", control);

export function notify(text, isBad = false) {
  const notice = document.getElementById("notice");
  notice.textContent = text;
  notice.classList.toggle("bad", isBad);
}

// Runs what a person asked for, and tells what went wrong.
export async function attempt(action) {
  try {
    return await action();
  } catch (error) {
    if (error.name !== "AbortError") notify(error.message, true);
    return undefined;
  }
}

// Opens the one dialog; resolves when it is closed, to the form's data if it was sent, else to null.
export function open(title, content, { send, stays = false } = {}) {
  const dialog = document.getElementById("dialog");
  return new Promise((resolve) => {
    let result = null;
    const form = el("form", { method: "dialog", onsubmit: () => { if (send) result = new FormData(form); } },
      el("h2", { id: "dialog-title" }, title), ...content,
      el("div", { class: "row" },
        send && el("button", { class: "main" }, send),
        !stays && button(send ? t("cancel") : t("close"), () => dialog.close())));
    dialog.replaceChildren(form);
    dialog.setAttribute("aria-labelledby", "dialog-title");
    dialog.oncancel = (event) => { if (stays) event.preventDefault(); };
    dialog.onclose = () => resolve(result);
    if (dialog.open) dialog.close();
    dialog.showModal();
  });
}

// Text with one passage of it marked.
export function marked(text, passage) {
  const at = passage ? text.indexOf(passage) : -1;
  if (at < 0) return [text];
  return [text.slice(0, at), el("mark", null, passage), text.slice(at + passage.length)];
}
