// Calls of the API. All of them go through `call`.

import { readJson, writeJson } from "./exact_json.js";
import { endSession, readKey } from "./session.js";

const CALL_MS = 30_000;

/** What the API says of a call that failed: a problem as of RFC 9457. */
export class ApiError extends Error {
  /**
   * @param {number} status 0 if there was no answer
   * @param {string} text
   * @param {import("./types.js").FieldError[]} [errors]
   */
  constructor(status, text, errors = []) {
    super(text);
    this.status = status;
    this.errors = errors;
  }
}

/**
 * @param {unknown} error
 * @returns {boolean} whether the same call may succeed later
 */
export function isTransient(error) {
  return error instanceof ApiError && (error.status === 0 || error.status === 429 || error.status >= 500);
}

/**
 * @typedef {object} CallOptions
 * @property {Record<string, string | number | null | undefined>} [query] empty values are left out
 * @property {unknown} [body] sent as JSON, unless it is a Blob or a form
 * @property {Record<string, string>} [headers]
 * @property {AbortSignal} [signal]
 * @property {string} [key] instead of the session's
 * @property {number} [deadline] in ms; 30 seconds by default
 */

/**
 * Call the API. End the session if it no longer takes the key.
 * @param {string} method
 * @param {string} path
 * @param {CallOptions} [options]
 * @returns {Promise<Response>}
 */
export async function send(method, path, options = {}) {
  const { query = {}, body, headers = {}, signal, key = readKey() } = options;
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  /** @type {Record<string, string>} */
  const all = { Authorization: `Bearer ${key}`, ...headers };
  const isJson = body !== undefined && !(body instanceof Blob) && !(body instanceof FormData);
  if (isJson) all["Content-Type"] = "application/json";
  const content = isJson ? writeJson(body) : /** @type {Blob | FormData | undefined} */ (body);
  let response;
  try {
    response = await fetch(given.length ? `${path}?${search}` : path, { method, headers: all, body: content, signal });
  } catch (error) {
    if (signal?.aborted && signal.reason?.name !== "TimeoutError") throw error;
    throw new ApiError(0, "The gateway does not answer. The console tries again; check that the gateway runs.");
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  const text = problem.detail ?? problem.error?.message ?? `The gateway answered ${response.status}.`;
  if (response.status === 401 && key === readKey()) endSession(text);
  throw new ApiError(response.status, text, problem.errors ?? []);
}

/**
 * Call the API, and return what it answers as JSON.
 * @param {string} method
 * @param {string} path
 * @param {CallOptions} [options]
 * @returns {Promise<any>} null without a body
 */
export async function call(method, path, options = {}) {
  const deadline = new AbortController();
  const ms = options.deadline ?? CALL_MS;
  const giveUp = () => deadline.abort(new DOMException("no answer", "TimeoutError"));
  const timer = ms === Infinity ? undefined : setTimeout(giveUp, ms);
  const stop = () => deadline.abort();
  options.signal?.addEventListener("abort", stop);
  try {
    const response = await send(method, path, { ...options, signal: deadline.signal });
    return response.status === 204 ? null : readJson(await response.text());
  } finally {
    clearTimeout(timer);
    options.signal?.removeEventListener("abort", stop);
  }
}
