// The way to older rows of a list.

import { html } from "../../vendor/preact.js";
import { linkTo } from "../navigation.js";

/**
 * @param {object} props
 * @param {string} props.path of the list, below the root
 * @param {Record<string, string | null>} [props.filter]
 * @param {string | null} props.cursor of the present page
 * @param {string | null} props.next cursor of the next page
 * @param {string} [props.first] the title of the link to the first page
 */
export function Pager({ path, filter = {}, cursor, next, first = "Newest" }) {
  if (!cursor && !next) return null;
  return html`<p class="pager">
    ${cursor && html`<a href=${linkTo(path, filter)}>${first}</a>`}
    ${next && html`<a href=${linkTo(path, { ...filter, cursor: next })}>More</a>`}
  </p>`;
}
