// The history of a job as a bar and as a list.

import { html, useState } from "../../vendor/preact.js";
import { formatCount, formatDuration, formatTime } from "../format.js";
import { listEntries, listPhases } from "../timeline.js";
import { useNow } from "./time.js";

const BAR_WIDTH = 1_000; // units of the drawing
// A history of more entries is cut in the middle.
const [MOST, FIRST, LAST] = [40, 5, 25];
const NARROWEST = 4; // so that a short phase can be seen

/**
 * @param {object} props
 * @param {import("../timeline.js").JobEvent[]} props.events
 * @param {import("../timeline.js").Delivery[]} props.deliveries
 * @param {import("../types.js").Attempt[]} props.attempts
 */
export function Timeline({ events, deliveries, attempts }) {
  const phases = listPhases(events, useNow());
  const entries = listEntries(events, deliveries, attempts);
  const began = entries.length ? entries[0].at : 0;
  const [whole, setWhole] = useState(false);
  const hidden = whole || entries.length <= MOST ? 0 : entries.length - FIRST - LAST;
  return html`<${PhaseBar} phases=${phases} />
    <ol class="timeline">
      ${(hidden ? entries.slice(0, FIRST) : entries).map((entry) => html`<${EntryItem} entry=${entry} began=${began} />`)}
      ${hidden > 0 && html`<li><span></span><button type="button" class="small" onClick=${() => setWhole(true)}>Show ${formatCount(hidden)} more</button></li>
        ${entries.slice(-LAST).map((entry) => html`<${EntryItem} entry=${entry} began=${began} />`)}`}
    </ol>`;
}

/** @param {{ entry: import("../timeline.js").Entry, began: number }} props `began` is the time of the first one */
function EntryItem({ entry, began }) {
  const at = new Date(entry.at).toISOString();
  return html`<li class=${entry.tone}>
    <time datetime=${at} title=${formatTime(at)}>+${formatDuration(entry.at - began)}</time>
    <span>${entry.delivery ? html`<a href=${`#${entry.delivery}`} onClick=${openDelivery}>${entry.title}</a>` : entry.title}${entry.detail && html`<small>${entry.detail}</small>`}</span>
  </li>`;
}

/**
 * Go to the delivery that a link of the history names, and open it.
 * @param {MouseEvent} event
 */
function openDelivery(event) {
  event.preventDefault(); // the address names the job
  const link = /** @type {HTMLAnchorElement} */ (event.currentTarget);
  const details = document.querySelector(`${link.hash} details`);
  details?.setAttribute("open", "");
  details?.querySelector("summary")?.focus();
}

/** @param {{ phases: import("../timeline.js").Phase[] }} props */
function PhaseBar({ phases }) {
  if (!phases.length) return null;
  const begin = phases[0].from;
  const whole = Math.max(1, phases[phases.length - 1].to - begin);
  const sum = (/** @type {string} */ kind) =>
    phases.filter((phase) => phase.kind === kind).reduce((total, phase) => total + phase.to - phase.from, 0);
  const text = `Waited ${formatDuration(sum("waited"))}, ran ${formatDuration(sum("ran"))}`;
  return html`<figure class="phases">
    <svg viewBox="0 0 ${BAR_WIDTH} 16" preserveAspectRatio="none" role="img" aria-label=${text}>
      ${phases.map((phase) => html`<rect class=${phase.kind} x=${(BAR_WIDTH * (phase.from - begin)) / whole} y="0" height="16"
        width=${Math.max(NARROWEST, (BAR_WIDTH * (phase.to - phase.from)) / whole)} />`)}
    </svg>
    <figcaption><span class="waited">■</span> waited ${formatDuration(sum("waited"))} <span class="ran">■</span> ran ${formatDuration(sum("ran"))}</figcaption>
  </figure>`;
}
