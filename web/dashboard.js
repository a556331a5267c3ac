// What the server does at the moment: its metrics, read once a second while they are on the page.

import { getText } from "./api.js";
import { parseMetrics, total } from "./metrics.js";

const KEPT = 120;  // samples, one a second
const PHASES = ["plan", "prepare", "execute", "sample", "emit"];
const at = (id) => document.getElementById(id);
const history = [];  // {seconds, samples}, oldest first
let historyOf = null;  // the model that it is of
let shownModel = () => null;

const whole = (value) => Math.round(value).toLocaleString("en");
const perSecond = (value) => (value >= 100 ? whole(value) : value.toFixed(1));
const percent = (value) => `${(100 * value).toFixed(1)} %`;
const duration = (seconds) => (seconds >= 1 ? `${seconds.toFixed(2)} s` : `${(1000 * seconds).toFixed(1)} ms`);

// How much a counter has grown between two samples.
const grown = (before, after, name, labels) => total(after.samples, name, labels) - total(before.samples, name, labels);
const rate = (before, after, name) => grown(before, after, name) / Math.max(0.001, after.seconds - before.seconds);

// The mean of what a histogram took in between.
function mean(before, after, name, labels) {
  const count = grown(before, after, `${name}_count`, labels);
  return count > 0 ? grown(before, after, `${name}_sum`, labels) / count : null;
}

// The rates are counted for all models together (`ofAll`), the rest for each.
const SERIES = [
  { name: "Tokens a second", ofAll: true, of: (a, b) => rate(a, b, "sluice_generated_tokens_total"), write: perSecond },
  { name: "Prompt tokens a second", ofAll: true, of: (a, b) => rate(a, b, "sluice_prefilled_tokens_total"), write: perSecond },
  { name: "Sequences running", of: (_, b) => total(b.samples, "vllm:num_requests_running"), write: whole },
  { name: "Sequences waiting", of: (_, b) => total(b.samples, "vllm:num_requests_waiting"), write: whole },
  { name: "KV cache in use", of: (_, b) => total(b.samples, "vllm:kv_cache_usage_perc"), write: percent },
];

function cardsOf(first, last) {
  const share = (part, all) => (grown(first, last, all) > 0 ? percent(grown(first, last, part) / grown(first, last, all)) : "–");
  const time = (name) => {
    const value = mean(first, last, name);
    return value === null ? "–" : duration(value);
  };
  return [
    ["First token", time("vllm:time_to_first_token_seconds"), "mean"],
    ["Between tokens", time("vllm:inter_token_latency_seconds"), "mean"],
    ["Queue", time("vllm:request_queue_time_seconds"), "mean wait"],
    ["Prefix hits", share("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"), "of the prompts' tokens"],
    ["Drafts accepted", share("vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_draft_tokens_total"), "of those verified"],
    ["Preempted", whole(grown(first, last, "vllm:num_preemptions_total")), "sequences"],
    ["Tokens a step", ((value) => (value === null ? "–" : perSecond(value)))(mean(first, last, "sluice_execute_tokens")), "mean"],
    ["Connections", whole(total(last.samples, "sluice_http_connections")), "open"],
  ];
}

function box(className, ...children) {
  const made = document.createElement("div");
  made.className = className;
  made.append(...children);
  return made;
}

const card = (name, value, more) => box("card", box("name", name), box("value", value), box("more", more));

function chart(series) {
  const name = series.ofAll && historyOf !== null ? `${series.name}, all models` : series.name;
  const values = history.slice(1).map((sample, i) => series.of(history[i], sample));
  const top = Math.max(...values, 1e-9);
  const points = values.map((value, i) => `${i + KEPT - values.length},${(40 - 38 * (value / top)).toFixed(2)}`);
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", `0 0 ${KEPT} 41`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${name}, ${series.write(values.at(-1) ?? 0)} now, ${series.write(top)} at most`);
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", points.length ? `M${points.join("L")}` : "");
  svg.append(path);
  const made = card(name, series.write(values.at(-1) ?? 0), `at most ${series.write(values.length ? top : 0)}`);
  made.append(svg);
  return made;
}

function phase(first, last, name, all) {
  const labels = { phase: name };
  const seconds = grown(first, last, "sluice_step_seconds_sum", labels);
  const bar = document.createElement("span");
  bar.style.width = `${all > 0 ? (100 * seconds) / all : 0}%`;
  const once = mean(first, last, "sluice_step_seconds", labels);
  return box("phase", box("name", name), box("bar", bar), box("time", once === null ? "–" : `${duration(once)} a step`));
}

function showStatuses(last) {
  const rows = last.samples.filter((sample) => sample.name === "sluice_http_requests_total" && sample.value > 0)
    .sort((a, b) => b.value - a.value);
  at("statuses").tBodies[0].replaceChildren(...rows.map(({ labels, value }) => {
    const row = document.createElement("tr");
    if (Number(labels.status) >= 400) row.className = "failed";
    for (const text of [labels.path, labels.status, whole(value)]) row.insertCell().textContent = text;
    return row;
  }));
}

function draw() {
  const first = history[0], last = history.at(-1);
  at("cards").replaceChildren(...cardsOf(first, last).map((values) => card(...values)));
  at("charts").replaceChildren(...SERIES.map(chart));
  const all = grown(first, last, "sluice_step_seconds_sum");
  at("phases").replaceChildren(...PHASES.map((name) => phase(first, last, name, all)));
  showStatuses(last);
}

// Figures of the server as a whole name no model and are everybody's.
const isOf = (model) => ({ labels }) => model === null || (labels.model_name ?? model) === model;

async function sample() {
  if (at("live").hidden || document.hidden) return;
  const model = shownModel();
  try {
    const samples = parseMetrics(await getText("/metrics")).filter(isOf(model));
    if (model !== shownModel()) return;  // another was chosen meanwhile
    if (model !== historyOf) history.length = 0;
    historyOf = model;
    history.push({ seconds: performance.now() / 1000, samples });
    if (history.length > KEPT) history.shift();
    at("live-error").textContent = "";
    draw();
  } catch (error) {
    at("live-error").textContent = `The server does not answer: ${error.message}`;
  }
}

// `model` gives the name of the one whose figures are shown, null for those of all.
export function startDashboard(model) {
  shownModel = model;
  setInterval(sample, 1000);
  return sample;
}
