/** The form of one action: its fields, the equivalent lines, and the control plane's response. */

import { ask, go, html, Notice, Rich, useEffect, useRef, useState } from "./lib.js";

const PAUSE_MS = 150;
const LINES = [["python", "Python"], ["curl", "curl"], ["tool", "Kafka's tool"]];

/** Args: `query` has initial values, and `onDone` is called after each run. */
export function ActionForm({ action, query, choices, onDone }) {
  const [values, setValues] = useState(() => Object.fromEntries(action.fields.map((each) => [each.name, query.get(each.name) ?? each.default])));
  const [result, setResult] = useState(null);
  const prepared = usePrepared(action, values);
  const run = async (event) => {
    event.preventDefault();
    setResult({ isRunning: true });
    setResult(await done(action, values));
    onDone();
    const kept = Object.entries(values).filter(([name, value]) => value && value !== action.fields.find((each) => each.name === name).default);
    go(`/do/${action.name}${kept.length ? `?${new URLSearchParams(kept)}` : ""}`, { replace: true });
  };
  return html`<div class="action">
    <section aria-labelledby="action-title">
      <h2 id="action-title">${action.title}</h2>
      <p class="muted"><${Rich} text=${action.meaning} /></p>
      <form aria-labelledby="action-title" onSubmit=${run} noValidate>
        ${action.fields.map((field) => html`<${FormField} key=${field.name} field=${field} value=${values[field.name]} offered=${offered(field, choices)} onChange=${(value) => setValues((old) => ({ ...old, [field.name]: value }))} />`)}
        <div><button type="submit" class="primary" disabled=${result?.isRunning}>${action.title}</button></div>
      </form>
      <${Result} result=${result} />
    </section>
    <section aria-labelledby="lines-title">
      <h2 id="lines-title">The same elsewhere</h2>
      ${prepared.error
        ? html`<p class="muted">${prepared.error}.</p>`
        : prepared.lines && LINES.map(([name, title]) => html`<${Line} key=${name} title=${title} text=${prepared.lines[name]} reason=${prepared.no_tool} />`)}
    </section>
  </div>`;
}

/** Fetch the request and the lines for the typed values, shortly after the last key press. */
function usePrepared(action, values) {
  const [prepared, setPrepared] = useState({});
  const typed = JSON.stringify(values);
  useEffect(() => {
    let isOver = false;
    const timer = setTimeout(async () => {
      let found;
      try {
        found = await prepare(action, values);
      } catch (error) {
        found = { error: error.message };
      }
      if (!isOver) setPrepared(found);
    }, PAUSE_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [action.name, typed]);
  return prepared;
}

const post = (body) => ({ method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

/** Fetch the request of a form. The server's response to an invalid form is turned into an error. */
async function prepare(action, fields) {
  const found = await ask(`/data/actions/${action.name}`, post({ fields }));
  if (found.error) throw new Error(found.error);
  return found;
}

/** Send the action to the control plane. Returns { status, answer } or { error }. */
async function done(action, fields) {
  try {
    const { request } = await prepare(action, fields);
    const body = request.body === null ? {} : post(request.body);
    const answer = await ask(`/control${request.path}`, { ...body, method: request.method });
    return { answer };
  } catch (error) {
    return { error: error.message };
  }
}

function offered(field, choices) {
  const found = choices?.[field.known] ?? [];
  return field.known === "brokers" ? found.map((each) => String(each.node_id)) : found;
}

function FormField({ field, value, offered: names, onChange }) {
  const id = `field-${field.name}`;
  const common = { id, name: field.name, "aria-describedby": field.meaning ? `${id}-meaning` : null, "aria-required": field.is_needed ? "true" : null };
  const change = (event) => onChange(event.target.value);
  const label = html`<label for=${id}>${field.name}${field.is_needed ? html` <span class="muted">needed</span>` : ""}</label>`;
  let control;
  if (field.kind === "switch") {
    control = html`<input ...${common} type="checkbox" checked=${value === "true"} onChange=${(event) => onChange(event.target.checked ? "true" : "")} />`;
  } else if (field.kind === "choice") {
    control = html`<select ...${common} onChange=${change}>${!field.default && html`<option value="" selected=${!value}></option>`}${field.choices.map((each) => html`<option value=${each} selected=${each === value}>${each}</option>`)}</select>`;
  } else if (field.kind === "pairs" || field.name === "value") {
    control = html`<textarea ...${common} rows="2" spellcheck=${false} value=${value} onInput=${change}></textarea>`;
  } else {
    const isNumber = field.kind === "integer" || field.kind === "number";
    control = html`<input ...${common} type="text" inputmode=${isNumber ? "decimal" : null} autocomplete="off" spellcheck=${false} list=${names.length ? `${id}-names` : null} value=${value} onInput=${change} />
      ${names.length > 0 && html`<datalist id=${`${id}-names`}>${names.map((each) => html`<option value=${each}></option>`)}</datalist>`}`;
  }
  return html`<div class=${`form-field ${field.kind}`}>${label}${control}${field.meaning && html`<p class="muted" id=${`${id}-meaning`}><${Rich} text=${field.meaning} /></p>`}</div>`;
}

function Result({ result }) {
  const shown = result && !result.isRunning;
  return html`<div class="result" aria-live="polite">
    ${shown && result.error && html`<${Notice} kind="error">${result.error}<//>`}
    ${shown && !result.error && html`<p><span class="badge ok">Done</span></p>${result.answer !== null && html`<pre tabindex="0" role="group" aria-label="Answer">${JSON.stringify(result.answer, null, 2)}</pre>`}`}
  </div>`;
}

function Line({ title, text, reason }) {
  const [isCopied, setCopied] = useState(false);
  const box = useRef(null);
  useEffect(() => setCopied(false), [text]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
    } catch {
      getSelection().selectAllChildren(box.current); // The browser forbids clipboard access. The user can copy the selection.
    }
  };
  return html`<div class="line">
    <h3>${title}</h3>
    ${text
      ? html`<pre ref=${box} tabindex="0" role="group" aria-label=${`Line of ${title}`}>${text}</pre><button type="button" aria-label=${`Copy the line of ${title}`} onClick=${copy}>${isCopied ? "Copied" : "Copy"}</button>`
      : html`<p class="muted">${reason}</p>`}
  </div>`;
}
