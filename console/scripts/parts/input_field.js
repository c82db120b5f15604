// A field for one input of a model: text, a number, JSON, or a file with a preview.

import { html } from "../../vendor/preact.js";
import { formatBytes } from "../format.js";
import { listKinds, makeExample } from "../inputs.js";
import { MediaView } from "./media.js";

/** @type {Record<import("../inputs.js").FieldKind, string>} */
const KIND_TITLES = { text: "Text", number: "Number", boolean: "True or false", file: "File", json: "JSON" };

/**
 * @param {object} props
 * @param {import("../types.js").Tensor} props.tensor
 * @param {import("../inputs.js").FieldValue} props.value
 * @param {(value: import("../inputs.js").FieldValue) => void} props.onChange
 */
export function InputField({ tensor, value, onChange }) {
  const kinds = listKinds(tensor);
  const id = `input-${tensor.name}`;
  const setText = (/** @type {Event} */ event) => onChange({ ...value, text: /** @type {HTMLInputElement} */ (event.target).value });
  const setFile = (/** @type {Event} */ event) => onChange({ ...value, file: /** @type {HTMLInputElement} */ (event.target).files?.[0] ?? null });
  return html`<div class="field">
    <div class="field-head">
      <label for=${id}><strong>${tensor.name}</strong></label>
      <small class="faint">${tensor.datatype} [${tensor.shape.map((size) => (size < 0 ? "any" : size)).join(", ")}]${tensor.optional && ", optional"}</small>
      ${kinds.length > 1 &&
      html`<select class="kind" aria-label=${`How to give ${tensor.name}`} value=${value.kind}
        onChange=${(/** @type {Event} */ event) => onChange({ ...value, kind: /** @type {any} */ (event.target).value })}>
        ${kinds.map((kind) => html`<option value=${kind}>${KIND_TITLES[kind]}</option>`)}
      </select>`}
    </div>
    ${value.kind === "file" && html`<input id=${id} type="file" onChange=${setFile} />
      ${value.file && html`<${FilePreview} file=${value.file} />`}`}
    ${value.kind === "text" && html`<textarea id=${id} rows="3" value=${value.text} onInput=${setText}></textarea>`}
    ${value.kind === "number" && html`<input id=${id} inputmode="decimal" value=${value.text} placeholder="0" onInput=${setText} />`}
    ${value.kind === "boolean" && html`<select id=${id} value=${value.text} onChange=${setText}><option>true</option><option>false</option></select>`}
    ${value.kind === "json" && html`<textarea id=${id} rows="4" value=${value.text} placeholder=${makeExample(tensor)} spellcheck=${false} onInput=${setText}></textarea>`}
  </div>`;
}

/** @param {{ file: File }} props */
function FilePreview({ file }) {
  if (!/^(image|audio)\//.test(file.type)) return html`<p class="faint">${file.name}, ${formatBytes(file.size)}</p>`;
  return html`<div class="preview"><${MediaView} blob=${file} label=${file.name} /></div>`;
}
