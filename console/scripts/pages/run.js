// Run a model: a form from its signature, then the job as it goes on.

import { html, useEffect, useState } from "../../vendor/preact.js";
import { call } from "../api.js";
import { listKinds, readValue, writeSnippets } from "../inputs.js";
import { useJobEvents } from "../job_events.js";
import { useLoad } from "../load.js";
import { linkTo, navigate, useLocation } from "../navigation.js";
import { CodeBlock } from "../parts/copy.js";
import { Failure } from "../parts/failure.js";
import { InputField } from "../parts/input_field.js";
import { Empty, Show, Trouble } from "../parts/notices.js";
import { StatusBadge } from "../parts/status.js";
import { Outputs } from "../parts/tensors.js";
import { Waiting } from "../parts/waiting.js";
import { sendFile } from "../uploads.js";

const POLL_MS = 2_000; // between two reads of the position in the queue

/** @typedef {import("../types.js").Model} Model */

export function RunPage() {
  const { query } = useLocation();
  const models = useLoad(async (signal) => (await call("GET", "/v1/models", { signal })).items, []);
  return html`<h1>Run a model</h1>
    <${Show} of=${models}>
      ${(/** @type {Model[]} */ items) => html`<${RunModel} models=${items} name=${query.get("model")} job=${query.get("job")} />`}
    <//>`;
}

/** @param {{ models: Model[], name: string | null, job: string | null }} props */
function RunModel({ models, name, job }) {
  const model = models.find((each) => each.name === name) ?? (name ? null : models.find((each) => each.ready) ?? models[0]);
  if (!models.length) return html`<${Empty}><p>There are no models yet. Start a dispatcher beside a Triton that has some.</p><//>`;
  const choose = (/** @type {Event} */ event) => navigate(linkTo("/run", { model: /** @type {HTMLSelectElement} */ (event.target).value }), true);
  return html`<p><label>Model
      <select value=${model?.name ?? ""} onChange=${choose} data-filter>
        ${!model && html`<option value="">Choose a model</option>`}
        ${models.map((each) => html`<option value=${each.name}>${each.name}${each.ready ? "" : " (not ready)"}</option>`)}
      </select>
    </label></p>
    ${model ? html`<${RunForm} key=${model.name} model=${model} job=${job ?? ""} />` : html`<${Trouble} error=${new Error(`There is no model ${name}. Choose one of the list.`)} />`}`;
}

/** @param {{ model: Model, job: string }} props `job` is the id of the last run, so that Back and a reload show it again */
function RunForm({ model, job }) {
  const [values, setValues] = useState(() =>
    Object.fromEntries(model.inputs.map((tensor) => [tensor.name, /** @type {import("../inputs.js").FieldValue} */ ({ kind: listKinds(tensor)[0], text: "", file: null })])),
  );
  const [state, setState] = useState(/** @type {{ busy: boolean, error: Error | null, image: File | null }} */ ({ busy: false, error: null, image: null }));
  async function submit(/** @type {Event} */ event) {
    event.preventDefault();
    if (state.busy) return;
    setState({ ...state, busy: true, error: null });
    try {
      const { id, image } = await submitJob(model, values);
      setState({ busy: false, error: null, image });
      navigate(linkTo("/run", { model: model.name, job: id }), true);
    } catch (error) {
      setState({ ...state, busy: false, error: /** @type {Error} */ (error) });
    }
  }
  return html`<div class="panels">
    <section class="panel" aria-label="Inputs">
      <h2>Inputs</h2>
      ${!model.ready && html`<p class="trouble">The model is not ready: ${model.reason ?? "no dispatcher runs it"}. A job would wait.</p>`}
      <form class="fields" onSubmit=${submit}>
        ${model.inputs.map((tensor) => html`<${InputField} key=${tensor.name} tensor=${tensor} value=${values[tensor.name]}
          onChange=${(/** @type {import("../inputs.js").FieldValue} */ value) => setValues({ ...values, [tensor.name]: value })} />`)}
        <${Trouble} error=${state.error} />
        <p><button type="submit" class="primary" aria-disabled=${state.busy}>${state.busy ? "Sending …" : "Run"}</button></p>
      </form>
      <${Snippets} model=${model} values=${values} />
    </section>
    <section class="panel" aria-label="Result" aria-live="polite">
      <h2>Result</h2>
      ${job ? html`<${Progress} key=${job} id=${job} image=${state.image} />` : html`<p class="faint">The outputs appear here.</p>`}
    </section>
  </div>`;
}

/**
 * @param {Model} model
 * @param {Record<string, import("../inputs.js").FieldValue>} values
 * @returns {Promise<{ id: string, image: File | null }>} the id of the job, and the image among its inputs
 */
async function submitJob(model, values) {
  const { signal } = new AbortController();
  /** @type {Record<string, unknown>} */
  const inputs = {};
  let image = null;
  for (const tensor of model.inputs) {
    const value = values[tensor.name];
    if (value.kind !== "file") inputs[tensor.name] = readValue(tensor, value);
    else if (value.file) inputs[tensor.name] = await sendFile(tensor, value.file, signal);
    else if (!tensor.optional) throw new Error(`${tensor.name}: choose a file`);
    if (value.kind === "file" && value.file?.type.startsWith("image/")) image = value.file;
  }
  const headers = { "Idempotency-Key": crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}` };
  const { id } = await call("POST", "/v1/jobs", { body: { model: model.name, inputs }, headers });
  return { id, image };
}

/** @param {{ id: string, image: File | null }} props */
function Progress({ id, image }) {
  const [polling, setPolling] = useState(true);
  const job = useLoad((signal) => call("GET", `/v1/jobs/${encodeURIComponent(id)}`, { signal }), [id], polling ? { every: POLL_MS } : {});
  const { events } = useJobEvents(id, job);
  const value = /** @type {import("../types.js").Job | null} */ (job.value);
  const ended = Boolean(value?.finished_at);
  useEffect(() => setPolling(!ended), [ended]);
  const status = events.filter((event) => event.data.status).pop()?.data.status ?? value?.status ?? "queued"; // is newer than the job
  const streamed = events.filter((event) => event.type === "job.output").flatMap((event) => event.data.outputs);
  if (!value && job.error) return html`<${Trouble} error=${job.error} />`;
  return html`<p class="headline"><${StatusBadge} of=${status} />
      <a href=${linkTo(`/jobs/${id}`)}>Open the job</a></p>
    ${value && status === "queued" && html`<${Waiting} job=${value} />`}
    <${Trouble} error=${job.error} />
    ${value && html`<${Failure} job=${value} />`}
    <${Outputs} outputs=${value?.outputs ?? streamed} image=${image} />
    ${value?.outputs_omitted === "too_large" && html`<p><a href=${linkTo(`/jobs/${id}`)}>See the outputs with the job</a></p>`}`;
}

/** @param {{ model: Model, values: Record<string, import("../inputs.js").FieldValue> }} props */
function Snippets({ model, values }) {
  const [chosen, setChosen] = useState("CLI");
  /** @type {import("../inputs.js").Shown} */
  const shown = {};
  for (const tensor of model.inputs) {
    const value = values[tensor.name];
    if (value.kind === "file") shown[tensor.name] = { file: value.file?.name ?? "FILE" };
    else {
      try {
        shown[tensor.name] = { value: readValue(tensor, value) };
      } catch {
        shown[tensor.name] = { value: null };
      }
    }
    if (shown[tensor.name].value === undefined && !shown[tensor.name].file) delete shown[tensor.name];
  }
  const snippets = writeSnippets(model.name, shown, location.origin);
  const snippet = snippets.find((each) => each.name === chosen) ?? snippets[0];
  return html`<details class="snippets">
    <summary>The same as code</summary>
    <p class="actions">
      ${snippets.map((each) => html`<button type="button" class="small" aria-pressed=${each.name === chosen} onClick=${() => setChosen(each.name)}>${each.name}</button>`)}
    </p>
    <${CodeBlock} text=${snippet.text} label=${`The same run with ${snippet.name}`} />
  </details>`;
}
