// What the data say to a question. A question has a level of each factor, the shares of a mix, a
// measure, whether a file may only grow, whether C must be able to call the store and, at level sync,
// the time of the device's sync (0: as measured). Nothing here knows the page.

import { rank } from "./ranking.js";

export const FACTORS = ["access", "memory", "data", "durability", "size", "records"];
export const OPERATIONS = ["insert", "get", "update", "remove"];
export const MEASURES = ["mean", "p99"];
export const NOT_STATED = "not stated";
export const LEAST_TRIALS = 5; // with fewer almost every store may be the best

const SHIPPED = "default";
const SELDOM_SYNCS = 0.1; // a write at level process: flushes of a buffer
const MOST_OFFERS = 3;

const shares = (mix) => OPERATIONS.filter((operation) => mix[operation] > 0);
const engine = (store) => store.split("/")[0];
export const total = (mix) => shares(mix).reduce((sum, operation) => sum + mix[operation], 0);

const keyOf = (levels) => FACTORS.map((factor) => levels[factor]).join("|");
const indices = new WeakMap(); // of data: its fields by their levels

export function fieldOf(data, question) {
  if (!indices.has(data)) indices.set(data, new Map(data.fields.map((field) => [keyOf(field), field])));
  return indices.get(data).get(keyOf(question));
}

// The levels of a factor that some field has, in order.
export function levels(data, factor) {
  const order = new Map(data.fields.map((field) => [field[factor], field.order[factor]]));
  return [...order.keys()].sort((first, second) => order.get(first) - order.get(second));
}

// What a returned write may survive: each level survives what those before do.
const guaranteesOf = (data) => [NOT_STATED, ...data.guarantees];

// What a returned write of a store survives in a field.
function guaranteeOf(data, field, store) {
  const level = field.durability === SHIPPED ? field.stores[store].guarantee : field.durability;
  return data.guarantees.includes(level) ? level : NOT_STATED;
}

// The time of an operation in each trial, as on a device whose sync takes `sync` ns: what a write
// takes beyond the same write at level process is the device's. Null where that is not known.
function trialsOf(field, plain, store, operation, question) {
  const measured = field.stores[store][question.measure]?.[operation];
  if (!measured || !computed(field, question) || operation === "get") return measured ?? null;
  const rest = plain?.stores[store]?.[question.measure]?.[operation];
  const syncs = plain?.stores[store]?.syncs[operation]; // then its wait for the device is not known
  if (!rest || !field.sync || syncs > SELDOM_SYNCS) return null;
  const scale = question.sync / field.sync;
  // A field that was decided early has fewer trials.
  return measured
    .slice(0, rest.length)
    .map((value, at) => (value && rest[at] ? rest[at] + Math.max(0, value - rest[at]) * scale : null));
}

// Whether the times of a question are computed for a device other than the one measured.
export const computed = (field, question) =>
  question.sync > 0 && field.durability === "sync" && shares(question.mix).some((operation) => operation !== "get");

// The time of a mix in each trial, from those of its operations; null where one of them is missing.
export function mixed(mix, timesOf) {
  const parts = shares(mix).map((operation) => [mix[operation] / total(mix), timesOf(operation)]);
  if (!parts.length || parts.some(([, times]) => !times)) return null;
  return parts[0][1].map((_, at) =>
    parts.every(([, times]) => times[at]) ? parts.reduce((sum, [share, times]) => sum + share * times[at], 0) : null,
  );
}

const geometric = (values) => Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);

// Why a store does not suit a question, whatever it was measured to take; empty if it does.
export function refused(data, store, question) {
  const facts = Object.hasOwn(data.stores, store) ? data.stores[store] : {};
  if (!question.grow && facts.reuses === false) return "grows";
  return question.c && facts.c === false ? "foreign" : "";
}

const weaker = (data, guarantee, than) => guaranteesOf(data).indexOf(guarantee) < guaranteesOf(data).indexOf(than);

// The times of the stores of a field that suit a question, by their guarantee, and by the reason why
// not the other stores.
function suited(data, field, question) {
  const same = question.sync > 0 ? fieldOf(data, { ...levelsOf(field), durability: "process" }) : undefined;
  const plain = same?.source === field.source ? same : undefined;
  const times = {};
  const left = {};
  for (const store of Object.keys(field.stores)) {
    const lacks = shares(question.mix).some((operation) => !field.stores[store][question.measure]?.[operation]);
    const guarantee = guaranteeOf(data, field, store);
    const below = weaker(data, guarantee, question.durability) ? "below" : "";
    const unfit = below || refused(data, store, question) || (lacks ? "lacks" : "");
    const found = unfit ? null : mixed(question.mix, (operation) => trialsOf(field, plain, store, operation, question));
    const why = unfit || (found?.some(Boolean) ? "" : "computed");
    if (why) (left[why] ??= []).push(store);
    else (times[guarantee] ??= Object.create(null))[store] = found;
  }
  if (field.cooled.length) left.cooled = field.cooled;
  return { field, times, left };
}

// The stores of the same access that a field has not.
function absentFrom(data, field) {
  const known = new Set([...Object.keys(field.stores), ...field.cooled]);
  return Object.keys(data.stores).filter((store) => store.includes("/") === (field.access === "python") && !known.has(store));
}

const levelsOf = (field) => Object.fromEntries(FACTORS.map((factor) => [factor, field[factor]]));

// The times that answer a question: of the stores set for the guarantee, or else of those that reach
// it, or a stronger one, as shipped.
function chosen(data, question) {
  const fields = [fieldOf(data, question), fieldOf(data, { ...question, durability: SHIPPED })].filter(Boolean);
  const found = fields.map((field) => suited(data, field, question));
  return found.find(({ times }) => Object.keys(times).length) ?? found[0] ?? { times: {}, left: {} };
}

export const answered = (data, question) => Object.keys(chosen(data, question).times).length > 0;

// The rankings of a question, one for each guarantee: stores are never ranked across guarantees. Of
// stores as shipped the strongest comes first, or else the one that was asked for.
export function answer(data, question) {
  const { field, times, left } = chosen(data, question);
  const order = question.durability === SHIPPED ? guaranteesOf(data).reverse() : guaranteesOf(data);
  const groups = order.filter((guarantee) => times[guarantee]).map((guarantee) => ({
    guarantee,
    field,
    shipped: field.durability === SHIPPED,
    computed: computed(field, question),
    ranked: timed(times[guarantee], data),
  }));
  const absent = field ? absentFrom(data, field) : [];
  return { field, groups, left: absent.length ? { ...left, absent } : left };
}

// The ranking of stores by the times of their trials, each with its time.
export const timed = (times, data) =>
  rank(times, data.counted, data.quantiles).map((row) => ({ ...row, time: geometric(times[row.store].filter(Boolean)) }));

// The stores that are or may be the best.
export const best = (group) =>
  group.ranked.filter((row) => ["in", "undecided"].includes(row.verdict)).map((row) => row.store);

// The stores that may be recommended.
export const recommended = (data, group) =>
  group.ranked.filter((row) => row.high < data.recommended).map((row) => row.store);

export const trialsIn = (group) => Math.max(0, ...group.ranked.map((row) => row.trials));

// The syncs of a write of the mix; NaN where it has none, or they were not counted.
export function syncsOfWrite(store, question) {
  const writes = shares(question.mix).filter((operation) => operation !== "get");
  const sum = writes.reduce((all, operation) => all + question.mix[operation], 0);
  return writes.reduce((all, operation) => all + question.mix[operation] * (store.syncs[operation] ?? NaN), 0) / sum;
}

// The operations of a mix that no store of a field has at the measure.
export const lacking = (field, question) =>
  shares(question.mix).filter((operation) => !Object.values(field.stores).some((store) => store[question.measure]?.[operation]));

// All questions that differ from one in a single choice.
function changes(data, question) {
  const found = FACTORS.flatMap((factor) =>
    levels(data, factor)
      .filter((level) => level !== question[factor])
      .map((level) => ({ factor, level, question: { ...question, [factor]: level } })),
  );
  for (const operation of OPERATIONS) {
    const mix = Object.fromEntries(OPERATIONS.map((name) => [name, name === operation ? 100 : 0]));
    if (question.mix[operation] < total(question.mix)) found.push({ factor: "mix", level: operation, question: { ...question, mix } });
  }
  for (const measure of MEASURES) {
    if (measure !== question.measure) found.push({ factor: "measure", level: measure, question: { ...question, measure } });
  }
  for (const name of ["grow", "c"]) {
    found.push({ factor: name, level: !question[name], question: { ...question, [name]: !question[name] } });
  }
  const devices = question.durability === "sync" && fieldOf(data, question)?.sync > 0 ? data.devices : [];
  for (const sync of devices) {
    if (sync !== question.sync) found.push({ factor: "sync", level: sync, question: { ...question, sync } });
  }
  return found;
}

// What each single change does to the best store of a group: `others` are the changes after which it
// is surely no longer among the best, with those that are; `same` counts those after which it is or
// may be, `unsure` those of too few trials to tell, `missing` those that were not measured.
export function flips(data, question, group) {
  const [first] = best(group);
  const found = { first, others: [], same: 0, unsure: 0, missing: 0 };
  for (const { factor, level, question: other } of first ? changes(data, question) : []) {
    const { groups } = answer(data, other);
    const of = (guarantee) => groups.find((one) => one.guarantee === guarantee);
    // A weaker guarantee changes nothing where stores are as shipped: those of this group suffice.
    const asked = factor === "durability" && of(level);
    const then = asked && !(asked.shipped && weaker(data, level, group.guarantee)) ? asked : of(group.guarantee);
    const stores = then ? best(then) : [];
    const name = factor === "access" ? engine : (store) => store; // a package is its engine from Python
    if (!stores.length) found.missing += 1;
    else if (trialsIn(then) < LEAST_TRIALS) found.unsure += 1;
    else if (stores.map(name).includes(name(first))) found.same += 1;
    else found.others.push({ factor, level, stores });
  }
  return found;
}

const TERMS = ["access", "durability", "memory", "data"];

// The changes of a question, from the least, that make it one with an answer in a field.
function* nearby(data, field, question) {
  const known = OPERATIONS.filter((operation) => Object.values(field.stores).some((store) => store[question.measure]?.[operation]));
  const pick = (mix) => Object.fromEntries(OPERATIONS.map((operation) => [operation, known.includes(operation) ? mix(operation) : 0]));
  const rest = pick((operation) => question.mix[operation]);
  const mix = total(rest) ? rest : pick(() => Math.round(100 / known.length));
  for (const durability of new Set([question.durability, field.durability])) {
    const moved = { ...question, ...levelsOf(field), durability };
    yield moved;
    yield { ...moved, mix };
    yield { ...moved, mix, sync: 0 };
    yield { ...moved, mix, sync: 0, c: false };
    yield { ...moved, mix, sync: 0, c: false, grow: true };
    yield { ...moved, mix, sync: 0, c: false, grow: true, measure: "mean" };
  }
}

// The settings in which a question differs from another.
function differences(question, other) {
  const names = [...FACTORS, "measure", "grow", "c", "sync"].filter((name) => question[name] !== other[name]);
  return OPERATIONS.some((operation) => question.mix[operation] !== other.mix[operation]) ? [...names, "mix"] : names;
}

// The measured questions nearest to one that was not. Size comes first, then the number of records;
// one kind keeps the terms as far as it can, the other the records.
export function offers(data, question) {
  const order = Object.fromEntries(
    ["size", "records"].map((factor) => [factor, new Map(data.fields.map((field) => [field[factor], field.order[factor]]))]),
  );
  const far = (factor, other) => Math.abs(Math.log(order[factor].get(other[factor]) / order[factor].get(question[factor])));
  const found = [];
  for (const field of data.fields) {
    for (const other of nearby(data, field, question)) {
      if (!answered(data, other)) continue;
      const changed = differences(question, other);
      const terms = TERMS.filter((factor) => changed.includes(factor)).length;
      const rest = changed.filter((name) => !FACTORS.includes(name)).length;
      found.push({ other, changed, terms, rest, size: far("size", other), records: far("records", other) });
      break;
    }
  }
  const by = (...keys) => [...found].sort((first, second) => keys.reduce((sum, key) => sum || first[key] - second[key], 0));
  const likeTerms = by("terms", "size", "rest", "records");
  const likeRecords = by("size", "records", "terms", "rest");
  const chosen = [likeTerms[0], likeRecords[0], ...likeTerms].filter(Boolean);
  return [...new Map(chosen.map((one) => [JSON.stringify(one.other), one])).values()].slice(0, MOST_OFFERS);
}

// A grid that measures stores of a question on the reader's disk.
export function grid(field, question, stores) {
  const list = (values) => `[${values.map((value) => JSON.stringify(value)).join(", ")}]`;
  const names = [...new Set(stores.map(engine))];
  const python = field.access === "python";
  const lines = [
    "# The stores that the paper's data could not tell apart; about five minutes.",
    "# kvbench sweep mine.toml --out build/mine --minutes 5; kvbench collect build/mine",
    `stores = ${list(names)}`,
    ...(python ? ['access = ["python"]', `bindings = ${list(stores.map((store) => store.split("/")[1]))}`] : []),
    `record_sizes = ${list([field.size])}`,
    `records = [${field.records}]`,
    `compressibility = ${list([field.data])}`,
    `durability = ${list([field.durability])}`,
    `memory = ${list([field.memory])}`,
    `operations = ${list(shares(question.mix))}`,
    'trials = "7-15"',
  ];
  return `${lines.join("\n")}\n`;
}
