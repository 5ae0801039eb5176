// What the data say of a choice. A choice has a level of each factor, the shares of a mix, a measure,
// whether a file may only grow and, at level sync, the time of the device's sync.

import { rank } from "./ranking.js";

export const FACTORS = ["access", "memory", "data", "durability", "size", "records"];
export const OPERATIONS = ["insert", "get", "update", "remove"];

const SELDOM_SYNCS = 0.1; // a write at level process: flushes of a buffer
export const LEAST_TRIALS = 5; // with fewer almost every store may be the best

const last = (list) => list[list.length - 1];

// The fields that agree with a choice in the first factors, up to one.
const agreeing = (fields, choice, factors) =>
  fields.filter((field) => factors.every((factor) => field[factor] === choice[factor]));

// The levels of a factor, in order, and whether each was measured with the levels chosen before it.
export function levels(fields, choice, factor) {
  const before = FACTORS.slice(0, FACTORS.indexOf(factor));
  const measured = new Set(agreeing(fields, choice, before).map((field) => field[factor]));
  const all = [...new Set(fields.map((field) => field[factor]))];
  const order = fields.reduce((found, field) => found.set(field[factor], field.order[factor]), new Map());
  all.sort((first, second) => order.get(first) - order.get(second));
  return all.map((level) => ({ level, measured: measured.has(level) }));
}

// The choice with levels that were measured together: each that was not becomes the one before it.
export function settle(fields, choice) {
  const found = { ...choice };
  for (const factor of FACTORS) {
    const own = levels(fields, found, factor);
    const at = own.findIndex(({ level }) => level === found[factor]);
    if (!own[at]?.measured) {
      const below = own.slice(0, Math.max(0, at)).filter(({ measured }) => measured);
      found[factor] = (last(below) ?? own.find(({ measured }) => measured)).level;
    }
  }
  return found;
}

export const fieldOf = (fields, choice) => agreeing(fields, choice, FACTORS)[0];

// The time of an operation in each trial, as on a device whose sync takes `sync` ns: what a write
// takes beyond the same write at level process is the device's.
function trials(field, plain, store, operation, choice) {
  const own = field.stores[store]?.[choice.measure]?.[operation];
  if (!own || !choice.sync || field.durability !== "sync" || operation === "get") return own;
  const rest = plain?.stores[store]?.[choice.measure]?.[operation];
  const syncs = plain?.stores[store]?.syncs[operation]; // then its wait for the device is not known
  if (!rest || !field.sync || syncs > SELDOM_SYNCS) return null;
  const scale = choice.sync / field.sync;
  // A field that was decided early has fewer trials.
  return own
    .slice(0, rest.length)
    .map((value, at) => (value && rest[at] ? rest[at] + Math.max(0, value - rest[at]) * scale : null));
}

// The time of the mix in each trial, by store; a store that lacks an operation of it is left out.
export function times(fields, choice, field = fieldOf(fields, choice)) {
  const plain = fieldOf(fields, { ...choice, durability: "process" });
  const shares = OPERATIONS.filter((operation) => choice.mix[operation] > 0);
  const sum = shares.reduce((total, operation) => total + choice.mix[operation], 0);
  const found = {};
  for (const store of Object.keys(field?.stores ?? {})) {
    const parts = shares.map((operation) => trials(field, plain, store, operation, choice));
    if (!sum || parts.some((part) => !part)) continue;
    found[store] = parts[0].map((_, at) =>
      parts.every((part) => part[at])
        ? parts.reduce((total, part, which) => total + (choice.mix[shares[which]] / sum) * part[at], 0)
        : null,
    );
  }
  return found;
}

// The syncs of a write of the mix; NaN where it has none, or they were not counted.
export function syncsOfWrite(store, choice) {
  const writes = OPERATIONS.filter((operation) => operation !== "get" && choice.mix[operation] > 0);
  const sum = writes.reduce((total, operation) => total + choice.mix[operation], 0);
  return writes.reduce((total, operation) => total + choice.mix[operation] * (store.syncs[operation] ?? NaN), 0) / sum;
}

// The operations of the mix that a field lacks, or lacks at the measure.
export function lacking(field, choice) {
  const shares = OPERATIONS.filter((operation) => choice.mix[operation] > 0);
  const stores = Object.values(field?.stores ?? {});
  return shares.filter((operation) => !stores.some((store) => store[choice.measure]?.[operation]));
}

// The stores whose file only grows with this mix, where the choice does not allow that.
export function growing(data, field, choice) {
  if (choice.grow || !(choice.mix.update > 0 || choice.mix.remove > 0)) return [];
  return Object.keys(field?.stores ?? {}).filter((store) => data.stores[store]?.reuses === false);
}

// The stores that C cannot call, where the choice asks for an interface for C.
export const foreign = (data, field, choice) =>
  choice.c ? Object.keys(field?.stores ?? {}).filter((store) => data.stores[store]?.c === false) : [];

export function ranking(data, fields, choice) {
  const found = times(fields, choice);
  const field = fieldOf(fields, choice);
  for (const store of [...growing(data, field, choice), ...foreign(data, field, choice)]) delete found[store];
  const ranked = rank(found, data.counted, data.quantiles);
  const geometric = (values) =>
    Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);
  return ranked.map((row) => ({ ...row, time: geometric(found[row.store].filter(Boolean)) }));
}

// The stores that are or may be the best.
export const best = (ranked) =>
  ranked.filter((row) => ["in", "undecided"].includes(row.verdict)).map((row) => row.store);

// Single changes of a choice after which the best store is surely no longer among the best.
export function flips(data, fields, choice) {
  const now = best(ranking(data, fields, choice));
  if (!now.length) return [];
  const found = [];
  const look = (what, other) => {
    const then = best(ranking(data, fields, other));
    const sure = fieldOf(fields, other)?.trials >= LEAST_TRIALS;
    if (sure && then.length && !then.includes(now[0])) found.push({ what, stores: then });
  };
  for (const factor of FACTORS) {
    for (const { level } of levels(fields, choice, factor)) {
      const other = { ...choice, [factor]: level };
      if (level !== choice[factor] && fieldOf(fields, other)) look({ factor, level }, other);
    }
  }
  for (const operation of OPERATIONS) {
    const only = Object.fromEntries(OPERATIONS.map((name) => [name, name === operation ? 100 : 0]));
    if (choice.mix[operation] < 100) look({ factor: "mix", level: operation }, { ...choice, mix: only });
  }
  look({ factor: "grow", level: !choice.grow }, { ...choice, grow: !choice.grow });
  if (choice.durability === "sync") {
    for (const sync of data.devices) look({ factor: "sync", level: sync }, { ...choice, sync });
  }
  return found;
}

// A grid that measures the stores that are or may be the best, on the reader's disk.
export function grid(field, choice, stores) {
  const list = (values) => `[${values.map((value) => JSON.stringify(value)).join(", ")}]`;
  const timed = OPERATIONS.filter((operation) => choice.mix[operation] > 0);
  const lines = [
    "# The stores that the reference data could not tell apart; about five minutes.",
    "# kvbench sweep mine.toml --out build/mine --minutes 5; kvbench collect build/mine",
    `stores = ${list(stores)}`,
    `record_sizes = ${list([field.size])}`,
    `records = [${field.records}]`,
    `compressibility = ${list([field.data])}`,
    `durability = ${list([field.durability])}`,
    `memory = ${list([field.memory])}`,
    `operations = ${list(timed)}`,
    'trials = "7-15"',
  ];
  return `${lines.join("\n")}\n`;
}
