/** The state created by clients: groups, transactions, fetch sessions and waiting requests. */

import { ask, count, html, Notice, number, timeOfDay, useData, useState } from "./lib.js";

export function StateView() {
  const { data, error } = useData("/data/state", 1000);
  return html`<main id="main" class="page state" tabindex="-1">
    <h1>State</h1>
    ${error && html`<${Notice} kind="error">${error}<//>`}
    ${data && html`<${Replicas} replicas=${data.replicas} /><${Groups} page=${data.groups} /><${Transactions} page=${data.transactions} /><${Sessions} sessions=${data.sessions} /><${Delayed} requests=${data.delayed} />`}
  </main>`;
}

function Table({ name, heads, children }) {
  return html`<div class="scroll" tabindex="0" role="group" aria-label=${name}><table class="data">
    <thead><tr>${heads.map((head) => html`<th scope="col" class=${head.startsWith("#") ? "num" : ""}>${head.replace("#", "")}</th>`)}</tr></thead>
    <tbody>${children}</tbody>
  </table></div>`;
}

/** The brokers and the partitions that they lead. */
function Replicas({ replicas }) {
  return html`<section aria-labelledby="replicas-title">
    <h2 id="replicas-title">Leaders and in-sync replicas <span class="muted">${count(replicas.partition_count, "partition")}</span></h2>
    <p>${replicas.brokers.map((each) => html`<span class=${`badge ${each.is_up ? "ok" : "error"}`}>broker ${each.id} ${each.is_up ? "up" : "down"}, leads ${count(each.leads, "partition")}</span> `)}</p>
    ${replicas.partitions.length > 0 && html`<${Table} name="Leaders and in-sync replicas" heads=${["Partition", "#Leader", "#Leader epoch", "Replicas", "In sync"]}>
      ${replicas.partitions.map((each) => html`<tr key=${placeOf(each)}><th scope="row"><a href=${`/logs/${encodeURIComponent(each.topic)}/${each.partition}`}>${placeOf(each)}</a></th><td class="num">${each.leader ?? "none"}</td><td class="num">${each.leader_epoch}</td>
        <td>${each.replicas.join(", ")}</td><td>${each.isr.join(", ") || "none"}${each.is_under_min_isr ? html` <span class="badge error">too few for min.insync.replicas</span>` : ""}</td></tr>`)}
    <//>`}
    ${replicas.partition_count > replicas.partitions.length && html`<p class="muted">The first ${number(replicas.partitions.length)}; those that are not in sync come first.</p>`}
  </section>`;
}

/** The records that members of a share group have acquired. */
function Shared({ partitions }) {
  return html`<section aria-labelledby="shared-title"><h2 id="shared-title">Share-partitions</h2>
    ${partitions.length
      ? html`<${Table} name="Share-partitions" heads=${["Partition", "#Start offset", "#Lag", "#Acquired", "In flight"]}>
        ${partitions.map((each) => html`<tr key=${placeOf(each)}><th scope="row"><a href=${`/logs/${encodeURIComponent(each.topic)}/${each.partition}?offset=${each.start_offset ?? 0}`}>${placeOf(each)}</a></th>
          <td class="num">${each.start_offset === null ? "" : number(each.start_offset)}</td><td class="num">${each.lag === null ? "" : number(each.lag)}</td><td class="num">${number(each.acquired)}</td>
          <td class="words">${each.in_flight.slice(0, 20).map((part) => html`<span class="badge">${part.first_offset === part.last_offset ? number(part.first_offset) : `${number(part.first_offset)} to ${number(part.last_offset)}`} ${part.state}, delivery ${part.delivery_count}</span> `)}${each.in_flight.length > 20 && `and ${number(each.in_flight.length - 20)} more`}</td></tr>`)}
      <//>`
      : html`<p class="muted">The group has not begun to read.</p>`}</section>`;
}

function Groups({ page }) {
  const [more, setMore] = useState({ groups: [], next_after: undefined });
  const next = more.next_after === undefined ? page.next_after : more.next_after;
  const load = async () => {
    const found = await ask(`/data/groups?after=${encodeURIComponent(next)}`);
    setMore((old) => ({ groups: [...old.groups, ...found.groups], next_after: found.next_after }));
  };
  const groups = [...page.groups, ...more.groups];
  return html`<section aria-labelledby="groups-title">
    <h2 id="groups-title">Groups</h2>
    ${groups.length
      ? html`<${MachineLegend} /><${Table} name="Groups" heads=${["Group", "Protocol", "State", "#Generation", "#Members"]}>
        ${groups.map((each) => html`<tr key=${each.group_id}><th scope="row"><a href=${`/groups/${encodeURIComponent(each.group_id)}`}>${each.group_id || "(empty name)"}</a></th><td>${each.type}</td><td><${Machine} states=${page.machines[each.type]} state=${each.state} /></td><td class="num">${each.generation}</td><td class="num">${each.members}</td></tr>`)}
      <//>`
      : html`<p class="muted">No group yet. A consumer with a group id makes one.</p>`}
    ${next && html`<button type="button" onClick=${load}>More groups</button>`}
  </section>`;
}

function Transactions({ page }) {
  return html`<section aria-labelledby="transactions-title">
    <h2 id="transactions-title">Transactions</h2>
    ${page.is_loading && html`<p class="muted">The coordinator still reads its log.</p>`}
    ${page.transactions.length
      ? html`<${MachineLegend} /><${Table} name="Transactions" heads=${["Transactional id", "State", "#Producer id", "#Epoch", "Partitions"]}>
        ${page.transactions.map((each) => html`<tr key=${each.transactional_id}><th scope="row">${each.transactional_id}</th><td><${Machine} states=${page.states} state=${each.state} /></td><td class="num">${each.producer_id}</td><td class="num">${each.producer_epoch}</td>
          <td class="words">${each.partition_count ? each.partitions.map(nameOf).join(", ") : "none"}</td></tr>`)}
      <//>`
      : html`<p class="muted">No transactional id yet. A producer with one makes it.</p>`}
  </section>`;
}

const placeOf = ({ topic, partition }) => `${topic}-${partition}`;
const nameOf = ([topic, partition]) => `${topic}-${partition}`;

/** All states, with the current state and its successors highlighted. */
function Machine({ states, state }) {
  return html`<ol class="machine">${Object.keys(states).map((each) => {
    const follows = states[state]?.includes(each);
    return html`<li class=${follows ? "next" : ""} aria-current=${each === state ? "true" : null}>${follows && html`<span aria-hidden="true">→ </span>`}${each}${follows && html`<span class="sr-only"> may follow</span>`}</li>`;
  })}</ol>`;
}

const MachineLegend = () => html`<p class="muted">The present state is lit. Those with an arrow may follow it.</p>`;

function Sessions({ sessions }) {
  return html`<section aria-labelledby="sessions-title">
    <h2 id="sessions-title">Fetch sessions</h2>
    ${sessions.length
      ? html`<p class="muted">In a session a consumer names its partitions once. Later requests and responses name only what changes. <b>Bytes saved</b> counts both directions, against full fetches without their records.</p>
        <${Table} name="Fetch sessions" heads=${["#Broker", "#Session", "#Next epoch", "Last used", "#Fetches", "#Bytes saved", "Cached partitions, each with its next offset"]}>
        ${sessions.map((each) => html`<tr key=${`${each.node}-${each.id}`}><td class="num">${each.node}</td><th scope="row" class="num">${each.id}</th><td class="num">${each.epoch}</td><td>${timeOfDay(each.last_used_ms)}</td>
          <${Saved} savings=${each.savings} />
          <td class="words">${each.partitions.slice(0, 12).map((part) => `${part.topic ?? "unknown topic"}-${part.partition} at ${number(part.fetch_offset)}`).join(", ")}${each.partition_count > 12 ? ` and ${each.partition_count - 12} more` : ""}</td></tr>`)}
      <//>`
      : html`<p class="muted">No fetch session. A consumer opens one with its first Fetch.</p>`}
  </section>`;
}

/** The savings of a session's incremental fetches, if its first request is recorded. */
function Saved({ savings }) {
  if (!savings) return html`<td class="muted" colspan="2">not known: its first request is no longer kept</td>`;
  const share = savings.full_bytes ? ` (${Math.round((100 * savings.saved_bytes) / savings.full_bytes)} %)` : "";
  return html`<td class="num">${number(savings.fetches)}</td><td class="num">${number(savings.saved_bytes)} of ${number(savings.full_bytes)}${share}</td>`;
}

function Delayed({ requests }) {
  return html`<section aria-labelledby="delayed-title">
    <h2 id="delayed-title">Requests that wait</h2>
    ${requests.length
      ? html`<${Table} name="Requests that wait" heads=${["#Broker", "Client", "Request", "Waits for"]}>
        ${requests.map((each) => html`<tr key=${`${each.client}-${each.correlation_id}`}><td class="num">${each.node}</td><th scope="row">${each.client_id ?? ""} <span class="muted">${each.client}</span></th><td>${each.api ?? "unknown"} v${each.version}</td><td class="words">${each.waits_for}</td></tr>`)}
      <//>`
      : html`<p class="muted">No request waits at the moment.</p>`}
  </section>`;
}

export function GroupView({ id }) {
  const { data: group, error } = useData(`/data/groups/${encodeURIComponent(id)}`, 1000);
  return html`<main id="main" class="page state" tabindex="-1">
    <div class="heading"><h1>${id} <span class="muted">group</span></h1><nav class="steps" aria-label="State"><a href="/state">All state</a></nav></div>
    ${error && html`<${Notice} kind="error">${error}<//>`}
    ${group && html`
      <${Machine} states=${group.states} state=${group.state} />
      <dl class="facts">
        <div><dt>Protocol</dt><dd>${group.type}</dd></div>
        <div><dt>${group.type === "classic" ? "Generation" : "Group epoch"}</dt><dd>${group.generation}</dd></div>
        ${group.assignment_epoch !== null && html`<div><dt>Assignment epoch</dt><dd>${group.assignment_epoch}</dd></div>`}
        ${group.protocol && html`<div><dt>Assignor</dt><dd>${group.protocol}</dd></div>`}
        ${group.waiting_to_join > 0 && html`<div><dt>Waiting to join</dt><dd>${group.waiting_to_join}</dd></div>`}
      </dl>
      <section aria-labelledby="members-title"><h2 id="members-title">Members <span class="muted">${number(group.member_count)}</span></h2>
      ${group.members.length
        ? html`<${Table} name="Members" heads=${["Member", "Client", "Subscribed to", "Reads", "State"]}>
          ${group.members.map((each) => html`<tr key=${each.member_id}><th scope="row">${each.group_instance_id ?? each.member_id}${each.is_leader ? html` <span class="badge ok">leader</span>` : ""}</th><td>${each.client_id} <span class="muted">${each.client_host}</span></td>
            <td class="words">${each.subscribed_regex ?? (each.subscribed_topics.join(", ") || "no topic")}</td><td class="words">${each.partitions === null ? "unknown" : each.partitions.map(nameOf).join(", ") || "nothing"}</td>
            <td class="words">${each.waits_in ? `waits in ${each.waits_in}` : (each.state ?? "")}${each.epoch === null ? "" : `, epoch ${each.epoch}`}${each.revoking.length ? `, gives up ${each.revoking.map(nameOf).join(", ")}` : ""}</td></tr>`)}
        <//>`
        : html`<p class="muted">The group has no member. Its offsets stay.</p>`}</section>
      ${group.type === "share" && html`<${Shared} partitions=${group.shared} />`}
      <section aria-labelledby="offsets-title"><h2 id="offsets-title">Committed offsets <span class="muted">${count(group.offset_count, "partition")}</span></h2>
      ${group.offsets.length
        ? html`<${Table} name="Committed offsets" heads=${["Partition", "#Committed", "#High watermark", "#Lag", "Committed at"]}>
          ${group.offsets.map((each) => html`<tr key=${placeOf(each)}><th scope="row"><a href=${`/logs/${encodeURIComponent(each.topic)}/${each.partition}?offset=${each.committed ?? 0}`}>${placeOf(each)}</a></th>
            <td class="num">${each.committed === null ? "" : number(each.committed)}${each.pending === null ? "" : ` (${number(each.pending)} in an open transaction)`}</td>
            <td class="num">${each.high_watermark === null ? "" : number(each.high_watermark)}</td><td class="num">${each.lag === null ? "" : number(each.lag)}</td><td>${each.committed === null ? "" : timeOfDay(each.commit_timestamp)}</td></tr>`)}
        <//>`
        : html`<p class="muted">The group has committed no offset.</p>`}</section>`}
  </main>`;
}
