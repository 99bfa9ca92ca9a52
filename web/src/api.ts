// Speaks to the service: credentials, workspace, failures told by their `detail`, streams line by line.
import type { Schemas } from "./api-types";
import { failureText } from "./service-words";
import { t } from "./words";

const BASE = new URL("../", document.baseURI);

function kept(name: string) {
  return {
    get: () => sessionStorage.getItem(name) ?? "",
    set: (value: string) => (value ? sessionStorage.setItem(name, value) : sessionStorage.removeItem(name)),
  };
}

const token = kept("heliograph-token");
const key = kept("heliograph-key");
const workspace = kept("heliograph-workspace");

// In a frame of LightRAG's page, which only this service's may be, what people gave that page serves here as well.
if (window.top !== window) {
  token.set(localStorage.getItem("LIGHTRAG-API-TOKEN") ?? "");
  const settings = localStorage.getItem("settings-storage");
  key.set(settings ? (JSON.parse(settings) as { state?: { apiKey?: string | null } }).state?.apiKey ?? "" : "");
}

/** Credentials and workspace, kept for as long as the tab. */
export const session = {
  get token() { return token.get(); },
  set token(value: string) { token.set(value); },
  get key() { return key.get(); },
  set key(value: string) { key.set(value); },
  get workspace() { return workspace.get(); },
  set workspace(value: string) { workspace.set(value); },
  get isKnown() { return Boolean(token.get() || key.get()); },
  forget() { token.set(""); key.set(""); },
};

/** What the service refused or could not do; status 0 where it was not reached. */
export class Failure extends Error {
  constructor(readonly status: number, detail: string, readonly kind = "") {
    super(detail);
  }
}

export const isAbort = (error: unknown) => error instanceof DOMException && error.name === "AbortError";

type Value = string | number | boolean;
export interface Options {
  query?: Record<string, Value | readonly Value[] | null | undefined>;
  body?: unknown;
  form?: FormData | URLSearchParams;
  signal?: AbortSignal;
  /** Whether the request is about a workspace; which, where it is not the one that is open. */
  place?: boolean | string;
}

export const addressOf = (path: string) => new URL(path, BASE);

export function headersFor(place: boolean | string): Record<string, string> {
  const headers: Record<string, string> = {};
  if (session.token) headers.Authorization = `Bearer ${session.token}`;
  if (session.key) headers["X-API-Key"] = session.key;
  const name = place === true ? session.workspace : place;
  if (name) headers["X-Heliograph-Workspace"] = encodeURIComponent(name);
  return headers;
}

/** Sends a request with the credentials; returns its response, good or bad. */
export async function ask(method: string, path: string, options: Options = {}): Promise<Response> {
  const { query, body, form, signal, place = true } = options;
  const url = addressOf(path);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value === null || value === undefined) continue;
    for (const one of [value].flat() as Value[]) url.searchParams.append(name, String(one));
  }
  const headers = headersFor(place);
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(url, {
      method, headers, signal: signal ?? null, credentials: "omit",
      body: form ?? (body === undefined ? null : JSON.stringify(body)),
    });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new Failure(0, t("unreachable"));
  }
  const renewed = response.headers.get("X-New-Token");
  if (renewed && session.token) session.token = renewed;
  return response;
}

/** Sends a file and tells how much of it has left; `fetch` cannot. */
export function upload<T>(path: string, form: FormData, told: (share: number) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", addressOf(path));
    for (const [name, value] of Object.entries(headersFor(true))) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => event.lengthComputable && told(event.loaded / event.total);
    request.onerror = () => reject(new Failure(0, t("unreachable")));
    request.onload = () => {
      const response = new Response(request.responseText, { status: request.status, statusText: request.statusText });
      if (response.ok) response.json().then((value) => resolve(value as T), reject);
      else failure(response).then(reject, reject);
    };
    request.send(form);
  });
}

interface Problem { detail?: string | { loc?: (string | number)[]; msg: string }[]; type?: string }

async function failure(response: Response): Promise<Failure> {
  const problem = (await response.json().catch(() => ({}))) as Problem;
  const detail = Array.isArray(problem.detail)
    ? problem.detail.map((item) => `${(item.loc ?? []).slice(1).join(".")}: ${item.msg}`).join("; ")
    : problem.detail;
  if (response.status === 401) dispatchEvent(new Event("login-needed"));
  return new Failure(response.status, failureText(problem.type ?? "", detail || `${response.status} ${response.statusText}`), problem.type);
}

async function send(method: string, path: string, options?: Options): Promise<Response> {
  const response = await ask(method, path, options);
  if (!response.ok) throw await failure(response);
  return response;
}

export async function call<T>(method: string, path: string, options?: Options): Promise<T> {
  return (await (await send(method, path, options)).json()) as T;
}
export const get = <T>(path: string, query?: Options["query"], options?: Options) =>
  call<T>("GET", path, { ...options, ...(query ? { query } : {}) });
export const post = <T>(path: string, body?: unknown, options?: Options) => call<T>("POST", path, { ...options, body });

async function lines(response: Response, onLine: (line: string) => void) {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const whole = (rest + (value ?? "")).split("\n");
    rest = done ? "" : whole.pop()!;
    for (const line of whole) if (line.trim()) onLine(line);
    if (done) return;
  }
}

/** Posts a question and hands each line of JSON over as it comes. */
export async function stream<T>(path: string, body: unknown, onLine: (line: T) => void, signal: AbortSignal) {
  await lines(await send("POST", path, { body, signal }), (line) => onLine(JSON.parse(line) as T));
}

/** What is under way in a workspace, as `/api/v1/events` tells it. */
export interface Work { documents: Record<string, number>; jobs: Schemas["JobResponse"][]; latest: Schemas["JobResponse"] | null }

const AGAIN_MS = 2000;
const POLL_MS = 3000;

/**
 * Tells of the work in the workspace now and whenever it changes, until told to stop; not while the page is hidden.
 * Where the stream of events is refused or held back by a proxy, `onPoll` is called at intervals instead.
 */
export function follow(onWork: (work: Work) => void, onPoll: () => void): () => void {
  let control: AbortController | null = null;
  let timer = 0;
  let isOver = false;
  const run = async () => {
    clearTimeout(timer);
    if (isOver || control || document.hidden) return;
    const now = new AbortController();
    control = now;
    let hasCome = false;
    // A proxy that collects the whole before it sends any of it would stay silent for good.
    const silence = window.setTimeout(() => { if (!hasCome) now.abort(); }, POLL_MS);
    try {
      await lines(await send("GET", "api/v1/events", { signal: now.signal }), (line) => {
        hasCome = true;
        if (line.startsWith("data: ") && !isOver) {
          const told = JSON.parse(line.slice(6)) as Partial<Work>;
          if (told.jobs && told.documents) onWork(told as Work);
        }
      });
    } catch {
      // Whatever it was, asking again tells of it.
    }
    clearTimeout(silence);
    control = null;
    if (isOver || document.hidden) return;
    if (!hasCome) onPoll();
    timer = window.setTimeout(() => void run(), hasCome ? AGAIN_MS : POLL_MS);
  };
  const wake = () => { if (document.hidden) control?.abort(); else void run(); };
  document.addEventListener("visibilitychange", wake);
  void run();
  return () => { isOver = true; clearTimeout(timer); control?.abort(); document.removeEventListener("visibilitychange", wake); };
}
