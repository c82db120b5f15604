// Why a job waits, how many are ahead of it, and how long until it may start.

import { html } from "../../vendor/preact.js";
import { formatCount, formatDuration, formatTime } from "../format.js";
import { linkTo } from "../navigation.js";
import { useNow } from "./time.js";

/** @type {Record<string, string>} */
const WAIT_ADVICE = {
  triton: "Load the model in Triton, or restart Triton. The job then runs by itself.",
  dispatcher: "Start a dispatcher beside a Triton that has the model. The job then runs by itself.",
  paused: "It runs once an operator ends the pause.",
};

/** @param {{ job: import("../types.js").Job }} props */
export function Waiting({ job }) {
  if (!job.waiting_for) return null;
  const { code, detail } = job.waiting_for; // that of a slot says how many are ahead
  return html`<div class="waiting">
    <p><strong>Waits: ${detail}</strong></p>
    ${code !== "slot" && job.queue_position && html`<p>Position ${formatCount(job.queue_position)} in the queue${job.queue_position === 1 ? ": it is next" : ""}.</p>`}
    ${job.waiting_for.job && html`<p><a href=${linkTo(`/jobs/${job.waiting_for.job}`)}>See that job</a></p>`}
    <${Countdown} to=${job.run_at} />
    ${WAIT_ADVICE[code] && html`<p>${WAIT_ADVICE[code]}</p>`}
  </div>`;
}

/** @param {{ to: string }} props a time as of RFC 3339 */
function Countdown({ to }) {
  const left = Date.parse(to) - useNow();
  if (left <= 0) return null;
  return html`<p>May start in <time datetime=${to} title=${formatTime(to)}>${formatDuration(1_000 * Math.ceil(left / 1_000))}</time>.</p>`;
}
