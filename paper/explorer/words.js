// What the parts of the page share: its data, its words, and its elements.

export const data = JSON.parse(document.getElementById("data").textContent);
export const page = (id) => document.getElementById(id);

const SURVIVES = {
  none: "nothing", process: "a crash of the process", recoverable: "a loss of power, but for the last writes",
  sync: "a loss of power", atomic: "a loss of power, whole",
};
const WORDS = {
  access: { c: "C", python: "Python" },
  memory: { default: "as shipped" },
  durability: {
    default: "as each store is shipped",
    ...Object.fromEntries(Object.keys(SURVIVES).map((level) => [level, `${SURVIVES[level]} (${level})`])),
  },
  measure: { mean: "mean", p99: "99th percentile" },
};
export const NAMES = {
  access: "access from", memory: "memory of", data: "data that are", durability: "writes that survive", size: "values of",
  measure: "the", sync: "a device that syncs in", mix: "nothing but",
};
const PHRASES = { memory: { default: "memory as shipped" }, durability: { default: "stores as shipped" } };

const known = (table, name) => (table && Object.hasOwn(table, name) ? table[name] : undefined); // a level may be named "constructor"

export const MOST_REGRET = 1000; // above it a bound tells nothing

export const word = (factor, level) => known(WORDS[factor], level) ?? (typeof level === "number" ? level.toLocaleString("en") : level);
export const survives = (guarantee) => known(SURVIVES, guarantee) ?? guarantee;
export const element = (name, text = "", kind = "") => Object.assign(document.createElement(name), { textContent: text, className: kind });
export const phrase = (name, level) =>
  name === "records" ? `${word(name, level)} records` : known(PHRASES[name], level) ?? `${NAMES[name]} ${name === "sync" ? time(level) : word(name, level)}`;

export const some = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
export const percent = (share) => `${Number(share.toPrecision(3))}%`;

export function time(exact) {
  const ns = Number(exact.toPrecision(3)); // or 999.9 ns would be 1000 ns
  const [unit, scale] = ns < 1e3 ? ["ns", 1] : ns < 1e6 ? ["µs", 1e3] : ns < 1e9 ? ["ms", 1e6] : ["s", 1e9];
  return `${Number((ns / scale).toPrecision(3))} ${unit}`;
}

export const times = (ratio) => Number(ratio.toPrecision(3)).toLocaleString("en");
export const nameOf = (store) => known(data.stores, store)?.name ?? store.replace(/^\S+(?= \()/, (engine) => nameOf(engine)); // "lmdb (recommended)" has a label
export const joined = (words, last = "and") => (words.length > 1 ? `${words.slice(0, -1).join(", ")} ${last} ${words[words.length - 1]}` : words.join(""));
export const list = (stores, last) => joined(stores.map(nameOf), last);

export function row(cells, head = "td") {
  const line = element("tr");
  cells.forEach(([content, kind = ""], at) => {
    const cell = element(at ? head : "th", "", kind);
    cell.append(content);
    if (!at || head === "th") cell.scope = head === "th" ? "col" : "row";
    line.append(cell);
  });
  return line;
}

export function heading(text, columns) {
  const cell = Object.assign(element("th", text), { colSpan: columns, scope: "colgroup" });
  const line = element("tr", "", "heading");
  line.append(cell);
  return line;
}

const most = (high) => (high < MOST_REGRET ? `to ${times(high)}` : "or more");
export const interval = (found) => (found.high < Infinity ? `${times(found.low)} ${most(found.high)}` : "");
export const regret = (found) => (Number.isNaN(found.regret) ? "" : times(found.regret));
