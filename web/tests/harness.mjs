/** Opens harness.ts in a browser. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { DIST, host, launch, WEB } from "./browser.mjs";

/** Returns call(name, argument), which runs a function of harness.ts, and close(). */
export async function openHarness({ threads = 1, isolated = false, folders = {} } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "doap-web-"));
  writeFileSync(join(folder, "index.html"), "<!doctype html><title>harness</title>");
  await build({
    entryPoints: [join(WEB, "tests/harness.ts")],
    bundle: true,
    format: "iife",
    outdir: folder,
  });
  const server = await host({ "/": DIST, "/harness/": folder, "/relit/": join(WEB, "tests/relit"), ...folders }, isolated);
  const browser = await launch();
  const page = await browser.newPage();
  await page.goto(`${server.url}/harness/`);
  await page.evaluate(() => {
    window.worker = new Worker("harness.js");
  });
  const call = (name, argument) =>
    page.evaluate(
      ([name, argument]) =>
        new Promise((resolve, reject) => {
          window.worker.onmessage = ({ data }) => ("error" in data ? reject(Error(data.error)) : resolve(data.result));
          window.worker.onerror = (event) => reject(Error(event.message));
          window.worker.postMessage({ name, argument });
        }),
      [name, argument],
    );
  return {
    call,
    threads: await call("start", { threads }),
    async close() {
      await browser.close();
      server.close();
      rmSync(folder, { recursive: true });
    },
  };
}
