// A choice of a day.

import { html } from "../../vendor/preact.js";

const DAY_MS = 86_400_000;

/**
 * @param {string | null} day "today", "yesterday", or a date such as "2026-11-23", in the user's time zone
 * @returns {[string | null, string | null]} its beginning and its end; null without a bound
 */
export function readDay(day) {
  if (!day) return [null, null];
  const today = new Date();
  today.setHours(0, 0, 0, 0);
  const begin = day === "today" ? today : day === "yesterday" ? new Date(today.getTime() - DAY_MS) : new Date(`${day}T00:00:00`);
  if (Number.isNaN(begin.getTime())) return [null, null];
  begin.setHours(0, 0, 0, 0);
  const end = new Date(begin.getTime() + 1.5 * DAY_MS); // a day of a change of the clock has 23 or 25 hours
  end.setHours(0, 0, 0, 0);
  return [begin.toISOString(), end.toISOString()];
}

/** @param {{ value: string, onChange: (day: string) => void }} props */
export function DayFilter({ value, onChange }) {
  const named = ["", "today", "yesterday"].includes(value);
  const read = (/** @type {Event} */ event) => onChange(/** @type {HTMLInputElement} */ (event.target).value);
  return html`<label>Day
      <select value=${named ? value : "date"} onChange=${read}>
        <option value="">Any</option>
        <option value="today">Today</option>
        <option value="yesterday">Yesterday</option>
        ${!named && html`<option value="date">${value}</option>`}
      </select>
    </label>
    <label>Date <input type="date" value=${named ? "" : value} onChange=${read} /></label>`;
}
