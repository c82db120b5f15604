// The keys of the console: `/` filters, `j` and `k` move between rows, `Enter` opens one, `?` lists the keys.

import { html, useEffect, useState } from "../../vendor/preact.js";
import { Dialog } from "./dialog.js";

const KEYS = [
  ["/", "go to the filter"],
  ["j", "next row"],
  ["k", "row before"],
  ["Enter", "open the row"],
  ["Esc", "leave the field"],
  ["?", "list the keys"],
];

/** @param {EventTarget | null} target */
function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches("input:not([type=checkbox]), textarea, select"));
}

/** @param {number} step */
function moveFocus(step) {
  const rows = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-row]")]);
  if (!rows.length) return;
  const focused = document.activeElement;
  const row = focused?.closest("tr, li"); // its checkbox may have the focus
  const present = rows.findIndex((each) => each === focused || row?.contains(each));
  rows[Math.min(Math.max(present + step, 0), rows.length - 1)].focus();
}

export function KeyboardHelp() {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    function onKey(/** @type {KeyboardEvent} */ event) {
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (isTyping(event.target)) {
        if (event.key === "Escape") /** @type {HTMLElement} */ (event.target).blur();
        return;
      }
      const filter = /** @type {HTMLElement | null} */ (document.querySelector("[data-filter]"));
      if (event.key === "j") moveFocus(1);
      else if (event.key === "k") moveFocus(-1);
      else if (event.key === "/" && filter) filter.focus();
      else if (event.key === "?") setOpen(true);
      else return;
      event.preventDefault();
    }
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  if (!open) return null;
  return html`<${Dialog} title="Keys" onClose=${() => setOpen(false)}>
    <dl class="keys">${KEYS.map(([key, meaning]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${meaning}</dd></div>`)}</dl>
  <//>`;
}
