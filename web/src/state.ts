// What the whole page shares: where it is, who asks, which workspace, language, colours, and what it has to say.
import { computed, effect, signal } from "@preact/signals";
import { get, isAbort, session } from "./api";
import type { Schemas } from "./api-types";
import { language, t } from "./words";

export const VIEWS = ["ask", "documents", "graph", "overview", "api"] as const;
export type View = (typeof VIEWS)[number];

/** The part of the address after `#/`: a view, and what of it is open. */
export interface Route { view: View; rest: string[] }

function readRoute(): Route {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const view = VIEWS.find((one) => one === name) ?? "ask";
  return { view, rest: rest.filter(Boolean) };
}

export const route = signal(readRoute());
addEventListener("hashchange", () => { route.value = readRoute(); });

export const linkTo = (view: View, ...rest: string[]) => `#/${[view, ...rest].map(encodeURIComponent).join("/")}`;
export const goTo = (view: View, ...rest: string[]) => { location.hash = linkTo(view, ...rest); };

/** Who asks; null until the service has said so. */
export const me = signal<Schemas["VerifyReply"] | null>(null);
export const canWrite = computed(() => me.value !== null && me.value.role !== "read");
export const isAdmin = computed(() => me.value?.role === "admin");

export const workspaces = signal<Schemas["WorkspaceRow"][]>([]);
export const workspace = signal(session.workspace);

export async function readWorkspaces() {
  const found = await get<Schemas["WorkspaceList"]>("workspaces", undefined, { place: false });
  const names = found.workspaces.map((item) => item.name);
  if (!names.includes(session.workspace)) {
    session.workspace = names.includes(found.default) ? found.default : (names[0] ?? "");
  }
  workspaces.value = found.workspaces;
  workspace.value = session.workspace;
}

export function enterWorkspace(name: string) {
  // What is open belongs to the workspace that is left.
  goTo(route.value.view);
  route.value = readRoute();
  session.workspace = name;
  workspace.value = name;
}

// Colours: those of the system unless somebody chose others.
const THEME = "heliograph-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(dark.matches);
dark.addEventListener("change", () => { systemDark.value = dark.matches; });
const chosenTheme = signal(localStorage.getItem(THEME));
export const isDark = computed(() => (chosenTheme.value ? chosenTheme.value === "dark" : systemDark.value));

export function switchTheme() {
  const wanted = isDark.value ? "light" : "dark";
  const isSystems = (wanted === "dark") === systemDark.value;
  chosenTheme.value = isSystems ? null : wanted;
}

effect(() => {
  const theme = chosenTheme.value;
  if (theme) {
    localStorage.setItem(THEME, theme);
    document.documentElement.dataset.theme = theme;
  } else {
    localStorage.removeItem(THEME);
    delete document.documentElement.dataset.theme;
  }
});

effect(() => { document.documentElement.lang = language.value === "zh" ? "zh-CN" : "en"; });
effect(() => {
  document.title = `${t(route.value.view)} – Heliograph`;
});

// Short messages at the edge of the page; one that can be taken back has a button, a quiet one is for screen readers.
export interface Toast { id: number; text: string; isBad: boolean; isQuiet: boolean; action?: { label: string; run: () => void } }
export const toasts = signal<Toast[]>([]);
let lastToast = 0;

export function dismiss(id: number) { toasts.value = toasts.value.filter((toast) => toast.id !== id); }

export function tell(text: string, options: { isBad?: boolean; isQuiet?: boolean; seconds?: number; action?: Toast["action"] } = {}) {
  const id = ++lastToast;
  const toast: Toast = { id, text, isBad: options.isBad ?? false, isQuiet: options.isQuiet ?? false };
  if (options.action) toast.action = options.action;
  toasts.value = [...toasts.value.filter((one) => one.text !== text), toast].slice(-4);
  const seconds = options.seconds ?? (options.isBad ? 12 : 5);
  setTimeout(() => dismiss(id), 1000 * seconds);
  return id;
}

/** Runs what a person asked for, and tells what went wrong. */
export async function attempt<T>(action: () => Promise<T>): Promise<T | undefined> {
  try {
    return await action();
  } catch (error) {
    if (!isAbort(error)) tell(error instanceof Error ? error.message : String(error), { isBad: true });
    return undefined;
  }
}
