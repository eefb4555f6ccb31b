/** The service worker: the page opens without a network, and may use threads on any host. */

declare const VERSION: string;
declare const FILES: string[];

// The types of pages and of service workers exclude each other.
interface WorkerEvent extends Event {
  readonly request: Request;
  waitUntil(promise: Promise<unknown>): void;
  respondWith(response: Promise<Response>): void;
}
declare const clients: { claim(): Promise<void> };
declare function skipWaiting(): Promise<void>;

const CACHE = `doap-${VERSION}`;

function on(name: string, listener: (event: WorkerEvent) => void): void {
  self.addEventListener(name, (event) => listener(event as WorkerEvent));
}

on("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(FILES)).then(skipWaiting));
});

on("activate", (event) => {
  event.waitUntil(removeOthers().then(() => clients.claim()));
});

on("fetch", (event) => {
  const { request } = event;
  if (request.method === "GET" && new URL(request.url).origin === self.location.origin) {
    event.respondWith(answer(request));
  }
});

async function removeOthers(): Promise<void> {
  const old = (await caches.keys()).filter((name) => name.startsWith("doap-") && name !== CACHE);
  await Promise.all(old.map((name) => caches.delete(name)));
}

async function answer(request: Request): Promise<Response> {
  const cache = await caches.open(CACHE);
  let response = await cache.match(request, { ignoreSearch: true });
  if (!response) {
    response = await fetch(request);
    if (response.ok) await cache.put(request, response.clone());
  }
  return isolated(response);
}

/** Adds what a page needs to be cross-origin isolated, without which there are no threads. */
function isolated(response: Response): Response {
  const headers = new Headers(response.headers);
  headers.set("Cross-Origin-Opener-Policy", "same-origin");
  headers.set("Cross-Origin-Embedder-Policy", "require-corp");
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}
