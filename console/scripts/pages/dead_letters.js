// Jobs that failed for good: found by error and model, and run again.

import { html, useEffect, useState } from "../../vendor/preact.js";
import { call } from "../api.js";
import { formatCount, formatNoun } from "../format.js";
import { useLoad } from "../load.js";
import { linkTo, useLocation } from "../navigation.js";
import { Ask } from "../parts/dialog.js";
import { List } from "../parts/list.js";
import { ModelChoice } from "../parts/model_choice.js";
import { Empty, Show } from "../parts/notices.js";
import { Pager } from "../parts/pager.js";
import { Age } from "../parts/time.js";

const PAGE_SIZE = 100;
const REPLAY_SIZE = 1_000; // jobs a call
const REFRESH_MS = 10_000;
const MOST_REASONS = 20; // that are shown

/** @typedef {import("../types.js").Job} Job */
/** @typedef {{ replayed: string[], skipped: { id: string, detail: string }[], remaining: boolean }} Replayed */

/** @type {import("../parts/list.js").Column[]} */
const DEAD_COLUMNS = [
  { title: "Job", cell: (/** @type {Job} */ job) => html`<code class="id">${job.id}</code>` },
  { title: "Model", cell: (/** @type {Job} */ job) => html`<span class="name">${job.model}</span>` },
  { title: "Error", cell: (/** @type {Job} */ job) => html`<code>${job.error?.code}</code>` },
  { title: "Failed", cell: (/** @type {Job} */ job) => html`<${Age} at=${job.finished_at} />` },
  { title: "Attempts", wide: true, number: true, cell: (/** @type {Job} */ job) => job.attempt },
  { title: "Message", wide: true, cell: (/** @type {Job} */ job) => html`<span class="reason">${job.error?.message}</span>` },
];

export function DeadLettersPage() {
  const { query } = useLocation();
  const filter = { model: query.get("model"), error: query.get("error") };
  const cursor = query.get("cursor");
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const { model, error } = filter;
  const page = useLoad(
    (signal) => call("GET", "/v1/dead-letters", { query: { model, error, limit: PAGE_SIZE, cursor }, signal }),
    [model, error, cursor],
    cursor ? {} : { every: REFRESH_MS, live: true },
  );
  useEffect(() => setSelected(new Set()), [model, error, cursor]);
  const [result, setResult] = useState(/** @type {Replayed | null} */ (null));
  const onReplayed = (/** @type {Replayed} */ replayed) => {
    setResult(replayed);
    setSelected(new Set());
    page.reload();
  };
  return html`<h1>Dead letters</h1>
    <${ReplayResult} of=${result} />
    <${Show} of=${page}>
      ${(/** @type {import("../types.js").Page<Job>} */ value) => html`
        <${DeadFilter} filter=${filter} jobs=${value.items} />
        ${value.items.length
          ? html`<${Replays} filter=${filter} ids=${[...selected]} onReplayed=${onReplayed} />
            <${List} label="Dead letters" columns=${DEAD_COLUMNS} rows=${value.items} idOf=${(/** @type {Job} */ job) => job.id}
              linkOf=${(/** @type {Job} */ job) => linkTo(`/jobs/${job.id}`)} selected=${selected} onSelect=${setSelected} />`
          : html`<${Empty}><p>${model || error ? "No dead letter matches the filter." : "No job has failed for good."}</p>
              ${(model || error) && html`<p><a href=${linkTo("/dead-letters")}>Show all dead letters</a></p>`}<//>`}
        <${Pager} path="/dead-letters" filter=${filter} cursor=${cursor} next=${value.next_cursor} />`}
    <//>`;
}

/** @param {{ filter: Record<string, string | null>, jobs: Job[] }} props `jobs` of the present page, counted by error and model */
function DeadFilter({ filter, jobs }) {
  /** @type {Map<string, { model: string, error: string, count: number }>} */
  const classes = new Map();
  for (const job of jobs) {
    const error = job.error?.code ?? "";
    const found = classes.get(`${error} ${job.model}`) ?? { model: job.model, error, count: 0 };
    found.count += 1;
    classes.set(`${error} ${job.model}`, found);
  }
  const filtered = filter.model || filter.error;
  return html`<p class="chips" role="group" aria-label="Classes of errors on this page">
    ${[...classes.values()].map((each) => html`<a class="chip" data-filter href=${linkTo("/dead-letters", { model: each.model, error: each.error })}>
      <code>${each.error}</code> of ${each.model} <strong>${formatCount(each.count)}</strong></a>`)}
    ${filtered && html`<a href=${linkTo("/dead-letters")}>Show all</a>`}
  </p>`;
}

/**
 * @param {Replayed["skipped"]} skipped
 * @returns {[string, number][]} each reason, with how many jobs have it
 */
function countReasons(skipped) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { detail } of skipped) counts.set(detail, (counts.get(detail) ?? 0) + 1);
  return [...counts].sort((one, other) => other[1] - one[1]).slice(0, MOST_REASONS);
}

/** @param {{ of: Replayed | null }} props of the last replay */
function ReplayResult({ of: result }) {
  if (!result) return null;
  const { replayed, skipped, remaining } = result;
  return html`<p role="status">${formatNoun(replayed.length, "job")} replayed.${remaining && " More match: replay again."}${" "}
      ${replayed.length > 0 && html`<a href=${linkTo("/jobs")}>See the jobs</a>`}</p>
    ${skipped.length > 0 && html`<div class="trouble" role="alert"><p>${formatNoun(skipped.length, "job was", "jobs were")} skipped:</p>
      <ul>${countReasons(skipped).map(([detail, count]) => html`<li>${formatNoun(count, "job")}: ${detail}</li>`)}</ul></div>`}`;
}

/** @param {{ filter: Record<string, string | null>, ids: string[], onReplayed: (replayed: Replayed) => void }} props */
function Replays({ filter, ids, onReplayed }) {
  const [target, setTarget] = useState("");
  const given = Object.fromEntries(Object.entries(filter).filter((pair) => pair[1]));
  const options = target ? { target_model: target } : {};
  async function replay(/** @type {object} */ chosen) {
    onReplayed(await call("POST", "/v1/dead-letters/replay", { body: { ...chosen, ...options } }));
  }
  const choice = html`<${ModelChoice} value=${target} onChange=${setTarget} any="The job's own model" />`;
  return html`<div class="selection" role="group" aria-label="Replay">
      <${Ask} label="Replay selected" disabled=${!ids.length} question=${`Run ${formatNoun(ids.length, "job")} again?`} act=${() => replay({ ids })}>${choice}<//>
      <${Ask} label="Replay all that match" question=${`Run ${describeFilter(given)} again? At most ${formatCount(REPLAY_SIZE)} at once, the newest first.`}
        act=${() => replay({ filter: given, limit: REPLAY_SIZE })}>${choice}<//>
    </div>`;
}

/** @param {Record<string, string | null>} filter */
function describeFilter({ error, model }) {
  return ["all dead letters", error && `with the error ${error}`, model && `of the model ${model}`].filter(Boolean).join(" ");
}
