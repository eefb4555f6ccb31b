/** The page computes what Python computes. tests/fixture.json has Python's numbers. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { openHarness } from "./harness.mjs";

const fixture = JSON.parse(readFileSync(new URL("fixture.json", import.meta.url), "utf8"));
const NAMES = ["one", "two"];
const COUNT = 256; // patches that are compared
const FINEST = 1.6; // radius of keypoints of the image itself
let harness;

before(async () => (harness = await openHarness()));
after(() => harness.close());

function bytes(text) {
  return [...Buffer.from(text, "base64")];
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function largest(values) {
  return values.reduce((most, value) => Math.max(most, value), 0);
}

function differingBits(first, second) {
  return first.reduce((sum, byte, i) => sum + (byte ^ second[i]).toString(2).replaceAll("0", "").length, 0);
}

test("photographs have the same grey values", async () => {
  for (const [side, name] of NAMES.entries()) {
    const wanted = bytes(fixture.grey[side]);
    const got = await harness.call("grey", name);
    const differences = got.map((value, i) => Math.abs(value - wanted[i]));
    console.log(`grey values of ${name}: at most ${largest(differences)} apart`);
    assert.equal(got.length, wanted.length);
    assert.equal(largest(differences), 0);
  }
});

test("keypoints are found in the same places", async () => {
  for (const [side, name] of NAMES.entries()) {
    const wanted = fixture.keypoints[side];
    const got = await harness.call("keypoints", name);
    const found = wanted.filter(([x, y, radius]) =>
      got.some(
        (other) =>
          Math.hypot(other.x - x, other.y - y) < (0.5 * radius) / FINEST && Math.abs(other.radius - radius) < 0.01,
      ),
    );
    console.log(`${found.length} of Python's ${wanted.length} keypoints of ${name} within half a pixel of their level`);
    assert.ok(found.length >= 0.97 * wanted.length);
  }
});

test("keypoints are turned in the same directions", async () => {
  const rows = fixture.keypoints[0];
  const got = await harness.call("angles", { name: "one", rows });
  const apart = got.map((angle, i) => Math.abs(Math.atan2(Math.sin(angle - rows[i][3]), Math.cos(angle - rows[i][3]))));
  const near = apart.filter((angle) => angle < 0.1).length;
  console.log(`${near} of ${rows.length} angles within 0.1 radians`);
  assert.ok(near >= 0.95 * rows.length);
});

test("patches have the same pixels", async () => {
  const wanted = bytes(fixture.patches[fixture.networks[0].patches]);
  const got = (await harness.call("patches", { file: fixture.networks[0].file, name: "one", rows: fixture.keypoints[0].slice(0, COUNT) })).flat();
  const differences = got.map((value, i) => Math.abs(value - wanted[i]));
  console.log(`pixels of ${COUNT} patches: at most ${largest(differences).toFixed(2)} apart, ${mean(differences).toFixed(5)} on average`);
  assert.ok(largest(differences) <= 1 && mean(differences) < 0.001);
});

test("descriptors of the same patches have the same bits", async () => {
  for (const { file, patches: extent, descriptors } of fixture.networks) {
    const patches = bytes(fixture.patches[extent]);
    const wanted = bytes(descriptors);
    const got = await harness.call("descriptors", { file, patches });
    const share = differingBits(got, wanted) / (8 * wanted.length);
    console.log(`${file}: ${(100 * share).toFixed(4)} % of the bits differ`);
    assert.equal(got.length, wanted.length);
    assert.ok(share <= (file.includes("int8") ? 0.001 : 0));
  }
});

test("the same keypoints are matched in the same way", async () => {
  for (const { file, matches } of fixture.networks.filter(({ file }) => file.startsWith(fixture.default))) {
    const got = await harness.call("matches", { file, keypoints: fixture.keypoints, ratio: fixture.ratio });
    const keys = new Set(got.map(String));
    const shared = matches.filter((pair) => keys.has(String(pair))).length;
    const share = shared / (got.length + matches.length - shared);
    console.log(`${file}: ${matches.length} matches in Python, ${got.length} here, ${shared} shared`);
    assert.ok(share >= (file.includes("int8") ? 0.95 : 0.98));
  }
});

// Photographs of a size of the network are computed as in Python; others are padded more.
for (const [folder, leastFound, mostBits] of [["relit", 0.99, 0.001], ["samples", 0.97, 0.08]]) {
  test(`the network of whole images finds and describes the same keypoints of ${folder}`, async () => {
    for (const [side, name] of NAMES.entries()) {
      const { keypoints, descriptors } = fixture.dense[folder][side];
      const wanted = Buffer.from(descriptors, "base64");
      const size = wanted.length / keypoints.length;
      const got = await harness.call("dense", { folder, name, count: keypoints.length });
      let [found, bits] = [0, 0];
      for (const [i, [x, y, radius]] of keypoints.entries()) {
        const k = got.keypoints.findIndex(
          (other) => Math.hypot(other.x - x, other.y - y) < 0.1 && Math.abs(other.radius - radius) < 0.01,
        );
        if (k < 0) continue;
        found++;
        bits += differingBits(got.descriptors.slice(k * size, (k + 1) * size), wanted.subarray(i * size, (i + 1) * size));
      }
      const share = bits / (8 * size * found);
      console.log(
        `${found} of Python's ${keypoints.length} keypoints of ${folder}/${name} within a tenth of a pixel, ${(100 * share).toFixed(4)} % of their bits differ`,
      );
      assert.ok(found >= leastFound * keypoints.length && share <= mostBits);
    }
  });
}
