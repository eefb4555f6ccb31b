/**
 * The network of whole images beside one of patches, on pairs of photographs, in turns in one run:
 *
 * node tests/pairs.mjs [folder with one.jpg and two.jpg] …
 */

import { readFileSync } from "node:fs";
import { cpus } from "node:os";
import { basename, join, resolve } from "node:path";
import { DIST } from "./browser.mjs";
import { openHarness } from "./harness.mjs";

const ROUNDS = 5; // of which the fastest counts
const KEYPOINTS = 800;

const { networks } = JSON.parse(readFileSync(join(DIST, "models/index.json"), "utf8"));
const chosen = ["images", "patches"].map((kind) => networks.find(({ reads }) => reads === kind));
const given = process.argv.slice(2);
const folders = Object.fromEntries(given.map((folder) => [`/${basename(folder)}/`, resolve(folder)]));
const names = ["samples", "relit", ...given.map((folder) => basename(folder))];

console.log(`${cpus().length} × ${cpus()[0].model}; ${KEYPOINTS} keypoints, best of ${ROUNDS} rounds`);
console.log(`| pair | network | inliers | of matches | reliable | ms, 1 thread | ms, threads |\n|${" --- |".repeat(7)}`);
const harnesses = [await openHarness({ folders }), await openHarness({ threads: 4, isolated: true, folders })];
for (const name of names) {
  const paths = ["one", "two"].map((file) => `${name}/${file}.jpg`);
  const rows = chosen.map(({ file }) => ({ file, least: harnesses.map(() => Infinity), result: null }));
  for (let round = 0; round < ROUNDS; round++) {
    for (const [k, harness] of harnesses.entries()) {
      for (const row of rows) {
        row.result = await harness.call("pair", { file: row.file, paths, keypoints: KEYPOINTS });
        const total = Object.values(row.result.milliseconds).reduce((sum, time) => sum + time, 0);
        row.least[k] = Math.min(row.least[k], total);
      }
    }
  }
  for (const { file, least, result } of rows) {
    const times = least.map((time) => time.toFixed(0)).join(" | ");
    console.log(`| ${name} | ${file} | ${result.inliers} | ${result.matches} | ${result.reliable} | ${times} |`);
  }
}
for (const harness of harnesses) await harness.close();
