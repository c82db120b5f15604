// The entry of the console: a session, a page for the address, and the way between them.

import { html, render, useEffect, useErrorBoundary, useRef, useState } from "../vendor/preact.js";
import { decodeName, interceptLinks, linkTo, useLocation } from "./navigation.js";
import { BatchesPage } from "./pages/batches.js";
import { ChatPage } from "./pages/chat.js";
import { DeadLettersPage } from "./pages/dead_letters.js";
import { FilesPage } from "./pages/files.js";
import { JobPage } from "./pages/job.js";
import { JobsPage } from "./pages/jobs.js";
import { KeysPage } from "./pages/keys.js";
import { ModelPage } from "./pages/model.js";
import { ModelsPage } from "./pages/models.js";
import { OverviewPage } from "./pages/overview.js";
import { PipelinePage } from "./pages/pipeline.js";
import { PipelinesPage } from "./pages/pipelines.js";
import { RunPage } from "./pages/run.js";
import { WebhookPage } from "./pages/webhook.js";
import { WebhooksPage } from "./pages/webhooks.js";
import { Empty, Trouble } from "./parts/notices.js";
import { Shell } from "./parts/shell.js";
import { SignIn } from "./parts/sign_in.js";
import { onSession, readKey } from "./session.js";

const MENU = [
  { path: "/", title: "Overview" },
  { path: "/run", title: "Run" },
  { path: "/chat", title: "Chat" },
  { path: "/jobs", title: "Jobs" },
  { path: "/batches", title: "Batches" },
  { path: "/dead-letters", title: "Dead letters" },
  { path: "/webhooks", title: "Webhooks" },
  { path: "/models", title: "Models" },
  { path: "/pipelines", title: "Pipelines" },
  { path: "/keys", title: "Keys" },
  { path: "/files", title: "Files" },
];

/**
 * The page of a path. A part in braces is given to the page as a property.
 * @type {[RegExp, (props: any) => import("../vendor/preact.js").VNode][]}
 */
const PAGES = [
  [/^\/$/, OverviewPage],
  [/^\/run$/, RunPage],
  [/^\/chat$/, ChatPage],
  [/^\/batches$/, BatchesPage],
  [/^\/jobs$/, JobsPage],
  [/^\/jobs\/(?<id>[^/]+)$/, JobPage],
  [/^\/dead-letters$/, DeadLettersPage],
  [/^\/webhooks$/, WebhooksPage],
  [/^\/webhooks\/(?<id>[^/]+)$/, WebhookPage],
  [/^\/models$/, ModelsPage],
  [/^\/models\/(?<name>[^/]+)$/, ModelPage],
  [/^\/pipelines$/, PipelinesPage],
  [/^\/pipelines\/(?<name>[^/]+)$/, PipelinePage],
  [/^\/keys$/, KeysPage],
  [/^\/files$/, FilesPage],
];

function NotFound() {
  return html`<${Empty}><h1>There is no such page</h1><p><a href=${linkTo("/jobs")}>Go to the jobs</a></p><//>`;
}

/** @param {{ path: string }} props */
function Page({ path }) {
  const [error, reset] = useErrorBoundary();
  if (error) return html`<${Trouble} error=${/** @type {Error} */ (error)} retry=${reset} />`;
  for (const [pattern, component] of PAGES) {
    const match = pattern.exec(path);
    if (match) return html`<${component} ...${match.groups} />`;
  }
  return html`<${NotFound} />`;
}

function App() {
  const [key, setKey] = useState(readKey());
  const { path } = useLocation();
  const isFirst = useRef(true);
  useEffect(() => onSession(() => setKey(readKey())), []);
  useEffect(() => {
    const item = MENU.find((each) => path === each.path || path.startsWith(`${each.path}/`));
    const name = item && path.slice(item.path.length + 1);
    document.title = [name && decodeName(name), item?.title, "Charonia"].filter(Boolean).join(" · ");
    scrollTo(0, 0);
    if (isFirst.current) isFirst.current = false;
    else document.getElementById("page")?.focus({ preventScroll: true });
  }, [path]);
  if (!key) return html`<${SignIn} />`;
  return html`<${Shell} menu=${MENU} path=${path}><${Page} key=${path} path=${path} /><//>`;
}

interceptLinks();
render(html`<${App} />`, document.body);
