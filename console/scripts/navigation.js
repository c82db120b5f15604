// Which page the address names, and how to go to another one.

import { useEffect, useState } from "../vendor/preact.js";

const ROOT = "/console";

/** @type {Set<() => void>} */
const locationListeners = new Set();

function announceLocation() {
  locationListeners.forEach((listener) => listener());
}

/** Follow links within the console without loading the page again. */
export function interceptLinks() {
  addEventListener("popstate", announceLocation);
  addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target.closest("a") : null;
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!target || !plain || target.target || target.download || event.defaultPrevented) return;
    if (target.origin !== location.origin || target.hash || !isInside(target.pathname)) return;
    event.preventDefault();
    if ("row" in target.dataset) history.replaceState({ row: target.getAttribute("href") }, "");
    navigate(target.pathname + target.search);
  });
}

/** @param {string} pathname */
function isInside(pathname) {
  return pathname === ROOT || pathname.startsWith(`${ROOT}/`);
}

/** Give the focus to the row that was opened, once Back has brought its list again. */
export function focusLastRow() {
  const { row } = history.state ?? {};
  if (row) /** @type {HTMLElement | null} */ (document.querySelector(`[data-row][href="${CSS.escape(row)}"]`))?.focus();
}

/**
 * @param {string} name in the form of a path
 * @returns {string} as people write it; as it is, if it is no such form
 */
export function decodeName(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/**
 * @param {string} path below the root of the console, such as "/jobs"
 * @param {Record<string, string | null | undefined>} [query] empty values are left out
 * @returns {string} the address
 */
export function linkTo(path, query = {}) {
  const given = Object.entries(query).filter((pair) => pair[1]);
  const search = new URLSearchParams(/** @type {string[][]} */ (given));
  return ROOT + path + (given.length ? `?${search}` : "");
}

/**
 * @param {string} address as of `linkTo`
 * @param {boolean} [replace] whether Back skips the present address
 */
export function navigate(address, replace = false) {
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  announceLocation();
}

/** @returns {{ path: string, query: URLSearchParams }} the path below the root, and the query; always the present ones */
export function useLocation() {
  const [, update] = useState(0);
  useEffect(() => {
    const listener = () => update((count) => count + 1);
    locationListeners.add(listener);
    return () => locationListeners.delete(listener);
  }, []);
  return { path: location.pathname.slice(ROOT.length) || "/", query: new URLSearchParams(location.search) };
}
