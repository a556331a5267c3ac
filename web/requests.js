// The requests of the last minute as bars in time, and recent errors, as the server's event stream tells
// them while they are on the page.

import { streamEvents } from "./api.js";

const SHOWN_MS = 60000;
const AGAIN_MS = 2000;
const ROWS = 40;
const at = (id) => document.getElementById(id);
let live = { requests: [], errors: [] };
let behind = 0;  // the server's clock less this page's, in milliseconds
let told = false;
let watching = null;  // what ends the stream

const now = () => performance.now() + behind;
const seconds = (ms) => (ms >= 10000 ? `${Math.round(ms / 1000)} s` : ms >= 1000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms)} ms`);

// The stages of a request as [class, from, to]; one that has not come is left out.
function stages({ begun_ms, admitted_ms, first_token_ms, ended_ms }, until) {
  const end = ended_ms || until;
  const times = [["queued", begun_ms], ["prefill", admitted_ms], ["decode", first_token_ms]].filter(([, from]) => from > 0);
  return times.map(([name, from], i) => [name, from, i + 1 < times.length ? times[i + 1][1] : end]);
}

function span(className, text) {
  const made = document.createElement("span");
  made.className = className;
  made.textContent = text;
  return made;
}

function row(request, until) {
  const made = document.createElement("div");
  made.className = request.ended_ms ? "request ended" : "request";
  const bar = span("bar", "");
  for (const [name, from, to] of stages(request, until)) {
    const part = span(name, "");
    const left = Math.max(0, 1 - (until - from) / SHOWN_MS);
    const right = Math.max(0, 1 - (until - to) / SHOWN_MS);
    part.style.left = `${100 * left}%`;
    part.style.width = `${100 * (right - left)}%`;
    part.title = `${name} ${seconds(to - from)}`;
    bar.append(part);
  }
  const took = seconds((request.ended_ms || until) - request.begun_ms);
  const tokens = `${request.prompt_tokens} + ${request.drawn_tokens} tokens`;
  made.append(span("id", request.id), bar, span("took", `${tokens}, ${took}${request.ended_ms ? "" : " so far"}`));
  return made;
}

function draw() {
  if (!told) return;
  const until = now();
  const rows = live.requests.filter(({ ended_ms }) => until - (ended_ms || until) < SHOWN_MS);
  at("flights").replaceChildren(...rows.slice(0, ROWS).map((request) => row(request, until)));
  at("no-flights").hidden = rows.length > 0;
  const errors = live.errors ?? [];  // only an administrator is told of any
  at("errors-part").hidden = errors.length === 0;
  at("errors").replaceChildren(...errors.slice(0, 10).map(({ at_ms, status, method, path, message }) => {
    const item = document.createElement("li");
    item.append(span("status", `${status}`), ` ${method} ${path}, ${seconds(until - at_ms)} ago: ${message}`);
    return item;
  }));
}

async function watch(signal) {
  try {
    for await (const event of streamEvents("/v1/requests/events", null, signal)) {
      behind = event.now_ms - performance.now();
      live = event.live;
      told = true;
      draw();
    }
  } catch (error) {
    // The metrics tell that the server does not answer; the stream is asked for again.
    if (error.status === 403) return;
  }
  if (!signal.aborted) setTimeout(() => signal.aborted || watch(signal), AGAIN_MS);
}

// Begins or ends the stream, as the live view is on the page or not.
export function showRequests() {
  const shown = !at("live").hidden && !document.hidden;
  if (shown === (watching !== null)) return;
  if (shown) {
    watching = new AbortController();
    watch(watching.signal);
  } else {
    watching.abort();
    watching = null;
  }
}

export function startRequests() {
  setInterval(() => watching && draw(), 500);
  document.addEventListener("visibilitychange", showRequests);
}
