// The form that asks for an API key.

import { html, useState } from "../../vendor/preact.js";
import { call } from "../api.js";
import { beginSession, readEndReason } from "../session.js";
import { Trouble } from "./notices.js";

export function SignIn() {
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [busy, setBusy] = useState(false);
  const reason = readEndReason();
  async function submit(/** @type {SubmitEvent} */ event) {
    event.preventDefault();
    if (busy) return;
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const key = String(form.get("key")).trim();
    setBusy(true);
    setError(null);
    try {
      if (!/^[\x21-\x7e]+$/.test(key)) throw new Error("This is no API key. A key has only ASCII letters, digits, - and _, such as ch_dev.");
      await call("GET", "/v1/models", { key });
      beginSession(key);
    } catch (failure) {
      setError(/** @type {Error} */ (failure));
      setBusy(false);
    }
  }
  return html`<main class="sign-in">
    <h1>Charonia</h1>
    ${reason && html`<p class="trouble" role="alert">You were signed out: ${reason}</p>`}
    <form onSubmit=${submit}>
      <label>API key <input name="key" type="password" required autocomplete="off" autofocus spellcheck=${false} /></label>
      <${Trouble} error=${error} />
      <button type="submit" class="primary" aria-disabled=${busy}>${busy ? "Signing in …" : "Sign in"}</button>
    </form>
    <p class="hint">The key stays in this tab, and is forgotten when the tab is closed. An operator makes keys with <code>make key</code>.</p>
  </main>`;
}
