// Batches by file: the lines of a file become jobs, and their answers the lines of two other files.

import { html, useState } from "../../vendor/preact.js";
import { call, send } from "../api.js";
import { saveAs } from "../downloads.js";
import { formatCount } from "../format.js";
import { useLoad } from "../load.js";
import { linkTo, useLocation } from "../navigation.js";
import { Ask } from "../parts/dialog.js";
import { List } from "../parts/list.js";
import { Empty, Show, Trouble } from "../parts/notices.js";
import { Pager } from "../parts/pager.js";
import { StatusBadge } from "../parts/status.js";
import { Age } from "../parts/time.js";

const REFRESH_MS = 5_000;
const PAGE = 20;
const ENDPOINTS = ["/v1/chat/completions", "/v1/responses", "/v1/completions", "/v1/embeddings"];
const CANCELABLE = ["validating", "in_progress", "finalizing"];

/** @typedef {import("../types.js").FileBatch} FileBatch */

export function BatchesPage() {
  const { query } = useLocation();
  const cursor = query.get("cursor");
  const batches = useLoad((signal) => call("GET", "/openai/v1/batches", { query: { after: cursor, limit: PAGE }, signal }), [cursor], { every: REFRESH_MS });
  /** @type {import("../parts/list.js").Column[]} */
  const columns = [
    { title: "Batch", cell: (/** @type {FileBatch} */ batch) => html`<code class="id">${batch.id}</code>` },
    { title: "State", cell: (/** @type {FileBatch} */ batch) => html`<${State} batch=${batch} />` },
    { title: "Answered", number: true, cell: (/** @type {FileBatch} */ batch) => html`<span class="counts">${formatCount(batch.request_counts.completed)} of ${formatCount(batch.request_counts.total)}</span>` },
    { title: "Failed", number: true, cell: (/** @type {FileBatch} */ batch) => html`<span class=${batch.request_counts.failed ? "error" : "faint"}>${formatCount(batch.request_counts.failed)}</span>` },
    { title: "Calls", wide: true, cell: (/** @type {FileBatch} */ batch) => html`<code>${batch.endpoint}</code>` },
    { title: "Made", wide: true, cell: (/** @type {FileBatch} */ batch) => html`<${Age} at=${new Date(1000 * batch.created_at).toISOString()} />` },
    { title: "Files", cell: (/** @type {FileBatch} */ batch) => html`<${BatchActions} batch=${batch} reload=${batches.reload} />` },
  ];
  return html`<h1>Batches by file</h1>
    <${NewBatch} reload=${batches.reload} />
    <${Show} of=${batches}>
      ${(/** @type {import("../types.js").OpenAIPage<FileBatch>} */ value) => html`
        ${value.data.length
          ? html`<${List} label="Batches" columns=${columns} rows=${value.data} idOf=${(/** @type {FileBatch} */ batch) => batch.id}
              linkOf=${(/** @type {FileBatch} */ batch) => linkTo("/jobs", { batch: batch.id })} />`
          : html`<${Empty}><p>There are no batches. Each line of a file is a call, as for OpenAI's Batch API:</p>
              <p><code>{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "…", "messages": […]}}</code></p><//>`}
        <${Pager} path="/batches" cursor=${cursor} next=${value.has_more ? value.last_id : null} />`}
    <//>`;
}

/** @param {{ reload: () => void }} props */
function NewBatch({ reload }) {
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [sending, setSending] = useState("");
  async function submit(/** @type {Event} */ event) {
    event.preventDefault();
    if (sending) return;
    const form = /** @type {HTMLFormElement} */ (event.currentTarget);
    const values = new FormData(form);
    const file = /** @type {File} */ (values.get("file"));
    setError(null);
    setSending(`Uploading ${file.name} …`);
    try {
      const upload = new FormData();
      upload.set("purpose", "batch");
      upload.set("file", file);
      const { id } = await call("POST", "/openai/v1/files", { body: upload, deadline: Infinity });
      const body = { input_file_id: id, endpoint: values.get("endpoint"), completion_window: "24h" };
      await call("POST", "/openai/v1/batches", { body, deadline: Infinity });
      form.reset();
    } catch (failure) {
      setError(/** @type {Error} */ (failure));
    }
    setSending("");
    reload();
  }
  return html`<form class="filter" onSubmit=${submit}>
      <label>File with a call in each line <input type="file" name="file" required accept=".jsonl,.ndjson,.json,.txt" /></label>
      <label>Calls
        <select name="endpoint">${ENDPOINTS.map((each) => html`<option value=${each}>${each}</option>`)}</select>
      </label>
      <button type="submit" class="primary" aria-disabled=${Boolean(sending)}>${sending ? "Sending …" : "Start"}</button>
    </form>
    ${sending && html`<p role="status">${sending}</p>`}
    <${Trouble} error=${error} />`;
}

/** @param {{ batch: FileBatch }} props */
function State({ batch }) {
  const first = batch.errors?.data[0];
  return html`<${StatusBadge} of=${batch.status} />
    ${first && html` <small class="reason">${first.line ? `line ${first.line}: ` : ""}${first.message}</small>`}`;
}

/** @param {{ batch: FileBatch, reload: () => void }} props */
function BatchActions({ batch, reload }) {
  const download = (/** @type {string} */ id) => async () => saveAs(await send("GET", `/openai/v1/files/${id}/content`), `${id}.jsonl`);
  async function cancel() {
    await call("POST", `/openai/v1/batches/${batch.id}/cancel`);
    reload();
  }
  return html`<span class="row-actions">
    ${batch.output_file_id && html`<${Ask} label="Answers" question="Download the answers so far?" act=${download(batch.output_file_id)} />`}
    ${batch.error_file_id && html`<${Ask} label="Errors" question="Download the lines that failed?" act=${download(batch.error_file_id)} />`}
    ${CANCELABLE.includes(batch.status) && html`<${Ask} label="Cancel" danger question="Cancel what has not run? Answers so far are kept." act=${cancel} />`}
  </span>`;
}
