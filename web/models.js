// Which of the server's models the page talks to and shows: a name where there is one, a picker of
// them where there are several.

import { getJson } from "./api.js";

const CHOSEN = "sluice.model";
const REFRESH_MS = 5000;
const at = (id) => document.getElementById(id);
let served = [];  // of /v1/models, in the server's order
let chosen = "";

export const model = () => chosen;
export const isOneOfSeveral = () => served.length > 1;

// One that is not loaded can be chosen, too: the first question loads it.
function labelOf({ id, status }) {
  if (status?.failed) return `${id} (cannot be loaded)`;
  return !status || status.value === "loaded" ? id : `${id} (${status.value})`;
}

// Options stay the same elements as long as the names do, so that an open list does not close.
function draw() {
  const picker = at("models");
  const names = served.map(({ id }) => id);
  if (names.join("\n") !== [...picker.options].map((option) => option.value).join("\n"))
    picker.replaceChildren(...names.map((name) => new Option(name, name)));
  served.forEach((one, i) => {
    const label = labelOf(one);
    if (picker.options[i].text !== label) picker.options[i].text = label;
    picker.options[i].title = one.status?.error ?? "";
  });
  picker.value = chosen;
  picker.hidden = !isOneOfSeveral();
  at("model").hidden = isOneOfSeveral();
  at("model").textContent = chosen;
}

// Reads the models anew. The one that was chosen last stays so while the server has it; otherwise
// it is the first that is loaded. Throws what getJson does.
export async function findModels() {
  served = (await getJson("/v1/models")).data;
  const has = (name) => served.some(({ id }) => id === name);
  if (!has(chosen)) chosen = localStorage.getItem(CHOSEN) ?? "";
  if (!has(chosen)) chosen = (served.find(({ status }) => status?.value === "loaded") ?? served[0]).id;
  draw();
}

// `changed` is called when another model is chosen.
export function startModels(changed) {
  at("models").addEventListener("change", ({ target }) => {
    chosen = target.value;
    localStorage.setItem(CHOSEN, chosen);
    changed();
  });
  setInterval(() => {
    // An error here is one of the next question's or figures', which tell it.
    if (isOneOfSeveral() && !document.hidden) findModels().catch(() => {});
  }, REFRESH_MS);
}
