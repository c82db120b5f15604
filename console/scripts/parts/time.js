// A time as an age that goes on by itself.

import { html, useEffect, useState } from "../../vendor/preact.js";
import { formatAge, formatTime } from "../format.js";

const TICK_MS = 1_000;

/** @type {Set<(now: number) => void>} */
const tickListeners = new Set();

/** @type {ReturnType<typeof setInterval> | undefined} */
let ticker;

/** @returns {number} ms since 1970, anew every second */
export function useNow() {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    tickListeners.add(setNow);
    ticker ??= setInterval(() => tickListeners.forEach((listener) => listener(Date.now())), TICK_MS);
    return () => {
      tickListeners.delete(setNow);
      if (tickListeners.size) return;
      clearInterval(ticker);
      ticker = undefined;
    };
  }, []);
  return now;
}

/** @param {{ at: string | null | undefined }} props a time as of RFC 3339 */
export function Age({ at }) {
  const now = useNow();
  if (!at) return html`<span class="faint">–</span>`;
  return html`<time datetime=${at} title=${formatTime(at)}>${formatAge(at, now)}</time>`;
}
