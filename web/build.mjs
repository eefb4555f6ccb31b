/** Bundles the page into dist/: static files with relative paths, for any host. */

import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const dist = join(here, "dist");
if (!existsSync(join(here, "public/models/index.json"))) {
  console.error("error: public/models is missing: run python web/export_models.py, or make demo.");
  process.exit(2);
}

rmSync(dist, { recursive: true, force: true });
cpSync(join(here, "public"), dist, { recursive: true });

// A browser loads one of these: with threads, with relaxed SIMD, or with neither. The fourth that
// the package has is for WebNN.
mkdirSync(join(dist, "wasm"));
const wasm = join(here, "node_modules/@litertjs/core/wasm");
for (const variant of ["threaded_", "", "compat_"]) {
  for (const ending of ["js", "wasm"]) {
    const file = `litert_wasm_${variant}internal.${ending}`;
    cpSync(join(wasm, file), join(dist, "wasm", file));
  }
}

const settings = { bundle: true, minify: true, format: "iife", target: "es2022", outdir: dist };
await build({ ...settings, entryPoints: ["main", "worker"].map((name) => join(here, `src/${name}.ts`)) });

// The service worker keeps these from the start, the rest when first used.
const files = readdirSync(dist, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath, entry.name).slice(dist.length + 1).replaceAll("\\", "/"))
  .sort();
const hash = createHash("sha256");
for (const file of files) hash.update(file).update(readFileSync(join(dist, file)));
const small = files.filter((file) => !/\.(tflite|wasm)$|^wasm\//.test(file));
await build({
  ...settings,
  entryPoints: [join(here, "src/sw.ts")],
  define: { VERSION: JSON.stringify(hash.digest("hex").slice(0, 16)), FILES: JSON.stringify(["./", ...small]) },
});
