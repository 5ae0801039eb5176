// Which stores are best, how sure that is, and what another costs: as harness/kvbench/stats/regret.py does it.

export const GOOD = 1.25; // a store with less regret is good enough

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

const PRIOR = 4; // degrees of freedom that a variance gains from the other pairs of its field
const FEWEST = 5; // stores of a field whose pairs tell what is usual
const EXACT = 1e-12; // less variance is that of values that repeat exactly

function variance(values) {
  const middle = mean(values);
  return values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1);
}

function digamma(x) {
  let [sum, at] = [0, x];
  for (; at < 10; at += 1) sum -= 1 / at;
  const square = 1 / (at * at);
  return sum + Math.log(at) - 0.5 / at - square * (1 / 12 - square * (1 / 120 - square / 252));
}

// By how much the mean log of a sample's variance is below the log of the true variance.
const bias = (freedom) => digamma(freedom / 2) - Math.log(freedom / 2);

// The variances of all pairs of stores, moved towards the usual one of those that vary.
function moderated(table, observations) {
  const pairs = table.flatMap((row, first) => row.filter((_, second) => second > first));
  const varying = pairs.filter((value) => value > EXACT);
  if (table.length < FEWEST || !varying.length) return table;
  const freedom = observations - 1;
  const usual = Math.exp(mean(varying.map(Math.log)) - bias(freedom) + bias(PRIOR));
  return table.map((row) => row.map((value) => (value > EXACT ? (PRIOR * usual + freedom * value) / (PRIOR + freedom) : value)));
}

function verdict(low, high) {
  if (high < GOOD) return "in";
  return low > GOOD ? "out" : "undecided";
}

// The trials that count, as indices, in the blocks of which each is one observation, and the quantiles for them: each
// sitting is a block if there are enough, otherwise each trial.
function blocksOf(planned, looks, sitting) {
  const by = new Map();
  for (const at of Array(planned).keys()) by.set(sitting[at] ?? 1, [...(by.get(sitting[at] ?? 1) ?? []), at]);
  by.delete(0); // trials that nobody measured
  const enough = looks.sittings.counted;
  const most = (counted) => Math.max(...Object.keys(counted).map(Number));
  if (by.size in enough || by.size > most(enough)) {
    const number = enough[Math.min(by.size, most(enough))];
    const blocks = [...by.keys()].sort((first, second) => first - second).map((one) => by.get(one));
    return [blocks.slice(0, number), looks.sittings.quantiles[number]];
  }
  const number = looks.trials.counted[Math.min(planned, most(looks.trials.counted))];
  return [[...Array(number).keys()].map((at) => [at]), looks.trials.quantiles[number]];
}

// The regret of each store, the best first. `values` has the time of each store's trials by their
// number, null where one is missing, `sitting` the sitting of each trial, if there were several, and
// `looks` what looks() of study/answers/explorer.py returns.
export function rank(values, looks, sitting = []) {
  const stores = Object.keys(values);
  const [blocks, quantiles] = blocksOf(Math.max(0, ...stores.map((store) => values[store].length)), looks, sitting);
  // A trial that no store has, for instance because some were not warm, is missing alike for all.
  const parts = blocks.map((block) => block.filter((at) => stores.some((store) => values[store][at] > 0))).filter((part) => part.length);
  const counted = parts.flat();
  const whole = stores.filter((store) => counted.length && counted.every((at) => values[store][at] > 0));
  const logs = Object.fromEntries(whole.map((store) => [store, parts.map((part) => mean(part.map((at) => Math.log(values[store][at]))))]));
  const found = whole.length > 1 ? compare(whole, logs, quantiles?.[parts.length]?.[whole.length]) : alone(whole);
  for (const row of found) row.trials = counted.length;
  for (const store of stores.filter((name) => !whole.includes(name))) {
    const best = found[0] && values[found[0].store];
    const both = values[store]
      .map((value, at) => (value > 0 && best?.[at] > 0 ? Math.log(value / best[at]) : null))
      .filter((value) => value !== null);
    const regret = both.length ? Math.exp(mean(both)) : NaN;
    found.push({ store, regret, low: NaN, high: NaN, trials: both.length, verdict: "not ranked" });
  }
  return found;
}

const alone = (stores) => stores.map((store) => ({ store, regret: 1, low: NaN, high: NaN, verdict: "not ranked" }));

function compare(stores, logs, t) {
  const observations = logs[stores[0]].length;
  const each = stores.map((first) => stores.map((second) => logs[first].map((value, at) => value - logs[second][at])));
  const variances = observations > 1 ? moderated(each.map((row) => row.map(variance)), observations) : [];
  const pair = (first, second) => {
    const middle = mean(each[first][second]);
    const width = first === second ? 0 : observations > 1 ? t * Math.sqrt(variances[first][second] / observations) : Infinity;
    return { middle, low: middle - width, high: middle + width };
  };
  const table = stores.map((_, first) => stores.map((_, second) => pair(first, second)));
  const maybe = table.map((row) => !row.some((found) => found.low > 0)); // the best of all
  const found = stores.map((store, at) => {
    const others = table[at].filter((_, other) => maybe[other] && other !== at);
    const low = maybe[at] ? 0 : Math.max(0, Math.min(...others.map((other) => other.low)));
    const high = Math.max(0, ...others.map((other) => other.high));
    const regret = Math.max(...table[at].map((other) => other.middle));
    const bounds = [regret, low, high].map(Math.exp);
    return { store, regret: bounds[0], low: bounds[1], high: bounds[2], verdict: verdict(bounds[1], bounds[2]) };
  });
  return found.sort((first, second) => first.regret - second.regret);
}
