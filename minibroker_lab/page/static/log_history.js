/** A log before and after each compaction, retention and DeleteRecords. */

import { count, dayAndTime, html, number, size, useData } from "./lib.js";

const NAMES = { cleaning: "Compaction", retention: "Retention", deletion: "DeleteRecords" };

export function History({ path }) {
  const { data } = useData(`${path}/history`, 2000);
  if (!data || !data.changes.length) return null;
  return html`<section aria-labelledby="history-title">
    <h2 id="history-title">Before and after <span class="muted">${count(data.count, "change")}${data.count > data.changes.length ? `, the newest ${data.changes.length}` : ""}</span></h2>
    <p class="muted">Each box is a segment file with its base offset, to scale. Files that went are crossed out; those that compaction wrote again are striped.</p>
    <ol class="changes">${[...data.changes].reverse().map((each) => html`<${Change} key=${each.number} change=${each} />`)}</ol>
  </section>`;
}

function Change({ change }) {
  const { before, after } = change.facts;
  const sizes = new Map(after.segments.map((each) => [each.base_offset, each.size]));
  const had = new Map(before.segments.map((each) => [each.base_offset, each.size]));
  const scale = Math.max(before.size, after.size, 1);
  const gone = (each) => !sizes.has(each.base_offset);
  const written = (each) => change.kind === "cleaning" && had.get(each.base_offset) !== each.size;
  return html`<li>
    <p><time class="muted">${dayAndTime(change.time_ms)}</time> <span class="badge">${NAMES[change.kind]}</span> ${change.text}</p>
    <${Outline} name="Before" outline=${before} scale=${scale} isMarked=${gone} mark="gone" />
    <${Outline} name="After" outline=${after} scale=${scale} isMarked=${written} mark="written" />
  </li>`;
}

function Outline({ name, outline, scale, isMarked, mark }) {
  const hidden = outline.count - outline.segments.length;
  return html`<div class="outline"><span class="outline-name">${name}</span>
    <ul class="outline-segments" aria-label=${`Segments ${name.toLowerCase()}`}>${outline.segments.map((each) => {
      const isSo = isMarked(each);
      return html`<li key=${each.base_offset} class=${isSo ? mark : ""} style=${{ width: `${(100 * each.size) / scale}%` }} title=${`base offset ${each.base_offset}, ${each.size} bytes${isSo ? `, ${mark === "gone" ? "removed" : "written again"}` : ""}`}>
        <span>${number(each.base_offset)}</span>${isSo && html`<span class="sr-only">${mark === "gone" ? "removed" : "written again"}</span>`}</li>`;
    })}</ul>
    <span class="muted">${size(outline.size)} in ${count(outline.count, "segment")}${hidden > 0 ? `, of which ${number(hidden)} are not drawn` : ""}; log start ${number(outline.start)}</span></div>`;
}
