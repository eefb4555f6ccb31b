/** Parts of the page for tests and measurements, in a worker: call(name, argument) → result. */

import { Pyramid } from "../src/cutting";
import { detect } from "../src/detector";
import { DenseReading } from "../src/dense";
import { describeAt, PhotographFeatures } from "../src/features";
import { greyOf, type Grey } from "../src/grey";
import { matchBits } from "../src/hamming";
import type { Keypoint } from "../src/keypoints";
import { type Manifest, type PatchEntry, readManifest } from "../src/manifest";
import { Network, startRuntime } from "../src/network";
import { dominantAngle } from "../src/orientation";
import { matchPair } from "../src/pair";
import { readPhotograph } from "../src/photographs";
import { Stopwatch } from "../src/stopwatch";
import { isReliable } from "../src/verdict";

const base = new URL("/", self.location.href).href;
let manifest: Manifest;
const networks = new Map<string, Network>();

async function opened(file: string): Promise<Network> {
  const network = networks.get(file) ?? (await Network.load(`${base}models/${file}`));
  networks.set(file, network);
  return network;
}

function entryOf(file: string): PatchEntry {
  const entry = manifest.networks.find((other) => other.file === file);
  if (entry?.reads !== "patches") throw new Error(file);
  return entry;
}

async function photograph(path: string): Promise<ImageData> {
  const response = await fetch(`${base}${path}`);
  const { bitmap } = await readPhotograph(await response.blob(), path);
  const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
  if (!context) throw new Error("no canvas");
  context.drawImage(bitmap, 0, 0);
  return context.getImageData(0, 0, bitmap.width, bitmap.height);
}

async function sample(name: string, folder = "samples"): Promise<Grey> {
  return greyOf(await photograph(`${folder}/${name}.jpg`));
}

/** From rows of x, y, radius, angle, score. */
function keypointsOf(rows: number[][]): Keypoint[] {
  return rows.map(([x, y, radius, angle, score]) => ({ x, y, radius, angle, score }));
}

const functions = {
  async start({ threads }: { threads: number }) {
    manifest = await readManifest(base);
    return startRuntime(base, threads);
  },

  async grey(name: string) {
    return [...(await sample(name)).pixels];
  },

  async keypoints(name: string) {
    const image = await sample(name);
    return detect(image, await opened(manifest.detector.file), manifest.detector);
  },

  async angles({ name, rows }: { name: string; rows: number[][] }) {
    const pyramid = new Pyramid(await sample(name));
    return keypointsOf(rows).map((keypoint) => dominantAngle(pyramid, keypoint));
  },

  async patches({ file, name, rows }: { file: string; name: string; rows: number[][] }) {
    const pyramid = new Pyramid(await sample(name));
    const { input_size: size, magnification } = entryOf(file);
    return keypointsOf(rows).map((keypoint) => {
      const patch = new Float32Array(size * size);
      pyramid.cut(keypoint, size, magnification, patch);
      return [...patch];
    });
  },

  /** Descriptors of patches, whose number must be a multiple of the batch. */
  async descriptors({ file, patches }: { file: string; patches: number[] }) {
    const network = await opened(file);
    const { batch_size: batch, input_size: size } = entryOf(file);
    const rows: number[] = [];
    for (let start = 0; start < patches.length; start += batch * size * size) {
      rows.push(...(await network.run(Float32Array.from(patches.slice(start, start + batch * size * size)))));
    }
    return rows;
  },

  async matches({ file, keypoints, ratio }: { file: string; keypoints: number[][][]; ratio: number }) {
    const [network, entry] = [await opened(file), entryOf(file)];
    const rows: Uint32Array[] = [];
    for (const [side, name] of ["one", "two"].entries()) {
      const pyramid = new Pyramid(await sample(name));
      const bytes = await describeAt(pyramid, keypointsOf(keypoints[side]), network, entry, new Stopwatch());
      rows.push(new Uint32Array(bytes.buffer));
    }
    return matchBits(rows[0], rows[1], entry.output_dim / 32, ratio).indices;
  },

  /** The strongest keypoints of the network of whole images, and their bits. */
  async dense({ folder, name, count }: { folder: string; name: string; count: number }) {
    const [entry] = manifest.networks;
    if (entry.reads !== "images") throw new Error(entry.file);
    const reading = await DenseReading.of(await sample(name, folder), await opened(entry.file), entry);
    return { keypoints: reading.keypoints.slice(0, count), descriptors: [...(await reading.describe(0, count))] };
  },

  /** Matches two photographs from the start; returns counts and the milliseconds of the stages. */
  async pair({ file, paths, keypoints }: { file: string; paths: string[]; keypoints: number }) {
    const entry = manifest.networks.find((other) => other.file === file);
    if (!entry) throw new Error(file);
    const network = await opened(file);
    const detector = { network: await opened(manifest.detector.file), entry: manifest.detector };
    const features = (await Promise.all(paths.map(photograph))).map((image) => new PhotographFeatures(image));
    const watch = new Stopwatch();
    const settings = { network: file, keypoints, ratio: 0.9, geometry: "auto" } as const;
    const pair = await matchPair(features, network, entry, async () => detector, settings, watch, true);
    return {
      inliers: pair.inliers.filter(Boolean).length,
      matches: pair.indices.length,
      reliable: isReliable(pair.confidence),
      milliseconds: watch.milliseconds,
    };
  },

  /** The least milliseconds of a batch. */
  async speed({ file, repeats }: { file: string; repeats: number }) {
    const network = await opened(file);
    const { batch_size: batch, input_size: size } = entryOf(file);
    const input = Float32Array.from({ length: batch * size * size }, (_, i) => (i * 7919) % 256);
    let least = Infinity;
    for (let i = 0; i < repeats; i++) {
      const begin = performance.now();
      await network.run(input);
      least = Math.min(least, performance.now() - begin);
    }
    return least;
  },
};

self.addEventListener("message", async ({ data: { name, argument } }) => {
  try {
    self.postMessage({ result: await functions[name as keyof typeof functions](argument as never) });
  } catch (error) {
    self.postMessage({ error: String(error) });
  }
});
