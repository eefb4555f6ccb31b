/** The page in a browser. */

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { DIST, host, launch, WEB } from "./browser.mjs";
import { png, turnedByExif } from "./files.mjs";

const PATIENCE = 120_000; // milliseconds: machines that test are busy
const SCREENSHOTS = join(WEB, "screenshots");
const [one, two] = ["one", "two"].map((name) => readFileSync(join(DIST, `samples/${name}.jpg`)));
const truth = JSON.parse(readFileSync(join(DIST, "samples/truth.json"), "utf8")).homography;
const fixture = JSON.parse(readFileSync(new URL("fixture.json", import.meta.url), "utf8"));
const folder = mkdtempSync(join(tmpdir(), "doap-web-"));

let browser;
let server;

before(async () => {
  mkdirSync(SCREENSHOTS, { recursive: true });
  // The camera films the second sample.
  writeFileSync(join(folder, "camera.mjpeg"), Buffer.concat([two, two]));
  browser = await launch(
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    `--use-file-for-fake-video-capture=${join(folder, "camera.mjpeg")}`,
  );
  server = await host();
});

after(async () => {
  await browser.close();
  server.close();
  rmSync(folder, { recursive: true });
});

/** Opens the page in a fresh profile and waits until it is ready; errors of scripts fail the test. */
async function open(context, url = server.url) {
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.on("pageerror", (error) => assert.fail(error));
  await page.goto(url);
  await says(page, "#status", /Choose two photographs/);
  return page;
}

async function withPage(options, body) {
  const context = await browser.newContext(options);
  try {
    await body(await open(context), context);
  } finally {
    await context.close();
  }
}

function says(page, selector, pattern) {
  return page
    .waitForFunction(
      ([selector, source]) => new RegExp(source).exec(document.querySelector(selector).textContent)?.[0],
      [selector, pattern.source],
    )
    .then((handle) => handle.jsonValue());
}

async function matchSamples(page) {
  await page.click("#samples");
  return says(page, "#status", /\d+ of \d+ matches agree on a|No reliable match.*/);
}

function choose(page, side, name, mimeType, buffer) {
  return page.setInputFiles(`#file${side}`, { name, mimeType, buffer });
}

async function savedMatches(page) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#save-matches")]);
  return JSON.parse(readFileSync(await download.path(), "utf8"));
}

function transform(h, [x, y]) {
  const [u, v, w] = h.map((row) => row[0] * x + row[1] * y + row[2]);
  return [u / w, v / w];
}

/** Distances in pixels of where two homographies map the corners of what the second sample shows. */
function cornerErrors(model, wanted) {
  return [[150, 12], [588, 110], [500, 392], [22, 300]].map((corner) => {
    const [a, b] = [transform(model, corner), transform(wanted, corner)];
    return Math.hypot(a[0] - b[0], a[1] - b[1]);
  });
}

test("the samples match as they should, and nothing leaves the machine", async () => {
  await withPage({ viewport: { width: 1280, height: 900 } }, async (page, context) => {
    const requested = new Set();
    context.on("request", (request) => requested.add(new URL(request.url()).hostname));
    await page.reload();
    await says(page, "#status", /Choose two/);
    await matchSamples(page);
    const record = await savedMatches(page);
    assert.deepEqual([record.geometry, record.reliable, record.settings.geometry], ["homography", true, "auto"]);
    const inliers = record.inliers.filter(Boolean).length;
    const errors = cornerErrors(record.model, truth);
    console.log(`${inliers} of ${record.indices.length} matches are inliers; corners are ${errors.map((e) => e.toFixed(2))} pixels off`);
    assert.ok(inliers >= 180 && inliers >= 0.65 * record.indices.length);
    assert.ok(Math.max(...errors) < 1.5);
    assert.deepEqual([...requested], ["localhost"]);

    // The file is what Python writes.
    assert.deepEqual(Object.keys(record).sort(), [...fixture.record_keys].sort());
    const known = new Set([...fixture.settings_keys, "image1", "image2"]);
    for (const key of Object.keys(record.settings)) assert.ok(known.has(key), key);
    assert.deepEqual([record.image_size1, record.image_size2], [[600, 400], [560, 420]]);
    for (const [number, [i, j]] of record.indices.entries()) {
      assert.equal(record.scores[number], 1 - record.distances[number] / 256);
      const mapped = transform(record.model, record.keypoints1[i]);
      const residual = Math.hypot(mapped[0] - record.keypoints2[j][0], mapped[1] - record.keypoints2[j][1]);
      if (record.inliers[number]) assert.ok(Math.abs(residual - record.residuals[number]) < 1e-6 && residual <= 3);
    }

    // The second lies on the first.
    assert.equal(await page.locator("#overlay").isVisible(), true);
    const apart = await page.evaluate(() => {
      const [under, over] = ["under", "over"].map((id) => {
        const canvas = document.getElementById(id);
        return canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      });
      let sum = 0;
      let count = 0;
      for (let i = 0; i < over.length; i += 4) {
        if (!over[i + 3]) continue;
        sum += Math.abs(0.75 * under[i] + 20 - over[i]); // the second sample is darker
        count++;
      }
      return { mean: sum / count, share: (4 * count) / over.length };
    });
    assert.ok(apart.mean < 6 && apart.share > 0.4, JSON.stringify(apart));

    const [picture] = await Promise.all([page.waitForEvent("download"), page.click("#save-picture")]);
    const head = readFileSync(await picture.path()).subarray(0, 24);
    assert.deepEqual([head.readUInt32BE(16), head.readUInt32BE(20)], [600 + 560 + 8, 420]);
    await page.screenshot({ path: join(SCREENSHOTS, "desktop.png"), fullPage: true });
  });
});

test("a pair in different light matches, better than by patches", async () => {
  await withPage({}, async (page) => {
    const [first, second] = ["one", "two"].map((name) => readFileSync(join(WEB, `tests/relit/${name}.jpg`)));
    const { homography } = JSON.parse(readFileSync(join(WEB, "tests/relit/truth.json"), "utf8"));
    await choose(page, 1, "first.jpg", "image/jpeg", first);
    await says(page, "#note1", /first/);
    await choose(page, 2, "second.jpg", "image/jpeg", second);
    const inliers = [];
    for (const file of [await page.inputValue("#network"), `${fixture.default}-float32-batch64.tflite`]) {
      await page.selectOption("#network", file);
      await says(page, "#status", /agree on a homography/);
      await page.waitForFunction(() => !document.querySelector("#result.busy"));
      const record = await savedMatches(page);
      assert.ok(file.startsWith(record.settings.descriptor) && record.reliable);
      assert.ok(Math.max(...cornerErrors(record.model, homography)) < 4);
      inliers.push(record.inliers.filter(Boolean).length);
    }
    console.log(`inliers: ${inliers.join(" and ")}`);
    assert.ok(inliers[0] > 1.25 * inliers[1]);
  });
});

test("settings change the matches", async () => {
  await withPage({}, async (page) => {
    await matchSamples(page);
    const first = await savedMatches(page);
    await page.locator("#keypoints").fill("300");
    await says(page, "#counts", /Keypoints, first300/);
    await page.locator("#ratio").fill("0.8");
    await page.waitForFunction(() => !document.querySelector("#result.busy"));
    const fewer = await savedMatches(page);
    assert.equal(fewer.settings.ratio, 0.8);
    assert.deepEqual(fewer.keypoints1, first.keypoints1.slice(0, 300));
    assert.ok(fewer.indices.length < first.indices.length);
    await page.selectOption("#geometry", "fundamental");
    await page.waitForFunction(() => document.getElementById("overlay").hidden);
    const fundamental = await savedMatches(page);
    assert.equal(fundamental.geometry, "fundamental");
    for (const [number, [i, j]] of fundamental.indices.entries()) {
      if (fundamental.inliers[number]) assert.ok(sampson(fundamental.model, fundamental.keypoints1[i], fundamental.keypoints2[j]) <= 3);
    }
  });
});

function sampson(f, [x, y], [u, v]) {
  const line2 = f.map((row) => row[0] * x + row[1] * y + row[2]);
  const line1 = [0, 1].map((k) => f[0][k] * u + f[1][k] * v + f[2][k]);
  return Math.abs(u * line2[0] + v * line2[1] + line2[2]) / Math.hypot(line1[0], line1[1], line2[0], line2[1]);
}

test("every network and precision of the list runs", async () => {
  await withPage({}, async (page) => {
    await page.locator("#keypoints").fill("200");
    await matchSamples(page);
    for (const file of await page.locator("#network option").evaluateAll((options) => options.map((o) => o.value))) {
      await page.selectOption("#network", file);
      await page.waitForFunction(() => !document.querySelector("#result.busy"));
      assert.match(await page.textContent("#status"), /\d+ of \d+ matches agree/, file);
      const { settings } = await savedMatches(page);
      assert.ok(file.startsWith(`${settings.descriptor}-${settings.precision}`));
    }
  });
});

test("swapped and turned photographs match", async () => {
  await withPage({}, async (page) => {
    await matchSamples(page);
    await page.click("#swap");
    await says(page, "#note1", /two\.jpg/);
    await page.waitForFunction(() => !document.querySelector("#result.busy"));
    const swapped = await savedMatches(page);
    assert.deepEqual(swapped.image_size1, [560, 420]);
    const back = [[0, 0], [559, 0], [559, 419], [0, 419]].map((corner) => transform(truth, transform(swapped.model, corner)));
    const corners = [[0, 0], [559, 0], [559, 419], [0, 419]];
    for (const [k, [x, y]] of back.entries()) assert.ok(Math.hypot(x - corners[k][0], y - corners[k][1]) < 2);

    // The first sample, which a phone would have to show upright.
    await choose(page, 2, "turned.jpg", "image/jpeg", turnedByExif(one));
    await says(page, "#note2", /turned\.jpg · 400 × 600/);
    await choose(page, 1, "one.jpg", "image/jpeg", one);
    await says(page, "#note1", /one\.jpg/);
    await page.waitForFunction(() => !document.querySelector("#result.busy"));
    assert.match(await page.textContent("#status"), /turned to the left by 90°/);
    for (const file of [await page.inputValue("#network"), `${fixture.default}-float32-batch64.tflite`]) {
      await page.selectOption("#network", file);
      await page.waitForFunction(() => !document.querySelector("#result.busy"));
      const { model, keypoints1, keypoints2, indices } = await savedMatches(page);
      const [x, y] = transform(model, [0, 0]);
      assert.ok(Math.hypot(x - 399, y) < 0.5, `${x} ${y}`);
      const angles = indices.map(([i, j]) => (keypoints2[j][3] - keypoints1[i][3] + 360) % 360);
      assert.ok(Math.abs(angles.sort((a, b) => a - b)[angles.length >> 1] - 90) < 5);
    }
  });
});

test("bad files get a message, and the page goes on", async () => {
  await withPage({}, async (page) => {
    await choose(page, 1, "notes.txt", "text/plain", Buffer.from("no picture"));
    await says(page, "#error", /“notes.txt” is not a picture/);
    await choose(page, 1, "broken.jpg", "image/jpeg", Buffer.concat([one.subarray(0, 300), Buffer.alloc(100)]));
    await says(page, "#error", /“broken.jpg” is damaged/);
    await choose(page, 1, "dot.png", "image/png", png(1, 1));
    await says(page, "#error", /“dot.png” has 1 × 1 pixels; at least 32/);
    await choose(page, 1, "large.png", "image/png", png(8660, 5774));
    await says(page, "#note1", /large.png · 8660 × 5774 pixels, 50 megapixels; matched at 1024 × 683/);
    assert.equal(await page.textContent("#error"), "");
    await choose(page, 2, "two.jpg", "image/jpeg", two);
    await says(page, "#status", /No reliable match/);
    assert.match(await matchSamples(page), /agree/);
  });
});

test("the camera is matched with the first photograph", async () => {
  await withPage({ permissions: ["camera"] }, async (page) => {
    await choose(page, 1, "one.jpg", "image/jpeg", one);
    await says(page, "#note1", /one\.jpg/);
    await page.click("#camera");
    const text = await says(page, "#status", /^(?!0\.0)[\d.]+ frames a second · [1-9]\d+ of \d+ matches agree on a homography/);
    console.log(text);
    await page.screenshot({ path: join(SCREENSHOTS, "camera.png") });
    await page.click("#camera");
    await says(page, "#status", /Choose the other photograph/);
  });
});

test("without a camera there is a message", async () => {
  await withPage({ permissions: [] }, async (page) => {
    await choose(page, 1, "one.jpg", "image/jpeg", one);
    await says(page, "#note1", /one\.jpg/);
    await page.evaluate(() => {
      navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException("Permission denied", "NotAllowedError"));
    });
    await page.click("#camera");
    await says(page, "#error", /The camera cannot be used: Permission denied/);
    assert.match(await matchSamples(page), /agree/);
  });
});

test("below a path, from a host without special headers, and then offline", async () => {
  const plain = await host({ "/some/path/": DIST }, false);
  const context = await browser.newContext();
  try {
    const page = await open(context, `${plain.url}/some/path/`);
    assert.equal(await page.evaluate(() => self.crossOriginIsolated), true); // by the service worker
    await matchSamples(page);
    plain.close();
    await context.setOffline(true);
    await page.reload();
    await says(page, "#status", /Choose two/);
    assert.match(await matchSamples(page), /agree/);
  } finally {
    await context.close();
    plain.close();
  }
});

test("usable on a phone, with the keyboard, and by a screen reader", async () => {
  for (const colorScheme of ["light", "dark"]) {
    await withPage({ viewport: { width: 360, height: 740 }, colorScheme, hasTouch: true }, async (page) => {
      // From the top by keys only.
      await page.keyboard.press("Tab");
      assert.equal(await page.evaluate(() => document.activeElement.id), "file1");
      for (let i = 0; i < 2; i++) await page.keyboard.press("Tab");
      assert.equal(await page.evaluate(() => document.activeElement.id), "samples");
      await page.keyboard.press("Enter");
      await says(page, "#status", /agree/);
      const found = await page.evaluate(() => ({
        width: document.documentElement.scrollWidth,
        unnamed: [...document.querySelectorAll("button, input, select")]
          .filter((control) => !(control.labels?.length || control.textContent.trim()))
          .map((control) => control.id),
        small: [...document.querySelectorAll("button, .button, select, input[type=range]")]
          .filter((control) => control.getBoundingClientRect().height < 44)
          .map((control) => control.id),
      }));
      assert.deepEqual(found, { width: 360, unnamed: [], small: [] });
      assert.match(await page.getAttribute("#matches", "aria-label"), /one.jpg and two.jpg. \d+ of \d+ matches agree/);
      await page.screenshot({ path: join(SCREENSHOTS, `phone-${colorScheme}.png`), fullPage: true });
    });
  }
});
