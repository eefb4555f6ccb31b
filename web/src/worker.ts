/** Everything that takes time, away from the page's thread. */

import { PhotographFeatures } from "./features";
import { type Manifest, readManifest } from "./manifest";
import { Network, startRuntime } from "./network";
import { matchPair } from "./pair";
import type { Matched, NumberedImage, Request, Started } from "./protocol";
import { Stopwatch } from "./stopwatch";
import { isReliable } from "./verdict";
import { warpOnto } from "./warp";

const base = new URL("./", self.location.href).href;
const networks = new Map<string, { network: Network; loading: number }>();
let photographs = new Map<number, PhotographFeatures>();
let manifest: Manifest;

async function start(): Promise<Started> {
  const begin = performance.now();
  manifest = await readManifest(base);
  const threads = await startRuntime(base);
  return { manifest, threads, milliseconds: performance.now() - begin };
}

async function opened(file: string) {
  let entry = networks.get(file);
  if (!entry) {
    const begin = performance.now();
    const network = await Network.load(new URL(`models/${file}`, base).href);
    entry = { network, loading: performance.now() - begin };
    networks.set(file, entry);
  }
  return entry;
}

async function match({ first, second, settings, live }: Extract<Request, { kind: "match" }>): Promise<Matched> {
  const entry = manifest.networks.find((other) => other.file === settings.network);
  if (!entry) throw new Error(`There is no network ${settings.network}.`);
  const { network, loading } = await opened(entry.file);
  const detector = async () => ({
    network: (await opened(manifest.detector.file)).network,
    entry: manifest.detector,
  });

  const watch = new Stopwatch();
  const features = [first, second].map(featuresOf);
  photographs = new Map([first, second].map((image, i) => [image.number, features[i]]));
  const pair = await matchPair(features, network, entry, detector, settings, watch, !live);
  let warped: ImageBitmap | null = null;
  const { model } = pair;
  if (!live && model && pair.geometry === "homography" && isReliable(pair.confidence)) {
    const { width, height } = features[0].image;
    const onto = await watch.time("warp", () => warpOnto(features[1].image, model, width, height));
    warped = await createImageBitmap(onto);
  }
  return { ...pair, warped, milliseconds: watch.milliseconds, loading };
}

function featuresOf({ number, bitmap }: NumberedImage): PhotographFeatures {
  const known = photographs.get(number);
  if (known) return known;
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (!context) throw new Error("This browser gives workers no canvas.");
  context.drawImage(bitmap, 0, 0);
  return new PhotographFeatures(context.getImageData(0, 0, bitmap.width, bitmap.height));
}

let queue: Promise<void> = Promise.resolve(); // one request at a time

self.addEventListener("message", ({ data }: MessageEvent<Request>) => {
  queue = queue.then(async () => {
    try {
      const result = data.kind === "start" ? await start() : await match(data);
      const transfer = "warped" in result && result.warped ? [result.warped] : [];
      self.postMessage({ id: data.id, result }, { transfer });
    } catch (error) {
      self.postMessage({ id: data.id, error: error instanceof Error ? error.message : String(error) });
    }
  });
});
