// Markdown as models write it, into elements. Text only ever becomes text nodes: nothing that a
// model says is read as HTML, and a link is one only if it leads to the web.

const INLINE = new RegExp([
  "(`+)(.+?)\\1(?!`)",                     // 1, 2: code
  "\\*\\*(?=\\S)(.+?\\S?)\\*\\*",          // 3: strong
  "(?<![\\w*])\\*(?=[^\\s*])(.+?)(?<=\\S)\\*(?![\\w*])",  // 4: emphasis
  "(?<!\\w)_(?=\\S)(.+?)(?<=\\S)_(?!\\w)", // 5: emphasis
  "~~(?=\\S)(.+?)~~",                      // 6: struck out
  "\\[([^\\]\\n]{1,500})\\]\\((https?://[^\\s)]{1,2000})\\)",  // 7, 8: link
].join("|"), "s");
const INLINE_DEPTH_MAX = 8;

function element(tag, ...children) {
  const made = document.createElement(tag);
  made.append(...children);
  return made;
}

function link(text, address) {
  const made = element("a", text);
  made.href = address;
  made.target = "_blank";
  made.rel = "noopener noreferrer";
  return made;
}

// The nodes of a paragraph's text.
function inline(text, depth = 0) {
  const nodes = [];
  while (text) {
    const found = depth < INLINE_DEPTH_MAX ? INLINE.exec(text) : null;
    if (!found) {
      nodes.push(text);
      break;
    }
    if (found.index > 0) nodes.push(text.slice(0, found.index));
    const [all, , code, strong, starred, underlined, struck, label, address] = found;
    if (code !== undefined) nodes.push(element("code", code));
    else if (strong !== undefined) nodes.push(element("strong", ...inline(strong, depth + 1)));
    else if (struck !== undefined) nodes.push(element("s", ...inline(struck, depth + 1)));
    else if (label !== undefined) nodes.push(link(label, address));
    else nodes.push(element("em", ...inline(starred ?? underlined, depth + 1)));
    text = text.slice(found.index + all.length);
  }
  return nodes;
}

function codeBlock(text, language) {
  const code = element("code", text);
  const copy = element("button", "Copy");
  copy.type = "button";
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = "Copied";
  });
  const block = element("pre", copy, code);
  if (language) block.dataset.language = language;
  return block;
}

const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());

function table(lines) {
  const row = (line, tag) => element("tr", ...cells(line).map((cell) => element(tag, ...inline(cell))));
  return element("table", element("thead", row(lines[0], "th")),
    element("tbody", ...lines.slice(2).map((line) => row(line, "td"))));
}

const ITEM = /^(\s*)(?:[-*+]|(\d{1,9})[.)])\s+(.*)$/;
const FENCE = /^\s*(`{3,}|~{3,})\s*([\w+#.-]*)/;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^\s*([-*_])(\s*\1){2,}\s*$/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)+\|?\s*$/;
const BLOCK_DEPTH_MAX = 8;

// Lines up to the end of a list; items deeper than the first are lists of their own.
function list(lines, depth) {
  const [, , number] = ITEM.exec(lines[0]);
  const made = element(number === undefined ? "ul" : "ol");
  if (number !== undefined && number !== "1") made.start = Number(number);
  const indent = ITEM.exec(lines[0])[1].length;
  let item = [];
  const end = () => {
    if (item.length) made.append(element("li", ...blocks(item, depth + 1, true)));
    item = [];
  };
  for (const line of lines) {
    const found = ITEM.exec(line);
    if (found && found[1].length <= indent) {
      end();
      item.push(found[3]);
    } else {
      item.push(line.replace(new RegExp(`^\\s{0,${indent + 2}}`), ""));
    }
  }
  end();
  return made;
}

// How many of the lines from `at` belong to the list that begins there.
function listLength(lines, at) {
  let end = at + 1;
  while (end < lines.length) {
    const line = lines[end];
    const next = lines[end + 1] ?? "";
    const continues = ITEM.test(line) || /^\s+\S/.test(line) ||
      (line.trim() === "" && (ITEM.test(next) || /^\s{2,}\S/.test(next)));
    if (!continues) break;
    ++end;
  }
  return end - at;
}

function blocks(lines, depth, tight = false) {
  const made = [];
  let paragraph = [];
  const end = () => {
    if (!paragraph.length) return;
    const nodes = inline(paragraph.join("\n"));
    if (tight && !made.length) made.push(...nodes);
    else made.push(element("p", ...nodes));
    paragraph = [];
  };
  for (let at = 0; at < lines.length; ++at) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    const heading = HEADING.exec(line);
    if (fence) {
      end();
      let close = at + 1;
      while (close < lines.length && !lines[close].trim().startsWith(fence[1])) ++close;
      made.push(codeBlock(lines.slice(at + 1, close).join("\n"), fence[2]));
      at = close;
    } else if (line.trim() === "") {
      end();
    } else if (heading) {
      end();
      made.push(element(`h${Math.min(6, heading[1].length + 2)}`, ...inline(heading[2])));
    } else if (RULE.test(line)) {
      end();
      made.push(element("hr"));
    } else if (line.startsWith(">") && depth < BLOCK_DEPTH_MAX) {
      end();
      let close = at;
      while (close < lines.length && lines[close].startsWith(">")) ++close;
      const inner = lines.slice(at, close).map((quoted) => quoted.replace(/^>\s?/, ""));
      made.push(element("blockquote", ...blocks(inner, depth + 1)));
      at = close - 1;
    } else if (ITEM.test(line) && depth < BLOCK_DEPTH_MAX) {
      end();
      const length = listLength(lines, at);
      made.push(list(lines.slice(at, at + length), depth));
      at += length - 1;
    } else if (line.includes("|") && TABLE_RULE.test(lines[at + 1] ?? "")) {
      end();
      let close = at + 2;
      while (close < lines.length && lines[close].includes("|")) ++close;
      made.push(table(lines.slice(at, close)));
      at = close - 1;
    } else {
      paragraph.push(line);
    }
  }
  end();
  return made;
}

// The elements of a text in Markdown.
export function markdown(text) {
  return blocks(text.replace(/\r\n?/g, "\n").split("\n"), 0);
}
