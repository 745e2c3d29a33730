// The numbers of each queue since the page was opened, for the lines beside the rows and the live chart.

const KEPT_MS = 15 * 60_000;
const RATE_MS = 20_000;
const seen = new Map();

const key = (connection, queue) => JSON.stringify([connection, queue]);

export function remember(connection, queue, stats) {
  const samples = seen.get(key(connection, queue)) ?? [];
  const at = Date.now();
  samples.push({ at, ready: stats.ready, delayed: stats.delayed, leased: stats.leased, dead: stats.dead });
  while (samples[0].at < at - KEPT_MS) samples.shift();
  seen.set(key(connection, queue), samples);
}

export const samplesOf = (connection, queue) => seen.get(key(connection, queue)) ?? [];

/** Messages per second by which the unfinished work grew lately (below 0: shrank); null until that is known. */
export function rateOf(connection, queue) {
  const samples = samplesOf(connection, queue);
  const last = samples.at(-1);
  const first = samples.find((sample) => last.at - sample.at <= RATE_MS);
  if (!first || last.at - first.at < 1500) return null;
  return ((left(last) - left(first)) * 1000) / (last.at - first.at);
}

const left = (sample) => sample.ready + sample.delayed + sample.leased;
