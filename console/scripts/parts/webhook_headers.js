// The headers that a subscription sends along, as rows of a form. The API shows no value; an empty field keeps it.

import { html, useLayoutEffect, useRef, useState } from "../../vendor/preact.js";
import { ApiError } from "../api.js";

const HIDDEN = "***"; // what the API shows, and takes, for a value that it keeps

/** @typedef {import("../types.js").Webhook} Webhook */
/** @typedef {{ id: number, name: string, value: string, added: boolean }} Row `added`: in this form */

/** @param {{ webhook: Webhook | undefined, error: Error | null }} props the present subscription, and why it was refused */
export function HeaderRows({ webhook, error }) {
  const [rows, setRows] = useState(() => Object.keys(webhook?.headers ?? {}).map((name, id) => ({ id, name, value: "", added: false })));
  const addButton = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const add = () => setRows([...rows, { id: Math.max(-1, ...rows.map(({ id }) => id)) + 1, name: "", value: "", added: true }]);
  const change = (/** @type {Row} */ row) => setRows(rows.map((each) => (each.id === row.id ? row : each)));
  const remove = (/** @type {number} */ id) => {
    addButton.current?.focus();
    setRows(rows.filter((each) => each.id !== id));
  };
  return html`<fieldset>
    <legend>Headers to send along</legend>
    ${rows.map((row, index) => html`<${HeaderRow} key=${row.id} number=${index + 1} row=${row} error=${error}
      kept=${hasHeader(webhook, row.name.trim())} onChange=${change} onRemove=${() => remove(row.id)} />`)}
    <p><button type="button" class="small" ref=${addButton} onClick=${add}>Add a header</button></p>
  </fieldset>`;
}

/**
 * @param {object} props
 * @param {number} props.number of the row, from 1
 * @param {Row} props.row
 * @param {boolean} props.kept whether an empty value keeps the present one
 * @param {Error | null} props.error
 * @param {(row: Row) => void} props.onChange
 * @param {() => void} props.onRemove
 */
function HeaderRow({ number, row, kept, error, onChange, onRemove }) {
  const nameField = useRef(/** @type {HTMLInputElement | null} */ (null));
  useLayoutEffect(() => { if (row.added) nameField.current?.focus(); }, []); // at once: what is typed next belongs to it
  const pointer = point(row.name.trim());
  const errors = error instanceof ApiError ? error.errors.filter((each) => each.pointer === pointer) : [];
  const described = errors.length ? { "aria-invalid": true, "aria-describedby": `header-error-${row.id}` } : {};
  const set = (/** @type {"name" | "value"} */ field) => (/** @type {Event} */ event) =>
    onChange({ ...row, [field]: /** @type {HTMLInputElement} */ (event.target).value });
  return html`<div class="header-row" role="group" aria-label=${`Header ${number}`}>
    <label>Name <input name="header_name" ref=${nameField} required spellcheck=${false} autocomplete="off" value=${row.name} onInput=${set("name")} ...${described} /></label>
    <label>Value <input name="header_value" required=${!kept} placeholder=${kept ? "Unchanged" : ""} spellcheck=${false} autocomplete="off" value=${row.value} onInput=${set("value")} ...${described} /></label>
    <button type="button" onClick=${onRemove}>Remove</button>
    ${errors.length > 0 && html`<p class="error" id=${`header-error-${row.id}`}>${errors.map((each) => `${row.name.trim()} ${each.detail}`).join(", ")}</p>`}
  </div>`;
}

/**
 * @param {FormData} form
 * @param {Webhook | undefined} webhook the present one
 * @returns {Record<string, string>} by name, with `***` for each value that is kept
 */
export function readHeaders(form, webhook) {
  const [names, values] = ["header_name", "header_value"].map((field) => form.getAll(field).map((each) => String(each).trim()));
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new ApiError(422, `The header ${twice} is there twice.`, [{ pointer: point(twice), detail: "is there twice" }]);
  return Object.fromEntries(names.map((name, index) => [name, values[index] || (hasHeader(webhook, name) ? HIDDEN : "")]));
}

/**
 * @param {Webhook | undefined} webhook
 * @param {string} name in any case
 */
function hasHeader(webhook, name) {
  return Object.keys(webhook?.headers ?? {}).some((each) => each.toLowerCase() === name.toLowerCase());
}

/** @param {string} name of a header @returns {string} the JSON pointer to it */
function point(name) {
  return `/headers/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}
