/** Homographies and fundamental matrices from matches of which many are wrong. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { build } from "esbuild";
import { WEB } from "./browser.mjs";

const { outputFiles } = await build({
  stdin: {
    contents: 'export { verify } from "./ransac"; export { GEOMETRIES } from "./geometries";',
    resolveDir: join(WEB, "src"),
  },
  bundle: true,
  format: "esm",
  write: false,
});
const { verify, GEOMETRIES } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);

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
  const { model, inliers } = verify(GEOMETRIES.homography, first, spoilt(first, map), 3);
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
  const { model, inliers } = verify(
    GEOMETRIES.fundamental,
    first,
    spoilt(first, (_, i) => seen(moved(points[i]))),
    1,
  );
  const residuals = points.map((point) => GEOMETRIES.fundamental.residual(model, seen(point), seen(moved(point))));
  assert.ok(Math.max(...residuals) < 0.7);
  assert.ok(inliers.every((inlier, i) => i % 3 === 0 || inlier));
  const [a, b, c, d, e, f, g, h, i] = model;
  assert.ok(Math.abs(a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)) < 1e-12); // rank two
});

test("chance and degenerate matches give no model", () => {
  const first = Array.from({ length: 60 }, wrong);
  for (const geometry of Object.values(GEOMETRIES)) {
    for (const [one, two] of [
      [first.slice(0, 3), first.slice(0, 3)],
      [[], []],
      [first.map(() => [5, 5]), first],
    ]) {
      const { model, inliers } = verify(geometry, one, two, 3);
      assert.equal(model, null);
      assert.deepEqual(inliers, one.map(() => false));
    }
  }
  assert.equal(verify(GEOMETRIES.homography, first, first.map(wrong), 3).model, null);
});
