// One job: what happened, why it waits, what went in and came out, and what can be done with it.

import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { ApiError, call } from "../api.js";
import { writeJson } from "../exact_json.js";
import { formatDuration } from "../format.js";
import { useJobEvents } from "../job_events.js";
import { canCancel, canRetry, hasEnded } from "../job_states.js";
import { useLoad } from "../load.js";
import { linkTo, navigate } from "../navigation.js";
import { CopyButton } from "../parts/copy.js";
import { Deliveries, ResentNote } from "../parts/deliveries.js";
import { Ask } from "../parts/dialog.js";
import { Failure } from "../parts/failure.js";
import { JobInputs, JobOutputs, useOutputs } from "../parts/job_tensors.js";
import { LongText } from "../parts/long_text.js";
import { ModelChoice } from "../parts/model_choice.js";
import { Empty, Show } from "../parts/notices.js";
import { RunSteps } from "../parts/run_steps.js";
import { StatusBadge } from "../parts/status.js";
import { Age } from "../parts/time.js";
import { Timeline } from "../parts/timeline.js";
import { Waiting } from "../parts/waiting.js";
import { findBoxes } from "../tensors.js";
import { linkToPipeline } from "./pipelines.js";

const REFRESH_MS = 5_000; // between two reads of a job that goes on
const SETTLE_MS = 10_000; // after its end, in which its webhooks begin

const LONGEST_LINE = 100; // characters of metadata

/** @typedef {import("../types.js").Job} Job */

/** @param {{ id: string }} props */
export function JobPage({ id }) {
  const path = `/v1/jobs/${encodeURIComponent(id)}`;
  const [active, setActive] = useState(true);
  const job = useLoad((signal) => call("GET", path, { signal }), [id], { every: active ? REFRESH_MS : 0 });
  const found = /** @type {Job | null} */ (job.value);
  const changes = !found || !hasEnded(found.status) || found.webhook_status === "pending";
  useEffect(() => {
    const timer = setTimeout(() => setActive(changes), changes ? 0 : SETTLE_MS);
    return () => clearTimeout(timer);
  }, [changes]);
  if (job.value === null && job.error instanceof ApiError && job.error.status === 404) return html`<${NoJob} id=${id} />`;
  return html`<h1>Job <code>${id}</code></h1>
    <${Show} of=${job}>${(/** @type {Job} */ value) => html`<${JobDetails} job=${value} path=${path} reader=${job} />`}<//>`;
}

/** @param {{ id: string }} props */
function NoJob({ id }) {
  return html`<${Empty}>
    <div role="alert">
      <h1>Job not found</h1>
      <p><code>${id}</code> never existed, was deleted, or belongs to another tenant.</p>
    </div>
    <p><a class="button primary" href=${linkTo("/jobs")}>Go to the jobs</a></p>
  <//>`;
}

/** @param {{ job: Job, path: string, reader: import("../job_events.js").Reader }} props */
function JobDetails({ job, path, reader }) {
  const [round, setRound] = useState(0);
  const { events } = useJobEvents(job.id, reader, round);
  const [resent, setResent] = useState(/** @type {import("../parts/deliveries.js").Resent | null} */ (null));
  const { reload } = reader;
  const steps = events.filter((event) => event.type !== "job.output").length;
  const ended = hasEnded(job.status);
  const attempts = useFreshList(`${path}/attempts`, job.started_at !== null && !job.kind, steps, 0); // those of a run are its whole time
  const sending = job.webhook_status === "pending";
  const deliveries = useFreshList(`${path}/deliveries`, job.webhook_status !== "none", steps, sending ? REFRESH_MS : 0);
  const outputs = useOutputs(job, events);
  const restart = () => {
    setRound((count) => count + 1);
    reload();
  };
  const before = useRef(ended);
  useEffect(() => {
    if (before.current && !ended) setRound((count) => count + 1); // somebody else retried it
    before.current = ended;
  }, [ended]);
  return html`<${Summary} job=${job} restart=${restart} reload=${reload} />
    ${job.steps && html`<${RunSteps} run=${job} events=${events} />`}
    <div class="panels job">
      <section class="panel" aria-label="Inputs"><h2>Inputs</h2><${JobInputs} id=${job.id} boxes=${findBoxes(outputs.value)} /></section>
      <section class="panel" aria-label="Outputs"><h2>Outputs</h2><${JobOutputs} job=${job} outputs=${outputs} /></section>
      <section class="panel history" aria-label="History"><h2>History</h2><${Timeline} events=${events} deliveries=${deliveries.items} attempts=${attempts.items} /></section>
    </div>
    ${deliveries.items.length > 0 && html`<h2>Webhooks sent</h2>
      <${ResentNote} result=${resent} />
      <${Deliveries} named items=${deliveries.items} reload=${deliveries.reload} onResent=${setResent} />`}`;
}

/**
 * @param {string} path of a list
 * @param {boolean} wanted whether there can be anything
 * @param {number} change another one reads it again
 * @param {number} every also again after so many ms; 0 for never
 * @returns {{ items: any[], reload: () => void }}
 */
function useFreshList(path, wanted, change, every) {
  const list = useLoad(async (signal) => (wanted ? (await call("GET", path, { signal })).items : []), [path, wanted], { every });
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) list.reloadSoon();
    first.current = false;
  }, [change]);
  return { items: list.value ?? [], reload: list.reload };
}

/** @param {{ job: Job, restart: () => void, reload: () => void }} props */
function Summary({ job, restart, reload }) {
  return html`<section class="panel" aria-label="Summary">
    <p class="headline"><${StatusBadge} of=${job.status} /></p>
    <${Waiting} job=${job} />
    <${Failure} job=${job} />
    <${Facts} job=${job} />
    <div class="actions">
      <${CopyButton} text=${job.id} label="Copy id" />
      ${job.parent ? html`<small class="faint">Cancel, retry or erase <a href=${linkTo(`/jobs/${job.parent}`)}>the run</a>, not its jobs.</small>` : html`<${Actions} job=${job} restart=${restart} reload=${reload} />`}
    </div>
  </section>`;
}

/** @param {{ job: Job, restart: () => void, reload: () => void }} props */
function Actions({ job, restart, reload }) {
  return html`<${Ask} label="Cancel" disabled=${!canCancel(job.status)} question="Cancel this job?" act=${async () => { await call("POST", `/v1/jobs/${job.id}/cancel`); reload(); }} />
    <${RetryButton} job=${job} restart=${restart} />
    <${Ask} label="Erase" danger disabled=${!hasEnded(job.status)} question="Erase this job with its inputs, outputs and deliveries? This cannot be undone."
      act=${async () => { await call("POST", `/v1/jobs/${job.id}/erase`); navigate(linkTo("/jobs"), true); }} />`;
}

/** @param {Record<string, unknown>} metadata */
function writeMetadata(metadata) {
  const line = writeJson(metadata);
  return line.length <= LONGEST_LINE ? line : writeJson(metadata, 2);
}

/** @param {{ job: Job }} props */
function Facts({ job }) {
  const { trace } = job.urls;
  const isRun = job.kind === "pipeline";
  return html`<dl class="facts">
    <div><dt>${isRun ? "Pipeline" : "Model"}</dt><dd><a href=${isRun ? linkToPipeline(job.model) : linkTo(`/models/${encodeURIComponent(job.model)}`)}>${job.model}</a> ${job.version && `version ${job.version}`}</dd></div>
    ${job.parent && html`<div><dt>Step</dt><dd>${job.step} of <a href=${linkTo(`/jobs/${job.parent}`)}>its run</a></dd></div>`}
    <div><dt>Priority</dt><dd>${job.priority}</dd></div>
    ${!isRun && html`<div><dt>Attempt</dt><dd>${job.attempt} of ${job.max_attempts}</dd></div>`}
    <div><dt>Submitted</dt><dd><${Age} at=${job.created_at} /></dd></div>
    <div><dt>Waited</dt><dd>${formatDuration(job.metrics.queue_ms)}</dd></div>
    <div><dt>${isRun ? "Took" : "Ran"}</dt><dd>${formatDuration(isRun ? job.metrics.total_ms : job.metrics.inference_ms)}</dd></div>
    ${job.reused_from && html`<div><dt>Result</dt><dd>of <a href=${linkTo(`/jobs/${job.reused_from}`)}>a job that asked the same</a></dd></div>`}
    <div><dt>Webhook</dt><dd><${StatusBadge} of=${job.webhook_status} /></dd></div>
    <div><dt>Trace</dt><dd>${trace ? html`<a href=${trace} target="_blank" rel="noreferrer">${job.trace_id}</a>` : html`<code>${job.trace_id}</code>`}</dd></div>
    ${Object.keys(job.metadata).length > 0 && html`<div class="long"><dt>Metadata</dt><dd><${LongText} text=${writeMetadata(job.metadata)} label="Metadata" code /></dd></div>`}
  </dl>`;
}

/** @param {{ job: Job, restart: () => void }} props */
function RetryButton({ job, restart }) {
  const [model, setModel] = useState(job.model);
  async function retry() {
    await call("POST", `/v1/jobs/${job.id}/retry`, { body: model === job.model ? {} : { target_model: model } });
    restart();
  }
  return html`<${Ask} label="Retry" disabled=${!canRetry(job.status)} question="Run this job again?" act=${retry}>
    ${job.kind !== "pipeline" && html`<${ModelChoice} value=${model} onChange=${setModel} />`}
  <//>`;
}
