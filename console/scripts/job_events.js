// The events of one job as they come.

import { useEffect, useState } from "../vendor/preact.js";
import { hasEnded } from "./job_states.js";
import { follow } from "./stream.js";

const TOGETHER_MS = 50; // events that come within it are drawn at once: a history has thousands

/** @typedef {{ reload: () => void, reloadSoon: () => void }} Reader */

/**
 * @param {string} id of the job
 * @param {Reader} job reads it again: at once after its end, and soon after other changes
 * @param {number} [round] another one reads the events anew, as after a retry
 * @returns {{ events: import("./timeline.js").JobEvent[], live: boolean }}
 */
export function useJobEvents(id, job, round = 0) {
  const [events, setEvents] = useState(/** @type {import("./timeline.js").JobEvent[]} */ ([]));
  const [live, setLive] = useState(false);
  useEffect(() => {
    const ended = new AbortController();
    /** @type {import("./timeline.js").JobEvent[]} */
    let fresh = [];
    function show() {
      const shown = fresh;
      fresh = [];
      setEvents((before) => [...before, ...shown]);
      const changes = shown.filter((event) => event.type !== "job.output");
      if (changes.some((event) => hasEnded(event.data.status))) job.reload();
      else if (changes.length) job.reloadSoon();
    }
    setEvents([]);
    follow(`/v1/jobs/${encodeURIComponent(id)}/events`, {
      onEvent: ({ data }) => {
        if (fresh.push(data) === 1) setTimeout(() => ended.signal.aborted || show(), TOGETHER_MS);
      },
      onState: setLive,
      signal: ended.signal,
      endless: true,
    });
    return () => ended.abort();
  }, [id, round]);
  return { events, live };
}
