// The fields of a subscription, for a new one and for a change.

import { html, useState } from "../../vendor/preact.js";
import { Dialog } from "./dialog.js";
import { Trouble } from "./notices.js";
import { HeaderRows, readHeaders } from "./webhook_headers.js";

/** @typedef {import("../types.js").Webhook} Webhook */

const EVENTS = { charonia: "job.succeeded, job.failed", openai: "response.*, batch.*" };

/**
 * Each field keeps what the user typed when the page is drawn again: its value is only a default.
 * @param {object} props
 * @param {string} props.title
 * @param {string} props.button
 * @param {Webhook} [props.webhook] the present one; without it, one is made
 * @param {(body: Record<string, unknown>) => Promise<void>} props.save
 * @param {() => void} props.onClose
 */
export function WebhookForm({ title, button, webhook, save, onClose }) {
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [busy, setBusy] = useState(false);
  const [format, setFormat] = useState(webhook?.format ?? "charonia");
  const chooseFormat = (/** @type {Event} */ event) => setFormat(/** @type {Webhook["format"]} */ (/** @type {HTMLSelectElement} */ (event.target).value));
  async function submit(/** @type {SubmitEvent} */ event) {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setError(null);
    try {
      await save(readFields(new FormData(/** @type {HTMLFormElement} */ (event.target)), webhook));
      onClose();
    } catch (failure) {
      setError(/** @type {Error} */ (failure));
      setBusy(false);
    }
  }
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form class="fields" onSubmit=${submit}>
      <label>URL <input name="url" type="url" required placeholder="https://example.com/hook" spellcheck=${false} defaultValue=${webhook?.url ?? ""} /></label>
      ${!webhook && html`<label>In the words of
        <select name="format" value=${format} onChange=${chooseFormat}>
          <option value="charonia">Charonia</option>
          <option value="openai">OpenAI's API</option>
        </select>
      </label>`}
      <label>Events, separated by commas <input key=${format} name="events" required defaultValue=${webhook?.events.join(", ") ?? EVENTS[format]} spellcheck=${false} /></label>
      ${format === "openai"
        ? html`<p class="hint">Such as response.completed, response.failed, batch.completed. Only responses and batches of OpenAI's API have events then.</p>`
        : html`<p class="hint">Such as job.succeeded, job.failed, batch.completed. <code>job.*</code> is every event of a job.</p>`}
      <label>Models, separated by commas <input name="models" placeholder="All" spellcheck=${false} defaultValue=${webhook?.models?.join(", ") ?? ""} /></label>
      <label>Description <input name="description" placeholder="A note of yours" maxlength="1000" defaultValue=${webhook?.description ?? ""} /></label>
      <${HeaderRows} webhook=${webhook} error=${error} />
      <label>At most so many attempts a second <input name="rate_limit" type="number" min="0" max="10000" placeholder="No limit" defaultValue=${webhook?.rate_limit ?? ""} /></label>
      <label class="line"><input name="ordered" type="checkbox" defaultChecked=${webhook?.ordered ?? false} /> Send the events of a job in order</label>
      <${Trouble} error=${error} />
      <p class="actions"><button type="submit" class="primary" aria-disabled=${busy}>${busy ? "Working …" : button}</button></p>
    </form>
  <//>`;
}

/**
 * @param {FormData} form
 * @param {Webhook | undefined} webhook the present one
 * @returns {Record<string, unknown>} the body of the call. An empty field is left out, or clears what is there.
 */
function readFields(form, webhook) {
  const text = (/** @type {string} */ name) => String(form.get(name)).trim();
  const list = (/** @type {string} */ name) => text(name).split(",").map((part) => part.trim()).filter(Boolean);
  const optional = { models: list("models"), description: text("description"), rate_limit: text("rate_limit") ? Number(text("rate_limit")) : "" };
  const given = Object.entries(optional).filter(([, value]) => value.toString() !== "" || webhook);
  const cleared = given.map(([name, value]) => [name, value.toString() === "" ? null : value]);
  const headers = readHeaders(form, webhook);
  const format = webhook ? {} : { format: text("format") };
  return { url: text("url"), ...format, events: list("events"), headers, ordered: form.has("ordered"), ...Object.fromEntries(cleared) };
}
