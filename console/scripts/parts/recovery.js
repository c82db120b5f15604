// Sends what failed in a period again, and shows how far that is.

import { html, useState } from "../../vendor/preact.js";
import { call } from "../api.js";
import { formatNoun, formatTime } from "../format.js";
import { useLoad } from "../load.js";
import { Ask } from "./dialog.js";
import { Trouble } from "./notices.js";

const DAY_MS = 86_400_000;
const PROGRESS_MS = 2_000;

/** @typedef {import("../types.js").Recovery} Recovery */

/**
 * @param {object} props
 * @param {string} props.path of the subscription
 * @param {[string | null, string | null]} props.period that the form begins with; null: since yesterday, until now
 * @param {boolean} props.disabled
 * @param {() => void} props.onDone
 */
export function RecoverButton({ path, period: [from, to], disabled, onDone }) {
  const [began, setBegan] = useState(/** @type {Recovery | null} */ (null));
  const [times, setTimes] = useState(/** @type {{ since: string, until: string } | null} */ (null));
  const { since, until } = times ?? { since: toLocalInput(from ? Date.parse(from) : Date.now() - DAY_MS), until: to && Date.parse(to) < Date.now() ? toLocalInput(Date.parse(to)) : "" };
  async function recover() {
    const body = { since: new Date(since).toISOString(), ...(until ? { until: new Date(until).toISOString() } : {}) };
    setBegan(await call("POST", `${path}/recoveries`, { body }));
    setTimes(null);
  }
  const read = (/** @type {Event} */ event) => /** @type {HTMLInputElement} */ (event.target).value;
  return html`<${Ask} label="Recover a period" disabled=${disabled} question="Send each failed or canceled delivery of a period again? Each is sent once, oldest first." act=${recover}>
      <p class="actions">
        <label>Since <input type="datetime-local" required value=${since} onInput=${(/** @type {Event} */ event) => setTimes({ since: read(event), until })} /></label>
        <label>Until <input type="datetime-local" value=${until} onInput=${(/** @type {Event} */ event) => setTimes({ since, until: read(event) })} /></label>
      </p>
      <p class="hint">The deliveries that were made in this time. Without an end, until now.</p>
    <//>
    ${began && html`<${RecoveryProgress} key=${began.id} path=${path} began=${began} onDone=${onDone} />`}`;
}

/** @param {{ path: string, began: Recovery, onDone: () => void }} props */
function RecoveryProgress({ path, began, onDone }) {
  const [ended, setEnded] = useState(/** @type {Recovery | null} */ (null));
  const recovery = useLoad(
    async (signal) => {
      const found = /** @type {Recovery} */ (await call("GET", `${path}/recoveries/${began.id}`, { signal }));
      if (found.status === "completed") {
        setEnded(found);
        onDone();
      }
      return found;
    },
    [began.id, ended !== null],
    ended ? {} : { every: PROGRESS_MS },
  );
  const shown = ended ?? recovery.value ?? began;
  const count = formatNoun(shown.recovered, "failed delivery", "failed deliveries");
  const period = `made between ${formatTime(shown.since)} and ${formatTime(shown.until)}`;
  return html`<${Trouble} error=${recovery.error} /><p role="status">${shown.status === "completed" ? `Recovery done: ${count}, ${period}, sent again.` : `Recovering what was ${period}: ${count} so far …`}</p>`;
}

/**
 * @param {number} ms since 1970
 * @returns {string} as a field for a time has it, in the user's time zone
 */
function toLocalInput(ms) {
  return new Date(ms - 60_000 * new Date(ms).getTimezoneOffset()).toISOString().slice(0, 16);
}
