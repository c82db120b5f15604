// The steps of a run: their states, how many of their elements are done, and how long they took.

import { html } from "../../vendor/preact.js";
import { call } from "../api.js";
import { formatCount, formatDuration } from "../format.js";
import { useLoad } from "../load.js";
import { linkTo } from "../navigation.js";
import { listNeeds } from "../pipelines.js";
import { timeSteps } from "../step_times.js";
import { StatusBadge } from "./status.js";
import { StepGraph } from "./step_graph.js";
import { useNow } from "./time.js";

/** @typedef {import("../types.js").RunStep} RunStep */

/**
 * @param {object} props
 * @param {import("../types.js").Job & { steps: Record<string, RunStep> }} props.run
 * @param {import("../timeline.js").JobEvent[]} props.events
 */
export function RunSteps({ run, events }) {
  const path = `/v1/pipelines/${encodeURIComponent(run.model)}`;
  const pipeline = useLoad((signal) => call("GET", path, { query: { version: run.version }, signal }), [run.model, run.version]);
  const times = timeSteps(events, run.steps);
  /** @type {Record<string, string[]>} without the definition, as of a deleted pipeline, no lines are drawn */
  const needs = pipeline.value ? listNeeds(pipeline.value.definition) : Object.fromEntries(Object.keys(run.steps).map((name) => [name, []]));
  if (pipeline.loading && !pipeline.value) return null;
  const shown = Object.fromEntries(Object.entries(needs).filter(([name]) => name in run.steps));
  return html`<section class="panel" aria-label="Steps">
    <h2>Steps</h2>
    <${StepGraph} needs=${shown} linkOf=${(/** @type {string} */ name) => linkToJobs(run, name)}
      cardOf=${(/** @type {string} */ name) => html`<${Card} step=${run.steps[name]} time=${times[name]} />`} />
  </section>`;
}

/**
 * @param {import("../types.js").Job & { steps: Record<string, RunStep> }} run
 * @param {string} name of a step
 * @returns {string | undefined} the address of its job, or of the list of its jobs; undefined until it has some
 */
function linkToJobs(run, name) {
  const { job, total } = run.steps[name];
  if (job) return linkTo(`/jobs/${job}`);
  return total ? linkTo("/jobs", { parent: run.id, step: name }) : undefined;
}

/** @param {{ step: RunStep, time?: import("../step_times.js").StepTime }} props */
function Card({ step, time }) {
  const now = useNow();
  return html`<span><${StatusBadge} of=${step.status} /> ${time && html`<small>${formatDuration(Math.max(0, (time.to ?? now) - time.from))}</small>`}</span>
    ${step.total !== null && step.total !== 1 && html`<small>${formatCount(step.done)} of ${formatCount(step.total)} jobs</small>`}`;
}
