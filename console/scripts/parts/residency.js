// What Triton holds, and which models it loads next, if the queue decides that.

import { html } from "../../vendor/preact.js";
import { formatAge, formatBytes, formatDuration, formatShare, formatTime } from "../format.js";
import { linkTo } from "../navigation.js";
import { useNow } from "./time.js";

/** @typedef {import("../types.js").Model} Model */
/** @typedef {import("../types.js").Residency} Residency */

/** @param {{ memory: import("../types.js").Memory, models: Model[] }} props */
export function Memory({ memory, models }) {
  const next = models.filter((model) => model.residency?.place).sort((one, other) => (one.residency?.place ?? 0) - (other.residency?.place ?? 0));
  return html`<section class="panel" aria-label="Memory of Triton">
    <h2>Memory of Triton</h2>
    <p id="memory-use" class="memory">Models take ${formatBytes(memory.used)} of ${formatBytes(memory.budget)}, ${formatShare(memory.used / memory.budget)}</p>
    <meter aria-labelledby="memory-use" min="0" max=${memory.budget} value=${memory.used}></meter>
    ${next.length
      ? html`<h3>Loaded next</h3>
          <ol class="next-loads">${next.map((model) => html`<li key=${model.name} value=${model.residency?.place}><a href=${linkTo(`/models/${encodeURIComponent(model.name)}`)}>${model.name}</a> <${Expected} of=${model.residency} />
            <small class="faint">${model.residency?.why}</small></li>`)}</ol>`
      : html`<p class="faint">No job waits for a model that is not loaded.</p>`}
  </section>`;
}

/**
 * When a model can probably run.
 * @param {{ of: Residency }} props
 */
function Expected({ of }) {
  const now = useNow();
  if (!of.expected_at || Date.parse(of.expected_at) <= now) return null;
  return html`<time datetime=${of.expected_at} title=${formatTime(of.expected_at)}>${formatAge(of.expected_at, now)}</time>`;
}

/**
 * The facts of one model.
 * @param {{ of: Residency }} props
 */
export function Facts({ of }) {
  return html`<div><dt>Memory of Triton</dt><dd>${of.memory === null ? "not known yet" : formatBytes(of.memory)}</dd></div>
    ${of.load_seconds !== null && html`<div><dt>A load takes</dt><dd>${formatDuration(1_000 * of.load_seconds)}</dd></div>`}
    ${of.place !== null && html`<div><dt>Next load</dt><dd>number ${of.place} <${Expected} of=${of} /> <small class="faint">${of.why}</small></dd></div>`}`;
}

/**
 * @param {Residency} residency
 * @returns {string} why a model does not run, while no error is known
 */
export function explainAbsence({ state, place }) {
  if (state === "loading") return "Triton is loading it.";
  if (state === "draining") return "It is being unloaded to make room. Its jobs let Triton load it again.";
  return place === null ? "It is not loaded. Triton loads it as soon as jobs wait for it." : "It is not loaded, and jobs wait for it.";
}
