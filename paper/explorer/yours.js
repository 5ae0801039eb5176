// What the page says of the reader's own results.

import { FACTORS, NOT_STATED, OPERATIONS, mixed, rankedBy, refused } from "./answers.js";
import { data, element, interval, joined, nameOf, page, phrase, regret, row, some, survives, time, word } from "./words.js";

function lack(why) {
  if (why === "grows") return "“A file may only grow”, since its file does";
  return why === "stores" ? "a place among the stores that you compare" : `what you need, a store that ${data.needs[why]}`;
}

const MOST_OWN = 8; // fields of the reader's that are shown

const stated = (field, factor) => field.levels[factor] !== "";

// In which choices a field of the reader's is not that of the question, in words.
function unlike(asked, field) {
  const found = FACTORS.filter((factor) => field.levels[factor] !== asked[factor]).map((factor) =>
    stated(field, factor) ? `${phrase(factor, field.levels[factor])}, not ${word(factor, asked[factor])}` : `${OWN_NAMES[factor]} not stated`,
  );
  const other = Object.entries(data.plain).filter(([name, level]) => field.rest[name] && field.rest[name] !== String(level));
  return [...found, ...other.map(([name, level]) => `${name} ${field.rest[name]}, not ${level || "empty"}`)];
}

const OWN_NAMES = { access: "access", memory: "memory", data: "kind of data", durability: "durability", size: "size", records: "records" };

// The rankings of a field of the reader's by guarantee, and the stores that it cannot rank.
function rankings(asked, field) {
  const times = new Map();
  const short = [];
  for (const [store, own] of Object.entries(field.stores)) {
    const found = mixed(asked.mix, (operation) => own[asked.measure][operation]);
    const guarantee = (field.levels.durability === "default" ? own.guarantee : field.levels.durability) || NOT_STATED;
    const missing = OPERATIONS.filter((operation) => asked.mix[operation] > 0 && !own[asked.measure][operation]);
    const why = refused(data, store, asked);
    const lacks = missing.length
      ? `${joined(missing)} of the mix${asked.measure === "p99" ? " (99th percentile)" : ""}`
      : found.some(Boolean) ? "" : "a trial with all operations of the mix";
    if (why || lacks) short.push({ store, guarantee, why: why ? lack(why) : lacks });
    else times.set(guarantee, Object.assign(times.get(guarantee) ?? Object.create(null), { [store]: found }));
  }
  return { groups: [...times].map(([guarantee, own]) => ({ guarantee, ranked: rankedBy(own, data) })), short };
}

// The reader's ranking where one field is that of the question, by store.
export function beside(asked, own) {
  const same = own.filter((field) => !unlike(asked, field).length && field.average === "mean");
  if (same.length !== 1) return null;
  return new Map(rankings(asked, same[0]).groups.flatMap((group) => group.ranked.map((found) => [found.store, found])));
}

// Shows the fields nearest to a question, each with its ranking and with what is missing for one.
export function drop(asked, own) {
  const near = own.map((field) => ({ field, other: unlike(asked, field) })).sort((first, second) => first.other.length - second.other.length);
  for (const { field, other } of near.slice(0, MOST_OWN)) {
    const box = element("section");
    box.append(element("h3", `${field.levels.size} x ${word("records", field.levels.records)}${titled(field, own)}`));
    const why = other.length ? `Not ranked beside the answer: ${other.join("; ")}.` : "These are the records and terms of the answer above.";
    const median = field.average === "median" ? " No row has a mean: times are medians." : "";
    box.append(element("p", `${why}${median}${cooled(field.cooled)}`, "note"));
    const wide = Object.assign(element("div", "", "wide"), { tabIndex: 0 });
    wide.setAttribute("role", "region");
    wide.setAttribute("aria-label", `Your results: ${box.firstChild.textContent}`);
    wide.append(ownTable(asked, field));
    box.append(wide);
    page("yours").append(box);
  }
  const more = near.length - MOST_OWN;
  if (more > 0) page("yours").append(element("p", `${some(more, "more field")} of yours: choose their records and terms above to see them here.`, "note"));
}

// What of a field left the page cache, in words.
function cooled({ stores, trials }) {
  const out = [...stores.map(nameOf), ...(trials ? [some(trials, "trial")] : [])];
  return out.length ? ` Left out, because files left the warm page cache: ${joined(out)}.` : "";
}

function titled(field, own) {
  const known = [...data.apart, ...Object.keys(data.plain)].filter((name) => field.rest[name] && field.rest[name] !== String(data.plain[name] ?? ""));
  const varied = [...new Set(known)].filter((name) => new Set(own.map((other) => other.rest[name])).size > 1 || Object.hasOwn(data.plain, name));
  const levels = ["access", "data", "durability", "memory"].filter((factor) => stated(field, factor)).map((factor) => `${OWN_NAMES[factor]} ${word(factor, field.levels[factor])}`);
  return [...levels, ...varied.map((name) => `${name} ${field.rest[name].slice(0, 60)}`)].map((text) => `, ${text}`).join("");
}

function ownTable(asked, field) {
  const shown = element("table");
  const heads = [["store"], ["times of its operations"], ["missing to rank it"], ["time of the mix", "number"], ["regret", "number"], ["95% interval", "number"], ["verdict"], ["survives"]];
  const each = (store) =>
    Object.entries(field.stores[store][asked.measure])
      .map(([operation, times]) => [operation, times.filter(Boolean)])
      .filter(([, times]) => times.length)
      .map(([operation, times]) => `${operation} ${time(Math.exp(times.reduce((sum, value) => sum + Math.log(value), 0) / times.length))}`)
      .join(", ");
  const { groups, short } = rankings(asked, field);
  shown.createTHead().append(row(heads, "th"));
  const body = shown.createTBody();
  for (const { guarantee, ranked } of groups) {
    for (const found of ranked) {
      const missing = [
        ranked.length < 2 && "a second store with the same guarantee and records",
        found.trials < 2 ? "more trials: it has one, which tells no store from another" : found.verdict === "not ranked" && ranked.length > 1 && "trials that other stores have",
      ].filter(Boolean);
      body.append(row([
        [nameOf(found.store)], [each(found.store)], [missing.join("; ")], [time(found.time), "number"], [regret(found), "number"],
        [interval(found), "number"], [found.verdict, found.verdict], [survives(guarantee)],
      ]));
    }
  }
  for (const { store, guarantee, why } of short) {
    body.append(row([[nameOf(store)], [each(store)], [why], [""], [""], [""], ["not ranked", "out"], [survives(guarantee)]]));
  }
  return shown;
}

// In words, what was read of the reader's files.
export function summary(own, left) {
  const stores = [...new Set(own.flatMap((field) => Object.keys(field.stores)))];
  const names = stores.slice(0, 12).map(nameOf);
  const more = stores.length > names.length ? [some(stores.length - names.length, "more store")] : [];
  const out = [
    left.failed && `${some(left.failed, "row")} of cells that were not measured`,
    left.other && `${some(left.other, "row")} of other operations`,
    left.untimed && `${some(left.untimed, "row")} without a time`,
  ].filter(Boolean);
  return `Yours: ${joined([...names, ...more])}, in ${some(own.length, "field")}, shown below.${out.length ? ` Left out: ${joined(out)}.` : ""}`;
}
