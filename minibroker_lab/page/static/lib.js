/** Functions shared by all views: elements, the current path, requests to the page's server, and formatting. */

import htm from "./vendor/htm.js";
import { h as create } from "./vendor/preact.js";
import { useCallback, useEffect, useState } from "./vendor/preact-hooks.js";

export { render } from "./vendor/preact.js";
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact-hooks.js";

/** The prefix of all paths: empty, or "/lab" if the control plane serves the page. */
const BASE = new URL("..", import.meta.url).pathname.slice(0, -1);

/** Return the URL path for a path of the page's server. */
export const address = (path) => BASE + path;

/** Create an element. A link or a file that starts with "/" is a path of the page. */
export function h(type, props, ...children) {
  for (const name of ["href", "src"]) {
    if (typeof type === "string" && props?.[name]?.startsWith?.("/")) props = { ...props, [name]: address(props[name]) };
  }
  return create(type, props, ...children);
}
export const html = htm.bind(h);

/** Text with code in backquotes. */
export function Rich({ text }) {
  return text.split(/`([^`]*)`/).map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));
}

/** Go to another path of the page. `replace` replaces the current entry of the browser's history. */
export function go(path, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", address(path));
  dispatchEvent(new PopStateEvent("popstate"));
}

/** Return the current path and query: { path, query }. */
export function useAddress() {
  const read = () => ({ path: location.pathname.slice(BASE.length), query: new URLSearchParams(location.search) });
  const [address, setAddress] = useState(read);
  useEffect(() => {
    const moved = () => setAddress(read());
    addEventListener("popstate", moved);
    return () => removeEventListener("popstate", moved);
  }, []);
  return address;
}

/** Follow links within the page without reloading it. */
export function followLinks(event) {
  const link = event.target.closest?.("a[href]");
  if (!link || link.origin !== location.origin || !link.pathname.startsWith(`${BASE}/`) || link.target || event.defaultPrevented) return;
  if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(link.pathname.slice(BASE.length) + link.search);
}

/** Send a request to the page's server. Errors have the server's sentence as their message. */
export async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(address(path), options);
  } catch {
    throw new Error("The broker does not answer. It may have stopped.");
  }
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  let message = `${answer.status} ${answer.statusText}`;
  try {
    message = (await answer.json()).message ?? message;
  } catch {
    // A response that is not JSON has no message.
  }
  throw new Error(message);
}

/** Return the data at `path`: { data, error, reload }. It is fetched again every `every` ms, if given. */
export function useData(path, every = 0) {
  const [state, setState] = useState({ path: null, data: null, error: null });
  const [round, setRound] = useState(0);
  useEffect(() => {
    let isOver = false;
    let timer;
    const look = async () => {
      try {
        const data = await ask(path);
        if (!isOver) setState({ path, data, error: null });
      } catch (error) {
        if (!isOver) setState((old) => ({ path, data: old.path === path ? old.data : null, error: error.message }));
      }
      if (every && !isOver) timer = setTimeout(look, every);
    };
    if (path) look();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [path, every, round]);
  const reload = useCallback(() => setRound((old) => old + 1), []);
  return state.path === path ? { ...state, reload } : { data: null, error: null, reload };
}

/** Return whether a media query matches. */
export function useMedia(query) {
  const [holds, setHolds] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const changed = () => setHolds(list.matches);
    list.addEventListener("change", changed);
    return () => list.removeEventListener("change", changed);
  }, [query]);
  return holds;
}

const NUMBERS = new Intl.NumberFormat("en");

/** Return a number with separators, such as 1,234. */
export const number = (value) => NUMBERS.format(value);

/** Return a number with a noun: "1 byte", "3 bytes". */
export const count = (value, word) => `${number(value)} ${word}${value === 1 ? "" : "s"}`;

/** Return a number of bytes as a short text. */
export function size(bytes) {
  if (bytes < 10_000) return `${number(bytes)} B`;
  if (bytes < 10_000_000) return `${number(Math.round(bytes / 1024))} KiB`;
  return `${number(Math.round(bytes / 1024 / 1024))} MiB`;
}

/** Return a number of milliseconds as a short text. */
export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 10) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return `${(ms / 1000).toFixed(1)} s`;
}

/** Return the local time of day, such as 14:03:59.125. */
export function timeOfDay(ms) {
  const time = new Date(ms);
  const two = (value) => String(value).padStart(2, "0");
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${String(time.getMilliseconds()).padStart(3, "0")}`;
}

/** Return the local date and time. */
export function dayAndTime(ms) {
  const time = new Date(ms);
  const two = (value) => String(value).padStart(2, "0");
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${timeOfDay(ms)}`;
}

/** A message about a failure or an empty view. */
export function Notice({ kind = "info", children }) {
  return html`<div class=${`notice ${kind}`} role=${kind === "error" ? "alert" : null}>${children}</div>`;
}
