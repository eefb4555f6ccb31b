/** Homographies and fundamental matrices from matches of which many are wrong. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { build } from "esbuild";
import { WEB } from "./browser.mjs";

const { outputFiles } = await build({
  stdin: {
    contents: ["geometries", "ransac", "verdict"].map((name) => `export * from "./${name}";`).join("\n"),
    resolveDir: join(WEB, "src"),
  },
  bundle: true,
  format: "esm",
  write: false,
});
const { confidence, evidence, GEOMETRIES, hasParallax, verify } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

const fixture = JSON.parse(readFileSync(new URL("fixture.json", import.meta.url), "utf8"));
let state = 1;
function random() {
  state = (state * 48271) % 2147483647;
  return state / 2147483647;
}

function uniform(low, high) {
  return low + (high - low) * random();
}

function wrong() {
  return [uniform(0, 640), uniform(0, 480)];
}

/** Matches of which every third is wrong; the others have noise of half a pixel. */
function spoilt(first, project) {
  const second = first.map((point, i) => (i % 3 ? project(point, i).map((value) => value + uniform(-0.5, 0.5)) : wrong()));
  return second;
}

test("a homography", () => {
  const h = [0.8, -0.3, 120, 0.25, 0.9, -30, 2e-4, -1e-4, 1];
  const map = ([x, y]) => {
    const depth = h[6] * x + h[7] * y + h[8];
    return [(h[0] * x + h[1] * y + h[2]) / depth, (h[3] * x + h[4] * y + h[5]) / depth];
  };
  const first = Array.from({ length: 150 }, wrong);
  const { geometry, model, inliers, confidence } = verify("auto", first, spoilt(first, map), 3);
  assert.equal(geometry, "homography");
  assert.ok(confidence > 0.9);
  for (const corner of [[0, 0], [640, 0], [640, 480], [0, 480]]) {
    assert.ok(GEOMETRIES.homography.residual(model, corner, map(corner)) < 0.7);
  }
  assert.ok(inliers.every((inlier, i) => i % 3 === 0 || inlier));
  assert.ok(inliers.filter((inlier, i) => inlier && i % 3 === 0).length <= 1);
});

test("a fundamental matrix", () => {
  // Points in space seen by two cameras of focal length 500: the second is turned and moved.
  const [cosine, sine] = [Math.cos(0.2), Math.sin(0.2)];
  const points = Array.from({ length: 240 }, () => [uniform(-2, 2), uniform(-1.5, 1.5), uniform(4, 8)]);
  const seen = ([x, y, z]) => [(500 * x) / z + 320, (500 * y) / z + 240];
  const moved = ([x, y, z]) => [cosine * x + sine * z - 1.5, y + 0.2, -sine * x + cosine * z + 0.3];
  const first = points.map(seen);
  const { geometry, model, inliers, confidence } = verify(
    "auto",
    first,
    spoilt(first, (_, i) => seen(moved(points[i]))),
    1,
  );
  assert.equal(geometry, "fundamental");
  assert.ok(confidence > 0.9);
  const residuals = points.map((point) => GEOMETRIES.fundamental.residual(model, seen(point), seen(moved(point))));
  assert.ok(Math.max(...residuals) < 0.7);
  assert.ok(inliers.every((inlier, i) => i % 3 === 0 || inlier));
  const [a, b, c, d, e, f, g, h, i] = model;
  assert.ok(Math.abs(a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)) < 1e-12); // rank two
});

test("the verdict is that of Python on the same matches", () => {
  for (const { first, second, geometry, model, threshold, digits, plane } of fixture.verdicts) {
    const matrix = model.flat();
    assert.ok(Math.abs(evidence(first, second, { geometry, matrix }, threshold) - digits) < 1e-6);
    if (plane) assert.equal(hasParallax(first, second, plane.homography.flat(), matrix, threshold), plane.parallax);
  }
  assert.equal(confidence(fixture.reliable_evidence), 0.5);
});

test("chance and degenerate matches are not reliable", () => {
  const first = Array.from({ length: 60 }, wrong);
  for (const geometry of ["auto", ...Object.keys(GEOMETRIES)]) {
    for (const [one, two] of [
      [first.slice(0, 3), first.slice(0, 3)],
      [[], []],
      [first.map(() => [5, 5]), first],
    ]) {
      const { inliers, confidence } = verify(geometry, one, two, 3);
      assert.equal(inliers.length, one.length);
      assert.equal(confidence, 0);
    }
  }
  for (let i = 0; i < 2; i++) assert.ok(verify("auto", first.map(wrong), first.map(wrong), 3).confidence < 0.5);
});
