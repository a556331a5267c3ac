// The page as a whole: the model's name, the key where one is asked for, and the two views.

import { getJson, setKey } from "./api.js";
import { startChat } from "./chat.js";
import { startDashboard } from "./dashboard.js";

const at = (id) => document.getElementById(id);
let model = "";

async function findModel() {
  try {
    model = (await getJson("/v1/models")).data[0].id;
    at("model").textContent = model;
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

const sampleNow = startDashboard();

function view(name) {
  for (const one of ["chat", "live"]) {
    at(one).hidden = one !== name;
    at(`show-${one}`).setAttribute("aria-pressed", String(one === name));
  }
  location.hash = name === "chat" ? "" : name;
  if (name === "live") sampleNow();
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
  const error = await findModel();
  at("key-error").textContent = error ? error.message : "";
});

startChat(() => model);
findModel();
if (location.hash === "#live") view("live");
