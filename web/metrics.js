// Prometheus' text format, as far as /metrics uses it.

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

// A list of {name, labels, value}.
export function parseMetrics(text) {
  const samples = [];
  for (const line of text.split("\n")) {
    const found = LINE.exec(line);
    if (!found) continue;
    const labels = {};
    for (const [, name, value] of (found[2] ?? "").matchAll(LABEL)) labels[name] = value;
    samples.push({ name: found[1], labels, value: Number(found[3]) });
  }
  return samples;
}

// The sum of all samples of that name whose labels have these values.
export function total(samples, name, labels = {}) {
  let sum = 0;
  for (const sample of samples) {
    if (sample.name !== name) continue;
    if (Object.entries(labels).every(([key, value]) => sample.labels[key] === value)) sum += sample.value;
  }
  return sum;
}
