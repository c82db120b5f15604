// A table of rows, each of which leads to a page. `j` and `k` move, `Enter` opens.

import { html, useEffect } from "../../vendor/preact.js";
import { focusLastRow } from "../navigation.js";

/**
 * @typedef {object} Column
 * @property {string} title
 * @property {(row: any) => import("../../vendor/preact.js").Child} cell
 * @property {boolean} [wide] whether it is left out on a narrow screen
 * @property {boolean} [number] whether it is aligned to the right
 */

/**
 * @param {object} props
 * @param {string} props.label what the table lists, for screen readers
 * @param {Column[]} props.columns the first one names the row and is its link
 * @param {any[]} props.rows
 * @param {(row: any) => string} props.idOf
 * @param {(row: any) => string} [props.linkOf] the address of a row's page
 * @param {Set<string>} [props.selected] ids
 * @param {(selected: Set<string>) => void} [props.onSelect] without it, rows cannot be selected
 */
export function List({ label, columns, rows, idOf, linkOf, selected = new Set(), onSelect }) {
  useEffect(focusLastRow, []);
  const ids = rows.map(idOf);
  const all = ids.length > 0 && ids.every((id) => selected.has(id));
  const toggleAll = () => onSelect?.(new Set(all ? [] : ids));
  const toggle = (/** @type {string} */ id) => {
    const next = new Set(selected);
    if (!next.delete(id)) next.add(id);
    onSelect?.(next);
  };
  const classOf = (/** @type {Column} */ column) =>
    [column.wide && "wide", column.number && "number"].filter(Boolean).join(" ") || undefined;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}>
    <table class="list">
      <thead>
        <tr>
          ${onSelect && html`<th class="check"><input type="checkbox" aria-label="Select all" checked=${all} onChange=${toggleAll} /></th>`}
          ${columns.map((column) => html`<th scope="col" class=${classOf(column)}>${column.title}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map((row) => {
          const id = idOf(row);
          return html`<tr key=${id} class=${selected.has(id) ? "selected" : undefined}>
            ${onSelect && html`<td class="check"><input type="checkbox" aria-label=${`Select ${id}`} checked=${selected.has(id)} onChange=${() => toggle(id)} /></td>`}
            ${columns.map((column, index) => {
              const cell = column.cell(row);
              const linked = index > 0 ? cell : linkOf ? html`<a href=${linkOf(row)} data-row>${cell}</a>` : html`<span tabindex="-1" data-row>${cell}</span>`;
              return html`<td class=${classOf(column)}>${linked}</td>`;
            })}
          </tr>`;
        })}
      </tbody>
    </table>
  </div>`;
}
