/** The Do view: forms for operations on the broker, and the equivalent lines of Python, curl and Kafka's tools. */

import { ActionForm } from "./do_form.js";
import { html, Notice, useData } from "./lib.js";

export function DoView({ name = "produce", query }) {
  const { data, error } = useData("/data/actions");
  const choices = useData("/data/choices", 2000);
  const action = data?.actions.find((each) => each.name === name);
  return html`<main id="main" class="page do" tabindex="-1">
    <h1>Do</h1>
    ${error && html`<${Notice} kind="error">${error}<//>`}
    ${data && html`<div class="do-view">
      <nav class="actions" aria-label="Actions"><ul>${data.actions.map((each) => html`<li key=${each.name}><a href=${`/do/${each.name}`} aria-current=${each.name === name ? "page" : null}>${each.title}</a></li>`)}</ul></nav>
      ${action
        ? html`<${ActionForm} key=${name} action=${action} query=${query} choices=${choices.data} onDone=${choices.reload} />`
        : html`<p>The lab has no action <code>${name}</code>.</p>`}
      <${Now} state=${choices.data} />
    </div>`}
  </main>`;
}

/** The state that the actions change. */
function Now({ state }) {
  if (!state) return null;
  return html`<section class="now" aria-labelledby="now-title">
    <h2 id="now-title">The broker now</h2>
    <dl>
      <dt>Clock</dt><dd><time dateTime=${new Date(state.now_ms).toISOString()}>${new Date(state.now_ms).toISOString().replace("T", " ").slice(0, 19)} UTC</time></dd>
      <dt>Brokers</dt><dd>${state.brokers.map(({ node_id, is_up }) => html`<span class=${`badge ${is_up ? "ok" : "error"}`}>${node_id} ${is_up ? "up" : "down"}</span> `)}</dd>
      <dt>Topics</dt><dd>${state.topics.length ? state.topics.slice(0, 20).join(", ") : "none"}</dd>
      <dt>Faults</dt><dd>${state.faults.length ? html`<ul>${state.faults.map(({ fired, fault }) => html`<li><code>${Object.entries(fault).map(([field, value]) => `${field}=${value}`).join(" ")}</code> hit ${fired}</li>`)}</ul>` : "none"}</dd>
      <dt>Snapshots</dt><dd>${state.snapshots.join(", ") || "none"}</dd>
    </dl>
  </section>`;
}
