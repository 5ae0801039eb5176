// The reader's own results: the tables of a results folder, as Parquet or CSV, or one CSV table of
// what another program measured, as `kvbench import` reads it.

import { csvParse } from "d3-dsv";
import { parquetReadObjects } from "hyparquet";
import { compressors } from "hyparquet-compressors";

const number = (value) => (value === "" || value === null || value === undefined ? null : Number(value));

export async function read(file) {
  const bytes = await file.arrayBuffer();
  const magic = new TextDecoder("latin1").decode(bytes.slice(0, 4));
  if (magic === "PAR1") return parquetReadObjects({ file: bytes, compressors });
  return csvParse(new TextDecoder().decode(bytes));
}

// The fields of these tables, as those of the reference data; throws an Error with what is missing.
export function fieldsOf(tables) {
  const has = (table, ...columns) => columns.every((column) => column in (table[0] ?? {}));
  const joined = tables.find((table) => has(table, "store", "operation"));
  const cells = tables.find((table) => has(table, "cell", "store") && !has(table, "operation"));
  const operations = tables.find((table) => has(table, "cell", "operation"));
  if (!joined && !(cells && operations)) {
    throw new Error("Wanted: operations.parquet and cells.parquet of one folder (or both as CSV), or a table for kvbench import.");
  }
  const byName = new Map((cells ?? []).map((cell) => [cell.cell, cell]));
  const rows = joined ?? operations.map((row) => ({ ...byName.get(row.cell), ...row }));
  const found = new Map();
  for (const row of rows) {
    const mean = row.mean_ns ? number(row.mean_ns) : number(row.sum_ns) / number(row.n);
    if (!row.store || !["insert", "get", "update", "remove"].includes(row.operation) || !(mean > 0)) continue;
    const levels = {
      access: row.binding ? "python" : "c",
      memory: row.memory || "default",
      data: row.compressibility || "incompressible",
      durability: row.durability || "default",
      size: row.record_size,
      records: number(row.records),
    };
    const key = JSON.stringify(levels);
    if (!found.has(key)) found.set(key, { ...levels, stores: {} });
    const store = row.binding ? `${row.store}/${row.binding}` : row.store;
    const own = (found.get(key).stores[store] ??= { mean: {}, p99: {} });
    const trial = (number(row.trial) || 1) - 1;
    (own.mean[row.operation] ??= [])[trial] = mean;
    if (number(row.p99_ns)) (own.p99[row.operation] ??= [])[trial] = number(row.p99_ns);
  }
  if (!found.size) throw new Error("No row of an insert, get, update or remove with a time.");
  return [...found.values()].map(fill);
}

// Trials that are not there are null, in each store as many.
function fill(field) {
  const lists = Object.values(field.stores).flatMap((own) =>
    ["mean", "p99"].flatMap((measure) => Object.values(own[measure])),
  );
  const most = Math.max(...lists.map((list) => list.length));
  for (const list of lists) for (let at = 0; at < most; at += 1) list[at] ??= null;
  return field;
}
