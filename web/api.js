// The server that this page came from: its key, JSON answers and streams of events.

const KEY = "sluice.key";

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function setKey(key) {
  sessionStorage.setItem(KEY, key);
}

async function call(path, options = {}) {
  const headers = { ...options.headers };
  const key = sessionStorage.getItem(KEY);
  if (key) headers.Authorization = `Bearer ${key}`;
  const answer = await fetch(path, { ...options, headers });
  if (answer.ok) return answer;
  let message = `the server answered ${answer.status}`;
  try {
    message = (await answer.json()).error.message;
  } catch {
    // Not the server's own error, as from a proxy: its status has to do.
  }
  throw new ApiError(answer.status, message);
}

export const getJson = async (path) => (await call(path)).json();
export const getText = async (path) => (await call(path)).text();

// Yields the JSON of each event of a streamed answer. Without a body it is asked for by GET.
export async function* streamEvents(path, body, signal) {
  const answer = await call(path, body === null ? { signal } : {
    method: "POST", signal, body: JSON.stringify(body),
    headers: { "Content-Type": "application/json" },
  });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the connection ended before the answer did");
    rest += value;
    const events = rest.split("\n\n");
    rest = events.pop();
    for (const event of events) {
      if (!event.startsWith("data: ")) continue;
      const data = event.slice(6);
      if (data === "[DONE]") return;
      const json = JSON.parse(data);
      if (json.error) throw new ApiError(answer.status, json.error.message);
      yield json;
    }
  }
}
