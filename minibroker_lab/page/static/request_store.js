/** The requests that a list shows: their numbers, the loaded rows, and a stream of new ones. */

import { address, ask, useCallback, useEffect, useRef, useState } from "./lib.js";

const MOST_ROWS = 20_000; // Loaded rows. Others are fetched again.
const PART = 200;
const LOOK_MS = 5_000;
const ASLEEP_MS = 20_000; // If a timer fires this late, the machine has slept and the stream may be dead.

/**
 * Return the requests that match a filter (a query string), oldest first: { length, at(index), indexOf(number),
 * need(first, last), forgotten, isLoaded, error }.
 */
export function useRequests(filter, isPaused) {
  const store = useRef(null);
  if (store.current?.filter !== filter) store.current = new Requests(filter);
  const [, draw] = useState(0);
  const redraw = useCallback(() => draw((old) => old + 1), []);
  useEffect(() => {
    if (!isPaused) return store.current.connect(redraw);
  }, [filter, isPaused]);
  return store.current;
}

class Requests {
  constructor(filter) {
    this.filter = filter;
    this.rows = new Map();
    this.asked = new Set();
    this.numbers = filter ? [] : null; // Without a filter, all numbers from `first` to `last` are shown.
    this.first = 1;
    this.last = 0;
    this.isLoaded = false;
    this.error = null;
    this.redraw = () => {};
    this.at = this.at.bind(this);
    this.indexOf = this.indexOf.bind(this);
  }

  get length() {
    return this.numbers ? this.numbers.length : Math.max(0, this.last - this.first + 1);
  }

  get forgotten() {
    return this.first - 1;
  }

  at(index) {
    const number = this.numbers ? this.numbers[index] : this.first + index;
    return { number, row: this.rows.get(number) };
  }

  indexOf(number) {
    if (!this.numbers) return number - this.first;
    let [low, high] = [0, this.numbers.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.numbers[middle] < number) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Follow the stream. All requests are loaded when it opens, and again after the broker was away. */
  connect(redraw) {
    this.redraw = redraw;
    let frame = 0;
    let source;
    const open = () => {
      source?.close();
      source = new EventSource(address(`/data/requests/live${this.filter ? `?${this.filter}` : ""}`));
      source.onopen = () => this.load();
      source.onmessage = (event) => {
        this.take(JSON.parse(event.data));
        frame ||= requestAnimationFrame(() => {
          frame = 0;
          redraw();
        });
      };
    };
    open();
    let looked = Date.now();
    const timer = setInterval(() => {
      const now = Date.now();
      if (now - looked > ASLEEP_MS) open();
      looked = now;
    }, LOOK_MS);
    return () => {
      clearInterval(timer);
      source.close();
      cancelAnimationFrame(frame);
    };
  }

  async load() {
    try {
      const state = await ask(`/data/requests${this.filter ? `?${this.filter}` : ""}`);
      if (state.last < this.last) this.rows.clear(); // The page is connected to another broker.
      if (this.numbers) this.numbers = state.numbers;
      this.asked.clear();
      Object.assign(this, { first: state.first, last: state.last, isLoaded: true, error: null });
    } catch (error) {
      this.error = error.message;
    }
    this.redraw();
  }

  take({ first, last, rows }) {
    Object.assign(this, { first, last });
    for (const row of rows) {
      this.rows.set(row.number, row);
      if (this.numbers && this.isLoaded && row.number > (this.numbers.at(-1) ?? 0)) this.numbers.push(row.number);
      else if (this.numbers && this.isLoaded && this.numbers[this.indexOf(row.number)] !== row.number) this.numbers.splice(this.indexOf(row.number), 0, row.number);
    }
    if (this.numbers && this.numbers[0] < first) this.numbers = this.numbers.slice(this.indexOf(first));
    if (this.rows.size > MOST_ROWS) {
      for (const number of [...this.rows.keys()].sort((a, b) => a - b).slice(0, MOST_ROWS / 2)) this.rows.delete(number);
      this.asked.clear();
    }
  }

  /** Load the missing rows from one index to another. */
  need(first, last) {
    for (let index = first; index <= last && index < this.length; index++) {
      const { number, row } = this.at(index);
      const part = Math.floor(number / PART);
      if (!row && !this.asked.has(part)) {
        this.asked.add(part);
        this.loadPart(part);
      }
    }
  }

  async loadPart(part) {
    try {
      const { rows } = await ask(`/data/requests/rows?first=${part * PART}&last=${part * PART + PART - 1}`);
      for (const row of rows) this.rows.set(row.number, row);
    } catch (error) {
      this.error = error.message;
    }
    this.asked.delete(part);
    this.redraw();
  }
}
