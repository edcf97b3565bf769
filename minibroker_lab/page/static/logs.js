/** The logs of partitions: the list, and one log with its segments, batches, indexes and lookups. */

import { BatchMap } from "./batch_map.js";
import { Bytes } from "./bytes.js";
import { count, go, html, Notice, number, size, useData, useEffect, useState } from "./lib.js";
import { recordOf } from "./field_tree.js";
import { lifeAddress } from "./follow.js";
import { Find } from "./log_find.js";
import { History } from "./log_history.js";

export function LogList() {
  const { data, error } = useData("/data/logs", 2000);
  const [withInternal, setInternal] = useState(false);
  const shown = (data?.partitions ?? []).filter((each) => withInternal || !each.is_internal);
  return html`<main id="main" class="page" tabindex="-1">
    <div class="heading">
      <h1>Logs</h1>
      <label class="check"><input type="checkbox" checked=${withInternal} onChange=${(event) => setInternal(event.target.checked)} /> Internal topics, too</label>
    </div>
    <p class="muted">Each partition is a log: a sequence of segment files. Choose one to see its batches and indexes.</p>
    ${error && html`<${Notice} kind="error">${error}<//>`}
    ${data && !shown.length && html`<p>${data.partitions.length ? "All topics are internal." : "No topic yet. A client creates one, or `minibroker lab --topic orders:2`."}</p>`}
    ${shown.length > 0 && html`<div class="scroll" tabindex="0" role="group" aria-label="Partitions"><table class="data">
      <thead><tr><th scope="col">Partition</th><th scope="col" class="num">Leader</th><th scope="col" class="num">Log start</th><th scope="col" class="num">Last stable</th><th scope="col" class="num">High watermark</th><th scope="col" class="num">End</th><th scope="col" class="num">Size</th><th scope="col" class="num">Segments</th></tr></thead>
      <tbody>${shown.map((each) => html`<tr key=${`${each.topic}-${each.index}`}>
        <th scope="row"><a href=${addressOf(each)}>${each.topic}-${each.index}</a></th>
        <td class="num">${each.leader ?? "none"}</td><td class="num">${number(each.log_start_offset)}</td><td class="num">${number(each.last_stable_offset)}</td>
        <td class="num">${number(each.high_watermark)}</td><td class="num">${number(each.log_end_offset)}</td><td class="num">${size(each.size)}</td><td class="num">${number(each.segment_count)}</td>
      </tr>`)}</tbody>
    </table></div>`}
    ${data && data.count > data.partitions.length && html`<p class="muted">The first ${number(data.partitions.length)} of ${count(data.count, "partition")}.</p>`}
  </main>`;
}

const addressOf = ({ topic, index }) => `/logs/${encodeURIComponent(topic)}/${index}`;

export function LogView({ topic, index, query }) {
  const path = `/data/logs/${encodeURIComponent(topic)}/${index}`;
  const asked = query.has("offset") ? Number(query.get("offset")) : null;
  const { data: log, error } = useData(path, 1000);
  const offset = asked ?? log?.log_start_offset ?? 0;
  const batches = useData(log ? `${path}/batches?offset=${Math.max(0, Math.min(offset, Math.max(0, log.log_end_offset - 1)))}` : null, 1000);
  const [chosen, setChosen] = useState(null);
  const [marked, setMarked] = useState(null);
  const page = batches.data?.batches ?? [];
  const segment = marked?.segment ?? page[0]?.segment ?? log?.segments.at(-1)?.base_offset ?? 0;
  useEffect(() => {
    const isThere = chosen && page.some((each) => each.base_offset === chosen.base_offset && each.segment === chosen.segment);
    if (asked !== null && page.length && !isThere && !chosen) setChosen(page.find((each) => each.last_offset >= asked) ?? null);
  }, [batches.data]);
  if (error && !log) return html`<main id="main" class="page" tabindex="-1"><h1>${topic}-${index}</h1><${Notice} kind="error">${error}<//><p><a href="/logs">All logs</a></p></main>`;
  if (!log) return html`<main id="main" class="page" tabindex="-1"><h1>${topic}-${index}</h1><p class="muted">Loading …</p></main>`;
  const show = (to) => {
    setChosen(null);
    go(`${addressOf({ topic, index })}?offset=${to}`, { replace: true });
  };
  return html`<main id="main" class="page log" tabindex="-1">
    <div class="heading"><h1>${topic}-${index} <span class="muted">log</span></h1><nav class="steps" aria-label="Logs"><a href="/logs">All logs</a></nav></div>
    ${error && html`<${Notice} kind="error">${error}<//>`}
    <${Marks} log=${log} />
    <${Segments} log=${log} segment=${segment} onChoose=${show} />
    <${Find} path=${path} log=${log} onMark=${setMarked} onShow=${show} />
    <section aria-labelledby="batches-title">
      <h2 id="batches-title">Batches <span class="muted">of ${fileName(segment)}, to scale</span></h2>
      ${page.length
        ? html`<${BatchMap} path=${path} batches=${page.filter((each) => each.segment === segment)} segment=${log.segments.find((each) => each.base_offset === segment)} log=${log} chosen=${chosen} marked=${marked} onChoose=${setChosen} />
          <nav class="steps left" aria-label="Batches">
            <button type="button" disabled=${page[0].base_offset <= log.log_start_offset} onClick=${() => show(log.log_start_offset)}>First</button>
            <button type="button" disabled=${page[0].base_offset <= log.log_start_offset} onClick=${() => show(Math.max(log.log_start_offset, page[0].base_offset - spanOf(page)))}>Earlier</button>
            <button type="button" disabled=${batches.data.next_offset === null} onClick=${() => show(batches.data.next_offset)}>Later</button>
            <button type="button" disabled=${batches.data.next_offset === null} onClick=${() => show(Math.max(0, log.log_end_offset - 1))}>Last</button>
            <span class="muted">offsets ${number(page[0].base_offset)} to ${number(page.at(-1).last_offset)}</span>
          </nav>
          <${BatchTable} batches=${page} chosen=${chosen} onChoose=${setChosen} />`
        : html`<p class="muted">${log.log_end_offset === log.log_start_offset ? "The log has no records." : "Loading …"}</p>`}
    </section>
    ${chosen && html`<${Batch} key=${`${chosen.segment}-${chosen.position}`} path=${path} batch=${chosen} place=${{ topic, partition: index, offset: asked }} at=${query.get("at")} inside=${query.get("inside")} onClose=${() => setChosen(null)} />`}
    <${Producers} path=${path} log=${log} />
    <${History} path=${path} />
  </main>`;
}

const spanOf = (page) => Math.max(1, page.at(-1).last_offset - page[0].base_offset + 1);

export const fileName = (baseOffset) => `${String(baseOffset).padStart(20, "0")}.log`;

/** The four offsets of a log on a line. They move while producers write. */
function Marks({ log }) {
  const marks = [
    ["Log start", log.log_start_offset, "The first offset that consumers get. Retention and DeleteRecords move it."],
    ["Last stable", log.last_stable_offset, "Consumers with read_committed get the records below it: no transaction that is still open began below it."],
    ["High watermark", log.high_watermark, "All in-sync replicas have the records below it. Consumers get no others."],
    ["End", log.log_end_offset, "The offset of the next record."],
  ];
  return html`<dl class="marks">${marks.map(([name, value, meaning]) => html`<div><dt>${name}</dt><dd>${number(value)}</dd><dd class="muted">${meaning}</dd></div>`)}</dl>
    <p class="muted">Leader ${log.leader ?? "none"}, replicas ${log.replicas.join(", ")}. ${size(log.size)} in ${count(log.segment_count, "segment")}; a new one begins after ${size(log.segment_bytes)}.
      ${log.leader_epochs.length > 0 && ` Leader epochs: ${log.leader_epochs.slice(-5).map((each) => `${each.epoch} from offset ${number(each.start_offset)}`).join(", ")}.`}</p>`;
}

function Segments({ log, segment, onChoose }) {
  const total = Math.max(1, log.segments.reduce((sum, each) => sum + each.size, 0));
  return html`<section aria-labelledby="segments-title">
    <h2 id="segments-title">Segments</h2>
    <div class="segments">${log.segments.map((each) => html`<button type="button" key=${each.base_offset} class="segment" aria-pressed=${each.base_offset === segment ? "true" : "false"}
      style=${{ flexGrow: Math.max(0.04, each.size / total) }} onClick=${() => onChoose(Math.max(each.base_offset, log.log_start_offset))}>
      <strong>${number(each.base_offset)}</strong> <span>${size(each.size)}${each.is_active ? ", active" : ""}</span></button>`)}</div>
    ${log.segment_count > log.segments.length && html`<p class="muted">The first ${number(log.segments.length)} of ${count(log.segment_count, "segment")}.</p>`}
  </section>`;
}

function BatchTable({ batches, chosen, onChoose }) {
  return html`<div class="scroll batches" tabindex="0" role="group" aria-label="Batches"><table class="data">
    <thead><tr><th scope="col">Offsets</th><th scope="col" class="num">At byte</th><th scope="col" class="num">Bytes</th><th scope="col" class="num">Records</th><th scope="col">Format</th><th scope="col">Codec</th><th scope="col">Producer</th><th scope="col">Kind</th><th scope="col">Index</th></tr></thead>
    <tbody>${batches.map((each) => html`<tr key=${`${each.segment}-${each.position}`} class=${each === chosen || (chosen && each.segment === chosen.segment && each.position === chosen.position) ? "chosen" : ""}>
      <th scope="row"><button type="button" class="link" onClick=${() => onChoose(each)}>${each.base_offset === each.last_offset ? number(each.base_offset) : `${number(each.base_offset)} to ${number(each.last_offset)}`}</button></th>
      <td class="num">${number(each.position)}</td><td class="num">${number(each.size)}</td><td class="num">${each.records === null ? "" : number(each.records)}</td>
      <td>v${each.magic}</td><td>${each.codec}</td>
      <td>${each.producer_id < 0 ? "" : `${each.producer_id}, epoch ${each.producer_epoch}${each.base_sequence < 0 ? "" : `, sequence ${each.base_sequence}`}`}</td>
      <td>${each.is_control ? `end of transaction: ${each.control_type.toLowerCase()}` : each.is_transactional ? "transactional" : ""}</td><td>${each.is_indexed ? "has an entry" : ""}</td>
    </tr>`)}</tbody>
  </table></div>`;
}

function Batch({ path, batch, place, at, inside, onClose }) {
  const lifeOf = (node) => {
    const record = recordOf(node);
    return record && lifeAddress(place.topic, place.partition, record.offset);
  };
  const { data, error } = useData(`${path}/batch?segment=${batch.segment}&position=${batch.position}`);
  return html`<section class="direction" aria-labelledby="batch-title">
    <div class="heading"><h2 id="batch-title">Batch at byte ${number(batch.position)} <span class="muted">${count(batch.size, "byte")}</span></h2>
      <button type="button" class="link" onClick=${onClose}>Close</button></div>
    <p>Follow ${[...new Set([batch.base_offset, ...(isIn(place.offset, batch) ? [place.offset] : []), batch.last_offset])].map((each, index) => html`${index ? ", " : ""}<a href=${lifeAddress(place.topic, place.partition, each)}>record ${number(each)}</a>`)}. To follow another one, choose it below.</p>
    ${error && html`<${Notice} kind="error">${error}<//>`}
    ${data && html`<${Bytes} name="batch" title=${fileName(batch.segment)} hex=${data.hex} tree=${data.tree} meanings=${data.meanings} at=${isIn(place.offset, batch) ? rangeOf(at, inside, batch) : null} lifeOf=${lifeOf} />`}
  </section>`;
}

const isIn = (offset, batch) => offset !== null && batch.base_offset <= offset && offset <= batch.last_offset;

/** Return the range of a record in its batch from the query: "70-95", or with `inside` in the decompressed bytes. */
function rangeOf(at, inside, batch) {
  const [range, inner] = [at, inside].map((text) => /^(\d+)-(\d+)$/.exec(text ?? ""));
  if (inner) return { start: 0, end: batch.size, inside: { start: Number(inner[1]), end: Number(inner[2]) } };
  return range && { start: Number(range[1]), end: Number(range[2]) };
}

function Producers({ path, log }) {
  const { data } = useData(log.producers || log.last_stable_offset < log.log_end_offset ? `${path}/producers` : null, 2000);
  if (!data || (!data.producers.length && !data.aborted.length)) return null;
  return html`<section aria-labelledby="producers-title">
    <h2 id="producers-title">Producers</h2>
    <p class="muted">For each idempotent producer the log knows its last five batches. A sequence that is there already is a duplicate.</p>
    <div class="scroll" tabindex="0" role="group" aria-label="Producers"><table class="data">
      <thead><tr><th scope="col" class="num">Producer id</th><th scope="col" class="num">Epoch</th><th scope="col">Last sequences</th><th scope="col">Transaction</th></tr></thead>
      <tbody>${data.producers.map((each) => html`<tr key=${each.producer_id}><th scope="row" class="num">${each.producer_id}</th><td class="num">${each.producer_epoch}</td>
        <td>${each.batches.map((part) => (part.first_sequence === part.last_sequence ? part.first_sequence : `${part.first_sequence} to ${part.last_sequence}`)).join("; ")}</td>
        <td>${each.transaction_begins === null ? "none open" : `open since offset ${number(each.transaction_begins)}`}</td></tr>`)}</tbody>
    </table></div>
    ${data.aborted.length > 0 && html`<h2>Aborted transactions</h2><ul>${data.aborted.map((each) => html`<li>Producer ${each.producer_id}: offsets ${number(each.first_offset)} to ${number(each.last_offset)}</li>`)}</ul>`}
  </section>`;
}
