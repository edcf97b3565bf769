/** A part of a segment file drawn to scale: batches, index entries as arrows, and the offsets of the log. */

import { html, number, useData } from "./lib.js";

const WIDTH = 1000;
const TOP = 62;
const HEIGHT = 46;
const INDEX_TOP = 168;
/** Room for the names of the indexes, beside the arrows that rise from them. */
const GUTTER = 130;

export function BatchMap({ path, batches, segment, log, chosen, marked, onChoose }) {
  const indexes = useData(segment ? `${path}/indexes?segment=${segment.base_offset}` : null, 2000).data;
  if (!batches.length || !segment) return null;
  const start = batches[0].position;
  const end = batches.at(-1).position + batches.at(-1).size;
  const scale = WIDTH / Math.max(1, end - start);
  const x = (position) => Math.min(WIDTH, Math.max(0, (position - start) * scale));
  const placeOf = (offset) => {
    if (offset >= log.log_end_offset && segment.is_active && batches.at(-1).last_offset + 1 >= log.log_end_offset) return end;
    const batch = batches.find((each) => each.last_offset >= offset);
    return batch && batch.base_offset <= offset ? batch.position : null;
  };
  const marks = [["log start", log.log_start_offset], ["last stable", log.last_stable_offset], ["high watermark", log.high_watermark], ["end", log.log_end_offset]]
    .map(([name, offset]) => ({ name, offset, position: placeOf(offset) })).filter((each) => each.position !== null);
  const entries = (indexes?.offset_entries ?? []).filter((each) => each.position >= start && each.position < end);
  const times = (indexes?.time_entries ?? []).map((each) => ({ ...each, position: placeOf(each.offset) })).filter((each) => each.position !== null && each.position < end);
  const found = marked && marked.end > marked.start && marked.file === segment.file ? marked : null;
  return html`<div class="map scroll" tabindex="0" role="group" aria-label="Batches to scale">
    <svg viewBox=${`-${GUTTER} 0 ${WIDTH + GUTTER + 20} 236`} role="img" aria-label=${`${batches.length} batches, bytes ${start} to ${end} of ${segment.file}; ${entries.length} entries of the offset index and ${times.length} of the time index point to them`}>
      <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path d="M0 0 8 4 0 8z" /></marker></defs>
      ${marks.map((each, row) => html`<g class="log-mark" key=${each.name}><line x1=${x(each.position)} x2=${x(each.position)} y1=${8 + 13 * row} y2=${TOP + HEIGHT} />
        <text x=${x(each.position) + (each.position > (start + end) / 2 ? -5 : 5)} y=${13 + 13 * row} text-anchor=${each.position > (start + end) / 2 ? "end" : "start"}>${each.name} ${number(each.offset)}</text></g>`)}
      ${batches.map((each) => {
        const isChosen = chosen && chosen.position === each.position && chosen.segment === each.segment;
        const width = Math.max(0.6, x(each.position + each.size) - x(each.position));
        return html`<g key=${each.position} class=${`batch ${each.is_control ? "control" : each.is_transactional ? "transactional" : ""} ${isChosen ? "chosen" : ""}`} onClick=${() => onChoose(each)}>
          <title>offsets ${each.base_offset} to ${each.last_offset}, ${each.size} bytes at ${each.position}</title>
          <rect x=${x(each.position)} y=${TOP} width=${width} height=${HEIGHT} rx="2" />
          ${width > 34 && html`<text x=${x(each.position) + width / 2} y=${TOP + HEIGHT / 2 + 4} text-anchor="middle">${number(each.base_offset)}</text>`}
        </g>`;
      })}
      ${found && html`<rect class="found" x=${x(found.start)} y=${TOP - 5} width=${Math.max(2, x(found.end) - x(found.start))} height=${HEIGHT + 10} rx="4" />`}
      <text class="axis" x="0" y="232">byte ${number(start)}</text>
      <text class="axis" x=${WIDTH} y="232" text-anchor="end">byte ${number(end)}</text>
      <${IndexName} name="offset index" count=${segment.offset_entries} stride=${indexes?.strides[0]} y=${INDEX_TOP} />
      ${entries.map((each) => html`<path key=${each.slot} class="arrow" marker-end="url(#arrow)" d=${`M${x(each.position)} ${INDEX_TOP + 4}V${TOP + HEIGHT + 4}`}><title>offset ${each.offset} is in the batch at byte ${each.position}</title></path>`)}
      <${IndexName} name="time index" count=${segment.time_entries} stride=${indexes?.strides[1]} y=${INDEX_TOP + 36} />
      ${times.map((each) => html`<path key=${each.slot} class="arrow time" marker-end="url(#arrow)" d=${`M${x(each.position) + 3} ${INDEX_TOP + 40}V${TOP + HEIGHT + 4}`}><title>time ${each.timestamp}, offset ${each.offset}</title></path>`)}
    </svg>
    <p class="legend"><span class="key plain"></span> batch <span class="key transactional"></span> transactional <span class="key control"></span> end of a transaction
      <span class="muted">The index has an entry about every ${number(log.index_interval_bytes)} bytes.</span></p>
  </div>`;
}

function IndexName({ name, count, stride = 1, y }) {
  const entries = `${number(count)} ${count === 1 ? "entry" : "entries"}`;
  return html`<text class="axis" text-anchor="end"><tspan x="-12" y=${y}>${name}</tspan>
    <tspan x="-12" y=${y + 14}>${entries}${stride > 1 ? `, shown: 1 of ${stride}` : ""}</tspan></text>`;
}
