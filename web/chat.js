// The conversation on the page: what is shown, asked, stopped, edited and asked again.

import { ApiError, streamEvents } from "./api.js";
import { conversations, currentConversation, newConversation, rememberCurrent, remove, save, titleOf } from "./conversations.js";
import { markdown } from "./markdown.js";

const NUMBERS = ["temperature", "top_p", "top_k", "max_tokens", "seed"];
const at = (id) => document.getElementById(id);

let shown = null;    // the conversation on the page
let running = null;  // {conversation, controller} of the answer that is being written

function button(text, label, action) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.title = label;
  made.setAttribute("aria-label", label);
  made.addEventListener("click", action);
  return made;
}

function div(className, ...children) {
  const made = document.createElement("div");
  made.className = className;
  made.append(...children);
  return made;
}

function thinkingOf(message) {
  const details = document.createElement("details");
  details.className = "thinking";
  const summary = document.createElement("summary");
  summary.textContent = "Thinking";
  details.append(summary, ...markdown(message.reasoning));
  return details;
}

function toolOf(call) {
  const code = document.createElement("code");
  code.textContent = `${call.name}(${call.arguments})`;
  return div("tool", "Calls ", code);
}

function fillBody(body, message) {
  const open = body.querySelector("details.thinking")?.open;
  const parts = [];
  if (message.reasoning) parts.push(thinkingOf(message));
  if (open && parts.length) parts[0].open = true;
  parts.push(...markdown(message.content));
  for (const call of message.tool_calls ?? []) parts.push(toolOf(call));
  body.replaceChildren(...parts);
}

function actionsOf(message, index) {
  const actions = div("actions");
  if (message.note) actions.append(Object.assign(document.createElement("span"), { className: "note", textContent: message.note }));
  if (message.problem) actions.append(Object.assign(document.createElement("span"), { className: "problem", textContent: message.problem }));
  if (running) return actions;
  if (message.role === "user") {
    actions.append(button("Edit", "Change this message and ask again", () => edit(index)));
  } else {
    actions.append(button("Copy", "Copy the answer", () => navigator.clipboard.writeText(message.content)));
    if (index === shown.messages.length - 1) {
      actions.append(button(message.problem ? "Try again" : "Regenerate", "Answer once more", () => again(index)));
    }
  }
  return actions;
}

function messageElement(message, index) {
  const body = div("body");
  if (message.role === "user") body.textContent = message.content;
  else fillBody(body, message);
  return div(`message ${message.role}`, body, actionsOf(message, index));
}

function showMessages() {
  const box = at("messages");
  if (shown.messages.length === 0) {
    box.replaceChildren(div("empty", "Ask the model something. What is said here stays in this browser."));
  } else {
    box.replaceChildren(...shown.messages.map(messageElement));
    box.scrollTop = box.scrollHeight;
  }
  at("send").hidden = running !== null;
  at("stop").hidden = running === null;
}

function showList() {
  at("conversations").replaceChildren(...conversations().map((one) => {
    const item = document.createElement("li");
    item.setAttribute("aria-current", String(one === shown));
    const open = button(titleOf(one), titleOf(one), () => show(one));
    open.className = "open";
    const away = button("\u00d7", "Delete this conversation", () => {
      if (running?.conversation === one) running.controller.abort();
      remove(one);
      save();
      if (one === shown) show(currentConversation());
      else showList();
    });
    away.className = "plain";
    item.append(open, away);
    return item;
  }));
}

function showSettings() {
  at("system").value = shown.settings.system ?? "";
  at("tools").value = shown.settings.tools ?? "";
  for (const name of NUMBERS) at(name).value = shown.settings[name] ?? "";
}

function show(conversation) {
  shown = conversation;
  rememberCurrent(shown);
  showList();
  showSettings();
  showMessages();
  at("side").classList.remove("shown");
  at("question").focus();
}

// What the settings say; null where the tools are no JSON, which the page then tells.
function requestOf(conversation, model) {
  const { system, tools, ...numbers } = conversation.settings;
  const messages = conversation.messages.filter((message) => message.role === "user" || message.content)
    .map(({ role, content }) => ({ role, content }));
  if (system) messages.unshift({ role: "system", content: system });
  const body = { ...numbers, model, messages, stream: true, stream_options: { include_usage: true } };
  at("tools-error").textContent = "";
  if (tools?.trim()) {
    try {
      body.tools = JSON.parse(tools);
    } catch (error) {
      at("settings").open = true;
      at("tools-error").textContent = `The tools are no JSON: ${error.message}`;
      return null;
    }
  }
  return body;
}

function takeDelta(message, delta) {
  message.content += delta.content ?? "";
  if (delta.reasoning_content) message.reasoning = (message.reasoning ?? "") + delta.reasoning_content;
  for (const piece of delta.tool_calls ?? []) {
    message.tool_calls ??= [];
    const call = (message.tool_calls[piece.index] ??= { name: "", arguments: "" });
    call.name += piece.function?.name ?? "";
    call.arguments += piece.function?.arguments ?? "";
  }
}

function noteOf(usage, seconds, finish) {
  const parts = [];
  if (usage) parts.push(`${usage.completion_tokens} tokens`, `${(usage.completion_tokens / seconds).toFixed(1)}/s`);
  if (finish === "length") parts.push("ended at a limit");
  return parts.join(", ");
}

async function readAnswer(body, message, controller, draw) {
  const started = performance.now();
  let usage = null, finish = null;
  for await (const event of streamEvents("/v1/chat/completions", body, controller.signal)) {
    usage = event.usage ?? usage;
    const choice = event.choices[0];
    if (!choice) continue;
    finish = choice.finish_reason ?? finish;
    takeDelta(message, choice.delta);
    draw();
  }
  message.note = noteOf(usage, (performance.now() - started) / 1000, finish);
}

async function answer(model) {
  const conversation = shown;
  const body = requestOf(conversation, model());
  if (!body) return;
  const message = { role: "assistant", content: "" };
  conversation.messages.push(message);
  const controller = new AbortController();
  running = { conversation, controller };
  save();
  showMessages();
  // Drawn at most once a frame, and not at all while another conversation is on the page.
  let planned = false;
  const draw = () => {
    if (planned) return;
    planned = true;
    requestAnimationFrame(() => {
      planned = false;
      const box = at("messages");
      const last = box.lastElementChild?.querySelector(".body");
      if (running?.controller !== controller || shown !== conversation || !last) return;
      const follows = box.scrollHeight - box.scrollTop - box.clientHeight < 60;
      fillBody(last, message);
      if (follows) box.scrollTop = box.scrollHeight;
    });
  };
  at("messages").lastElementChild.querySelector(".body").classList.add("waiting");
  try {
    await readAnswer(body, message, controller, draw);
  } catch (error) {
    if (controller.signal.aborted) message.note = "stopped";
    else message.problem = error instanceof ApiError ? error.message : `The connection was lost: ${error.message}.`;
  }
  running = null;
  save();
  showList();
  showMessages();
}

let servedModel = () => "";

function ask() {
  const question = at("question");
  if (running || !question.value.trim()) return;
  shown.messages.push({ role: "user", content: question.value });
  question.value = "";
  question.style.height = "";
  answer(servedModel);
}

// Models here read text alone. A picture that is pasted or dropped is told of instead of being lost, or of
// taking the place of the page.
function refuseFiles(event, data) {
  const files = [...(data?.files ?? [])];
  if (files.length === 0) return;
  event.preventDefault();
  const named = files.map(({ name }) => name).join(", ");
  at("ask-error").textContent = `The model reads text alone, so ${named} was left out.`;
}

function edit(index) {
  at("question").value = shown.messages[index].content;
  shown.messages.length = index;
  save();
  showMessages();
  at("question").focus();
}

function again(index) {
  shown.messages.length = index;
  answer(servedModel);
}

function keepSettings() {
  const settings = { system: at("system").value, tools: at("tools").value };
  for (const name of NUMBERS) {
    if (at(name).value !== "" && at(name).checkValidity()) settings[name] = Number(at(name).value);
  }
  shown.settings = settings;
  save();
}

// `model` gives the name of the model that is served.
export function startChat(model) {
  servedModel = model;
  at("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  at("question").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      ask();
    }
  });
  at("question").addEventListener("input", ({ target }) => {
    at("ask-error").textContent = "";
    target.style.height = "";
    target.style.height = `${target.scrollHeight + 2}px`;
  });
  document.addEventListener("paste", (event) => refuseFiles(event, event.clipboardData));
  document.addEventListener("drop", (event) => refuseFiles(event, event.dataTransfer));
  document.addEventListener("dragover", (event) => {
    if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
  });
  at("stop").addEventListener("click", () => running?.controller.abort());
  at("new-chat").addEventListener("click", () => show(newConversation()));
  at("settings").addEventListener("change", keepSettings);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") running?.controller.abort();
    if (event.altKey && event.key.toLowerCase() === "n") show(newConversation());
  });
  show(currentConversation());
}
