/**
 * Milliseconds a patch in Chromium's wasm and in Python's LiteRT, in turns in one run:
 *
 * node tests/speed.mjs [name of a network]
 */

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { DIST, WEB } from "./browser.mjs";
import { openHarness } from "./harness.mjs";

const ROUNDS = 5;
const REPEATS = 10; // batches per round, of which the fastest counts

const { networks } = JSON.parse(readFileSync(join(DIST, "models/index.json"), "utf8"));
const one = await openHarness();
const many = await openHarness({ threads: 4, isolated: true });
const python = (file, threads) => {
  const command = [join(WEB, "tests/speed.py"), join(DIST, "models", file), REPEATS, threads];
  return Number(execFileSync(join(WEB, "../.venv/bin/python"), command, { stdio: ["ignore", "pipe", "ignore"] }));
};

console.log(`${cpus().length} × ${cpus()[0].model}; best of ${ROUNDS} × ${REPEATS} batches, milliseconds a patch`);
const columns = ["wasm, 1 thread", "Python, 1 thread", `wasm, ${many.threads} threads`, `Python, ${many.threads} threads`];
console.log(`| network | ${columns.join(" | ")} |\n|${" --- |".repeat(columns.length + 1)}`);
const chosen = process.argv[2] ?? networks[0].name;
for (const { file, batch_size: batch } of networks.filter(({ name }) => name === chosen)) {
  const least = columns.map(() => Infinity);
  for (let round = 0; round < ROUNDS; round++) {
    const times = [
      await one.call("speed", { file, repeats: REPEATS }),
      python(file, 1),
      await many.call("speed", { file, repeats: REPEATS }),
      python(file, many.threads),
    ];
    times.forEach((time, i) => (least[i] = Math.min(least[i], time)));
  }
  console.log(`| ${file} | ${least.map((time) => (time / batch).toFixed(2)).join(" | ")} |`);
}
await one.close();
await many.close();
