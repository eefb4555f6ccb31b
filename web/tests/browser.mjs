/** A headless Chromium and a server for tests. */

import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { serve } from "../serve.mjs";

export const WEB = fileURLToPath(new URL("..", import.meta.url));
export const DIST = join(WEB, "dist");
const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];

export function findChromium() {
  const folders = process.env.PATH.split(delimiter);
  const found = process.env.CHROMIUM ?? folders.flatMap((folder) => NAMES.map((name) => join(folder, name))).find(existsSync);
  if (!found) {
    console.error(
      "error: the tests of the page need Chromium or Chrome: apt-get install chromium, or set CHROMIUM to its path.",
    );
    process.exit(2);
  }
  return found;
}

/** Starts Chromium, which can reach nothing but localhost. */
export function launch(...flags) {
  const root = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  return chromium.launch({
    executablePath: findChromium(),
    args: ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1", ...root, ...flags],
  });
}

/** Serves folders on a free port; returns the address and what ends it. */
export async function host(folders = { "/": DIST }, isolated = true) {
  const server = await serve(0, folders, isolated);
  return { url: `http://localhost:${server.address().port}`, close: () => server.close() };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) findChromium();
