// The list of jobs: filtered, live, by page, and what can be done with several of them.

import { html, useEffect, useState } from "../../vendor/preact.js";
import { call } from "../api.js";
import { formatDuration, formatNoun } from "../format.js";
import { canCancel, canRetry, hasEnded } from "../job_states.js";
import { useLoad } from "../load.js";
import { linkTo, navigate, useLocation } from "../navigation.js";
import { Ask } from "../parts/dialog.js";
import { FilterField } from "../parts/filter_field.js";
import { List } from "../parts/list.js";
import { ModelChoice } from "../parts/model_choice.js";
import { Empty, Show, Trouble } from "../parts/notices.js";
import { Pager } from "../parts/pager.js";
import { StatusBadge } from "../parts/status.js";
import { Age } from "../parts/time.js";
import { STATUSES } from "../types.js";

const PAGE_SIZE = 50;
const REFRESH_MS = 10_000; // no event says that a job was submitted
const PERIODS = { "1h": ["Last hour", 3_600], "24h": ["Last day", 86_400], "7d": ["Last 7 days", 604_800] };

/** @typedef {import("../types.js").Job} Job */

/** @type {import("../parts/list.js").Column[]} */
const JOB_COLUMNS = [
  { title: "Job", cell: (/** @type {Job} */ job) => html`<code class="id">${job.id}</code>` },
  { title: "Status", cell: (/** @type {Job} */ job) => html`<${StatusBadge} of=${job.status} />` },
  { title: "Model", cell: (/** @type {Job} */ job) => html`<span class="name" title=${job.model}>${job.model}</span>` },
  { title: "Submitted", cell: (/** @type {Job} */ job) => html`<${Age} at=${job.created_at} />` },
  { title: "Took", number: true, wide: true, cell: (/** @type {Job} */ job) => formatDuration(job.metrics.total_ms) },
  { title: "Why", wide: true, cell: (/** @type {Job} */ job) => html`<span class="reason">${job.error?.message ?? job.waiting_for?.detail}</span>` },
];

/**
 * @param {string | null} period
 * @param {number} now in ms since 1970
 * @returns {string | null} the time at which it began
 */
function beginOfPeriod(period, now) {
  const found = PERIODS[/** @type {keyof typeof PERIODS} */ (period)];
  return found ? new Date(now - 1_000 * Number(found[1])).toISOString() : null;
}

export function JobsPage() {
  const { query } = useLocation();
  const filter = { status: query.get("status"), model: query.get("model"), batch: query.get("batch"), period: query.get("period"), parent: query.get("parent"), step: query.get("step") };
  const cursor = query.get("cursor");
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const [since, setSince] = useState(beginOfPeriod(filter.period, Date.now()));
  useEffect(() => setSince(beginOfPeriod(filter.period, Date.now())), [filter.period]);
  const { status, model, batch, parent, step } = filter;
  const page = useLoad(
    (signal) => call("GET", "/v1/jobs", { query: { status, model, batch, parent, step, created_after: since, limit: PAGE_SIZE, cursor }, signal }),
    [status, model, batch, parent, step, since, cursor],
    cursor ? {} : { every: REFRESH_MS, live: true },
  );
  useEffect(() => setSelected(new Set()), [status, model, batch, parent, step, since, cursor]);
  return html`<h1>Jobs</h1>
    <${JobFilter} filter=${filter} />
    ${parent ? html`<p>These are jobs of ${step ? html`the step <strong>${step}</strong>` : "the steps"} of <a href=${linkTo(`/jobs/${parent}`)}>a run</a>. <a href=${linkTo("/jobs")}>Show all jobs</a></p>` : html`<${JobActions} jobs=${(page.value?.items ?? []).filter((/** @type {Job} */ job) => selected.has(job.id))} reload=${() => { setSelected(new Set()); page.reload(); }} />`}
    <${Show} of=${page}>
      ${(/** @type {import("../types.js").Page<Job>} */ value) => html`
        ${value.items.length
          ? html`<${List} label="Jobs" columns=${JOB_COLUMNS} rows=${value.items} idOf=${(/** @type {Job} */ job) => job.id}
              linkOf=${(/** @type {Job} */ job) => linkTo(`/jobs/${job.id}`)} selected=${selected} onSelect=${parent ? undefined : setSelected} />`
          : html`<${NoJobs} filtered=${Object.values(filter).some(Boolean)} model=${model} />`}
        <${Pager} path="/jobs" filter=${filter} cursor=${cursor} next=${value.next_cursor} />`}
    <//>`;
}

/** @param {{ filtered: boolean, model: string | null }} props */
function NoJobs({ filtered, model }) {
  if (filtered) return html`<${Empty}><p>No job matches the filter.${model && ` The model is compared with the whole name, ${model}.`}</p><p><a href=${linkTo("/jobs")}>Show all jobs</a></p><//>`;
  return html`<${Empty}><p>There are no jobs yet.</p><p><a class="button primary" href=${linkTo("/run")}>Run a model</a></p><//>`;
}

/** @param {{ filter: Record<string, string | null> }} props */
function JobFilter({ filter }) {
  function change(/** @type {Event} */ event) {
    const field = /** @type {HTMLInputElement | HTMLSelectElement} */ (event.target);
    navigate(linkTo("/jobs", { ...filter, [field.name]: field.value.trim() }), true);
  }
  return html`<form class="filter" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()} onChange=${change}>
    <label>Status
      <select name="status" data-filter value=${filter.status ?? ""}>
        <option value="">Any</option>
        ${STATUSES.map((status) => html`<option value=${status}>${status}</option>`)}
      </select>
    </label>
    <${ModelFilter} value=${filter.model ?? ""} />
    <label>Submitted
      <select name="period" value=${filter.period ?? ""}>
        <option value="">Any time</option>
        ${Object.entries(PERIODS).map(([value, [title]]) => html`<option value=${value}>${title}</option>`)}
      </select>
    </label>
    <label>Batch <${FilterField} name="batch" value=${filter.batch ?? ""} /></label>
  </form>`;
}

/** @param {{ value: string }} props A model that is gone has jobs too, so any name can be entered. */
function ModelFilter({ value }) {
  const [wanted, setWanted] = useState(false);
  const models = useLoad(async (signal) => (wanted ? (await call("GET", "/v1/models", { signal })).items : []), [wanted]);
  return html`<label>Model <${FilterField} name="model" value=${value} list="models" onFocus=${() => setWanted(true)} /></label>
    <datalist id="models">${(models.value ?? []).map((/** @type {import("../types.js").Model} */ model) => html`<option value=${model.name} />`)}</datalist>`;
}

/**
 * Buttons that act on those of the selected jobs whose status allows it.
 * @param {{ jobs: Job[], reload: () => void }} props
 */
function JobActions({ jobs, reload }) {
  const [failures, setFailures] = useState(/** @type {string[]} */ ([]));
  const [result, setResult] = useState("");
  const [target, setTarget] = useState("");
  /**
   * @param {string} done what was done to the jobs
   * @param {Job[]} chosen
   * @param {(id: string) => Promise<unknown>} act
   */
  async function each(done, chosen, act) {
    const problems = [];
    for (const { id } of chosen) {
      try {
        await act(id);
      } catch (error) {
        problems.push(`${id}: ${/** @type {Error} */ (error).message}`);
      }
    }
    setFailures(problems);
    setResult(`${formatNoun(chosen.length - problems.length, "job")} ${done}.`);
    reload();
  }
  const active = jobs.filter((job) => canCancel(job.status));
  const retryable = jobs.filter((job) => canRetry(job.status));
  const ended = jobs.filter((job) => hasEnded(job.status));
  const body = target ? { target_model: target } : {};
  return html`<div class="selection" role="group" aria-label="Selected jobs">
      <span>${jobs.length ? `${formatNoun(jobs.length, "job")} selected` : "Select jobs to act on them"}</span>
      <${Ask} label="Cancel" disabled=${!active.length} question=${`Cancel ${countOf(active, jobs, "wait or run")}?`}
        act=${() => each("canceled", active, (id) => call("POST", `/v1/jobs/${id}/cancel`))} />
      <${Ask} label="Retry" disabled=${!retryable.length} question=${`Run ${countOf(retryable, jobs, "failed, expired or were canceled")} again?`}
        act=${() => each("to run again", retryable, (id) => call("POST", `/v1/jobs/${id}/retry`, { body }))}>
        <${ModelChoice} value=${target} onChange=${setTarget} any="The job's own model" />
      <//>
      <${Ask} label="Erase" danger disabled=${!ended.length} question=${`Erase ${countOf(ended, jobs, "have ended")} with inputs, outputs and deliveries? This cannot be undone.`}
        act=${() => each("erased", ended, (id) => call("POST", `/v1/jobs/${id}/erase`))} />
    </div>
    ${result && html`<p role="status">${result}</p>`}
    ${failures.length > 0 && html`<${Trouble} error=${new Error(failures.join(" · "))} />`}`;
}

/**
 * @param {Job[]} chosen
 * @param {Job[]} selected
 * @param {string} rule what the chosen ones have in common
 * @returns {string} such as "3 jobs", "3 of 5 jobs (those that have ended)"
 */
function countOf(chosen, selected, rule) {
  if (chosen.length === selected.length) return formatNoun(chosen.length, "job");
  return `${chosen.length} of ${formatNoun(selected.length, "job")} (those that ${rule})`;
}
