// The conversations of this browser, in its local storage; the server keeps none.

const STORE = "sluice.conversations";
const CURRENT = "sluice.current";
const KEPT_MAX = 100;

let all = [];
try {
  all = JSON.parse(localStorage.getItem(STORE)) ?? [];
} catch {
  // What cannot be read is begun anew.
}

export const conversations = () => all;

export function newConversation() {
  const empty = all.find((one) => one.messages.length === 0);
  const made = empty ?? { id: crypto.getRandomValues(new Uint32Array(2)).join(""), messages: [], settings: { temperature: 0.7 } };
  if (!empty) all.unshift(made);
  return made;
}

export function currentConversation() {
  const id = localStorage.getItem(CURRENT);
  return all.find((one) => one.id === id) ?? all[0] ?? newConversation();
}

export function rememberCurrent(conversation) {
  localStorage.setItem(CURRENT, conversation.id);
}

export function remove(conversation) {
  all = all.filter((one) => one !== conversation);
}

// Writes all of them down; where the browser gives no more room, the oldest go.
export function save() {
  all.length = Math.min(all.length, KEPT_MAX);
  for (;;) {
    try {
      localStorage.setItem(STORE, JSON.stringify(all));
      return;
    } catch (error) {
      if (all.length <= 1) throw error;
      all.pop();
    }
  }
}

export function titleOf(conversation) {
  const first = conversation.messages.find((message) => message.role === "user");
  return first ? first.content.trim().slice(0, 80) : "New conversation";
}
