// One model: its signature, its queue, and how long jobs take.

import { html } from "../../vendor/preact.js";
import { call } from "../api.js";
import { formatCount, formatDuration } from "../format.js";
import { makeExample } from "../inputs.js";
import { useLoad } from "../load.js";
import { decodeName, linkTo } from "../navigation.js";
import { CodeBlock } from "../parts/copy.js";
import { Show, Trouble } from "../parts/notices.js";
import { Facts, explainAbsence } from "../parts/residency.js";
import { StatusBadge } from "../parts/status.js";
import { countWaiting, nameState } from "./models.js";
import { linkToPipeline } from "./pipelines.js";

const REFRESH_MS = 5_000;

/** @typedef {import("../types.js").Model & { recent: { jobs: number, queue_ms: import("../types.js").Percentiles, inference_ms: import("../types.js").Percentiles }, triton: { queue_ms: number, compute_ms: number } | null }} ModelDetails */

/** @param {{ name: string }} props in the form of a path */
export function ModelPage({ name }) {
  const model = useLoad((signal) => call("GET", `/v1/models/${name}`, { signal }), [name], { every: REFRESH_MS });
  return html`<p><a href=${linkTo("/models")}>All models</a></p>
    <h1>Model ${decodeName(name)}</h1>
    <${Show} of=${model}>${(/** @type {ModelDetails} */ value) => html`<${Details} model=${value} />`}<//>`;
}

/** @param {{ model: ModelDetails }} props */
function Details({ model }) {
  const { recent, triton, residency } = model;
  const isAbsent = !model.ready && residency && residency.state !== "resident";
  return html`<section class="panel" aria-label="State">
      <p class="headline"><${StatusBadge} of=${nameState(model)} /> ${model.streaming && html`<span class="badge quiet">streams</span>`}</p>
      ${isAbsent && !model.reason
        ? html`<p>${explainAbsence(residency)}</p>`
        : html`<${Trouble} error=${model.ready ? null : new Error(model.reason ?? "no dispatcher runs the model")} />`}
      <dl class="facts">
        ${model.queue && html`<div><dt>Waiting</dt><dd><a href=${linkTo("/jobs", { model: model.name, status: "queued" })}>${formatCount(countWaiting(model.queue))}</a>${" "}
          <small class="faint">high ${model.queue.high}, normal ${model.queue.normal}, low ${model.queue.low}</small></dd></div>`}
        ${model.slots !== null && html`<div><dt>Running</dt><dd>${formatCount(model.running ?? 0)} of ${formatCount(model.slots)} slots</dd></div>`}
        ${model.kind === "pipeline" && html`<div><dt>It is a pipeline</dt><dd><a href=${linkToPipeline(model.name)}>See its steps</a></dd></div>`}
        <div><dt>Waited, p50 and p95</dt><dd>${formatDuration(recent.queue_ms.p50)}, ${formatDuration(recent.queue_ms.p95)}</dd></div>
        <div><dt>Ran, p50 and p95</dt><dd>${formatDuration(recent.inference_ms.p50)}, ${formatDuration(recent.inference_ms.p95)}</dd></div>
        <div><dt>Your recent jobs</dt><dd><a href=${linkTo("/jobs", { model: model.name })}>${formatCount(recent.jobs)}</a></dd></div>
        ${triton && html`<div><dt>On Triton, queue and computation</dt><dd>${formatDuration(triton.queue_ms)}, ${formatDuration(triton.compute_ms)}</dd></div>`}
        ${typeof model.reuse_seconds === "number" && html`<div><dt>Reuses results</dt><dd>${model.reuse_seconds === 0 ? "no, it refuses that" : `up to ${formatDuration(1_000 * model.reuse_seconds)} old`}</dd></div>`}
        ${residency && html`<${Facts} of=${residency} />`}
        <div><dt>Versions</dt><dd>${model.versions.map((each) => each.version).join(", ")}</dd></div>
        ${model.max_batch_size !== null && html`<div><dt>Largest batch</dt><dd>${model.max_batch_size}</dd></div>`}
      </dl>
      <p class="actions"><a class="button primary" href=${linkTo("/run", { model: model.name })}>Run it</a></p>
    </section>
    <div class="panels">
      <${Signature} title="Inputs" tensors=${model.inputs} />
      <${Signature} title="Outputs" tensors=${model.outputs} />
    </div>
    <section class="panel" aria-label="Example"><h2>Example request</h2><${CodeBlock} text=${writeExample(model)} label="an example request" /></section>`;
}

/** @param {{ title: string, tensors: import("../types.js").Tensor[] }} props */
function Signature({ title, tensors }) {
  return html`<section class="panel" aria-label=${title}>
    <h2>${title}</h2>
    <table>
      <thead><tr><th scope="col">Name</th><th scope="col">Type</th><th scope="col">Shape</th></tr></thead>
      <tbody>
        ${tensors.map((tensor) => html`<tr>
          <td>${tensor.name}${tensor.optional && html` <small class="faint">optional</small>`}${tensor.reference && html` <small class="faint">a file, by reference</small>`}</td>
          <td><code>${tensor.datatype}</code></td>
          <td><code>[${tensor.shape.map((size) => (size < 0 ? "any" : size)).join(", ")}]</code></td>
        </tr>`)}
      </tbody>
    </table>
  </section>`;
}

/**
 * @param {ModelDetails} model
 * @returns {string} a command
 */
function writeExample(model) {
  const inputs = model.inputs.filter((tensor) => !tensor.optional).map((tensor) => `"${tensor.name}": ${tensor.reference ? '{"file": "file_…"}' : makeExample(tensor)}`);
  const body = `{"model": ${JSON.stringify(model.name)}, "inputs": {${inputs.join(", ")}}}`;
  return `curl -s ${location.origin}/v1/jobs \\\n  -H "Authorization: Bearer $CHARONIA_KEY" \\\n  -H 'Content-Type: application/json' \\\n  -d '${body}'`;
}
