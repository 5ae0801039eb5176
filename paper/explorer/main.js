// The page: choices in, an answer out. What is chosen is in the URL's fragment.

import * as Plot from "@observablehq/plot";
import { FACTORS, LEAST_TRIALS, OPERATIONS, best, fieldOf, flips, foreign, grid, growing, lacking, levels, ranking, settle, syncsOfWrite } from "./answers.js";
import { fieldsOf, read } from "./own.js";

const data = JSON.parse(document.getElementById("data").textContent);
const form = document.getElementById("choice");
const mixes = document.getElementById("mix");
const WORDS = {
  access: { c: "C", python: "Python" },
  memory: { default: "as shipped" },
  durability: {
    default: "as each store is shipped", none: "nothing (none)", process: "a crash of the process (process)",
    sync: "a loss of power (sync)", atomic: "a loss of power, whole (atomic)",
  },
};
const NAMES = { access: "access from", memory: "memory of", data: "data that are", durability: "writes that survive", size: "values of", records: "a number of" };
const LEAST_SYNC = 1e4; // ns, at the slider's left; the right is 1,000 times that
const MOST_REGRET = 1000; // above it a bound tells nothing
const AS_MEASURED = 0; // the slider's leftmost place

const word = (factor, level) => WORDS[factor]?.[level] ?? (typeof level === "number" ? level.toLocaleString("en") : level);
const element = (name, text = "", kind = "") => Object.assign(document.createElement(name), { textContent: text, className: kind });
const syncOf = (place) => (place > AS_MEASURED ? LEAST_SYNC * 10 ** (((place - 1) / 99) * 3) : 0);

function time(ns) {
  const [unit, scale] = ns < 1e3 ? ["ns", 1] : ns < 1e6 ? ["µs", 1e3] : ns < 1e9 ? ["ms", 1e6] : ["s", 1e9];
  return `${Number((ns / scale).toPrecision(3))} ${unit}`;
}

const times = (ratio) => Number(ratio.toPrecision(3)).toLocaleString("en");
function list(names, last = "and") {
  const found = names.map((name) => data.stores[name]?.name ?? name);
  return found.length > 1 ? `${found.slice(0, -1).join(", ")} ${last} ${found[found.length - 1]}` : found.join("");
}

let own = []; // the reader's fields
let tables = []; // what was dropped
let wanted, choice; // the choice, and what was measured of it
want({ ...data.first, ...parse(location.hash) });

function want(next) {
  wanted = next;
  choice = settle(data.fields, wanted);
}

function parse(hash) {
  const given = new URLSearchParams(hash.slice(1));
  const found = {};
  for (const factor of FACTORS) {
    if (given.has(factor)) found[factor] = factor === "records" ? Number(given.get(factor)) : given.get(factor);
  }
  if (["mean", "p99"].includes(given.get("measure"))) found.measure = given.get("measure");
  if (given.has("mix")) {
    const shares = given.get("mix").split("-").map((share) => Math.min(100, Math.max(0, Number(share) || 0)));
    found.mix = Object.fromEntries(OPERATIONS.map((operation, at) => [operation, shares[at] ?? 0]));
  }
  for (const name of ["grow", "c"]) if (given.has(name)) found[name] = given.get(name) === "yes";
  if (Number(given.get("sync")) > 0) found.sync = Number(given.get("sync"));
  return found;
}

function fragment() {
  const given = new URLSearchParams(FACTORS.map((factor) => [factor, choice[factor]]));
  given.set("mix", OPERATIONS.map((operation) => choice.mix[operation]).join("-"));
  given.set("measure", choice.measure);
  for (const name of ["grow", "c"]) if (choice[name]) given.set(name, "yes");
  if (choice.sync) given.set("sync", Math.round(choice.sync));
  return `#${given}`;
}

for (const operation of OPERATIONS) {
  const label = element("label", operation);
  const input = Object.assign(element("input"), { type: "number", name: operation, min: 0, max: 100, step: 1 });
  label.append(input);
  mixes.append(label);
}

function fill(factor) {
  const select = form.elements[factor];
  const options = levels(data.fields, choice, factor).map(({ level, measured }) => {
    const trials = fieldOf(data.fields, { ...choice, [factor]: level })?.trials;
    const few = factor === "records" && trials < LEAST_TRIALS ? ` (trials: ${trials})` : "";
    const said = word(factor, level) + (measured ? few : " (not measured)");
    return Object.assign(element("option", said), { value: level, disabled: !measured, selected: level === choice[factor] });
  });
  select.replaceChildren(...options);
}

function show() {
  FACTORS.forEach(fill);
  OPERATIONS.forEach((operation) => (form.elements[operation].value = choice.mix[operation]));
  form.elements.measure.value = choice.measure;
  form.elements.grow.checked = choice.grow;
  form.elements.c.checked = choice.c;
  const field = fieldOf(data.fields, choice);
  const syncs = choice.durability === "sync" && field.sync > 0;
  document.getElementById("device").hidden = !syncs;
  const place = choice.sync ? 1 + (Math.log10(choice.sync / LEAST_SYNC) / 3) * 99 : AS_MEASURED;
  form.elements.sync.value = place;
  const said = choice.sync ? time(choice.sync) : `${time(field.sync || 0)}, as measured`;
  form.elements.synced.value = said;
  form.elements.sync.setAttribute("aria-valuetext", said);
  const ranked = ranking(data, data.fields, choice);
  const yours = ranking(data, own, choice);
  moved();
  answer(ranked, lacking(field, choice), field);
  draw(ranked);
  table(ranked, yours, field);
  change();
  settings(ranked);
  document.getElementById("caution").textContent = data.cautions[choice.durability] ?? "";
  document.getElementById("grid").disabled = !best(ranked).length;
  document.getElementById("prediction").textContent = prediction();
  document.getElementById("source").textContent = data.sources[field.source];
  history.replaceState(null, "", fragment());
}

function prediction() {
  const some = OPERATIONS.filter((operation) => choice.mix[operation] > 0).length > 1;
  if (choice.measure === "p99" && some) {
    return "The 99th percentile of a mix is not the mean of its operations' percentiles: read this order as a rough one.";
  }
  return some ? data.mixes : "";
}

// What was wanted but not measured together, and what the page shows instead.
function moved() {
  const other = FACTORS.filter((factor) => choice[factor] !== wanted[factor]);
  const said = (levels) => other.map((factor) => `${NAMES[factor]} ${word(factor, levels[factor])}`).join(", ");
  document.getElementById("moved").textContent = other.length
    ? `Not measured with these choices: ${said(wanted)}. Shown instead: ${said(choice)}.`
    : "";
}

function answer(ranked, missing, field) {
  const may = best(ranked);
  const sure = ranked.filter((row) => row.high < data.recommended).map((row) => row.store);
  const text = missing.length
    ? `Not measured for these records: ${choice.measure === "p99" ? "the 99th percentile of " : ""}${missing.join(", ")}.`
    : !may.length
    ? "No two stores were measured whole here, so none is ranked."
    : sure.length
      ? `Use ${list(sure, "or")}.`
      : `These trials do not tell which of ${list(may)} is best.`;
  const rest = may.filter((store) => sure.length && !sure.includes(store));
  const others = rest.length ? ` Not told apart from the best: ${list(rest)}.` : "";
  const source = data.sources[field.source].split(":")[0];
  const trials = Math.max(0, ...ranked.map((row) => row.trials));
  const basis = missing.length ? "" : ` (${source}, trials: ${trials}${choice.sync ? "; computed for another device" : ""})`;
  document.getElementById("answer").textContent = `${text}${others}${basis}`;
}

function draw(ranked) {
  const rows = ranked.filter((row) => row.high < Infinity).map((row) => ({ ...row, name: data.stores[row.store]?.name ?? row.store }));
  const figure = document.getElementById("chart");
  if (!rows.length) return figure.replaceChildren();
  const colours = getComputedStyle(document.documentElement);
  const verdicts = ["in", "undecided", "out"];
  const shown = rows.map((row) => ({ ...row, high: Math.min(row.high, MOST_REGRET) }));
  const width = Math.min(640, figure.clientWidth); // so that a phone has the same letters
  figure.replaceChildren(
    Plot.plot({
      width, height: 70 + 32 * rows.length, marginLeft: 150, marginBottom: 50,
      style: { background: "transparent", fontSize: "13px" },
      x: { type: "log", label: "regret: times as slow as the best", labelAnchor: "center", labelOffset: 42, grid: true, ticks: width / 80, tickFormat: (value) => times(value) },
      y: { label: null, domain: rows.map((row) => row.name) },
      color: { domain: verdicts, range: verdicts.map((name) => colours.getPropertyValue(`--${name}`)) },
      symbol: { domain: verdicts, range: ["circle", "diamond", "square"], legend: true },
      marks: [
        Plot.axisY({ lineWidth: 10 }), // ems, at which a name wraps
        Plot.ruleX([data.in], { strokeDasharray: "3 3", stroke: "currentColor" }),
        Plot.ruleY(shown, { x1: "low", x2: "high", y: "name", stroke: "verdict", strokeWidth: 2 }),
        Plot.dot(rows, { x: "regret", y: "name", stroke: "verdict", fill: "verdict", symbol: "verdict", r: 4 }),
      ],
    }),
  );
}

function row(cells, head = "td") {
  const line = element("tr");
  cells.forEach(([text, kind = ""], at) => {
    const cell = element(at ? head : "th", text, kind);
    if (!at || head === "th") cell.scope = head === "th" ? "col" : "row";
    line.append(cell);
  });
  return line;
}

const most = (high) => (high < MOST_REGRET ? `to ${times(high)}` : "or more");
const interval = (found) => (found.high < Infinity ? `${times(found.low)} ${most(found.high)}` : "");

function table(ranked, yours, field) {
  const shown = document.getElementById("ranking");
  const mine = new Map(yours.map((found) => [found.store, found]));
  const heads = [["store"], ["time", "number"], ["regret", "number"], ["95 % interval", "number"], ["verdict"], ["space", "number"], ["memory", "number"], ["syncs a write", "number"]];
  if (yours.length) heads.push(["your time", "number"], ["your regret", "number"]);
  shown.tHead.replaceChildren(row(heads, "th"));
  const lines = ranked.map((found) => {
    const facts = field.stores[found.store];
    const cells = [
      [data.stores[found.store]?.name ?? found.store], [time(found.time), "number"],
      [Number.isNaN(found.regret) ? "" : times(found.regret), "number"], [interval(found), "number"], [found.verdict, found.verdict],
      [facts.space ? `${times(facts.space)} x` : "", "number"], [facts.memory ? `${Math.round(facts.memory / 2 ** 20)} MiB` : "", "number"],
      [Number.isNaN(syncsOfWrite(facts, choice)) ? "" : times(syncsOfWrite(facts, choice)), "number"],
    ];
    const other = mine.get(found.store);
    if (yours.length) cells.push([other ? time(other.time) : "", "number"], [other ? times(other.regret) : "", "number"]);
    return row(cells);
  });
  shown.tBodies[0].replaceChildren(...lines);
  const where = field.cooled.length ? ` Not ranked, because their files left the page cache: ${list(field.cooled)}.` : "";
  const large = growing(data, field, choice);
  const grown = large.length ? ` Not ranked, because their files only grow with this mix: ${list(large)}.` : "";
  const rust = foreign(data, field, choice);
  const left = rust.length ? ` Not ranked, because C cannot call them: ${list(rust)}.` : "";
  shown.caption.textContent = `Geometric means over the trials of ${word("size", field.size)} x ${word("records", field.records)}. Space is the disk used over the bytes of keys and values; memory has the engine's caches and the files that it maps. ${data.legend}${where}${grown}${left}`;
}

function change() {
  const found = flips(data, data.fields, choice);
  const said = found.map(({ what, stores }) => {
    if (what.factor === "grow") return element("li", `With a file that ${what.level ? "may only grow" : "stays small"}: ${list(stores)}.`);
    const level = what.factor === "sync" ? time(what.level) : word(what.factor, what.level);
    const changed = what.factor === "sync" ? "a device that syncs in" : what.factor === "mix" ? "nothing but" : NAMES[what.factor];
    return element("li", `With ${changed} ${level}: ${list(stores)}.`);
  });
  const none = element("li", "No single change of these choices, among what was measured, gives other best stores.");
  document.getElementById("flips").replaceChildren(...(said.length ? said : [none]));
}

function settings(ranked) {
  const lines = ranked.filter((found) => found.verdict !== "out").map(({ store }) => {
    const facts = data.stores[store] ?? {};
    const set = facts.settings?.[choice.durability] ?? (choice.durability === "default" ? "as shipped" : "");
    const measured = fieldOf(data.fields, choice).stores[store].version;
    const text = [facts.name && !store.includes("/") ? `${facts.name} (${store})` : facts.name ?? store, set, facts.language ?? "", facts.licence ?? "", measured, facts.latest ?? "", facts.processes ?? "", facts.known ?? ""];
    return row(text.map((each) => [each]));
  });
  document.getElementById("settings").tBodies[0].replaceChildren(...lines);
}

function chosen({ target }) {
  const { name, value, checked } = target;
  const next = { ...wanted, mix: { ...wanted.mix } };
  if (OPERATIONS.includes(name)) next.mix[name] = Math.min(100, Math.max(0, Number(value) || 0));
  else if (name === "sync") next.sync = syncOf(Number(value));
  else if (name === "grow" || name === "c") next[name] = checked;
  else next[name] = name === "records" ? Number(value) : value;
  if (!OPERATIONS.some((operation) => next.mix[operation] > 0)) return; // until another one is typed
  want(next);
  show();
}

form.addEventListener("input", chosen);
form.addEventListener("change", chosen); // some tools that fill in forms send this one alone
form.addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("hashchange", () => {
  want({ ...data.first, ...parse(location.hash) });
  show();
});

document.getElementById("grid").addEventListener("click", () => {
  const ranked = ranking(data, data.fields, choice);
  const text = grid(fieldOf(data.fields, choice), choice, best(ranked));
  const link = Object.assign(element("a"), { download: "mine.toml", href: URL.createObjectURL(new Blob([text], { type: "application/toml" })) });
  link.click();
  URL.revokeObjectURL(link.href);
});

async function take(files) {
  const said = document.getElementById("own");
  try {
    tables = [...tables, ...(await Promise.all([...files].map(read)))].slice(-2);
    own = fieldsOf(tables);
    said.textContent = `${own.length} fields of yours: where you measured what is chosen above, the ranking has your times.`;
    tables = [];
  } catch (error) {
    own = [];
    said.textContent = `Not used: ${error.message}`;
  }
  show();
}

document.getElementById("files").addEventListener("change", ({ target }) => take(target.files));
for (const [name, dragged] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
  window.addEventListener(name, (event) => {
    event.preventDefault();
    document.body.classList.toggle("dragged", dragged);
    if (name === "drop") take(event.dataTransfer.files);
  });
}
window.addEventListener("resize", show);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
show();
