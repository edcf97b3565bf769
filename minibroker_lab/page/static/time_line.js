/** The time line: requests and events on one scrubber, and the state of the broker at a request. */

import { lifeAddress } from "./follow.js";
import { count, dayAndTime, go, html, Notice, number, useData, useEffect, useState } from "./lib.js";

const WIDTH = 1000;
const GRAPH = 70;
const FAMILIES = ["produce", "fetch", "groups", "other"];
const LANES = [["rebalance", "Rebalances"], ["leader", "Elections"], ["fault", "Faults"], ["chaos", "Chaos"], ["cleaning", "Cleanings"], ["retention", "Retention"], ["deletion", "DeleteRecords"]];
const LANE = 18;
const PAUSE_MS = 150; // Fetch only when the scrubber rests.

export function TimeLine({ query }) {
  const { data, error } = useData("/data/timeline", 2000);
  const asked = Number(query.get("at")) || null;
  const [moving, setMoving] = useState(null);
  const at = moving ?? asked ?? data?.last ?? 0;
  useEffect(() => {
    if (moving === null) return undefined;
    const timer = setTimeout(() => {
      go(`/timeline?at=${moving}`, { replace: true });
      setMoving(null);
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [moving]);
  const isEmpty = data && data.last < data.first;
  return html`<main id="main" class="page time-line" tabindex="-1">
    <div class="heading"><h1>Time line</h1>
      ${asked !== null && html`<nav class="steps" aria-label="Time"><a href="/timeline">Follow the newest request</a></nav>`}</div>
    ${error && html`<${Notice} kind="error">${error}<//>`}
    ${isEmpty && html`<p class="muted">No client has sent a request yet.</p>`}
    ${data && !isEmpty && html`
      <${Graph} data=${data} at=${at} />
      <label class="scrubber"><span>Request ${number(at)}</span>
        <input type="range" min=${data.first} max=${data.last} value=${at} onInput=${(event) => setMoving(Number(event.target.value))} /></label>
      ${data.first > 1 && html`<p class="muted">Requests 1 to ${number(data.first - 1)} are no longer kept.</p>`}
      ${asked === null && moving === null ? html`<p class="muted">Move the scrubber, or choose an event, and see groups, offsets and logs as they were.</p>` : html`<${Moment} at=${asked} seesBroker=${data.sees_broker} />`}
      <${Events} data=${data} at=${at} />`}
  </main>`;
}

function Graph({ data, at }) {
  const most = Math.max(1, ...data.buckets.map((each) => FAMILIES.reduce((sum, family) => sum + each[family], 0)));
  const total = data.last - data.first + 1;
  const x = (request) => ((request - data.first + 0.5) / total) * WIDTH;
  const width = (data.bucket / total) * WIDTH;
  const lanes = LANES.filter(([kind]) => data.events.some((each) => each.kind === kind));
  const height = GRAPH + lanes.length * LANE + 4;
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Requests and events">
    <svg viewBox=${`0 0 ${WIDTH} ${height}`} role="img" aria-label=${`${count(total, "request")} in their order, and ${count(data.event_count, "event")}`}>
      ${data.buckets.map((each, index) => {
        let bottom = GRAPH;
        return FAMILIES.map((family) => {
          const size = (each[family] / most) * (GRAPH - 4);
          bottom -= size;
          return size > 0 && html`<rect class=${`bar-${family}`} x=${index * width} y=${bottom} width=${Math.max(0.8, width * 0.9)} height=${size}><title>${each[family]} of ${family}, from request ${data.first + index * data.bucket} on</title></rect>`;
        });
      })}
      ${lanes.map(([kind, name], row) => html`<g key=${kind}>
        <line class="lane" x1="0" x2=${WIDTH} y1=${GRAPH + row * LANE + 10} y2=${GRAPH + row * LANE + 10} />
        ${data.events.filter((each) => each.kind === kind).map((each) => html`<circle class=${`event ${kind}`} cx=${x(Math.max(each.request, data.first))} cy=${GRAPH + row * LANE + 10} r="4"><title>${name}: ${each.text}</title></circle>`)}
      </g>`)}
      <line class="now" x1=${x(at)} x2=${x(at)} y1="0" y2=${height} />
    </svg>
    <p class="legend">${FAMILIES.map((family) => html`<span class=${`key bar-${family}`}></span> ${family} `)}${lanes.length > 0 && html`<span class="lanes">Below: ${lanes.map(([kind, name]) => html`<span class=${`key dot-of ${kind}`}></span> ${name} `)}</span>`}</p>
  </div>`;
}

function Events({ data, at }) {
  if (!data.events.length) return null;
  const newest = data.events.slice(-100).reverse();
  return html`<section aria-labelledby="events-title"><h2 id="events-title">Events <span class="muted">the newest ${number(newest.length)} of ${number(data.event_count)}</span></h2>
    <ul class="events">${newest.map((each) => html`<li class=${each.request > at ? "later" : ""}><time class="muted">${dayAndTime(each.time_ms)}</time>
      ${each.request >= data.first ? html`<a href=${`/timeline?at=${each.request}`}>at request ${number(each.request)}</a>` : "before the first request"} <span class="badge">${each.kind}</span> ${each.text}</li>`)}</ul></section>`;
}

/** The state of the broker when a request was answered. */
function Moment({ at, seesBroker }) {
  const { data, error } = useData(at === null ? null : `/data/timeline/${at}`);
  if (error) return html`<${Notice} kind="error">${error}<//>`;
  if (!data) return html`<p class="muted">The lab reads the logs …</p>`;
  return html`<section aria-labelledby="moment-title">
    <h2 id="moment-title">As it was at <a href=${`/requests/${at}`}>request ${number(at)}</a> <span class="muted">${dayAndTime(data.time)}, to the millisecond</span></h2>
    ${data.groups.length
      ? html`<div class="scroll" tabindex="0" role="group" aria-label="Groups at that time"><table class="data">
        <thead><tr><th scope="col">Group</th><th scope="col">Protocol</th><th scope="col" class="num">Generation</th><th scope="col">Members</th><th scope="col">Committed offsets</th></tr></thead>
        <tbody>${data.groups.map((each) => html`<tr key=${each.group_id}><th scope="row">${each.group_id || "(empty name)"}</th><td>${each.type}</td><td class="num">${each.generation ?? ""}</td><td>${each.members.join(", ") || "none"}</td>
          <td>${each.offsets.length ? each.offsets.slice(0, 20).map((part, index) => html`${index ? ", " : ""}${part.topic}-${part.partition} at ${seesBroker && part.offset > 0 ? html`<a href=${lifeAddress(part.topic, part.partition, part.offset - 1)} title="Follow the last record that was committed">${number(part.offset)}</a>` : number(part.offset)}`) : "none"}${each.offset_count > 20 && ` and ${number(each.offset_count - 20)} more`}</td></tr>`)}</tbody>
      </table></div>`
      : html`<p class="muted">${seesBroker ? "There was no group." : "No request up to then tells of a group."}</p>`}
    ${data.was_cleaned && html`<${Notice}>The log of the group coordinator was compacted since then. What it had at that time may be missing here.<//>`}
    ${!data.is_whole && html`<p class="muted">The logs of the group coordinator are too long to be read as a whole.</p>`}
    ${data.logs.length
      ? html`<div class="scroll" tabindex="0" role="group" aria-label="Logs at that time"><table class="data">
        <thead><tr><th scope="col">Log</th><th scope="col" class="num">Log start</th><th scope="col" class="num">Last stable</th><th scope="col" class="num">High watermark</th><th scope="col" class="num">End</th>${seesBroker && html`<th scope="col" class="num">End now</th>`}<th scope="col">Told by</th></tr></thead>
        <tbody>${data.logs.map((each) => html`<tr key=${`${each.topic}-${each.partition}`}><th scope="row">${seesBroker ? html`<a href=${`/logs/${encodeURIComponent(each.topic)}/${each.partition}?offset=${Math.max(0, (each.end ?? each.high_watermark ?? 1) - 1)}`}>${each.topic}-${each.partition}</a>` : `${each.topic}-${each.partition}`}</th>
          ${["log_start_offset", "last_stable_offset", "high_watermark", "end", ...(seesBroker ? ["end_now"] : [])].map((name) => html`<td class="num">${each[name] === undefined || each[name] === null ? "" : number(each[name])}</td>`)}
          <td><a href=${`/requests/${each.request}`}>request ${number(each.request)}</a></td></tr>`)}</tbody>
      </table></div>`
      : html`<p class="muted">No response up to then tells of a log.</p>`}
    ${seesBroker
      ? html`<p class="muted">Groups and offsets come from the records of <code>__consumer_offsets</code>, and logs from the ${count(data.looked_at, "request")} before. An empty cell means that no response told it.</p>`
      : html`<p class="muted">The proxy cannot look into the broker. All this comes from the ${count(data.looked_at, "request")} before: groups, offsets and logs of which none tells are missing. A member that timed out stays until the group's next generation.</p>`}
  </section>`;
}
