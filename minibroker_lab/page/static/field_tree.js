/** Trees of fields. Each node has its parent, its position, and the bytes that contain it. */

export function decodeHex(hex) {
  const bytes = new Uint8Array(hex.length / 2);
  for (let index = 0; index < bytes.length; index++) bytes[index] = parseInt(hex.substr(2 * index, 2), 16);
  return bytes;
}

function hexOf(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

export function decodeBase64(text) {
  const raw = atob(text);
  return Uint8Array.from(raw, (character) => character.charCodeAt(0));
}

/** The kinds of fields. Each kind has its own color. */
const KINDS = [
  [/^\((length|count|size|tag|presence)\)$/, "frame"],
  [/^(ERROR|UNKNOWN)$/, "fault"],
  [/^NOT_OPENED$/, "closed"],
  [/^(TEXT|STRING|COMPACT_STRING|NULLABLE_STRING|COMPACT_NULLABLE_STRING)$/, "text"],
  [/^(BYTES|COMPACT_BYTES|NULLABLE_BYTES|COMPACT_NULLABLE_BYTES|COMPRESSED|RECORDS)$/, "bytes"],
  [/^UUID$/, "uuid"],
];

function kindOf(node) {
  if (/^(ARRAY|STRUCT|TAGGED_FIELDS?|BATCH|MESSAGE|RECORD)$/.test(node.type)) return "group";
  for (const [pattern, kind] of KINDS) if (pattern.test(node.name) || pattern.test(node.type)) return kind;
  return "number";
}

/** Bytes with their leaf fields. The first space is the frame, and the others are decompressed batches. */
class Space {
  constructor(bytes, title, owner = null) {
    this.bytes = bytes;
    this.title = title;
    this.owner = owner; // The node whose bytes were decompressed.
    this.leaves = [];
  }
}

function kipOf(kip) {
  return kip ? (typeof kip === "number" ? `KIP-${kip}` : kip) : "";
}

class Model {
  constructor() {
    this.spaces = [];
    this.root = null;
  }

  /** Return the nodes that are initially open: all nodes of a small tree, otherwise the upper ones. */
  openAtFirst(chosen) {
    const opened = new Set();
    let left = 400;
    let level = [this.root];
    while (level.length && left > 0) {
      const next = [];
      for (const node of level) {
        if (!node.children.length || (node.children.length > 60 && node.depth > 1)) continue;
        if (isBoring(node)) continue;
        opened.add(node);
        left -= node.children.length;
        next.push(...node.children);
      }
      level = next;
    }
    return chosen ? this.withParentsOf(chosen, opened) : opened;
  }

  withParentsOf(node, opened) {
    const next = new Set(opened);
    for (let each = node.parent; each; each = each.parent) next.add(each);
    return next;
  }

  /** Return the node, or its nearest visible ancestor. */
  shownFor(node, opened) {
    let shown = node;
    for (let each = node.parent; each; each = each.parent) if (!opened.has(each)) shown = each;
    return shown;
  }

  /** Return the visible nodes from top to bottom. */
  visible(opened) {
    const shown = [];
    const add = (node) => {
      shown.push(node);
      if (opened.has(node)) node.children.forEach(add);
    };
    this.root.children.forEach(add);
    return shown;
  }
}

/** Return whether a node's children add nothing to its value. */
function isBoring(node) {
  return node.value !== null && node.value !== undefined && node.children.every((child) => child.name.startsWith("("));
}

export function flatten(tree, bytes, meanings, title) {
  const model = new Model();
  model.spaces.push(new Space(bytes, title));
  let count = 0;
  const build = (raw, parent, depth, space) => {
    const node = { ...raw, id: count++, parent, depth, space, children: [], kind: kindOf(raw) };
    if (node.value?.base64 !== undefined) node.value = hexOf(decodeBase64(node.value.base64));
    const meaning = meanings[raw.about] ?? meanings[raw.name];
    if (meaning) Object.assign(node, { meaning: meaning.text, kip: kipOf(meaning.kip) });
    const children = raw.children ?? [];
    node.children = children.map((child) => build(child, node, depth + 1, space));
    if (!children.length && raw.end > raw.start) space.leaves.push(node);
    if (raw.inside) {
      const inner = new Space(decodeBase64(raw.inside.base64), `${node.name} of ${parent.name}, decompressed`, node);
      model.spaces.push(inner);
      node.children = raw.inside.children.map((child) => build(child, node, depth + 1, inner));
    }
    return node;
  };
  model.root = build(tree, null, -1, model.spaces[0]);
  for (const space of model.spaces) space.leaves.sort((a, b) => a.start - b.start);
  return model;
}

/** Return the path of a node, such as topics[0].partitions[1]. */
export function pathOf(node) {
  const names = [];
  for (let each = node; each?.parent; each = each.parent) names.unshift(each.name);
  return names.join(".").replaceAll(".[", "[");
}

/** Return the leaf at a byte, or null. */
export function leafAt(space, byte) {
  let [low, high] = [0, space.leaves.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const leaf = space.leaves[middle];
    if (byte < leaf.start) high = middle - 1;
    else if (byte >= leaf.end) low = middle + 1;
    else return leaf;
  }
  return null;
}

/**
 * Return the smallest node with all bytes from `start` to `end`, or with the range `inside` of their decompressed
 * content.
 */
export function nodeAt(model, { start, end, inside = null }) {
  let space = model.spaces[0];
  if (inside) {
    space = model.spaces.find(({ owner }) => owner && owner.start >= start && owner.end <= end) ?? space;
    if (space !== model.spaces[0]) return smallest(space.owner.children.filter((child) => child.space === space), inside.start, inside.end) ?? space.owner;
  }
  return smallest(model.root.children, start, end) ?? leafAt(space, start);
}

function smallest(nodes, start, end) {
  const found = nodes.find((node) => node.start <= start && node.end >= end && node.end > node.start);
  if (!found) return null;
  const within = found.start === start && found.end === end && found.children.length !== 1 ? null : smallest(found.children.filter((child) => child.space === found.space), start, end);
  return within ?? found;
}

/**
 * Return the record that is or contains a node, with its offset in the batch: { node, offset }. Null if there is none.
 */
export function recordOf(node) {
  for (let each = node; each?.parent; each = each.parent) {
    if (each.type === "RECORD" && each.value !== null && each.value !== undefined) return { node: each, offset: Number(each.value) };
  }
  return null;
}
