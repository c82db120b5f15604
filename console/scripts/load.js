// Reading from the API within a part of a page.

import { useEffect, useRef, useState } from "../vendor/preact.js";
import { isTransient } from "./api.js";
import { writeJson } from "./exact_json.js";
import { onTenantEvent } from "./live.js";

const SHORTEST_MS = 2_000; // between two reads of the same thing
const LONGEST_MS = 30_000; // while it stays the same
const RETRY_MS = 5_000; // after an error that passes by itself
const FOLLOW_UP_MS = 10_000; // between the reads that follow the one for an event
const FOLLOW_UPS = 3; // shared counts may be 30 seconds older than the event

/**
 * @template T
 * @typedef {object} Loaded
 * @property {T | null} value what was read last; null before the first answer
 * @property {Error | null} error of the last read
 * @property {boolean} loading
 * @property {() => void} reload at once
 * @property {() => void} reloadSoon two seconds after the last read
 */

/**
 * Read something, and again when `inputs` change.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} read
 * @param {readonly unknown[]} inputs
 * @param {{ every?: number, live?: boolean | ((event: import("./stream.js").ServerEvent) => boolean) }} [options] `every`: also
 *   again after so many ms while the tab is visible, and after longer and longer while nothing changes. `live`: also after
 *   each event of the tenant, or each that it takes, and when events may have been missed. That is at most once in two
 *   seconds, and ten, twenty and thirty seconds later.
 * @returns {Loaded<T>}
 */
export function useLoad(read, inputs, options = {}) {
  const { every = 0, live = false } = options;
  const key = JSON.stringify(inputs);
  const [state, setState] = useState(/** @type {{ key: string, value: T | null, error: Error | null, loading: boolean }} */ ({ key, value: null, error: null, loading: true }));
  const reload = useRef(() => {});
  const reloadSoon = useRef(() => {});
  useEffect(() => {
    const ended = new AbortController();
    let [running, again, last, stirred] = [false, false, 0, 0];
    let [pause, present] = [every, ""];
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    async function run() {
      clearTimeout(timer);
      if (running) {
        again = true;
        return;
      }
      [running, again, last] = [true, false, Date.now()];
      setState((before) => ({ ...(before.key === key ? before : { value: null, error: null }), key, loading: true }));
      try {
        const value = await read(ended.signal);
        const text = every ? writeJson(value) : "";
        pause = every && text === present ? Math.max(every, Math.min(2 * pause, LONGEST_MS)) : every;
        present = text;
        if (!ended.signal.aborted) setState({ key, value, error: null, loading: false });
      } catch (error) {
        pause = isTransient(error) ? Math.min(every || RETRY_MS, RETRY_MS) : every;
        if (!ended.signal.aborted) setState((before) => ({ ...before, error: /** @type {Error} */ (error), loading: false }));
      }
      running = false;
      if (ended.signal.aborted) return;
      if (again) runSoon();
      else if (pause) {
        timer = setTimeout(runSoon, stirred ? Math.min(pause, FOLLOW_UP_MS) : pause);
        stirred = Math.max(0, stirred - 1);
      }
    }
    function runSoon() {
      if (document.hidden || running) {
        again = true;
        return;
      }
      clearTimeout(timer);
      timer = setTimeout(run, Math.max(0, last + SHORTEST_MS - Date.now()));
    }
    function onVisible() {
      if (!document.hidden && (again || every)) runSoon();
    }
    [reload.current, reloadSoon.current] = [run, runSoon];
    document.addEventListener("visibilitychange", onVisible);
    const takes = typeof live === "function" ? live : () => true;
    function onEvent(/** @type {import("./live.js").FeedEvent} */ event) {
      if (event && !takes(event)) return;
      stirred = FOLLOW_UPS;
      runSoon();
    }
    const stopListening = live ? onTenantEvent(onEvent) : () => {};
    run();
    return () => {
      ended.abort();
      clearTimeout(timer);
      stopListening();
      document.removeEventListener("visibilitychange", onVisible);
    };
  }, [key, every, live]);
  const present = state.key === key ? state : { value: null, error: null, loading: true };
  return { ...present, reload: () => reload.current(), reloadSoon: () => reloadSoon.current() };
}
