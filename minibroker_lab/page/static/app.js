/** The frame of the page: the navigation, and the view for the current path. */

import { DoView } from "./do.js";
import { followLinks, html, Notice, render, useAddress, useData, useEffect } from "./lib.js";
import { FollowStart, FollowView } from "./follow.js";
import { LessonList, LessonView } from "./lessons.js";
import { LogList, LogView } from "./logs.js";
import { RequestList } from "./request_list.js";
import { RequestView } from "./request.js";
import { GroupView, StateView } from "./state.js";
import { TimeLine } from "./time_line.js";

const IS_PROXY = document.documentElement.dataset.mode === "trace"; // The page of `minibroker trace` has no broker.
const VIEWS = [["/requests", "Requests"], ["/logs", "Logs"], ["/state", "State"], ["/follow", "Follow"], ["/timeline", "Time line"], ["/do", "Do"], ["/lessons", "Lessons"]];
const OF_PROXY = new Set(["/requests", "/timeline"]);
const isHere = (to) => !IS_PROXY || OF_PROXY.has(to);

function viewOf(path, query) {
  const [, view, ...rest] = path.split("/").map(decodeURIComponent);
  if (view && !isHere(`/${view}`)) return [html`<${NotHere} path=${path} />`, "Not here"];
  if (!view || (view === "requests" && !rest.length)) return [html`<${RequestList} query=${query} />`, "Requests"];
  if (view === "requests" && /^[1-9]\d*$/.test(rest[0])) {
    return [html`<${RequestView} key=${rest[0]} number=${Number(rest[0])} query=${query} />`, `Request ${rest[0]}`];
  }
  if (view === "logs" && !rest.length) return [html`<${LogList} />`, "Logs"];
  if (view === "logs" && rest.length === 2 && /^\d+$/.test(rest[1])) {
    return [html`<${LogView} key=${path} topic=${rest[0]} index=${Number(rest[1])} query=${query} />`, `${rest[0]}-${rest[1]}`];
  }
  if (view === "follow" && rest.length === 3 && /^\d+$/.test(rest[1]) && /^\d+$/.test(rest[2])) {
    return [html`<${FollowView} key=${path} topic=${rest[0]} partition=${Number(rest[1])} offset=${Number(rest[2])} />`, `${rest[0]}-${rest[1]} offset ${rest[2]}`];
  }
  if (view === "follow" && !rest.length) return [html`<${FollowStart} />`, "Follow a record"];
  if (view === "timeline" && !rest.length) return [html`<${TimeLine} query=${query} />`, "Time line"];
  if (view === "state" && !rest.length) return [html`<${StateView} />`, "State"];
  if (view === "groups" && rest.length === 1) return [html`<${GroupView} key=${path} id=${rest[0]} />`, `Group ${rest[0]}`];
  if (view === "do" && rest.length < 2) return [html`<${DoView} name=${rest[0]} query=${query} />`, "Do"];
  if (view === "lessons" && !rest.length) return [html`<${LessonList} query=${query} />`, "Lessons"];
  if (view === "lessons" && rest.length === 1 && /^[1-9]\d*$/.test(rest[0])) {
    return [html`<${LessonView} key=${rest[0]} number=${Number(rest[0])} query=${query} />`, `Lesson ${rest[0]}`];
  }
  return [html`<${Unknown} path=${path} />`, "Unknown address"];
}

function Unknown({ path }) {
  return html`<main id="main" class="page" tabindex="-1">
    <h1>Unknown address</h1>
    <p>The lab has no view at <code>${path}</code>. <a href="/requests">Go to the requests</a>.</p>
  </main>`;
}

function NotHere({ path }) {
  return html`<main id="main" class="page" tabindex="-1">
    <h1>Not here</h1>
    <p>This page shows what passes through <code>minibroker trace</code>. <code>${path}</code> needs a look into a broker: <code>minibroker lab</code> has it.</p>
    <p><a href="/requests">Go to the requests</a></p>
  </main>`;
}

function App() {
  const { path, query } = useAddress();
  const { data, error } = useData("/data/lab", 5000);
  const [view, title] = viewOf(path, query);
  useEffect(() => {
    document.title = `${title} · minibroker lab`;
  }, [title]);
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <header class="top">
      <a class="brand" href="/requests"><img src="/files/icon.svg" alt="" width="24" height="24" /> minibroker lab</a>
      <nav aria-label="Views">
        ${VIEWS.filter(([to]) => isHere(to)).map(([to, name]) => {
          const isShown = path === to || path.startsWith(`${to}/`) || (path === "/" && to === "/requests") || (to === "/state" && path.startsWith("/groups/"));
          return html`<a href=${to} aria-current=${isShown ? "page" : null}>${name}</a>`;
        })}
      </nav>
      ${IS_PROXY && html`<p class="absent">${VIEWS.filter(([to]) => !isHere(to)).map(([, name]) => name).join(", ")}: only with <code>minibroker lab</code></p>`}
      <p class="broker">
        <span class=${`dot ${error ? "off" : "on"}`} aria-hidden="true"></span>
        ${error ? "no connection" : data && html`<code>${data.bootstrap_servers}</code>${data.to && html`<span>before <code>${data.to}</code></span>`}`}
      </p>
    </header>
    ${error && html`<${Notice} kind="error">${error} The page tries again every five seconds.<//>`}
    ${view}
  `;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

document.addEventListener("click", followLinks);
const root = document.getElementById("app");
root.textContent = "";
render(html`<${App} />`, root);
