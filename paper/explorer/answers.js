// What the data say to a question. A question has a level of each factor, the shares of a mix, a
// measure, whether a file may only grow, what a store must be able to do (`needs`), how much memory it
// may take (`most`, a size; empty: any) and, at level sync, the time of the device's sync (0: as measured). Its size and number of records need not have been
// measured. As harness/kvbench/answers/advise.py does it. Nothing here knows the page.

import { rank } from "./ranking.js";

export const FACTORS = ["access", "memory", "data", "durability", "size", "records"];
export const TERMS = ["access", "durability", "memory", "data"];
export const OPERATIONS = ["insert", "get", "update", "remove"];
export const MEASURES = ["mean", "p99"];
export const MOST = ["", "4 MiB", "16 MiB", "64 MiB", "256 MiB", "1 GiB"]; // memory that a store may take
export const NOT_STATED = "not stated";
export const LEAST_TRIALS = 2; // one tells no store from another

const SHIPPED = "default";
const SELDOM_SYNCS = 0.1; // a write at level process: flushes of a buffer
const STEP = 10.24; // largest ratio of a measured size to the question's: 1 KiB / 100 B
const MOST_OFFERS = 3;
const UNITS = { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };

const shares = (mix) => OPERATIONS.filter((operation) => mix[operation] > 0);
export const engine = (store) => store.split("/")[0];
export const total = (mix) => shares(mix).reduce((sum, operation) => sum + mix[operation], 0);

// The bytes of a size such as "4 KiB" or "4096"; NaN if it is none.
export function bytesOf(text) {
  const match = /^\s*(\d{1,12})\s*(B|KiB|MiB|GiB)?\s*$/.exec(text);
  return match ? Number(match[1]) * UNITS[match[2] ?? "B"] : NaN;
}

// A number of bytes in its shortest exact form: 10240 is "10 KiB".
export function sizeOf(bytes) {
  const unit = Object.keys(UNITS).reverse().find((name) => bytes % UNITS[name] === 0);
  return `${bytes / UNITS[unit]} ${unit}`;
}

const keyOf = (levels) => FACTORS.map((factor) => levels[factor]).join("|");
const indices = new WeakMap(); // of data: its fields by their levels

// The field that was measured at exactly these levels, if any.
export function fieldOf(data, question) {
  if (!indices.has(data)) indices.set(data, new Map(data.fields.map((field) => [keyOf(field), field])));
  return indices.get(data).get(keyOf(question));
}

// The two sorted levels around a value with their weights, which are linear in the logs, or the level
// that is the value; empty if the value is outside.
function between(levels, value) {
  const [low, high] = [levels.filter((level) => level <= value).at(-1), levels.find((level) => level >= value)];
  if (low === undefined || high === undefined) return [];
  if (low === high) return [[low, 1]];
  const share = Math.log(value / low) / Math.log(high / low);
  return [[low, 1 - share], [high, share]];
}

// The fields around a size and a number of records, each with its weight; empty if there are none.
function around(fields, size, records) {
  const numbers = numbersOf(fields);
  const near = [...numbers.keys()].filter(
    (own) => numbers.get(own)[0] <= records && records <= numbers.get(own).at(-1) && own / size >= 1 / STEP && own / size <= STEP,
  );
  return weighted(fields, numbers, between(near, size), () => records);
}

// The same for records that are beyond the fields: those around the nearest size, which is `size` itself if it lies
// between two, and of each size the nearest number.
function edge(fields, size, records) {
  const numbers = numbersOf(fields);
  const far = (own) => Math.abs(Math.log(own / size));
  const all = [...numbers.keys()];
  const near = all.filter((own) => own / size >= 1 / STEP && own / size <= STEP);
  const sizes = near.length ? near : [all.reduce((best, own) => (far(own) < far(best) ? own : best))];
  return weighted(fields, numbers, between(sizes, within(sizes, size)), (own) => within(numbers.get(own), records));
}

// The value or, if it is outside sorted levels, the one next to it.
const within = (levels, value) => Math.min(Math.max(value, levels[0]), levels.at(-1));

// The numbers of records of each size, both in order.
function numbersOf(fields) {
  const numbers = new Map();
  const sorted = fields.map((field) => [bytesOf(field.size), field.records]).sort(([one, few], [other, many]) => one - other || few - many);
  for (const [own, count] of sorted) numbers.set(own, [...(numbers.get(own) ?? []), count]);
  return numbers;
}

// The fields at weighted sizes, with the number of records that `of` says for each size.
function weighted(fields, numbers, sizes, of) {
  const at = (own, count) => fields.find((field) => bytesOf(field.size) === own && field.records === count);
  return sizes.flatMap(([own, share]) => between(numbers.get(own), of(own)).map(([count, part]) => ({ field: at(own, count), weight: share * part })));
}

// The stores of a field, as shipped those with a guarantee alone.
const storesOf = (data, field, guarantee) =>
  Object.keys(field.stores).filter((store) => !guarantee || guaranteeOf(data, field, store) === guarantee);

// The same field at level process, of the same experiment.
function plainOf(data, field) {
  const same = fieldOf(data, { ...levelsOf(field), durability: "process" });
  return same?.source === field.source ? same : undefined;
}

// The fields on which an answer rests, with their weights, and its grade: those of the first
// experiment that measured the mix at the terms of a question; of stores as shipped, those with a
// guarantee. Undefined if none did.
function basisOf(data, question, guarantee = "") {
  const timed = (field, operation) => storesOf(data, field, guarantee).some((store) => field.stores[store][question.measure]?.[operation]);
  const fitting = data.fields.filter(
    (field) =>
      TERMS.every((factor) => field[factor] === question[factor]) &&
      bytesOf(field.size) > 0 && // a range of sizes is no point to interpolate from
      shares(question.mix).every((operation) => timed(field, operation)) &&
      (!computed(field, question) || (field.sync > 0 && plainOf(data, field))),
  );
  if (!fitting.length) return undefined;
  const source = Math.min(...fitting.map((field) => field.source));
  const fields = fitting.filter((field) => field.source === source);
  const [size, records] = [bytesOf(question.size), question.records];
  const parts = around(fields, size, records);
  const grade = parts.length > 1 ? "interpolated" : parts.length ? "measured" : "extrapolated";
  const chosen = parts.length ? parts : edge(fields, size, records);
  const heaviest = chosen.reduce((most, part) => (part.weight > most.weight ? part : most));
  return { parts: chosen, grade, field: heaviest.field };
}

// The levels of a factor that some field has, in order. Those of durability are all, since stores as
// shipped may reach one to which none was set.
export function levels(data, factor) {
  if (factor === "durability") return [SHIPPED, ...data.guarantees];
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

// The time of an operation in each trial, interpolated between fields; null where one of them lacks it.
function interpolated(parts, store, operation, measure, from = (field) => field) {
  const series = parts.map(({ field, weight }) => [from(field)?.stores[store]?.[measure]?.[operation], weight]);
  if (series.some(([times]) => !times)) return null;
  const length = Math.max(...series.map(([times]) => times.length));
  return [...Array(length).keys()].map((at) =>
    series.every(([times]) => times[at]) ? Math.exp(series.reduce((sum, [times, weight]) => sum + weight * Math.log(times[at]), 0)) : null,
  );
}

// The time of an operation in each trial, as on a device whose sync takes `sync` ns: what a write
// takes beyond the same write at level process is the device's. Null where that is not known.
function trialsOf(data, { parts, field }, store, operation, question) {
  const measured = interpolated(parts, store, operation, question.measure);
  if (!measured || !computed(field, question) || operation === "get") return measured;
  const rest = interpolated(parts, store, operation, question.measure, (own) => plainOf(data, own));
  if (!rest) return null;
  const scale = question.sync / field.sync;
  return measured.map((value, at) => (value && rest[at] ? rest[at] + Math.max(0, value - rest[at]) * scale : null));
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

// What was measured with as little memory, for a question whose values exceed the memory of the
// reader's machine, `ram`; undefined if they do not. `field` is the measured ratio of data to memory
// nearest to the question's, undefined if none was measured at its level, and `group` ranks its stores,
// if two suit. Inserts, updates and removes count as updates.
export function beyondMemory(data, question) {
  const ratio = (bytesOf(question.size) * question.records) / bytesOf(question.ram);
  if (!(ratio > 1) || question.access !== "c") return undefined;
  const far = (field) => Math.abs(Math.log(field.ratio / ratio));
  const [field] = data.beyond.filter((one) => one.durability === question.durability).sort((one, other) => far(one) - far(other));
  const times = Object.create(null);
  const gets = question.mix.get / total(question.mix);
  const mix = { get: gets, update: 1 - gets };
  for (const [store, own] of Object.entries(field?.stores ?? {})) {
    const found = refused(data, store.split(" ")[0], question) ? null : mixed(mix, (kind) => own[kind]);
    if (found?.some(Boolean)) times[store] = found;
  }
  const ranked = rankedBy(times, data, field?.sittings);
  return { ratio, field, group: ranked.length > 1 ? { ranked } : undefined };
}

// Why a store lacks a need at a durability level; empty if it does not.
export const lacksOf = (facts, need, durability) =>
  facts.lacks ? (facts.lacks[need]?.[durability] ?? facts.lacks[need]?.[""] ?? "") : "not known: there are no facts about it";

// Why a store does not suit a question, whatever it was measured to take: "stores" if it is not one of
// those to compare, "grows" or the first need that it lacks; empty if it does.
export function refused(data, store, question) {
  const facts = Object.hasOwn(data.stores, store) ? data.stores[store] : {};
  if (question.stores.length && !question.stores.includes(engine(store))) return "stores";
  if (!question.grow && facts.reuses === false) return "grows";
  return question.needs.find((need) => lacksOf(facts, need, question.durability)) ?? "";
}

const weaker = (data, guarantee, than) => guaranteesOf(data).indexOf(guarantee) < guaranteesOf(data).indexOf(than);

// Whether a store syncs at level process, too: then its wait for the device is not known.
const waits = (data, { parts, field }, store, question) =>
  computed(field, question) &&
  shares(question.mix).some(
    (operation) => operation !== "get" && parts.some((part) => plainOf(data, part.field)?.stores[store]?.syncs[operation] > SELDOM_SYNCS),
  );

// Whether a store takes more memory than it may, or is not known to take less, in the field with the largest weight.
const large = ({ field }, store, question) => (question.most && !(field.stores[store]?.memory <= bytesOf(question.most)) ? "most" : "");

// The times of the stores that suit a question, and by the reason why not the other stores. Trials
// that no store has at the end were not planned.
function suited(data, basis, question, guarantee) {
  const fields = basis.parts.map((part) => part.field);
  const stores = [...new Set(fields.flatMap((field) => storesOf(data, field, guarantee)))];
  const asked = { ...question, durability: fields[0].durability };
  const every = Object.create(null);
  const left = {};
  const leave = (why, store) => (left[why] ??= []).push(store);
  for (const store of stores) {
    const found = mixed(question.mix, (operation) => trialsOf(data, basis, store, operation, question));
    if (found?.some(Boolean)) every[store] = found;
    else leave(refused(data, store, asked) || "lacks", store);
  }
  const planned = Math.max(0, ...Object.values(every).map((values) => values.findLastIndex(Boolean) + 1));
  const times = Object.create(null);
  for (const [store, found] of Object.entries(every)) {
    const why = refused(data, store, asked) || large(basis, store, question) || (waits(data, basis, store, question) ? "computed" : "");
    if (why) leave(why, store);
    else times[store] = found.slice(0, planned);
  }
  const cooled = [...new Set(fields.flatMap((field) => field.cooled))].filter((store) => !every[store]);
  if (cooled.length) left.cooled = cooled;
  return { ...basis, guarantee: guarantee || fields[0].durability, times, left };
}

// The stores of the same access that the fields of an answer have not.
function absentFrom(data, parts) {
  const known = new Set(parts.flatMap(({ field }) => [...Object.keys(field.stores), ...field.cooled]));
  const python = parts[0].field.access === "python";
  return Object.keys(data.stores).filter((store) => store.includes("/") === python && !known.has(store));
}

const levelsOf = (field) => Object.fromEntries(FACTORS.map((factor) => [factor, field[factor]]));

// The stores as shipped, by guarantee, that reach what a question asks: the strongest first, or the one
// that was asked for. `below` are those of the same fields that guarantee less.
function asShipped(data, question) {
  const shipped = { ...question, durability: SHIPPED };
  const order = question.durability === SHIPPED ? guaranteesOf(data).reverse() : guaranteesOf(data);
  const found = order
    .filter((guarantee) => question.durability === SHIPPED || !weaker(data, guarantee, question.durability))
    .map((guarantee) => [guarantee, basisOf(data, shipped, guarantee)])
    .filter(([, basis]) => basis)
    .map(([guarantee, basis]) => suited(data, basis, shipped, guarantee));
  const fields = found.flatMap(({ parts }) => parts.map(({ field }) => field));
  const known = new Set(fields.flatMap((field) => Object.keys(field.stores).filter((store) => weaker(data, guaranteeOf(data, field, store), question.durability))));
  if (found.length && known.size) found[0].left.below = [...known];
  return found;
}

// The times that answer a question: of the stores set for the guarantee, or else of those that reach
// it, or a stronger one, as shipped. Packages for Python were set to a guarantee in one field alone;
// elsewhere those as shipped count, if they were measured nearer.
function chosen(data, question) {
  const basis = question.durability === SHIPPED ? undefined : basisOf(data, question);
  const set = basis ? [suited(data, basis, question, "")] : [];
  const known = set.some(({ times }) => Object.keys(times).length);
  const far = ({ grade }) => grade === "extrapolated";
  if (known && !(question.access === "python" && far(basis))) return set;
  const shipped = asShipped(data, question);
  if (known) return shipped.some((one) => !far(one)) ? shipped : set;
  return shipped.length ? shipped : set;
}

export const answered = (data, question) => chosen(data, question).some(({ times }) => Object.keys(times).length);

// The rankings of a question, one for each guarantee: stores are never ranked across guarantees.
// `parts` are the fields on which a ranking rests, `grade` says how, and `field` is the one with the
// largest weight; those of the answer are those of its first ranking.
export function answer(data, question) {
  const found = chosen(data, question);
  const groups = found
    .filter(({ times }) => Object.keys(times).length)
    .map(({ guarantee, field, parts, grade, times }) => ({
      guarantee,
      field,
      parts,
      grade,
      shipped: field.durability === SHIPPED,
      computed: computed(field, question),
      ranked: rankedBy(times, data, data.sittings[field.source]),
    }));
  const left = {};
  for (const own of found) {
    for (const [why, stores] of Object.entries(own.left)) left[why] = [...new Set([...(left[why] ?? []), ...stores])];
  }
  const parts = found.flatMap((own) => own.parts);
  const absent = parts.length ? absentFrom(data, parts).filter((store) => refused(data, store, question) !== "stores") : [];
  if (absent.length) left.absent = absent;
  const [first] = groups.length ? groups : found;
  return { field: first?.field, parts: first?.parts, grade: first?.grade, groups, left };
}

// The ranking of stores by the times of their trials, each with its time. `sittings` has the sitting of each trial; without
// it there was one.
export const rankedBy = (times, data, sittings) =>
  rank(times, data.looks, sittings).map((row) => ({ ...row, time: geometric(times[row.store].filter(Boolean)) }));

// The stores that are or may be good enough.
export const best = (group) =>
  group.ranked.filter((row) => ["in", "undecided"].includes(row.verdict)).map((row) => row.store);

// The stores that are surely good enough.
export const recommended = (group) =>
  group.ranked.filter((row) => row.verdict === "in").map((row) => row.store);

export const trialsIn = (group) => Math.max(0, ...group.ranked.map((row) => row.trials));

// The syncs of a write of the mix; NaN where it has none, or they were not counted.
export function syncsOfWrite(store, question) {
  const writes = shares(question.mix).filter((operation) => operation !== "get");
  const sum = writes.reduce((all, operation) => all + question.mix[operation], 0);
  return writes.reduce((all, operation) => all + question.mix[operation] * (store.syncs[operation] ?? NaN), 0) / sum;
}

// The operations of a mix that no field at the terms of a question has at the measure.
export const lacking = (data, question) =>
  shares(question.mix).filter(
    (operation) =>
      !data.fields.some(
        (field) =>
          TERMS.every((factor) => field[factor] === question[factor]) &&
          Object.values(field.stores).some((store) => store[question.measure]?.[operation]),
      ),
  );

// The time of a sync of the device that measured what answers a question at level sync; 0 if it is
// not known, or of another level.
export const deviceOf = (data, question) => (question.durability === "sync" && basisOf(data, { ...question, sync: 0 })?.field.sync) || 0;

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
  found.push({ factor: "grow", level: !question.grow, question: { ...question, grow: !question.grow } });
  for (const need of Object.keys(data.needs)) {
    const kept = question.needs.filter((name) => name !== need);
    const needs = kept.length < question.needs.length ? kept : [...kept, need];
    found.push({ factor: "needs", level: need, question: { ...question, needs } });
  }
  const devices = deviceOf(data, question) ? data.devices : [];
  for (const sync of devices) {
    if (sync !== question.sync) found.push({ factor: "sync", level: sync, question: { ...question, sync } });
  }
  return found;
}

// What each single change does to the best store of a group: `others` are the changes after which it
// is surely no longer good enough, with those that are; `same` counts those after which it is or
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
    if (!stores.length || then.grade === "extrapolated") found.missing += 1;
    else if (trialsIn(then) < LEAST_TRIALS) found.unsure += 1;
    else if (stores.map(name).includes(name(first))) found.same += 1;
    else found.others.push({ factor, level, stores });
  }
  return found;
}

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
    const free = { ...moved, mix, sync: 0, needs: [], stores: [], most: "" };
    yield free;
    yield { ...free, grow: true };
    yield { ...free, grow: true, measure: "mean" };
  }
}

// The settings in which a question differs from another.
function differences(question, other) {
  const names = [...FACTORS, "measure", "grow", "needs", "stores", "most", "sync"].filter((name) => String(question[name]) !== String(other[name]));
  return OPERATIONS.some((operation) => question.mix[operation] !== other.mix[operation]) ? [...names, "mix"] : names;
}

// The measured questions nearest to one that was not. Size comes first, then the number of records;
// one kind keeps the terms as far as it can, the other the records.
export function offers(data, question) {
  const value = { size: (one) => bytesOf(one.size), records: (one) => one.records };
  const far = (factor, other) => Math.abs(Math.log(value[factor](other) / value[factor](question)));
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
    "# The stores that the paper's data could not tell apart.",
    "# kvbench sweep mine.toml --out build/mine --minutes 10; kvbench collect build/mine",
    `stores = ${list(names)}`,
    ...(python ? ['access = ["python"]', `bindings = ${list(stores.map((store) => store.split("/")[1]))}`] : []),
    `record_sizes = ${list([question.size])}`,
    `records = [${question.records}]`,
    `compressibility = ${list([field.data])}`,
    `durability = ${list([field.durability])}`,
    `memory = ${list([field.memory])}`,
    `operations = ${list(shares(question.mix))}`,
    'trials = "7-15"',
  ];
  return `${lines.join("\n")}\n`;
}
