// One pipeline: its versions, the graph of its steps, and its definition.

import { html, useState } from "../../vendor/preact.js";
import { call } from "../api.js";
import { writeJson } from "../exact_json.js";
import { useLoad } from "../load.js";
import { decodeName, linkTo, navigate, useLocation } from "../navigation.js";
import { CodeBlock } from "../parts/copy.js";
import { Ask } from "../parts/dialog.js";
import { Show } from "../parts/notices.js";
import { PipelineForm } from "../parts/pipeline_form.js";
import { StepGraph } from "../parts/step_graph.js";
import { Age } from "../parts/time.js";
import { listNeeds, tidyDefinition } from "../pipelines.js";
import { linkToPipeline } from "./pipelines.js";

/** @typedef {import("../types.js").Pipeline & { versions: string[] }} PipelineDetails */

/** @param {{ name: string }} props in the form of a path */
export function PipelinePage({ name }) {
  const version = useLocation().query.get("version");
  const path = `/v1/pipelines/${name}`;
  const pipeline = useLoad((signal) => call("GET", path, { query: { version }, signal }), [name, version]);
  return html`<p><a href=${linkTo("/pipelines")}>All pipelines</a></p>
    <h1>Pipeline ${decodeName(name)}</h1>
    <${Show} of=${pipeline}>${(/** @type {PipelineDetails} */ value) => html`<${Details} key=${value.version} pipeline=${value} path=${path} reload=${pipeline.reload} />`}<//>`;
}

/** @param {{ pipeline: PipelineDetails, path: string, reload: () => void }} props */
function Details({ pipeline, path, reload }) {
  const [open, setOpen] = useState(false);
  const { name, definition } = pipeline;
  const text = writeJson(tidyDefinition(definition), 2);
  function onStored() {
    setOpen(false);
    navigate(linkToPipeline(name), true);
    reload();
  }
  return html`<section class="panel" aria-label="Summary">
      <dl class="facts">
        <div><dt>Version</dt><dd><${Versions} pipeline=${pipeline} /></dd></div>
        <div><dt>Stored</dt><dd><${Age} at=${pipeline.created_at} /></dd></div>
        <div><dt>Inputs</dt><dd>${Object.keys(definition.inputs).join(", ")}</dd></div>
        <div><dt>Outputs</dt><dd>${Object.keys(definition.outputs).join(", ")}</dd></div>
        <div><dt>Runs</dt><dd><a href=${linkTo("/jobs", { model: name })}>Its jobs</a></dd></div>
      </dl>
      <p class="actions">
        <a class="button primary" href=${linkTo("/run", { model: name })}>Run it</a>
        <button type="button" onClick=${() => setOpen(true)}>Change</button>
        <${Ask} label="Delete" danger question=${`Delete ${name} with all versions? Its runs go on.`}
          act=${async () => { await call("DELETE", path); navigate(linkTo("/pipelines"), true); }} />
      </p>
    </section>
    <section class="panel" aria-label="Steps"><h2>Steps</h2>
      <${StepGraph} needs=${listNeeds(definition)} cardOf=${(/** @type {string} */ step) => html`<${Card} step=${definition.steps[step]} />`} /></section>
    <section class="panel" aria-label="Definition"><h2>Definition</h2><${CodeBlock} text=${text} label="the definition" /></section>
    ${open && html`<${PipelineForm} name=${name} definition=${text} onClose=${() => setOpen(false)} onStored=${onStored} />`}`;
}

/** @param {{ pipeline: PipelineDetails }} props */
function Versions({ pipeline }) {
  return pipeline.versions.map((each, index) => html`${index > 0 && ", "}${each === pipeline.version ? html`<strong>${each}</strong>` : html`<a href=${`${linkToPipeline(pipeline.name)}?version=${each}`}>${each}</a>`}`);
}

/** @param {{ step: import("../types.js").PipelineStep }} props */
function Card({ step }) {
  return html`<small class="model">${step.model}</small>${step.for_each && html`<small>for each ${step.for_each}</small>`}`;
}
