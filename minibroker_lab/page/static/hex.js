/** A hex dump of any length. Marks and field colors are boxes behind the text. */

import { html, useEffect, useLayoutEffect, useRef, useState } from "./lib.js";
import { leafAt, pathOf } from "./field_tree.js";

const LINE = 24; // px
const EXTRA_LINES = 6;
const MOST_LINES = 22;

/** Return the layout of a line, in characters. A line has 16 bytes on wide screens and 8 or 4 on narrow ones. */
function layoutOf(perLine) {
  const hexAt = 10;
  const asciiAt = hexAt + 3 * perLine + (perLine > 8 ? 1 : 0) + 1;
  return { perLine, hexAt, asciiAt, width: asciiAt + perLine, hexOf: (index) => hexAt + 3 * index + (index >= 8 ? 1 : 0), asciiOf: (index) => asciiAt + index };
}

export function Hex({ name, space, spaces, marked, chosen, onPoint, onChoose }) {
  const box = useRef(null);
  const probe = useRef(null);
  const [view, setView] = useState({ top: 0, height: LINE * MOST_LINES, character: 8, perLine: 16 });
  const { perLine } = view;
  const layout = layoutOf(perLine);
  const lines = Math.max(1, Math.ceil(space.bytes.length / perLine));

  useLayoutEffect(() => {
    const measure = () => {
      const character = probe.current.getBoundingClientRect().width / 64;
      const room = box.current.clientWidth / character;
      setView((old) => ({ ...old, character, height: box.current.clientHeight, perLine: room >= layoutOf(16).width + 1 ? 16 : room >= layoutOf(8).width + 1 ? 8 : 4 }));
    };
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    document.fonts?.ready.then(measure);
    measure();
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (!marked || marked.end === marked.start) return;
    const [top, bottom] = [Math.floor(marked.start / perLine) * LINE, Math.ceil(marked.end / perLine) * LINE];
    const { scrollTop, clientHeight } = box.current;
    if (top >= scrollTop && top < scrollTop + clientHeight - LINE) return;
    if (top < scrollTop && bottom > scrollTop + clientHeight) return; // The mark fills the view.
    box.current.scrollTop = Math.max(0, top - clientHeight / 3);
  }, [marked, perLine, space]);

  const first = Math.max(0, Math.floor(view.top / LINE) - EXTRA_LINES);
  const last = Math.min(lines - 1, Math.ceil((view.top + view.height) / LINE) + EXTRA_LINES);
  const byteAt = (event) => {
    const place = box.current.getBoundingClientRect();
    const column = (event.clientX - place.left - box.current.clientLeft - 12 + box.current.scrollLeft) / view.character;
    const line = Math.floor((event.clientY - place.top + box.current.scrollTop - 8) / LINE);
    for (let index = 0; index < perLine; index++) {
      const isHex = column >= layout.hexOf(index) - 0.5 && column < layout.hexOf(index) + 2.5;
      if (isHex || (column >= layout.asciiOf(index) && column < layout.asciiOf(index) + 1)) {
        const byte = line * perLine + index;
        return byte < space.bytes.length ? byte : null;
      }
    }
    return null;
  };
  const leafOf = (event) => {
    const byte = byteAt(event);
    return byte === null ? null : leafAt(space, byte);
  };
  const pressed = (event) => {
    const leaves = space.leaves;
    const now = leaves.indexOf(chosen);
    const lineDown = () => chosen && leafAt(space, Math.min(space.bytes.length - 1, chosen.start + perLine));
    const lineUp = () => chosen && leafAt(space, Math.max(0, chosen.start - perLine));
    const moves = { ArrowRight: () => leaves[now + 1], ArrowLeft: () => leaves[now - 1], ArrowDown: lineDown, ArrowUp: lineUp, Home: () => leaves[0], End: () => leaves.at(-1) };
    if (!(event.key in moves)) return;
    event.preventDefault();
    onChoose((chosen?.space === space && moves[event.key]()) || chosen || leaves[0] || null, { isFromHex: true });
  };
  const shown = marked && marked.space === space ? marked : null;
  return html`<div class="hex-side">
    <p class="caption"><span>${space.title}</span>${shown && html`<span class="muted">${shown.end > shown.start ? `bytes ${shown.start} to ${shown.end - 1}` : `no byte, at ${shown.start}`}</span>`}
      ${space !== spaces[0] && html`<button type="button" class="link" onClick=${() => onChoose(spaces[0].leaves[0])}>Back to the frame</button>`}</p>
    <div class="hex" ref=${box} tabindex="0" role="group" aria-roledescription="hex dump" aria-label=${`Bytes of the ${name}. Arrow keys go from field to field.`}
      onScroll=${() => setView((old) => ({ ...old, top: box.current.scrollTop }))}
      onMouseMove=${(event) => onPoint(leafOf(event), { isFromHex: true })} onMouseLeave=${() => onPoint(null)}
      onClick=${(event) => onChoose(leafOf(event), { isFromHex: true })} onKeyDown=${pressed}>
      <span class="probe" ref=${probe} aria-hidden="true">${"0".repeat(64)}</span>
      <div class="hex-all" style=${{ height: `${lines * LINE}px`, width: `${layout.width}ch` }}>
        <${Boxes} space=${space} layout=${layout} first=${first} last=${last} marked=${shown} />
        <pre style=${{ transform: `translateY(${first * LINE}px)` }}>${textOf(space.bytes, layout, first, last)}</pre>
      </div>
    </div>
    <p class="sr-only" role="status">${chosen && chosen.space === space ? `${pathOf(chosen)}: ${chosen.value ?? ""}` : ""}</p>
  </div>`;
}

function textOf(bytes, layout, first, last) {
  const lines = [];
  for (let line = first; line <= last; line++) {
    const start = line * layout.perLine;
    let hex = "";
    let ascii = "";
    for (let index = 0; index < layout.perLine; index++) {
      if (index === 8) hex += " ";
      const byte = bytes[start + index];
      hex += byte === undefined ? "   " : `${byte.toString(16).padStart(2, "0")} `;
      ascii += byte === undefined ? "" : byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·";
    }
    lines.push(`${start.toString(16).padStart(8, "0")}  ${hex} ${ascii}`);
  }
  return lines.join("\n");
}

/** The colors of the visible fields, and the mark. */
function Boxes({ space, layout, first, last, marked }) {
  const [from, to] = [first * layout.perLine, (last + 1) * layout.perLine];
  const boxes = [];
  for (const leaf of space.leaves) {
    if (leaf.end <= from || leaf.start >= to) continue;
    boxes.push(...boxesOf(Math.max(leaf.start, from), Math.min(leaf.end, to), layout, `tint ${leaf.kind}`));
  }
  if (marked) {
    const [start, end] = [Math.max(marked.start, from), Math.min(marked.end, to)];
    if (start < end) boxes.push(...boxesOf(start, end, layout, "mark"));
  }
  return html`<div class="boxes" aria-hidden="true">${boxes}</div>`;
}

function boxesOf(start, end, layout, kind) {
  const boxes = [];
  for (let line = Math.floor(start / layout.perLine); line * layout.perLine < end; line++) {
    const begin = Math.max(start - line * layout.perLine, 0);
    const stop = Math.min(end - line * layout.perLine, layout.perLine);
    const top = `${line * LINE}px`;
    const left = layout.hexOf(begin);
    boxes.push(html`<i class=${kind} style=${{ top, left: `${left - 0.4}ch`, width: `${layout.hexOf(stop - 1) + 2 - left + 0.8}ch` }}></i>`);
    boxes.push(html`<i class=${kind} style=${{ top, left: `${layout.asciiOf(begin)}ch`, width: `${stop - begin}ch` }}></i>`);
  }
  return boxes;
}
