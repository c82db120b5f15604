// A chart of the last hour: a bar for each minute.

import { html } from "../../vendor/preact.js";
import { formatAge, formatCount, formatTime } from "../format.js";

const MINUTES = 60;
const HEIGHT = 40;
const GAP = 0.2; // between bars, as a part of a minute

/**
 * @typedef {object} Bar
 * @property {string} at when the minute began
 * @property {number} count
 */

/**
 * Return where the bars are, in a box of 60 by 40. The last minute is at the right. Pure.
 * @param {number[]} counts
 * @returns {{ x: number, y: number, height: number }[]}
 */
export function placeBars(counts) {
  const most = Math.max(1, ...counts);
  return counts.map((count, place) => {
    const height = (HEIGHT * count) / most;
    return { x: MINUTES - counts.length + place, y: HEIGHT - height, height };
  });
}

/**
 * Return what the chart shows in words. Pure.
 * @param {Bar[]} bars
 * @returns {string} such as "at most 12, at 14:05"
 */
export function describePeak(bars) {
  const peak = bars.reduce((best, bar) => (bar.count > best.count ? bar : best), { at: "", count: 0 });
  return peak.count ? `at most ${formatCount(peak.count)}, at ${formatTime(peak.at).slice(11, 16)}` : "none";
}

/**
 * @param {object} props
 * @param {Bar[] | null} props.bars oldest first, at most 60; null before they are known
 * @param {string} props.tone how the bars look: "waited", "ran", "done" or "failed"
 */
export function HourChart({ bars, tone }) {
  const places = placeBars((bars ?? []).map((bar) => bar.count));
  const begin = bars?.length ? formatAge(bars[0].at, Date.parse(bars[bars.length - 1].at) + 60_000) : "";
  return html`<svg class="hour ${tone}" viewBox="0 0 ${MINUTES} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true">
      ${(bars ?? []).map((bar, place) => html`<g key=${bar.at}>
        <title>${`${formatTime(bar.at).slice(11, 16)}: ${formatCount(bar.count)}`}</title>
        <rect class="minute" x=${places[place].x} y="0" width="1" height=${HEIGHT} />
        <rect x=${places[place].x + GAP / 2} y=${places[place].y} width=${1 - GAP} height=${places[place].height} />
      </g>`)}
    </svg>
    <span class="axis"><small>${begin}</small><small>${bars && describePeak(bars)}</small><small>${begin && "now"}</small></span>`;
}
