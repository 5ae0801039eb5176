// Where a store is best: its regret in each measured field at the terms and for the mix of a question.

import { TERMS, answer, bytesOf } from "./answers.js";
import { data, element, interval, nameOf, regret, row, word } from "./words.js";

// The sizes and numbers of records that were measured at the terms of a question, in order.
function measured(asked) {
  const fields = data.fields.filter((field) => TERMS.every((factor) => field[factor] === asked[factor]) && bytesOf(field.size) > 0);
  const sorted = (values, by) => [...new Set(values)].sort((first, second) => by(first) - by(second));
  return [sorted(fields.map((field) => field.size), bytesOf), sorted(fields.map((field) => field.records), Number)];
}

// The ranking of a store among those with the same guarantee, where it was measured.
function found(asked, store) {
  const groups = answer(data, asked).groups.filter((group) => group.grade === "measured");
  return groups.flatMap((group) => group.ranked).find((row) => row.store === store);
}

// A table, with a line that says how to read it.
export function map(asked, store) {
  const [sizes, numbers] = measured(asked);
  const table = element("table", "", "map");
  table.createCaption().textContent = `Regret of ${nameOf(store)} for this mix, by size of a value and number of records. ${data.legend}`;
  table.createTHead().append(row([["size"], ...numbers.map((number) => [word("records", number), "number"])], "th"));
  const body = table.createTBody();
  for (const size of sizes) {
    const cells = numbers.map((records) => {
      const own = found({ ...asked, size, records }, store);
      if (!own) return ["", "number"];
      const cell = element("span", `${regret(own)} ${own.verdict}`);
      cell.title = `95% interval: ${interval(own)}`;
      return [cell, `number ${own.verdict.replace(" ", "-")}`];
    });
    body.append(row([[size], ...cells]));
  }
  const wide = Object.assign(element("div", "", "wide"), { tabIndex: 0 });
  wide.setAttribute("role", "region");
  wide.setAttribute("aria-label", `Where ${nameOf(store)} is best`);
  wide.append(table);
  return [wide];
}
