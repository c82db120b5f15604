// One stream of the tenant's events for all parts of the page that are live.

import { follow } from "./stream.js";

/** @typedef {import("./stream.js").ServerEvent | null} FeedEvent null if events may have been missed */

/** @type {Set<(event: FeedEvent) => void>} */
const feedListeners = new Set();

/** @type {AbortController | null} */
let feed = null;

/**
 * Call a function with each new event of the tenant. The stream is open as long as anything listens.
 * @param {(event: FeedEvent) => void} listener
 * @returns {() => void} ends it
 */
export function onTenantEvent(listener) {
  feedListeners.add(listener);
  if (!feed) {
    feed = new AbortController();
    const onEvent = (/** @type {FeedEvent} */ event) => feedListeners.forEach((each) => each(event));
    follow("/v1/events?after=latest", { onEvent, onGap: () => onEvent(null), signal: feed.signal, endless: true });
  }
  return () => {
    feedListeners.delete(listener);
    if (!feedListeners.size) {
      feed?.abort();
      feed = null;
    }
  };
}
