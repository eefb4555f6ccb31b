/** Serves dist/ on localhost: node serve.mjs [port]. */

import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json",
  ".webmanifest": "application/manifest+json",
  ".svg": "image/svg+xml",
  ".jpg": "image/jpeg",
  ".wasm": "application/wasm",
  ".tflite": "application/octet-stream",
};

const DIST = fileURLToPath(new URL("dist", import.meta.url));

/**
 * Starts a server; resolves once it listens.
 *
 * @param folders Folders by the path below which they are served.
 * @param isolated Whether pages may use threads: sends the headers of cross-origin isolation.
 */
export function serve(port, folders = { "/": DIST }, isolated = true) {
  const paths = Object.keys(folders).sort((a, b) => b.length - a.length);
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname));
    const below = paths.find((prefix) => path.startsWith(prefix));
    let file = below && join(folders[below], path.slice(below.length));
    let found = file && statSync(file, { throwIfNoEntry: false });
    if (found?.isDirectory()) {
      file = join(file, "index.html");
      found = statSync(file, { throwIfNoEntry: false });
    }
    if (!found) return response.writeHead(404).end();
    response.writeHead(200, {
      "Content-Type": TYPES[extname(file)] ?? "application/octet-stream",
      "Content-Length": found.size,
      "Cache-Control": "no-cache",
      ...(isolated && {
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Embedder-Policy": "require-corp",
      }),
    });
    return createReadStream(file).pipe(response);
  });
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", () => resolve(server));
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const port = Number(process.argv[2] ?? 8000);
  serve(port).then(
    () => console.log(`http://localhost:${port} matches two photographs; Ctrl-C ends`),
    (error) => {
      console.error(`error: port ${port} cannot be used (${error.code}): make demo PORT=8001.`);
      process.exit(2);
    },
  );
}
