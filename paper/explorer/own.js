// The reader's own results: the tables of a results folder, as Parquet or CSV, or one CSV table of
// what another program measured, as `kvbench import` reads it. What they do not state is missing here,
// too. What differs in a level, a machine or the like is kept apart; what cannot be used is refused.

import { csvParseRows } from "d3-dsv";
import { parquetMetadataAsync, parquetReadObjects } from "hyparquet";
import { compressors } from "hyparquet-compressors";
import { OPERATIONS } from "./answers.js";

const LONGEST = 1000; // of a text, as in the import
const MOST_COLUMNS = 1000;
const TIMES = ["mean_ns", "sum_ns", "p50_ns", "p99_ns", "n"];
const KEPT = ["cached_share", "cached_end"]; // of a store's files in the page cache
const VERSIONS = ["engine_version", "binding_version", "checksum"];
const LEVELS = { size: "record_size", records: "records", data: "compressibility", durability: "durability", memory: "memory", access: "access" };
const UNITS = { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };
const WANTED = "wanted: cells.parquet and operations.parquet of one folder, or both as CSV, or a CSV table for kvbench import";

const count = (value) => value.toLocaleString("en");
const text = (value) => (value === null || value === undefined || Number.isNaN(value) ? "" : String(value).trim());
const quoted = (value) => `"${value.length > 40 ? `${value.slice(0, 40)}…` : value}"`;

function unfit(row, name, allowed) {
  return new Error(`${row.origin}: ${name}: ${quoted(row[name] ?? "")} is not allowed; allowed: ${allowed}`);
}

function bounded(name, found, most, what) {
  if (found > most) throw new Error(`${name}: ${count(found)} ${what}; allowed: ${count(most)} at most`);
}

// The rows of a file with the columns that matter, as text, each with its place.
export async function read(file, data) {
  const wanted = ["cell", "store", "binding", "operation", "trial", "status", "guarantee", "machine", ...TIMES, ...KEPT, ...VERSIONS, ...Object.values(LEVELS), ...data.apart];
  const magic = new TextDecoder("latin1").decode(await file.slice(0, 4).arrayBuffer());
  const found = magic === "PAR1" ? await parquet(file, data.limits, wanted) : await csv(file, data.limits, wanted);
  return { ...found, name: file.name };
}

// What a table with these columns is.
function kindOf(columns, name) {
  bounded(name, columns.length, MOST_COLUMNS, "columns");
  const has = (...names) => names.every((column) => columns.includes(column));
  const kind = has("store", "operation") ? "table" : has("cell", "store") ? "cells" : has("cell", "operation") ? "operations" : has("machine", "cpu") ? "machines" : "";
  if (!kind) throw new Error(`${name}: no columns store and operation; ${WANTED}`);
  return kind;
}

async function csv(file, limits, wanted) {
  bounded(file.name, file.size, limits.csv_bytes, "B of CSV");
  let [columns, kind] = [null, ""];
  const rows = [];
  csvParseRows(decoded(await file.arrayBuffer(), file.name), (values, at) => {
    bounded(file.name, rows.length + 1, limits.rows, "rows");
    if (!values.some((value) => value.trim())) return;
    if (!columns) {
      const names = header(values, file.name);
      kind = kindOf(names, file.name);
      columns = names.map((name, place) => [name, place]).filter(([name]) => wanted.includes(name));
      columns.total = names.length;
      return;
    }
    const row = { origin: `${file.name}: row ${at + 1}` };
    if (values.length !== columns.total) throw new Error(`${row.origin}: ${values.length} values; allowed: ${columns.total}, one for each column`);
    for (const [name, place] of columns) row[name] = text(values[place]);
    rows.push(row);
  });
  if (!columns) throw new Error(`${file.name}: empty; ${WANTED}`);
  return { kind, rows };
}

function decoded(bytes, name) {
  let found = "\0";
  try {
    found = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    // said below
  }
  if (found.includes("\0")) throw new Error(`${name}: not text in UTF-8; ${WANTED}`);
  return found;
}

function header(values, name) {
  const columns = values.map((value) => value.trim());
  const line = columns.join(",");
  const other = [";", "\t", "|"].find((mark) => line.includes(mark) || line.startsWith(`sep=${mark}`));
  if (other) throw new Error(`${name}: its columns are separated by ${JSON.stringify(other)}; allowed: ","`);
  if (line.startsWith("sep=")) throw new Error(`${name}: its first line is ${quoted(line)}; allowed: the names of columns`);
  const twice = columns.length !== new Set(columns).size && columns.find((column, at) => column && columns.indexOf(column) !== at);
  if (twice) throw new Error(`${name}: column ${quoted(twice)} is there twice; allowed: once`);
  return columns;
}

async function parquet(file, limits, wanted) {
  bounded(file.name, file.size, limits.parquet_bytes, "B of Parquet");
  const buffer = { byteLength: file.size, slice: (from, to) => file.slice(from, to).arrayBuffer() };
  try {
    const metadata = await parquetMetadataAsync(buffer);
    const columns = metadata.schema.slice(1).map(({ name }) => name);
    const kind = kindOf(columns, file.name);
    bounded(file.name, Number(metadata.num_rows), limits.rows, "rows");
    const chosen = wanted.filter((name) => columns.includes(name));
    const chunks = metadata.row_groups.flatMap((group) => group.columns.map((column) => column.meta_data));
    const used = chunks.filter((chunk) => chosen.includes(chunk.path_in_schema[0]));
    const values = Math.max(0, ...used.map((chunk) => Number(chunk.num_values)));
    bounded(file.name, values, limits.rows, "rows");
    const size = used.reduce((sum, chunk) => sum + Number(chunk.total_uncompressed_size), 0);
    bounded(file.name, size, limits.parquet_bytes, "B without compression");
    const read = await parquetReadObjects({ file: buffer, metadata, columns: chosen, rowEnd: Number(metadata.num_rows), compressors });
    const rows = read.map((values, at) => {
      const row = { origin: `${file.name}: row ${at + 1}` };
      for (const name of chosen) row[name] = text(values[name]);
      return row;
    });
    return { kind, rows };
  } catch (error) {
    if (error.message.startsWith(`${file.name}: `)) throw error;
    throw new Error(`${file.name}: not readable as Parquet (${error.message.slice(0, 80)}); wanted: a file that kvbench collect wrote`);
  }
}

// The rows of these tables with all that is known of each, and what is still needed for that, if any.
export function join(tables) {
  const of = (kind) => tables.filter((table) => table.kind === kind);
  const [cells, operations] = [of("cells"), of("operations")];
  if (cells.length > 1 || operations.length > 1) {
    const twice = cells.length > 1 ? cells : operations;
    throw new Error(`${twice.map(({ name }) => name).join(", ")}: ${twice[0].kind} of several folders; drop one folder at a time`);
  }
  const rows = of("table").flatMap((table) => table.rows);
  if (cells.length !== operations.length) {
    const [there] = [...cells, ...operations];
    return { rows: [], needs: `${there.name} is read; drop the ${there.kind === "cells" ? "operations" : "cells"} of the same folder, too` };
  }
  if (!cells.length && !rows.length) throw new Error(`${tables.map(({ name }) => name).join(", ")}: no rows of a store; ${WANTED}`);
  const byName = new Map();
  for (const row of cells.flatMap((table) => table.rows)) {
    if (byName.has(row.cell)) throw unfit(row, "cell", "each cell once");
    byName.set(row.cell, row);
  }
  for (const row of operations.flatMap((table) => table.rows)) {
    const cell = byName.get(row.cell);
    if (!cell) throw new Error(`${row.origin}: cell ${quoted(row.cell)} is not in ${cells[0].name}; allowed: two tables of one folder`);
    const known = Object.fromEntries(Object.entries(row).filter(([, value]) => value !== ""));
    rows.push({ ...cell, ...known });
  }
  return { rows, needs: "" };
}

function number(row, name, least = Number.MIN_VALUE) {
  if (row[name] === "" || row[name] === undefined) return null;
  const value = /^[0-9.eE+-]+$/.test(row[name]) ? Number(row[name]) : NaN;
  if (!(value >= least && value < 2 ** 63)) throw unfit(row, name, least < 1 ? "a number above 0" : `a number from ${least}`);
  return value;
}

function whole(row, name, most, least = 1) {
  const value = number(row, name, least);
  if (value !== null && !(Number.isInteger(value) && value <= most)) throw unfit(row, name, `a whole number from ${least} to ${count(most)}`);
  return value;
}

// A size in its shortest form, as the reference data have it.
function size(row) {
  const match = /^([0-9]{1,11})(?: ?([A-Za-z]+))?(?: ?- ?([0-9]{1,11}))?(?: ?([A-Za-z]+))?$/.exec(row.record_size ?? "");
  const units = match && [match[2] ?? match[4] ?? "B", match[4] ?? match[2] ?? "B"];
  if (!match || !units.every((unit) => Object.hasOwn(UNITS, unit))) throw unfit(row, "record_size", '"100 B", "1 KiB", "1-10 KiB" or bytes');
  const shortest = (bytes) => {
    const unit = Object.keys(UNITS).reverse().find((name) => bytes && bytes % UNITS[name] === 0);
    return `${bytes / UNITS[unit ?? "B"]} ${unit ?? "B"}`;
  };
  const low = Number(match[1]) * UNITS[units[0]];
  if (match[3] === undefined) return shortest(low);
  return `${shortest(low)} to ${shortest(Number(match[3]) * UNITS[units[1]])}`;
}

// The fields of these rows, with the times of each store by trial, as in the reference data; what is
// not stated is empty. `left` says what was left out of them. Throws an Error that names the first
// row that cannot be used.
export function fieldsOf(rows, data) {
  const apart = data.apart.filter((name) => !Object.values(LEVELS).includes(name));
  const means = rows.some((row) => row.mean_ns || row.sum_ns);
  const left = { failed: 0, other: 0, untimed: 0 };
  const found = new Map();
  for (const row of rows) {
    const long = Object.keys(row).find((name) => name !== "origin" && row[name].length > LONGEST);
    if (long) throw unfit(row, long, `up to ${count(LONGEST)} characters`);
    if (row.status && row.status !== "ok") {
      left.failed += 1;
      continue;
    }
    if (!row.store) throw unfit(row, "store", "a name");
    if (!row.operation) throw unfit(row, "operation", OPERATIONS.join(", "));
    if (!OPERATIONS.includes(row.operation)) {
      left.other += 1;
      continue;
    }
    const n = number(row, "n", 0);
    const sum = n ? number(row, "sum_ns") : null;
    const mean = means ? number(row, "mean_ns") ?? (sum && sum / n) : number(row, "p50_ns");
    if (mean === null) {
      left.untimed += 1;
      continue;
    }
    const levels = { ...Object.fromEntries(Object.entries(LEVELS).map(([factor, name]) => [factor, row[name] ?? ""])), size: size(row) };
    levels.records = whole(row, "records", Number.MAX_SAFE_INTEGER);
    if (levels.records === null) throw unfit(row, "records", "a whole number from 1");
    levels.access ||= row.binding ? "python" : "";
    const rest = Object.fromEntries(apart.filter((name) => row[name]).map((name) => [name, row[name]]));
    const key = JSON.stringify([levels, rest]);
    if (found.size === data.limits.fields && !found.has(key)) throw new Error(`${row.origin}: more than ${count(found.size)} combinations of levels; allowed: ${count(found.size)} at most`);
    if (!found.has(key)) found.set(key, { levels, rest, average: means ? "mean" : "median", stores: new Map(), trials: new Set() });
    add(found.get(key), row, mean, data);
  }
  if (!found.size) throw new Error(`No row of an insert, get, update or remove with a time; ${WANTED}`);
  return { fields: [...found.values()].map((field) => fill(field, data)), left };
}

function add(field, row, mean, { limits, warm }) {
  const name = row.binding ? `${row.store}/${row.binding}` : row.store;
  if (!field.stores.has(name)) {
    const versions = Object.fromEntries(VERSIONS.map((version) => [version, row[version] ?? ""]));
    field.stores.set(name, { guarantee: row.guarantee ?? "", versions, mean: new Map(), p99: new Map(), trials: new Set(), cooled: new Set() });
    if (field.stores.size > limits.stores) throw new Error(`${row.origin}: more than ${limits.stores} stores with the same records; allowed: ${limits.stores} at most`);
  }
  const store = field.stores.get(name);
  const other = VERSIONS.find((version) => store.versions[version] !== (row[version] ?? ""));
  if (other) throw unfit(row, other, `${quoted(store.versions[other])}, as in ${name}'s other trials`);
  const trial = whole(row, "trial", limits.trials) ?? 1;
  for (const [measure, value] of [["mean", mean], ["p99", number(row, "p99_ns")]]) {
    if (value === null) continue;
    const times = store[measure].get(row.operation) ?? new Map();
    if (times.has(trial)) {
      throw new Error(`${row.origin}: ${quoted(name)} has trial ${trial} of ${row.operation} twice; number its trials in the column trial`);
    }
    store[measure].set(row.operation, times.set(trial, value));
  }
  store.trials.add(trial);
  field.trials.add(trial);
  const kept = Math.min(...KEPT.map((name) => number(row, name, 0) ?? 1));
  const free = field.rest.cache === "warm" && (field.rest.memory_max ?? "none") === "none";
  if (free && kept < warm) store.cooled.add(trial);
}

// The times as lists over the field's trials, null where a store lacks one. `cooled` says what is left
// out, as kvbench.warm does: stores whose files often left a warm page cache, and trials in which
// another store's did.
function fill({ stores, trials, ...field }, { seldom }) {
  const often = [...stores].filter(([, store]) => store.cooled.size > seldom * store.trials.size).map(([name]) => name);
  for (const name of often) stores.delete(name);
  const once = new Set([...stores.values()].flatMap((store) => [...store.cooled]));
  const numbers = [...trials].filter((trial) => !once.has(trial)).sort((first, second) => first - second);
  const listed = (times) => Object.fromEntries([...times].map(([operation, by]) => [operation, numbers.map((trial) => by.get(trial) ?? null)]));
  const own = [...stores].map(([name, store]) => [name, { guarantee: store.guarantee, mean: listed(store.mean), p99: listed(store.p99) }]);
  return { ...field, trials: numbers.length, stores: Object.fromEntries(own), cooled: { stores: often, trials: once.size } };
}
