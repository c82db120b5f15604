// Server-sent events. EventSource cannot send a key, so this reads the stream with fetch.

import { ApiError, send } from "./api.js";
import { readJson } from "./exact_json.js";

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;

/**
 * @typedef {object} ServerEvent
 * @property {string} id
 * @property {string} type
 * @property {any} data
 */

/**
 * Read a stream of events until it ends, and again whenever it breaks. It goes on after the last event. A hidden tab
 * has no stream, because browsers open only six connections to a server without HTTP/2.
 * @param {string} path
 * @param {object} options
 * @param {(event: ServerEvent) => void} options.onEvent
 * @param {AbortSignal} options.signal ends it
 * @param {(live: boolean) => void} [options.onState] whether the stream is open
 * @param {() => void} [options.onGap] called when it opens late or again, and has no event to go on after
 * @param {boolean} [options.endless] whether an end of the stream is an interruption
 */
export async function follow(path, { onEvent, signal, onState = () => {}, onGap = () => {}, endless = false }) {
  let lastId = "";
  let late = document.hidden;
  let pause = FIRST_PAUSE_MS;
  while (!signal.aborted) {
    const shown = watchVisibility(signal);
    try {
      await shown.begin;
      if (signal.aborted) return;
      /** @type {Record<string, string>} */
      const headers = { Accept: "text/event-stream" };
      if (lastId) headers["Last-Event-ID"] = lastId;
      const response = await send("GET", path, { headers, signal: shown.signal });
      if (response.status === 204) return;
      onState(true);
      if (late && !lastId) onGap();
      for await (const event of readEvents(response)) {
        lastId = event.id || lastId;
        pause = FIRST_PAUSE_MS;
        onEvent(event);
      }
      if (!endless) return;
    } catch (error) {
      if (signal.aborted) return;
      if (shown.signal.aborted) continue;
      if (error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429) return;
    } finally {
      late = true;
      shown.end();
      onState(false);
    }
    await sleep(pause, signal);
    pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
  }
}

/**
 * @param {AbortSignal} signal
 * @returns {{ begin: Promise<void>, signal: AbortSignal, end: () => void }} `begin` resolves once the tab is visible;
 *   the signal is aborted when it is hidden after that, and when the given one is aborted
 */
function watchVisibility(signal) {
  const shown = new AbortController();
  let began = () => {};
  const begin = /** @type {Promise<void>} */ (new Promise((resolve) => (began = () => resolve())));
  function onChange() {
    if (signal.aborted || (document.hidden && seen)) shown.abort();
    if (document.hidden && !signal.aborted) return;
    seen = true;
    began();
  }
  let seen = false;
  document.addEventListener("visibilitychange", onChange);
  signal.addEventListener("abort", onChange);
  onChange();
  const end = () => {
    document.removeEventListener("visibilitychange", onChange);
    signal.removeEventListener("abort", onChange);
  };
  return { begin, signal: shown.signal, end };
}

/**
 * @param {Response} response
 * @returns {AsyncGenerator<ServerEvent>}
 */
export async function* readEvents(response) {
  for await (const block of readBlocks(response)) {
    const event = parseEvent(block);
    if (event) yield event;
  }
}

/**
 * @param {Response} response
 * @returns {AsyncGenerator<string>} the lines of each event
 */
export async function* readBlocks(response) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
      const blocks = text.split("\n\n");
      text = /** @type {string} */ (blocks.pop());
      yield* blocks;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * @param {string} block the lines of one event
 * @returns {ServerEvent | null} null for a comment
 */
export function parseEvent(block) {
  let [id, type, data] = ["", "message", ""];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (line.startsWith("id:")) id = value;
    if (line.startsWith("event:")) type = value;
    if (line.startsWith("data:")) data += value;
  }
  return data ? { id, type, data: readJson(data) } : null;
}

/**
 * @param {number} ms
 * @param {AbortSignal} signal
 * @returns {Promise<void>} resolved early when the signal is aborted
 */
export function sleep(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(finish, ms);
    function finish() {
      clearTimeout(timer);
      signal.removeEventListener("abort", finish);
      resolve();
    }
    signal.addEventListener("abort", finish);
  });
}
