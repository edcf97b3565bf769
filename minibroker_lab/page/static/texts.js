/** Text with code in backquotes. */

import { html } from "./lib.js";

export function Rich({ text }) {
  return text.split(/`([^`]*)`/).map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));
}
