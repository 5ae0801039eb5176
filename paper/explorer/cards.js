// What to copy of a store, with what it may cost beside it.

import { data, element, survives, times } from "./words.js";

// A store in a field: its settings, what a crash may cost, and what is known of it.
export function card(store, field, guarantee, shipped) {
  const facts = data.stores[store];
  const box = element("article");
  const set = shipped ? "as shipped" : facts.settings?.[field.durability];
  const cost = facts.consequence?.[field.durability];
  box.append(element("h3", store.includes("/") ? facts.name : `${facts.name} (${store})`));
  box.append(element("p", set ? `${set[0].toUpperCase()}${set.slice(1)}.` : ""), element("p", cost ? `${cost[0].toUpperCase()}${cost.slice(1)}.` : "", "warning"));
  const list = element("dl");
  const known = {
    survives: survives(guarantee), language: facts.language, licence: facts.licence, measured: field.stores[store].version, "latest release": facts.latest,
    "adds to a program": facts.installed && `${times(facts.installed / 2 ** 20)} MiB`, "several processes": facts.processes, "to know": facts.known,
  };
  for (const [name, text] of Object.entries(known).filter(([, text]) => text)) list.append(element("dt", name), element("dd", text));
  box.append(list);
  return box;
}
