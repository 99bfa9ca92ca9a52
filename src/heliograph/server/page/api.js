// Speaks to the service: credentials, workspace, failures told by their `detail`, streams line by line.
import { t } from "./words.js";

const BASE = new URL("../", document.baseURI);
const TOKEN = "heliograph-token", KEY = "heliograph-key", PLACE = "heliograph-workspace";

export const session = {
  get token() { return sessionStorage.getItem(TOKEN); },
  set token(value) { keep(TOKEN, value); },
  get key() { return sessionStorage.getItem(KEY); },
  set key(value) { keep(KEY, value); },
  get workspace() { return sessionStorage.getItem(PLACE); },
  set workspace(value) { keep(PLACE, value); },
};

function keep(name, value) {
  if (value) sessionStorage.setItem(name, value);
  else sessionStorage.removeItem(name);
}

export class Failure extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

// Sends a request with the credentials; returns its response, good or bad.
export async function ask(method, path, { query, body, form, signal, place = true } = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query ?? {})) for (const one of [value].flat()) url.searchParams.append(name, one);
  const headers = {};
  if (session.token) headers.Authorization = `Bearer ${session.token}`;
  if (session.key) headers["X-API-Key"] = session.key;
  if (place && session.workspace) headers["X-Heliograph-Workspace"] = session.workspace;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const content = form ?? (body === undefined ? undefined : JSON.stringify(body));
  let response;
  try {
    response = await fetch(url, { method, headers, body: content, signal, credentials: "omit" });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Failure(0, t("unreachable"));
  }
  const renewed = response.headers.get("X-New-Token");
  if (renewed && session.token) session.token = renewed;
  return response;
}

async function send(method, path, options) {
  const response = await ask(method, path, options);
  if (!response.ok) throw await failure(response);
  return response;
}

async function failure(response) {
  const problem = await response.json().catch(() => ({}));
  const detail = Array.isArray(problem.detail)
    ? problem.detail.map((item) => `${(item.loc ?? []).slice(1).join(".")}: ${item.msg}`).join("; ")
    : problem.detail;
  if (response.status === 401) dispatchEvent(new Event("login-needed"));
  return new Failure(response.status, detail || `${response.status} ${response.statusText}`);
}

export const call = async (method, path, options) => (await send(method, path, options)).json();
export const get = (path, query, options) => call("GET", path, { query, ...options });
export const post = (path, body, options) => call("POST", path, { body, ...options });

export async function stream(path, body, onLine, signal) {
  const response = await send("POST", path, { body, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : lines.pop();
    for (const line of lines) if (line.trim()) onLine(JSON.parse(line));
    if (done) return;
  }
}
