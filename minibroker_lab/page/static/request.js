/** One request: its facts, and the bytes and fields of request and response. */

import { Bytes } from "./bytes.js";
import { recordOf } from "./field_tree.js";
import { lifeAddress } from "./follow.js";
import { count, dayAndTime, duration, go, html, Notice, number, Rich, useData, useMemo } from "./lib.js";

/** The page of `minibroker trace` has no logs, so records have no history there. */
const HAS_LOGS = document.documentElement.dataset.mode !== "trace";

export function RequestView({ number: asked, query }) {
  const { data, error, reload } = useData(`/data/requests/${asked}`);
  const selected = useMemo(() => placeOf(query.get("at"), query.get("inside")), [query]);
  if (error) {
    return html`<main id="main" class="page" tabindex="-1"><h1>Request ${asked}</h1><${Notice} kind="error">${error}<//><p><a href="/requests">All requests</a></p></main>`;
  }
  if (!data) return html`<main id="main" class="page" tabindex="-1"><p class="muted">Loading …</p></main>`;
  const sets = HAS_LOGS ? data.records : [];
  const title = data.version >= 0 ? `${data.api} v${data.version}` : data.api;
  return html`<main id="main" class="page request" tabindex="-1">
    <div class="heading">
      <h1>${title} <span class="muted">request ${data.number}</span></h1>
      <nav class="steps" aria-label="Neighbors">
        <a href="/requests">All requests</a>
        ${data.number > data.first ? html`<a href=${`/requests/${data.number - 1}`} rel="prev">← ${data.number - 1}</a>` : null}
        ${data.number < data.last ? html`<a href=${`/requests/${data.number + 1}`} rel="next">${data.number + 1} →</a>` : null}
      </nav>
    </div>
    ${data.purpose && html`<p class="purpose"><${Rich} text=${data.purpose} /></p>`}
    <dl class="facts">
      <${Fact} name="Outcome"><span class=${`badge ${data.state}`}>${data.outcome}</span><//>
      ${data.fault && html`<${Fact} name="Hit by a fault"><code>${data.fault}</code><//>`}
      ${data.chaos && html`<${Fact} name="Chaos">${data.chaos}<//>`}
      ${data.about && html`<${Fact} name="About">${data.about}<//>`}
      <${Fact} name="Client">${data.client_id ?? "no client id"} <span class="muted">${data.client}</span><//>
      <${Fact} name="Broker">${data.broker}<//>
      ${Object.keys(data.replaced).length > 0 && html`<${Fact} name="Addresses that the client sees">${Object.entries(data.replaced).map(([theirs, ours]) => `${ours} for ${theirs}`).join(", ")}<//>`}
      <${Fact} name="Came">${dayAndTime(data.time)}<//>
      <${Fact} name="Took">${data.duration_ms === null ? (data.state === "waiting" ? "no response yet" : "no response") : duration(data.duration_ms)}<//>
    </dl>
    <${Records} sets=${sets} />
    ${data.versions.length > 1 && html`<${Versions} data=${data} chosen=${query.get("as")} />`}
    <${Direction} name="Request" part=${data.request} sets=${sets} at=${selected?.direction === "request" ? selected : null} />
    ${data.response
      ? html`<${Direction} name="Response" part=${data.response} sets=${sets} at=${selected?.direction === "response" ? selected : null} />`
      : html`<section class="direction"><h2>Response</h2><p class="muted">${data.state === "waiting" ? html`The broker has not answered yet. <button type="button" class="link" onClick=${reload}>Look again</button>` : "No response was sent."}</p></section>`}
  </main>`;
}

/**
 * Parse "request-27" (byte 27 of the request) or "request-27-40" (a range). `inside` is a range of the decompressed
 * bytes.
 */
function placeOf(text, inside) {
  const found = /^(request|response)-(\d+)(?:-(\d+))?$/.exec(text ?? "");
  const inner = /^(\d+)-(\d+)$/.exec(inside ?? "");
  return found && { direction: found[1], start: Number(found[2]), end: Number(found[3] ?? 0), inside: inner && { start: Number(inner[1]), end: Number(inner[2]) } };
}

/** The records in the request or response, with links to their histories. */
function Records({ sets }) {
  const known = sets.filter((each) => each.first !== null);
  if (!known.length) return null;
  return html`<p>${known.slice(0, 5).map((each) => html`<span class="record-set">${each.topic}-${each.partition}, offsets ${number(each.first)} to ${number(each.last)}: <a href=${lifeAddress(each.topic, each.partition, each.first)}>follow ${number(each.first)}</a>${each.last > each.first && html` or <a href=${lifeAddress(each.topic, each.partition, each.last)}>${number(each.last)}</a>`}. </span>`)}
    ${known.length > 5 && html`<span class="muted">And of ${count(known.length - 5, "other partition")}.</span>`}</p>`;
}

function Fact({ name, children }) {
  return html`<div><dt>${name}</dt><dd>${children}</dd></div>`;
}

/** The request in another version, shown above the bytes that were sent. */
function Versions({ data, chosen }) {
  const version = data.versions.includes(Number(chosen)) && chosen ? Number(chosen) : null;
  const { data: other, error } = useData(version === null ? null : `/data/requests/${data.number}/versions/${version}`);
  const choose = (event) => go(`/requests/${data.number}${event.target.value ? `?as=${event.target.value}` : ""}`, { replace: true });
  return html`<div class="versions">
    <label class="field"><span>The same in version</span>
      <select value=${version ?? ""} onChange=${choose}><option value="">none</option>${data.versions.map((each) => html`<option value=${each} selected=${each === version}>${each}${each === data.version ? " (as sent)" : ""}</option>`)}</select></label>
    ${error && html`<${Notice} kind="error">${error}<//>`}
    ${other && Object.entries(other.parts).map(([name, part]) => html`<${Translated} key=${`${name}-${version}`} name=${name} version=${version} part=${part} />`)}
  </div>`;
}

function Translated({ name, version, part }) {
  const title = `${name === "request" ? "Request" : "Response"} in version ${version}`;
  return html`${part.reason && html`<${Notice}>${title}: ${part.reason}.<//>`}
    ${part.lost?.length > 0 && html`<${Notice}>Version ${version} has no ${part.lost.join(", ")}.<//>`}
    ${!part.reason && html`<${Direction} name=${title} part=${part} />`}`;
}

function Direction({ name, part, at = null, sets = [] }) {
  const id = name.toLowerCase().replaceAll(" ", "-");
  const lifeOf = (node) => {
    const record = recordOf(node);
    const place = record && (record.node.space.owner ?? record.node);
    const set = place && sets.find((each) => each.direction === id && each.shift !== null && place.start >= each.start && place.end <= each.end);
    return set ? lifeAddress(set.topic, set.partition, record.offset + set.shift) : null;
  };
  return html`<section class="direction" aria-labelledby=${`${id}-title`}>
    <h2 id=${`${id}-title`}>${name} <span class="muted">${count(part.size, "byte")}</span></h2>
    ${part.hidden && html`<${Notice}>These bytes may hold a secret, so the lab does not show them.<//>`}
    ${!part.hidden && part.kept < part.size && html`<${Notice}>The lab keeps and shows the first ${count(part.kept, "byte")}.<//>`}
    ${part.masked && html`<${Notice}>Secrets are masked: their bytes are shown as zeros.<//>`}
    ${!part.hidden && html`<${Bytes} name=${id} hex=${part.hex} tree=${part.tree} meanings=${part.meanings} at=${at} lifeOf=${lifeOf} />`}
  </section>`;
}
