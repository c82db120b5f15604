// The API keys of a tenant.

import { html, useState } from "../../vendor/preact.js";
import { call } from "../api.js";
import { useLoad } from "../load.js";
import { Ask, Dialog } from "../parts/dialog.js";
import { List } from "../parts/list.js";
import { Show, Trouble } from "../parts/notices.js";
import { FreshSecret } from "../parts/secret.js";
import { Age } from "../parts/time.js";

const SCOPES = { read: "read jobs, models and results", submit: "submit, cancel and retry jobs", admin: "everything, also keys and webhooks" };

/** @typedef {import("../types.js").ApiKey} ApiKey */

/** @param {ApiKey} key */
function nameKey(key) {
  return key.name || key.id;
}

export function KeysPage() {
  const [open, setOpen] = useState(false);
  const [made, setMade] = useState(/** @type {ApiKey | null} */ (null));
  const keys = useLoad(async (signal) => (await call("GET", "/v1/keys", { query: { limit: 1_000 }, signal })).items, []);
  /** @type {import("../parts/list.js").Column[]} */
  const columns = [
    { title: "Name", cell: (/** @type {ApiKey} */ key) => html`<span class="name" title=${`${key.name} ${key.id}`}>${nameKey(key)}</span>` },
    { title: "May", cell: (/** @type {ApiKey} */ key) => key.scopes.join(", ") },
    { title: "Models", wide: true, cell: (/** @type {ApiKey} */ key) => key.models?.join(", ") ?? "all" },
    { title: "Last used", wide: true, cell: (/** @type {ApiKey} */ key) => (key.last_used_at ? html`<${Age} at=${key.last_used_at} />` : "never") },
    { title: "Expires", wide: true, cell: (/** @type {ApiKey} */ key) => (key.expires_at ? html`<${Age} at=${key.expires_at} />` : "never") },
    {
      title: "Actions",
      cell: (/** @type {ApiKey} */ key) => html`<${Ask} label="Revoke" danger question=${`Revoke the key ${nameKey(key)}? Programs that use it are refused at once.`}
        act=${async () => { await call("DELETE", `/v1/keys/${key.id}`); keys.reload(); }} />`,
    },
  ];
  return html`<h1>Keys</h1>
    <${FreshSecret} text=${made?.key} label=${`The new key ${made?.name}.`} />
    <p><button type="button" class="primary" onClick=${() => setOpen(true)}>New key</button></p>
    <${Show} of=${keys}>${(/** @type {ApiKey[]} */ items) => html`<${List} label="Keys" columns=${columns} rows=${items} idOf=${(/** @type {ApiKey} */ key) => key.id} />`}<//>
    ${open && html`<${NewKey} onClose=${() => setOpen(false)} onMade=${(/** @type {ApiKey} */ key) => { setOpen(false); setMade(key); keys.reload(); }} />`}`;
}

/** @param {{ onClose: () => void, onMade: (key: ApiKey) => void }} props */
function NewKey({ onClose, onMade }) {
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [busy, setBusy] = useState(false);
  async function submit(/** @type {SubmitEvent} */ event) {
    event.preventDefault();
    if (busy) return; // a second click would make a second key
    setBusy(true);
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const models = String(form.get("models")).split(",").map((part) => part.trim()).filter(Boolean);
    const expires = String(form.get("expires"));
    const body = {
      name: String(form.get("name")).trim(),
      scopes: form.getAll("scopes"),
      ...(models.length ? { models } : {}),
      ...(expires ? { expires_at: new Date(expires).toISOString() } : {}),
    };
    try {
      onMade(await call("POST", "/v1/keys", { body }));
    } catch (failure) {
      setError(/** @type {Error} */ (failure));
      setBusy(false);
    }
  }
  return html`<${Dialog} title="New key" onClose=${onClose}>
    <form class="fields" onSubmit=${submit}>
      <label>Name <input name="name" required maxlength="100" /></label>
      <fieldset>
        <legend>It may</legend>
        ${Object.entries(SCOPES).map(([scope, meaning]) => html`<label class="line"><input type="checkbox" name="scopes" value=${scope} defaultChecked=${scope !== "admin"} /> ${scope}: ${meaning}</label>`)}
      </fieldset>
      <label>Models, separated by commas <input name="models" placeholder="All that your key may run" spellcheck=${false} /></label>
      <label>Expires <input name="expires" type="datetime-local" /></label>
      <${Trouble} error=${error} />
      <p class="actions"><button type="submit" class="primary" aria-disabled=${busy}>${busy ? "Working …" : "Create"}</button></p>
    </form>
  <//>`;
}
