// A form that checks and stores the definition of a pipeline.

import { html, useRef, useState } from "../../vendor/preact.js";
import { call } from "../api.js";
import { readJson } from "../exact_json.js";
import { DefinitionErrors } from "./definition_errors.js";
import { Dialog } from "./dialog.js";

/** @typedef {import("../types.js").Tensor} Tensor */
/** @typedef {{ input_tensors: Tensor[], output_tensors: Tensor[] }} Checked */

/**
 * @param {object} props
 * @param {string} [props.name] of a pipeline that gets another version
 * @param {string} props.definition what the form begins with
 * @param {() => void} props.onClose
 * @param {(stored: import("../types.js").Pipeline) => void} props.onStored
 */
export function PipelineForm({ name, definition, onClose, onStored }) {
  const [state, setState] = useState({ busy: false, error: /** @type {Error | null} */ (null), sent: "", checked: /** @type {Checked | null} */ (null) });
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  async function submit(/** @type {SubmitEvent} */ event) {
    event.preventDefault();
    if (state.busy) return;
    const fields = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const sent = String(fields.get("definition"));
    const path = `/v1/pipelines/${encodeURIComponent(name ?? String(fields.get("name")).trim())}`;
    const isCheck = event.submitter?.getAttribute("value") === "check";
    setState({ busy: true, error: null, sent, checked: null });
    try {
      const body = readJson(sent);
      const checked = isCheck ? await call("POST", `${path}/check`, { body }) : null;
      if (!isCheck) onStored(await call("PUT", path, { body }));
      setState({ busy: false, error: null, sent, checked });
    } catch (failure) {
      setState({ busy: false, error: /** @type {Error} */ (failure), sent, checked: null });
    }
  }
  function select(/** @type {import("../json_places.js").TextPlace} */ { offset, length }) {
    field.current?.focus();
    field.current?.setSelectionRange(offset, offset + length);
  }
  return html`<${Dialog} title=${name ? `Change ${name}` : "New pipeline"} onClose=${onClose}>
    <form class="fields" onSubmit=${submit}>
      ${!name && html`<label>Name <input name="name" required maxlength="255" spellcheck=${false} /></label>`}
      <label>Definition <textarea name="definition" rows="18" required spellcheck=${false} ref=${field} defaultValue=${definition} /></label>
      <${DefinitionErrors} error=${state.error} text=${state.sent} select=${select} />
      ${state.checked && html`<p role="status">It is valid. It takes ${nameAll(state.checked.input_tensors)}, and makes ${nameAll(state.checked.output_tensors)}.</p>`}
      <p class="actions">
        <button type="submit" value="check" aria-disabled=${state.busy}>Check</button>
        <button type="submit" value="store" class="primary" aria-disabled=${state.busy}>${state.busy ? "Working …" : "Store"}</button>
      </p>
    </form>
  <//>`;
}

/** @param {Tensor[]} tensors */
function nameAll(tensors) {
  return tensors.map(({ name, datatype, shape }) => `${name} ${datatype} [${shape.map((size) => (size < 0 ? "any" : size)).join(", ")}]`).join(", ");
}
