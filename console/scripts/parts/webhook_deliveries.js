// The deliveries of a subscription by status and day, and what sends them again.

import { html, useState } from "../../vendor/preact.js";
import { call } from "../api.js";
import { useLoad } from "../load.js";
import { linkTo, navigate, useLocation } from "../navigation.js";
import { DayFilter, readDay } from "./day_filter.js";
import { Deliveries, ResentNote } from "./deliveries.js";
import { Empty, Show } from "./notices.js";
import { Pager } from "./pager.js";
import { RecoverButton } from "./recovery.js";

const REFRESH_MS = 5_000;
const PAGE_SIZE = 50;
const DELIVERY_STATUSES = ["pending", "succeeded", "exhausted", "canceled"];
/** @type {{ title: string, filter: Record<string, string> }[]} */
const SHORTCUTS = [
  { title: "All", filter: {} },
  { title: "Failed today", filter: { status: "exhausted", day: "today" } },
  { title: "Failed yesterday", filter: { status: "exhausted", day: "yesterday" } },
  { title: "Pending", filter: { status: "pending" } },
];

/** @typedef {import("../types.js").Webhook} Webhook */
/** @typedef {{ status: string | null, day: string | null }} Filter */

/** @param {{ webhook: Webhook, onChange: () => void }} props */
export function WebhookDeliveries({ webhook, onChange }) {
  const { query } = useLocation();
  const filter = { status: query.get("status"), day: query.get("day") };
  const cursor = query.get("cursor");
  const [result, setResult] = useState(/** @type {import("./deliveries.js").Resent | null} */ (null));
  const [from, to] = readDay(filter.day);
  const api = `/v1/webhooks/${webhook.id}`;
  const page = useLoad(
    (signal) => call("GET", `${api}/deliveries`, { query: { status: filter.status, created_after: from, created_before: to, limit: PAGE_SIZE, cursor }, signal }),
    [webhook.id, filter.status, from, to, cursor],
    cursor ? {} : { every: REFRESH_MS, live: true },
  );
  const changed = () => {
    page.reload();
    onChange();
  };
  return html`<h2 id="deliveries">Deliveries</h2>
    <${DeliveryFilter} path=${`/webhooks/${webhook.id}`} filter=${filter} />
    <p class="actions"><${RecoverButton} key=${filter.day} path=${api} period=${[from, to]} disabled=${webhook.status === "disabled"} onDone=${changed} />
      <span class="hint">${webhook.status === "disabled" ? "Enable the subscription to send anything again." : "Select deliveries below to send single ones again, or recover a whole period."}</span></p>
    <${ResentNote} result=${result} />
    <${Show} of=${page}>
      ${(/** @type {import("../types.js").Page<import("../timeline.js").Delivery>} */ value) => html`
        ${value.items.length
          ? html`<${Deliveries} key=${`${filter.status} ${filter.day} ${cursor}`} items=${value.items} reload=${changed} onResent=${setResult} />`
          : html`<${Empty}><p>${filter.status || filter.day ? "No delivery matches the filter." : "Nothing was sent yet. Send a test, or run a job."}</p><//>`}
        <${Pager} path=${`/webhooks/${webhook.id}`} filter=${filter} cursor=${cursor} next=${value.next_cursor} />`}
    <//>`;
}

/** @param {{ path: string, filter: Filter }} props */
function DeliveryFilter({ path, filter }) {
  const setStatus = (/** @type {Event} */ event) => navigate(linkTo(path, { ...filter, status: /** @type {HTMLSelectElement} */ (event.target).value }), true);
  const setDay = (/** @type {string} */ day) => navigate(linkTo(path, { ...filter, day }), true);
  const isChosen = (/** @type {Record<string, string>} */ each) => (each.status ?? "") === (filter.status ?? "") && (each.day ?? "") === (filter.day ?? "");
  return html`<p class="chips" role="group" aria-label="Often used filters">
      ${SHORTCUTS.map((each) => html`<a class="chip" data-filter href=${linkTo(path, each.filter)} aria-current=${isChosen(each.filter) ? "true" : undefined}>${each.title}</a>`)}
    </p>
    <form class="filter" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <label>Status
        <select value=${filter.status ?? ""} onChange=${setStatus}>
          <option value="">Any</option>
          ${DELIVERY_STATUSES.map((status) => html`<option value=${status}>${status === "exhausted" ? "failed (exhausted)" : status}</option>`)}
        </select>
      </label>
      <${DayFilter} value=${filter.day ?? ""} onChange=${setDay} />
    </form>`;
}
