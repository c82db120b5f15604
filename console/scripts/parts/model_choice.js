// A choice of one model of the catalogue.

import { html } from "../../vendor/preact.js";
import { call } from "../api.js";
import { useLoad } from "../load.js";

/** @param {{ value: string, onChange: (name: string) => void, any?: string }} props `any` names the choice of no model */
export function ModelChoice({ value, onChange, any }) {
  const models = useLoad(async (signal) => (await call("GET", "/v1/models", { signal })).items, []);
  /** @type {string[]} */
  const names = (models.value ?? []).map((/** @type {import("../types.js").Model} */ model) => model.name);
  if (value && !names.includes(value)) names.unshift(value);
  const change = (/** @type {Event} */ event) => onChange(/** @type {HTMLSelectElement} */ (event.target).value);
  return html`<label>Model
    <select value=${value} onChange=${change}>
      ${any && html`<option value="">${any}</option>`}
      ${names.map((name) => html`<option value=${name}>${name}</option>`)}
    </select>
  </label>`;
}
