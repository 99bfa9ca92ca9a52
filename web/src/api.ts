// Speaks to the service: credentials, workspace, failures told by their `detail`, streams line by line.
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
  /** Whether the request is about a workspace. */
  place?: boolean;
}

export const addressOf = (path: string) => new URL(path, BASE);

function headersFor(place: boolean): Record<string, string> {
  const headers: Record<string, string> = {};
  if (session.token) headers.Authorization = `Bearer ${session.token}`;
  if (session.key) headers["X-API-Key"] = session.key;
  if (place && session.workspace) headers["X-Heliograph-Workspace"] = encodeURIComponent(session.workspace);
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
  return new Failure(response.status, detail || `${response.status} ${response.statusText}`, problem.type);
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

/** Posts a question and hands each line of JSON over as it comes. */
export async function stream<T>(path: string, body: unknown, onLine: (line: T) => void, signal: AbortSignal) {
  const response = await send("POST", path, { body, signal });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : lines.pop()!;
    for (const line of lines) if (line.trim()) onLine(JSON.parse(line) as T);
    if (done) return;
  }
}
