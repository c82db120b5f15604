// The files of a tenant, without those of jobs.

import { html, useState } from "../../vendor/preact.js";
import { call, send } from "../api.js";
import { saveAs } from "../downloads.js";
import { formatBytes } from "../format.js";
import { useLoad } from "../load.js";
import { useLocation } from "../navigation.js";
import { Ask } from "../parts/dialog.js";
import { List } from "../parts/list.js";
import { Empty, Show, Trouble } from "../parts/notices.js";
import { Pager } from "../parts/pager.js";
import { Age } from "../parts/time.js";

/** @typedef {import("../types.js").StoredFile} StoredFile */

export function FilesPage() {
  const { query } = useLocation();
  const cursor = query.get("cursor");
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const files = useLoad((signal) => call("GET", "/v1/files", { query: { cursor }, signal }), [cursor]);
  const [sending, setSending] = useState("");
  async function upload(/** @type {Event} */ event) {
    const field = /** @type {HTMLInputElement} */ (event.target);
    setError(null);
    try {
      for (const file of field.files ?? []) {
        setSending(`Uploading ${file.name}, ${formatBytes(file.size)} …`);
        const headers = { "Content-Type": file.type || "application/octet-stream" };
        await call("POST", "/v1/files", { body: file, headers, deadline: Infinity });
      }
    } catch (failure) {
      setError(/** @type {Error} */ (failure));
    }
    setSending("");
    field.value = "";
    files.reload();
  }
  /** @type {import("../parts/list.js").Column[]} */
  const columns = [
    { title: "File", cell: (/** @type {StoredFile} */ file) => html`<code class="id">${file.id}</code>` },
    { title: "Size", number: true, cell: (/** @type {StoredFile} */ file) => formatBytes(file.size) },
    { title: "Type", wide: true, cell: (/** @type {StoredFile} */ file) => file.content_type },
    { title: "Uploaded", wide: true, cell: (/** @type {StoredFile} */ file) => html`<${Age} at=${file.created_at} />` },
    { title: "Deleted", wide: true, cell: (/** @type {StoredFile} */ file) => html`<${Age} at=${file.expires_at} />` },
    { title: "Actions", cell: (/** @type {StoredFile} */ file) => html`<${FileActions} file=${file} reload=${files.reload} />` },
  ];
  return html`<h1>Files</h1>
    <p><label>Upload files <input type="file" multiple onChange=${upload} /></label></p>
    ${sending && html`<p role="status">${sending}</p>`}
    <${Trouble} error=${error} />
    <${Show} of=${files}>
      ${(/** @type {import("../types.js").Page<StoredFile>} */ value) => html`
        ${value.items.length
          ? html`<${List} label="Files" columns=${columns} rows=${value.items} idOf=${(/** @type {StoredFile} */ file) => file.id} />`
          : html`<${Empty}><p>There are no files. Upload one, and name its id as an input of a job.</p><//>`}
        <${Pager} path="/files" cursor=${cursor} next=${value.next_cursor} />`}
    <//>`;
}

/** @param {{ file: StoredFile, reload: () => void }} props */
function FileActions({ file, reload }) {
  async function download() {
    await saveAs(await send("GET", `/v1/files/${file.id}/content`), file.id);
  }
  return html`<span class="row-actions"><${Ask} label="Download" question=${`Download ${formatBytes(file.size)}?`} act=${download} />
    <${Ask} label="Erase" danger question="Erase this file? Jobs that name it will fail." act=${async () => { await call("DELETE", `/v1/files/${file.id}`); reload(); }} /></span>`;
}
