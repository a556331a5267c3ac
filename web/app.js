// The page as a whole: the models, the key where one is asked for, and the two views.

import { setKey } from "./api.js";
import { startChat } from "./chat.js";
import { startDashboard } from "./dashboard.js";
import { findModels, isOneOfSeveral, model, startModels } from "./models.js";
import { showRequests, startRequests } from "./requests.js";

const at = (id) => document.getElementById(id);

async function begin() {
  try {
    await findModels();
    at("key-form").hidden = true;
    at("key-error").textContent = "";
  } catch (error) {
    if (error.status === 401) {
      at("key-form").hidden = false;
      at("key").focus();
    } else {
      at("model").textContent = "the server does not answer";
    }
    return error;
  }
  return null;
}

const sampleNow = startDashboard(() => (isOneOfSeveral() ? model() : null));
startModels(sampleNow);

function view(name) {
  for (const one of ["chat", "live"]) {
    at(one).hidden = one !== name;
    at(`show-${one}`).setAttribute("aria-pressed", String(one === name));
  }
  location.hash = name === "chat" ? "" : name;
  if (name === "live") sampleNow();
  showRequests();
}

at("show-chat").addEventListener("click", () => view("chat"));
at("show-live").addEventListener("click", () => view("live"));
at("menu").addEventListener("click", () => {
  const shown = at("side").classList.toggle("shown");
  at("menu").setAttribute("aria-expanded", String(shown));
});
at("key-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  setKey(at("key").value);
  const error = await begin();
  at("key-error").textContent = error ? error.message : "";
});

startChat(model);
startRequests();
begin();
if (location.hash === "#live") view("live");
