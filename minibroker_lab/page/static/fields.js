/** The tree of fields, with a sentence about the selected field. */

import { html, Rich, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./lib.js";
import { pathOf } from "./field_tree.js";

const LINE = 26; // px
const EXTRA_LINES = 8;

export function Fields({ name, model, opened, marked, chosen, handle, onPoint, onChoose, onToggle, lifeOf = null }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 500 });
  const nodes = useMemo(() => model.visible(opened), [model, opened]);
  const places = useMemo(() => new Map(nodes.map((node, index) => [node, index])), [nodes]);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => setView((old) => ({ ...old, height: box.current.clientHeight })));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const show = (node) => {
    const index = places.get(node);
    if (index === undefined) return;
    const [top, { scrollTop, clientHeight }] = [index * LINE, box.current];
    if (top < scrollTop || top + LINE > scrollTop + clientHeight) box.current.scrollTop = Math.max(0, top - clientHeight / 2);
  };
  handle.current = { show };
  useEffect(() => {
    if (chosen) show(chosen);
  }, []);
  const chosenAt = places.get(chosen) ?? -1;
  const pressed = (event) => {
    const last = nodes.length - 1;
    const node = nodes[chosenAt];
    let target = null;
    if (event.key === "ArrowDown") target = nodes[Math.min(last, chosenAt + 1)];
    else if (event.key === "ArrowUp") target = nodes[Math.max(0, chosenAt - 1)];
    else if (event.key === "Home") target = nodes[0];
    else if (event.key === "End") target = nodes[last];
    else if (event.key === "ArrowRight" && node?.children.length) opened.has(node) ? (target = node.children[0]) : onToggle(node);
    else if (event.key === "ArrowLeft" && node) opened.has(node) ? onToggle(node) : (target = node.depth > 0 ? node.parent : null);
    else if ((event.key === "Enter" || event.key === " ") && node?.children.length) onToggle(node);
    else return;
    event.preventDefault();
    if (target) {
      onChoose(target);
      show(target);
    }
  };
  const first = Math.max(0, Math.floor(view.top / LINE) - EXTRA_LINES);
  const last = Math.min(nodes.length - 1, Math.ceil((view.top + view.height) / LINE) + EXTRA_LINES);
  const shownMark = marked && model.shownFor(marked, opened);
  return html`<div class="fields-side">
    <p class="caption"><span>Fields</span></p>
    <div class="fields" ref=${box} role="tree" tabindex="0" aria-label=${`Fields of the ${name}`}
      aria-activedescendant=${chosenAt >= 0 ? `${name}-field-${chosen.id}` : null}
      onScroll=${() => setView((old) => ({ ...old, top: box.current.scrollTop }))} onKeyDown=${pressed} onMouseLeave=${() => onPoint(null)}>
      <div class="fields-all" role="presentation" style=${{ height: `${nodes.length * LINE}px` }}>
        ${nodes.slice(first, last + 1).map((node, index) => html`<${Field} key=${node.id} name=${name} node=${node} top=${(first + index) * LINE} isOpen=${opened.has(node)}
          isMarked=${node === shownMark} isChosen=${node === chosen} onPoint=${onPoint} onChoose=${onChoose} onToggle=${onToggle} />`)}
      </div>
    </div>
    <${About} node=${marked} life=${marked && lifeOf ? lifeOf(marked) : null} />
  </div>`;
}

function Field({ name, node, top, isOpen, isMarked, isChosen, onPoint, onChoose, onToggle }) {
  const hasChildren = node.children.length > 0;
  const place = { transform: `translateY(${top}px)`, paddingInlineStart: `${8 + 16 * node.depth}px` };
  return html`<div class=${`field-row${isMarked ? " marked" : ""}${isChosen ? " chosen" : ""}${node.fault ? " faulty" : ""}`} id=${`${name}-field-${node.id}`} role="treeitem"
    aria-level=${node.depth + 1} aria-expanded=${hasChildren ? String(isOpen) : null} aria-selected=${isChosen ? "true" : "false"} style=${place}
    onMouseEnter=${() => onPoint(node)} onClick=${() => { onChoose(node); if (hasChildren && isChosen) onToggle(node); }}>
    <span class=${`twist${isOpen ? " open" : ""}`} aria-hidden="true" onClick=${(event) => { event.stopPropagation(); if (hasChildren) onToggle(node); }}>${hasChildren ? "▸" : ""}</span>
    <span class=${`swatch ${node.kind}`} aria-hidden="true"></span>
    <span class="name">${node.name}</span>
    <span class="value">${valueOf(node)}</span>
    <span class="note">${node.fault || node.note}</span>
  </div>`;
}

function valueOf(node) {
  if (node.value === null || node.value === undefined) return "";
  if (node.type.includes("ARRAY")) return `${node.value} ${node.value === 1 ? "element" : "elements"}`;
  const text = isText(node) ? `“${node.value}”` : String(node.value);
  return node.cut ? `${text} … (${node.cut} bytes)` : text;
}

function isText(node) {
  return /STRING|TEXT/.test(node.type) && typeof node.value === "string";
}

function About({ node, life }) {
  if (!node) return html`<div class="about-field"><p class="muted">Point at bytes or at a field. Choose one to keep it marked; arrow keys go on from there.</p></div>`;
  const length = node.end - node.start;
  return html`<div class="about-field">
    <p><strong>${node.name}</strong> <code>${node.type}</code> <span class="muted">${length === 1 ? "1 byte" : `${length} bytes`} at ${node.start}</span></p>
    ${node.meaning && html`<p><${Rich} text=${node.meaning} />${node.kip && html` <span class="kip">${node.kip}</span>`}</p>`}
    ${node.note && html`<p class="muted">${node.note}</p>`}
    ${node.fault && html`<p class="fault">${node.fault}</p>`}
    ${life && html`<p><a href=${life}>Follow this record</a></p>`}
    <p class="muted path">${pathOf(node)}</p>
  </div>`;
}
