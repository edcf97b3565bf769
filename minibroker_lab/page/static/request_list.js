/** The list of requests: live, filtered, and of any length. */

import { duration, go, html, Notice, number, size, timeOfDay, useCallback, useData, useEffect, useLayoutEffect, useMedia, useMemo, useRef, useState } from "./lib.js";
import { useRequests } from "./request_store.js";

const EXTRA_ROWS = 12;
const COLUMNS = ["#", "Time", "API", "About", "Outcome", "Took", "In", "Out", "Client"];

export function RequestList({ query }) {
  const filter = useMemo(() => new URLSearchParams([...query].filter(([name]) => ["q", "api", "errors"].includes(name))).toString(), [query]);
  const [isPaused, setPaused] = useState(false);
  const requests = useRequests(filter, isPaused);
  const apis = useData("/data/requests/apis", 3000);
  const change = (name, value) => {
    const next = new URLSearchParams(filter);
    if (value) next.set(name, value);
    else next.delete(name);
    go(`/requests${next.size ? `?${next}` : ""}`, { replace: true });
  };
  const names = apis.data?.apis ?? [];
  const chosen = query.get("api") ?? "";
  return html`<main id="main" class="list-view" tabindex="-1">
    <div class="toolbar">
      <h1>Requests</h1>
      <label class="field grow"><span>Find</span>
        <input type="search" value=${query.get("q") ?? ""} placeholder="topic, group, client, error …" onInput=${(event) => change("q", event.target.value)} />
      </label>
      <label class="field"><span>API</span>
        <select value=${chosen} onChange=${(event) => change("api", event.target.value)}>
          <option value="">all</option>
          ${[...new Set([...names, ...(chosen ? [chosen] : [])])].sort().map((name) => html`<option value=${name} selected=${name === chosen}>${name}</option>`)}
        </select>
      </label>
      <label class="check"><input type="checkbox" checked=${query.has("errors")} onChange=${(event) => change("errors", event.target.checked ? "true" : "")} /> Only errors</label>
      <button type="button" aria-pressed=${isPaused ? "true" : "false"} onClick=${() => setPaused(!isPaused)}>${isPaused ? "Continue" : "Pause"}</button>
    </div>
    ${requests.error && html`<${Notice} kind="error">${requests.error}<//>`}
    <${Rows} requests=${requests} isPaused=${isPaused} isFiltered=${filter !== ""} />
  </main>`;
}

function Rows({ requests, isPaused, isFiltered }) {
  const box = useRef(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const [cursor, setCursor] = useState(null);
  const [isFollowing, setFollowing] = useState(true);
  const isNarrow = useMedia("(max-width: 760px)");
  const rowHeight = isNarrow ? 58 : 32;
  const { length, at, indexOf } = requests;

  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => setHeight(box.current.clientHeight));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (isFollowing && !isPaused) box.current.scrollTop = length * rowHeight;
  }, [length, isFollowing, isPaused, rowHeight]);

  const first = Math.max(0, Math.floor(top / rowHeight) - EXTRA_ROWS);
  const last = Math.min(length - 1, Math.ceil((top + height) / rowHeight) + EXTRA_ROWS);
  useEffect(() => requests.need(first, last), [first, last, length]);

  const scrolled = useCallback(() => {
    const { scrollTop, scrollHeight, clientHeight } = box.current;
    setTop(scrollTop);
    setFollowing(scrollTop + clientHeight >= scrollHeight - rowHeight);
  }, [rowHeight]);
  const show = (index) => {
    const to = index * rowHeight;
    if (to < box.current.scrollTop) box.current.scrollTop = to;
    else if (to + rowHeight > box.current.scrollTop + box.current.clientHeight) box.current.scrollTop = to + rowHeight - box.current.clientHeight;
  };
  const pressed = (event) => {
    const page = Math.max(1, Math.floor(height / rowHeight) - 1);
    const now = cursor === null ? length : indexOf(cursor);
    const moves = { ArrowDown: now + 1, ArrowUp: now - 1, PageDown: now + page, PageUp: now - page, Home: 0, End: length - 1 };
    if (event.key === "Enter" && cursor !== null) go(`/requests/${cursor}`);
    else if (event.key in moves && length) {
      const index = Math.min(length - 1, Math.max(0, moves[event.key]));
      setCursor(at(index).number);
      show(index);
    } else return;
    event.preventDefault();
  };
  const shown = [];
  for (let index = first; index <= last; index++) shown.push(html`<${Row} key=${at(index).number} index=${index} entry=${at(index)} top=${index * rowHeight} isChosen=${at(index).number === cursor} />`);
  const newest = length ? at(length - 1).number : 0;
  return html`
    <div class="rows" ref=${box} role="grid" aria-label="Requests, oldest first" aria-rowcount=${length} tabindex="0"
      aria-activedescendant=${cursor === null ? null : `request-${cursor}`} onScroll=${scrolled} onKeyDown=${pressed}>
      <div class="columns" role="row">${COLUMNS.map((name) => html`<span role="columnheader">${name}</span>`)}</div>
      ${length
        ? html`<div class="all-rows" role="rowgroup" style=${{ height: `${length * rowHeight}px` }}>${shown}</div>`
        : html`<div role="row"><div role="gridcell" class="empty">${empty(requests.isLoaded, isFiltered)}</div></div>`}
    </div>
    <p class="status" role="status">
      ${length === 1 ? "1 request" : `${number(length)} requests`}${isFiltered ? " found" : ""}${isPaused ? " · paused" : isFollowing ? "" : " · scroll to the end to follow"}
      ${requests.forgotten > 0 && ` · ${number(requests.forgotten)} older ones were forgotten`}
      ${!isFollowing && html` <button type="button" class="link" onClick=${() => { setFollowing(true); box.current.scrollTop = length * rowHeight; }}>Go to request ${number(newest)}</button>`}
    </p>`;
}

function empty(isLoaded, isFiltered) {
  if (!isLoaded) return "Loading …";
  return isFiltered ? "No request matches." : "No request yet. Connect a client to the address above.";
}

function Row({ entry, index, top, isChosen }) {
  const { row } = entry;
  const place = { transform: `translateY(${top}px)` };
  if (!row) return html`<div class="row" role="row" id=${`request-${entry.number}`} aria-rowindex=${index + 1} style=${place}><span role="gridcell" class="number">${entry.number}</span></div>`;
  return html`<div class=${`row ${row.state}${isChosen ? " chosen" : ""}`} role="row" id=${`request-${row.number}`} aria-rowindex=${index + 1} aria-selected=${isChosen ? "true" : "false"} style=${place} onClick=${(event) => event.target.closest("a") || go(`/requests/${row.number}`)}>
    <span role="gridcell" class="number"><a href=${`/requests/${row.number}`} tabindex="-1">${row.number}</a></span>
    <span role="gridcell" class="time">${timeOfDay(row.time)}</span>
    <span role="gridcell" class="api">${row.api}${row.version >= 0 && html` <small>v${row.version}</small>`}</span>
    <span role="gridcell" class="about" title=${row.about}>${row.about}</span>
    <span role="gridcell" class="outcome" title=${row.outcome}>${row.outcome}</span>
    <span role="gridcell" class="took">${duration(row.duration_ms)}</span>
    <span role="gridcell" class="size">${size(row.bytes_in)}</span>
    <span role="gridcell" class="size">${row.bytes_out ? size(row.bytes_out) : ""}</span>
    <span role="gridcell" class="client" title=${`${row.client_id ?? ""} ${row.client}`}>${row.client_id || row.client}</span>
  </div>`;
}
