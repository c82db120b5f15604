// What went into a job, and what came out of it.

import { html } from "../../vendor/preact.js";
import { call } from "../api.js";
import { hasEnded } from "../job_states.js";
import { useLoad } from "../load.js";
import { Show, Trouble } from "./notices.js";
import { Outputs, Tensors } from "./tensors.js";

/** @typedef {import("../types.js").Job} Job */
/** @typedef {import("../types.js").TensorView} TensorView */
/** @typedef {{ value: TensorView[], error: Error | null, reload: () => void }} LoadedOutputs */

/** @param {{ id: string, boxes: import("../tensors.js").Box[] }} props `boxes` are drawn over the images */
export function JobInputs({ id, boxes }) {
  const inputs = useLoad((signal) => call("GET", `/v1/jobs/${id}/inputs`, { signal }), [id]);
  return html`<${Show} of=${inputs}>
    ${(/** @type {import("../types.js").JobInputs} */ value) => {
      if (!value.inputs) {
        const why = value.inputs_omitted === "newer_format" ? "Only a newer gateway can read the inputs." : "The inputs were erased.";
        return html`<p class="faint">${why}</p>`;
      }
      if (!value.inputs.length) return html`<p class="faint">The job has no inputs.</p>`;
      return html`<${Tensors} kind="input" tensors=${value.inputs} boxes=${boxes} />`;
    }}
  <//>`;
}

/**
 * @param {Job} job
 * @param {import("../timeline.js").JobEvent[]} events
 * @returns {LoadedOutputs} the outputs, or those that a running job has streamed in its present attempt
 */
export function useOutputs(job, events) {
  const path = `/v1/jobs/${job.id}/outputs`;
  const large = useLoad(async (signal) => (job.outputs_omitted === "too_large" ? (await call("GET", path, { signal })).outputs : null), [job.id, job.outputs_omitted]);
  const began = events.map((event) => event.type).lastIndexOf("job.started");
  const streamed = hasEnded(job.status) ? [] : events.slice(began + 1).filter((event) => event.type === "job.output").flatMap((event) => event.data.outputs);
  return { value: job.outputs ?? large.value ?? streamed, error: large.error, reload: large.reload };
}

/** @param {{ job: Job, outputs: LoadedOutputs }} props */
export function JobOutputs({ job, outputs }) {
  if (outputs.error) return html`<${Trouble} error=${outputs.error} retry=${outputs.reload} />`;
  if (job.outputs_omitted === "erased") return html`<p class="faint">The outputs were erased.</p>`;
  if (outputs.value.length) return html`<${Outputs} outputs=${outputs.value} />`;
  return html`<p class="faint">${hasEnded(job.status) ? "The job has no outputs." : "There are none yet. They appear here as the model sends them."}</p>`;
}
