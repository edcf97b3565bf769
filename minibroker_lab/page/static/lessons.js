/** The course: lessons whose goals are checked while the learner works. */

import { address, ask, h, html, Notice, useData, useState } from "./lib.js";

export function LessonList({ query }) {
  const answers = query.get("answers") === "1" ? "?answers=1" : "";
  const { data, error } = useData("/data/lessons", 2000);
  return html`<main id="main" class="page lessons" tabindex="-1">
    <h1>Lessons</h1>
    <p>Ten lessons, about fifteen minutes each. Use any Kafka client: the lab looks at what it does.</p>
    ${error && html`<${Notice} kind="error">${error}<//>`}
    ${data && html`<ol class="lesson-list">${data.lessons.map((each) => html`<li key=${each.number}><a href=${`/lessons/${each.number}${answers}`}>${each.title}</a> <span class=${`badge ${each.reached === each.goals ? "ok" : ""}`}>${each.reached} of ${each.goals} goals</span></li>`)}</ol>`}
  </main>`;
}

export function LessonView({ number, query }) {
  const { data, error } = useData(`/data/lessons/${number}${query.get("answers") === "1" ? "?answers=true" : ""}`);
  const lab = useData("/data/lab");
  const servers = lab.data?.bootstrap_servers.split(",")[0];
  const state = useData(`/data/lessons/${number}/reached`, 1000);
  const { reached = {}, so_far: soFar = {} } = state.data ?? {};
  const answers = query.get("answers") === "1" ? "?answers=1" : "";
  return html`<main id="main" class="page lessons" tabindex="-1">
    <p><a href=${`/lessons${answers}`}>All lessons</a></p>
    ${!data && html`<h1>Lesson ${number}</h1>`}
    ${error && html`<${Notice} kind="error">${error}<//>`}
    ${data && html`<article>
      <h1>${data.number}. ${data.title}</h1>
      <${Prose} source=${data.before} servers=${servers} />
      <details class="client"><summary>A client to begin with</summary><${Languages} sources=${data.clients} servers=${servers} /></details>
      <${Goals} goals=${data.goals} reached=${reached} soFar=${soFar} onAgain=${() => again(number, state.reload)} />
      ${state.error && html`<${Notice} kind="error">${state.error}<//>`}
      <${Prose} source=${data.behind} servers=${servers} />
      ${answers && html`<section aria-labelledby="answer-title"><h2 id="answer-title">Answer</h2><${Languages} sources=${data.answers ?? {}} servers=${servers} /></section>`}
      <p class="turn">${number > 1 && html`<a href=${`/lessons/${number - 1}${answers}`} rel="prev">← Lesson ${number - 1}</a>`} ${!data.is_last && html`<a href=${`/lessons/${number + 1}${answers}`} rel="next">Lesson ${number + 1} →</a>`}</p>
    </article>`}
  </main>`;
}

async function again(number, reload) {
  await ask(`/data/lessons/${number}/reached`, { method: "DELETE" });
  reload();
}

/** One text per language. The first text is open. */
function Languages({ sources, servers }) {
  return Object.entries(sources).map(([language, source], index) => html`<details key=${language} open=${index === 0}><summary>${language}</summary><${Prose} source=${source} servers=${servers} /></details>`);
}

/**
 * The elements of a lesson's page: texts, and [tag, attributes, child, ...]. Default addresses are replaced with this
 * lab's.
 */
function Prose({ source, servers }) {
  const here = location.host + address("");
  const filled = (text) => text.replaceAll("127.0.0.1:8090", here).replaceAll("127.0.0.1:9092", servers ?? "127.0.0.1:9092");
  const elementOf = (each) => {
    if (typeof each === "string") return filled(each);
    const [tag, attributes, ...children] = each;
    return h(tag, tag === "pre" ? { tabindex: "0", ...attributes } : attributes, children.map(elementOf));
  };
  return html`<div class="prose">${source.map(elementOf)}</div>`;
}

function Goals({ goals, reached, soFar, onAgain }) {
  const done = goals.filter(({ name }) => name in reached).length;
  return html`<section class="goals" aria-labelledby="goals-title">
    <h2 id="goals-title">Goals</h2>
    <p role="status">${done === goals.length ? "All goals are reached." : `${done} of ${goals.length} goals are reached.`}</p>
    <ol>${goals.map((goal) => html`<${GoalItem} key=${goal.name} goal=${goal} sentence=${reached[goal.name]} soFar=${soFar[goal.name]} />`)}</ol>
    ${done > 0 && html`<button type="button" onClick=${onAgain}>Begin again</button>`}
  </section>`;
}

function GoalItem({ goal, sentence, soFar }) {
  const [isOpen, setOpen] = useState(false);
  return html`<li>
    <p><span class=${`badge ${sentence ? "ok" : ""}`}>${sentence ? "reached" : "open"}</span> <${Inline} text=${goal.task} /></p>
    ${sentence ? html`<p class="muted"><${Inline} text=${sentence} /></p>` : html`${soFar && html`<p class="muted">Seen so far: <${Inline} text=${soFar} /></p>`}<p><button type="button" aria-expanded=${isOpen ? "true" : "false"} onClick=${() => setOpen(!isOpen)}>Hint</button></p>${isOpen && html`<p class="muted"><${Inline} text=${goal.hint} /></p>`}`}
  </li>`;
}

/** Text with code in backquotes and [text](/path) links. */
function Inline({ text }) {
  return text.split(/(`[^`]*`|\[[^\]]*\]\(\/[^)]*\))/).map((part) => {
    const link = /^\[(.*)\]\((.*)\)$/.exec(part);
    if (link) return html`<a href=${link[2]}>${link[1]}</a>`;
    return part.startsWith("`") ? html`<code>${part.slice(1, -1)}</code>` : part;
  });
}
