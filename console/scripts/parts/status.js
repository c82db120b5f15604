// The state of something as a word in a colour.

import { html } from "../../vendor/preact.js";

/** @type {Record<string, string>} */
const TONES = {
  ...{ queued: "quiet", processing: "busy", canceling: "busy", succeeded: "good", failed: "bad" },
  ...{ canceled: "quiet", expired: "warn", pending: "busy", exhausted: "bad", enabled: "good", disabled: "bad", failing: "bad" },
  ...{ ready: "good", away: "bad", paused: "warn", running: "busy", validating: "busy", in_progress: "busy", finalizing: "busy", cancelling: "busy", cancelled: "quiet", completed: "good", skipped: "quiet", none: "quiet", waiting: "quiet" },
  ...{ loading: "busy", draining: "warn", absent: "quiet" },
};

/** @param {{ of: string, title?: string }} props */
export function StatusBadge({ of, title }) {
  return html`<span class="badge ${TONES[of] ?? "quiet"}" title=${title}>${of.replaceAll("_", " ")}</span>`;
}
