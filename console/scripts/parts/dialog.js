// A dialog over the page, and a question that is asked in one.

import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { Trouble } from "./notices.js";

/** @param {{ title: string, onClose: () => void, children?: import("../../vendor/preact.js").Child }} props */
export function Dialog({ title, onClose, children }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    element.current?.showModal();
    return keepFocus;
  }, []);
  return html`<dialog ref=${element} aria-label=${title} onClose=${onClose}>
    <header>
      <h2>${title}</h2>
      <button type="button" class="plain" aria-label="Close" onClick=${() => element.current?.close()}>✕</button>
    </header>
    ${children}
  </dialog>`;
}

/** Go on at the page if what had the focus before the dialog is gone, or is disabled by what was done. */
function keepFocus() {
  requestAnimationFrame(() =>
    setTimeout(() => {
      const focused = document.activeElement;
      if (!focused || focused.matches("body, :disabled")) document.getElementById("page")?.focus({ preventScroll: true });
    }),
  );
}

/**
 * A button that asks before it acts. One that is disabled keeps the focus, because acting often disables it.
 * @param {object} props
 * @param {string} props.label of the button
 * @param {string} props.question
 * @param {() => Promise<unknown>} props.act
 * @param {boolean} [props.danger]
 * @param {boolean} [props.disabled]
 * @param {import("../../vendor/preact.js").Child} [props.children] more fields of the question
 */
export function Ask({ label, question, act, danger = false, disabled = false, children }) {
  const [open, setOpen] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  async function confirm(/** @type {Event} */ event) {
    event.preventDefault();
    if (busy) return;
    const dialog = /** @type {HTMLElement} */ (event.target).closest("dialog");
    setBusy(true);
    setError(null);
    try {
      await act();
      dialog?.close(); // gives the focus back
      setOpen(false);
    } catch (failure) {
      setError(/** @type {Error} */ (failure));
    }
    setBusy(false);
  }
  return html`<button type="button" class=${danger ? "danger" : undefined} aria-disabled=${disabled} onClick=${() => !disabled && setOpen(true)}>${label}</button>
    ${open &&
    html`<${Dialog} title=${label} onClose=${() => setOpen(false)}>
      <form method="dialog" onSubmit=${confirm}>
        <p>${question}</p>
        ${children}
        <${Trouble} error=${error} />
        <p class="actions"><button type="submit" class=${danger ? "danger" : "primary"} aria-disabled=${busy}>${busy ? "Working …" : label}</button></p>
      </form>
    <//>`}`;
}
