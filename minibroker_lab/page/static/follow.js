/** The life of one record, from its Produce request to its committed offset and its removal. */

import { ask, dayAndTime, go, html, Notice, number, useData, useState } from "./lib.js";

/** Return the path of a record's history. */
export const lifeAddress = (topic, partition, offset) => `/follow/${encodeURIComponent(topic)}/${partition}/${offset}`;

const STATES = { done: "done", waiting: "not yet", none: "not needed", unknown: "not known", bad: "over" };

export function FollowStart() {
  return html`<main id="main" class="page follow" tabindex="-1">
    <h1>Follow a record</h1>
    <p class="muted">From the request that brought a record to its place in the log, the responses that carried it, and the offsets that passed it.</p>
    <${Choose} />
  </main>`;
}

export function FollowView({ topic, partition, offset }) {
  const { data, error } = useData(`/data${lifeAddress(topic, partition, offset)}`, 2000);
  return html`<main id="main" class="page follow" tabindex="-1">
    <div class="heading"><h1>${topic}-${partition} <span class="muted">offset ${number(offset)}</span></h1>
      <nav class="steps" aria-label="Neighbors">
        ${offset > 0 && html`<a href=${lifeAddress(topic, partition, offset - 1)} rel="prev">← ${number(offset - 1)}</a>`}
        <a href=${lifeAddress(topic, partition, offset + 1)} rel="next">${number(offset + 1)} →</a>
      </nav></div>
    ${error && html`<${Notice} kind="error">${error}<//>`}
    ${data ? html`<${Record} record=${data.record} log=${data.log} />
      <ol class="life">${data.stages.map((each) => html`<${Stage} key=${each.id} stage=${each} />`)}</ol>
      <p class="muted">The lab has looked through requests ${number(data.requests.first)} to ${number(data.requests.last)}, and goes on as more come.</p>` : !error && html`<p class="muted">The lab looks through requests and logs …</p>`}
    <section aria-labelledby="another-title"><h2 id="another-title">Follow another record</h2><${Choose} topic=${topic} partition=${partition} /></section>
  </main>`;
}

/** A form that opens the history of any record. */
function Choose({ topic = "", partition = 0 }) {
  const { data } = useData("/data/logs");
  const [error, setError] = useState(null);
  const choose = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    const [name, index, offset] = ["topic", "partition", "offset"].map((each) => given.get(each).trim());
    if (!/^\d+$/.test(index) || !/^\d*$/.test(offset) || !name) {
      setError("A record has a topic, the number of a partition and an offset.");
      return;
    }
    try {
      go(lifeAddress(name, Number(index), offset === "" ? Math.max(0, (await ask(`/data/logs/${encodeURIComponent(name)}/${index}`)).log_end_offset - 1) : Number(offset)));
    } catch (failure) {
      setError(failure.message);
    }
  };
  return html`<form class="toolbar flat" onSubmit=${choose}>
      <label class="field"><span>Topic</span><input name="topic" list="topics" defaultValue=${topic} /></label>
      <datalist id="topics">${[...new Set((data?.partitions ?? []).map((each) => each.topic))].map((each) => html`<option value=${each} />`)}</datalist>
      <label class="field"><span>Partition</span><input name="partition" inputmode="numeric" size="5" defaultValue=${partition} /></label>
      <label class="field"><span>Offset</span><input name="offset" inputmode="numeric" size="12" placeholder="newest" /></label>
      <button type="submit" class="primary">Follow</button>
    </form>
    ${error && html`<${Notice} kind="error">${error}<//>`}`;
}

function Record({ record, log }) {
  if (!record) return html`<${Notice}>${log ? "No copy of the record is here." : "There is no such partition."}<//>`;
  return html`<section class="record" aria-label="The record">
    <dl class="facts">
      <div><dt>Key</dt><dd><${Text} of=${record.key} /></dd></div>
      <div><dt>Value</dt><dd><${Text} of=${record.value} /></dd></div>
      ${record.headers.map((each) => html`<div><dt>Header ${each.key}</dt><dd><${Text} of=${each.value} /></dd></div>`)}
      ${record.timestamp >= 0 && html`<div><dt>Time</dt><dd>${dayAndTime(record.timestamp)} <span class="muted">${record.timestamp}</span></dd></div>`}
    </dl>
    ${record.source !== "the log" && html`<p class="muted">The log does not have it; this is the copy of ${record.source}.</p>`}
  </section>`;
}

function Text({ of }) {
  if (!of) return html`<span class="muted">null</span>`;
  const shown = of.text ?? of.hex.replace(/../g, "$& ");
  const cut = of.text === undefined ? of.hex.length / 2 < of.size : new TextEncoder().encode(of.text).length < of.size;
  return html`<code class="payload">${shown}</code>${cut && html` <span class="muted">… ${number(of.size)} bytes</span>`}`;
}

function Stage({ stage }) {
  return html`<li class=${`stage ${stage.state}`} id=${stage.id}>
    <h2>${stage.title} <span class="badge">${STATES[stage.state]}</span></h2>
    <p>${stage.text}</p>
    ${stage.items.length > 0 && html`<ul>${stage.items.map((item) => html`<${Item} item=${item} />`)}</ul>`}
  </li>`;
}

function Item({ item }) {
  const label = item.request ? `Request ${number(item.request)}` : item.link?.startsWith("/logs/") ? "Show in the log" : "Follow that record";
  return html`<li>
    <p>${item.link && html`<a href=${item.link}>${label}</a> `}${item.time && html`<time class="muted">${dayAndTime(item.time)}</time> `}${item.text}</p>
    ${item.bar && html`<${Bar} bar=${item.bar} />`}
  </li>`;
}

/** Byte ranges drawn to scale. Ranges too small to be visible are widened. */
function Bar({ bar }) {
  const width = 1000;
  const x = (byte) => (byte / Math.max(1, bar.size)) * width;
  const words = bar.parts.map((each) => `${each.kind} at bytes ${each.start} to ${each.end - 1}`).join(", ");
  return html`<svg class="bar" viewBox="0 0 1000 14" preserveAspectRatio="none" role="img" aria-label=${`${bar.name}, ${bar.size} bytes: ${words}`}>
    <rect class="whole" x="0" y="2" width=${width} height="10" />
    ${bar.parts.map((each) => html`<rect class=${each.kind} x=${Math.min(x(each.start), width - 4)} y="0" width=${Math.max(4, x(each.end) - x(each.start))} height="14"><title>${each.kind}: bytes ${each.start} to ${each.end - 1} of ${bar.size}</title></rect>`)}
  </svg>`;
}
