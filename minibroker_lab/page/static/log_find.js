/** Lookups in a log, step by step: how a broker finds an offset or a timestamp. */

import { ask, html, Notice, number, useState } from "./lib.js";

export function Find({ path, log, onMark, onShow }) {
  const [kind, setKind] = useState("offset");
  const [text, setText] = useState("");
  const [result, setResult] = useState(null);
  const [error, setError] = useState(null);
  const [step, setStep] = useState(0);
  const hint = kind === "offset" ? `${log.log_start_offset} to ${Math.max(log.log_start_offset, log.log_end_offset - 1)}` : String(Math.max(0, log.segments.at(-1)?.largest_timestamp ?? 0));
  const mark = (steps, index) => {
    setStep(index);
    const each = steps[index];
    onMark(each.file ? { ...each, segment: baseOffsetOf(each.file) } : null);
  };
  const find = async (event) => {
    event.preventDefault();
    setError(null);
    const value = text.trim() || hint.split(" ")[0];
    const searched = kind === "offset" || /^-?\d+$/.test(value) ? value : String(Date.parse(value));
    if (!/^-?\d+$/.test(searched)) {
      setError(kind === "offset" ? `“${value}” is no offset. An offset is a number.` : `“${value}” is no time. Write milliseconds since 1970, or 2026-01-31T12:00.`);
      return;
    }
    try {
      const found = await ask(`${path}/find?${kind}=${searched}`);
      setResult(found);
      if (kind === "offset" && found.found) onShow(searched);
      else if (found.found) onShow(found.found.offset);
      mark(found.steps, 0);
    } catch (failure) {
      setResult(null);
      setError(failure.message);
    }
  };
  const walk = (event) => {
    const to = { ArrowDown: step + 1, ArrowUp: step - 1 }[event.key];
    if (to === undefined || !result?.steps[to]) return;
    event.preventDefault();
    mark(result.steps, to);
    event.currentTarget.querySelectorAll("button")[to].focus();
  };
  return html`<section aria-labelledby="find-title">
    <h2 id="find-title">Find step by step</h2>
    <form class="toolbar flat" onSubmit=${find}>
      <label class="field"><span>Find</span><select value=${kind} onChange=${(event) => setKind(event.target.value)}><option value="offset">offset</option><option value="time">time</option></select></label>
      <label class="field"><span>${kind === "offset" ? "Offset" : "Time"}</span><input value=${text} placeholder=${hint} onInput=${(event) => setText(event.target.value)} /></label>
      <button type="submit" class="primary">Show the steps</button>
    </form>
    ${error && html`<${Notice} kind="error">${error}<//>`}
    ${result && html`<ol class="walk" onKeyDown=${walk}>${result.steps.map((each, index) => html`<li>
        <button type="button" aria-current=${index === step ? "step" : null} onClick=${() => mark(result.steps, index)} onFocus=${() => index !== step && mark(result.steps, index)}>
          ${each.text} ${each.file && html`<span class="muted">${each.file}${each.end > each.start ? `, bytes ${number(each.start)} to ${number(each.end - 1)}` : ""}</span>`}</button></li>`)}</ol>
      <p role="status">${result.found ? `Found: the batch at byte ${number(result.found.position)} of segment ${number(result.found.segment)}.` : "Nothing was found."}</p>`}
  </section>`;
}

const baseOffsetOf = (file) => Number(/^(\d+)\./.exec(file)?.[1] ?? 0);
