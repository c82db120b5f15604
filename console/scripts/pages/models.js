// The models of the catalogue.

import { html } from "../../vendor/preact.js";
import { call } from "../api.js";
import { formatBytes, formatCount } from "../format.js";
import { useLoad } from "../load.js";
import { linkTo } from "../navigation.js";
import { List } from "../parts/list.js";
import { Empty, Show } from "../parts/notices.js";
import { Memory } from "../parts/residency.js";
import { StatusBadge } from "../parts/status.js";

const REFRESH_MS = 10_000;

/** @typedef {import("../types.js").Model} Model */

/** @param {Model} model */
export function nameState(model) {
  if (model.paused) return "paused";
  if (model.ready) return "ready";
  return model.residency && model.residency.state !== "resident" ? model.residency.state : "away";
}

/** @param {NonNullable<Model["queue"]>} queue */
export function countWaiting(queue) {
  return queue.high + queue.normal + queue.low;
}

/** @type {import("../parts/list.js").Column[]} */
const MODEL_COLUMNS = [
  { title: "Model", cell: (/** @type {Model} */ model) => model.name },
  { title: "State", cell: (/** @type {Model} */ model) => html`<${StatusBadge} of=${nameState(model)} title=${model.reason ?? undefined} />` },
  { title: "Waiting", number: true, cell: (/** @type {Model} */ model) => (model.queue ? formatCount(countWaiting(model.queue)) : "–") },
  { title: "Running", number: true, cell: (/** @type {Model} */ model) => (model.slots === null ? "–" : `${formatCount(model.running ?? 0)} of ${formatCount(model.slots)}`) },
  { title: "Versions", wide: true, cell: (/** @type {Model} */ model) => model.versions.map((each) => each.version).join(", ") },
  { title: "Inputs", wide: true, cell: (/** @type {Model} */ model) => html`<span class="reason">${model.inputs.map((each) => each.name).join(", ")}</span>` },
];

/** @type {import("../parts/list.js").Column} */
const MEMORY_COLUMN = { title: "Memory", wide: true, number: true, cell: (/** @type {Model} */ model) => (model.residency?.memory ? formatBytes(model.residency.memory) : "–") };

export function ModelsPage() {
  const models = useLoad((signal) => call("GET", "/v1/models", { signal }), [], { every: REFRESH_MS });
  return html`<h1>Models</h1>
    <${Show} of=${models}>
      ${(/** @type {{ items: Model[], memory?: import("../types.js").Memory | null }} */ { items, memory }) =>
        items.length
          ? html`${memory && html`<${Memory} memory=${memory} models=${items} />`}
            <${List} label="Models" columns=${memory ? [...MODEL_COLUMNS.slice(0, 2), MEMORY_COLUMN, ...MODEL_COLUMNS.slice(2)] : MODEL_COLUMNS} rows=${items} idOf=${(/** @type {Model} */ model) => model.name}
              linkOf=${(/** @type {Model} */ model) => linkTo(`/models/${encodeURIComponent(model.name)}`)} />`
          : html`<${Empty}><p>There are no models yet.</p><p>Start a dispatcher beside a Triton that has some.</p><//>`}
    <//>`;
}
