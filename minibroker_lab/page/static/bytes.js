/** Bytes next to their fields. Pointing at a byte or a field marks the other. */

import { html, useCallback, useMemo, useRef, useState } from "./lib.js";
import { decodeHex, flatten, leafAt, nodeAt } from "./field_tree.js";
import { Fields } from "./fields.js";
import { Hex } from "./hex.js";

/**
 * Args: `hex` has the bytes, `tree` their fields, and `name` is used for ids. `at` is the initial byte or range ({
 * start, end, inside }). `lifeOf` returns the path of the history of the record that contains a node.
 */
export function Bytes({ name, hex, tree, meanings = {}, title = "Frame", at = null, lifeOf = null }) {
  const model = useMemo(() => flatten(tree, decodeHex(hex), meanings, title), [hex, tree]);
  const [chosen, setChosen] = useState(() => (at === null ? null : at.end ? nodeAt(model, at) : leafAt(model.spaces[0], at.start)));
  const [pointed, setPointed] = useState(null);
  const [opened, setOpened] = useState(() => model.openAtFirst(chosen));
  const fields = useRef(null);
  const choose = useCallback((node, { isFromHex = false } = {}) => {
    setChosen(node);
    if (node && isFromHex) {
      setOpened((old) => model.withParentsOf(node, old));
      requestAnimationFrame(() => fields.current?.show(node));
    }
  }, [model]);
  const point = useCallback((node, { isFromHex = false } = {}) => {
    setPointed(node);
    if (node && isFromHex) requestAnimationFrame(() => fields.current?.show(model.shownFor(node, opened)));
  }, [model, opened]);
  const toggle = useCallback((node) => setOpened((old) => {
    const next = new Set(old);
    if (!next.delete(node)) next.add(node);
    return next;
  }), []);
  const marked = pointed ?? chosen;
  const space = marked ? marked.space : model.spaces[0];
  return html`<div class="byte-view">
    <${Hex} name=${name} space=${space} spaces=${model.spaces} marked=${marked} chosen=${chosen} onPoint=${point} onChoose=${choose} />
    <${Fields} name=${name} model=${model} opened=${opened} marked=${marked} chosen=${chosen} handle=${fields} onPoint=${point} onChoose=${choose} onToggle=${toggle} lifeOf=${lifeOf} />
  </div>`;
}
