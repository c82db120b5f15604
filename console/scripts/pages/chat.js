// A conversation with a language model. It is kept by this page only; each answer is a job.

import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { call } from "../api.js";
import { askModel } from "../chat_stream.js";
import { useLoad } from "../load.js";
import { linkTo, navigate, useLocation } from "../navigation.js";
import { Empty, Show, Trouble } from "../parts/notices.js";
import { describeEnd, Turns } from "../parts/turns.js";

const ENDPOINT = "/v1/chat/completions";
const NEAR = 200; // pixels from the end of the page, within which it follows the answer

/** @typedef {import("../types.js").SpeakingModel} SpeakingModel */
/** @typedef {import("../parts/turns.js").Turn} Turn */

export function ChatPage() {
  const { query } = useLocation();
  const models = useLoad(async (signal) => (await call("GET", "/openai/v1/models", { signal })).data, []);
  return html`<h1>Chat</h1>
    <${Show} of=${models}>
      ${(/** @type {SpeakingModel[]} */ items) => html`<${ChooseModel} models=${items.filter((each) => each.endpoints.includes(ENDPOINT))} name=${query.get("model")} />`}
    <//>`;
}

/** @param {{ models: SpeakingModel[], name: string | null }} props */
function ChooseModel({ models, name }) {
  if (!models.length) {
    return html`<${Empty}><p>No model takes messages.</p>
      <p>A model that does has the parameter <code>charonia.openai</code> in its <code>config.pbtxt</code>, and a chat template if it needs one.</p><//>`;
  }
  const model = name ? models.find((each) => each.id === name) : models[0];
  const choose = (/** @type {Event} */ event) => navigate(linkTo("/chat", { model: /** @type {HTMLSelectElement} */ (event.target).value }), true);
  return html`<p><label>Model
      <select value=${model?.id ?? ""} onChange=${choose} data-filter>
        ${!model && html`<option value="">Choose a model</option>`}
        ${models.map((each) => html`<option value=${each.id}>${each.id}</option>`)}
      </select>
    </label></p>
    ${model ? html`<${Conversation} key=${model.id} model=${model.id} />` : html`<${Trouble} error=${new Error(`No model ${name} takes messages. Choose one of the list.`)} />`}`;
}

/** @param {{ model: string }} props */
function Conversation({ model }) {
  const [turns, setTurns] = useState(/** @type {Turn[]} */ ([]));
  const [busy, setBusy] = useState(false);
  const asking = useRef(new AbortController());
  useEffect(() => () => asking.current.abort(), []);
  useEffect(() => {
    const below = document.documentElement.scrollHeight - innerHeight - scrollY;
    if (busy && below < NEAR) scrollTo(0, document.documentElement.scrollHeight);
  }, [turns]);
  const change = (/** @type {Partial<Turn>} */ changes) => setTurns((before) => [...before.slice(0, -1), { ...before[before.length - 1], ...changes }]);
  async function ask(/** @type {string} */ text, /** @type {{ system: string, maxTokens: number | null }} */ settings) {
    const { signal } = (asking.current = new AbortController());
    const asked = [...turns, /** @type {Turn} */ ({ role: "user", text })];
    setTurns([...asked, { role: "assistant", text: "", busy: true }]);
    setBusy(true);
    try {
      const { job, parts } = await askModel({ model, messages: writeMessages(asked, settings.system), maxTokens: settings.maxTokens }, signal);
      change({ job });
      let answer = "";
      for await (const part of parts) {
        answer += part.text;
        change({ text: answer, ...(part.reason && { reason: part.reason }), ...(part.usage && { usage: part.usage }) });
      }
    } catch (error) {
      change(signal.aborted ? { reason: "stopped" } : { error: /** @type {Error} */ (error) });
    }
    change({ busy: false });
    setBusy(false);
  }
  return html`<${Turns} turns=${turns} />
    <p class="hidden" role="status">${busy ? "The model answers." : describeEnd(turns[turns.length - 1])}</p>
    <${Question} busy=${busy} ask=${ask} stop=${() => asking.current.abort()} forget=${turns.length && !busy ? () => setTurns([]) : null} />`;
}

/**
 * @param {Turn[]} turns
 * @param {string} system how to answer; may be empty
 * @returns {import("../types.js").ChatMessage[]} without answers that have no text
 */
function writeMessages(turns, system) {
  const said = turns.filter((turn) => turn.text).map((turn) => ({ role: turn.role, content: turn.text }));
  return system ? [{ role: "system", content: system }, ...said] : said;
}

/** @param {{ busy: boolean, ask: (text: string, settings: { system: string, maxTokens: number | null }) => void, stop: () => void, forget: (() => void) | null }} props */
function Question({ busy, ask, stop, forget }) {
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  function submit(/** @type {Event} */ event) {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.currentTarget);
    const values = new FormData(form);
    const text = String(values.get("text")).trim();
    if (busy || !text) return;
    const [system, most] = [String(values.get("system")).trim(), String(values.get("max_tokens"))];
    ask(text, { system, maxTokens: most ? Number(most) : null });
    if (field.current) field.current.value = "";
    field.current?.focus();
  }
  function sendOnEnter(/** @type {KeyboardEvent} */ event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    field.current?.form?.requestSubmit();
  }
  return html`<form class="fields panel question" onSubmit=${submit}>
    <label>Message <textarea ref=${field} name="text" rows="3" placeholder="Enter sends it; Shift and Enter begin a new line" onKeyDown=${sendOnEnter}></textarea></label>
    <p class="actions">
      ${busy ? html`<button type="button" class="danger" onClick=${stop}>Stop</button>` : html`<button type="submit" class="primary">Send</button>`}
      ${forget && html`<button type="button" onClick=${forget}>New conversation</button>`}
    </p>
    <details class="snippets">
      <summary>Settings</summary>
      <div class="fields">
        <label>How to answer <textarea name="system" rows="2" placeholder="Such as: answer in one sentence"></textarea></label>
        <label>At most so many tokens <input name="max_tokens" type="number" min="1" placeholder="What the model's configuration says" /></label>
      </div>
    </details>
  </form>`;
}
