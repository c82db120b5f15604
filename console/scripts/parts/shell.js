// What every page has around it: the menu, and the way out.

import { html, useEffect, useRef } from "../../vendor/preact.js";
import { linkTo } from "../navigation.js";
import { endSession } from "../session.js";
import { KeyboardHelp } from "./keyboard.js";

/**
 * @param {object} props
 * @param {{ path: string, title: string }[]} props.menu
 * @param {string} props.path the present one
 * @param {import("../../vendor/preact.js").Child} [props.children]
 */
export function Shell({ menu, path, children }) {
  const nav = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => nav.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [path]);
  const isPresent = (/** @type {string} */ target) => path === target || (target !== "/" && path.startsWith(`${target}/`));
  return html`<a class="skip" href="#page">Skip to the page</a>
    <header class="bar">
      <a class="brand" href=${linkTo("/")}>Charonia</a>
      <nav aria-label="Pages" ref=${nav}>
        ${menu.map((item) => html`<a href=${linkTo(item.path)} aria-current=${isPresent(item.path) ? "page" : undefined}>${item.title}</a>`)}
      </nav>
      <button type="button" class="plain" onClick=${() => endSession("")}>Sign out</button>
    </header>
    <main id="page" tabindex="-1">${children}</main>
    <${KeyboardHelp} />`;
}
