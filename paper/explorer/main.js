// The page. Its form is the question, and its fragment says the same; each committed change asks anew.

import * as Plot from "@observablehq/plot";
import {
  FACTORS, MEASURES, MOST, NOT_STATED, OPERATIONS, TERMS, answer, answered, best, beyondMemory, bytesOf, deviceOf, engine, flips, grid, lacking, lacksOf, levels, offers,
  recommended, sizeOf, syncsOfWrite, total, trialsIn,
} from "./answers.js";
import { card } from "./cards.js";
import { map } from "./map.js";
import { fieldsOf, join, read } from "./own.js";
import { GOOD } from "./ranking.js";
import {
  MOST_REGRET, NAMES, data, element, heading, interval, joined, list, nameOf, page, percent, phrase, regret, row, some, survives, time, times, word,
} from "./words.js";
import { beside, drop, summary } from "./yours.js";

const form = document.getElementById("choice");
const LEFT = {
  below: "Below the guarantee asked for, so not recommended",
  most: "Left out, because their process takes more memory, or it was not measured",
  grows: "Not ranked, because their files only grow with updates and removes",
  cooled: "Not ranked, because their files left the page cache",
  lacks: "Not ranked, because an operation of the mix was not measured",
  computed: "Not ranked, because they sync at level process, too, so what another device would take is not known",
  absent: "Not measured at these levels",
};
const MOST_NAMED = 4; // stores that a short answer does not tell apart
const MOST_SIZE = 64 * 2 ** 20; // bytes
const [LEAST_SYNC, MOST_SYNC] = [1e4, 1e7]; // ns, at the slider's ends
const BESIDES = ["process", "recoverable", "sync"]; // levels whose answers always stand beside each other
const OUTPUTS = [
  "answer", "asked", "besides", "offers", "left", "chart", "ranking-caption", "ranking-head", "ranking-body", "prediction", "flips", "map", "caution", "cards",
  "yours", "source",
];

const needs = Object.keys(data.needs);
const engines = [...new Set(data.fields.flatMap((field) => Object.keys(field.stores)).map(engine))];
const syncOf = (place) => (place > 0 ? LEAST_SYNC * (MOST_SYNC / LEAST_SYNC) ** ((place - 1) / 99) : 0);
const placeOf = (sync) => (sync > 0 ? 1 + (Math.log(sync / LEAST_SYNC) / Math.log(MOST_SYNC / LEAST_SYNC)) * 99 : 0);
let own = []; // the reader's fields
let tables = []; // what was dropped of a folder whose other table is still needed
let groups = []; // what is shown

// The form

for (const factor of FACTORS) {
  const place = TERMS.includes(factor) ? form.elements[factor] : page(`measured-${factor}`);
  place.replaceChildren(...levels(data, factor).map((level) => Object.assign(element("option", word(factor, level)), { value: level })));
}
for (const need of needs) {
  const label = element("label", data.needs[need]);
  label.prepend(Object.assign(element("input"), { type: "checkbox", name: need }));
  page("needs").append(label);
}
for (const store of engines) {
  const label = element("label", nameOf(store));
  label.prepend(Object.assign(element("input"), { type: "checkbox", name: `store-${store}` }));
  page("stores").append(label);
}
page("others").hidden = !data.submitted.length;
for (const { machines, measured, engines, cells } of data.submitted) {
  page("submitted").append(element("li", `${machines}. Measured ${measured}: ${some(cells, "cell")} of ${engines}.`));
}
form.elements.most.replaceChildren(...MOST.map((size) => Object.assign(element("option", size || "any"), { value: size })));
for (const operation of OPERATIONS) {
  const label = element("label", operation);
  label.append(Object.assign(element("input"), { type: "text", inputMode: "decimal", name: operation, size: 6 }));
  label.lastChild.setAttribute("aria-describedby", "wrong");
  page("mix").insertBefore(label, page("sum"));
}

function share(text) {
  const match = /^(\d+\.?\d*|\.\d+)\s*%?$/.exec(text.trim());
  return match && Number(match[1]) <= 100 ? Number(match[1]) : NaN;
}

// A size as it is typed: "4KiB", "4096"; empty if it is none.
function size(text) {
  const bytes = bytesOf(text);
  return bytes >= 1 && bytes <= MOST_SIZE ? sizeOf(bytes) : "";
}

// A number of records as it is typed: "10,000", "100k", "1M", "1e6"; NaN if it is none.
function records(text) {
  const match = /^(\d{1,15}|\d{1,12}\.\d{1,9})\s?([kKM]|[eE]\+?\d{1,2})?$/.exec(text.trim().replace(/(?<=\d)[_,](?=\d{3}(?!\d))/g, ""));
  const scale = { k: "e3", K: "e3", M: "e6" }[match?.[2]] ?? match?.[2] ?? "";
  const found = match ? Number(`${match[1]}${scale}`) : NaN;
  return Number.isSafeInteger(found) && found >= 1 ? found : NaN;
}

function ram(text) {
  const bytes = bytesOf(text);
  return bytes >= 1 ? sizeOf(bytes) : "";
}

const READ = { size, records, ram };
const ALLOWED = { ram: "a size, such as 16GiB", size: `a size from 1 B to 64 MiB, such as 4KiB`, records: "a number of records, such as 10000, 100k or 1M" };
const typed = (name) => {
  const text = form.elements[name].value.trim();
  return text ? `"${text.slice(0, 40)}"` : "an empty field";
};

// What the form asks, and what is wrong with it, if anything.
function question() {
  const value = (name) => form.elements[name].value;
  const asked = Object.fromEntries(FACTORS.map((factor) => [factor, (READ[factor] ?? String)(value(factor))]));
  asked.mix = Object.fromEntries(OPERATIONS.map((operation) => [operation, share(value(operation))]));
  asked.ram = ram(value("ram"));
  asked.measure = value("measure");
  asked.grow = form.elements.grow.checked;
  asked.most = value("most");
  asked.needs = needs.filter((need) => form.elements[need].checked);
  asked.stores = engines.filter((store) => form.elements[`store-${store}`].checked);
  const wrong = Object.keys(READ).filter((name) => !asked[name]).map((name) => `${typed(name)} is not allowed; allowed: ${ALLOWED[name]}.`);
  for (const operation of OPERATIONS.filter((name) => Number.isNaN(asked.mix[name]))) {
    wrong.push(`${operation}: ${typed(operation)} is no share; allowed: a number from 0 to 100, such as 0.5.`);
  }
  if (!wrong.length && !total(asked.mix)) {
    wrong.push("All shares are 0; allowed: at least one operation above 0.");
  }
  asked.sync = !wrong.length && deviceOf(data, asked) ? Math.round(syncOf(Number(value("sync")))) : 0;
  return { asked, wrong };
}

function write(asked) {
  for (const name of [...FACTORS, "ram"]) form.elements[name].value = asked[name];
  for (const operation of OPERATIONS) form.elements[operation].value = asked.mix[operation];
  form.elements.measure.value = asked.measure;
  form.elements.grow.checked = asked.grow;
  form.elements.most.value = asked.most;
  for (const need of needs) form.elements[need].checked = asked.needs.includes(need);
  for (const store of engines) form.elements[`store-${store}`].checked = asked.stores.includes(store);
  form.elements.sync.value = placeOf(asked.sync ?? 0);
}

// The question of an address, and in words what it asks that is not there.
function parse(hash) {
  const given = new URLSearchParams(hash.slice(1));
  const asked = { ...data.first, most: "", sync: 0 };
  const refused = [];
  const take = (name, allowed, read = (text) => text) => {
    if (!given.has(name)) return;
    const level = read(given.get(name));
    if (allowed.includes(level)) asked[name] = level;
    else refused.push(`${name}=${given.get(name).slice(0, 40)} is not known; allowed: ${allowed.join(", ")}.`);
  };
  for (const factor of TERMS) take(factor, levels(data, factor));
  for (const [name, read] of Object.entries(READ)) {
    const found = given.has(name) && read(given.get(name));
    if (found) asked[name] = found;
    else if (given.has(name)) refused.push(`${name}=${given.get(name).slice(0, 40)} is not allowed; allowed: ${ALLOWED[name]}.`);
  }
  take("measure", MEASURES);
  take("most", MOST);
  take("grow", ["yes", "no"]);
  asked.grow = asked.grow === "yes";
  for (const [name, known] of Object.entries({ needs, stores: engines })) {
    const named = given.getAll(name).flatMap((text) => text.split(/[ ,]+/)).filter(Boolean);
    for (const other of named.filter((one) => !known.includes(one))) {
      refused.push(`${name}=${other.slice(0, 40)} is not known; allowed: ${known.join(", ")}.`);
    }
    asked[name] = known.filter((one) => named.includes(one));
  }
  if (given.has("mix")) {
    const shares = given.get("mix").split("-");
    asked.mix = Object.fromEntries(OPERATIONS.map((operation, at) => [operation, shares[at] ?? "0"]));
  }
  if (given.has("sync")) {
    const sync = Number(given.get("sync"));
    if (sync >= LEAST_SYNC && sync <= MOST_SYNC) asked.sync = sync;
    else refused.push(`sync=${given.get("sync").slice(0, 40)} is not allowed; allowed: ${LEAST_SYNC} to ${MOST_SYNC} ns.`);
  }
  return { asked, refused };
}

function fragment(asked) {
  const given = new URLSearchParams(FACTORS.map((factor) => [factor, asked[factor]]));
  given.set("mix", OPERATIONS.map((operation) => asked.mix[operation]).join("-"));
  given.set("measure", asked.measure);
  if (asked.ram !== data.first.ram) given.set("ram", asked.ram);
  if (asked.grow) given.set("grow", "yes");
  if (asked.most) given.set("most", asked.most);
  for (const name of ["needs", "stores"]) if (asked[name].length) given.set(name, asked[name].join(" "));
  if (asked.sync) given.set("sync", asked.sync);
  return `#${given}`;
}

// Each option says whether it was measured with all other choices; of those chosen the answer says it.
function label(asked) {
  for (const factor of TERMS) {
    levels(data, factor).forEach((level, at) => {
      const there = level === asked[factor] || answered(data, { ...asked, [factor]: level });
      form.elements[factor].options[at].textContent = word(factor, level) + (there ? "" : " (not measured)");
    });
  }
}

// What is shown

// All that the page says is said here, of the form as it stands. An error leaves no answer standing.
function ask() {
  try {
    clear();
    const { asked, wrong } = question();
    page("wrong").textContent = wrong.join(" ");
    for (const operation of OPERATIONS) form.elements[operation].setAttribute("aria-invalid", Number.isNaN(asked.mix[operation]));
    for (const name of Object.keys(READ)) form.elements[name].setAttribute("aria-invalid", !asked[name]);
    page("sum").textContent = wrong.length ? "" : summed(asked);
    if (wrong.length) {
      page("answer").append(element("p", "No answer until what you typed is right."));
      page("grid").disabled = true;
      return;
    }
    label(asked);
    show(asked);
    history.replaceState(null, "", fragment(asked));
  } catch (error) {
    fail(error);
  }
}

function clear() {
  groups = [];
  for (const id of OUTPUTS) page(id).replaceChildren();
  for (const id of ["ranked", "changes", "where", "copied"]) page(id).hidden = true;
  for (const id of ["wrong", "sum", "typed"]) page(id).textContent = "";
}

function fail(error) {
  own = tables = [];
  clear();
  page("grid").disabled = true;
  page("own").textContent = "";
  page("answer").append(element("p", `No answer: ${error?.message ?? error}. Results that you dropped are no longer used; change a choice to go on.`));
}

function summed(asked) {
  const sum = total(asked.mix);
  if (Math.abs(sum - 100) < 1e-9) return "Sum: 100%";
  const parts = OPERATIONS.filter((operation) => asked.mix[operation] > 0);
  const taken = parts.map((operation) => `${operation} ${percent((100 * asked.mix[operation]) / sum)}`);
  return `Sum: ${percent(sum)}. The answer takes shares of this sum: ${taken.join(", ")}`;
}

function show(asked) {
  const found = answer(data, asked);
  groups = found.groups;
  page("asked").textContent = inWords(asked);
  page("needed").value = [...asked.needs, ...(asked.most ? [`memory up to ${asked.most}`] : [])].join(", ") || "none";
  page("compared").value = asked.stores.length ? list(asked.stores) : "all stores";
  page("more").value = ["memory", "data"].map((name) => word(name, asked[name])).concat(asked.grow ? ["may grow"] : [], word("measure", asked.measure)).join(", ");
  device(asked);
  if (groups.length) say(asked, found);
  else unanswered(asked, found);
  for (const durability of BESIDES.filter((level) => level !== asked.durability)) page("besides").append(briefly({ ...asked, durability, sync: 0 }));
  drop(asked, own);
  page("grid").disabled = !groups.some((group) => best(group).length);
}

// The question in one line.
function inWords(asked) {
  const mix = shared(asked.mix);
  return `${word("records", asked.records)} x ${asked.size}: ${mix}; from ${word("access", asked.access)}.`;
}

const shared = (mix) =>
  joined(OPERATIONS.filter((operation) => mix[operation] > 0).map((operation) => `${operation} ${percent((100 * mix[operation]) / total(mix))}`));

// The answer to a question in a few words, as a link to all of it.
function briefly(asked) {
  const line = element("li");
  const link = Object.assign(element("a", `If a write must survive ${word("durability", asked.durability)}`), { href: fragment(asked) });
  const larger = beyondMemory(data, asked);
  const { groups: found } = answer(data, asked);
  const group = larger?.group ?? found.find((one) => suits(asked, one));
  const how = [
    larger && (larger.group ? "larger than memory" : "if memory held the data"),
    !larger?.group && group?.shipped && "as shipped",
    !larger?.group && group?.grade === "extrapolated" && "extrapolated",
  ].filter(Boolean);
  line.append(link, `: ${(group && told(group, MOST_NAMED)) || "not measured"}${group && how.length ? ` (${how.join(", ")})` : ""}.`);
  if (group && !larger) line.append(element("div", costs(group), "warning"));
  return line;
}

// What a crash may cost the stores that a group's answer names, and did cost in our tests, in words.
function costs(group) {
  const sure = recommended(group);
  const stores = new Map();
  for (const store of sure.length ? sure : best(group)) {
    const facts = data.stores[store];
    const broke = lacksOf(facts, "comes-back", group.field.durability);
    const cost = [facts.consequence?.[group.field.durability], broke.startsWith("did not") && broke].filter(Boolean).join("; ");
    if (cost) stores.set(cost, [...(stores.get(cost) ?? []), store]);
  }
  return [...stores].map(([cost, names]) => `${list(names)}: ${cost}.`).join(" ");
}

function device(asked) {
  const sync = deviceOf(data, asked);
  page("device").hidden = !sync;
  const said = asked.sync ? time(asked.sync) : `${time(sync)}, as measured`;
  form.elements.synced.value = said;
  form.elements.sync.setAttribute("aria-valuetext", said);
}

// What was not measured, and the nearest questions that were, each a button.
function unanswered(asked, { left }) {
  const missing = lacking(data, asked);
  const terms = ["size", "records", "access", "memory", "durability"].map((name) => phrase(name, asked[name])).join(", ");
  const what = missing.length ? `${asked.measure === "p99" ? "the 99th percentile of " : ""}${joined(missing)} with ` : "";
  page("answer").append(element("p", `Not measured: ${what}${terms}${asked.sync ? `, ${phrase("sync", asked.sync)}` : ""}.`));
  leave(left, ["grows", ...needs, "most", "computed"]);
  const found = offers(data, asked);
  if (found.length) page("offers").append(element("p", found.length > 1 ? "The nearest that were measured:" : "The nearest that was measured:"));
  for (const { other, changed } of found) {
    const button = Object.assign(element("button", changed.map((name) => changedTo(name, other)).join(", ")), { type: "button" });
    button.addEventListener("click", () => {
      write(other);
      ask();
      page("answer").focus();
    });
    page("offers").append(button);
  }
}

function changedTo(name, other) {
  if (name === "mix") return shared(other.mix);
  if (name === "grow") return other.grow ? "a file that may only grow" : "a file that stays small";
  if (name === "most") return "any memory of the store";
  if (name === "stores") return "all stores";
  if (name === "needs") return other.needs.length ? `the ${other.needs.length > 1 ? "needs" : "need"} ${joined(other.needs)}` : "no needs";
  if (name === "sync" && !other.sync) return "the device as measured";
  return phrase(name, other[name]);
}

// On which fields an answer rests, and what that means, in words.
function based({ parts, grade, field }) {
  const names = parts.map((part) => `${word("size", part.field.size)} x ${word("records", part.field.records)}`);
  if (grade === "measured") return "";
  if (grade === "interpolated") return `Interpolated between ${joined(names)}.`;
  const source = data.sources[field.source].split(":")[0];
  return `Extrapolated from ${joined(names)} of the ${source[0].toLowerCase()}${source.slice(1)} (${field.access === "python" ? "from Python" : "from C"}), not measured.`;
}

// What to use if the data are larger than memory, which comes first. Returns where the answer stands for data that memory
// holds.
function regime(asked) {
  const found = beyondMemory(data, asked);
  page("ranking-title").textContent = found ? "Ranking if memory held the data" : "Ranking";
  if (!found) return page("answer");
  const fold = element("details");
  fold.append(element("summary", "If memory held the data"));
  const head = `Larger than memory: the data are ${times(found.ratio)} times as large as ${asked.ram}`;
  const { field, group } = found;
  if (!group) {
    const why = field ? "no two stores that suit were measured with as little" : "no such data were measured at this level";
    page("answer").append(element("p", `${head}, and ${why}.`, "warning"), fold);
    return fold;
  }
  const first = group.ranked.slice(0, 5).map((row) => `${nameOf(row.store)} ${times(row.regret)}`);
  const where = `at ${times(field.ratio)} times the memory (${field.size} x ${field.records.toLocaleString("en")} in ${field.cap}; trials: ${trialsIn(group)})`;
  const which = told(group, MOST_NAMED) || "no store has all trials";
  const label = first.some((text) => text.includes("(recommended)")) ? " Stores called recommended have the settings that their documentation recommends." : "";
  page("answer").append(
    element("p", `${head}. ${which[0].toUpperCase()}${which.slice(1)}.`),
    element("p", `Measured ${where}. Times as slow as the fastest, in the mean: ${joined(first)}.${label}`, "note"),
  );
  page("answer").append(fold);
  return fold;
}

// The stores of a group to use or, if none is surely good, those that may be the best, if they are not more than `most`;
// empty if none is ranked.
function told(group, most = Infinity) {
  const sure = recommended(group);
  if (sure.length) return `${group.grade === "extrapolated" ? "probably" : "use"} ${list(sure, "or")}`;
  const may = best(group);
  if (may.length > most) return `these trials do not tell ${may.length} stores apart`;
  return may.length ? `these trials do not tell which of ${list(may)} is best` : "";
}

function say(asked, found) {
  const { field, groups, left } = found;
  for (const id of ["ranked", "changes", "where", "copied"]) page(id).hidden = false; // or the chart has no width
  const place = regime(asked);
  const apart = groups.length > 1 || field.durability !== asked.durability || field.durability === "default";
  for (const group of groups) {
    place.append(element("p", headedBy(apart && group, sentence(asked, group))));
    if (suits(asked, group)) place.append(element("p", costs(group), "warning"));
    place.append(element("p", basis(group), "note"));
  }
  if (["macos", "windows"].some((need) => asked.needs.includes(need))) page("answer").append(element("p", data.elsewhere, "warning"));
  for (const text of new Set(groups.map(based).filter(Boolean))) place.append(element("p", text, text.startsWith("Extra") ? "warning" : "note"));
  leave(left, ["below", "grows", ...needs, "most", "cooled", "lacks", "computed", "absent"]);
  draw();
  table(asked, apart);
  const space = Object.values(field.stores).some((store) => store.space) ? ` ${data.space}` : "";
  page("ranking-caption").textContent = `Geometric means over the trials; space, memory and syncs are those of ${word("size", field.size)} x ${word("records", field.records)}${apart ? ", as shipped; stores with different guarantees are ranked apart" : ""}.${space} Memory has the engine's caches and the files that it maps. ${data.legend}`;
  page("prediction").textContent = prediction(asked);
  for (const group of groups.filter((group) => suits(asked, group))) change(asked, group, apart);
  picture(asked);
  settings(asked);
  page("caution").textContent = data.cautions[field.durability] ?? "";
  page("source").textContent = data.sources[field.source];
}

function leave(left, reasons) {
  for (const why of reasons.filter((name) => left[name])) page("left").append(element("li", `${LEFT[why] ?? lacked(why)}: ${list(left[why])}.`));
}

const lacked = (need) => `Left out, because you need a store that ${data.needs[need]}`;

const headedBy = (group, text) => (group ? `${headed(group)}: ${text}` : text[0].toUpperCase() + text.slice(1));
const headed = (group) =>
  group.guarantee === NOT_STATED ? "What it survives is not stated" : `${group.shipped ? "As shipped, survives" : "Survives"} ${word("durability", group.guarantee)}`;

// Stores that survive nothing are recommended to nobody who did not ask for them.
const suits = (asked, group) => group.guarantee !== "none" || asked.durability === "none";

function sentence(asked, group) {
  const { ranked } = group;
  const may = best(group);
  const sure = recommended(group);
  const rest = may.filter((store) => sure.length && !sure.includes(store));
  const others = rest.length ? ` Undecided: ${list(rest)}.` : "";
  const stores = ranked.map((row) => row.store);
  if (!suits(asked, group)) return `not recommended, since a crash of the process may cost writes: ${list(stores)}.`;
  if (ranked.length === 1) return `only ${list(stores)} was measured and suits, so there is nothing to compare it with.`;
  if (!may.length) return `no two stores were measured whole here, so none is ranked.`;
  if (group.computed) {
    const would = sure.length ? `${list(sure, "or")} would be best` : `the trials do not tell which of ${list(may)} would be best`;
    return `computed, not measured, for a device that syncs in ${time(asked.sync)}: ${would}.${others} Measure before you choose.`;
  }
  return `${told(group)}.${others}`;
}

// How fast the first store is, and on which data that rests.
function basis({ ranked, field }) {
  const [first, second] = ranked.filter((row) => row.verdict !== "not ranked");
  const next = second ? `, ${nameOf(second.store)} ${times(second.regret)} times as long` : "";
  const fast = first ? `${nameOf(first.store)} takes ${time(first.time)} an operation${next}. ` : "";
  return `${fast}${data.sources[field.source].split(":")[0]}, trials: ${trialsIn({ ranked })}.`;
}

function prediction(asked) {
  const several = OPERATIONS.filter((operation) => asked.mix[operation] > 0).length > 1;
  if (asked.measure === "p99" && several) {
    return "The 99th percentile of a mix is not the mean of its operations' percentiles: read this order as a rough one.";
  }
  return several ? data.mixes : "";
}

function draw() {
  const width = Math.min(640, page("chart").clientWidth); // so that a phone has the same letters
  const colours = getComputedStyle(document.documentElement);
  const verdicts = ["in", "undecided", "out"];
  const plots = groups.flatMap((group) => {
    const rows = group.ranked.filter((row) => row.high < Infinity).map((row) => ({ ...row, name: nameOf(row.store) }));
    if (!rows.length) return [];
    const shown = rows.map((row) => ({ ...row, high: Math.min(row.high, MOST_REGRET) }));
    const plot = Plot.plot({
      width, height: 70 + 32 * rows.length, marginLeft: 150, marginBottom: 50,
      style: { background: "transparent", fontSize: "13px" },
      x: { type: "log", label: "regret: times as slow as the best", labelAnchor: "center", labelOffset: 42, grid: true, ticks: width / 80, tickFormat: (value) => times(value) },
      y: { label: null, domain: rows.map((row) => row.name) },
      color: { domain: verdicts, range: verdicts.map((name) => colours.getPropertyValue(`--${name}`)) },
      symbol: { domain: verdicts, range: ["circle", "diamond", "square"], legend: true },
      marks: [
        Plot.axisY({ lineWidth: 10 }), // ems, at which a name wraps
        Plot.ruleX([GOOD], { strokeDasharray: "3 3", stroke: "currentColor" }),
        Plot.ruleY(shown, { x1: "low", x2: "high", y: "name", stroke: "verdict", strokeWidth: 2 }),
        Plot.dot(rows, { x: "regret", y: "name", stroke: "verdict", fill: "verdict", symbol: "verdict", r: 4 }),
      ],
    });
    return groups.length > 1 ? [element("p", headed(group)), plot] : [plot];
  });
  page("chart").replaceChildren(...plots);
}

function table(asked, apart) {
  const mine = beside(asked, own);
  const spaced = groups.some(({ field }) => Object.values(field.stores).some((store) => store.space)) ? [["space", "number"]] : [];
  const heads = [["store"], ["time", "number"], ["regret", "number"], ["95% interval", "number"], ["verdict"], ...spaced, ["memory", "number"], ["syncs a write", "number"]];
  if (mine) heads.push(["your time", "number"], ["your regret", "number"]);
  page("ranking-head").append(row(heads, "th"));
  for (const { field, ranked, ...group } of groups) {
    if (apart) page("ranking-body").append(heading(headed(group), heads.length));
    for (const found of ranked) {
      const facts = field.stores[found.store];
      const syncs = syncsOfWrite(facts, asked);
      const yours = mine?.get(found.store);
      const cells = [
        [nameOf(found.store)], [time(found.time), "number"], [regret(found), "number"], [interval(found), "number"], [found.verdict, found.verdict],
        ...spaced.map(() => [facts.space ? `${times(facts.space)} x` : "", "number"]), [facts.memory ? `${Math.round(facts.memory / 2 ** 20)} MiB` : "", "number"],
        [Number.isNaN(syncs) ? "" : times(syncs), "number"],
      ];
      if (mine) cells.push([yours ? time(yours.time) : "", "number"], [yours ? regret(yours) : "", "number"]);
      page("ranking-body").append(row(cells));
    }
  }
}

function change(asked, group, apart) {
  const found = flips(data, asked, group);
  if (!found.first) return;
  const lines = element("ul");
  const say = (text) => lines.append(element("li", text));
  page("flips").append(...(apart ? [element("p", headed(group))] : []), lines);
  for (const { factor, level, stores } of found.others) {
    const need = `need of a store that ${data.needs[level]}`;
    const other =
      factor === "mix" ? `${NAMES.mix} ${level}` : factor === "needs" ? `${asked.needs.includes(level) ? "no" : "the"} ${need}` : changedTo(factor, { [factor]: level });
    say(`With ${other}: ${list(stores)}.`);
  }
  const tried = found.others.length + found.same;
  const rest = [
    found.unsure && `${found.unsure} ${found.unsure === 1 ? "has" : "have"} too few trials to tell`,
    found.missing && `${found.missing} ${found.missing === 1 ? "was" : "were"} not measured`,
  ].filter(Boolean);
  const unknown = rest.length ? ` Of the other single changes, ${rest.join(" and ")}.` : "";
  if (!tried) say(`No single change of these choices was measured in enough trials to tell.${unknown}`);
  else if (!found.others.length) say(`${list([found.first])} is or may be good enough after each of the ${some(tried, "single change")} that the data can tell.${unknown}`);
  else say(`${list([found.first])} is or may be good enough after ${found.same || "none"} of ${some(tried, "single change")} that the data can tell.${unknown}`);
}

// Where a store of the ranking is best: the reader's choice of it, if it is there.
function picture(asked) {
  const shown = page("pictured");
  const before = shown.value;
  const stores = groups.filter((group) => suits(asked, group)).flatMap((group) => group.ranked.map((found) => found.store));
  shown.replaceChildren(...stores.map((store) => Object.assign(element("option", nameOf(store)), { value: store })));
  if (stores.includes(before)) shown.value = before;
  page("where").hidden = !stores.length;
  if (stores.length) page("map").replaceChildren(...map(asked, shown.value));
}

function settings(asked) {
  for (const { field, ranked, guarantee, shipped } of groups.filter((group) => suits(asked, group))) {
    for (const { store } of ranked.filter((found) => found.verdict !== "out")) page("cards").append(card(store, field, guarantee, shipped));
  }
}

async function take(files) {
  if (!files.length) return;
  own = [];
  try {
    page("own").textContent = "Reading …";
    const found = await Promise.all(files.map((file) => read(file, data)));
    const kinds = new Set(found.map(({ kind }) => kind));
    tables = [...tables.filter(({ kind }) => !kinds.has(kind)), ...found];
    const { rows, needs } = join(tables);
    if (needs) page("own").textContent = `${needs}.`;
    else {
      tables = [];
      const { fields, left } = fieldsOf(rows, data);
      own = fields;
      page("own").textContent = summary(own, left);
    }
  } catch (error) {
    tables = [];
    page("own").textContent = `Not used: ${error.message}.`;
  }
  ask();
}

// Events

form.addEventListener("change", () => {
  page("refused").textContent = "";
  ask();
});
form.addEventListener("input", ({ target }) => {
  if (target.name === "sync") ask();
  else if (target.type === "text") page("typed").textContent = "Enter, or leaving the field, applies what you type.";
});
form.addEventListener("submit", (event) => event.preventDefault());

page("pictured").addEventListener("change", () => picture(question().asked));
page("grid").addEventListener("click", () => {
  const { asked } = question();
  const [{ field }] = groups;
  const content = grid(field, asked, groups.flatMap(best));
  const link = Object.assign(element("a"), { download: "mine.toml", href: URL.createObjectURL(new Blob([content], { type: "application/toml" })) });
  link.click();
  URL.revokeObjectURL(link.href);
});

let reading = Promise.resolve(); // one drop after the other
const queue = (files) => (reading = reading.then(() => take([...files])));

page("files").addEventListener("change", ({ target }) => {
  queue([...target.files]);
  target.value = ""; // so that the same file can be read again
});
for (const [name, dragged] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
  window.addEventListener(name, (event) => {
    event.preventDefault();
    document.body.classList.toggle("dragged", dragged);
    if (name === "drop") queue([...event.dataTransfer.files]);
  });
}

function load() {
  const { asked, refused } = parse(location.hash);
  page("refused").textContent = refused.length ? `Of the address: ${refused.join(" ")}` : "";
  write(asked);
  ask();
}

window.addEventListener("error", ({ error }) => fail(error));
window.addEventListener("unhandledrejection", ({ reason }) => fail(reason));
window.addEventListener("hashchange", load);
window.addEventListener("pageshow", () => ask()); // a browser may have restored the form
window.addEventListener("resize", draw);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
load();
