// The pipelines of a tenant.

import { html, useState } from "../../vendor/preact.js";
import { call } from "../api.js";
import { useLoad } from "../load.js";
import { linkTo, navigate, useLocation } from "../navigation.js";
import { List } from "../parts/list.js";
import { Empty, Show } from "../parts/notices.js";
import { Pager } from "../parts/pager.js";
import { PipelineForm } from "../parts/pipeline_form.js";
import { Age } from "../parts/time.js";
import { EXAMPLE } from "../pipelines.js";

/** @typedef {import("../types.js").Pipeline} Pipeline */

/** @param {string} name */
export function linkToPipeline(name) {
  return linkTo(`/pipelines/${encodeURIComponent(name)}`);
}

/** @type {import("../parts/list.js").Column[]} */
const PIPELINE_COLUMNS = [
  { title: "Pipeline", cell: (/** @type {Pipeline} */ pipeline) => pipeline.name },
  { title: "Version", number: true, cell: (/** @type {Pipeline} */ pipeline) => pipeline.version },
  { title: "Steps", wide: true, cell: (/** @type {Pipeline} */ pipeline) => html`<span class="reason">${Object.keys(pipeline.definition.steps).join(", ")}</span>` },
  { title: "Stored", cell: (/** @type {Pipeline} */ pipeline) => html`<${Age} at=${pipeline.created_at} />` },
];

export function PipelinesPage() {
  const cursor = useLocation().query.get("cursor");
  const [open, setOpen] = useState(false);
  const page = useLoad((signal) => call("GET", "/v1/pipelines", { query: { cursor }, signal }), [cursor]);
  return html`<h1>Pipelines</h1>
    <p><button type="button" class="primary" onClick=${() => setOpen(true)}>New pipeline</button></p>
    <${Show} of=${page}>
      ${(/** @type {import("../types.js").Page<Pipeline>} */ value) => html`
        ${value.items.length
          ? html`<${List} label="Pipelines" columns=${PIPELINE_COLUMNS} rows=${value.items} idOf=${(/** @type {Pipeline} */ pipeline) => pipeline.name}
              linkOf=${(/** @type {Pipeline} */ pipeline) => linkToPipeline(pipeline.name)} />`
          : html`<${Empty}><p>There are no pipelines yet.</p><p>A pipeline is several models in a row, which take jobs as one model does.</p><//>`}
        <${Pager} path="/pipelines" cursor=${cursor} next=${value.next_cursor} first="First" />`}
    <//>
    ${open && html`<${PipelineForm} definition=${EXAMPLE} onClose=${() => setOpen(false)} onStored=${(/** @type {Pipeline} */ stored) => navigate(linkToPipeline(stored.name))} />`}`;
}
